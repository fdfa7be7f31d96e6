"""Processes of this host: who is below whom, since when; and a signal that reaches nobody else (Linux)."""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Held", "Process", "children", "command_of", "environment_of", "find", "name_of"]


@dataclass(frozen=True, slots=True)
class Process:
    """``started`` in the kernel's ticks since the machine's start: with it a number is one process's for ever."""

    pid: int
    started: int


def find(pid: int) -> Process | None:
    """The process that has this number now; None: none has, or it has ended and is not reaped."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else Process(pid, int(fields[19]))


def children(pid: int) -> list[Process]:
    """Those that it has started and that live."""
    try:
        words = [
            word
            for task in os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
            for word in Path(f"/proc/{pid}/task/{task}/children").read_text("ascii").split()
        ]
    except OSError:
        return []
    return [process for word in words if (process := find(int(word))) is not None]


def name_of(pid: int) -> str:
    """As ``ps -o comm`` shows it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def command_of(pid: int) -> list[str]:
    """Its words; empty where it has ended."""
    return _words(pid, "cmdline")


def environment_of(pid: int) -> dict[str, str]:
    """With which it was started; empty where it has ended or is somebody else's."""
    parts = (word.partition("=") for word in _words(pid, "environ"))
    return {name: value for name, _, value in parts}


class Held:
    """A process that is held by a descriptor: what is sent to it reaches it or nobody."""

    def __init__(self, process: Process) -> None:
        """Raises ProcessLookupError if it has ended, and its number is another's or nobody's."""
        self._descriptor = os.pidfd_open(process.pid)
        if find(process.pid) != process:
            os.close(self._descriptor)
            raise ProcessLookupError(process.pid)
        self.process = process

    def send(self, number: signal.Signals) -> None:
        """Raises ProcessLookupError if it has ended."""
        signal.pidfd_send_signal(self._descriptor, number)

    @property
    def has_ended(self) -> bool:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        os.close(self._descriptor)


def _stat(pid: int) -> list[str] | None:
    """What stands behind the name: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def _words(pid: int, what: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/{what}").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return [word for word in text.split("\0") if word]
