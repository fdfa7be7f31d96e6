"""The operating system's signals and process ties. (regrow's own signals are in ``regrow_signals``.)"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

__all__ = [
    "SignalInbox",
    "TOLD_TO_END",
    "WRAPPER_ENDED",
    "die_with_parent",
    "install",
    "leave_at_once",
    "name_process",
    "limit_descriptors",
    "most_descriptors",
    "process_state",
    "reset_for_child",
    "signal_name",
]

WRAPPER_ENDED = getattr(signal, "SIGPWR", signal.SIGHUP)
"""Sent by the kernel to a service whose wrapping shell has ended (``program_start.py``). A signal of its own: launchers
send SIGTERM to shell and service alike, and the shell's end is no second request, which would hurry."""

TOLD_TO_END = tuple(dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, WRAPPER_ENDED)))
"""What ends a service in order."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_REASONABLE_DESCRIPTORS = 1 << 16
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None, sig: int = signal.SIGKILL) -> None:
    """Ask the kernel to send ``sig`` to this process when the *thread* that forked it ends.

    ``parent`` is the pid that the caller knows as its parent: if it died before the request was made, the kernel will
    never tell, so this process kills itself at once. Call it from a process forked by its parent's main thread. On
    macOS there is no such request: the caller's pipe to its parent must tell.
    """
    if _LIBC is not None and _LIBC.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), sig)


def name_process(name: str) -> None:
    """What ``ps -o comm`` and ``top`` show of this process: at most 15 bytes. Linux only."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def most_descriptors() -> int:
    """What this process was allowed to open by whoever started it, within reason: each costs the kernel memory."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _REASONABLE_DESCRIPTORS if soft == resource.RLIM_INFINITY else min(soft, _REASONABLE_DESCRIPTORS)


def limit_descriptors(most: int) -> None:
    """This process, and what it starts, may have ``most`` descriptors open; it may raise that again itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``SIG42`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def process_state(pid: int) -> str:
    """The kernel's letter for a process (``R S D T Z ...``), empty if it cannot be read.

    Only asked about children that are not reaped yet, whose pid cannot have gone to another process.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def install(numbers: Iterable[int], handle: Callable[[int, FrameType | None], object]) -> None:
    """Have ``handle`` called, and let go of signals that were held until now. ``nohup`` is respected."""
    wanted = [
        number
        for number in numbers
        if number != signal.SIGHUP or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    ]
    for number in wanted:
        signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)


def leave_at_once(numbers: Iterable[int]) -> None:
    """Exit with 0 when one of them comes: for a time in which nothing was begun yet, such as a long import."""
    install(numbers, lambda _number, _frame: os._exit(0))


class SignalInbox:
    """Signals received, as bytes on a socket that a selector or a blocking wait can watch.

    The handlers do nothing: Python's wakeup fd carries the number, so what is done about a signal is decided in the
    loop, never in a handler.
    """

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)

    def install(self, numbers: Iterable[int]) -> None:
        """From now on; what was held back until now is let go. A SIGHUP that is ignored (``nohup``) stays so."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        install(numbers, self._handle)

    def fileno(self) -> int:
        return self.reader.fileno()

    def close(self) -> None:
        """In a forked child, which has no use for its parent's."""
        self.reader.close()
        self._writer.close()

    def take(self) -> list[int]:
        """Signals since the last call, oldest first; each once, for some launchers send one twice at the same time."""
        try:
            return list(dict.fromkeys(self.reader.recv(4096)))
        except BlockingIOError:
            return []

    @staticmethod
    def _handle(number: int, frame: FrameType | None) -> None:
        """Nothing: the number is in the socket already."""


def reset_for_child(ignored: Iterable[int]) -> None:
    """In a forked child: forget the parent's handlers and wakeup fd, ignore ``ignored``.

    Blocked signals stay blocked: the caller unblocks them once its own handlers stand.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    for unwanted in ignored:
        signal.signal(unwanted, signal.SIG_IGN)
