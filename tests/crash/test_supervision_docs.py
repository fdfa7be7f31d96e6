"""docs/supervision.md is true: its application starts, its transcripts are what its commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from regrow.settings import load_settings
from regrow.up import Stack
from tests.conftest import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "supervision.md").read_text(encoding="utf-8")
LONG = 30.0


@dataclass
class Step:
    """A command and the lines that the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list[str])


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def steps() -> list[Step]:
    found: list[Step] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        else:
            found[-1].shown.append(line)
    return found


def plain(line: str) -> str:
    """Without what differs from run to run: times, nodes, versions, uptimes."""
    line = re.sub(r"^\d{4}-\d\d-\d\d [\d:.]+Z  ", "", line)
    line = re.sub(r"  (node|version)=\S+", "", line)
    return re.sub(r"up \d+ (s|min)", "up N s", line).rstrip()


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """A folder with the page's files, in which its application runs."""
    with tempfile.TemporaryDirectory(prefix="regrow-page-") as name:
        folder = Path(name)
        for file, text in zip(("strategies.py", "guests.py"), blocks("python"), strict=True):
            (folder / file).write_text(text, encoding="utf-8")
        programs = folder / "bin"
        programs.mkdir()
        for program, words in (("regrow", "-m regrow"), ("python", "")):
            (programs / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (programs / program).chmod(0o755)
        rooms = [folder, *(ROOT / room for room in ("signals", "workers", "supervisor", "."))]
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(("REGROW_", "REDIS_URL"))
        }
        made = {
            **kept,
            "HOME": str(folder),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, rooms)),
            "REGROW_STATE_DIR": str(folder / "state"),
        }
        settings = load_settings(state_dir=folder / "state", redis_url="")
        with Stack("strategies:tree", settings=settings, services=("watchdog", "worker"), environment=made):
            yield made


def test_the_transcripts_of_the_page_are_what_its_commands_print(environment: dict[str, str]) -> None:
    for step in steps():
        is_look = step.command.startswith(("regrow tree", "regrow events", "regrow children"))
        printed: list[str] = []

        def matches(step: Step = step, printed: list[str] = printed) -> bool:
            done = subprocess.run(
                step.command, shell=True, env=environment, cwd=environment["HOME"],
                capture_output=True, text=True, timeout=LONG, check=False,
            )  # fmt: skip
            printed[:] = [plain(line) for line in (done.stdout + done.stderr).splitlines()]
            if step.command == "regrow tree":  # the page leaves the head out
                printed[:] = printed[
                    next((n for n, line in enumerate(printed) if line.startswith("demo")), 0) :
                ]
            return not step.shown or printed == step.shown

        try:
            if is_look:
                wait_until(matches, f"$ {step.command}", LONG)
            else:
                assert matches(), f"$ {step.command}"
        except AssertionError as error:
            raise AssertionError(
                "\n".join([str(error), "printed:", *printed, "page:", *step.shown])
            ) from None
