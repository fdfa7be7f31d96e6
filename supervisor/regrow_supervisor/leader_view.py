"""What the leader holds in memory: a copy of the supervisors' records, and where each agent lives. No I/O.

It is true as long as we lead, for only the leader writes it; after any doubt it is thrown away and loaded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from regrow_supervisor.placement import NodeView
from regrow_supervisor.restart_types import left_signal_type
from regrow_supervisor.states import ChildState, SupervisorState, touched_ids

__all__ = ["UNUSABLE", "AgentView", "LeaderView", "changed_children", "forgotten_children"]

UNUSABLE: Final = "unusable"
"""Status, in this view alone, of a node whose order stream holds the wrong type."""


@dataclass(slots=True)
class AgentView:
    """A registered agent: its supervisor, and the node of its current life (empty: none)."""

    path: str
    incarnation: int = 0
    node: str = ""
    schema: int = 0
    schedules: str | None = ""
    """What its record says of the declared timers in force for it; None: that is not known."""
    left_for: str = ""
    """The signal type for which its last life left it to other code."""

    def note_end(self, reason: str, schema: int | None) -> None:
        """A life of its ended: what its next node must know. ``schema``: of the stored state, if it was told."""
        self.left_for = left_signal_type(reason)
        if schema is not None:
            self.schema = schema


@dataclass(slots=True)
class LeaderView:
    """Supervisors by path, agents and nodes by id; ``load`` counts the agents of each node."""

    states: dict[str, SupervisorState] = field(default_factory=dict[str, SupervisorState])
    agents: dict[str, AgentView] = field(default_factory=dict[str, AgentView])
    nodes: dict[str, NodeView] = field(default_factory=dict[str, NodeView])
    trees: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Root's path -> digests of the trees that were seen, the last one in force."""

    schemas: Mapping[str, int] = field(default_factory=dict[str, int])
    """Agent type -> schema of the states that this very process gives to new and fresh agents."""

    load: Counter[str] = field(default_factory=Counter[str])
    unreadable: dict[str, str] = field(default_factory=dict[str, str])
    """Paths whose record cannot be read, with the reason."""

    junk: dict[str, tuple[int, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[int, tuple[str, ...]]]
    )
    """Of those: the version and the fields' names, where there are any, so that the branch can be written anew."""

    pooled: bool = False
    """Whether any child was pooled since this view was loaded: then nodes keep slots."""

    with_slots: set[str] = field(default_factory=set[str])
    """Nodes that were told so."""

    housed: dict[str, None] = field(default_factory=dict[str, None])
    """Agents that may live on a node, so that nobody needs to look at all of them; who left is struck off later."""

    idlers: dict[str, str] = field(default_factory=dict[str, str])
    """Agents that are deleted when idle, with their supervisors' paths; who left is struck off later."""

    corrupt: set[str] = field(default_factory=set[str])
    """Agents whose key holds the wrong type: nothing is written to them, and nothing starts them."""

    unscheduled: set[str] = field(default_factory=set[str])
    """Agents whose declared timers may not be those of the tree in force (``schedule_installer.py``)."""

    def child_of(self, agent: str) -> tuple[str, ChildState] | None:
        """The supervisor's path and the child's record, if a supervisor has it."""
        known = self.agents.get(agent)
        if known is None:
            return None
        state = self.states.get(known.path)
        child = state.children.get(agent) if state is not None else None
        return None if child is None or child.is_supervisor else (known.path, child)

    def living(self) -> Iterator[tuple[str, ChildState, AgentView]]:
        """Every agent of which a process may exist, with its supervisor's path."""
        for agent in list(self.housed):
            known = self.agents.get(agent)
            if known is None or not known.node:
                del self.housed[agent]
                continue
            found = self.child_of(agent)
            if found is not None and found[1].alive and found[1].incarnation == known.incarnation:
                yield found[0], found[1], known

    def agents_on(self, node: str) -> list[tuple[str, ChildState, AgentView]]:
        """The living agents of one node, in the order of the tree's records."""
        return [life for life in self.living() if life[2].node == node]

    def reachable(self, node: str) -> bool:
        """Whether an order can be written for this node."""
        known = self.nodes.get(node)
        return known is not None and known.status != UNUSABLE

    def expected_nodes(self) -> set[str]:
        """Nodes that must beat: all that are known, and all that an agent is said to live on."""
        return set(self.nodes) | {node for node, agents in self.load.items() if agents > 0}

    def settle(self, agent: str, node: str, incarnation: int, path: str) -> None:
        """A life was ordered on a node."""
        known = self.agents.setdefault(agent, AgentView(path))
        self.leave(agent)
        known.path, known.node, known.incarnation = path, node, incarnation
        self.housed[agent] = None
        self.load[node] += 1

    def begin_pooled(self, agent: str, incarnation: int, path: str) -> None:
        """A pooled life began: on no node."""
        known = self.agents.setdefault(agent, AgentView(path))
        self.leave(agent)
        known.path, known.incarnation = path, incarnation
        self.pooled = True

    def leave(self, agent: str) -> None:
        """The agent's life is over: it counts for no node."""
        known = self.agents.get(agent)
        if known is not None and known.node:
            self.load[known.node] -= 1
            known.node = ""

    def take_over(self, changed: Mapping[str, SupervisorState], removed: Iterable[str]) -> None:
        """The records of a committed decision."""
        without, declaring, joined = list[str](), list[str](), list[str]()
        for path in removed:
            gone_state = self.states.pop(path, None)
            without += gone_state.children if gone_state is not None else ()
            self.unreadable.pop(path, None)
            self.junk.pop(path, None)
        for path, state in changed.items():
            before = self.states.get(path)
            self.states[path] = state
            self.unreadable.pop(path, None)
            self.junk.pop(path, None)
            children = before.children if before is not None else {}
            for child in changed_children(before, state):
                if not child.is_supervisor and not child.alive:
                    self.leave(child.id)
                if child.id not in children:
                    joined.append(child.id)
                self.note_idler(path, child)
            for gone in forgotten_children(before, state):
                self.leave(gone.id)
                without.append(gone.id)
            if "/" not in path and _schedules(before) != _schedules(state):
                declaring.append(path)
        for agent in without:
            self._look_at_schedules(agent)
        for agent in joined:
            self._look_at_schedules(agent, new=True)
        for root in declaring:
            self.look_at_schedules(root)

    def note_idler(self, path: str, child: ChildState) -> None:
        """Remember a child that is deleted when idle."""
        if "idle_delete_ms" in child.spec:
            self.idlers[child.id] = path

    def declared_of(self, agent: str) -> Any:
        """The stored form of the timers that this agent is to have by the tree in force; None for none."""
        found = self.child_of(agent)
        return None if found is None else self._declared(*found)

    def schedules_of(self, agent: str) -> str | None:
        """What is in force for it by its record; None where that is not known."""
        known = self.agents.get(agent)
        return None if known is None else known.schedules

    def note_schedules(self, agent: str, text: str) -> None:
        """They are in force now."""
        self.unscheduled.discard(agent)
        known = self.agents.get(agent)
        if known is not None:
            known.schedules = text

    def look_at_schedules(self, root: str | None = None) -> None:
        """Look at everybody (of one tree): after a load, and where the tree says something else."""
        for agent, known in self.agents.items():
            if root is None or known.path.partition("/")[0] == root:
                self._look_at_schedules(agent)

    def _look_at_schedules(self, agent: str, *, new: bool = False) -> None:
        known = self.agents.get(agent)
        if known is None:
            return
        declared = self.declared_of(agent) is not None
        if new and declared:
            known.schedules = None  # it may have been deleted and made anew without our knowledge
        if declared or known.schedules != "":
            self.unscheduled.add(agent)

    def _declared(self, path: str, child: ChildState) -> Any:
        root = self.states.get(path.partition("/")[0])
        schedules = None if root is None else root.definition.get("schedules")
        return schedules.get(child.spec["start"].get("type")) if schedules else None

    def note_room(self, node: str, *, full: bool) -> bool:
        """A node refused a start for want of room, or one of its agents ended; whether that is news."""
        known = self.nodes.get(node)
        if known is None or known.full == full:
            return False
        self.nodes[node] = replace(known, full=full)
        return True

    def note_draining(self, node: str) -> None:
        """From its drain's order on nothing is started there."""
        if node in self.nodes:
            self.nodes[node] = replace(self.nodes[node], status="draining")

    def drop_node(self, node: str) -> None:
        self.nodes.pop(node, None)
        self.with_slots.discard(node)
        for agent in self.housed:
            known = self.agents.get(agent)
            if known is not None and known.node == node:
                known.node = ""
        self.load.pop(node, None)


def _schedules(state: SupervisorState | None) -> Any:
    return None if state is None else state.definition.get("schedules")


def changed_children(before: SupervisorState | None, after: SupervisorState) -> list[ChildState]:
    """The children whose record is another one than before; records are never changed in place.

    Work grows with what the decision touched, not with the supervisor.
    """
    if before is None:
        return list(after.children.values())
    old, new = before.children, after.children
    touched = (new[id_] for id_ in touched_ids(before, after) if id_ in new)
    return [child for child in touched if old.get(child.id) is not child]


def forgotten_children(before: SupervisorState | None, after: SupervisorState) -> list[ChildState]:
    """Those that were on record before, and are not any more."""
    if before is None:
        return []
    old, new = before.children, after.children
    return [old[id_] for id_ in touched_ids(before, after) if id_ in old and id_ not in new]
