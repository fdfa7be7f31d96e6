"""What a watchdog is told at its start; checked here, so that a lease that cannot work never leads."""

from __future__ import annotations

from dataclasses import dataclass

from regrow_signals.errors import BadSetting

__all__ = ["WatchdogSettings"]

_LEAST_LEASE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogSettings:
    """Seconds. ``lease``: how long a silent leader still leads; renewed every third of it.

    ``node_timeout``: a node whose beat does not change for so long is lost. ``start_timeout``: a start order without a
    ``started`` after so long has failed. Both count only time in which Redis answered the leader.
    """

    lease: float = 3.0
    node_timeout: float = 3.0
    start_timeout: float = 10.0
    entries_at_once: int = 100

    def __post_init__(self) -> None:
        if not self.lease >= _LEAST_LEASE:
            raise BadSetting(f"lease={self.lease!r}: must be at least {_LEAST_LEASE} seconds")
        for name in ("node_timeout", "start_timeout"):
            value: float = getattr(self, name)
            if not 0 < value < float("inf"):
                raise BadSetting(f"{name}={value!r}: must be above 0 seconds")
        if self.lease == float("inf"):
            raise BadSetting(f"lease={self.lease!r}: a lease must end")
        if self.entries_at_once < 1:
            raise BadSetting(f"entries_at_once={self.entries_at_once!r}: must be 1 or more")

    @property
    def lease_ms(self) -> int:
        return round(self.lease * 1000)

    @property
    def node_timeout_ms(self) -> int:
        return round(self.node_timeout * 1000)

    @property
    def start_timeout_ms(self) -> int:
        return round(self.start_timeout * 1000)

    @property
    def poll_ms(self) -> int:
        """How often the leader renews and looks at the beats: a twelfth of the shorter of lease and node_timeout."""
        return max(10, round(min(self.lease, self.node_timeout) * 1000 / 12))
