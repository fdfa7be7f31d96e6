"""``Middleware``: hooks around an agent type's transitions and emits; found and checked when the class is defined."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar, cast, get_args, get_origin

from regrow_signals.errors import BadDefinition, ImpureHandler
from regrow_signals.signal import Payload, Signal
from regrow_workers.context import Context
from regrow_workers.directives import Directive, Emit
from regrow_workers.purity import guard
from regrow_workers.state import State
from regrow_workers.validation import did_you_mean

__all__ = ["HOOKS", "Hooks", "Middleware", "hooks_of", "own_middleware"]

S = TypeVar("S", bound=State)

HOOKS: Final = {"before": 3, "after": 5, "on_error": 4, "on_emit": 2}
"""The hooks, and how many arguments each is given."""


class Middleware(Generic[S]):
    """Hooks around the transitions of agent types: ``class Desk(Agent[...], name="desk", middleware=(Audit(),))``.

    Write those that you need; the others cost nothing. They are pure and guarded as handlers are, and hold nothing
    between signals. The first of several is the outermost: its ``before`` runs first, its other hooks last. A hook
    that raises refuses the signal: a dead letter ``middleware`` (``rejected`` where it raised ``Reject``), the state
    as before; the agent lives. In each hook None, as from one without a ``return``, leaves things as they are.
    """

    def before(self, state: S, signal: Signal, ctx: Context, /) -> Signal | Payload | None:
        """Before a handler is looked for. A payload, or the signal with other type or data, takes its place."""

    def after(
        self, state: S, signal: Signal, new_state: S, directives: Sequence[Directive], ctx: Context, /
    ) -> Sequence[Directive] | None:
        """After the handler; ``new_state`` is ``state`` where nothing changed. It returns other directives, or None."""

    def on_error(
        self, state: S, signal: Signal, error: Exception, ctx: Context, /
    ) -> Emit | Sequence[Emit] | None:
        """What is inside raised ``error``; its data did not fit: ``BadPayload``. Emits are sent beside the dead letter.

        Not called for a signal that nobody handles.
        """

    def on_emit(self, emit: Emit, ctx: Context, /) -> Emit | None:
        """For each ``Emit`` (or ``Ask``) on its way out. One of the same kind takes its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if guard.thread:
            raise ImpureHandler(
                f"{type(self).__name__}.{name} was set: middleware holds nothing between signals; keep it in the State"
            )
        super().__setattr__(name, value)


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one piece of middleware; None where it has none of that kind."""

    shown: str
    before: Callable[..., object] | None
    after: Callable[..., object] | None
    on_error: Callable[..., object] | None
    on_emit: Callable[..., object] | None

    def written(self) -> list[Callable[..., object]]:
        """Those that there are."""
        return [hook for hook in (self.before, self.after, self.on_error, self.on_emit) if hook is not None]


def own_middleware(where: str, given: object) -> tuple[Middleware[Any], ...]:
    """What a class says of its middleware; ``BadDefinition`` if it is none."""
    if isinstance(given, type) and issubclass(given, Middleware):
        raise BadDefinition(f"{where}: middleware={given.__name__}: write middleware=({given.__name__}(),)")
    if isinstance(given, (str, Middleware)) or not isinstance(given, Sequence):
        raise BadDefinition(f"{where}: middleware={given!r:.80} must be a tuple, such as (Audit(),)")
    for one in cast("Sequence[object]", given):
        if isinstance(one, type) and issubclass(one, Middleware):
            raise BadDefinition(f"{where}: middleware holds the class {one.__name__}; write {one.__name__}()")
        if not isinstance(one, Middleware):
            raise BadDefinition(f"{where}: middleware holds {one!r:.80}, which is no Middleware object")
    return tuple(cast("Sequence[Middleware[Any]]", given))


def hooks_of(where: str, state_type: type[State], middleware: Sequence[Middleware[Any]]) -> tuple[Hooks, ...]:
    """The checked hooks, the outermost first. ``BadDefinition`` names what can never work."""
    found: list[Hooks] = []
    for one in middleware:
        kind = type(one)
        shown = f"{where}: {kind.__name__}"
        wanted = _state_of(kind)
        if wanted is not None and not issubclass(state_type, wanted):
            raise BadDefinition(
                f"{shown} is a Middleware[{wanted.__name__}]; the state here is a {state_type.__name__}"
            )
        hooks = Hooks(kind.__name__, *(_hook(shown, one, name) for name in HOOKS))
        if not hooks.written():
            own = [name for name in vars(kind) if not name.startswith("_")]
            hint = did_you_mean(own[0], dict.fromkeys(HOOKS)) if own else ""
            raise BadDefinition(f"{shown} has no hook; write one of {', '.join(HOOKS)}{hint}")
        if one in middleware[: len(found)]:
            raise BadDefinition(f"{shown}: the same object is there twice")
        found.append(hooks)
    return tuple(found)


def _hook(shown: str, one: Middleware[Any], name: str) -> Callable[..., object] | None:
    function = getattr(type(one), name)
    if function is getattr(Middleware, name):
        return None
    plain = getattr(function, "__func__", function)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        _bad(
            f"{shown}.{name}() is an async def; a hook is pure and waits for nothing: put I/O into an @effect"
        )
    if inspect.isgeneratorfunction(plain):
        _bad(f"{shown}.{name}() is a generator; a hook returns what it has to say")
    bound: Callable[..., object] = getattr(one, name)
    try:
        inspect.signature(bound).bind(*range(HOOKS[name]))
    except TypeError:
        names = list(inspect.signature(getattr(Middleware, name)).parameters)
        _bad(f"{shown}.{name}{inspect.signature(function)} does not fit; write {name}({', '.join(names)})")
    return bound


def _bad(why: str) -> NoReturn:
    raise BadDefinition(why)


def _state_of(kind: type) -> type[State] | None:
    """The ``S`` of ``Middleware[S]``; None while it is open."""
    for base in kind.__mro__:
        for written in cast("tuple[Any, ...]", base.__dict__.get("__orig_bases__", ())):
            origin = get_origin(written)
            if isinstance(origin, type) and issubclass(origin, Middleware):
                for argument in get_args(written):
                    if isinstance(argument, type) and issubclass(argument, State):
                        return argument
    return None
