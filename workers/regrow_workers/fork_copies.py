"""What a handler, a hook or an effect forks: a copy of a worker's process, which is nobody's worker.

From the instant of the fork a copy has let go of the process's belongings (connection, slot, orders), so two processes
are never on one socket. It is killed when the process that forked it ends. Once the user's code comes back into ours,
it ends at once: only the process itself goes on with the agent.

Programs that are started (``subprocess``) are no copies: they are left alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from regrow_workers import log
from regrow_workers.os_signals import die_with_parent

__all__ = ["COPY", "leave_if_copied", "let_go_in_copies"]

_LOG = logging.getLogger(__name__)

COPY: Final = 74
"""Exit code of a copy that came back from the user's code."""


class _Copies:
    """State of this process. ``is_copy``: it was forked from a process that watches."""

    def __init__(self) -> None:
        self.is_copy = False
        self._belongings: list[Callable[[], object]] = []
        self._watching = False
        self._forking = 0
        self._tied = False

    def watch(self, let_go: Callable[[], object]) -> None:
        if not self._watching:
            self._watching = True
            os.register_at_fork(before=self._before, after_in_child=self._after)
        self._belongings.append(let_go)

    def _before(self) -> None:
        self._forking = os.getpid()
        # The kernel's tie is to the thread: a copy forked by another one would end with that thread.
        self._tied = threading.current_thread() is threading.main_thread()

    def _after(self) -> None:
        self.is_copy = True
        with contextlib.suppress(ValueError):  # not the main thread of a nested interpreter
            # The pipe behind it is the process's own; and a copy that is told to end has nothing to give back.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        belongings, self._belongings = self._belongings, []
        for let_go in belongings:
            let_go()
        if self._tied:
            die_with_parent(self._forking)


_copies = _Copies()


def let_go_in_copies(let_go: Callable[[], object]) -> None:
    """Have ``let_go`` called in every copy of this process, at its very beginning."""
    _copies.watch(let_go)


def leave_if_copied() -> None:
    """Where the user's code comes back into ours: a copy ends here."""
    if _copies.is_copy:
        log.event(_LOG, "copy_ended", level=logging.WARNING, pid=os.getpid(), parent=os.getppid())
        os._exit(COPY)
