"""A tree that could not work is refused where it is written, with the field named; a good one becomes plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from regrow_signals.errors import BadDefinition
from regrow_supervisor.definition import full_child, full_children, full_flags
from regrow_supervisor.spec import Pause, Supervisor, child_definition
from regrow_supervisor.spec_check import check_child
from regrow_supervisor.states import ChildState
from regrow_workers.agent import Agent
from regrow_workers.child_spec import ChildSpec
from regrow_workers.state import State


class Desk(State):
    open: int = 0


class Support(Agent[Desk], name="spec-support"):
    pass


class Billing(Agent[Desk], name="spec-billing"):
    pass


anything: Any = object()


def bad(build: Callable[[], object], *words: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        build()
    for word in words:
        assert word in str(caught.value)


def test_a_tree_knows_its_agents_its_types_and_its_paths() -> None:
    branch = Supervisor("billing", [Billing.child("b1")])
    tree = Supervisor("helpdesk", [Support.child("s1"), branch])

    assert dict(tree.agent_types()) == {"spec-support": Support, "spec-billing": Billing}
    assert [(path, child.id) for path, child in tree.agents()] == [
        ("helpdesk", "s1"),
        ("helpdesk/billing", "b1"),
    ]
    assert [path for path, _ in tree.paths()] == ["helpdesk", "helpdesk/billing"]


def test_the_stored_form_is_json_that_a_decision_takes_as_it_is() -> None:
    branch = Supervisor("billing", [Billing.child("b1", backoff=2, shutdown="brutal_kill")])
    tree = Supervisor("helpdesk", [Support.child("s1", init={"open": 3}, shutdown=1.5), branch])

    stored = json.loads(json.dumps(tree.definition()))

    support, billing = full_children(full_flags(stored))
    assert (support["start"]["type"], support["start"]["init"]) == ("spec-support", {"open": 3})
    assert (support["shutdown"], billing["shutdown"]) == (1500, "infinity")
    assert billing["supervisor"]["children"][0]["backoff"]["first_ms"] == 2000
    assert stored["pause"] == {"first_ms": 1000, "longest_ms": 60_000}
    assert "pause" not in billing["supervisor"]


def test_what_a_child_leaves_to_the_settings_is_not_stored_and_otp_sees_its_default() -> None:
    tree = Supervisor(
        "t", [Support.child("plain"), Support.child("own", deadline=2, shutdown=5, max_kills=1)]
    )
    flags = full_flags(json.loads(json.dumps(tree.definition())))

    plain, own = full_children(flags)

    assert (
        not {"deadline_ms", "shutdown_ms", "max_mailbox", "max_attempts", "max_kills"} & plain["start"].keys()
    )
    assert (plain["shutdown"], own["shutdown"]) == (5000, 5000)
    assert (own["start"]["deadline_ms"], own["start"]["shutdown_ms"], own["start"]["max_kills"]) == (
        2000,
        5000,
        1,
    )
    assert [ChildState(id="c", spec=spec, place=0).shutdown_left_out for spec in (plain, own)] == [
        True,
        False,
    ]


def test_defaults_are_three_restarts_in_five_seconds() -> None:
    stored = Supervisor("t", [Support.child("s1")]).definition()

    assert (stored["max_restarts"], stored["max_seconds"], stored["strategy"]) == (3, 5, "one_for_one")
    assert "limit" not in stored["children"][0]


def test_children_of_dynamic_supervisors_and_pooled_ones_have_a_budget_of_their_own() -> None:
    chats = Supervisor("chats", strategy="dynamic", max_restarts=2)
    tree = Supervisor(
        "t", [chats, Support.child("s1", isolation="pool"), Support.child("s2", max_restarts=9)]
    )

    dynamic, pooled, own = tree.definition()["children"]

    assert dynamic["supervisor"]["limit"] == {"max_restarts": 2, "max_seconds": 5, "on_exceeded": "park"}
    assert pooled["limit"] == {"max_restarts": 3, "max_seconds": 5, "on_exceeded": "park"}
    assert own["limit"]["max_restarts"] == 9


@pytest.mark.parametrize(
    ("spec", "flags", "limit"),
    [
        (Support.child("s1", isolation="pool"), {}, (3, 5, "park")),
        (Support.child("s1", isolation="pool"), {"max_restarts": 9, "max_seconds": 60}, (9, 60, "park")),
        (Support.child("s1", max_restarts=7), {"max_restarts": 9, "max_seconds": 60}, (7, 60, "park")),
        (Support.child("s1", max_seconds=1.5), {"max_restarts": 9, "max_seconds": 60}, (9, 1.5, "park")),
        (Support.child("s1"), {"max_restarts": 9}, (9, 5, "park")),
        (Support.child("s1", on_exceeded="escalate"), {"max_restarts": 9}, (9, 5, "escalate")),
    ],
)
def test_what_a_child_that_comes_at_run_time_leaves_open_is_its_supervisors(
    spec: ChildSpec, flags: dict[str, Any], limit: tuple[float, float, str]
) -> None:
    chats = full_flags(Supervisor("chats", strategy="dynamic", **flags).definition())

    taken = full_child(child_definition(spec), chats)

    assert tuple(taken["limit"].values()) == limit
    check_child(child_definition(spec), "chats")


def test_a_dynamic_supervisor_that_escalates_counts_as_otp_does() -> None:
    chats = Supervisor("chats", strategy="dynamic", on_exceeded="escalate")

    assert "limit" not in chats.definition()


def test_a_childs_stored_form_is_what_start_child_takes() -> None:
    stored = child_definition(Support.child("s9", restart="transient"))

    assert full_children(full_flags({"children": [stored]}))[0]["restart"] == "transient"


def test_the_same_branch_may_not_stand_below_itself() -> None:
    inner = Supervisor("inner", [])
    outer = Supervisor("outer", [inner])
    inner.children = (outer.child(),)

    bad(lambda: Supervisor("top", [outer]), "children", "cycle")


CASES: list[tuple[Callable[[], object], tuple[str, ...]]] = [
    (lambda: Supervisor("t", strategy=anything), ("strategy", "one_for_one")),
    (lambda: Supervisor("t", max_restarts=-1), ("max_restarts", "-1")),
    (lambda: Supervisor("t", max_restarts=True), ("max_restarts", "True")),
    (lambda: Supervisor("t", max_seconds=0), ("max_seconds",)),
    (lambda: Supervisor("t", max_seconds=2.5), ("max_seconds", "whole seconds")),
    (lambda: Supervisor("t", max_seconds=timedelta(milliseconds=10)), ("max_seconds",)),
    (lambda: Supervisor("t", max_seconds=float("nan")), ("max_seconds",)),
    (lambda: Supervisor("t", auto_shutdown=anything), ("auto_shutdown", "any_significant")),
    (lambda: Supervisor("t", strategy="dynamic", auto_shutdown="any_significant"), ("auto_shutdown",)),
    (lambda: Supervisor("t", max_children=3), ("max_children", "dynamic")),
    (lambda: Supervisor("t", strategy="dynamic", max_children=-1), ("max_children", "-1")),
    (lambda: Supervisor("t", strategy="dynamic", children=[Support.child("a")]), ("children", "empty")),
    (lambda: Supervisor("t", on_exceeded=anything), ("on_exceeded", "park")),
    (lambda: Supervisor("t", pause=anything), ("pause",)),
    (lambda: Pause(first=0), ("pause",)),
    (lambda: Supervisor("t/x"), ("'/'",)),
    (lambda: Supervisor("a b"), ("supervisor name",)),
    (lambda: Supervisor("t", anything), ("children",)),
    (lambda: Supervisor("t", [anything]), ("children", "YourAgent.child")),
    (lambda: Supervisor("t", [Support.child("a"), Billing.child("a")]), ("'a'", "twice")),
    (
        lambda: Supervisor("t", [Support.child("a"), Supervisor("u", [Billing.child("a")])]),
        ("'a'", "'t'", "'t/u'"),
    ),
    (lambda: Supervisor("t", [Supervisor("u"), Supervisor("u")]), ("'u'", "twice")),
    (
        lambda: Supervisor("t", [Support.child("a", restart="transient", significant=True)]),
        ("significant", "auto_shutdown"),
    ),
    (lambda: Support.child("a", significant=True), ("significant", "permanent")),
    (lambda: Support.child("a", shutdown=anything), ("shutdown",)),
    (lambda: Support.child("a", restart=anything), ("restart", "transient")),
    (lambda: Supervisor("t").child(significant=True), ("significant",)),
]


@pytest.mark.parametrize(("build", "words"), CASES)
def test_a_tree_that_cannot_work_is_refused_at_definition(
    build: Callable[[], object], words: tuple[str, ...]
) -> None:
    bad(build, *words)


def test_a_child_given_its_own_supervisor_is_a_child_like_others() -> None:
    branch = Supervisor("billing", [Billing.child("b1")])
    tree = Supervisor("t", [branch.child(restart="temporary", shutdown=3)])

    child = tree.definition()["children"][0]

    assert isinstance(tree.children[0], ChildSpec)
    assert (child["restart"], child["shutdown"], child["type"]) == ("temporary", 3000, "supervisor")


def test_types_of_children_that_come_at_run_time_are_known_to_nodes() -> None:
    tree = Supervisor("desk", [Supervisor("chats", strategy="dynamic", agents=[Support])])

    assert tree.agent_types() == {"spec-support": Support}


@pytest.mark.parametrize("agents", ["support", [Support.child("support")], [str], None])
def test_run_time_types_that_are_none_are_refused_with_the_field_named(agents: Any) -> None:
    with pytest.raises(BadDefinition, match="'chats': agents"):
        Supervisor("chats", strategy="dynamic", agents=agents)
