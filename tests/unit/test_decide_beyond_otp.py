"""Where agents on nodes need more than OTP says: uncharged ends, waiting, holds, pauses, parking, backoff, crashes."""

from __future__ import annotations

from typing import Any

import pytest

from regrow_supervisor import events as ev
from regrow_supervisor.decide import decide, decide_safely
from regrow_supervisor.inbox import next_due
from regrow_supervisor.orders import Kill, Reply, Start, Stop
from regrow_supervisor.states import ChildState, SupervisorState

PARK = {"max_restarts": 1, "max_seconds": 5, "on_exceeded": "park"}


def worker(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "start": {"type": "t"}, **fields}


class Tree:
    """A tree under test: feeds events, remembers what came out, answers as nodes would."""

    def __init__(self, children: list[dict[str, Any]], **flags: Any) -> None:
        self.states: dict[str, SupervisorState] = {}
        self.now_ms = 1_000_000
        self.replies: list[Reply] = []
        self.contexts: list[str] = []
        self.orders: list[Start | Stop | Kill] = []
        definition = {"max_restarts": 1, "max_seconds": 5, **flags, "children": children}
        self.feed(ev.StartTree(path="root", definition=definition, request="start"))
        self.obey()

    def feed(self, event: ev.Event) -> None:
        decision = decide(self.states, event, self.now_ms)
        self.states.update(decision.states)
        self.orders += decision.orders
        self.replies += decision.replies
        self.contexts += [report.context for report in decision.reports]

    def obey(self, **how: type[ev.Unplaced] | type[ev.Declined]) -> list[str]:
        """Carry out all orders; ``how`` names children whose start does not just succeed."""
        done: list[str] = []
        while self.orders:
            done += self.obey_one(**how)
        return done

    def obey_one(self, **how: type[ev.Unplaced] | type[ev.Declined]) -> list[str]:
        order = self.orders.pop(0)
        who: dict[str, Any] = {"path": order.path, "child": order.child, "incarnation": order.incarnation}
        if isinstance(order, Stop):
            self.feed(ev.Exited(**who, reason="shutdown"))
        elif isinstance(order, Start):
            self.feed(how.get(order.child, ev.Started)(**who))
        return [f"{type(order).__name__.lower()} {order.child}"]

    def exit(
        self, name: str, reason: str = "crash", *, charged: bool = True, path: str = "root"
    ) -> list[str]:
        number = self.child(name, path).incarnation
        self.feed(ev.Exited(path=path, child=name, incarnation=number, reason=reason, charged=charged))
        return self.obey()

    def child(self, name: str, path: str = "root") -> ChildState:
        return self.states[path].children[name]

    def status(self, name: str) -> str:
        return self.child(name).status


def test_an_uncharged_end_is_restarted_and_not_counted() -> None:
    tree = Tree([worker("a"), worker("b")], strategy="one_for_all", max_restarts=0)

    done = tree.exit("a", "node_lost", charged=False)

    assert done == ["stop b", "start a", "start b"]
    assert tree.states["root"].stamps == ()


def test_a_start_lost_with_its_node_is_ordered_again_with_a_new_number() -> None:
    tree = Tree([worker("a")], max_restarts=1)
    tree.feed(ev.Exited(path="root", child="a", incarnation=1, reason="crash"))

    tree.orders.clear()
    tree.feed(ev.Exited(path="root", child="a", incarnation=2, reason="node_lost", charged=False))

    assert [(order.child, order.incarnation) for order in tree.orders] == [("a", 3)]
    assert len(tree.states["root"].stamps) == 1


def test_a_death_before_ready_is_a_failed_start() -> None:
    tree = Tree([worker("a")], max_restarts=2)
    tree.feed(ev.Exited(path="root", child="a", incarnation=1, reason="crash"))
    tree.orders.clear()

    tree.feed(ev.Exited(path="root", child="a", incarnation=2, reason="exit:1"))

    assert "start_error" in tree.contexts
    assert tree.obey() == ["start a"]
    assert len(tree.states["root"].stamps) == 2


def test_an_end_of_no_current_life_is_ignored() -> None:
    tree = Tree([worker("a")])

    tree.feed(ev.Exited(path="root", child="a", incarnation=7, reason="crash"))
    tree.feed(ev.Started(path="root", child="a", incarnation=1))
    tree.feed(ev.Exited(path="nowhere", child="a", incarnation=1, reason="crash"))

    assert tree.orders == []
    assert tree.child("a").incarnation == 1


def test_a_child_that_no_node_takes_waits_uncharged_and_starts_when_one_comes() -> None:
    tree = Tree([worker("a"), worker("b")], max_restarts=0)
    tree.feed(ev.Exited(path="root", child="a", incarnation=1, reason="drained", charged=False))
    tree.obey(a=ev.Unplaced)
    assert (tree.status("a"), tree.status("b")) == ("waiting", "running")

    tree.feed(ev.NodeAvailable())

    assert tree.obey() == ["start a"]
    assert tree.status("a") == "running"


def test_a_tree_starts_with_children_that_must_wait() -> None:
    tree = Tree([], max_restarts=0)
    tree.states.clear()
    definition = {"children": [worker("a"), worker("t", restart="temporary"), worker("b")]}
    tree.feed(ev.StartTree(path="root", definition=definition, request="again"))

    tree.obey(a=ev.Unplaced, t=ev.Unplaced)

    assert tree.states["root"].status == "running"
    tree.feed(ev.NodeAvailable())
    assert tree.obey() == ["start a", "start t"]


def test_a_held_child_is_stopped_and_no_group_restart_brings_it_back() -> None:
    tree = Tree([worker("a"), worker("b")], strategy="one_for_all")
    tree.feed(ev.Hold(path="root", child="b", request="hold"))
    assert tree.obey() == ["stop b"]
    assert [reply.request for reply in tree.replies if reply.ok] == ["start", "hold"]

    assert tree.exit("a") == ["start a"]
    assert (tree.status("b"), tree.child("b").held) == ("stopped", True)

    tree.feed(ev.Unhold(path="root", child="b", request="unhold"))
    assert tree.obey() == ["start b"]


def test_a_hold_survives_the_restart_of_its_supervisor() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a"), worker("b")]}}
    tree = Tree([nested])
    tree.feed(ev.Hold(path="root/s", child="a", request="hold"))
    tree.obey()

    tree.feed(ev.KillSupervisor(path="root/s"))

    assert [done for done in tree.obey() if done.startswith("start")] == ["start b"]
    assert tree.child("a", "root/s").held
    assert tree.child("b", "root/s").incarnation == 2


def test_a_temporary_child_on_hold_is_not_forgotten() -> None:
    tree = Tree([worker("a", restart="temporary")])
    tree.feed(ev.Hold(path="root", child="a", request="hold"))
    tree.obey()

    tree.feed(ev.Unhold(path="root", child="a", request="unhold"))

    assert tree.obey() == ["start a"]


def test_a_branch_is_held_by_its_own_path() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested, worker("z")], strategy="one_for_all")

    tree.feed(ev.Hold(path="root/s", request="hold"))
    assert tree.obey() == ["stop a"]
    assert tree.exit("z") == ["start z"]

    tree.feed(ev.Unhold(path="root/s", request="unhold"))
    assert tree.obey() == ["start a"]
    assert tree.states["root/s"].status == "running"


def test_a_held_root_stays_down_until_it_is_released() -> None:
    tree = Tree([worker("a")])
    tree.feed(ev.Hold(path="root", request="hold"))
    assert tree.obey() == ["stop a"]

    tree.feed(ev.StartTree(path="root", request="start again"))
    assert tree.orders == []

    tree.feed(ev.Unhold(path="root", request="unhold"))
    assert tree.obey() == ["start a"]


def test_the_root_pauses_instead_of_giving_up_and_each_pause_is_longer() -> None:
    tree = Tree([worker("a"), worker("b")], max_restarts=0, pause={"first_ms": 1000, "longest_ms": 3000})
    lengths: list[int] = []
    for _ in range(4):
        assert tree.exit("a") == ["stop b"]
        assert tree.states["root"].status == "paused"
        due = next_due(tree.states)
        assert due is not None
        lengths.append(due - tree.now_ms)
        tree.feed(ev.Tick())
        assert tree.orders == [], "not before it is due"
        tree.now_ms = due
        tree.feed(ev.Tick())
        assert tree.obey() == ["start a", "start b"]
    assert lengths == [1000, 2000, 3000, 3000]

    tree.now_ms += 3000
    tree.exit("a")
    due = next_due(tree.states)
    assert due is not None
    assert due - tree.now_ms == 1000, "it lived a while: forgiven"


def test_calls_to_a_pausing_root_find_nobody() -> None:
    tree = Tree([worker("a")], max_restarts=0, pause={})
    tree.exit("a")

    tree.feed(ev.WhichChildren(path="root", request="which"))

    assert tree.replies[-1].error == "noproc"


def test_reviving_the_root_ends_its_pause() -> None:
    tree = Tree([worker("a")], max_restarts=0, pause={})
    tree.exit("a")

    tree.feed(ev.Revive(path="root", request="revive"))

    assert tree.obey() == ["start a"]
    assert tree.states["root"].pauses == 0


def test_an_orderly_stop_is_not_followed_by_a_pause() -> None:
    tree = Tree([worker("a")], max_restarts=0, pause={})

    tree.feed(ev.StopTree(path="root", request="stop"))
    tree.obey()

    assert tree.states["root"].status == "exited"
    assert next_due(tree.states) is None


def test_a_child_counted_by_itself_is_parked_and_disturbs_nobody() -> None:
    tree = Tree([worker("a", limit=PARK), worker("b")], strategy="one_for_all", max_restarts=0)
    assert tree.exit("a") == ["stop b", "start a", "start b"]

    assert tree.exit("a") == []

    assert (tree.status("a"), tree.status("b")) == ("parked", "running")
    assert tree.states["root"].stamps == ()


def test_a_parked_child_sits_out_group_restarts_until_it_is_revived_with_a_fresh_budget() -> None:
    tree = Tree([worker("a", limit=PARK), worker("b")], strategy="one_for_all", max_restarts=3)
    tree.exit("a")
    tree.exit("a")

    assert tree.exit("b") == ["start b"]
    tree.feed(ev.Revive(path="root", child="a", request="revive"))

    assert tree.obey() == ["start a"]
    assert tree.child("a").stamps == ()
    assert tree.exit("a") == ["stop b", "start a", "start b"]


UNREADABLE = "unreadable_state:no step"


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", "dynamic"])
def test_a_child_whose_state_cannot_be_read_is_parked_alone_and_uncharged(
    strategy: str, restart: str
) -> None:
    given = [worker("a", restart=restart), worker("b")]
    tree = Tree([] if strategy == "dynamic" else given, strategy=strategy, max_restarts=0)
    for child in given if strategy == "dynamic" else ():
        tree.feed(ev.StartChild(path="root", child=child))
        tree.obey()

    assert tree.exit("a", UNREADABLE, charged=False) == []

    assert (tree.status("a"), tree.status("b")) == ("parked", "running")
    assert (tree.child("a").reason, tree.states["root"].stamps) == (UNREADABLE, ())
    assert tree.contexts[-1] == "parked"
    tree.feed(ev.Revive(path="root", child="a", request="revive"))
    assert tree.obey() == ["start a"]


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", "dynamic"])
def test_a_child_whose_reading_took_too_long_starts_again_alone_and_uncharged_until_it_is_unreadable(
    strategy: str, restart: str
) -> None:
    given = [worker("a", restart=restart), worker("b")]
    tree = Tree([] if strategy == "dynamic" else given, strategy=strategy, max_restarts=0)
    for child in given if strategy == "dynamic" else ():
        tree.feed(ev.StartChild(path="root", child=child))
        tree.obey()

    assert tree.exit("a", "deadline:reading version 1 at 7-0", charged=False) == ["start a"]

    assert (tree.status("a"), tree.states["root"].stamps) == ("running", ())
    assert tree.exit("a", UNREADABLE, charged=False) == []
    assert (tree.status("a"), tree.status("b")) == ("parked", "running")


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one", "dynamic"])
def test_a_child_that_is_left_to_newer_code_moves_alone_and_uncharged(strategy: str, restart: str) -> None:
    given = [worker("a", restart=restart), worker("b")]
    tree = Tree([] if strategy == "dynamic" else given, strategy=strategy, max_restarts=0)
    for child in given if strategy == "dynamic" else ():
        tree.feed(ev.StartChild(path="root", child=child))
        tree.obey()

    assert tree.exit("a", "newer_code:ticket.split", charged=False) == ["start a"]

    assert (tree.status("a"), tree.states["root"].stamps) == ("running", ())


def test_a_child_that_is_left_to_newer_code_before_it_was_ready_starts_again() -> None:
    tree = Tree([])
    tree.feed(ev.StartChild(path="root", child=worker("a"), request="start"))
    tree.orders.clear()

    assert tree.exit("a", "newer_code", charged=False) == ["start a"]

    assert tree.child("a").incarnation == 2


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_a_child_that_cannot_be_read_at_its_start_is_parked_and_those_behind_it_start(strategy: str) -> None:
    tree = Tree([worker("a")], strategy=strategy, max_restarts=0)
    definition = {**tree.states["root"].definition, "children": [worker("a"), worker("b")]}
    tree.feed(ev.StopTree(path="root"))
    tree.obey()

    tree.feed(ev.StartTree(path="root", definition=definition, request="start"))
    start = tree.orders.pop(0)
    assert isinstance(start, Start)
    tree.feed(
        ev.Exited(path="root", child="a", incarnation=start.incarnation, reason=UNREADABLE, charged=False)
    )

    assert tree.obey() == ["start b"]
    assert (tree.status("a"), tree.status("b"), tree.states["root"].status) == (
        "parked",
        "running",
        "running",
    )


def test_a_stop_that_an_agent_returns_with_these_words_is_its_own_end() -> None:
    tree = Tree([worker("a")])

    assert tree.exit("a", UNREADABLE, charged=True) == ["start a"]


def test_a_child_parked_after_failed_starts_leaves_its_group_running() -> None:
    tree = Tree([worker("a"), worker("k", limit=PARK), worker("z")], strategy="one_for_all", max_restarts=9)
    tree.feed(ev.Exited(path="root", child="a", incarnation=1, reason="crash"))

    while tree.orders:
        order = tree.orders[0]
        if order.child == "k" and isinstance(order, Start):
            tree.orders.pop(0)
            tree.feed(ev.StartFailed(path="root", child="k", incarnation=order.incarnation, reason="boom"))
        else:
            tree.obey_one()

    assert (tree.status("a"), tree.status("k"), tree.status("z")) == ("running", "parked", "running")
    assert tree.states["root"].plan == ()


def test_holding_a_child_that_waits_for_its_retry_lets_its_group_go_on() -> None:
    backoff = {"first_ms": 1000, "factor": 2, "longest_ms": 4000}
    tree = Tree([worker("a", backoff=backoff), worker("b")], strategy="rest_for_one")
    assert tree.exit("a") == ["stop b"]

    tree.feed(ev.Hold(path="root", child="a", request="hold"))

    assert tree.obey() == ["start b"]
    assert (tree.status("a"), next_due(tree.states)) == ("stopped", None)


def test_a_limit_that_escalates_ends_the_supervisor() -> None:
    tree = Tree([worker("a", limit={**PARK, "on_exceeded": "escalate"}), worker("b")], max_restarts=9)
    tree.exit("a")

    assert tree.exit("a") == ["stop b"]
    assert tree.states["root"].status == "exited"


def test_children_of_a_dynamic_supervisor_with_a_limit_are_counted_one_by_one() -> None:
    tree = Tree([], strategy="dynamic", limit=PARK, max_restarts=0)
    for name in ("x", "y"):
        tree.feed(ev.StartChild(path="root", child=worker(name), request=name))
    tree.obey()

    assert [tree.exit("x"), tree.exit("y"), tree.exit("x")] == [["start x"], ["start y"], []]
    assert (tree.status("x"), tree.status("y")) == ("parked", "running")


def test_children_added_at_run_time_come_back_with_a_supervisor_that_keeps_them() -> None:
    chats: dict[str, Any] = {"strategy": "dynamic", "keep": True, "children": []}
    tree = Tree([{"id": "chats", "start": {}, "supervisor": chats}])
    tree.feed(ev.StartChild(path="root/chats", child=worker("x", incarnation=4), request="x"))
    tree.feed(ev.StartChild(path="root/chats", child=worker("t", restart="temporary"), request="t"))
    tree.obey()
    assert tree.child("x", "root/chats").incarnation == 5

    tree.feed(ev.KillSupervisor(path="root/chats"))

    assert tree.obey() == ["kill x", "kill t", "start x"]
    assert tree.child("x", "root/chats").incarnation == 6


def test_a_restart_waits_for_its_backoff_with_its_group_stopped() -> None:
    backoff = {"first_ms": 1000, "factor": 2, "longest_ms": 8000}
    tree = Tree([worker("a", backoff=backoff), worker("b")], strategy="rest_for_one", max_restarts=9)

    assert tree.exit("a") == ["stop b"]

    assert (tree.status("a"), tree.status("b")) == ("restarting", "stopped")
    due = next_due(tree.states)
    assert due is not None
    assert 500 <= due - tree.now_ms <= 1000
    tree.now_ms = due
    tree.feed(ev.Tick())
    assert tree.obey() == ["start a", "start b"]
    assert len(tree.states["root"].stamps) == 1, "the crash is counted, the wait is not"


def test_backoff_grows_with_each_failure_and_is_forgiven_after_a_while() -> None:
    backoff = {"first_ms": 1000, "factor": 2, "longest_ms": 4000}
    tree = Tree([worker("a", backoff=backoff)], max_restarts=99, max_seconds=1)
    waits: list[int] = []
    for pause in (0, 0, 0, 0, 4000):
        tree.now_ms += pause
        tree.exit("a")
        due = next_due(tree.states)
        assert due is not None
        waits.append(due - tree.now_ms)
        tree.now_ms = due
        tree.feed(ev.Tick())
        tree.obey()

    ceilings = (1000, 2000, 4000, 4000, 1000)
    assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True)), waits


def test_terminating_a_child_in_its_backoff_cancels_the_restart() -> None:
    tree = Tree([worker("a", backoff={"first_ms": 1000, "factor": 2, "longest_ms": 4000})])
    tree.exit("a")

    tree.feed(ev.TerminateChild(path="root", child="a", request="stop"))

    assert next_due(tree.states) is None
    assert tree.status("a") == "stopped"


def test_a_nested_supervisor_over_its_shutdown_time_is_killed() -> None:
    nested = {"id": "s", "start": {}, "shutdown": 500, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested])
    tree.feed(ev.TerminateChild(path="root", child="s", request="stop"))
    assert next_due(tree.states) == tree.now_ms + 500

    tree.now_ms += 500
    tree.feed(ev.Tick())

    assert [type(order).__name__ for order in tree.orders] == ["Stop", "Kill"]
    assert tree.replies[-1] == Reply(request="stop")
    assert tree.states["root/s"].reason == "killed"


def test_a_supervisor_whose_decision_raises_ends_alone_and_its_branch_is_restarted() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested, worker("z")])
    tree.states["root/s"].plan = (["no such step"],)

    event = ev.Exited(path="root/s", child="a", incarnation=1, reason="crash")
    decision, crash = decide_safely(tree.states, event, tree.now_ms)

    assert crash is not None
    assert crash.path == "root/s"
    assert [(type(order), order.child) for order in decision.orders] == [(Kill, "a"), (Start, "a")]
    assert decision.states["root"].children["z"] == tree.child("z")
    assert decision.states["root"].stamps != ()


def test_a_crash_on_one_of_several_events_costs_the_others_nothing() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested, worker("z")], max_restarts=9)
    tree.states["root/s"].plan = (["no such step"],)
    lost = ev.Batch(
        events=(
            ev.Exited(path="root/s", child="a", incarnation=1, reason="node_lost", charged=False),
            ev.Exited(path="root", child="z", incarnation=1, reason="node_lost", charged=False),
        )
    )

    decision, crash = decide_safely(tree.states, lost, tree.now_ms)

    assert crash is not None
    tree.states.update(decision.states)
    tree.orders += decision.orders
    assert sorted(tree.obey()) == ["kill a", "start a", "start z"]
    assert (tree.child("a", "root/s").incarnation, tree.child("z").incarnation) == (2, 2)


def test_a_branch_whose_record_cannot_be_read_is_restarted_from_its_parents_record() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested, worker("z")])
    del tree.states["root/s"]

    tree.feed(ev.KillSupervisor(path="root/s", reason="corrupt", incarnations={"a": 5}))

    assert [(type(order), order.child, order.incarnation) for order in tree.orders] == [
        (Kill, "a", 5),
        (Start, "a", 6),
    ]
    tree.obey()
    assert tree.states["root/s"].status == "running"


def test_numbers_go_on_after_a_temporary_child_was_forgotten_and_comes_back_with_its_supervisor() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a", restart="temporary")]}}
    tree = Tree([nested])
    tree.exit("a", path="root/s")
    assert tree.states["root/s"].children == {}

    tree.feed(ev.KillSupervisor(path="root/s"))
    tree.obey()

    assert tree.child("a", "root/s").incarnation == 2


def test_a_branch_deleted_and_added_in_one_step_builds_on_the_stored_version() -> None:
    nested: dict[str, Any] = {"id": "s", "start": {}, "supervisor": {"children": []}}
    tree = Tree([nested])
    tree.states["root/s"].version = 7
    calls = (
        ev.TerminateChild(path="root", child="s"),
        ev.DeleteChild(path="root", child="s"),
        ev.StartChild(path="root", child=nested),
    )

    decision = decide(tree.states, ev.Batch(events=calls), tree.now_ms)

    assert decision.removed == ()
    assert decision.states["root/s"].version == 7
    assert decision.states["root/s"].status == "running"


def test_many_nodes_that_join_while_a_supervisor_is_busy_wake_it_once() -> None:
    tree = Tree([worker("a"), worker("b")])
    tree.feed(ev.Exited(path="root", child="a", incarnation=1, reason="drained", charged=False))
    tree.obey(a=ev.Unplaced)
    tree.feed(ev.TerminateChild(path="root", child="b", request="stop"))

    for _ in range(5):
        tree.feed(ev.NodeAvailable())

    assert len(tree.states["root"].queue) == 1


def test_numbers_of_agents_registered_before_are_the_base() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    definition = {"children": [nested, worker("z")]}

    decision = decide({}, ev.StartTree(path="r", definition=definition, incarnations={"a": 8, "z": 2}), 0)

    assert [(order.child, order.incarnation) for order in decision.orders] == [("a", 9)]


@pytest.mark.parametrize("path", ["root", "nowhere", "root/nowhere"])
def test_killing_what_does_not_run_answers_noproc(path: str) -> None:
    tree = Tree([worker("a")])
    tree.feed(ev.StopTree(path="root"))
    tree.obey()

    tree.feed(ev.KillSupervisor(path=path, request="kill"))

    assert tree.replies[-1].error == "noproc"


def test_a_supervisor_too_broken_even_to_be_ended_is_restarted_by_its_parent() -> None:
    nested = {"id": "s", "start": {}, "supervisor": {"children": [worker("a")]}}
    tree = Tree([nested, worker("z")])
    broken = tree.states["root/s"]
    broken.queue[1] = ["no such message"]
    broken.definition = {"pause": {}}
    broken.children["a"] = ChildState(id="a", spec={}, place=0, status="running", incarnation=3)
    broken.children["b"] = ChildState(id="b", spec={"supervisor": {}}, place="x", status="running")  # type: ignore[arg-type]
    broken.queue[2] = ["exit"]

    decision, crash = decide_safely(
        tree.states, ev.Exited(path="root/s", child="a", incarnation=3, reason="crash"), 1
    )

    assert crash is not None
    assert [(type(order).__name__, order.child, order.incarnation) for order in decision.orders] == [
        ("Kill", "a", 3),
        ("Start", "a", 4),
    ]
