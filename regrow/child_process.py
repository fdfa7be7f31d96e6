"""One long-lived child of ``regrow up``: started tied to its parent, its lines passed on, ended with its group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ChildProcess", "restart_delay"]

_TIED = Path(__file__).with_name("tied.py")
_LONGEST_LINE = 64 * 1024
_FORGIVEN_AFTER = 10.0  # seconds of life after which earlier deaths no longer count
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 10.0


def restart_delay(deaths: int) -> float:
    """Pure: seconds to wait after so many deaths in a row (at least 1)."""
    return float(min(_FIRST_DELAY * 2.0 ** min(deaths - 1, 20), _LONGEST_DELAY))


class ChildProcess:
    """``words`` run as a process of a session of its own, so that Ctrl-C reaches the parent alone, which ends its
    children in order. If the parent's forking thread ends, the kernel sends the child ``death_signal``.
    """

    def __init__(
        self, name: str, words: Sequence[str], environment: Mapping[str, str], death_signal: signal.Signals
    ) -> None:
        self.name = name
        self.deaths = 0
        self.due = 0.0  # monotonic time of the next start, while it does not run
        self._words = tuple(words)
        self._environment = dict(environment)
        self._death_signal = death_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._output = -1
        self._rest = b""
        self._started = 0.0

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        return self._process.pid if self._process is not None else None

    @property
    def output(self) -> int:
        """The descriptor of its output; -1 while there is none."""
        return self._output

    def start(self) -> None:
        self.take_lines(last=True)
        tied = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), str(int(self._death_signal))]
        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._process = subprocess.Popen(
                [*tied, *self._words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
            )
        finally:
            os.close(write)
        self._started = time.monotonic()

    def died(self) -> int | None:
        """Its exit code, once after each death (negative: the signal); then ``due`` says when to start it again.

        What is left of its group is killed before its pid is given back to the system, so no foreign group can be hit.
        """
        process = self._process
        if process is None or not _has_ended(process):
            return None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        self._process = None
        now = time.monotonic()
        self.deaths = 1 if now - self._started > _FORGIVEN_AFTER else self.deaths + 1
        self.due = now + restart_delay(self.deaths)
        return code

    def send(self, number: signal.Signals) -> None:
        """To it alone; nothing happens if it does not run. Its pid is not reaped yet, so it cannot be another's."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def take_lines(self, *, last: bool = False) -> list[str]:
        """Whole lines that it wrote since the last call; with ``last``, the rest too, and the pipe is closed."""
        if self._output < 0:
            return []
        while True:
            try:
                data = os.read(self._output, 65536)
            except BlockingIOError:
                break
            self._rest += data
            if not data:
                last = True
                break
            if len(self._rest) > 16 * _LONGEST_LINE:
                break
        *whole, self._rest = self._rest.split(b"\n")
        if self._rest and (last or len(self._rest) > _LONGEST_LINE):
            whole.append(self._rest)
            self._rest = b""
        if last:
            os.close(self._output)
            self._output = -1
        return [line.decode("utf-8", "replace").rstrip("\r") for line in whole]


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without reaping it, where the system can say so (not on macOS before Python 3.13)."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
