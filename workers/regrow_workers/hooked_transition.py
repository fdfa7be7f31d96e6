"""A transition with middleware around it: from the outermost ``before`` in to the handler, and out again. Pure.

Each piece of middleware surrounds those after it and the handler: what they raise it hears of in ``on_error``, what
they emit goes through its ``on_emit``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import ValidationError

from regrow_signals.errors import BadInput, BadPayload, ImpureHandler, Reject
from regrow_signals.ids import check_type
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_signals.strict_json import check
from regrow_workers.delivery import Delivery
from regrow_workers.directives import Directive, Emit
from regrow_workers.handler_checks import Handler
from regrow_workers.middleware import Hooks
from regrow_workers.outcomes import BadData, HookFailed, Outcome, Rejected, UnhandledType, WrongMode
from regrow_workers.purity import GuardMode, guard, guarded
from regrow_workers.schedules import refuse_declared
from regrow_workers.state import State
from regrow_workers.tracebacks import exception_trace
from regrow_workers.transition import argument_of, concluded, crashed, handle, handler_for, refuse_changed
from regrow_workers.validation import first_problem, one_line

if TYPE_CHECKING:
    from regrow_workers.definition import Definition

__all__ = ["Passage", "pass_through", "take_hooked"]

T = TypeVar("T")

_KEPT: Final = ("id", "replyto", "hops", "traceparent", "tracestate", "causationid")
"""What a hook cannot change of a signal: who it is, where its reply goes, and where it came from."""


@dataclass(slots=True)
class Passage:
    """One signal's way through. ``error`` is what was raised last; ``by_hook`` names the hook, if one did."""

    delivery: Delivery
    handler: Handler | None = None
    new: State | None = None
    directives: Sequence[Directive] = ()
    not_handled: UnhandledType | WrongMode | None = None
    error: Exception | None = None
    by_hook: str = ""
    misfit: bool = False
    """The data did not fit: ``error`` is a ``BadPayload`` that says so."""
    alerts: list[Emit] = field(default_factory=list[Emit])


def take_hooked(
    definition: Definition,
    state: State,
    delivery: Delivery,
    *,
    limits: Limits,
    before: str | None,
    mode: GuardMode | None,
) -> Outcome:
    """``transition.take`` for a type with middleware."""
    mode_before = definition.modes.of(state) if definition.modes is not None else ""
    try:
        passage = pass_through(definition, state, delivery, mode=mode, before=before)
    except (ValueError, TypeError) as malformed:
        return BadData(one_line(malformed))  # it is no whole signal, which hooks are given
    error, alerts = passage.error, passage.alerts
    if passage.not_handled is not None:
        return passage.not_handled
    if error is None:
        assert passage.handler is not None, "a passage without an error has met its handler"
        return concluded(
            definition, passage.handler, mode_before, passage.new, passage.directives, limits=limits
        )
    if isinstance(error, Reject):
        return Rejected(one_line(error) or "no reason given", alerts)
    if passage.misfit:
        return BadData(str(error), alerts)
    if passage.by_hook:
        return HookFailed(f"{passage.by_hook} raised: {exception_trace(error)}", alerts)
    return replace(crashed(error), alerts=alerts)


def pass_through(
    definition: Definition,
    state: State,
    delivery: Delivery,
    *,
    mode: GuardMode | None = None,
    before: str | None = None,
) -> Passage:
    """In through each ``before``, the handler, and out again. What is raised is in the passage, but a ``MemoryError``.

    ``BadInput`` for a delivery that is no whole signal.
    """
    delivery.signal()
    passage = Passage(delivery)
    way = _Way(definition, state, passage, mode or definition.guard or guard.mode)
    inside: list[Hooks] = []
    try:
        for hooks in definition.hooks:
            way.enter(hooks)
            inside.append(hooks)
        way.meet_handler()
        while inside and passage.not_handled is None:
            way.leave(inside.pop())
        if before is not None and passage.handler is not None:
            shown = passage.handler.shown + (" or its middleware" if definition.hooks else "")
            refuse_changed(replace(passage.handler, shown=shown), state, before)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  whatever is raised inside is told to those outside of it
        passage.error = error
        while inside:
            way.tell(inside.pop())
    return passage


class _Way:
    """The steps of a passage; an exception of each step's hook is noted as one."""

    def __init__(self, definition: Definition, state: State, passage: Passage, mode: GuardMode) -> None:
        self._definition = definition
        self._state = state
        self._passage = passage
        self._mode: GuardMode = mode

    def enter(self, hooks: Hooks) -> None:
        if hooks.before is None:
            return
        delivery = self._passage.delivery
        signal = delivery.signal()
        self._hooked(hooks, "before", (self._state, signal, delivery.context()), self._take_signal)

    def meet_handler(self) -> None:
        passage, definition = self._passage, self._definition
        handler = handler_for(definition, self._state, passage.delivery.type)
        if not isinstance(handler, Handler):
            passage.not_handled = handler
            return
        passage.handler = handler
        try:
            argument = argument_of(handler, passage.delivery)
        except (ValueError, TypeError) as error:
            passage.misfit = True
            problem = first_problem(error) if isinstance(error, ValidationError) else one_line(error)
            raise BadPayload(f"{handler.payload_name}: {problem}") from None
        passage.new, passage.directives = handle(
            definition, handler, self._state, argument, passage.delivery, mode=self._mode
        )

    def leave(self, hooks: Hooks) -> None:
        passage = self._passage
        if hooks.after is not None:
            new = self._state if passage.new is None else passage.new
            given = tuple(passage.directives)
            signal = passage.delivery.signal()
            arguments = (self._state, signal, new, given, passage.delivery.context())
            self._hooked(hooks, "after", arguments, self._take_directives)
        passage.directives = self._sent(hooks, passage.directives)

    def tell(self, hooks: Hooks) -> None:
        """What was raised inside of it, while more is outside. Raises nothing: what a hook raises comes instead."""
        passage = self._passage
        try:
            if hooks.on_error is not None:
                arguments = (
                    self._state,
                    passage.delivery.signal(),
                    passage.error,
                    passage.delivery.context(),
                )
                self._hooked(hooks, "on_error", arguments, self._take_alerts)
            passage.alerts = [emit for emit in self._sent(hooks, passage.alerts) if isinstance(emit, Emit)]
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  as above
            passage.error, passage.misfit = error, False

    def _sent(self, hooks: Hooks, directives: Sequence[Directive]) -> Sequence[Directive]:
        if hooks.on_emit is None or not any(isinstance(one, Emit) for one in directives):
            return directives
        ctx = self._passage.delivery.context()
        sent: list[Directive] = []
        for one in directives:
            if isinstance(one, Emit):
                sent.append(self._hooked(hooks, "on_emit", (one, ctx), partial(_emit_after, one)))
            else:
                sent.append(one)
        return sent

    def _hooked(
        self, hooks: Hooks, name: str, arguments: tuple[object, ...], take: Callable[[object, str], T]
    ) -> T:
        hook = cast("Callable[..., object]", getattr(hooks, name))
        shown = f"{hooks.shown}.{name}()"
        try:
            returned = (
                hook(*arguments)
                if self._mode == "off"
                else guarded(hook, arguments, shown, self._mode, place="a hook")
            )
            return take(returned, shown)
        except Exception:
            self._passage.by_hook = shown
            raise

    def _take_signal(self, returned: object, shown: str) -> None:
        if returned is None:
            return
        delivery = self._passage.delivery
        signal = delivery.signal()
        if isinstance(returned, Payload):
            if not returned.signal_type:
                raise BadInput(f"{shown} returned a {type(returned).__name__}, which names no signal type")
            new = replace(signal, type=returned.signal_type, data=returned.to_json(), data_base64=False)
        elif isinstance(returned, Signal):
            new = returned
        else:
            raise ImpureHandler(f"{shown} returned a {type(returned).__name__}: a Signal, a Payload, or None")
        if new is signal:
            return
        for name in _KEPT:
            if getattr(new, name) != getattr(signal, name):
                raise ImpureHandler(
                    f"{shown} changed the signal's {name}; replace(signal, type=..., data=...) keeps what must stay"
                )
        check_type(new.type, f"{shown}: type")
        check(new.data)
        new.check_attributes(Limits(max_hops=max(new.hops, Limits().max_hops)))
        self._passage.delivery = delivery.rewritten(new)

    def _take_directives(self, returned: object, shown: str) -> None:
        if returned is not None:
            given = _directives(returned, Directive, shown)
            if self._definition.schedules and given:
                refuse_declared(self._definition.schedules, given, shown)
            self._passage.directives = given

    def _take_alerts(self, returned: object, shown: str) -> None:
        if returned is not None:
            self._passage.alerts += _directives(returned, Emit, shown)


def _emit_after(emit: Emit, returned: object, shown: str) -> Emit:
    if returned is None:
        return emit
    if not isinstance(returned, type(emit)):
        wanted = type(emit).__name__
        raise ImpureHandler(
            f"{shown} returned a {type(returned).__name__} for an {wanted}: an {wanted}, or None"
        )
    return returned


def _directives(returned: Any, kind: type[T], shown: str) -> list[T]:
    given = [returned] if isinstance(returned, Directive) else returned
    if not isinstance(given, (list, tuple)):
        raise ImpureHandler(f"{shown} returned a {type(returned).__name__}: {kind.__name__} objects, or None")
    for one in cast("Sequence[object]", given):
        if not isinstance(one, kind):
            raise ImpureHandler(f"{shown} returned a {type(one).__name__} among its {kind.__name__} objects")
    return list(cast("Sequence[T]", given))
