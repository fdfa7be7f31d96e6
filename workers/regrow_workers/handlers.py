"""``@handles``: marks a method as the handler of a payload class or of a pattern of types.

The mark is only that; ``handler_checks`` looks at everything once the class is defined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload

from regrow_signals.errors import BadDefinition
from regrow_signals.signal import Payload, Signal
from regrow_workers.marked_methods import MarkedMethods
from regrow_workers.state import State
from regrow_workers.step import Step

__all__ = ["Handles", "handles", "marks_of", "take_defined"]

A = TypeVar("A")
S = TypeVar("S", bound=State)
P = TypeVar("P")
Q = ParamSpec("Q")
P1 = TypeVar("P1", bound=Payload)
P2 = TypeVar("P2", bound=Payload)
P3 = TypeVar("P3", bound=Payload)

_MARK: Final = "__regrow_handles__"

_defined: Final = MarkedMethods()


@dataclass(frozen=True, slots=True)
class Handles(Generic[P]):
    """The decorator that ``handles(...)`` returns; ``P`` is what the handler's second parameter must take."""

    what: tuple[type[Payload] | str, ...]

    def __call__(
        self, handler: Callable[Concatenate[A, S, P, Q], Step[S]], /
    ) -> Callable[Concatenate[A, S, P, Q], Step[S]]:
        marked = cast("Any", handler)
        if not hasattr(marked, "__qualname__"):
            raise BadDefinition(
                f"@handles marks methods of an Agent class, not {type(marked).__name__} objects"
            )
        setattr(marked, _MARK, (*self.what, *marks_of(marked)))
        _defined.note(handler)
        return handler


@overload
def handles(what: str, /, *more: str) -> Handles[Signal]: ...
@overload
def handles(what: type[P1], /) -> Handles[P1]: ...
@overload
def handles(what: type[P1], other: type[P2], /) -> Handles[P1 | P2]: ...
@overload
def handles(what: type[P1], other: type[P2], third: type[P3], /) -> Handles[P1 | P2 | P3]: ...
def handles(*what: Any) -> Handles[Any]:
    """Mark the handler of a payload class, of an outcome (``charge.done``), or of a pattern such as ``"ticket.*"``.

    The method is ``(self, state, payload)`` or ``(self, state, payload, ctx)``; for a pattern ``signal`` stands in the
    payload's place. ``*`` is one segment, ``**`` any number, also none; the most specific pattern wins.
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
    return Handles(tuple(what))


def marks_of(function: object) -> tuple[type[Payload] | str, ...]:
    """What a function was marked to handle; empty if it is no handler."""
    return cast("tuple[type[Payload] | str, ...]", getattr(function, _MARK, ()))


def take_defined(cls: type) -> list[Callable[..., object]]:
    """The functions marked in this class's body, in order; forgotten with this call."""
    return _defined.take(cls)
