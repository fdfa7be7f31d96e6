"""Throughput of pooled agents: many of them with one signal each, worked off in turn by a node's slots."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

from regrow.bench.app import Add
from regrow.bench.pool_app import agent_id, application
from regrow.bench.system import (
    BenchError,
    System,
    children,
    cpu_seconds,
    pid_of_redis,
    private_bytes,
    running_stack,
    until,
)
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

__all__ = ["measure_pooled"]

PART = 5_000
LOOK = 0.01
LONG = 300.0


@dataclass(frozen=True, slots=True)
class _Round:
    per_second: float
    slots_cpu_us: float
    redis_cpu_us: float
    slot_bytes: int


def measure_pooled(agents: int = 10_000, rounds: int = 5) -> dict[str, Any]:
    """Each round: one signal into each mailbox while there is no node, then a node; timed until all are applied."""
    began = time.perf_counter()
    with running_stack(application(agents), services=("watchdog",)) as system:
        empty = _memory(system)
        until(lambda: _resting(system, agents), f"all {agents} agents have begun", LONG, pause=0.05)
        started, filled = time.perf_counter() - began, _memory(system)
        done = [_round(system, agents) for _ in range(rounds)]
        applied = _applied(system)
    if applied != agents * rounds:
        raise BenchError(f"{agents * rounds} signals were sent, {applied} were applied")
    return {
        "what": "durable transitions a second, pooled agents, one signal in turn for each, journal on",
        "agents": agents,
        "rounds": rounds,
        "per_second": round(statistics.median(each.per_second for each in done)),
        "best_per_second": round(max(each.per_second for each in done)),
        "per_second_rounds": [round(each.per_second) for each in done],
        "slots_cpu_us_per_signal": round(statistics.median(each.slots_cpu_us for each in done), 1),
        "redis_cpu_us_per_signal": round(statistics.median(each.redis_cpu_us for each in done), 1),
        "all_begun_after_s": round(started, 2),
        "redis_bytes_per_agent": round((filled - empty) / agents),
        "slot_private_mib": round(max(each.slot_bytes for each in done) / (1 << 20), 1),
    }


def _round(system: System, agents: int) -> _Round:
    _fill(system, agents)
    before, redis = _applied(system), pid_of_redis(system)
    settings = load_settings(redis_url=system.url, namespace=system.keys.namespace, redis_server="")
    with Stack(application(agents), settings=settings, services=("worker",)) as node:
        # From the moment at which all slots are at work: their start is not what is measured.
        until(lambda: _applied(system) > before + agents // 50, "the slots are at work", LONG, pause=LOOK)
        (spawner,) = children(node.processes()["worker"])
        slots = children(spawner)
        first, began = _applied(system), time.perf_counter()
        used = sum(map(cpu_seconds, slots)), cpu_seconds(redis)
        until(lambda: _applied(system) >= before + agents, "all signals are applied", LONG, pause=LOOK)
        took, count = time.perf_counter() - began, before + agents - first
        return _Round(
            per_second=count / took,
            slots_cpu_us=(sum(map(cpu_seconds, slots)) - used[0]) / count * 1e6,
            redis_cpu_us=(cpu_seconds(redis) - used[1]) / count * 1e6,
            slot_bytes=max(map(private_bytes, slots)),
        )


def _fill(system: System, agents: int) -> None:
    for start in range(0, agents, PART):
        part = [Message(agent_id(number), Add()) for number in range(start, min(agents, start + PART))]
        for result in system.client.send_many(part):
            if isinstance(result, RegrowError):
                raise result


def _applied(system: System) -> int:
    return system.watcher.command(views.counters(system.keys)).get(
        "signals_applied_total|type=bench-counter", 0
    )


def _resting(system: System, agents: int) -> bool:
    """The last one in the order has begun its life."""
    record = system.watcher.command(views.agent_record(system.keys, agent_id(agents - 1)))
    return record.get("status") == "idle"


def _memory(system: System) -> int:
    text = system.watcher.command(Command(("INFO", "memory"), str))
    return int(dict(line.split(":", 1) for line in text.splitlines() if ":" in line)["used_memory"])
