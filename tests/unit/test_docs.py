"""What the pages say of settings, metrics, programs, commands and links is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import regrow
from regrow.cli.group import cli
from tests.unit.docs_tables import DOCS, MARK, tables_of

ROOT = DOCS.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
DESIGN_PROGRAM = ROOT / "tests" / "typing" / "design_program.py"
EFFECTS_PROGRAM = ROOT / "tests" / "typing" / "readme_effects.py"

_PROGRAM = re.compile(r"<!-- program: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
PROGRAMS = dict(_PROGRAM.findall(README))
NOT_THERE = README[README.index("Not there yet:\n") : README.index("## Figures")]
"""The list of what is missing; all else that the page names is there."""


def _commands(group: click.Group, before: str = "") -> Iterator[str]:
    """Every command, ``dead list`` as two words; groups only as the words before."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


COMMANDS = set(_commands(cli))


@pytest.mark.parametrize("page", ["settings.md", "metrics.md"])
def test_tables_of_the_page_are_those_of_the_code(page: str) -> None:
    written = (DOCS / page).read_text().partition(MARK)[2]
    assert written.strip() == tables_of(page).strip(), "python -m tests.unit.docs_tables writes them"


def test_the_programs_on_the_page_are_those_that_are_type_checked() -> None:
    assert EFFECTS_PROGRAM.read_text().endswith(PROGRAMS["orders.py"])
    checked = DESIGN_PROGRAM.read_text()
    for name in ("helpdesk.py", "client.py", "test_helpdesk.py"):
        body = re.sub(r"^(from|import) .*\n+", "", PROGRAMS[name], flags=re.MULTILINE)
        assert body.strip() in checked, f"{name} is not in {DESIGN_PROGRAM.name}"


def test_the_programs_on_the_page_run(tmp_path: Path) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    test = "import helpdesk, orders, test_helpdesk; test_helpdesk.test_opened(); print(orders.tree.name)"
    room = [str(ROOT / each) for each in ("signals", "workers", "supervisor", ".")]
    ran = subprocess.run(
        [sys.executable, "-c", test],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(room)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("shop\n", "")


def test_every_command_on_the_page_exists_and_every_command_is_on_the_page() -> None:
    text = README.replace(NOT_THERE, "")
    named = set(re.findall(r"(?<=`regrow )[a-z]+(?: [a-z]+)?|(?<=\$ regrow )[a-z]+", text))
    named |= set(re.findall(r"^regrow (bench [a-z]+)", text, flags=re.MULTILINE))
    unknown = {
        words for words in named if words not in COMMANDS and words.split()[0] not in {*COMMANDS, "bench"}
    }
    assert unknown == set()
    assert {command for command in COMMANDS if f"`regrow {command}" not in text} == set()


def test_what_the_page_says_is_missing_is_missing() -> None:
    missing = set(re.findall(r"`(\w+)`", NOT_THERE))
    assert "Windows" in NOT_THERE
    assert missing & {*regrow.__all__, *COMMANDS} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if "://" in target:
            continue
        if not file.exists() or (anchor and anchor not in _anchors(file.read_text())):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_is_unfinished(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("# ")
    assert re.findall(r"T[O]DO|F[I]XME|X{3}|T[B]D|l[o]rem", text) == []


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_page_for_developers_names_modules_that_there_are() -> None:
    page = (DOCS / "internals.md").read_text()
    rooms = page[page.index("## Rooms") : page.index("## One implementation")]
    sources = ("signals/regrow_signals", "workers/regrow_workers", "supervisor/regrow_supervisor", "regrow")
    found = {path.name for source in sources for path in (ROOT / source).rglob("*.py")}
    assert set(re.findall(r"\b(\w+\.py)\b", rooms)) - found == set()
