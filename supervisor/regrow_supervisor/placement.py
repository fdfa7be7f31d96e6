"""On which node a start goes: pure.

A node takes an agent when it is a worker node that is up, not draining, announces the agent's type (with a schema
that can read the stored state), and carries every label that the child asks for. Of those the least loaded one is
taken, counted by the leader's own view, the starts placed in this very decision included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

__all__ = ["NodeView", "Wanted", "Placement", "place", "node_from_record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the leader knows of one node."""

    node: str
    kind: str = "worker"
    status: str = "up"
    labels: frozenset[str] = frozenset()
    schemas: Mapping[str, int] = field(default_factory=dict[str, int])
    """Agent types (and aliases) that this node runs, each with its state's schema version."""

    quiet: bool = False
    """Its beat is overdue, though not yet late: taken only when no other node fits."""

    full: bool = False
    """It refused a start for want of room, and none of its agents has ended since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One start that needs a node."""

    agent: str
    type: str
    labels: frozenset[str] = frozenset()
    schema: int = 0
    """Schema version of the stored state; 0 where nothing is stored."""


@dataclass(frozen=True, slots=True)
class Placement:
    """agent -> node, and the agents that fit nowhere with the reason."""

    placed: Mapping[str, str]
    unplaced: Mapping[str, str]


def place(wanted: Sequence[Wanted], nodes: Iterable[NodeView], load: Mapping[str, int]) -> Placement:
    """Place each start in order; ``load`` counts the agents that each node has or was ordered to start."""
    known = list(nodes)
    counts = dict(load)
    placed: dict[str, str] = {}
    unplaced: dict[str, str] = {}
    for start in wanted:
        fitting = [node for node in known if _fits(node, start)]
        if not fitting:
            unplaced[start.agent] = _why_not(known, start)
            continue
        chosen = min(fitting, key=lambda node: (node.quiet, counts.get(node.node, 0), node.node))
        placed[start.agent] = chosen.node
        counts[chosen.node] = counts.get(chosen.node, 0) + 1
    return Placement(placed, unplaced)


def _fits(node: NodeView, start: Wanted) -> bool:
    return (
        node.kind == "worker"
        and node.status == "up"
        and not node.full
        and node.schemas.get(start.type, -1) >= start.schema
        and start.labels <= node.labels
    )


def _why_not(nodes: Sequence[NodeView], start: Wanted) -> str:
    """For people: the first condition that no node meets."""
    left = [node for node in nodes if node.kind == "worker" and node.status == "up"]
    if not left:
        return "no worker node is up"
    left = [node for node in left if start.type in node.schemas]
    if not left:
        return f"no worker node runs agent type {start.type!r}"
    left = [node for node in left if node.schemas[start.type] >= start.schema]
    if not left:
        return f"no worker node can read schema {start.schema} of agent type {start.type!r}"
    left = [node for node in left if start.labels <= node.labels]
    if not left:
        return f"no worker node with labels {', '.join(sorted(start.labels))}"
    return f"all slots are taken on {', '.join(sorted(node.node for node in left))}"


def node_from_record(node: str, record: Mapping[str, str]) -> NodeView:
    """A node's hash as a view; what cannot be read is taken as absent, so that no start goes to a guess."""
    return NodeView(
        node=node,
        kind=record.get("kind", ""),
        status=record.get("status", "up"),
        labels=_labels(record.get("labels", "")),
        schemas=_schemas(record.get("types", "")),
    )


def _labels(text: str) -> frozenset[str]:
    """A JSON list, a JSON object (``key`` and ``key=value`` both count), or words between commas."""
    try:
        value: Any = json.loads(text) if text else []
    except ValueError:
        value = text.split(",")
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return frozenset(pairs) | frozenset(f"{key}={item}" for key, item in pairs.items())
    if isinstance(value, list):
        words = [str(item).strip() for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return frozenset(word for word in words if word)
    return frozenset({str(value)})


def _schemas(text: str) -> dict[str, int]:
    try:
        value: Any = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    found: dict[str, int] = {}
    for name, about in cast("dict[str, Any]", value).items():
        schema: Any = cast("dict[str, Any]", about).get("schema", 0) if isinstance(about, dict) else 0
        found[name] = schema if isinstance(schema, int) else 0
    return found
