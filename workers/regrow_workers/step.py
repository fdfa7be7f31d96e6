"""``Step``: what a handler may return, and its one normal form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

from regrow_signals.errors import ImpureHandler
from regrow_workers.directives import Directive
from regrow_workers.state import State

__all__ = ["Step", "normal_step"]

S = TypeVar("S", bound=State)

Step: TypeAlias = (
    S
    | Directive
    | Sequence[Directive]
    | tuple[S, *tuple[Directive, ...]]
    | tuple[S, Sequence[Directive]]
    | None
)
"""A state, a directive, directives, a state and directives, or None: nothing changes."""


def normal_step(
    state_type: type[State], returned: object, who: str
) -> tuple[State | None, Sequence[Directive]]:
    """(new state or None, directives). ``ImpureHandler`` says what was returned instead of a ``Step``."""
    if returned.__class__ is state_type:
        return cast("Any", returned), ()
    if returned is None:
        return None, ()
    if isinstance(returned, Directive):
        return None, (returned,)
    if isinstance(returned, State):
        return _checked_state(state_type, returned, who), ()
    if isinstance(returned, tuple):
        parts = cast("tuple[object, ...]", returned)
        if parts and isinstance(parts[0], State):
            rest: Sequence[object] = parts[1:]
            if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
                rest = cast("Sequence[object]", rest[0])
            return _checked_state(state_type, parts[0], who), _checked(rest, who)
        return None, _checked(parts, who)
    if isinstance(returned, list):
        return None, _checked(cast("Sequence[object]", returned), who)
    raise ImpureHandler(
        f"{who} returned {_named(returned)}: return a state, directives, both in a tuple, or None"
    )


def _checked_state(state_type: type[State], state: State, who: str) -> State:
    if type(state) is not state_type:
        raise ImpureHandler(
            f"{who} returned a {type(state).__name__} as its state; it must be a {state_type.__name__}"
        )
    return state


def _checked(parts: Sequence[object], who: str) -> Sequence[Directive]:
    directives: list[Directive] = []
    for part in parts:
        if not isinstance(part, Directive):
            hint = "; the state comes first" if isinstance(part, State) else ""
            raise ImpureHandler(f"{who} returned {_named(part)} among its directives{hint}")
        directives.append(part)
    return directives


def _named(value: object) -> str:
    return f"a value of type {type(value).__name__}"
