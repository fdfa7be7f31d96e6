"""Throughput: one busy isolated agent with a backlog, journal on; medians of rounds, and the same with batch 1."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import BenchError, System, cpu_seconds, pid_of_redis, running_system, until
from regrow.control import ask_watchdog
from regrow_signals import views
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

__all__ = ["measure_throughput"]

PART = 5_000
LOOK = 0.02  # seconds between two looks at the backlog: each costs Redis a little


@dataclass(frozen=True, slots=True)
class _Round:
    """One backlog worked off. Processor time does not depend on what else the machine did, the rate does."""

    per_second: float
    worker_cpu_us: float
    redis_cpu_us: float


def measure_throughput(signals: int = 100_000, rounds: int = 5) -> dict[str, Any]:
    """Fill the mailbox while the agent is on hold, let it go, time until it is empty."""
    batched = _rounds(signals, rounds, {})
    single = _rounds(max(1, signals // 10), rounds, {"REGROW_BATCH": "1"})
    return {
        "what": "durable transitions a second, one isolated agent with a backlog, journal on",
        "signals": signals,
        "rounds": rounds,
        "per_second": round(statistics.median(each.per_second for each in batched)),
        "best_per_second": round(max(each.per_second for each in batched)),
        "per_second_rounds": [round(each.per_second) for each in batched],
        "worker_cpu_us_per_signal": round(statistics.median(each.worker_cpu_us for each in batched), 1),
        "redis_cpu_us_per_signal": round(statistics.median(each.redis_cpu_us for each in batched), 1),
        "batch_1_per_second": round(statistics.median(each.per_second for each in single)),
        "batch_1_per_second_rounds": [round(each.per_second) for each in single],
    }


def _rounds(signals: int, rounds: int, environment: dict[str, str]) -> list[_Round]:
    with running_system(environment) as system:
        redis = pid_of_redis(system)
        done = [_one_round(system, signals, redis) for _ in range(rounds)]
        handled = int(system.record()["handled"])
        if handled != signals * rounds:
            raise BenchError(f"{signals * rounds} signals were sent, {handled} were applied")
    return done


def _one_round(system: System, signals: int, redis: int) -> _Round:
    ask_watchdog(system.watcher, system.keys, "hold", {"target": AGENT})
    until(lambda: system.record().get("status") == "held", "the agent is on hold", 10.0)
    _fill(system, signals)
    ask_watchdog(system.watcher, system.keys, "unhold", {"target": AGENT})
    until(lambda: _waiting(system) < signals, "the agent takes the first signals", 10.0)
    worker = system.wait_running()
    left, began = _waiting(system), time.perf_counter()
    used = cpu_seconds(worker), cpu_seconds(redis)
    until(lambda: _waiting(system) == 0, "all signals are applied", 120.0, pause=LOOK)
    took = time.perf_counter() - began
    return _Round(
        per_second=left / took,
        worker_cpu_us=(cpu_seconds(worker) - used[0]) / left * 1e6,
        redis_cpu_us=(cpu_seconds(redis) - used[1]) / left * 1e6,
    )


def _fill(system: System, signals: int) -> None:
    for start in range(0, signals, PART):
        part = [Message(AGENT, Add()) for _ in range(min(PART, signals - start))]
        for result in system.client.send_many(part):
            if isinstance(result, RegrowError):
                raise result


def _waiting(system: System) -> int:
    return system.watcher.command(views.mailbox_length(system.keys, AGENT))
