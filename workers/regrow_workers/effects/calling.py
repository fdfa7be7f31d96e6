"""From a claimed effect to its call, and from its result to what is told: the same for every executor. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regrow_signals.effect_store import ClaimedEffect, EffectLimit
from regrow_signals.errors import BadInput, FateUnknown
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.application import Application
from regrow_workers.effects import settlement
from regrow_workers.effects.effect import Effect, EffectContext
from regrow_workers.effects.settlement import Held, Settlement
from regrow_workers.tracebacks import exception_line, exception_place

__all__ = ["Prepared", "limits_of", "log_settlement", "prepare", "raised", "returned"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that can be made."""

    effect: Effect[..., Any]
    run: EffectContext
    values: Mapping[str, Any]


def prepare(application: Application, claimed: ClaimedEffect, held: Held) -> Prepared | Settlement:
    """The call; or what is told without one: nobody knows the name, or the arguments do not fit."""
    effect = application.effects.get(claimed.name)
    if effect is None:
        return settlement.unknown_name(held, application.effects, application.name)
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
    )
    return Prepared(effect, run, values)


def limits_of(application: Application) -> Mapping[str, EffectLimit]:
    """What an executor announces before it takes anything."""
    return {name: effect.limit for name, effect in application.effects.items()}


def returned(effect: Effect[..., Any], held: Held, result: object, limits: Limits) -> Settlement:
    """The function came back with ``result``."""
    try:
        return settlement.done(held, effect.encode_result(result, limits))
    except Exception as error:  # noqa: BLE001  a model's own serializer may raise anything
        return settlement.failed(held, f"it ran, and its result cannot be told: {exception_line(error)}")


def raised(held: Held, error: BaseException) -> Settlement:
    """The function raised."""
    text = f"{exception_line(error)}{exception_place(error)}"
    return settlement.after_exception(held, text, fate_unknown=isinstance(error, FateUnknown))


def log_settlement(held: Held, outcome: Settlement) -> None:
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
