"""All that can be wrong with an agent's handlers, found when its class is defined; the message names the fix."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from regrow_signals.errors import BadDefinition, BadTypeName
from regrow_signals.routing import Pattern
from regrow_signals.signal import Payload, Signal
from regrow_workers.context import Context
from regrow_workers.handlers import marks_of, modes_of, take_defined
from regrow_workers.state import State

__all__ = ["Handler", "handlers_of"]

_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class Handler:
    """One checked handler: ``payload`` and ``decode`` are None where it takes the whole ``Signal``."""

    pattern: Pattern
    name: str
    function: Callable[..., object]
    payload: type[Payload] | None
    takes_context: bool
    decode: Callable[[str], object] | None
    shown: str
    """``Support.opened()``, for messages."""
    modes: tuple[str, ...] = ()
    """Those it is for; empty: all."""

    @property
    def payload_name(self) -> str:
        return self.payload.__name__ if self.payload is not None else "Signal"


def handlers_of(cls: type, state_type: type[State], names: Mapping[str, Any]) -> list[Handler]:
    """Checked handlers of a class, its own and inherited ones; of one pattern the nearest class's counts.

    ``names`` are the local names where the class is defined: annotations are text and are looked up there.
    """
    _refuse_lost(cls)
    found: dict[tuple[Pattern, str], tuple[Handler, type]] = {}
    for owner in cls.__mro__:
        for name, function in vars(owner).items():
            marks = marks_of(_unwrapped(function))
            if not marks or _overridden(cls, owner, name):
                continue
            handler_checks = _Checks(cls, state_type, name, _unwrapped(function), names)
            takes_context = handler_checks.signature(marks, is_method=_unwrapped(function) is function)
            for what in marks:
                handler = handler_checks.handler(what, takes_context=takes_context)
                for mode in modes_of(_unwrapped(function), what) or ("",):
                    before = found.get((handler.pattern, mode))
                    if before is None:
                        found[handler.pattern, mode] = (handler, owner)
                    elif before[1] is owner:
                        where = f" in mode {mode!r}" if mode else ""
                        raise BadDefinition(
                            f"{cls.__name__}: {before[0].name}() and {name}() both handle {handler.pattern.text!r}"
                            f"{where}; one handler runs per signal: join them, or make one pattern narrower"
                        )
    return _with_modes([(handler, mode) for (_, mode), (handler, _) in found.items()])


def _with_modes(found: Sequence[tuple[Handler, str]]) -> list[Handler]:
    """Each handler once, with the modes that are left to it."""
    modes: dict[int, tuple[Handler, list[str]]] = {}
    for handler, mode in found:
        modes.setdefault(id(handler), (handler, []))[1].append(mode)
    return [replace(handler, modes=tuple(filter(None, left))) for handler, left in modes.values()]


def _refuse_lost(cls: type) -> None:
    for function in take_defined(cls):
        name = function.__name__
        kept = _unwrapped(vars(cls).get(name))
        if kept is not function and marks_of(kept) is not marks_of(function):
            raise BadDefinition(
                f"{cls.__name__}: two methods are named {name}(); Python keeps only the last: rename one of them"
            )


def _overridden(cls: type, owner: type, name: str) -> bool:
    """Whether a nearer class has a member of this name; one without ``@handles`` would silence the handler."""
    for nearer in cls.__mro__:
        if nearer is owner:
            return False
        if name in vars(nearer):
            if not marks_of(_unwrapped(vars(nearer)[name])):
                raise BadDefinition(
                    f"{cls.__name__}: {nearer.__name__}.{name} hides the handler {owner.__name__}.{name}(); "
                    "mark it with @handles too, or give it another name"
                )
            return True
    return False


def _unwrapped(member: object) -> Any:
    return getattr(member, "__func__", member)


@dataclass(frozen=True, slots=True)
class _Checks:
    cls: type
    state_type: type[State]
    name: str
    function: Callable[..., object]
    names: Mapping[str, Any]

    def handler(self, what: type[Payload] | str, *, takes_context: bool) -> Handler:
        text = what if isinstance(what, str) else what.signal_type
        if not text:
            name = what if isinstance(what, str) else what.__name__
            raise self.bad(f"handles {name}, which names no signal type: class {name}(Payload, type='...')")
        try:
            pattern = Pattern.parse(text)
        except BadTypeName as error:
            raise self.bad(str(error)) from None
        payload = None if isinstance(what, str) else what
        return Handler(
            pattern=pattern,
            name=self.name,
            function=self.function,
            payload=payload,
            takes_context=takes_context,
            decode=_decoder(payload) if payload is not None else None,
            shown=f"{self.cls.__name__}.{self.name}()",
        )

    def signature(self, marks: Sequence[type[Payload] | str], *, is_method: bool) -> bool:
        """Check it whole; the answer is whether it takes the context."""
        if not is_method or not inspect.isfunction(self.function):
            raise self.bad("must be a plain method: (self, state, payload) or (self, state, payload, ctx)")
        if inspect.iscoroutinefunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise self.bad(
                "is an async def; a transition is pure and waits for nothing: put I/O into an @effect"
            )
        if inspect.isgeneratorfunction(self.function):
            raise self.bad(
                "is a generator; return the directives in a tuple or a list instead of yielding them"
            )
        parameters = list(inspect.signature(self.function).parameters.values())
        ways = {p.kind for p in parameters}
        if inspect.Parameter.VAR_POSITIONAL in ways or inspect.Parameter.VAR_KEYWORD in ways:
            raise self.bad(
                "takes *args or **kwargs; write (self, state, payload) or (self, state, payload, ctx)"
            )
        if inspect.Parameter.KEYWORD_ONLY in ways or len(parameters) not in (3, 4):
            shown = ", ".join(p.name for p in parameters)
            raise self.bad(f"takes ({shown}); write (self, state, payload) or (self, state, payload, ctx)")
        self.parameter(parameters[1], self.state_type, "its state comes second")
        for what in marks:
            wanted = Signal if isinstance(what, str) else what
            self.parameter(
                parameters[2],
                wanted,
                "a pattern's handler takes the whole Signal" if wanted is Signal else "",
            )
        if len(parameters) == 4:
            self.parameter(parameters[3], Context, "the context comes last")
        self.returned()
        return len(parameters) == 4

    def parameter(self, parameter: inspect.Parameter, wanted: type, why: str) -> None:
        annotation = self.resolved(parameter.annotation)
        if annotation is _UNKNOWN or _accepts(annotation, wanted):
            return
        shown = getattr(annotation, "__name__", None) or str(annotation)
        reason = f" ({why})" if why else ""
        raise self.bad(
            f"parameter {parameter.name!r} is annotated {shown}; it is given a {wanted.__name__}{reason}"
        )

    def returned(self) -> None:
        annotation = self.resolved(inspect.signature(self.function).return_annotation)
        for part in _parts(annotation):
            wrong_state = (
                isinstance(part, type) and issubclass(part, State) and not issubclass(self.state_type, part)
            )
            if wrong_state or part in (int, str, bool, float, dict, bytes):
                raise self.bad(
                    f"is annotated to return {part.__name__}; it returns Step[{self.state_type.__name__}]"
                )

    def resolved(self, annotation: Any) -> Any:
        """The annotation as an object; ``_UNKNOWN`` where a name is not there at run time (TYPE_CHECKING imports)."""
        if annotation is inspect.Parameter.empty:
            return _UNKNOWN
        if not isinstance(annotation, str):
            return annotation
        scope = {**getattr(self.function, "__globals__", {}), **self.names}
        try:
            return eval(
                annotation, scope, dict(vars(self.cls))
            )  # the author's own text, as typing evaluates it
        except Exception:  # noqa: BLE001  whatever it raises, the type checker is who judges such an annotation
            return _UNKNOWN

    def bad(self, why: str) -> BadDefinition:
        return BadDefinition(f"{self.cls.__name__}.{self.name}() {why}")


def _decoder(payload: type[Payload]) -> Callable[[str], object]:
    # By name too: results of effects are stored under their fields' names.
    return partial(payload.__pydantic_validator__.validate_json, by_alias=True, by_name=True)


def _accepts(annotation: Any, wanted: type) -> bool:
    if annotation is Any or isinstance(annotation, TypeVar):
        return True
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_accepts(part, wanted) for part in get_args(annotation))
    plain = get_origin(annotation) or annotation
    return not isinstance(plain, type) or issubclass(wanted, plain) or _same_generic(plain, wanted)


def _same_generic(annotation: type, wanted: type) -> bool:
    """``Done[None]`` written in an annotation and made from a function's hints are two classes of one meaning."""
    origin, arguments = _generic(annotation)
    return origin is not None and any(_generic(base) == (origin, arguments) for base in wanted.__mro__)


def _generic(cls: type) -> tuple[Any, tuple[Any, ...]]:
    known: Mapping[str, Any] = getattr(cls, "__pydantic_generic_metadata__", {})
    arguments: tuple[Any, ...] = known.get("args", ())
    return known.get("origin"), tuple(type(None) if part is None else part for part in arguments)


def _parts(annotation: Any) -> Iterator[Any]:
    if annotation is _UNKNOWN:
        return
    yield annotation
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        for part in get_args(annotation):
            yield from _parts(part)
