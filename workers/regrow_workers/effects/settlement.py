"""What is told of a try of an effect: done, failed, tried again later, or in doubt. Pure.

| what happened in the try                                  | idempotent                | ``idempotent=False`` |
| --------------------------------------------------------- | ------------------------- | -------------------- |
| it returned what its annotation says                      | done                      | done |
| it returned something else                                | failed                    | failed |
| its stored arguments do not fit: it was not called        | failed                    | failed |
| it raised                                                 | again, failed after the last | failed |
| it raised ``FateUnknown``: it asked, and got no answer     | again, failed after the last | in doubt |
| it took longer than its timeout, raised or killed for it  | again, failed after the last | in doubt |
| its process ended by itself or crashed (exit, segfault)   | again, failed after the last | in doubt |
| SIGKILL that none of ours sent, drain, node or spawner lost | again at once, uncounted (abandon) | in doubt |
| it was cancelled by its agent and stopped, or would be tried again, or be in doubt | cancelled | cancelled |
| no effect of this name in this application: not called    | again, failed after the last | the same |

An exception of a non-idempotent effect is an outcome that its author chose, so it is told as one; to run the function
again is for the agent to order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, cast

from regrow_signals.effect_store import ClaimedEffect
from regrow_workers.effects.effect_backoff import retry_delay_ms
from regrow_workers.validation import did_you_mean

__all__ = [
    "Held",
    "Settlement",
    "after_crash",
    "after_exception",
    "after_timeout",
    "cancelled",
    "done",
    "failed",
    "unknown_name",
]

UNKNOWN_BACKOFF_MS: Final = 2_000
UNKNOWN_RETRIES: Final = 6
"""A deploy takes a while: an effect that only newer code knows is kept for about two minutes at least."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What ``settle_effect`` is told. ``error`` is for the log."""

    outcome: Literal["done", "failed", "retry", "in_doubt", "cancelled"]
    data: str
    retry_in_ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """A try in an executor's hands, as its slot holds it: whoever finds the executor dead can settle it."""

    effect_id: str
    name: str
    token: str
    attempts: int
    retries: int
    backoff_ms: int
    timeout_ms: int
    idempotent: bool

    @classmethod
    def of(cls, claimed: ClaimedEffect, token: str) -> Held:
        return cls(
            effect_id=claimed.effect_id,
            name=claimed.name,
            token=token,
            attempts=claimed.attempts,
            retries=claimed.retries,
            backoff_ms=claimed.backoff_ms,
            timeout_ms=claimed.timeout_ms,
            idempotent=claimed.idempotent,
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Held | None:
        """None for what is no held try: a slot keeps the last text that was written to it."""
        try:
            read: object = json.loads(text)
            return cls(**cast("dict[str, Any]", read)) if isinstance(read, dict) else None
        except (ValueError, TypeError):
            return None


def done(held: Held, result: str) -> Settlement:
    """``result`` is JSON already."""
    return Settlement("done", f'{{"effect":{json.dumps(held.effect_id)},"result":{result}}}')


def failed(held: Held, error: str) -> Settlement:
    data = {"effect": held.effect_id, "error": error, "attempts": held.attempts}
    return Settlement("failed", json.dumps(data), error=error)


def after_exception(held: Held, error: str, *, fate_unknown: bool = False) -> Settlement:
    """``fate_unknown``: the function does not know itself whether it took place."""
    if held.idempotent:
        return _again(held, error)
    return _in_doubt(held, error) if fate_unknown else failed(held, error)


def after_timeout(held: Held) -> Settlement:
    error = f"it took longer than its timeout of {held.timeout_ms / 1000:g} s"
    return _again(held, error) if held.idempotent else _in_doubt(held, error)


def after_crash(held: Held, reason: str) -> Settlement:
    """The executor's process ended in the function, by itself or by the function's doing."""
    error = f"its process ended in it: {reason}"
    return _again(held, error) if held.idempotent else _in_doubt(held, error)


def cancelled() -> Settlement:
    """It was told to stop, and did; the script makes the data, with the tag."""
    return Settlement("cancelled", "{}", error="it was cancelled")


def unknown_name(held: Held, known: Mapping[str, object], application: str) -> Settlement:
    """Given back for nodes with newer code; once there was time enough for a deploy, it has failed."""
    error = f"{application} has no effect {held.name!r}{did_you_mean(held.name, known)}"
    if held.attempts > max(held.retries, UNKNOWN_RETRIES):
        return failed(held, error)
    delay = retry_delay_ms(held.effect_id, held.attempts, max(held.backoff_ms, UNKNOWN_BACKOFF_MS))
    return Settlement("retry", "{}", delay, error)


def _again(held: Held, error: str) -> Settlement:
    if held.attempts > held.retries:
        return failed(held, error)
    return Settlement("retry", "{}", retry_delay_ms(held.effect_id, held.attempts, held.backoff_ms), error)


def _in_doubt(held: Held, error: str) -> Settlement:
    data = {"effect": held.effect_id, "attempts": held.attempts}
    return Settlement("in_doubt", json.dumps(data), error=error)
