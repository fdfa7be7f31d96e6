"""The application of the supervision figures: fifty isolated agents that count."""

from __future__ import annotations

from regrow import Supervisor
from regrow.bench.app import Counter

__all__ = ["AGENTS", "tree"]

AGENTS = tuple(f"counter-{n}" for n in range(50))

tree = Supervisor("many", [Counter.child(agent) for agent in AGENTS], max_restarts=10_000, max_seconds=1)
