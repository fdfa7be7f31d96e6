"""On which node a start goes, and why it may go nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrow_supervisor.placement import NodeView, Wanted, node_from_record, place
from regrow_workers.announced import AnnouncedType


def node(name: str, **given: object) -> NodeView:
    base: dict[str, object] = {"node": name, "schemas": {"support": 1}}
    return NodeView(**(base | given))  # type: ignore[arg-type]


def want(agent: str = "s1", **given: object) -> Wanted:
    return Wanted(**({"agent": agent, "type": "support"} | given))  # type: ignore[arg-type]


def test_the_least_loaded_node_is_taken() -> None:
    placement = place([want()], [node("a"), node("b")], {"a": 2, "b": 1})

    assert placement.placed == {"s1": "b"}


def test_starts_of_one_decision_count_for_the_next() -> None:
    placement = place([want(f"s{i}") for i in range(4)], [node("a"), node("b")], {"a": 1})

    assert sorted(placement.placed.values()) == ["a", "a", "b", "b"] or placement.placed == {
        "s0": "b",
        "s1": "a",
        "s2": "b",
        "s3": "a",
    }


def test_a_draining_node_takes_nothing() -> None:
    placement = place([want()], [node("a", status="draining")], {})

    assert placement.unplaced == {"s1": "no worker node is up"}


def test_an_effects_node_takes_no_agent() -> None:
    assert place([want()], [node("a", kind="effects")], {}).unplaced == {"s1": "no worker node is up"}


def test_a_node_that_does_not_know_the_type_takes_nothing() -> None:
    placement = place([want()], [node("a", schemas={"billing": 1})], {})

    assert placement.unplaced == {"s1": "no worker node runs agent type 'support'"}


def test_a_node_that_cannot_read_the_stored_schema_takes_nothing() -> None:
    placement = place([want(schema=2)], [node("a"), node("b", schemas={"support": 2})], {"b": 50})

    assert placement.placed == {"s1": "b"}


def test_every_label_must_be_there() -> None:
    nodes = [node("a", labels=frozenset({"gpu"})), node("b", labels=frozenset({"gpu", "eu"}))]

    assert place([want(labels=frozenset({"gpu", "eu"}))], nodes, {"b": 9}).placed == {"s1": "b"}
    assert place([want(labels=frozenset({"us"}))], nodes, {}).unplaced == {
        "s1": "no worker node with labels us"
    }


def test_a_quiet_node_is_the_last_resort() -> None:
    assert place([want()], [node("a", quiet=True), node("b")], {"b": 40}).placed == {"s1": "b"}
    assert place([want()], [node("a", quiet=True)], {}).placed == {"s1": "a"}


def test_what_fits_nowhere_does_not_hold_up_the_rest() -> None:
    placement = place([want("x", type="ghost"), want("y")], [node("a")], {})

    assert placement.placed == {"y": "a"}
    assert set(placement.unplaced) == {"x"}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 60))
def test_load_is_levelled(loads: list[int], starts: int) -> None:
    nodes = [node(f"n{i}") for i in range(len(loads))]
    counts = {f"n{i}": load for i, load in enumerate(loads)}

    placement = place([want(f"s{i}") for i in range(starts)], nodes, counts)

    assert len(placement.placed) == starts
    after = {name: load + list(placement.placed.values()).count(name) for name, load in counts.items()}
    taken = [name for name in after if after[name] > counts[name]]
    if taken:
        assert max(after[name] for name in taken) - min(after.values()) <= 1


def test_a_record_is_read() -> None:
    view = node_from_record(
        "n",
        {
            "kind": "worker",
            "status": "up",
            "labels": json.dumps(["gpu"]),
            "types": json.dumps({"support": {"code": "abc", "schema": 3}}),
        },
    )

    assert view == NodeView(
        node="n", labels=frozenset({"gpu"}), schemas={"support": 3}, types={"support": AnnouncedType(3)}
    )


def test_labels_may_be_pairs_or_words() -> None:
    assert node_from_record("n", {"labels": '{"zone": "eu"}'}).labels == {"zone", "zone=eu"}
    assert node_from_record("n", {"labels": "gpu, eu"}).labels == {"gpu", "eu"}
    assert node_from_record("n", {}).labels == frozenset()


def test_an_unreadable_record_attracts_no_start() -> None:
    junk = node_from_record("n", {"kind": "worker", "types": "{", "labels": "[1"})

    assert place([want()], [junk], {}).placed == {}
    assert node_from_record("n", {"types": "[]"}).schemas == {}
    assert place([want()], [node_from_record("n", {})], {}).placed == {}


def test_a_full_node_is_passed_over_and_said_when_it_is_the_only_one() -> None:
    nodes = [NodeView(node="n1", schemas={"support": 1}, full=True)]

    placement = place([Wanted(agent="a", type="support")], nodes, {})
    assert placement.unplaced == {"a": "all slots are taken on n1"}

    nodes.append(NodeView(node="n2", schemas={"support": 1}))
    assert place([Wanted(agent="a", type="support")], nodes, {"n2": 50}).placed == {"a": "n2"}


def knowing(name: str, *patterns: str, **given: object) -> NodeView:
    return node(name, types={"support": AnnouncedType(1, patterns)}, **given)


def test_what_was_left_for_a_signal_goes_to_a_node_that_handles_it() -> None:
    nodes = [knowing("a", "ticket.opened"), knowing("b", "ticket.*")]

    placement = place([want(left_for="ticket.split")], nodes, {"b": 50})

    assert (placement.placed, placement.kept) == ({"s1": "b"}, frozenset())


def test_it_waits_for_room_there_and_never_goes_back_meanwhile() -> None:
    nodes = [knowing("a", "ticket.opened"), knowing("b", "ticket.*", full=True)]

    placement = place([want(left_for="ticket.split")], nodes, {})

    assert (placement.placed, placement.unplaced) == ({}, {"s1": "all slots are taken on b"})


@pytest.mark.parametrize(
    "better",
    [
        {"status": "draining"},
        {"kind": "effects"},
        {"schemas": {}},
        {"types": {}},
        {"types": {"support": AnnouncedType(1, ("no pattern!",))}},
    ],
)
def test_where_nobody_could_take_it_it_is_kept_on_any_node(better: dict[str, Any]) -> None:
    knows_it = {"types": {"support": AnnouncedType(1, ("ticket.*",))}}
    nodes = [knowing("a", "ticket.opened"), node("b", **(knows_it | better))]

    placement = place([want(left_for="ticket.split")], nodes, {"a": 50, "b": 50})

    assert (set(placement.placed), placement.kept) == ({"s1"}, frozenset({"s1"}))


def test_labels_and_schema_bind_those_that_handle_it_too() -> None:
    gpu = frozenset({"gpu"})
    nodes = [
        knowing("a", labels=gpu, schemas={"support": 2}),
        knowing("b", "ticket.*", schemas={"support": 2}),
        knowing("c", "ticket.*", labels=gpu),
    ]

    placement = place([want(left_for="ticket.split", labels=gpu, schema=2)], nodes, {})

    assert (placement.placed, placement.kept) == ({"s1": "a"}, frozenset({"s1"}))
