"""``Definition``: everything the runtime knows of an agent class, checked and put together when it is defined."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from regrow_signals.errors import BadDefinition, BadInput
from regrow_signals.ids import check_id
from regrow_signals.routing import RouteTable
from regrow_signals.schedules import DeclaredTimer
from regrow_workers.agent_limits import checked_limits
from regrow_workers.handler_checks import Handler, handlers_of
from regrow_workers.middleware import Hooks, Middleware, hooks_of
from regrow_workers.modes import Modes, ModeWords, modes_of_class
from regrow_workers.purity import GuardMode
from regrow_workers.schedules import schedules_of
from regrow_workers.state import State

if TYPE_CHECKING:
    from regrow_workers.agent import Agent

__all__ = ["Definition", "OnError", "define"]

OnError = Literal["crash", "dead_letter"]

_NOTHING: Final = "an agent object holds nothing between signals; keep it in the State"


@dataclass(frozen=True, slots=True)
class Definition:
    """One agent class. ``code`` is a digest of its handlers' and upcasts' code: people tell old code from new by it."""

    name: str
    aliases: tuple[str, ...]
    state_type: type[State]
    schema: int
    on_error: OnError
    handlers: tuple[Handler, ...]
    routes: RouteTable[Handler]
    instance: Agent[Any]
    code: str
    schedules: tuple[DeclaredTimer, ...]
    """Of ``@every`` and ``@cron``."""
    mode_words: ModeWords
    modes: Modes | None
    hooks: tuple[Hooks, ...]
    """Of its middleware, the outermost first."""
    limits: Mapping[str, Any]
    """Those that the type says (``LimitWords``), for children that do not say their own."""

    @property
    def guard(self) -> GuardMode | None:
        """Of this type's handlers; None: as the process says."""
        return cast("GuardMode | None", self.limits.get("guard"))


def define(
    cls: type[Agent[Any]],
    state_type: type[State],
    *,
    name: object,
    aliases: object,
    on_error: object,
    names: Mapping[str, Any],
    limits: Mapping[str, object],
    mode_words: ModeWords,
    middleware: Sequence[Middleware[Any]],
) -> Definition:
    """The definition of a class, or ``BadDefinition`` with what is wrong and how to mend it."""
    checked_name = _checked_name(cls, "name", name)
    if isinstance(aliases, str) or not isinstance(aliases, Sequence):
        raise BadDefinition(
            f'{cls.__name__}: aliases={aliases!r} must be a tuple of names such as ("old_name",)'
        )
    checked_aliases = tuple(
        _checked_name(cls, "aliases", alias) for alias in cast("Sequence[object]", aliases)
    )
    if len({checked_name, *checked_aliases}) != 1 + len(checked_aliases):
        raise BadDefinition(f"{cls.__name__}: name and aliases hold one name twice")
    if on_error not in get_args(OnError):
        raise BadDefinition(f'{cls.__name__}: on_error={on_error!r} must be "crash" or "dead_letter"')
    checked = checked_limits(cls.__name__, limits)
    if cls.__init__ is not object.__init__ or cls.__new__ is not object.__new__:
        raise BadDefinition(f"{cls.__name__} defines __init__ or __new__; {_NOTHING}")
    handlers = tuple(sorted(handlers_of(cls, state_type, names), key=lambda handler: handler.pattern))
    hooks = hooks_of(cls.__name__, state_type, middleware)
    schedules = schedules_of(cls.__name__, [handler.function for handler in handlers])
    return Definition(
        name=checked_name,
        aliases=checked_aliases,
        state_type=state_type,
        schema=state_type.__regrow_schema__,
        on_error=cast("OnError", on_error),
        handlers=handlers,
        routes=RouteTable((handler.pattern, handler) for handler in handlers),
        instance=object.__new__(cls),
        code=_code_digest(handlers, schedules, state_type, hooks),
        schedules=schedules,
        mode_words=mode_words,
        modes=modes_of_class(cls.__name__, state_type, mode_words, handlers),
        hooks=hooks,
        limits=types.MappingProxyType(checked),
    )


def _checked_name(cls: type, field: str, value: object) -> str:
    try:
        return check_id(value, f"{cls.__name__}: {field}")
    except BadInput as error:
        raise BadDefinition(str(error)) from None


def _code_digest(
    handlers: Sequence[Handler],
    schedules: Sequence[DeclaredTimer],
    state_type: type[State],
    middleware: Sequence[Hooks],
) -> str:
    digest = hashlib.sha256()
    for timer in schedules:
        digest.update(f"{timer}\0".encode())
    for handler in handlers:
        digest.update(f"{handler.pattern.text}\0{handler.name}\0{handler.modes or ''}".encode())
        _add_function(digest.update, handler.function)
    for hooks in middleware:
        digest.update(f"{hooks.shown}\0".encode())
        for hook in hooks.written():
            _add_function(digest.update, getattr(hook, "__func__", hook))
    for schema, step in sorted(state_type.__regrow_upcasts__.items()):
        digest.update(f"{schema}\0{step}\0".encode())
        _add_function(digest.update, getattr(state_type, step))
    for name, field in state_type.__pydantic_fields__.items():
        digest.update(f"{name}\0{field.annotation!s}\0".encode())
    return digest.hexdigest()[:16]


def _add_function(add: Callable[[bytes], object], function: object) -> None:
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        _add_code(add, code)


def _add_code(add: Callable[[bytes], object], code: types.CodeType) -> None:
    add(code.co_code)
    add(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(add, constant)
        elif not isinstance(constant, frozenset):  # whose order changes from run to run
            add(ascii(constant).encode())
