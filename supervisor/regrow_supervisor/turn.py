"""One turn: an event, decided until nothing is left open: starts placed, unplaceable ones told back. Pure.

A start that no node takes goes back into the same decision as ``Unplaced``; a stop for a life whose node is not known
any more goes back as ``Exited`` (there is nobody left who could answer it). So one event is still one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from regrow_supervisor.decide import SupervisorCrashed, decide_safely
from regrow_supervisor.events import Event, Exited, Unplaced
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.orders import (
    Adopted,
    Kill,
    LifeEnded,
    NotSpawned,
    Order,
    Orphaned,
    Reply,
    Report,
    Start,
    Stop,
)
from regrow_supervisor.placement import Wanted, place
from regrow_supervisor.states import SupervisorState
from regrow_workers.stored_child import type_names

__all__ = ["Placed", "Turn", "take_turn"]

_NODE_GONE = "node_lost"


@dataclass(frozen=True, slots=True)
class Placed:
    """A start with its node."""

    start: Start
    node: str
    type: str
    """The name by which the node knows the agent's type."""

    keep: str = ""
    """A signal type for which it was left and that no other node handles: to be dealt with there."""


@dataclass(slots=True)
class Turn:
    """What one event comes to: changed records, removed paths, and orders with their nodes."""

    states: dict[str, SupervisorState] = field(default_factory=dict[str, SupervisorState])
    removed: set[str] = field(default_factory=set[str])
    starts: list[Placed] = field(default_factory=list[Placed])
    pooled: list[Start] = field(default_factory=list[Start])
    """Starts that need no node: they are answered within the decision."""

    fences: list[Stop | Kill] = field(default_factory=list["Stop | Kill"])
    """Stops of pooled lives, likewise."""

    stops: list[tuple[Stop | Kill, str]] = field(default_factory=list[tuple[Stop | Kill, str]])
    replies: list[Reply] = field(default_factory=list[Reply])
    reports: list[Report] = field(default_factory=list[Report])
    crashes: list[SupervisorCrashed] = field(default_factory=list[SupervisorCrashed])
    ended: list[LifeEnded] = field(default_factory=list[LifeEnded])
    adoptions: list[Adopted] = field(default_factory=list[Adopted])
    orphaned: list[Orphaned] = field(default_factory=list[Orphaned])
    unspawned: list[NotSpawned] = field(default_factory=list[NotSpawned])


def take_turn(
    view: LeaderView,
    event: Event | None,
    now_ms: int,
    *,
    adopted: Mapping[str, SupervisorState] | None = None,
) -> Turn:
    """Decide ``event`` to its end. ``view`` is left as it is; ``adopted`` records count instead of the view's."""
    turn = Turn(states=dict(adopted or {}))
    states: Mapping[str, SupervisorState] = {**view.states, **turn.states} if adopted else view.states
    load = dict(view.load)
    where: dict[tuple[str, int], str] = {}
    events: list[Event] = [] if event is None else [event]
    while events:
        decision, crash = decide_safely(states, events.pop(0), now_ms)
        if crash is not None:
            turn.crashes.append(crash)
        overlay = dict(states)
        for path in decision.removed:
            overlay.pop(path, None)
            turn.states.pop(path, None)
            turn.removed.add(path)
        for path, state in decision.states.items():
            if path in turn.states:
                state.touched = {**turn.states[path].touched, **state.touched}
        overlay.update(decision.states)
        turn.states.update(decision.states)
        turn.removed -= set(decision.states)
        states = overlay
        turn.replies += decision.replies
        turn.reports += decision.reports
        turn.ended += [item for item in decision.output if isinstance(item, LifeEnded)]
        turn.unspawned += [item for item in decision.output if isinstance(item, NotSpawned)]
        turn.adoptions += [item for item in decision.output if isinstance(item, Adopted)]
        turn.orphaned += [item for item in decision.output if isinstance(item, Orphaned)]
        orders = [order for order in decision.orders if not _take_pooled(view, turn, order)]
        starts = [order for order in orders if isinstance(order, Start)]
        events += _place(view, turn, starts, load, where)
        stops = [order for order in orders if not isinstance(order, Start)]
        events += _send_stops(view, turn, stops, where)
    return turn


def _take_pooled(view: LeaderView, turn: Turn, order: Order) -> bool:
    """Whether it is about a pooled child, and so needs nothing more. A life that ends in its own decision is none."""
    if isinstance(order, Start):
        if order.start.get("isolation") != "pool":
            return False
        if order.child not in view.corrupt:
            turn.pooled.append(order)
        return True
    if order.pooled:
        life = (order.child, order.incarnation)
        turn.pooled = [start for start in turn.pooled if (start.child, start.incarnation) != life]
        turn.fences.append(order)
    return order.pooled


def _place(
    view: LeaderView, turn: Turn, starts: list[Start], load: dict[str, int], where: dict[tuple[str, int], str]
) -> list[Event]:
    """Put each start on a node; what fits nowhere comes back as an event."""
    if not starts:
        return []
    for start in starts:  # the life before this one is over, or is ended by it: it is no load
        before = view.agents.get(start.child)
        if before is not None and before.node and (start.child, before.incarnation) not in where:
            load[before.node] = max(0, load.get(before.node, 0) - 1)
            where[start.child, before.incarnation] = before.node
    able = [start for start in starts if start.child not in view.corrupt]
    placement = place([_wanted(view, start) for start in able], view.nodes.values(), load)
    unplaced: list[Event] = []
    for start in starts:
        node = placement.placed.get(start.child)
        if node is None:
            reason = placement.unplaced.get(start.child, "its key in Redis holds the wrong type")
            unplaced.append(
                Unplaced(path=start.path, child=start.child, incarnation=start.incarnation, reason=reason)
            )
            continue
        load[node] = load.get(node, 0) + 1
        where[start.child, start.incarnation] = node
        keep = view.agents[start.child].left_for if start.child in placement.kept else ""
        turn.starts.append(Placed(start, node, placement.names[start.child], keep))
    return unplaced


def _wanted(view: LeaderView, start: Start) -> Wanted:
    known = view.agents.get(start.child)
    type_name, *aliases = type_names(start.start)
    fresh = start.start.get("resume") == "fresh"
    return Wanted(
        agent=start.child,
        type=type_name,
        aliases=tuple(aliases),
        labels=_labels(start.start.get("labels")),
        schema=view.schemas.get(type_name, 0) if known is None or fresh else known.schema,
        left_for=known.left_for if known is not None else "",
    )


def _labels(given: Any) -> frozenset[str]:
    if isinstance(given, Mapping):
        pairs = cast("Mapping[str, Any]", given)
        return frozenset(f"{key}={value}" if value != "" else key for key, value in pairs.items())
    return frozenset(str(item) for item in given or ())


def _send_stops(
    view: LeaderView, turn: Turn, stops: list[Stop | Kill], where: dict[tuple[str, int], str]
) -> list[Event]:
    gone: list[Event] = []
    for stop in stops:
        node = where.get((stop.child, stop.incarnation), "")
        known = view.agents.get(stop.child)
        if not node and known is not None and known.incarnation == stop.incarnation:
            node = known.node
        if node and view.reachable(node):
            turn.stops.append((stop, node))
        elif isinstance(stop, Stop):
            gone.append(
                Exited(
                    path=stop.path,
                    child=stop.child,
                    incarnation=stop.incarnation,
                    reason=_NODE_GONE,
                    charged=False,
                )
            )
    return gone
