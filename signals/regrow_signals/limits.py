"""Sizes and counts that everything is bounded by, with their defaults (the only place where these stand)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from regrow_signals.errors import BadSetting

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a step may add at most. All are counts, bytes or milliseconds, and all are at least 1."""

    max_state_bytes: int = 1 << 20
    max_signal_bytes: int = 256 * 1024
    max_json_depth: int = 64
    max_mailbox: int = 10_000
    max_dead: int = 10_000
    max_outbox: int = 1_000
    max_timers: int = 1_000
    max_directives: int = 1_000
    commit_bytes: int = 4 << 20
    commit_appends: int = 1_000
    journal_entries: int = 100
    journal_bytes: int = 1 << 20
    pool_journal_entries: int = 10
    pool_journal_bytes: int = 64 * 1024
    max_events: int = 100_000
    max_hops: int = 64
    dedupe_window_ms: int = 600_000
    dedupe_ids: int = 100_000
    held_timeout_ms: int = 60_000
    extra_room: int = 1_000
    """Room above ``max_mailbox`` for outcomes of effects and notices: an agent never waits for itself."""
    max_subscribers: int = 10_000
    """Whom one publish reaches."""
    max_patterns: int = 1_000
    """What one agent subscribes to; and patterns with wildcards in the namespace: each publish looks through them."""
    max_attempts: int = 2
    max_kills: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise BadSetting(f"{field.name}={value!r}: must be a whole number of at least 1")
        if self.max_json_depth > 200:
            raise BadSetting(f"max_json_depth={self.max_json_depth}: the encoder's own bound is 200")
