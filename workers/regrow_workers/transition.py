"""The transition: one state and one signal give one outcome. Pure: nothing is read, written or remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import ValidationError

from regrow_signals.errors import ImpureHandler, NotStrictJSON, Reject, TooLarge
from regrow_signals.limits import Limits
from regrow_signals.signal import Signal
from regrow_workers.context import Context
from regrow_workers.delivery import Delivery
from regrow_workers.directives import Directive
from regrow_workers.handler_checks import Handler
from regrow_workers.outcomes import (
    BadData,
    Crashed,
    NewState,
    Outcome,
    Rejected,
    Unchanged,
    UnhandledType,
    Unstorable,
    WrongMode,
)
from regrow_workers.purity import GuardMode, guard, guarded
from regrow_workers.schedules import refuse_declared
from regrow_workers.state import State, changed_fields, encode_state
from regrow_workers.step import normal_step
from regrow_workers.tracebacks import exception_line, exception_trace
from regrow_workers.validation import first_problem, one_line

if TYPE_CHECKING:
    from regrow_workers.agent import Agent
    from regrow_workers.definition import Definition

__all__ = [
    "apply",
    "argument_of",
    "concluded",
    "crashed",
    "handle",
    "handler_for",
    "mode_of",
    "no_handler",
    "refuse_changed",
    "take",
]

_DEFAULT: Limits = Limits()


def apply(
    agent_type: type[Agent[Any]],
    state: State,
    signal: Signal,
    ctx: Context | None = None,
    *,
    limits: Limits = _DEFAULT,
    before: str | None = None,
) -> Outcome:
    """What ``signal`` does to ``state``. With ``before``, the state's JSON, a handler that changed it is found."""
    delivery = Delivery.example(signal, ctx or Context.example(signal))
    definition = agent_type.definition
    return take(definition, state, delivery, limits, before=before, mode=mode_of(definition))


def take(
    definition: Definition,
    state: State,
    delivery: Delivery,
    limits: Limits,
    *,
    before: str | None,
    mode: GuardMode,
) -> Outcome:
    """``apply`` without the making of signals: what the batch planner calls. ``mode``: of the guard."""
    if definition.hooks:
        from regrow_workers.hooked_transition import (
            take_hooked,  # built on this module, and most types have no hooks
        )

        return take_hooked(definition, state, delivery, limits=limits, before=before, mode=mode)
    handler = handler_for(definition, state, delivery.type)
    if type(handler) is not Handler:
        return cast("Outcome", handler)
    modes = definition.modes
    mode_before = modes.of(state) if modes is not None else ""
    try:
        argument = argument_of(handler, delivery)
    except ValidationError as error:
        return BadData(f"{handler.payload_name}: {first_problem(error)}")
    except (ValueError, TypeError) as error:
        return BadData(one_line(error))
    try:
        new, directives = handle(definition, handler, state, argument, delivery, mode=mode)
        if before is not None:
            refuse_changed(handler, state, before)
    except Reject as error:
        return Rejected(one_line(error) or "no reason given")
    except MemoryError:
        # Not this handler's to answer for alone: the process is at its limit, and ends.
        raise
    except Exception as error:  # noqa: BLE001  let it crash: whatever a handler raises is the incarnation's reason
        return crashed(error)
    return concluded(definition, handler, mode_before, new, directives, limits=limits)


def concluded(
    definition: Definition,
    handler: Handler,
    mode_before: str,
    new: State | None,
    directives: Sequence[Directive],
    *,
    limits: Limits,
) -> Outcome:
    """What a step comes to once it is held against its bounds, and the agent's modes."""
    modes = definition.modes
    if len(directives) > limits.max_directives:
        return Unstorable(
            "too_many_directives", f"{len(directives):,} directives; {limits.max_directives:,} are allowed"
        )
    if new is None:
        return Unchanged(directives)
    if modes is not None and (why := modes.refusal(mode_before, new, handler)):
        return WrongMode(why)
    try:
        return NewState(new, encode_state(new, max_bytes=limits.max_state_bytes), directives)
    except TooLarge as error:
        return Unstorable("state_too_large", str(error))
    except NotStrictJSON as error:
        return Unstorable("not_strict_json", str(error))


def handler_for(definition: Definition, state: State, type_name: str) -> Handler | UnhandledType | WrongMode:
    """The handler of this type in the state's mode, or why there is none."""
    modes = definition.modes
    found = definition.routes.best(type_name) if modes is None else modes.handler(state, type_name)
    if found is not None:
        return found
    elsewhere = None if modes is None else definition.routes.best(type_name)
    if modes is None or elsewhere is None:
        return UnhandledType(no_handler(definition, type_name))
    return WrongMode(
        modes.no_handler(state, type_name, elsewhere), postponed=modes.postpones(state, type_name)
    )


def argument_of(handler: Handler, delivery: Delivery) -> object:
    """What the handler is given: the validated payload, or the signal. ``ValueError`` if the data does not fit."""
    if handler.decode is None:
        return delivery.signal()
    return handler.decode(delivery.data)


def handle(
    definition: Definition,
    handler: Handler,
    state: State,
    argument: object,
    delivery: Delivery,
    *,
    mode: GuardMode,
) -> tuple[State | None, Sequence[Directive]]:
    """Call the handler; raises what it raises, and ``ImpureHandler`` where it returned no ``Step``."""
    arguments: tuple[object, ...] = (definition.instance, state, argument)
    if handler.takes_context:
        arguments = (*arguments, delivery.context())
    returned: Any = (
        handler.function(*arguments)
        if mode == "off"
        else guarded(handler.function, arguments, handler.shown, mode)
    )
    if returned.__class__ is definition.state_type:
        return returned, ()
    step = normal_step(definition.state_type, returned, handler.shown)
    if definition.schedules and step[1]:
        refuse_declared(definition.schedules, step[1], handler.shown)
    return step


def mode_of(definition: Definition, own: GuardMode | Literal[""] = "") -> GuardMode:
    """Of the guard: what the agent says, else its type, else the process."""
    return own or definition.guard or guard.mode


def refuse_changed(handler: Handler, state: State, before: str) -> None:
    """``ImpureHandler`` naming the fields of its input that the handler changed."""
    try:
        after = encode_state(state)
    except NotStrictJSON as error:
        raise ImpureHandler(f"{handler.shown} changed the state it was given: {error}") from None
    if after != before:
        names = ", ".join(changed_fields(before, after)) or "the state"
        raise ImpureHandler(
            f"{handler.shown} changed {names} in the state it was given; leave it as it is and return "
            "state.evolve(...) with new values"
        )


def no_handler(definition: Definition, type_name: str) -> str:
    known = ", ".join(handler.pattern.text for handler in definition.handlers) or "nothing"
    return one_line(
        f"agent type {definition.name!r} has no handler for {type_name!r:.210}; it handles {known}"
    )


def crashed(error: Exception) -> Crashed:
    return Crashed(error, f"exception:{exception_line(error)}", exception_trace(error))
