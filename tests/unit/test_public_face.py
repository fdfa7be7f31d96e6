"""What users import from ``regrow``: exactly what is listed, documented, typed, and free of the rooms behind it."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import regrow
from regrow_signals import errors

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "regrow_signals": ROOT / "signals" / "regrow_signals",
    "regrow_workers": ROOT / "workers" / "regrow_workers",
    "regrow_supervisor": ROOT / "supervisor" / "regrow_supervisor",
    "regrow": ROOT / "regrow",
}

# The names of the contract's example and table of directives; one of these may be added to, not taken away.
PROMISED = {
    "Agent", "AsyncClient", "Cancel", "Client", "Context", "Cron", "cron",
    "EffectContext", "Emit", "Payload", "Reject", "Schedule", "Signal", "State",
    "Step", "Stop", "Supervisor", "effect", "every", "handles",
    # What the clients' calls return, so that a caller can annotate it.
    "ChildCounts", "ChildInfo", "Deleted", "Receipt", "SentReceipt", "StartedChild", "Status",
}  # fmt: skip


def public_names(module: ModuleType) -> set[str]:
    """What is there to be imported, submodules and names of the language apart."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "annotations" and not is_submodule(value, module)
    }


def is_submodule(value: object, module: ModuleType) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}.")


def test_the_list_is_exactly_what_can_be_imported() -> None:
    assert public_names(regrow) | {"errors"} == set(regrow.__all__)
    assert len(regrow.__all__) == len(set(regrow.__all__))


def test_the_names_of_the_contract_are_there() -> None:
    assert set(regrow.__all__) >= PROMISED


def test_every_name_has_a_docstring_of_its_own() -> None:
    aliases = {"Step"}  # a type alias cannot carry one
    for name in set(regrow.__all__) - aliases:
        assert inspect.getdoc(getattr(regrow, name)), name


def test_every_error_that_a_user_may_meet_is_of_one_root() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), regrow.RegrowError), name
        assert getattr(regrow.errors, name) is getattr(errors, name)


def test_the_tree_at_the_top_of_the_errors_is_the_tree_below() -> None:
    drawn = set(re.findall(r"\b[A-Z]\w+[a-z]\w*\b", (errors.__doc__ or "").split("\n\n", 1)[1]))

    assert set(errors.__all__) <= drawn


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_lists_what_it_gives_and_the_list_is_true(room: str) -> None:
    for path in sorted(ROOMS[room].rglob("*.py")):
        relative = path.relative_to(ROOMS[room]).with_suffix("")
        if relative.name in ("__init__", "__main__", "tied"):  # faces, and a script that is run by its path
            continue
        module = importlib.import_module(".".join([room, *relative.parts]))
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), f"{module.__name__}.{name}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_package_is_typed_and_says_what_lives_in_it(room: str) -> None:
    assert (ROOMS[room] / "py.typed").exists()
    assert inspect.getdoc(importlib.import_module(room))


def test_importing_regrow_starts_no_thread_and_opens_no_connection() -> None:
    script = "import threading, regrow; assert threading.active_count() == 1; assert 'rq' not in sys.modules"
    paths = [str(path.parent) for path in ROOMS.values()]

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys; sys.path[:0] = {paths!r}; {script}"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
