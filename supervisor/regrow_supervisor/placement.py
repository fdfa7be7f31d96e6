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

from regrow_workers.announced import AnnouncedType, read_announced

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

    types: Mapping[str, AnnouncedType] = field(default_factory=dict[str, AnnouncedType])
    """The same with all that the node says of them."""

    quiet: bool = False
    """Its beat is overdue, though not yet late: taken only when no other node fits."""

    full: bool = False
    """It refused a start for want of room, and none of its agents has ended since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One start that needs a node."""

    agent: str
    type: str
    aliases: tuple[str, ...] = ()
    """Names that the type had before, by which older nodes know it."""

    labels: frozenset[str] = frozenset()
    schema: int = 0
    """Schema version of the stored state; 0 where nothing is stored."""

    left_for: str = ""
    """The signal type for which the last node left it: one with a handler for it is taken, if any could ever run it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """agent -> node, and the agents that fit nowhere with the reason.

    ``kept`` of those placed were left for a signal type that no node handles which could run them: it is dealt with
    where they are now.
    """

    placed: Mapping[str, str]
    unplaced: Mapping[str, str]
    kept: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of those placed: the name by which the node knows the agent's type."""


def place(wanted: Sequence[Wanted], nodes: Iterable[NodeView], load: Mapping[str, int]) -> Placement:
    """Place each start in order; ``load`` counts the agents that each node has or was ordered to start."""
    known = list(nodes)
    counts = dict(load)
    placed: dict[str, str] = {}
    unplaced: dict[str, str] = {}
    kept: set[str] = set()
    names: dict[str, str] = {}
    for start in wanted:
        able = [node for node in known if _could_run(node, start)]
        if start.left_for:
            knowing = [node for node in able if _knows(node, start)]
            if knowing:
                able = knowing
            else:
                kept.add(start.agent)
        fitting = [node for node in able if not node.full]
        if not fitting:
            unplaced[start.agent] = _why_not(able or known, start)
            continue
        chosen = min(fitting, key=lambda node: (node.quiet, counts.get(node.node, 0), node.node))
        placed[start.agent] = chosen.node
        names[start.agent] = _name_on(chosen, start)
        counts[chosen.node] = counts.get(chosen.node, 0) + 1
    return Placement(placed, unplaced, frozenset(kept & placed.keys()), names)


def _could_run(node: NodeView, start: Wanted) -> bool:
    """As far as its kind goes; whether it has room is another matter."""
    return (
        node.kind == "worker"
        and node.status == "up"
        and node.schemas.get(_name_on(node, start), -1) >= start.schema
        and start.labels <= node.labels
    )


def _name_on(node: NodeView, start: Wanted) -> str:
    """The name by which the node knows the type; the present one if it knows none."""
    known = (name for name in (start.type, *start.aliases) if name in node.schemas)
    return next(known, start.type)


def _knows(node: NodeView, start: Wanted) -> bool:
    about = node.types.get(_name_on(node, start))
    return about is not None and about.knows(start.left_for)


def _why_not(nodes: Sequence[NodeView], start: Wanted) -> str:
    """For people: the first condition that no node meets."""
    left = [node for node in nodes if node.kind == "worker" and node.status == "up"]
    if not left:
        return "no worker node is up"
    left = [node for node in left if _name_on(node, start) in node.schemas]
    if not left:
        return f"no worker node runs agent type {start.type!r}"
    left = [node for node in left if node.schemas[_name_on(node, start)] >= start.schema]
    if not left:
        return f"no worker node can read schema {start.schema} of agent type {start.type!r}"
    left = [node for node in left if start.labels <= node.labels]
    if not left:
        return f"no worker node with labels {', '.join(sorted(start.labels))}"
    return f"all slots are taken on {', '.join(sorted(node.node for node in left))}"


def node_from_record(node: str, record: Mapping[str, str]) -> NodeView:
    """A node's hash as a view; what cannot be read is taken as absent, so that no start goes to a guess."""
    types = read_announced(record.get("types", ""))
    return NodeView(
        node=node,
        kind=record.get("kind", ""),
        status=record.get("status", "up"),
        labels=_labels(record.get("labels", "")),
        schemas={name: about.schema for name, about in types.items()},
        types=types,
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
