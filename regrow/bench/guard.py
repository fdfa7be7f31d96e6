"""The guard of purity: what a transition costs with it, mode by mode, without Redis and without another process."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from regrow.bench.app import Add, Count, Counter
from regrow_signals.limits import Limits
from regrow_signals.signal import Signal
from regrow_workers.delivery import Addressee, Delivery
from regrow_workers.purity import GuardMode
from regrow_workers.transition import take

__all__ = ["measure_guard"]

MODES: Final[tuple[GuardMode, ...]] = ("off", "warn", "enforce")
DELIVERIES: Final = 500


def measure_guard(rounds: int = 100) -> dict[str, Any]:
    """Processor time of a small transition in microseconds: payload, handler, new state as JSON; the modes in turns."""
    fields = Signal.of(Add(), source="bench").to_fields()
    deliveries = [
        Delivery(Addressee("counter", "birth"), f"{ms}-0", fields) for ms in range(1, DELIVERIES + 1)
    ]
    _round(deliveries, "enforce")  # the first one has imports and the audit hook to pay for
    times: dict[GuardMode, list[float]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode in MODES:
            times[mode].append(_round(deliveries, mode))
    median = {mode: statistics.median(times[mode]) for mode in MODES}
    return {
        "what": "processor time of a small transition, by the mode of the guard, microseconds",
        "transitions": rounds * DELIVERIES,
        **{f"{mode}_us": round(median[mode], 2) for mode in MODES},
        "warn_more_us": round(median["warn"] - median["off"], 2),
        "enforce_more_us": round(median["enforce"] - median["off"], 2),
    }


def _round(deliveries: list[Delivery], mode: GuardMode) -> float:
    definition, limits, state = Counter.defined(), Limits(), Count()
    began = time.process_time()
    for delivery in deliveries:
        take(definition, state, delivery, limits=limits, before=None, mode=mode)
    return (time.process_time() - began) / len(deliveries) * 1e6
