"""What a tree that is handed in comes to: what starts, what stops, what runs on, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow_supervisor.decide import decide
from regrow_supervisor.events import Batch, Started, StartTree
from regrow_supervisor.leader_view import AgentView, LeaderView
from regrow_supervisor.requests import BadRequest, TreeAsked
from regrow_supervisor.stored_tree import TreeChange, change_tree, digest_of
from regrow_supervisor.turn import take_turn

Json = dict[str, Any]


def agent(id_: str, type_: str = "support", **more: Any) -> Json:
    return {"id": id_, "start": {"type": type_}, "shutdown": 5000, **more}


def tree(*children: Json, **flags: Any) -> Json:
    return {
        "strategy": "one_for_one",
        "max_restarts": 3,
        "max_seconds": 5,
        "children": list(children),
        **flags,
    }


def branch(id_: str, *children: Json) -> Json:
    return {"id": id_, "start": {}, "supervisor": tree(*children)}


def ask(definition: Json, **more: Any) -> TreeAsked:
    return TreeAsked(name="desk", definition=definition, **more)


def running(definition: Json) -> LeaderView:
    """A view in which this tree has been started and every agent runs."""
    view = LeaderView()
    change = change_tree(view, ask(definition))
    assert isinstance(change.event, StartTree)
    events: list[Any] = [change.event]
    while events:
        decision = decide(view.states, events.pop(0), 0)
        view.states.update(decision.states)
        for order in decision.orders:
            view.agents[order.child] = AgentView(order.path, order.incarnation, "n1")
            events.append(Started(path=order.path, child=order.child, incarnation=order.incarnation))
    view.trees["desk"] = change.trees
    return view


def calls(change: TreeChange) -> list[tuple[str, str, str]]:
    if change.event is None:
        return []
    assert isinstance(change.event, Batch)
    found: list[tuple[str, str, str]] = []
    for event in change.event.events:
        child: Any = getattr(event, "child", "")
        id_ = child if isinstance(child, str) else str(child["id"])
        found.append((type(event).__name__, getattr(event, "path", ""), id_))
    return found


def test_a_tree_of_a_new_name_is_started() -> None:
    change = change_tree(LeaderView(), ask(tree(agent("a"), branch("b", agent("c")))))

    assert isinstance(change.event, StartTree)
    assert change.trees == (digest_of(tree(agent("a"), branch("b", agent("c")))),)
    assert "starts with 2 agents" in change.said[0]


def test_agents_of_before_keep_their_numbers() -> None:
    view = LeaderView(agents={"a": AgentView("elsewhere", incarnation=7)})

    change = change_tree(view, ask(tree(agent("a"))))

    assert isinstance(change.event, StartTree)
    assert change.event.incarnations == {"a": 7}


def test_the_tree_in_force_changes_nothing() -> None:
    view = running(tree(agent("a")))

    change = change_tree(view, ask(tree(agent("a"))))

    assert change.event is None
    assert change.adopted == {}
    assert "nothing to do" in change.said[0]


def test_new_children_start_and_removed_ones_stop_and_the_others_run_on() -> None:
    view = running(tree(agent("a"), agent("b")))

    change = change_tree(view, ask(tree(agent("b"), agent("c"))))

    assert calls(change) == [
        ("TerminateChild", "desk", "a"),
        ("DeleteChild", "desk", "a"),
        ("StartChild", "desk", "c"),
    ]
    assert change.said == ["removed desk/a: it is stopped, its state is kept", "added desk/c"]
    turn = take_turn(view, change.event, 0, adopted=change.adopted)
    assert turn.states["desk"].children["b"].incarnation == 1
    assert turn.states["desk"].children["b"].status == "running"


def test_a_restart_of_the_root_follows_the_new_tree() -> None:
    view = running(tree(agent("a"), agent("b")))

    change = change_tree(view, ask(tree(agent("b"), agent("c"))))

    children = change.adopted["desk"].definition["children"]
    assert [child["id"] for child in children] == ["b", "c"]


def test_a_replaced_tree_does_not_come_back() -> None:
    view = running(tree(agent("a")))
    change = change_tree(view, ask(tree(agent("a"), agent("b"))))
    view.trees["desk"] = change.trees

    older = change_tree(view, ask(tree(agent("a"))))

    assert older.event is None
    assert older.trees == change.trees
    assert "does not come back" in older.said[0]


def test_a_replaced_tree_comes_back_when_forced() -> None:
    view = running(tree(agent("a"), agent("b")))
    view.trees["desk"] = (digest_of(tree(agent("a"))), digest_of(tree(agent("a"), agent("b"))))

    change = change_tree(view, ask(tree(agent("a")), force=True))

    assert ("TerminateChild", "desk", "b") in calls(change)
    assert change.trees[-1] == digest_of(tree(agent("a")))


def test_branches_are_compared_down_to_the_last() -> None:
    view = running(tree(branch("b", agent("x"), branch("deep", agent("y"))), branch("old", agent("z"))))

    change = change_tree(view, ask(tree(branch("b", agent("x"), branch("deep", agent("y"), agent("w"))))))

    assert calls(change) == [
        ("TerminateChild", "desk", "old"),
        ("DeleteChild", "desk", "old"),
        ("StartChild", "desk/b/deep", "w"),
    ]
    assert set(change.adopted) == {"desk", "desk/b", "desk/b/deep"}


def test_a_changed_spec_is_kept_for_the_next_start() -> None:
    view = running(tree(agent("a")))

    change = change_tree(view, ask(tree(agent("a", restart="transient"))))

    assert change.event is None
    assert change.adopted["desk"].children["a"].restart == "transient"
    assert change.adopted["desk"].children["a"].status == "running"
    assert "counts from its next start" in change.said[0]


def test_children_started_at_run_time_are_left_alone() -> None:
    view = running(tree(agent("a")))
    state = view.states["desk"]
    state.children["guest"] = state.children["a"].but(id="guest", place=99)

    change = change_tree(view, ask(tree(agent("b"))))

    assert [call for call in calls(change) if call[2] == "guest"] == []


def renamed(id_: str, name: str, *aliases: str) -> Json:
    return {"id": id_, "start": {"type": name, "aliases": list(aliases)}, "shutdown": 5000}


def test_a_type_may_be_renamed_and_the_name_taken_back() -> None:
    view = running(tree(agent("a", "support")))

    forward = change_tree(view, ask(tree(renamed("a", "tickets", "support"))))

    assert forward.event is None
    assert forward.adopted["desk"].children["a"].spec["start"]["type"] == "tickets"
    view.states.update(forward.adopted)
    view.trees["desk"] = forward.trees
    back = change_tree(view, ask(tree(agent("a", "support")), force=True))
    assert back.adopted["desk"].children["a"].spec["start"]["type"] == "support"


UNWORKABLE: list[tuple[Any, str]] = [
    (tree(agent("a", "billing")), "type_changed"),
    (tree(renamed("a", "billing", "invoices")), "type_changed"),
    (tree({**agent("a"), "start": {"type": "support", "aliases": "old"}}), "bad_tree"),
    (tree(branch("b", agent("a"))), "agent_moved"),
    (tree(branch("a", agent("q"))), "type_changed"),
    (tree(agent("a"), branch("b", agent("a"))), "duplicate_agent"),
    (tree(agent("a"), agent("a")), "bad_tree"),
    (tree(agent("a", restart="sometimes")), "bad_tree"),
    (tree(agent("a"), strategy="all_for_one"), "bad_tree"),
    (tree(agent("a"), branch("b", agent("c", shutdown=-3))), "bad_tree"),
    ({"children": 7}, "bad_tree"),
    ({"children": [{"id": "a", "start": {}, "supervisor": 3}]}, "bad_tree"),
]


@pytest.mark.parametrize(("definition", "code"), UNWORKABLE)
def test_a_tree_that_cannot_work_is_refused_whole(definition: Json, code: str) -> None:
    view = running(tree(agent("a")))
    before = dict(view.states)

    with pytest.raises(BadRequest) as refused:
        change_tree(view, ask(definition))

    assert refused.value.code == code
    assert view.states == before


def test_an_unreadable_root_is_left_untouched() -> None:
    view = LeaderView(unreadable={"desk": "junk"})

    with pytest.raises(BadRequest, match="cannot be read: junk"):
        change_tree(view, ask(tree(agent("a"))))


def test_equal_trees_have_one_digest() -> None:
    shuffled = json.loads(json.dumps(tree(agent("a")), sort_keys=True))

    assert digest_of(shuffled) == digest_of(tree(agent("a")))
    assert digest_of(tree(agent("b"))) != digest_of(tree(agent("a")))
