"""``@handles``: marks a method as the handler of a payload class or of a pattern of types.

The mark is only that; ``handler_checks`` looks at everything once the class is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload

from regrow_signals.errors import BadDefinition
from regrow_signals.signal import Payload, Signal
from regrow_workers.marked_methods import MarkedMethods
from regrow_workers.state import State
from regrow_workers.step import Step

__all__ = ["Handles", "Mode", "handles", "marks_of", "modes_of", "take_defined"]

A = TypeVar("A")
S = TypeVar("S", bound=State)
P = TypeVar("P")
Q = ParamSpec("Q")
P1 = TypeVar("P1", bound=Payload)
P2 = TypeVar("P2", bound=Payload)
P3 = TypeVar("P3", bound=Payload)

_MARK: Final = "__regrow_handles__"
_MODES: Final = "__regrow_modes__"

Mode = str | Enum

_defined: Final = MarkedMethods()


@dataclass(frozen=True, slots=True)
class Handles(Generic[P]):
    """The decorator that ``handles(...)`` returns; ``P`` is what the handler's second parameter must take."""

    what: tuple[type[Payload] | str, ...]
    modes: tuple[str, ...] = ()
    """In which it handles them; empty: in every one."""

    def __call__(
        self, handler: Callable[Concatenate[A, S, P, Q], Step[S]], /
    ) -> Callable[Concatenate[A, S, P, Q], Step[S]]:
        marked = cast("Any", handler)
        if not hasattr(marked, "__qualname__"):
            raise BadDefinition(
                f"@handles marks methods of an Agent class, not {type(marked).__name__} objects"
            )
        setattr(marked, _MARK, (*self.what, *marks_of(marked)))
        setattr(marked, _MODES, {**getattr(marked, _MODES, {}), **dict.fromkeys(self.what, self.modes)})
        _defined.note(handler)
        return handler


@overload
def handles(what: str, /, *more: str, mode: Mode | Sequence[Mode] = ...) -> Handles[Signal]: ...
@overload
def handles(what: type[P1], /, *, mode: Mode | Sequence[Mode] = ...) -> Handles[P1]: ...
@overload
def handles(what: type[P1], other: type[P2], /, *, mode: Mode | Sequence[Mode] = ...) -> Handles[P1 | P2]: ...
@overload
def handles(
    what: type[P1], other: type[P2], third: type[P3], /, *, mode: Mode | Sequence[Mode] = ...
) -> Handles[P1 | P2 | P3]: ...
def handles(*what: Any, mode: Mode | Sequence[Mode] = ()) -> Handles[Any]:
    """Mark the handler of a payload class, of an outcome (``charge.done``), or of a pattern such as ``"ticket.*"``.

    The method is ``(self, state, payload)`` or ``(self, state, payload, ctx)``; for a pattern ``signal`` stands in the
    payload's place. ``*`` is one segment, ``**`` any number, also none; the most specific pattern wins.
    ``mode="open"`` (or several) handles it only while the agent is in that mode; see ``mode_field`` of ``Agent``.
    """
    for one in what:
        if not isinstance(one, str) and not (isinstance(one, type) and issubclass(one, Payload)):
            raise BadDefinition(
                f"@handles({one!r:.80}): give a Payload class, an effect's outcome "
                'such as charge.done, or a pattern such as "ticket.*"'
            )
    if not what:
        raise BadDefinition(
            '@handles(): say what it handles, a Payload class or a pattern such as "ticket.*"'
        )
    given = (mode,) if isinstance(mode, (str, Enum)) else tuple(mode)
    return Handles(
        tuple(what), tuple(cast("str", one.value if isinstance(one, Enum) else one) for one in given)
    )


def modes_of(function: object, what: type[Payload] | str) -> tuple[str, ...]:
    """In which modes a function handles this mark; empty: in every one."""
    modes: Mapping[type[Payload] | str, tuple[str, ...]] = getattr(function, _MODES, {})
    return modes.get(what, ())


def marks_of(function: object) -> tuple[type[Payload] | str, ...]:
    """What a function was marked to handle; empty if it is no handler."""
    return cast("tuple[type[Payload] | str, ...]", getattr(function, _MARK, ()))


def take_defined(cls: type) -> list[Callable[..., object]]:
    """The functions marked in this class's body, in order; forgotten with this call."""
    return _defined.take(cls)
