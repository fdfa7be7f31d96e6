"""Services that are started again at once whenever they die, as many of a kind as are wanted; each writes a log."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from regrow.child_environment import child_environment
from regrow.child_process import ChildProcess

__all__ = ["Tended"]

LOOK = 0.02
READY = ("watchdog_started", "node_joins")
HOPELESS = (2, 78)
"""Exit codes of wrong input and of an application that cannot be loaded."""
END_SECONDS = 10.0


class Tended:
    """``services`` are names such as ``worker-1``: what stands before the ``-`` is a command of ``python -m regrow``.

    ``regrow up`` lets a service that dies again and again wait for longer and longer; here a death is no surprise.
    ``failed`` says which one cannot be started at all; ``up`` are those of now that have said one of ``READY``.
    """

    failed = ""

    def __init__(
        self, application: str, services: Sequence[str], *, url: str, namespace: str, logs: Path,
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        told = child_environment(url, namespace, environment)
        self._children = [
            ChildProcess(name, self._words(name, application), told, signal.SIGKILL) for name in services
        ]
        self._logs = {
            child.name: (logs / f"{child.name}.log").open("a", encoding="utf-8") for child in self._children
        }
        self.up: frozenset[str] = frozenset()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="tended", daemon=True)

    @staticmethod
    def _words(name: str, application: str) -> list[str]:
        return [sys.executable, "-m", "regrow", name.partition("-")[0], application]

    def processes(self, kind: str) -> dict[str, int]:
        """The pids of what runs now of this kind, by name."""
        return {
            child.name: pid
            for child in self._children
            if child.name.partition("-")[0] == kind and (pid := child.pid) is not None
        }

    def __enter__(self) -> Tended:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        for log in self._logs.values():
            log.close()

    def _tend(self) -> None:
        try:
            while not self._ending.wait(LOOK) and not self.failed:
                for child in self._children:
                    if child.pid is None:
                        child.start()
                    code = child.died()
                    self._pass_on(child, last=code is not None)
                    if code is not None:
                        self.up -= {child.name}
                    if code in HOPELESS:
                        self.failed = f"{child.name} ended with code {code}"
        finally:
            self._end()

    def _end(self) -> None:
        """SIGTERM to all; SIGKILL for whoever does not mind it."""
        end = time.monotonic() + END_SECONDS
        for child in self._children:
            child.send(signal.SIGTERM)
        while any(child.pid is not None for child in self._children):
            for child in self._children:
                if time.monotonic() > end:
                    child.send(signal.SIGKILL)
                self._pass_on(child, last=child.died() is not None)
            time.sleep(LOOK)

    def _pass_on(self, child: ChildProcess, *, last: bool) -> None:
        for line in child.take_lines(last=last):
            print(line, file=self._logs[child.name], flush=True)
            if any(word in line for word in READY):
                self.up |= {child.name}
