"""From an effect's id to its call, and from its result to what is told: the same for every executor.

No I/O here: ``take`` and ``tell`` are Ops, driven by an executor that waits while Redis is away.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from regrow_signals.calls import Call, Op
from regrow_signals.effect_store import (
    ClaimedEffect,
    EffectClaimed,
    EffectGone,
    EffectLimit,
    claim_effect,
    settle_effect,
)
from regrow_signals.errors import BadInput, CorruptKey, FateUnknown, RegrowError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.effects import settlement
from regrow_workers.effects.effect import Effect, EffectCancelled, EffectContext
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.tracebacks import exception_line, exception_place

__all__ = [
    "Prepared",
    "drive",
    "drive_async",
    "limits_of",
    "prepare",
    "raised",
    "returned",
    "take",
    "tell",
    "with_reports",
]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that can be made."""

    effect: Effect[..., Any]
    run: EffectContext
    values: Mapping[str, Any]


def drive(op: Op[T], ask: Callable[[Call[Any]], Any]) -> T:
    """As ``Connection.run``, with an ``ask`` that waits until Redis has answered."""
    try:
        step = next(op)
        while True:
            try:
                answer = ask(cast("Call[Any]", step))
            except RegrowError as error:
                step = op.throw(error)
            else:
                step = op.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


async def drive_async(op: Op[T], ask: Callable[[Call[Any]], Awaitable[Any]]) -> T:
    """As ``drive``, awaited."""
    try:
        step = next(op)
        while True:
            try:
                answer = await ask(cast("Call[Any]", step))
            except RegrowError as error:
                step = op.throw(error)
            else:
                step = op.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


def take(
    keys: Keys, effect_id: str, *, node: str, executor: str, token: str, max_kills: int
) -> Op[tuple[ClaimedEffect, Held] | None]:
    """Claim the effect; None where it is not to be had, which the log says."""
    call = claim_effect(keys, effect_id, node=node, executor=executor, token=token, max_kills=max_kills)
    try:
        claimed = yield call
    except (EffectClaimed, EffectGone) as refusal:
        log.event(_LOG, "effect_not_claimed", level=logging.DEBUG, reason=str(refusal))
        return None
    except CorruptKey as error:
        log.event(_LOG, "effect_unreadable", level=logging.ERROR, effect_id=effect_id, error=str(error))
        return None
    return claimed, Held.of(claimed, token)


def tell(keys: Keys, held: Held, outcome: Settlement) -> Op[bool]:
    """Settle the effect. False where our word does not count any more, which the log says."""
    call = settle_effect(
        keys, held.effect_id, held.token, outcome.outcome, outcome.data, retry_in_ms=outcome.retry_in_ms
    )
    try:
        yield call
    except EffectClaimed as error:
        reason = str(error)
        log.event(_LOG, "effect_taken_away", level=logging.WARNING, effect_id=held.effect_id, reason=reason)
        return False
    except CorruptKey as error:
        log.event(_LOG, "effect_untold", level=logging.ERROR, effect_id=held.effect_id, error=str(error))
        return False
    _log_settlement(held, outcome)
    return True


def prepare(
    effects: Mapping[str, Effect[..., Any]], application: str, claimed: ClaimedEffect, held: Held
) -> Prepared | Settlement:
    """The call; or what is told without one: nobody knows the name, or the arguments do not fit."""
    effect = effects.get(claimed.name)
    if effect is None:
        return settlement.unknown_name(held, effects, application)
    try:
        values = effect.parse_args(claimed.args)
    except BadInput as error:
        return settlement.failed(held, f"not called: {error}")
    run = EffectContext(
        id=claimed.effect_id,
        agent=claimed.agent,
        name=claimed.name,
        attempt=claimed.attempts,
        at_ms=claimed.at_ms,
        tag=claimed.tag,
        traceparent=claimed.traceparent,
        tracestate=claimed.tracestate,
    )
    return Prepared(effect, run, values)


def with_reports(run: EffectContext, reports: Callable[[str], None]) -> EffectContext:
    """The run's context, in which ``progress`` is told to ``reports``."""
    return replace(run, _report=reports)


def limits_of(effects: Mapping[str, Effect[..., Any]]) -> Mapping[str, EffectLimit]:
    """What an executor announces before it takes anything."""
    return {name: effect.limit for name, effect in effects.items()}


def returned(effect: Effect[..., Any], held: Held, result: object, limits: Limits) -> Settlement:
    """The function came back with ``result``."""
    try:
        return settlement.done(held, effect.encode_result(result, limits))
    except Exception as error:  # noqa: BLE001  a model's own serializer may raise anything
        return settlement.failed(held, f"it ran, and its result cannot be told: {exception_line(error)}")


def raised(held: Held, error: BaseException) -> Settlement:
    """The function raised."""
    if isinstance(error, EffectCancelled):
        return settlement.cancelled()
    text = f"{exception_line(error)}{exception_place(error)}"
    return settlement.after_exception(held, text, fate_unknown=isinstance(error, FateUnknown))


def _log_settlement(held: Held, outcome: Settlement) -> None:
    """One line for each try that did not succeed."""
    level = logging.DEBUG if outcome.outcome == "done" else logging.WARNING
    log.event(
        _LOG,
        f"effect_{outcome.outcome}",
        level=level,
        effect=held.name,
        effect_id=held.effect_id,
        attempt=held.attempts,
        error=outcome.error,
        retry_in_ms=outcome.retry_in_ms or None,
    )
