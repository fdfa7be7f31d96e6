"""Publishing: from the call until a thousand subscribers have the signal, each with an answer of its own."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from regrow.bench.app import Add
from regrow.bench.listeners import LISTENERS
from regrow.bench.system import BenchError, summary, until
from regrow.client import Client
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals.calls import Command

__all__ = ["measure_publish"]

START_SECONDS = 60.0
WARM_UP = 3


def measure_publish(rounds: int = 50) -> dict[str, Any]:
    """No node runs, so that nothing but the publishing is measured."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-bench-"))
    try:
        settings = load_settings(state_dir=folder, namespace="bench", redis_url="")
        with (
            Stack("regrow.bench.listeners:tree", settings=settings, services=("watchdog",)) as stack,
            Client(stack.url, namespace="bench", limits=settings.limits) as client,
        ):
            until(
                lambda: len(client.subscriptions()) == LISTENERS,
                "all agents subscribe",
                START_SECONDS,
                pause=0.2,
            )
            times: list[float] = []
            redis_cpu: list[float] = []
            for _ in range(WARM_UP + rounds):
                used, began = _redis_cpu_ms(client), time.perf_counter()
                told = client.publish(Add())
                times.append((time.perf_counter() - began) * 1000)
                redis_cpu.append(_redis_cpu_ms(client) - used)
                if len(told.receipts) != LISTENERS:
                    raise BenchError(f"{len(told.receipts)} of {LISTENERS} subscribers took the signal")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "what": f"publish to {LISTENERS:,} subscribers",
        "rounds": rounds,
        **summary(times[WARM_UP:]),
        "redis_cpu_median_ms": round(statistics.median(redis_cpu[WARM_UP:]), 1),
    }


def _redis_cpu_ms(client: Client) -> float:
    """Processor time of the server so far: what is left of a figure on a machine that others use too."""
    text = client.connection.command(Command(("INFO", "cpu"), str))
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return 1000 * (float(found["used_cpu_user"]) + float(found["used_cpu_sys"]))
