"""Limits that ``@effect`` takes: ``concurrency=4`` and ``rate="10/s"``, read into an ``EffectLimit``. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, cast

from regrow_signals.durations import Duration, to_ms
from regrow_signals.effect_store import EffectLimit
from regrow_signals.errors import BadDefinition, BadInput

__all__ = ["MOST", "Rate", "effect_limit"]

Rate = str | tuple[int, Duration]
"""``"10/s"``, ``"100/min"``, ``"1/100ms"``, or ``(10, 1.0)``: so many in so many seconds."""

MOST: Final = 1_000_000
"""Highest ``concurrency``, and highest number of a rate."""

LONGEST_MS: Final = 366 * 86_400_000

_UNITS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"\s*(?P<count>\d+)\s*/\s*(?P<times>\d+)?\s*(?P<unit>[a-z]+)\s*", re.ASCII)


def effect_limit(effect: str, concurrency: int | None, rate: Rate | None) -> EffectLimit:
    """``BadDefinition`` names the effect and the argument that makes no sense, and how it is written."""
    places = 0 if concurrency is None else _count(effect, "concurrency", concurrency)
    count, period_ms = (0, 0) if rate is None else _rate(effect, rate)
    return EffectLimit(places, count, period_ms)


def _rate(effect: str, given: object) -> tuple[int, int]:
    wrong = BadDefinition(
        f'effect {effect}: rate={given!r:.80}: write "10/s", "100/min", "1/100ms" or (10, 1.0), '
        "which is 10 in 1.0 seconds"
    )
    if isinstance(given, str):
        match = _RATE.fullmatch(given)
        unit = _UNITS.get(match["unit"]) if match else None
        if match is None or unit is None:
            raise wrong
        count, period_ms = int(match["count"]), int(match["times"] or 1) * unit
    elif isinstance(given, tuple) and len(cast("tuple[object, ...]", given)) == 2:
        number, period = cast("tuple[int, float | timedelta]", given)
        count = _count(effect, "rate's number", number)
        try:
            period_ms = to_ms(period, "rate's seconds")
        except BadInput as error:
            raise BadDefinition(f"effect {effect}: {error}") from None
    else:
        raise wrong
    if not 1 <= period_ms <= LONGEST_MS:
        raise BadDefinition(f"effect {effect}: rate={given!r:.80}: its time must be from 1 ms to a year")
    return _count(effect, "rate's number", count), period_ms


def _count(effect: str, what: str, value: object) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise BadDefinition(
            f"effect {effect}: {what} is {value!r:.80}; give a whole number from 1 to {MOST:,}"
        )
    return value
