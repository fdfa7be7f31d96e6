"""What one transition can come to: a closed set, one class each. None of them has touched anything yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from regrow_workers.directives import Directive, Emit
from regrow_workers.state import State

__all__ = [
    "BadData",
    "Crashed",
    "HookFailed",
    "Impossible",
    "NewState",
    "Outcome",
    "Rejected",
    "Unchanged",
    "UnhandledType",
    "Unstorable",
    "WrongMode",
]


@dataclass(slots=True)
class NewState:
    """Applied: go on from ``state``; ``encoded`` is its JSON, checked and within its bound."""

    state: State
    encoded: str
    directives: Sequence[Directive]


@dataclass(slots=True)
class Unchanged:
    """Applied, and nothing changes but by the directives."""

    directives: Sequence[Directive]


@dataclass(slots=True)
class UnhandledType:
    """No handler for the type: dead letter ``unhandled``, unless a live node runs newer code."""

    why: str


@dataclass(slots=True)
class WrongMode:
    """The agent's mode does not handle the type, or may not become what the handler made of it: ``wrong_mode``.

    ``postponed``: the former is kept until the mode changes, as the type says.
    """

    why: str
    postponed: bool = False


@dataclass(slots=True)
class BadData:
    """``data`` does not fit the handler's payload: dead letter ``bad_data``.

    ``alerts``, here and below: what middleware sends because of it, beside the dead letter.
    """

    why: str
    alerts: Sequence[Emit] = ()


@dataclass(slots=True)
class Rejected:
    """The handler, or a hook, raised ``Reject``: dead letter ``rejected``."""

    why: str
    alerts: Sequence[Emit] = ()


@dataclass(slots=True)
class HookFailed:
    """A hook of the agent type's middleware raised: dead letter ``middleware``; the incarnation lives."""

    why: str
    alerts: Sequence[Emit] = ()


@dataclass(slots=True)
class Unstorable:
    """State or directives are too large, too many or not strict JSON: dead letter of that reason."""

    reason: Literal[
        "state_too_large",
        "not_strict_json",
        "too_many_directives",
        "signal_too_large",
        "commit_too_large",
        "too_many_postponed",
    ]
    why: str


@dataclass(slots=True)
class Impossible:
    """One of its directives can never be carried out: dead letter of that reason, state unchanged."""

    reason: str
    why: str


@dataclass(slots=True)
class Crashed:
    """Any other exception: the incarnation ends with it and the signal is a dead letter ``exception``.

    ``reason`` is ``exception:<Type: message>``; ``trace`` is the traceback as text, without local values.
    """

    exception: Exception
    reason: str
    trace: str
    alerts: Sequence[Emit] = ()


Outcome: TypeAlias = (
    NewState
    | Unchanged
    | UnhandledType
    | WrongMode
    | BadData
    | Rejected
    | HookFailed
    | Unstorable
    | Impossible
    | Crashed
)
