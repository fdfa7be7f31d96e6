"""What a pooled child needs of the leader's shell: no node, but a class of nodes that may run it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regrow_signals.decisions import AgentBounds
from regrow_signals.leadership import Fence, NodeOrder, PooledStart
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.orders import Start
from regrow_supervisor.turn import Turn
from regrow_workers.placement_class import placement_class

__all__ = ["POOL_ORDER", "fences", "nodes_without_slots", "pool_order", "pooled_start"]

POOL_ORDER = "pool"


def pooled_start(start: Start, fresh: tuple[str, int] | None, bounds: AgentBounds) -> PooledStart:
    """The life begins with the decision's commit; a slot takes it up when signals wait."""
    given = start.start
    deadline: Any = given.get("deadline_ms")
    labels: Mapping[str, str] = given.get("labels") or {}
    return PooledStart(
        agent=start.child,
        incarnation=start.incarnation,
        placement=placement_class(str(given.get("type", "")), labels),
        fields={"deadline_ms": "" if deadline is None else str(deadline)},
        fresh=fresh,
        bounds=bounds,
    )


def fences(turn: Turn) -> list[Fence]:
    """Ends of pooled lives by the supervisor's word; no slot is asked, for it has nothing to give back."""
    return [Fence(stop.child, stop.incarnation, stop.pooled_reason) for stop in turn.fences]


def nodes_without_slots(view: LeaderView, turn: Turn) -> list[str]:
    """Nodes that have not been told yet that there are pooled agents."""
    if not (view.pooled or turn.pooled):
        return []
    return [
        node
        for node, known in view.nodes.items()
        if known.kind == "worker" and known.status == "up" and node not in view.with_slots
    ]


def pool_order(node: str) -> NodeOrder:
    """From now on the node keeps slots."""
    return NodeOrder(node, {"order": POOL_ORDER})
