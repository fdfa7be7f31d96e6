"""The pool at one look: each node's slots, agents in their hands, and run queues that no live node serves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_workers.announced import read_announced
from regrow_workers.placement_class import queues_of

__all__ = ["NodePool", "PoolView", "read_pool", "unserved"]


@dataclass(frozen=True, slots=True)
class NodePool:
    """The slots of one node. ``stuck``: in one transition for more than 50 ms. ``in_hand``: agents that they hold."""

    node: str
    slots: int
    stuck: int
    in_hand: int


@dataclass(slots=True)
class PoolView:
    """Nodes that keep slots. ``queues``: agents that wait, by run queue; ``unserved``: those that nobody looks into."""

    nodes: list[NodePool] = field(default_factory=list[NodePool])
    queues: Counter[str] = field(default_factory=Counter[str])
    unserved: Counter[str] = field(default_factory=Counter[str])

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.nodes)

    @property
    def stuck(self) -> int:
        return sum(node.stuck for node in self.nodes)

    @property
    def in_hand(self) -> int:
        return sum(node.in_hand for node in self.nodes)


def read_pool(connection: Connection, keys: Keys, queues: Counter[str]) -> PoolView:
    """``queues``: of a census. One round trip for the nodes' records, one for what their slots hold."""
    ids = connection.command(views.node_ids(keys))
    records = connection.pipeline([views.node_record(keys, node) for node in ids])
    nodes = {
        node: cast("dict[str, str]", record)
        for node, record in zip(ids, records, strict=True)
        if isinstance(record, dict)
    }
    keeping = [node for node, record in nodes.items() if record.get("slots", "").isdecimal()]
    held = connection.pipeline(
        [Command(("SCARD", keys.pool_claims(node)), int, hint=node) for node in keeping]
    )
    found = [
        NodePool(
            node,
            int(nodes[node]["slots"]),
            int(nodes[node].get("stuck") or 0),
            count if isinstance(count, int) else 0,
        )
        for node, count in zip(keeping, held, strict=True)
    ]
    return PoolView(found, queues, unserved(queues, nodes.values()))


def unserved(queues: Mapping[str, int], nodes: Iterable[Mapping[str, str]]) -> Counter[str]:
    """Those of the run queues for which no worker node that is up has the type, the schema and the labels. Pure."""
    classes = {queue.rpartition("@")[0] for queue in queues}
    served: set[str] = set()
    for record in nodes:
        if record.get("kind") == "worker" and record.get("status") == "up":
            types = read_announced(record.get("types", ""))
            schemas = {name: about.schema for name, about in types.items()}
            served.update(queues_of(classes, schemas, _labels(record.get("labels", ""))))
    return Counter({queue: count for queue, count in queues.items() if queue not in served})


def _labels(text: str) -> dict[str, str]:
    try:
        labels: Any = json.loads(text) if text else {}
    except ValueError:
        return {}
    return (
        {str(name): str(value) for name, value in cast("Mapping[Any, Any]", labels).items()}
        if isinstance(labels, dict)
        else {}
    )
