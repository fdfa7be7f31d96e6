"""Pooled children: their lives begin and end within the decision, many at once, and a long plan takes several."""

from __future__ import annotations

from typing import Any

import pytest

from regrow_supervisor import events as ev
from regrow_supervisor.codec import from_fields, to_fields
from regrow_supervisor.decide import decide
from regrow_supervisor.inbox import next_due
from regrow_supervisor.leader_view import LeaderView
from regrow_supervisor.orders import Kill, LifeEnded, Start, Stop
from regrow_supervisor.placement import NodeView
from regrow_supervisor.pooling import nodes_without_slots
from regrow_supervisor.states import SupervisorState
from regrow_supervisor.turn import Turn, take_turn
from regrow_supervisor.world import AT_ONCE

PARK = {"max_restarts": 2, "max_seconds": 5, "on_exceeded": "park"}


def pooled(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "start": {"type": "t", "isolation": "pool"}, "limit": PARK, **fields}


def isolated(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "start": {"type": "t"}, **fields}


class Tree:
    """One supervisor, fed with events; nobody answers its orders."""

    def __init__(self, *children: dict[str, Any], **flags: Any) -> None:
        self.states: dict[str, SupervisorState] = {}
        self.out: list[Any] = []
        self.now_ms = 1_000_000
        definition = {"max_restarts": 3, "max_seconds": 5, **flags, "children": list(children)}
        self.feed(ev.StartTree(path="root", definition=definition))

    def feed(self, event: ev.Event) -> list[Any]:
        """What this event leads to; its records, if they are small, survive being stored."""
        decision = decide(self.states, event, self.now_ms)
        self.states.update(decision.states)
        self.out = list(decision.output)
        for path, state in decision.states.items():
            assert len(state.children) > 100 or from_fields(to_fields(state)) == self.states[path]
        return self.out

    def call(self, kind: type[Any], child: str, **more: Any) -> list[Any]:
        return self.feed(kind(path="root", child=child, request="r", **more))

    def crash(self, name: str, reason: str = "exception:x", *, charged: bool = True) -> list[Any]:
        number = self.root.children[name].incarnation
        return self.feed(
            ev.Exited(path="root", child=name, incarnation=number, reason=reason, charged=charged)
        )

    @property
    def root(self) -> SupervisorState:
        return self.states["root"]

    def lives(self) -> dict[str, tuple[str, int]]:
        return {child.id: (child.status, child.incarnation) for child in self.root.children.values()}

    def orders(self) -> list[str]:
        return [
            f"{type(item).__name__} {item.child}#{item.incarnation}"
            for item in self.out
            if isinstance(item, Start | Stop | Kill)
        ]


def test_all_pooled_children_start_in_the_decision_that_starts_their_supervisor() -> None:
    tree = Tree(pooled("a"), pooled("b"), pooled("c"))

    assert tree.root.status == "running"
    assert tree.lives() == {"a": ("running", 1), "b": ("running", 1), "c": ("running", 1)}
    assert tree.orders() == ["Start a#1", "Start b#1", "Start c#1"]


def test_pooled_children_wait_for_the_isolated_one_before_them() -> None:
    tree = Tree(pooled("a"), isolated("b"), pooled("c"))
    assert tree.lives() == {"a": ("running", 1), "b": ("starting", 1), "c": ("stopped", 0)}

    tree.feed(ev.Started(path="root", child="b", incarnation=1))

    assert tree.root.status == "running"
    assert tree.lives()["c"] == ("running", 1)


def test_a_crash_is_restarted_at_once_and_counted_for_the_child_alone() -> None:
    tree = Tree(pooled("a"), pooled("b"), max_restarts=0)

    for number in (2, 3):
        tree.crash("a")
        assert tree.lives() == {"a": ("running", number), "b": ("running", 1)}
    tree.crash("a")

    assert tree.root.children["a"].status == "parked"
    assert (tree.root.status, tree.lives()["b"]) == ("running", ("running", 1))
    tree.call(ev.Revive, "a")
    assert tree.lives()["a"] == ("running", 4)


def test_an_end_that_is_nobodys_fault_is_not_counted() -> None:
    tree = Tree(pooled("a"))

    for _ in range(10):
        tree.crash("a", "operator", charged=False)

    assert tree.lives() == {"a": ("running", 11)}


@pytest.mark.parametrize(
    ("strategy", "restarted"), [("one_for_all", "abc"), ("rest_for_one", "bc"), ("one_for_one", "b")]
)
def test_strategies_hold_for_pooled_children(strategy: str, restarted: str) -> None:
    tree = Tree(pooled("a"), pooled("b"), pooled("c"), strategy=strategy)

    tree.crash("b")

    assert tree.lives() == {name: ("running", 2 if name in restarted else 1) for name in "abc"}
    stopped = [item.child for item in tree.out if isinstance(item, Stop)]
    assert sorted(stopped) == sorted(set(restarted) - {"b"})


def test_calls_answer_within_the_decision() -> None:
    tree = Tree(pooled("a"))

    tree.call(ev.TerminateChild, "a")
    assert tree.lives() == {"a": ("stopped", 1)}
    tree.call(ev.RestartChild, "a")
    assert tree.lives() == {"a": ("running", 2)}
    tree.call(ev.Hold, "a")
    assert tree.lives() == {"a": ("stopped", 2)}
    tree.crash("a")
    tree.feed(ev.NodeAvailable())
    assert tree.lives() == {"a": ("stopped", 2)}
    tree.call(ev.Unhold, "a")
    assert tree.lives() == {"a": ("running", 3)}


def test_whoever_watches_hears_of_an_end_by_order_and_of_one_by_itself() -> None:
    tree = Tree(pooled("a", shutdown="brutal_kill"), pooled("b"))

    tree.call(ev.TerminateChild, "a")
    assert [(end.child, end.reason) for end in tree.out if isinstance(end, LifeEnded)] == [("a", "killed")]
    tree.crash("b")
    assert [(end.child, end.again) for end in tree.out if isinstance(end, LifeEnded)] == [("b", True)]


def test_a_temporary_child_that_ends_is_forgotten_and_a_transient_one_that_stops_stays_down() -> None:
    tree = Tree(pooled("a", restart="temporary"), pooled("b", restart="transient"))

    tree.crash("a")
    tree.crash("b", "normal")

    assert tree.lives() == {"b": ("stopped", 1)}


def test_thousands_start_and_stop_in_a_few_decisions() -> None:
    names = [f"a{number}" for number in range(2 * AT_ONCE + 10)]
    tree = Tree(*(pooled(name) for name in names))
    assert len(tree.orders()) == AT_ONCE
    assert next_due(tree.states) == 0

    decisions = 1
    while next_due(tree.states) is not None:
        tree.feed(ev.Tick())
        decisions += 1

    assert (decisions, tree.root.status) == (3, "running")
    assert set(tree.lives().values()) == {("running", 1)}
    tree.feed(ev.StopTree(path="root"))
    assert len(tree.orders()) == AT_ONCE
    while next_due(tree.states) is not None:
        tree.feed(ev.Tick())
    assert tree.root.status == "exited"
    assert {status for status, _ in tree.lives().values()} == {"stopped"}


def test_a_dynamic_supervisor_stops_thousands_likewise() -> None:
    tree = Tree(strategy="dynamic")
    names = [f"a{number}" for number in range(AT_ONCE + 10)]
    for name in names:
        tree.feed(ev.StartChild(path="root", child=pooled(name), request=name))
    tree.crash(names[-1])

    tree.feed(ev.StopTree(path="root"))
    assert next_due(tree.states) == 0
    tree.feed(ev.Tick())

    assert tree.root.status == "exited"
    assert next_due(tree.states) is None


def test_a_call_that_comes_in_the_middle_is_answered_after_it() -> None:
    tree = Tree(*(pooled(f"a{number}") for number in range(AT_ONCE + 10)))

    tree.feed(ev.CountChildren(path="root", request="count"))

    (reply,) = [item for item in tree.out if type(item).__name__ == "Reply"]
    assert reply.value == [AT_ONCE + 10, AT_ONCE + 10, 0, AT_ONCE + 10]


# The turn: what of it reaches Redis.


def node(name: str, **more: Any) -> NodeView:
    return NodeView(node=name, schemas={"t": 1}, **more)


def turn_of(view: LeaderView, event: ev.Event) -> Turn:
    return take_turn(view, event, 0)


def started(view: LeaderView, *names: str, **flags: Any) -> Turn:
    definition = {
        "max_restarts": 3, "max_seconds": 5, "children": [pooled(name) for name in names], **flags,
    }  # fmt: skip
    turn = turn_of(view, ev.StartTree(path="root", definition=definition))
    for start in turn.pooled:
        view.begin_pooled(start.child, start.incarnation, start.path)
    view.take_over(turn.states, turn.removed)
    return turn


def test_a_pooled_start_needs_no_node_and_a_stop_is_a_fence() -> None:
    view = LeaderView()
    turn = started(view, "a", "b")
    assert ([start.child for start in turn.pooled], turn.starts) == (["a", "b"], [])

    turn = turn_of(view, ev.TerminateChild(path="root", child="a", request="r"))

    assert [(stop.child, stop.incarnation, stop.pooled_reason) for stop in turn.fences] == [
        ("a", 1, "shutdown")
    ]
    assert turn.stops == []
    assert list(view.living()) == []


def test_a_life_that_begins_and_ends_in_one_turn_never_was() -> None:
    view = LeaderView()
    started(view, "a", "b", strategy="one_for_all")
    crashed = [ev.Exited(path="root", child=name, incarnation=1, reason="exception:x") for name in ("a", "b")]

    turn = turn_of(view, ev.Batch(events=tuple(crashed)))

    last = {child.id: child.incarnation for child in turn.states["root"].children.values()}
    assert {start.child: start.incarnation for start in turn.pooled} == last
    assert len(turn.pooled) == 2


def test_worker_nodes_are_told_once_that_there_are_pooled_agents() -> None:
    view = LeaderView(
        nodes={"n1": node("n1"), "e1": node("e1", kind="effects"), "d1": node("d1", status="draining")}
    )
    assert nodes_without_slots(view, Turn()) == []

    turn = turn_of(view, ev.StartTree(path="root", definition={
        "max_restarts": 3, "max_seconds": 5, "children": [pooled("a")],
    }))  # fmt: skip
    assert nodes_without_slots(view, turn) == ["n1"]

    started(view, "a")
    view.with_slots.add("n1")
    view.nodes["n2"] = node("n2")
    assert nodes_without_slots(view, Turn()) == ["n2"]
    view.drop_node("n1")
    view.nodes["n1"] = node("n1")
    assert nodes_without_slots(view, Turn()) == ["n2", "n1"]
