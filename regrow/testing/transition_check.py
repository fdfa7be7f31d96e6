"""``check_transition``: does a type's ``cmd`` keep what a transition promises? Tried on states and signals of yours.

For each pair: the state survives JSON; the handler does nothing impure and leaves its input as it is; asked again, also
from a state that came out of JSON, it answers the same; what it returns survives JSON too, and can be committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from regrow_signals.errors import (
    BadPayload,
    ImpureHandler,
    NotStrictJSON,
    Reject,
    TooLarge,
    Unhandled,
    UnreadableState,
)
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent import Agent
from regrow_workers.context import Context
from regrow_workers.delivery import Delivery
from regrow_workers.directive_appends import lay_out
from regrow_workers.directives import Directive
from regrow_workers.state import State, encode_state, parse_state

__all__ = ["Fault", "TransitionFaults", "check_transition"]

S = TypeVar("S", bound=State)

FaultKind = Literal["state", "impure", "differs", "raises", "directives", "unreadable"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken promise.

    ``state``: it does not survive JSON. ``impure``: a refused call, or a changed input. ``differs``: a second run came
    out otherwise. ``raises``: an exception that is no ``Reject``. ``directives``: they cannot be committed.
    ``unreadable``: a stored state of an earlier schema that the class cannot read.
    """

    kind: FaultKind
    signal: str
    state: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.signal or 'before any signal'} on {self.state}: {self.message}"


class TransitionFaults(AssertionError):
    """What was found, one line each."""

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join([f"{name}: {len(faults)} faults in its transition", *map(str, faults)]))
        self.faults = tuple(faults)


def check_transition(
    agent_type: type[Agent[S]],
    states: Iterable[S],
    signals: Iterable[Payload | Signal],
    *,
    may_raise: type[Exception] | tuple[type[Exception], ...] = (),
    stored: Iterable[tuple[int, Mapping[str, Any]]] = (),
) -> None:
    """Try every signal on every state; raises ``TransitionFaults`` with all that was found.

    ``stored`` are states as earlier code has stored them, ``(schema, JSON data)``: they are led to the class's schema
    by its ``@upcast`` steps, twice, and then tried like the others.

    A ``Reject`` is an answer like any other, and has to be the same at each run; so is what ``may_raise`` names. A
    signal without a handler is a mistake of the test: ``Unhandled``.
    """
    asked = list(signals)
    faults: list[Fault] = []
    for state in [*states, *_upcast(agent_type, stored, faults)]:
        check = _Check(agent_type, state, may_raise, faults)
        again = check.survives(state, "")
        for signal in asked if again is not None else ():
            check.try_signal(signal, again)
    if faults:
        raise TransitionFaults(agent_type.defined().name, faults)


def _upcast(
    agent_type: type[Agent[S]], stored: Iterable[tuple[int, Mapping[str, Any]]], faults: list[Fault]
) -> list[S]:
    """The stored states that can be read, and always as the same."""
    found: list[S] = []
    for schema, data in stored:
        shown = f"{data!r:.200} of schema {schema}"
        text = json.dumps(data)
        try:
            first, second = (_read(agent_type, text, schema) for _ in range(2))
        except UnreadableState as error:
            faults.append(Fault("unreadable", "", shown, str(error)))
            continue
        found.append(first)
        if first != second:
            told = f"it was read as {second!r:.200}, first it was {first!r:.200}"
            faults.append(Fault("differs", "", shown, told))
    return found


def _read(agent_type: type[Agent[S]], text: str, schema: int) -> S:
    kind = agent_type.defined().state_type
    return cast("S", parse_state(kind, text, schema, guard="enforce"))


class _Check:
    """Of one state."""

    def __init__(
        self,
        agent_type: type[Agent[Any]],
        state: State,
        may_raise: type[Exception] | tuple[type[Exception], ...],
        faults: list[Fault],
    ) -> None:
        self._type = agent_type
        self._state = state
        self._shown = f"{state!r:.200}"
        self._may_raise = may_raise
        self._faults = faults

    def survives(self, state: State, signal: str) -> State | None:
        """The state as it comes out of JSON; None, and a fault, where it comes out otherwise or not at all."""
        try:
            text = encode_state(state)
            found = parse_state(type(state), text)
            if encode_state(found) != text:
                self._fault("state", signal, "its JSON is not the same after a round trip")
            elif found != state:
                self._fault("state", signal, f"{state!r:.200} comes out of JSON as {found!r:.200}")
            else:
                return found
        except (NotStrictJSON, BadPayload, TooLarge) as error:
            self._fault("state", signal, str(error))
        return None

    def try_signal(self, signal: Payload | Signal, again: Any) -> None:
        whole = signal if isinstance(signal, Signal) else Signal.of(signal, source="test")
        first = self._run(self._state, signal, whole)
        if first is None:
            return
        for start, how in ((self._state, "run again"), (again, "run on the same state out of JSON")):
            second = self._run(start, signal, whole)
            if second is None:
                return
            if second != first:
                self._fault("differs", whole.type, f"{how}: {second:.200}, first it was {first:.200}")
                return

    def _run(self, state: Any, signal: Payload | Signal, whole: Signal) -> str | None:
        """What came out, in one line that can be compared; None where that is a fault."""
        try:
            new, directives = self._type.cmd(state, signal, ctx=Context.example(whole, agent_id="checked"))
        except Unhandled:
            raise
        except Reject as answer:
            return f"Reject: {answer}"
        except ImpureHandler as error:
            self._fault("impure", whole.type, str(error))
            return None
        except NotStrictJSON as error:
            self._fault("state", whole.type, str(error))
            return None
        except Exception as error:  # noqa: BLE001  whatever the handler raises is looked at
            if isinstance(error, self._may_raise):
                return f"{type(error).__name__}: {error}"
            self._fault("raises", whole.type, f"{type(error).__name__}: {error}")
            return None
        if self.survives(new, whole.type) is None:
            return None
        laid = self._laid_out(directives, whole)
        return None if laid is None else f"{encode_state(new)} {laid}"

    def _laid_out(self, directives: Sequence[Directive], whole: Signal) -> str | None:
        delivery = Delivery.example(whole, Context.example(whole, agent_id="checked"))
        try:
            appends = lay_out(directives, delivery, Limits())
        except (TooLarge, NotStrictJSON, ImpureHandler) as error:
            self._fault("directives", whole.type, str(error))
            return None
        emits = [(emit.target, dict(emit.fields)) for emit in appends.emits]
        effects = [(order.name, order.args) for order in appends.effects]
        return f"{emits} {effects} {appends.stop}"

    def _fault(self, kind: FaultKind, signal: str, message: str) -> None:
        found = Fault(kind, signal, self._shown, message)
        if found not in self._faults:
            self._faults.append(found)
