"""Why a signal becomes a dead letter: one word for counters and people, one text for whoever mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from regrow_signals.agents import Loaded
from regrow_workers.outcomes import (
    BadData,
    Crashed,
    HookFailed,
    Impossible,
    NewState,
    Outcome,
    Rejected,
    Unchanged,
    UnhandledType,
    Unstorable,
    WrongMode,
)

__all__ = ["condemned_reason", "failure_of", "is_signal", "what_is_wrong"]

_LONGEST_ID: Final = 512
_LONGEST_TYPE: Final = 200


def failure_of(outcome: Outcome) -> tuple[str, str] | None:
    """Reason and error of the dead letter that an outcome makes; None for an applied signal."""
    match outcome:
        case NewState() | Unchanged():
            return None
        case UnhandledType(why):
            return "unhandled", why
        case WrongMode(why):
            return "wrong_mode", why
        case BadData(why):
            return "bad_data", why
        case Rejected(why):
            return "rejected", why
        case HookFailed(why):
            return "middleware", why
        case Unstorable(reason, why) | Impossible(reason, why):
            return reason, why
        case Crashed(_, _, trace):
            return "exception", trace


def condemned_reason(loaded: Loaded) -> tuple[str, str]:
    """The same for the signal that too many processes have died with in hand."""
    if loaded.condemned == "kills":
        reason, times, bound = "max_kills", loaded.trying_kills, loaded.max_kills
    else:
        reason, times, bound = "max_attempts", loaded.trying_attempts, loaded.max_attempts
    last = f", the last time: {loaded.last_end}" if loaded.last_end else ""
    return reason, f"the process ended {times} times with this signal in hand{last}; {reason} is {bound}"


def is_signal(fields: Mapping[str, str | bytes]) -> bool:
    """Whether an entry has what makes a signal, as text; anybody can XADD anything."""
    name, key, data = fields.get("type"), fields.get("id"), fields.get("data")
    return (
        type(name) is str
        and type(key) is str
        and type(data) is str
        and 0 < len(name) <= _LONGEST_TYPE
        and 0 < len(key) <= _LONGEST_ID
        and name.isascii()
        and key.isascii()
    )


def what_is_wrong(fields: Mapping[str, str | bytes]) -> str:
    """What makes an entry no signal."""
    for name in ("id", "type", "data"):
        value = fields.get(name)
        if value is None:
            return f"the entry has no field {name!r}"
        if isinstance(value, bytes):
            return f"field {name!r} is not UTF-8"
    return f"id or type is empty, not ASCII, or longer than {_LONGEST_ID} and {_LONGEST_TYPE} characters"
