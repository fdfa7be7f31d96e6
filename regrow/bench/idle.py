"""Idle cost: what an isolated agent without signals costs: its worker's memory, and commands to Redis.

Commands are counted by Redis itself (``INFO commandstats``), while the agent idles and while it is on hold; the
difference is the agent's. What scripts do for it inside, and the watchdog's one question for all agents, is told by
itself.
"""

from __future__ import annotations

import time
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import System, private_bytes, running_system, until
from regrow.control import ask_watchdog
from regrow_signals.calls import Command

__all__ = ["measure_idle"]

SENT = ("evalsha", "xread")
"""What a worker and a node send."""

SETTLING = 3.0


def measure_idle(seconds: float = 20.0) -> dict[str, Any]:
    """Memory after one signal, then commands over ``seconds`` with the agent idle, and as long with it on hold."""
    with running_system() as system:
        after = system.last_commit()
        system.client.send(AGENT, Add())
        system.wait_commit(after)
        time.sleep(SETTLING)
        memory = private_bytes(system.wait_running())
        idle = _rates(system, seconds)
        ask_watchdog(system.watcher, system.keys, "hold", {"target": AGENT})
        until(lambda: system.record().get("status") == "held", "the agent is on hold", 10.0)
        time.sleep(SETTLING)
        held = _rates(system, seconds)
    cost = {name: rate - held.get(name, 0.0) for name, rate in idle.items()}
    sent = sum(cost.get(name, 0.0) for name in SENT)
    return {
        "what": "an isolated agent without signals",
        "seconds": seconds,
        "worker_private_mib": round(memory / 2**20, 2),
        "commands_per_second": round(sent, 2),
        "beside_them_per_second": round(sum(cost.values()) - sent, 2),
    }


def _rates(system: System, seconds: float) -> dict[str, float]:
    before, began = _calls(system), time.perf_counter()
    time.sleep(seconds)
    after, took = _calls(system), time.perf_counter() - began
    return {name: (count - before.get(name, 0)) / took for name, count in after.items()}


def _calls(system: System) -> dict[str, int]:
    """How often each command ran so far, our own INFO left out."""
    text = system.watcher.command(Command(("INFO", "commandstats"), str))
    rows = [line.removeprefix("cmdstat_").split(":calls=") for line in text.splitlines() if ":calls=" in line]
    return {name: int(rest.split(",")[0]) for name, rest in rows if name != "info"}
