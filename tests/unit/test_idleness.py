"""Idle children of dynamic supervisors: who is idle, and the steps from running to forgotten or awake again. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from regrow import Agent, State, Supervisor
from regrow.errors import BadDefinition
from regrow_supervisor.commit_plan import Extras, plan_commit
from regrow_supervisor.definition import SpecError
from regrow_supervisor.events import (
    Event,
    Exited,
    ForgetIdle,
    Hold,
    StartChild,
    Started,
    StartTree,
    StopIdle,
    WakeIdle,
)
from regrow_supervisor.idleness import IdleChild, IdleWatch, idle_children
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.placement import NodeView
from regrow_supervisor.spec import child_definition
from regrow_supervisor.spec_check import check_child, check_tree
from regrow_supervisor.turn import Turn, take_turn

CHILD = IdleChild("chats", "a", 1, idle_ms=1000)


class Talk(State):
    pass


class Chat(Agent[Talk], name="chat"):
    pass


# The spec.


def test_the_spec_holds_it_in_milliseconds() -> None:
    assert child_definition(Chat.child("a", idle_delete=1.5))["idle_delete_ms"] == 1500
    assert "idle_delete_ms" not in child_definition(Chat.child("a"))


@pytest.mark.parametrize("given", [0, -1, float("inf"), "soon"])
def test_a_time_that_cannot_be_is_refused(given: Any) -> None:
    with pytest.raises(BadDefinition, match="idle_delete"):
        Chat.child("a", idle_delete=given)


def test_it_is_for_children_that_come_at_run_time() -> None:
    with pytest.raises(BadDefinition, match="idle_delete"):
        Supervisor("desk", [Chat.child("a", idle_delete=1)])
    stored = {"strategy": "one_for_one", "children": [child_definition(Chat.child("a", idle_delete=1))]}
    with pytest.raises(SpecError, match="invalid_idle_delete"):
        check_tree(stored, "desk")
    with pytest.raises(SpecError, match="idle_delete_ms"):
        check_child({**child_definition(Chat.child("a")), "idle_delete_ms": 0}, "chats")


# The watch.


def test_one_that_does_nothing_for_its_time_is_idle() -> None:
    watch = IdleWatch()
    found = [watch.due([CHILD], at) != [] and watch.observe(CHILD, "1-0", at) for at in (0, 250, 999, 1000)]

    assert found == [False, False, False, False]
    assert watch.due([CHILD], 1249) and watch.observe(CHILD, "1-0", 1249)


def test_it_is_looked_at_four_times_in_its_time() -> None:
    watch = IdleWatch()
    looks = 0
    for at in range(0, 1000, 50):
        for child in watch.due([CHILD], at):
            looks += 1
            watch.observe(child, "1-0", at)

    assert looks == 4


@pytest.mark.parametrize("token", ["2-0", ""])
def test_whatever_it_does_begins_its_time_anew(token: str) -> None:
    watch = IdleWatch()
    watch.observe(CHILD, "1-0", 0)
    assert not watch.observe(CHILD, token, 900)

    assert not watch.observe(CHILD, "2-0", 1800)


def test_another_life_and_a_doubt_begin_it_anew() -> None:
    watch = IdleWatch()
    watch.observe(CHILD, "1-0", 0)
    other = IdleChild("chats", "a", 2, idle_ms=1000)
    assert watch.due([other], 5000) == [other] and not watch.observe(other, "1-0", 5000)

    watch.restart()
    assert not watch.observe(other, "1-0", 9000)


# The steps.


def believe(view: LeaderView, turn: Turn) -> Turn:
    for placed in turn.starts:
        view.settle(placed.start.child, placed.node, placed.start.incarnation, placed.start.path)
    view.take_over(turn.states, turn.removed)
    return turn


def running(*ids: str, restart: Any = "permanent") -> LeaderView:
    """A dynamic supervisor, each of its children idle-deleted after a second."""
    view = LeaderView(nodes={"n1": NodeView(node="n1", schemas={"chat": 1})})
    view.agents = {id_: AgentView("chats") for id_ in ids}
    definition = Supervisor("chats", strategy="dynamic", agents=[Chat]).definition()
    believe(view, take_turn(view, StartTree(path="chats", definition=definition), 0))
    for id_ in ids:
        spec = child_definition(Chat.child(id_, idle_delete=1, restart=restart))
        believe(view, take_turn(view, StartChild(path="chats", child=spec), 0))
        believe(view, take_turn(view, Started(path="chats", child=id_, incarnation=1), 0))
    return view


def after(view: LeaderView, *events: Event) -> Turn:
    turn = Turn()
    for event in events:
        turn = believe(view, take_turn(view, event, 0))
    return turn


STOP = StopIdle(path="chats", child="a", incarnation=1)
ENDED = Exited(path="chats", child="a", incarnation=1, reason="shutdown", charged=False)
FORGET = ForgetIdle(path="chats", child="a")
WAKE = WakeIdle(path="chats", child="a")


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_it_is_stopped_and_stays_on_record_until_it_is_deleted(restart: Any) -> None:
    view = running("a", "b", restart=restart)
    assert [(each.agent, each.stopped) for each in idle_children(view)] == [("a", False), ("b", False)]

    turn = after(view, STOP)
    assert [stop.child for stop, _ in turn.stops] == ["a"]
    assert [each.agent for each in idle_children(view)] == ["b"]

    after(view, ENDED)
    assert [(each.agent, each.stopped) for each in idle_children(view)] == [("a", True), ("b", False)]

    turn = take_turn(view, FORGET, 0)
    plan = plan_commit(view, turn, Extras(deletions=["a"]), "token", lambda type_name, init: ("", 1))
    assert plan.deletions == ["a"]
    believe(view, turn)
    assert list(view.states["chats"].children) == ["b"]


def test_one_that_got_something_meanwhile_starts_again_uncharged() -> None:
    view = running("a")

    turn = after(view, STOP, ENDED, WAKE)

    assert [(placed.start.child, placed.start.incarnation) for placed in turn.starts] == [("a", 2)]
    child = view.states["chats"].children["a"]
    assert (child.idle, child.stamps, child.restarts) == (False, (), 0)
    assert take_turn(view, FORGET, 0).states == {}


def test_an_end_of_its_own_in_that_moment_changes_nothing() -> None:
    view = running("a")
    crash = Exited(path="chats", child="a", incarnation=1, reason="signal:SIGKILL")

    turn = after(view, STOP, crash)

    assert not turn.starts
    assert [each.stopped for each in idle_children(view)] == [True]


def test_an_older_life_is_not_stopped() -> None:
    view = running("a")

    assert not after(view, StopIdle(path="chats", child="a", incarnation=7)).stops
    assert not after(view, StopIdle(path="chats", child="nobody", incarnation=1)).stops


def test_a_hold_wins() -> None:
    view = running("a")
    after(view, STOP, ENDED, Hold(path="chats", child="a"))

    assert idle_children(view) == []
    turn = take_turn(view, FORGET, 0)
    plan = plan_commit(view, turn, Extras(deletions=["a"]), "token", lambda type_name, init: ("", 1))
    assert plan.deletions == [] and "a" in view.states["chats"].children
    assert not after(view, WAKE).starts
