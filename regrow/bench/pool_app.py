"""The application that ``regrow bench throughput --pool`` measures: as many pooled counters as it is told."""

from __future__ import annotations

import os

from regrow import Supervisor
from regrow.bench.app import Counter

__all__ = ["AGENTS", "agent_id", "tree"]

AGENTS = "BENCH_POOLED_AGENTS"
"""Environment variable with their number."""


def agent_id(number: int) -> str:
    return f"device-{number:06d}"


tree = Supervisor(
    "pool",
    [
        Counter.child(agent_id(number), isolation="pool")
        for number in range(int(os.environ.get(AGENTS, "10")))
    ],
)
