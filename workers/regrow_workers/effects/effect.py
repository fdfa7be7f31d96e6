"""``@effect``: a function that touches the world, run after the commit that ordered it, at least once, under one id.

    @effect(timeout=60, retries=5)
    def charge(run: EffectContext, order: str, cents: int) -> Receipt: ...

    return order.evolve(stage="charging"), charge.run(order.id, order.cents)

An ``async def`` runs on an asyncio executor, where thousands of them can wait in one process; a ``def`` on an executor
of its own. Effects are looked up by name among the functions marked here, never by a path that Redis names. Arguments
and results are JSON, by the function's annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from regrow_signals.durations import Duration, to_ms
from regrow_signals.effect_progress import progress_text
from regrow_signals.effect_store import EffectLimit
from regrow_signals.errors import BadDefinition, BadInput, BadPayload, NotStrictJSON
from regrow_signals.finite import check_finite
from regrow_signals.ids import check_type
from regrow_signals.limits import Limits
from regrow_signals.strict_json import dumps, loads
from regrow_workers.directives import CancelEffect, EffectRun
from regrow_workers.effects.outcome_payloads import Cancelled, Done, Failed, InDoubt, named
from regrow_workers.effects.rates import Rate, effect_limit
from regrow_workers.validation import first_problem, one_line

__all__ = ["AsyncEffect", "Effect", "EffectCancelled", "EffectContext", "effect", "registered_effects"]

P = ParamSpec("P")
R = TypeVar("R")

_LIMITS: Final = Limits()
_MAX_RETRIES: Final = 1_000

_registry: dict[str, Effect[..., Any]] = {}


class EffectCancelled(BaseException):
    """Raised by ``run.progress`` in a ``def``: the effect was cancelled, or was taken from its executor.

    Not an ``Exception``: a function that retries on any of those must not swallow it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectContext:
    """What an effect knows of its run. ``id`` is the idempotency key: the same on every try of this run."""

    id: str
    agent: str = "test"
    name: str = "test"
    attempt: int = 1
    """1 on the first try."""
    at_ms: int = 0
    """When the run was committed, by the clock of Redis."""
    tag: str = ""
    traceparent: str = ""
    """W3C trace context of the run, to be handed on; its outcome carries the same."""
    tracestate: str = ""
    _report: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    def progress(self, value: float | Mapping[str, Any]) -> None:
        """Say how far the call is: a number from 0 to 1, or a dict of at most 4 KiB of JSON. May be called at any pace.

        Ten a second are told at most. The call's time limit stays as it is. In a ``def`` it raises
        ``EffectCancelled`` if the effect was cancelled; an ``async def`` is cancelled as tasks are. ``BadInput`` for a
        value that is neither.
        """
        text = progress_text(value)
        if self._report is not None:
            self._report(text)


class Effect(Generic[P, R]):
    """A registered effect. Call it directly in tests; in a handler return ``effect.run(...)``."""

    def __init__(
        self,
        function: Callable[Concatenate[EffectContext, P], R],
        *,
        name: str,
        timeout_ms: int,
        retries: int,
        idempotent: bool,
        backoff_ms: int,
        limit: EffectLimit,
        names: Mapping[str, Any],
    ) -> None:
        self.function: Final = function
        self.name: Final = name
        self.timeout_ms: Final = timeout_ms
        self.retries: Final = retries
        self.idempotent: Final = idempotent
        self.backoff_ms: Final = backoff_ms
        self.limit: Final = limit
        """Of all runs of this name, wherever they are executed."""
        self.awaited: Final = inspect.iscoroutinefunction(function)
        """An ``async def``."""
        self.__doc__ = function.__doc__
        signature = inspect.signature(function)
        _check_kind(name, function, signature)
        hints = _hints(name, function, names)
        parameters = list(signature.parameters.values())
        _check_context(name, parameters[0], hints)
        self._signature: Final = signature.replace(parameters=parameters[1:])
        self._adapters: Final = {p.name: _adapter(name, p.name, hints) for p in parameters[1:]}
        self._result: Final = _adapter(name, "return", hints)
        self.done: Final[type[Done[R]]] = _done(name, hints["return"])
        """The payload of success: ``@handles(charge.done)`` with ``done: Done[Receipt]``."""
        self.failed: Final[type[Failed]] = named(Failed, f"{name}.failed")
        self.in_doubt: Final[type[InDoubt]] = named(InDoubt, f"{name}.in_doubt")
        self.cancelled: Final[type[Cancelled]] = named(Cancelled, f"{name}.cancelled")

    def __call__(self, run: EffectContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(run, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<effect {self.name}>"

    def run(self, *args: P.args, **kwargs: P.kwargs) -> EffectRun:
        """The directive: run this effect with these arguments. ``BadInput`` names an argument that does not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadInput(f"effect {self.name}: {error}") from None
        # Defaults are written out: a later deploy with another default does not change what was ordered.
        bound.apply_defaults()
        plain: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            try:
                plain[name] = self._plain(self._adapters[name], value, f"effect {self.name}: {name}")
            except ValidationError as error:
                raise BadPayload(f"effect {self.name}: {name}: {first_problem(error)}") from None
            except PydanticSerializationError as error:
                raise NotStrictJSON(f"effect {self.name}: {name}: {one_line(error)}") from None
        return EffectRun(
            self.name,
            plain,
            timeout_ms=self.timeout_ms,
            retries=self.retries,
            idempotent=self.idempotent,
            backoff_ms=self.backoff_ms,
            awaited=self.awaited,
        )

    def cancel(self, *, tag: str) -> CancelEffect:
        """The directive: cancel this agent's runs of this effect that have the tag."""
        return CancelEffect(tag, self.name)

    def parse_args(self, text: str) -> dict[str, Any]:
        """Stored arguments as the function takes them, by name. ``BadPayload`` if they do not fit (any more)."""
        read: object = loads(text, what=f"arguments of effect {self.name}")
        if not isinstance(read, dict):
            raise BadPayload(f"arguments of effect {self.name} are no JSON object")
        given = cast("dict[str, Any]", read)
        unknown = [name for name in given if name not in self._adapters]
        if unknown:
            raise BadPayload(f"effect {self.name} takes no argument {unknown[0]!r:.80}")
        values: dict[str, Any] = {}
        for name, value in given.items():
            try:
                values[name] = self._adapters[name].validate_json(dumps(value), by_alias=True, by_name=True)
            except ValidationError as error:
                raise BadPayload(f"effect {self.name}: {name}: {first_problem(error)}") from None
        try:
            self._signature.bind(**values)
        except TypeError as error:
            raise BadPayload(f"effect {self.name}: {error}") from None
        return values

    def encode_result(self, result: object, limits: Limits = _LIMITS) -> str:
        """What the function returned, as strict JSON by its annotation; ``BadInput`` if it is something else."""
        what = f"result of effect {self.name}"
        try:
            return dumps(
                self._plain(self._result, result, what),
                max_bytes=limits.max_signal_bytes,
                max_depth=limits.max_json_depth,
                what=what,
            )
        except ValidationError as error:
            raise BadPayload(f"{what}: {first_problem(error)}") from None
        except (PydanticSerializationError, UnicodeError) as error:
            raise NotStrictJSON(f"{what}: {one_line(error)}") from None

    def call(self, run: EffectContext, values: Mapping[str, Any]) -> object:
        """Call the function where nothing else goes on: an ``async def`` gets an event loop of its own."""
        function: Callable[..., Any] = self.function
        result = function(run, **values)
        if self.awaited:
            import asyncio  # large: executors of plain functions do without

            return asyncio.run(result)
        return result

    def execute(self, run: EffectContext, args: str) -> str:
        """Call the function with stored arguments: its result as JSON, or whatever it raises."""
        return self.encode_result(self.call(run, self.parse_args(args)))

    @staticmethod
    def _plain(adapter: TypeAdapter[Any], value: object, what: str) -> Any:
        valid = adapter.validate_python(value)
        check_finite(valid, what)
        return adapter.dump_python(valid, mode="json", by_alias=False)


class AsyncEffect(Effect[P, R]):
    """An effect that is an ``async def``: called directly, it is awaited."""

    def __call__(  # type: ignore[override]
        self, run: EffectContext, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]:  # pyright: ignore[reportIncompatibleMethodOverride]
        function: Callable[..., Any] = self.function
        return cast("Coroutine[Any, Any, R]", function(run, *args, **kwargs))


def registered_effects() -> Mapping[str, Effect[..., Any]]:
    """All effects that this process has defined, by name."""
    return dict(_registry)


class _Mark(Protocol):
    """What ``@effect(...)`` is: an ``async def`` becomes an ``AsyncEffect``."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[EffectContext, P], Coroutine[Any, Any, R]], /
    ) -> AsyncEffect[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[EffectContext, P], R], /) -> Effect[P, R]: ...


@overload
def effect(
    function: Callable[Concatenate[EffectContext, P], Coroutine[Any, Any, R]], /
) -> AsyncEffect[P, R]: ...
@overload
def effect(function: Callable[Concatenate[EffectContext, P], R], /) -> Effect[P, R]: ...
@overload
def effect(
    *,
    timeout: Duration = 60.0,
    retries: int = 3,
    idempotent: bool = True,
    backoff: Duration = 1.0,
    concurrency: int | None = None,
    rate: Rate | None = None,
    name: str | None = None,
) -> _Mark: ...
def effect(
    function: Callable[..., Any] | None = None,
    /,
    *,
    timeout: Duration = 60.0,
    retries: int = 3,
    idempotent: bool = True,
    backoff: Duration = 1.0,
    concurrency: int | None = None,
    rate: Rate | None = None,
    name: str | None = None,
) -> Any:
    """Register a function as an effect.

    ``timeout`` seconds a try, ``retries`` more tries after an exception, ``backoff`` seconds before the first of them
    and twice as long each time. ``idempotent=False``: nothing is tried again; an exception is a failure at once, and
    after a crash or a time-out inside it the run is in doubt.

    ``concurrency``: at most so many of them in executors' hands at once, over all executors of the namespace; ``rate``
    (``"10/s"``, ``"100/min"``, ``(10, 1.0)``): so many tries begin at once, and as many again in each such time. What
    finds no room waits, the longest due first. Raises ``BadDefinition`` for what makes no sense.
    """
    caller = inspect.currentframe()
    names = _names_at(caller)

    def mark(marked: Callable[..., Any]) -> Effect[..., Any]:
        chosen = _checked_name(marked, name)
        if type(retries) is not int or not 0 <= retries <= _MAX_RETRIES:
            raise BadDefinition(
                f"effect {chosen}: retries={retries!r} must be a whole number from 0 to {_MAX_RETRIES:,}"
            )
        if type(idempotent) is not bool:
            raise BadDefinition(f"effect {chosen}: idempotent={idempotent!r} must be True or False")
        kind: Any = AsyncEffect if inspect.iscoroutinefunction(marked) else Effect
        made: Effect[..., Any] = kind(
            marked,
            name=chosen,
            timeout_ms=_ms(chosen, "timeout", timeout),
            retries=retries,
            idempotent=idempotent,
            backoff_ms=_ms(chosen, "backoff", backoff, zero=True),
            limit=effect_limit(chosen, concurrency, rate),
            names=names,
        )
        _register(made)
        return made

    return mark if function is None else mark(function)


def _register(made: Effect[..., Any]) -> None:
    before = _registry.get(made.name)
    if before is not None and _place(before.function) != _place(made.function):
        raise BadDefinition(
            f"effect {made.name!r} is defined twice, as {'.'.join(_place(before.function))} and as "
            f"{'.'.join(_place(made.function))}: give one of them @effect(name=...)"
        )
    _registry[made.name] = made


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _checked_name(function: object, name: str | None) -> str:
    if not inspect.isfunction(function):
        raise BadDefinition(f"@effect marks plain functions, not {type(function).__name__} objects")
    try:
        return check_type(function.__name__ if name is None else name, "effect name")
    except BadInput as error:
        raise BadDefinition(str(error)) from None


def _ms(effect_name: str, field: str, value: Duration, *, zero: bool = False) -> int:
    try:
        return to_ms(value, field, zero=zero)
    except BadInput as error:
        raise BadDefinition(f"effect {effect_name}: {error}") from None


def _check_kind(name: str, function: object, signature: inspect.Signature) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadDefinition(f"effect {name} is a generator; return one value")
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadDefinition(
                f"effect {name}: parameter {parameter} cannot be stored by name; "
                "write plain parameters: (run: EffectContext, order: str, ...)"
            )
    if not signature.parameters:
        raise BadDefinition(f"effect {name}: the first parameter must be run: EffectContext")


def _check_context(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    annotation = hints.get(parameter.name)
    if annotation is not EffectContext or parameter.kind is parameter.KEYWORD_ONLY:
        raise BadDefinition(
            f"effect {name}: the first parameter must be annotated {parameter.name}: EffectContext"
        )


def _hints(name: str, function: Callable[..., Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        hints = get_type_hints(function, localns=dict(names), include_extras=True)
    except Exception as error:  # noqa: BLE001  evaluating the author's annotations may raise anything
        raise BadDefinition(
            f"effect {name}: its annotations cannot be read ({one_line(error)}); "
            "import what they name outside of TYPE_CHECKING"
        ) from None
    for wanted in (*inspect.signature(function).parameters, "return"):
        if wanted not in hints:
            shown = "its result" if wanted == "return" else f"parameter {wanted!r}"
            raise BadDefinition(f"effect {name}: {shown} has no annotation; JSON is made and read by them")
    return hints


def _adapter(name: str, part: str, hints: Mapping[str, Any]) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hints[part])
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        shown = "its result" if part == "return" else f"parameter {part!r}"
        raise BadDefinition(
            f"effect {name}: {shown} has no JSON form ({one_line(error.message.splitlines()[0])}); "
            "use plain types or pydantic models"
        ) from None


def _done(name: str, result: Any) -> Any:
    done: Any = Done
    return named(done[result], f"{name}.done")


def _names_at(frame: FrameType | None) -> Mapping[str, Any]:
    outer = frame.f_back if frame is not None else None
    return outer.f_locals if outer is not None else {}
