"""Effects in a test: what an agent has ordered, and what the test lets come of it. Claimed and settled for real."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from regrow_signals import effect_store, views
from regrow_signals.connection import Connection
from regrow_signals.effect_store import ClaimedEffect, EffectNotDue
from regrow_signals.errors import BadInput, FateUnknown
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers.effects import settlement
from regrow_workers.effects.calling import prepare, returned
from regrow_workers.effects.effect import Effect
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.tracebacks import exception_line

__all__ = ["EffectDesk", "PendingEffect"]


@dataclass(frozen=True, slots=True)
class PendingEffect:
    """A committed effect. ``id`` is the idempotency key that the function would get as ``run.id``."""

    id: str
    agent: str
    name: str
    args: Mapping[str, Any]


class EffectDesk:
    """Plays the executor for one namespace."""

    def __init__(
        self,
        connection: Connection,
        keys: Keys,
        effects: Mapping[str, Effect[..., Any]],
        node: Callable[[], str],
    ) -> None:
        """``node`` is a node that is up: it answers for what was claimed."""
        self._connection = connection
        self._keys = keys
        self._effects = effects
        self._node = node

    def pending(self, agent: str) -> list[PendingEffect]:
        entries = self._connection.command(views.outbox(self._keys, agent, count=10_000))
        return [
            PendingEffect(fields["effect"], agent, fields["name"], json.loads(fields["args"]))
            for _, fields in entries
            if fields.get("kind") == "effect"
        ]

    def complete(self, effect: PendingEffect, result: object) -> None:
        claimed, held = self._claim(effect)
        try:
            text = json.dumps(to_jsonable_python(result), allow_nan=False)
        except ValueError as error:
            raise BadInput(f"the result of {claimed.name} is no JSON: {error}") from None
        self._settle(held, settlement.done(held, text))

    def fail(self, effect: PendingEffect, error: str) -> None:
        _, held = self._claim(effect)
        self._settle(held, settlement.after_exception(held, error))

    def crash(self, effect: PendingEffect, reason: str) -> None:
        _, held = self._claim(effect)
        self._settle(held, settlement.after_crash(held, reason))

    def execute(self, effects: Sequence[PendingEffect]) -> int:
        called = 0
        for effect in effects:
            try:
                claimed, held = self._claim(effect)
            except EffectNotDue:  # it waits for its next try
                continue
            called += 1
            self._settle(held, self._call(claimed, held))
        return called

    def _call(self, claimed: ClaimedEffect, held: Held) -> Settlement:
        prepared = prepare(self._effects, "the tree under test", claimed, held)
        if isinstance(prepared, Settlement):
            return prepared
        try:
            result = prepared.effect.call(prepared.run, prepared.values)
        except Exception as error:  # noqa: BLE001  an effect may raise anything
            unknown = isinstance(error, FateUnknown)
            return settlement.after_exception(held, exception_line(error), fate_unknown=unknown)
        return returned(prepared.effect, held, result, Limits())

    def _claim(self, effect: PendingEffect) -> tuple[ClaimedEffect, Held]:
        token = new_id()
        call = effect_store.claim_effect(
            self._keys, effect.id, node=self._node(), executor="test", token=token
        )
        claimed = self._connection.call(call)
        return claimed, Held.of(claimed, token)

    def _settle(self, held: Held, outcome: Settlement) -> None:
        self._connection.call(
            effect_store.settle_effect(
                self._keys, held.effect_id, held.token, outcome.outcome, outcome.data, retry_in_ms=outcome.retry_in_ms
            )
        )  # fmt: skip
