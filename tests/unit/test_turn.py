"""One event is decided until nothing is left open: starts are placed, what fits nowhere waits, stops reach nodes."""

from __future__ import annotations

from typing import Any

from regrow_supervisor.events import Exited, NodeAvailable, Started, StartTree, TerminateChild
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.placement import NodeView
from regrow_supervisor.turn import Turn, take_turn


def definition(*ids: str, **flags: Any) -> dict[str, Any]:
    children = [{"id": id_, "start": {"type": "support"}} for id_ in ids]
    return {"strategy": "one_for_one", "max_restarts": 3, "max_seconds": 5, "children": children, **flags}


def node(name: str) -> NodeView:
    return NodeView(node=name, schemas={"support": 1})


def believe(view: LeaderView, turn: Turn) -> None:
    """As after a commit."""
    for placed in turn.starts:
        start = placed.start
        view.agents.setdefault(start.child, AgentView(start.path))
        view.settle(start.child, placed.node, start.incarnation, start.path)
    view.take_over(turn.states, turn.removed)


def running(*ids: str, nodes: tuple[str, ...] = ("n1",), **flags: Any) -> LeaderView:
    view = LeaderView(nodes={name: node(name) for name in nodes})
    believe(view, take_turn(view, StartTree(path="desk", definition=definition(*ids, **flags)), 0))
    for id_ in ids:
        believe(view, take_turn(view, Started(path="desk", child=id_, incarnation=1), 0))
    return view


def gone(id_: str, incarnation: int = 1, **more: Any) -> Exited:
    return Exited(path="desk", child=id_, incarnation=incarnation, reason="signal:SIGKILL", **more)


def test_a_start_gets_a_node_in_the_same_turn() -> None:
    view = running("a", "b")

    turn = take_turn(view, gone("a"), 1000)

    assert [(placed.start.child, placed.start.incarnation, placed.node) for placed in turn.starts] == [
        ("a", 2, "n1")
    ]
    assert view.states["desk"].children["a"].incarnation == 1  # the view is left as it is


def test_starts_without_a_node_wait_in_the_same_turn_uncharged() -> None:
    view = LeaderView()

    turn = take_turn(view, StartTree(path="desk", definition=definition("a", "b")), 0)

    assert turn.starts == []
    children = turn.states["desk"].children
    assert {child.status for child in children.values()} == {"waiting"}
    assert turn.states["desk"].status == "running"
    assert turn.states["desk"].stamps == ()


def test_a_node_that_comes_is_given_what_waits() -> None:
    view = LeaderView()
    believe(view, take_turn(view, StartTree(path="desk", definition=definition("a", "b")), 0))
    view.nodes["n1"] = node("n1")

    turn = take_turn(view, NodeAvailable(), 0)

    assert [placed.start.child for placed in turn.starts] == ["a"]  # b after a has started: OTP's order


def test_the_load_of_the_life_that_ended_does_not_count() -> None:
    view = running("a", "b", "c", nodes=("n1", "n2"))
    assert view.load == {"n1": 2, "n2": 1}

    turn = take_turn(view, gone("a"), 0)

    assert [placed.node for placed in turn.starts] == ["n1"]  # one each without a


def test_a_stop_goes_to_the_node_of_the_life() -> None:
    view = running("a", "b", nodes=("n1", "n2"))

    turn = take_turn(view, TerminateChild(path="desk", child="b", request="r"), 0)

    assert [(stop.child, stop.incarnation, where) for stop, where in turn.stops] == [("b", 1, "n2")]
    assert turn.replies == []


def test_a_stop_for_a_life_whose_node_is_gone_is_answered_in_the_same_turn() -> None:
    view = running("a", "b", nodes=("n1", "n2"))
    view.drop_node("n2")

    turn = take_turn(view, TerminateChild(path="desk", child="b", request="r"), 0)

    assert turn.stops == []
    assert [reply.request for reply in turn.replies] == ["r"]
    assert turn.states["desk"].children["b"].status == "stopped"


def test_an_agent_set_aside_is_not_started_and_the_rest_is() -> None:
    view = running("a", "b", strategy="one_for_all")
    view.corrupt.add("b")
    turn = take_turn(view, gone("a"), 0)
    believe(view, turn)
    turn = take_turn(view, gone("b"), 0)
    believe(view, turn)

    turn = take_turn(view, Started(path="desk", child="a", incarnation=2), 0)

    assert turn.states["desk"].children["b"].status == "waiting"
    assert "wrong type" in turn.states["desk"].children["b"].reason


def test_a_supervisor_whose_decision_raises_ends_alone() -> None:
    view = running("a")
    view.states["desk"].plan = (["no such step"],)

    turn = take_turn(view, gone("a"), 0)

    assert [crash.path for crash in turn.crashes] == ["desk"]


def test_a_new_agent_goes_where_the_state_that_it_is_given_can_be_read() -> None:
    view = LeaderView(nodes={"old": node("old")}, schemas={"support": 2})

    turn = take_turn(view, StartTree(path="desk", definition=definition("a")), 0)

    assert turn.starts == []
    assert turn.states["desk"].children["a"].reason == (
        "waiting: no worker node can read schema 2 of agent type 'support'"
    )


def test_an_agent_that_is_left_for_a_signal_which_nobody_handles_is_told_to_keep_it() -> None:
    view = running("a")
    view.agents["a"].note_end("newer_code:ticket.split", 1)
    end = Exited(path="desk", child="a", incarnation=1, reason="newer_code:ticket.split", charged=False)

    turn = take_turn(view, end, 1000)

    assert [(placed.node, placed.keep) for placed in turn.starts] == [("n1", "ticket.split")]
    view.agents["a"].note_end("signal:SIGKILL", None)
    assert [placed.keep for placed in take_turn(view, gone("a"), 1000).starts] == [""]
