"""Asking: from the call until the value of the agent's reply is there, on a system that is otherwise idle."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from regrow.bench.app import AGENT, Add, Total
from regrow.bench.system import BenchError, System, percentile, running_system, summary
from regrow.client import AsyncClient, Client

__all__ = ["measure_ask"]

WARM_UP = 50
AT_ONCE = 50


def measure_ask(asks: int = 1000) -> dict[str, Any]:
    """One ask at a time, in turn with a send that is waited for; then as many, ``AT_ONCE`` at a time, awaited."""
    with running_system() as system:
        times, sends = _one_by_one(system, asks)
        side_by_side = asyncio.run(_side_by_side(system, asks))
    return {
        "what": "ask until the reply is there",
        "asks": asks,
        **summary(times),
        "send_to_committed_median_ms": round(percentile(sends, 50), 3),
        f"median_ms_{AT_ONCE}_at_once": round(percentile(side_by_side, 50), 2),
    }


def _one_by_one(system: System, asks: int) -> tuple[list[float], list[float]]:
    times: list[float] = []
    sends: list[float] = []
    settings = system.stack.settings
    with Client(system.url, namespace=settings.namespace, limits=settings.limits) as client:
        for _ in range(WARM_UP + asks):
            began = time.perf_counter()
            total = client.ask(AGENT, Total(), as_=int)
            times.append((time.perf_counter() - began) * 1000)
            if total != len(sends):
                raise BenchError(f"the agent replied {total}, {len(sends)} was expected")
            after = system.last_commit()
            began = time.perf_counter()
            client.send(AGENT, Add())
            system.wait_commit(after)
            sends.append((time.perf_counter() - began) * 1000)
    return times[WARM_UP:], sends[WARM_UP:]


async def _side_by_side(system: System, asks: int) -> list[float]:
    times: list[float] = []
    settings = system.stack.settings
    async with AsyncClient(system.url, namespace=settings.namespace, limits=settings.limits) as client:

        async def ask() -> None:
            began = time.perf_counter()
            await client.ask(AGENT, Total())
            times.append((time.perf_counter() - began) * 1000)

        for _ in range(max(1, asks // AT_ONCE)):
            await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return times
