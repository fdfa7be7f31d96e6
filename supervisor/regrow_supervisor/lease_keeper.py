"""The thread that keeps the lease while the leader is at a piece of work that is longer than a lease.

Without it, two watchdogs on a machine too slow for such a piece would take the lease from each other for ever, and
neither would be done. A process that is frozen keeps nothing; a leader that is stuck does so for a while only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from regrow_signals.connection import Connection
from regrow_signals.errors import StoreError
from regrow_supervisor.leader import LONGEST_WORK, Lease

__all__ = ["LeaseKeeper"]


class LeaseKeeper(threading.Thread):
    """Over a connection of its own, which it makes when it first needs one. ``clock`` is the lease's.

    ``renewals`` counts; ``every`` and ``longest`` are seconds.
    """

    def __init__(
        self,
        open_connection: Callable[[], Connection],
        lease: Lease,
        *,
        every: float,
        longest: float = LONGEST_WORK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="regrow-lease", daemon=True)
        self._open = open_connection
        self._lease = lease
        self._every = every
        self._longest = longest
        self._clock = clock
        self._ended = threading.Event()
        self.renewals = 0

    def end(self) -> None:
        """End soon."""
        self._ended.set()

    def run(self) -> None:
        with self._open() as connection:
            while not self._ended.wait(self._every):
                call, sent = self._lease.keep_call(self._longest), self._clock()
                if call is None:
                    continue
                try:
                    ours = connection.call(call)
                except StoreError:
                    continue  # the leader finds it out too, and says so
                if ours:
                    self._lease.kept(sent)
                    self.renewals += 1
