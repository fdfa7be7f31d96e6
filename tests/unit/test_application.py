"""Loading ``module:attribute``: what is there is found, what is wrong is said in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from regrow_signals.errors import ApplicationError, BadDefinition
from regrow_workers.agent import Agent
from regrow_workers.application import load, types_by_name
from regrow_workers.state import State

HEAD = """
from regrow_workers.agent import Agent
from regrow_workers.application import on_worker_start
from regrow_workers.effects.effect import EffectContext, effect
from regrow_workers.state import State

class Desk(State):
    pass

class Support(Agent[Desk], name="support", aliases=("helpdesk",)):
    pass

class Tree:
    name = "root"
    def agent_types(self):
        return {"support": Support}

tree = Tree()
number = 5
"""

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module into the working folder; its name is new in each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written: list[str] = []

    def module(text: str) -> str:
        name = f"app_{tmp_path.name.replace('-', '_')}_{len(written)}"
        (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        written.append(name)
        return name

    yield module
    for name in written:
        sys.modules.pop(name, None)


def test_what_is_there_is_found(write: Write) -> None:
    name = write(
        HEAD
        + """
@effect(name="app_charge")
def charge(run: EffectContext, cents: int) -> int:
    return cents

@on_worker_start
def open_files() -> None:
    pass
"""
    )

    application = load(f"{name}:tree")

    assert application.tree.name == "root"
    assert set(application.agent_types) == {"support", "helpdesk"}
    assert application.agent_types["support"] is application.agent_types["helpdesk"]
    assert application.effects["app_charge"].name == "app_charge"
    assert getattr(application.on_worker_start[-1], "__name__", None) == "open_files"


def test_an_attribute_may_be_inside_another(write: Write) -> None:
    name = write(HEAD + "\nclass Box:\n    inner = tree\n")

    assert load(f"{name}:Box.inner").tree.name == "root"


@pytest.mark.parametrize(
    "target", ["", "helpdesk", ":tree", "helpdesk:", "a b:tree", "a/b.py:tree", "a..b:tree", "..x:y"]
)
def test_what_names_no_application_is_refused_with_an_example(target: str) -> None:
    with pytest.raises(ApplicationError, match='write "module:attribute", such as helpdesk:tree'):
        load(target)


def test_a_module_that_is_not_there_names_the_folder(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ApplicationError, match="no module 'not_there_at_all' in ") as refused:
        load("not_there_at_all:tree")

    assert str(tmp_path) in str(refused.value)


def test_a_package_that_is_not_there(write: Write) -> None:
    with pytest.raises(ApplicationError, match="no module 'not_there_at_all'"):
        load("not_there_at_all.inner:tree")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import not_there_either\n", "failed: ModuleNotFoundError: No module named 'not_there_either'"),
        ("x = 1\nraise ValueError('boom')\n", r"failed: ValueError: boom \(.*\.py:2\)"),
        ("def f(:\n", r"failed: SyntaxError: .*\.py"),
        ("import sys\nsys.exit(3)\n", r"ended the process: SystemExit\(3\)"),
        ("{}['key']\n", "failed: KeyError: 'key'"),
        (
            HEAD + "\nclass Twice(Agent[Desk], name='a b'):\n    pass\n",
            "failed: BadDefinition: Twice: name 'a b' is not usable",
        ),
    ],
)
def test_an_import_that_fails_shows_the_exception_in_one_line(write: Write, text: str, told: str) -> None:
    name = write(text)

    with pytest.raises(ApplicationError, match=f"^importing {name} {told}") as refused:
        load(f"{name}:tree")

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("attribute", "told"),
    [
        ("tre", "has no attribute 'tre'; did you mean 'tree'"),
        ("zzzzzz", "has no attribute 'zzzzzz'; there are: tree"),
        ("tree.inner", "has no attribute 'inner'"),
        ("number", "a int is no tree; it must be a Supervisor"),
        ("Support", "the class Support is no tree"),
        ("Tree", "the class Tree is no tree"),
    ],
)
def test_an_attribute_that_is_no_tree(write: Write, attribute: str, told: str) -> None:
    name = write(HEAD)

    with pytest.raises(ApplicationError, match=told):
        load(f"{name}:{attribute}")


class Desk(State):
    pass


class One(Agent[Desk], name="one", aliases=("first",)):
    pass


class Other(Agent[Desk], name="first"):
    pass


def test_two_types_of_one_name_are_refused() -> None:
    with pytest.raises(BadDefinition, match="both answer to 'first'"):
        types_by_name([One, Other])


def test_one_type_twice_is_one() -> None:
    assert types_by_name([One, One]) == {"one": One, "first": One}
