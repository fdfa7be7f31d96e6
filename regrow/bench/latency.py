"""Latency: from before ``send`` until Redis tells a watcher of the commit, on a system that is otherwise idle."""

from __future__ import annotations

import time
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import running_system, summary

__all__ = ["measure_latency"]

WARM_UP = 50


def measure_latency(signals: int = 1000) -> dict[str, Any]:
    """One signal at a time."""
    times: list[float] = []
    with running_system() as system:
        for _ in range(WARM_UP + signals):
            after = system.last_commit()
            began = time.perf_counter()
            system.client.send(AGENT, Add())
            system.wait_commit(after)
            times.append((time.perf_counter() - began) * 1000)
    return {"what": "send until committed, idle system", "signals": signals, **summary(times[WARM_UP:])}
