"""Process 1 of a container inherits every orphan, a node those below it; nobody else reaps them."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

__all__ = ["is_first_process", "let_orphans_go", "reap_orphans"]


def is_first_process() -> bool:
    return os.getpid() == 1


def let_orphans_go() -> None:
    """For a process without children of its own: the kernel reaps whatever ends."""
    if is_first_process():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def reap_orphans(own: Collection[int]) -> None:
    """Reap what has ended and is none of our ``own`` children: those are waited for by whoever started them.

    Stops at one of these, so call it again once that one was waited for.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in own:
            return
        os.waitpid(ended.si_pid, 0)
