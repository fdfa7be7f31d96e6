"""The application of the publish figure: a thousand agents that subscribe to one pattern, and no node to run them."""

from __future__ import annotations

from regrow import Supervisor
from regrow.bench.app import Counter

__all__ = ["LISTENERS", "tree"]

LISTENERS = 1_000

tree = Supervisor("town", [Counter.child(f"listener-{n}", subscribe=["bench.*"]) for n in range(LISTENERS)])
