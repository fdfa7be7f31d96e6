"""Signals and directives: one function for each row of ``regrow bench signals``; each starts a system of its own."""

from __future__ import annotations

from typing import Any

from regrow.bench.ask import measure_ask
from regrow.bench.effects import measure_effects
from regrow.bench.publish import measure_publish
from regrow.bench.timers import measure_timers

__all__ = ["measure_signals"]


def measure_signals(*, quick: bool = False) -> dict[str, Any]:
    """All rows; ``quick`` with a fraction of the rounds, to see that they run."""
    return {
        "publish": measure_publish(5 if quick else 50),
        "timers": measure_timers(10_000, seconds=2.0) if quick else measure_timers(),
        "ask": measure_ask(100 if quick else 1000),
        "effects": measure_effects(3, 50) if quick else measure_effects(),
    }
