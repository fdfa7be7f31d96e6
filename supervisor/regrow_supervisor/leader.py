"""The lease: one watchdog leads, by the token in ``{ns}:leader``. No I/O here but through the calls it is given.

A reign's token is random and new, so that orders of an earlier reign of the same process stay refused. The lease is
counted from the instant before the request was sent, by the own monotonic clock: who holds it here holds it there.
While the leader is at a long piece of work (a tree of 10,000 children on a busy machine), its keeper renews it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from regrow_signals import leadership
from regrow_signals.calls import Call
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys

__all__ = ["LONGEST_WORK", "Lease", "Standing"]

LONGEST_WORK: Final = 60.0
"""Seconds that a leader may be at one piece of work; one that is longer at it is taken for stuck, and not kept."""


class Standing(Enum):
    """What a lease is at an instant."""

    NONE = "none"
    HELD = "held"
    EXPIRED = "expired"


class Lease:
    """Our side of the lease. ``token`` is empty unless we lead; a caller drops it with ``drop`` when it is told so."""

    def __init__(self, keys: Keys, lease_ms: int, clock: Callable[[], float]) -> None:
        self._keys = keys
        self._lease_ms = lease_ms
        self._clock = clock
        self._candidate = new_id()
        self._until = 0.0
        self._looked_at = 0.0
        """When the leader itself asked last; the keeper does so only for it."""

        self.token = ""

    def standing(self) -> Standing:
        """Whether we lead now. An expired lease may still be ours in Redis, or another's: it must not be relied on."""
        if not self.token:
            return Standing.NONE
        return Standing.HELD if self._clock() < self._until else Standing.EXPIRED

    def acquire_call(self) -> Call[bool]:
        """The same token is offered until we led by it, so a lease whose answer was lost is still found to be ours."""
        return leadership.acquire(self._keys, self._candidate, self._lease_ms)

    def acquired(self, sent: float) -> str:
        """The call sent at ``sent`` was answered yes: we lead by the returned token."""
        self.token = self._candidate
        self.renewed(sent)
        return self.token

    def renew_call(self, longer_ms: int = 0) -> Call[bool]:
        """``longer_ms``: in Redis alone, for work in which nobody can renew; here the lease ends as ever."""
        return leadership.renew(self._keys, self.token, self._lease_ms + longer_ms)

    def renewed(self, sent: float) -> None:
        self._looked_at = sent
        self._until = sent + self._lease_ms / 1000

    def keep_call(self, longest: float = LONGEST_WORK) -> Call[bool] | None:
        """For the keeper, another thread: how to renew for a leader that is late; None: it is not, or is stuck."""
        token, now = self.token, self._clock()
        late = self._until - now < self._lease_ms / 2000
        if not token or not late or now - self._looked_at > longest:
            return None
        return leadership.renew(self._keys, token, self._lease_ms)

    def kept(self, sent: float) -> None:
        """What ``keep_call`` gave was sent then and answered yes. The leader may have dropped its lease meanwhile: that
        of its next reign is younger.
        """
        self._until = max(self._until, sent + self._lease_ms / 1000)

    def resign_call(self) -> Call[None]:
        return leadership.resign(self._keys, self.token)

    def drop(self) -> None:
        """We lead no more; the next reign has a token of its own."""
        self.token = ""
        self._candidate = new_id()
