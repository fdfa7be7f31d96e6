"""Throughput: one busy isolated agent with a backlog, journal on; medians of rounds, and the same with batch 1."""

from __future__ import annotations

import statistics
import time
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import BenchError, System, running_system, until
from regrow.control import ask_watchdog
from regrow_signals import views
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

__all__ = ["measure_throughput"]

PART = 5_000


def measure_throughput(signals: int = 100_000, rounds: int = 5) -> dict[str, Any]:
    """Fill the mailbox while the agent is on hold, let it go, time until it is empty."""
    batched = _rates(signals, rounds, {})
    single = _rates(max(1, signals // 10), rounds, {"REGROW_BATCH": "1"})
    return {
        "what": "durable transitions a second, one isolated agent with a backlog, journal on",
        "signals": signals,
        "rounds": rounds,
        "per_second": round(statistics.median(batched)),
        "per_second_rounds": [round(rate) for rate in batched],
        "batch_1_per_second": round(statistics.median(single)),
        "batch_1_per_second_rounds": [round(rate) for rate in single],
    }


def _rates(signals: int, rounds: int, environment: dict[str, str]) -> list[float]:
    with running_system(environment) as system:
        rates = [_one_round(system, signals) for _ in range(rounds)]
        handled = int(system.record()["handled"])
        if handled != signals * rounds:
            raise BenchError(f"{signals * rounds} signals were sent, {handled} were applied")
    return rates


def _one_round(system: System, signals: int) -> float:
    ask_watchdog(system.watcher, system.keys, "hold", {"target": AGENT})
    until(lambda: system.record().get("status") == "held", "the agent is on hold", 10.0)
    _fill(system, signals)
    ask_watchdog(system.watcher, system.keys, "unhold", {"target": AGENT})
    until(lambda: _waiting(system) < signals, "the agent takes the first signals", 10.0)
    left, began = _waiting(system), time.perf_counter()
    until(lambda: _waiting(system) == 0, "all signals are applied", 120.0)
    return left / (time.perf_counter() - began)


def _fill(system: System, signals: int) -> None:
    for start in range(0, signals, PART):
        part = [Message(AGENT, Add()) for _ in range(min(PART, signals - start))]
        for result in system.client.send_many(part):
            if isinstance(result, RegrowError):
                raise result


def _waiting(system: System) -> int:
    return system.watcher.command(views.mailbox_length(system.keys, AGENT))
