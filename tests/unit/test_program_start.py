"""What the program knows before it has imported anything: its command, and whether a shell stands between it and us."""

from __future__ import annotations

import pytest

from regrow.cli.group import HOMES
from regrow_workers.os_signals import TOLD_TO_END
from regrow_workers.program_start import HELD, SERVICES, command_of, is_wrapper


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("worker app:tree", "worker"),
        ("-n shop worker app:tree", "worker"),
        ("--namespace worker tree", "tree"),
        ("--redis-url redis://up send a b", "send"),
        ("--namespace=worker send up b", "send"),
        ("--help", ""),
        ("-n", ""),
        ("", ""),
    ],
)
def test_the_command_is_found_among_options(line: str, command: str) -> None:
    assert command_of(line.split()) == command


def test_services_are_commands() -> None:
    assert HOMES.keys() >= SERVICES


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "cd /srv && regrow worker app:tree"],
        ["/bin/bash", "-lc", "regrow worker app:tree | tee log"],
        ["/usr/bin/dash", "/srv/start.sh"],
        ["bash", "-e", "start.sh", "--fast"],
    ],
)
def test_a_shell_that_runs_a_script_is_a_wrapper(words: list[str]) -> None:
    assert is_wrapper(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["bash"],
        ["-bash"],
        ["-zsh", "-l"],
        ["bash", "--login"],
        ["bash", "-i"],
        ["bash", "--init-file", "/opt/shell.sh"],
        ["python3", "-c", "run()"],
        ["/usr/bin/fish-sh", "x"],
        ["tini", "--", "regrow"],
    ],
)
def test_a_shell_at_a_terminal_and_other_programs_are_none(words: list[str]) -> None:
    assert not is_wrapper(words)


def test_what_is_held_at_the_start_is_what_services_listen_to() -> None:
    assert set(HELD) == set(TOLD_TO_END)
