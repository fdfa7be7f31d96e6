"""The watchdog against a real Redis. Nodes live in the test: they join, beat, claim and report by the scripts."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from regrow_signals import agents, leadership, nodes, views
from regrow_signals.agents import Owner
from regrow_signals.calls import Call, Command
from regrow_signals.connection import Connection
from regrow_signals.errors import Conflict, FateUnknown, NotLeader, WrongServer
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys
from regrow_signals.leadership import DecisionCommit
from regrow_signals.limits import Limits
from regrow_supervisor.reign import Reign
from regrow_supervisor.spec import Pause, Supervisor, child_definition
from regrow_supervisor.watchdog import Watchdog, WatchdogSettings
from regrow_workers.agent import Agent
from regrow_workers.application import Application, types_by_name
from regrow_workers.state import State
from tests.conftest import PrivateServer, wait_until

LIMITS = Limits()
KEYS = Keys("regrow")


class Desk(State):
    open: int = 0


class Support(Agent[Desk], name="support"):
    pass


class Billing(Agent[Desk], name="billing"):
    pass


class Clock:
    """A monotonic clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SimulatedNode:
    """What a node does with Redis, one step at a time, told by the test."""

    def __init__(
        self, url: str, name: str, *, types: tuple[str, ...] = ("support", "billing"), **labels: str
    ) -> None:
        self.connection = Connection.open(url)
        self.name = name
        self.cursor = "0"
        self.orders: list[dict[str, str]] = []
        self.running: dict[str, Owner] = {}
        about: dict[str, dict[str, str | int]] = {type_: {"code": "c", "schema": 1} for type_ in types}
        self.connection.call(
            nodes.join(
                KEYS, name, kind="worker", host="h", pid=os.getpid(), labels=labels, types=about, version="0"
            )
        )

    def read(self) -> list[dict[str, str]]:
        """New orders."""
        found = self.connection.read_stream(KEYS.control(self.name), self.cursor, count=1000)
        fresh = [{name: str(value) for name, value in fields.items()} for _, fields in found]
        if found:
            self.cursor = found[-1][0]
        self.orders += fresh
        return fresh

    def obey(self) -> list[dict[str, str]]:
        """Carry out new orders: claim what is to start, end what is to stop."""
        fresh = self.read()
        for order in fresh:
            agent, number = order["agent"], int(order["incarnation"])
            if order["order"] == "start":
                owner = Owner(agent, number, new_id(), self.name)
                self.connection.call(agents.claim(KEYS, LIMITS, owner, pid=os.getpid()))
                self.running[agent] = owner
            elif agent in self.running and self.running[agent].incarnation == number:
                self.end(agent, "shutdown" if order["order"] == "stop" else "operator", charged=False)
        return fresh

    def end(self, agent: str, reason: str, *, charged: bool = True) -> str:
        """The worker of this agent ended; the node reports it."""
        owner = self.running.pop(agent)
        report = nodes.ExitReport(self.name, agent, owner.incarnation, reason, "none", charged)
        return self.connection.call(nodes.report_exit(KEYS, report))

    def beat(self) -> nodes.BeatReply:
        lives = [(owner.agent, owner.incarnation) for owner in self.running.values()]
        return self.connection.call(nodes.beat(KEYS, self.name, lives, load=len(lives)))

    def say(self, event: Any) -> None:
        self.connection.call(nodes.node_event(KEYS, self.name, event))


class World:
    """A server, watchdogs, nodes, and what can be seen of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.look = Connection.open(url)
        self.clock = Clock()
        self.said: list[str] = []
        self.opened: list[Connection] = []
        self.reloads = 0

    def watchdog(
        self, tree: Supervisor | None = None, *, clock: Callable[[], float] | None = None, **settings: Any
    ) -> Watchdog:
        connection = Connection.open(self.url, name="regrow:watchdog", timeout=2)
        self.opened.append(connection)
        return Watchdog(
            connection,
            KEYS,
            settings=WatchdogSettings(**settings),
            application=None if tree is None else application(tree),
            say=self.said.append,
            clock=clock or self.clock,
        )

    def node(self, name: str, **more: Any) -> SimulatedNode:
        node = SimulatedNode(self.url, name, **more)
        self.opened.append(node.connection)
        return node

    def settle(self, watchdog: Watchdog, *given: SimulatedNode) -> None:
        """Until nobody has anything to do."""
        quiet = 0
        while quiet < 2:
            counts = watchdog.run_once()
            self.reloads += counts["reloads"]
            obeyed = [order for node in given for order in node.obey()]
            quiet = 0 if counts["entries"] or counts["commits"] or obeyed else quiet + 1

    def pass_time(self, watchdog: Watchdog, seconds: float, *beating: SimulatedNode) -> None:
        """Move the watchdog's clock in steps of a poll; ``beating`` nodes beat at each."""
        step = watchdog.settings.poll_ms / 1000
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += step
            for node in beating:
                node.beat()
            watchdog.run_once()

    def agent(self, agent: str) -> dict[str, str]:
        return self.look.command(views.agent_record(KEYS, agent))

    def record(self, path: str) -> dict[str, str]:
        return self.look.command(views.supervisor_record(KEYS, path))

    def counters(self) -> dict[str, int]:
        return self.look.command(views.counters(KEYS))

    def events(self, name: str) -> list[dict[str, str]]:
        entries = self.look.command(views.events(KEYS, count=10_000))
        return [fields for _, fields in entries if fields["event"] == name]

    def waiting(self) -> int:
        return self.look.command(Command(("XLEN", KEYS.exits), int))

    def ask(self, op: str, **fields: str) -> str:
        request = new_id()
        self.look.call(leadership.request(KEYS, request, op, fields))
        return request

    def answer(self, request: str) -> Any:
        text = self.look.command(Command(("LPOP", KEYS.reply(request)), str))
        return json.loads(text)

    def raw(self, *words: str | bytes | int) -> Any:
        return self.look.command(Command(words, lambda reply: reply))


def application(tree: Supervisor) -> Application:
    kinds = types_by_name(tree.agent_types().values())
    return Application(name="test:tree", tree=tree, agent_types=kinds, effects={}, on_worker_start=())


@pytest.fixture
def world(redis_url: str) -> Iterator[World]:
    world = World(redis_url)
    yield world
    assert world.reloads == 0, "a conflict without a cause"
    for connection in (world.look, *world.opened):
        connection.close()


def desk(**flags: Any) -> Supervisor:
    return Supervisor("desk", [Support.child("support"), Billing.child("billing")], **flags)


def test_a_tree_is_started_and_said(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())

    world.settle(watchdog, node)

    assert world.agent("support")["status"] == "running"
    assert world.agent("support")["incarnation"] == "1"
    assert world.agent("support")["state"] == '{"open":0}'
    assert world.agent("support")["supervisor"] == "desk"
    assert world.record("desk")["status"] == "running"
    assert any("starts with 2 agents" in line for line in world.said)
    assert world.waiting() == 0


def test_a_death_is_one_restart_and_the_neighbour_is_not_touched(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    before = world.agent("billing")

    node.end("support", "signal:SIGKILL")
    world.settle(watchdog, node)

    assert world.agent("support")["incarnation"] == "2"
    assert world.agent("support")["restarts"] == "1"
    assert world.agent("support")["status"] == "running"
    assert world.agent("billing") == before
    assert world.counters()["restarts_total|supervisor=desk|reason=signal"] == 1
    assert [event["agent"] for event in world.events("child_terminated")] == ["support"]


def test_the_start_order_says_what_node_and_worker_need(world: World) -> None:
    node = world.node("n1")
    tree = Supervisor("desk", [Support.child("support", deadline=2.5, max_attempts=4, init={"open": 7})])

    world.settle(world.watchdog(tree), node)

    order = node.orders[0]
    assert (order["order"], order["agent"], order["incarnation"]) == ("start", "support", "1")
    assert (order["type"], order["supervisor"]) == ("support", "desk")
    assert (order["deadline_ms"], order["max_attempts"]) == ("2500", "4")
    assert not {"shutdown_ms", "max_mailbox", "max_kills"} & order.keys(), "left out: the settings'"
    assert world.agent("support")["state"] == '{"open":7}'


def test_without_a_node_agents_are_registered_and_wait(world: World) -> None:
    watchdog = world.watchdog(desk())
    world.settle(watchdog)
    assert world.agent("support")["status"] == "waiting"
    assert world.agent("billing")["type"] == "billing"

    node = world.node("n1")
    world.settle(watchdog, node)

    assert world.agent("support")["status"] == "running"
    assert world.agent("billing")["status"] == "running"
    assert world.counters().get("restarts_total|supervisor=desk|reason=other", 0) == 0


def test_starts_are_spread_over_the_nodes(world: World) -> None:
    one, two, watchdog = world.node("n1"), world.node("n2"), world.watchdog(desk())

    world.settle(watchdog, one, two)

    assert len(one.running) == len(two.running) == 1


def test_labels_choose_the_node(world: World) -> None:
    plain, gpu = world.node("a"), world.node("b", gpu="a100")
    tree = Supervisor("desk", [Support.child(f"s{i}", labels={"gpu": "a100"}) for i in range(3)])

    world.settle(world.watchdog(tree), plain, gpu)

    assert len(gpu.running) == 3
    assert plain.running == {}


def test_fifty_deaths_at_once_are_fifty_restarts(world: World) -> None:
    node = world.node("n1")
    tree = Supervisor("desk", [Support.child(f"s{i}") for i in range(50)], max_restarts=100, max_seconds=600)
    watchdog = world.watchdog(tree)
    world.settle(watchdog, node)

    for i in range(50):
        node.end(f"s{i}", "signal:SIGKILL")
    world.settle(watchdog, node)

    assert len(node.running) == 50
    assert {world.agent(f"s{i}")["incarnation"] for i in range(50)} == {"2"}
    assert world.counters()["restarts_total|supervisor=desk|reason=signal"] == 50


def test_a_lost_node_moves_its_agents_uncharged(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk(max_restarts=0))
    world.settle(watchdog, one, two)
    lost, left = one, two

    world.pass_time(watchdog, 2.9, left)
    assert len(lost.running) == 1
    world.pass_time(watchdog, 1.0, left)
    world.settle(watchdog, left)

    assert sorted(left.running) == ["billing", "support"]
    assert world.record("desk")["status"] == "running"
    assert [event["node"] for event in world.events("node_lost")] == ["n1"]
    assert not lost.beat().known
    moved = next(iter(lost.running))
    assert [event["agent"] for event in world.events("exited") if event["reason"] == "node_lost"] == [moved]
    assert world.counters()["exits_total|reason=node_lost"] == 1


def test_all_nodes_silent_at_once_get_one_timeout_more(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)

    world.pass_time(watchdog, 5.5)
    assert world.events("node_lost") == []
    world.pass_time(watchdog, 1.5)

    assert [event["node"] for event in world.events("node_lost")] == ["n1"]
    assert world.agent("support")["status"] == "waiting"


def test_a_node_that_is_frozen_for_less_than_the_timeout_loses_nothing(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)
    for _ in range(3):
        world.pass_time(watchdog, 2.5, two)
        one.beat()

    assert world.events("node_lost") == []
    assert len(one.running) == 1


def test_a_watchdog_that_was_stopped_declares_nobody_lost(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)

    world.clock.now += 2.8  # one long interval, within the lease
    watchdog.run_once()
    world.pass_time(watchdog, 1.5)

    assert world.events("node_lost") == []


def test_a_running_agent_that_does_not_beat_is_lost_uncharged(world: World) -> None:
    """Redis went back in time: nobody will ever report this end."""
    node = world.node("n1")
    watchdog = world.watchdog(desk(max_restarts=0))
    world.settle(watchdog, node)
    forgotten = node.running.pop("support")

    world.pass_time(watchdog, 5.9, node)
    assert world.agent("support")["incarnation"] == "1"
    world.pass_time(watchdog, 2.0, node)
    world.settle(watchdog, node)

    assert world.agent("support")["incarnation"] == "2"
    assert world.agent("support")["status"] == "running"
    assert world.agent("billing")["incarnation"] == "1"
    assert world.agent("support")["exit_reason"] == "lost"
    assert forgotten.incarnation == 1


def test_a_start_that_never_happens_is_a_failed_start(world: World) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(Supervisor("desk", [Support.child("support")], max_restarts=1))
    world.settle(watchdog, node)
    node.end("support", "exit:3")
    watchdog.run_once()
    node.read()  # the order was read, nothing came of it

    world.pass_time(watchdog, 12.0, node)

    assert {"order": "kill", "agent": "support", "incarnation": "2", "reason": "start_timeout"} in node.read()
    assert [event["reason"] for event in world.events("start_error")] == ["start_timeout"]
    late = Owner("support", 2, new_id(), "n1")
    with pytest.raises(Exception, match="not the current one"):
        node.connection.call(agents.claim(KEYS, LIMITS, late, pid=1))


def test_a_draining_node_gets_no_starts_and_hands_its_agents_on(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk(max_restarts=0))
    world.settle(watchdog, one, two)

    one.say("draining")
    for agent in list(one.running):
        one.end(agent, "drained", charged=False)
    one.say("left")
    world.settle(watchdog, two)

    assert sorted(two.running) == ["billing", "support"]
    assert world.record("desk")["status"] == "running"
    assert world.events("node_lost") == []


def test_a_node_that_left_with_agents_unreported_loses_them_at_once(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)

    one.say("left")
    world.settle(watchdog, two)

    assert sorted(two.running) == ["billing", "support"]


def test_one_of_two_watchdogs_leads_and_the_other_takes_over(world: World) -> None:
    node, first, second = world.node("n1"), world.watchdog(desk()), world.watchdog(desk())
    world.settle(first, node)
    assert second.run_once()["wait_ms"] > 0
    assert (first.leading, second.leading) == (True, False)

    first.resign()
    node.end("support", "signal:SIGKILL")
    world.settle(second, node)

    assert second.leading
    assert world.agent("support")["incarnation"] == "2"
    assert world.agent("support")["restarts"] == "1"
    assert world.agent("billing")["incarnation"] == "1"


def test_a_frozen_leader_is_refused_and_steps_down(world: World) -> None:
    node, first, second = world.node("n1"), world.watchdog(desk()), world.watchdog()
    world.settle(first, node)
    world.raw("DEL", KEYS.leader)  # the first was stopped for longer than its lease
    node.end("support", "signal:SIGKILL")
    world.settle(second, node)

    node.end("support", "signal:SIGKILL")
    counts = first.run_once()  # it wakes, sees the death, and tries

    assert not first.leading
    assert counts["starts"] == 0
    assert world.agent("support")["incarnation"] == "2"
    world.settle(second, node)
    assert world.agent("support")["incarnation"] == "3"
    assert world.agent("support")["restarts"] == "2"


def test_a_leader_whose_lease_ran_out_by_its_own_clock_steps_down_unasked(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    token = world.look.command(views.leader(KEYS))

    world.clock.now += 3.1
    watchdog.run_once()

    assert not watchdog.leading
    with pytest.raises(NotLeader):
        world.look.call(leadership.commit_decision(KEYS, LIMITS, DecisionCommit(token=f"{token}x")))


def test_a_standby_goes_on_in_the_middle_of_a_plan(world: World) -> None:
    """rest_for_one: the first leader has stopped one of two later children when it dies."""
    node = world.node("n1")
    tree = Supervisor("desk", [Support.child(f"s{i}") for i in range(3)], strategy="rest_for_one")
    first, second = world.watchdog(tree), world.watchdog(tree)
    world.settle(first, node)

    node.end("s0", "signal:SIGKILL")
    first.run_once()  # orders the stop of s2
    node.obey()  # s2 ends
    first.resign()
    world.settle(second, node)

    assert [world.agent(f"s{i}")["incarnation"] for i in range(3)] == ["2", "2", "2"]
    stops = [order["agent"] for order in node.orders if order["order"] == "stop"]
    assert stops == ["s2", "s1"]
    assert world.agent("s0")["restarts"] == "1"
    assert len(json.loads(world.record("desk")["stamps"])) == 1


def test_a_death_reported_twice_is_one_restart(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    owner = node.running["support"]
    node.end("support", "signal:SIGKILL")
    world.raw(
        "XADD", KEYS.exits, "*", "kind", "exited", "agent", "support", "incarnation", str(owner.incarnation),
        "node", "n1", "reason", "signal:SIGKILL", "charged", "1",
    )  # fmt: skip

    world.settle(watchdog, node)

    assert world.agent("support")["incarnation"] == "2"
    assert len(json.loads(world.record("desk")["stamps"])) == 1


def test_an_escalation_pauses_the_root_and_it_comes_back(world: World) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(desk(max_restarts=0, pause=Pause(first=0.05)))
    world.settle(watchdog, node)

    node.end("support", "signal:SIGKILL")
    world.settle(watchdog, node)
    assert world.record("desk")["status"] == "paused"

    def back() -> bool:
        world.clock.now += 0.25
        world.settle(watchdog, node)
        return world.record("desk")["status"] == "running"

    wait_until(back, "the root starts again after its pause")
    assert world.events("supervisor_paused")
    assert world.counters()["supervisor_paused_total|supervisor=desk"] == 1
    assert world.agent("billing")["status"] == "running"


JUNK: list[list[str | bytes]] = [
    ["kind", "exited", "agent", "support"],
    ["kind", "exited", "agent", "{bad}", "incarnation", "1", "reason", "x"],
    ["kind", "exited", "agent", "support", "incarnation", "one", "reason", "x"],
    ["kind", "exited", "agent", "nobody", "incarnation", "1", "reason", "x"],
    ["kind", "started", "agent", "nobody", "incarnation", "1", "node", "n1"],
    ["kind", "started", "agent", "support", "incarnation", "999999"],
    ["kind", "node", "node", "n9", "event", "joined"],
    ["kind", "node", "node", "n9", "event", "exploded"],
    ["kind", "surprise"],
    ["nothing", "known"],
    ["kind", b"\xff\xfe"],
    ["kind", "request", "op", "hold"],
]


def test_junk_is_removed_and_the_rest_goes_on(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    for fields in JUNK:
        world.raw("XADD", KEYS.exits, "*", *fields)
    node.end("support", "signal:SIGKILL")

    world.settle(watchdog, node)

    assert world.waiting() == 0
    assert world.agent("support")["incarnation"] == "2"
    assert world.agent("billing")["incarnation"] == "1"
    assert len(world.events("entry_ignored")) >= 5


def test_requests_are_answered(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    spec = json.dumps(child_definition(Support.child("extra")))
    started = world.ask("start_child", path="desk", spec=spec)
    counted = world.ask("count_children", path="desk")
    listed = world.ask("which_children", path="desk")

    world.settle(watchdog, node)

    assert world.answer(started)["ok"]["child"] == "extra"
    assert world.answer(counted) == {"ok": [3, 3, 0, 3]}
    assert [row[0] for row in world.answer(listed)["ok"]] == ["extra", "billing", "support"]
    assert world.agent("extra")["status"] == "running"
    assert world.agent("extra")["state"] == '{"open":0}'


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("dance", {}, "unknown_op"),
    ("hold", {}, "missing_field"),
    ("hold", {"target": "nobody"}, "not_found"),
    ("terminate_child", {"path": "desk"}, "missing_field"),
    ("terminate_child", {"path": "desk", "child": "nobody"}, "not_found"),
    ("terminate_child", {"path": "shop", "child": "nobody"}, "noproc"),
    ("start_child", {"path": "desk", "spec": "{"}, "bad_json"),
    ("start_child", {"path": "desk", "spec": "[]"}, "bad_json"),
    ("start_child", {"path": "desk", "spec": '{"id": "{x}"}'}, "invalid_child_spec"),
    ("start_child", {"path": "desk", "spec": '{"id": "x"}'}, "missing_start"),
    (
        "start_child",
        {"path": "desk", "spec": '{"id": "support", "start": {"type": "support"}}'},
        "already_started",
    ),
    ("delete_child", {"path": "desk", "child": "support"}, "running"),
    ("kill", {"target": "nobody"}, "not_found"),
    ("tree", {"name": "desk", "definition": '{"children": 3}'}, "bad_tree"),
    ("tree", {"name": "", "definition": "{}"}, "missing_field"),
    ("stop_tree", {"path": "nothing"}, "noproc"),
]


@pytest.mark.parametrize(("op", "fields", "code"), REFUSED)
def test_a_bad_request_is_answered_with_an_error(
    world: World, op: str, fields: dict[str, str], code: str
) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    before = world.record("desk")["version"], world.agent("support"), world.agent("billing")
    request = world.ask(op, **fields)

    world.settle(watchdog, node)

    answer = world.answer(request)
    assert answer["error"] == code
    assert answer["message"]
    assert (world.agent("support"), world.agent("billing")) == before[1:]


def test_a_kill_goes_to_the_node_and_is_not_charged(world: World) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(desk(max_restarts=0))
    world.settle(watchdog, node)
    request = world.ask("kill", target="support")

    world.settle(watchdog, node)

    assert world.answer(request) == {"ok": {"agent": "support", "incarnation": 1}}
    assert [order["reason"] for order in node.orders if order["order"] == "kill"] == ["operator"]
    assert world.agent("support")["incarnation"] == "2"
    assert world.record("desk")["status"] == "running"


def test_a_hold_survives_a_takeover_and_a_group_restart(world: World) -> None:
    node = world.node("n1")
    tree = desk(strategy="one_for_all")
    first, second = world.watchdog(tree), world.watchdog(tree)
    world.settle(first, node)
    request = world.ask("hold", target="support")
    world.settle(first, node)
    assert "ok" in world.answer(request)
    assert world.agent("support")["status"] == "held"

    first.resign()
    node.end("billing", "signal:SIGKILL")
    world.settle(second, node)
    assert world.agent("support")["status"] == "held"
    assert world.agent("billing")["incarnation"] == "2"

    world.ask("unhold", target="support")
    world.settle(second, node)
    assert world.agent("support")["status"] == "running"


def test_a_changed_tree_is_carried_out_by_the_leader_that_runs(world: World) -> None:
    node, first = world.node("n1"), world.watchdog(desk())
    world.settle(first, node)
    newer = Supervisor("desk", [Billing.child("billing"), Support.child("sales")])
    second = world.watchdog(newer)
    second.run_once()

    world.settle(first, node)
    second.run_once()

    assert world.agent("sales")["status"] == "running"
    assert world.agent("support")["status"] == "stopped"
    assert world.agent("support")["state"] == '{"open":0}'
    assert world.agent("billing")["incarnation"] == "1"
    assert "added desk/sales" in world.said
    assert "removed desk/support: it is stopped, its state is kept" in world.said


def test_trees_of_other_watchdogs_cost_the_leader_no_doubt(world: World) -> None:
    node, first, same = world.node("n1"), world.watchdog(desk()), world.watchdog(desk())
    world.settle(first, node)
    same.run_once()
    children = [Support.child("support"), Billing.child("billing", restart="transient")]
    other = world.watchdog(Supervisor("desk", children))
    other.run_once()

    assert first.run_once()["entries"] == 2
    node.end("support", "signal:SIGKILL")
    world.settle(first, node)

    assert world.agent("support")["incarnation"] == "2"
    assert len(json.loads(world.record("desk")["trees"])) == 2


def test_a_replaced_tree_does_not_come_back_by_a_takeover_or_a_start(world: World) -> None:
    node, first = world.node("n1"), world.watchdog(desk())
    world.settle(first, node)
    second = world.watchdog(Supervisor("desk", [Billing.child("billing")]))
    world.settle(first, node)
    second.run_once()
    world.settle(first, node)
    second.resign()
    first.resign()
    old = world.watchdog(desk())

    world.settle(old, node)

    assert sorted(node.running) == ["billing"]
    assert any("does not come back" in line for line in world.said)


def test_junk_in_a_branchs_record_restarts_that_branch_alone(world: World) -> None:
    node = world.node("n1")
    tree = Supervisor("desk", [Support.child("support"), Supervisor("inner", [Billing.child("billing")])])
    first, second = world.watchdog(tree), world.watchdog(tree)
    world.settle(first, node)
    first.resign()
    world.raw("HSET", KEYS.supervisor("desk/inner"), "plan", "{junk")

    world.settle(second, node)

    assert world.agent("support")["incarnation"] == "1"
    assert world.agent("billing")["incarnation"] == "2"
    assert world.agent("billing")["status"] == "running"
    assert world.record("desk/inner")["status"] == "running"
    node.end("support", "signal:SIGKILL")
    world.settle(second, node)
    assert world.agent("support")["incarnation"] == "2"


def test_an_unreadable_root_is_left_as_it_is_and_other_roots_go_on(world: World) -> None:
    node = world.node("n1")
    shop = Supervisor("shop", [Billing.child("billing")])
    first = world.watchdog(Supervisor("desk", [Support.child("support")]))
    world.settle(first, node)
    other = world.watchdog(shop)
    other.run_once()
    world.settle(first, node)
    first.resign()
    world.raw("HSET", KEYS.supervisor("desk"), "definition", "junk")
    before = world.record("desk")

    node.end("billing", "signal:SIGKILL")
    world.settle(other, node)

    assert other.leading
    assert world.agent("billing")["incarnation"] == "2"
    assert world.record("desk") == before


def test_an_agents_key_of_the_wrong_type_stops_that_agent_alone(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    world.raw("SET", KEYS.agent("support"), "junk")
    del node.running["support"]

    world.pass_time(watchdog, 7.5, node)
    node.end("billing", "signal:SIGKILL")
    world.settle(watchdog, node)

    assert world.raw("GET", KEYS.agent("support")) in ("junk", b"junk")
    assert world.agent("billing")["incarnation"] == "2"
    assert world.agent("billing")["status"] == "running"


def test_an_agents_record_that_was_deleted_by_hand_is_made_again(world: World) -> None:
    node, first, second = world.node("n1"), world.watchdog(desk()), world.watchdog(desk())
    world.settle(first, node)
    first.resign()
    world.raw("DEL", KEYS.agent("support"))
    del node.running["support"]

    world.settle(second, node)

    assert world.agent("support")["status"] == "running"
    assert world.agent("support")["incarnation"] == "2"


def test_a_supervisors_version_changed_under_the_leader_makes_it_read_again(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    world.raw("HINCRBY", KEYS.supervisor("desk"), "version", 5)
    node.end("support", "signal:SIGKILL")

    assert watchdog.run_once()["reloads"] == 1
    world.settle(watchdog, node)

    assert world.agent("support")["incarnation"] == "2"
    assert world.agent("support")["restarts"] == "1"


def test_a_conflict_costs_a_lost_node_no_further_timeout(world: World) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)
    world.pass_time(watchdog, 2.5, two)
    world.raw("HINCRBY", KEYS.supervisor("desk"), "version", 5)

    world.pass_time(watchdog, 1.0, two)
    world.settle(watchdog, two)

    assert [event["node"] for event in world.events("node_lost")] == ["n1"]
    assert sorted(two.running) == ["billing", "support"]


def test_a_verdict_that_cannot_be_written_does_not_keep_the_leader_from_other_deaths(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)
    agent = next(iter(two.running))

    def conflict(*_: object, **__: object) -> None:
        raise Conflict("somebody writes there all the time")

    monkeypatch.setattr(Reign, "_lose_nodes", conflict)
    world.pass_time(watchdog, 3.5, two)
    two.end(agent, "signal:SIGKILL")
    for _ in range(3):
        watchdog.run_once()

    assert world.agent(agent)["incarnation"] == "2"


def test_redis_killed_and_started_restarts_nobody(own_server: PrivateServer) -> None:
    world = World(own_server.url)
    node = world.node("n1")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, node)
    own_server.kill()
    for _ in range(5):
        world.clock.now += 0.5
        assert watchdog.run_once()["wait_ms"] > 0

    own_server.start()
    world.clock.now += 30.0
    wait_until(lambda: not watchdog.run_once()["wait_ms"] and watchdog.leading, "the watchdog leads again")
    world.pass_time(watchdog, 2.5)
    node.beat()
    world.settle(watchdog, node)

    assert {world.agent(agent)["incarnation"] for agent in ("support", "billing")} == {"1"}
    assert world.events("node_lost") == []
    assert len(world.events("store_restarted")) == 1
    node.end("support", "signal:SIGKILL")
    world.settle(watchdog, node)
    assert world.agent("support")["incarnation"] == "2"
    for connection in (world.look, *world.opened):
        connection.close()


def test_redis_frozen_for_long_declares_nobody_lost(own_server: PrivateServer) -> None:
    import signal

    world = World(own_server.url)
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)
    process = own_server.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        assert watchdog.run_once()["wait_ms"] > 0
    finally:
        process.send_signal(signal.SIGCONT)
    world.clock.now += 10.0

    wait_until(lambda: not watchdog.run_once()["wait_ms"] and watchdog.leading, "the watchdog leads again")
    world.pass_time(watchdog, 2.5)

    assert world.events("node_lost") == []
    for connection in (world.look, *world.opened):
        connection.close()


def test_writes_refused_declare_nobody_lost(own_server: PrivateServer) -> None:
    """Reads are answered, beats are not taken: all look late, and it is the store."""
    world = World(own_server.url)
    one, two = world.node("n1"), world.node("n2")
    watchdog = world.watchdog(desk())
    world.settle(watchdog, one, two)
    world.raw("CONFIG", "SET", "min-replicas-to-write", 1)

    for _ in range(20):
        world.clock.now += 0.25
        watchdog.run_once()
    world.raw("CONFIG", "SET", "min-replicas-to-write", 0)
    wait_until(lambda: not watchdog.run_once()["wait_ms"] and watchdog.leading, "the watchdog leads again")
    world.pass_time(watchdog, 2.5)

    assert world.events("node_lost") == []
    for connection in (world.look, *world.opened):
        connection.close()


def test_a_killed_branch_is_restarted_and_the_rest_is_not_touched(world: World) -> None:
    node = world.node("n1")
    tree = Supervisor(
        "desk", [Support.child("support"), Supervisor("inner", [Billing.child("billing")])], max_restarts=0
    )
    watchdog = world.watchdog(tree)
    world.settle(watchdog, node)
    request = world.ask("kill", target="desk/inner")

    world.settle(watchdog, node)

    assert "ok" in world.answer(request)
    assert world.agent("billing")["incarnation"] == "2"
    assert world.agent("billing")["status"] == "running"
    assert world.agent("support")["incarnation"] == "1"
    assert world.record("desk")["status"] == "running"


def test_a_terminated_child_is_answered_for_once_it_has_ended(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    request = world.ask("terminate_child", path="desk", child="support")
    watchdog.run_once()
    assert world.raw("LLEN", KEYS.reply(request)) == 0
    assert world.agent("support")["status"] == "stopping"

    world.settle(watchdog, node)

    assert world.answer(request) == {"ok": None}
    assert world.agent("support")["status"] == "stopped"
    order = next(order for order in node.orders if order["order"] == "stop")
    assert (order["agent"], order["incarnation"]) == ("support", "1")
    assert "shutdown_ms" not in order, "left out: the node's setting"


@pytest.mark.parametrize(
    ("said", "ordered"), [(5, "5000"), (1.5, "1500"), ("brutal_kill", "0"), ("infinity", "-1"), (None, None)]
)
def test_a_stop_order_says_the_time_that_the_spec_says(world: World, said: Any, ordered: str | None) -> None:
    node = world.node("n1")
    watchdog = world.watchdog(Supervisor("desk", [Support.child("support", shutdown=said)]))
    world.settle(watchdog, node)

    world.ask("terminate_child", path="desk", child="support")
    world.settle(watchdog, node)

    (order,) = [order for order in node.orders if order["order"] == "stop"]
    assert order.get("shutdown_ms") == ordered


def test_bounds_that_the_spec_leaves_out_stay_the_settings(world: World) -> None:
    bounded = Billing.child("billing", max_mailbox=7, max_attempts=3, max_kills=4)
    watchdog = world.watchdog(Supervisor("desk", [Support.child("support"), bounded]))
    world.settle(watchdog)
    names = ("max_mailbox", "max_attempts", "max_kills")

    assert [world.agent("support")[name] for name in names] == ["", "", ""]
    assert [world.agent("billing")[name] for name in names] == ["7", "3", "4"]


def test_a_stopped_tree_stops_last_first_and_stays_down(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    request = world.ask("stop_tree", path="desk")

    world.settle(watchdog, node)

    assert "ok" in world.answer(request)
    assert [order["agent"] for order in node.orders if order["order"] == "stop"] == ["billing", "support"]
    assert node.running == {}
    assert world.record("desk")["status"] == "exited"


def test_an_effects_node_that_is_silent_is_lost_too(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.look.call(nodes.join(KEYS, "e1", kind="effects", host="h", pid=1, labels={}, types={}, version="0"))
    world.settle(watchdog, node)

    world.pass_time(watchdog, 4.0, node)

    assert [event["node"] for event in world.events("node_lost")] == ["e1"]
    assert sorted(node.running) == ["billing", "support"]


def test_a_tree_that_redis_has_lost_is_handed_in_again(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    world.raw("FLUSHALL")
    node.running.clear()

    fresh = world.node("n2")
    world.settle(watchdog, fresh)
    world.settle(watchdog, fresh)

    assert watchdog.leading
    assert sorted(fresh.running) == ["billing", "support"]


def test_a_root_whose_record_somebody_deleted_is_handed_in_again_when_it_is_missed(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    world.raw("DEL", KEYS.supervisor("desk"))

    node.end("billing", "signal:SIGKILL")
    world.settle(watchdog, node)
    world.settle(watchdog, node)

    assert sorted(node.running) == ["billing", "support"]
    assert world.agent("billing")["status"] == "running"
    assert world.reloads == 1, "that is how it was missed"
    world.reloads = 0


def test_a_new_leader_finds_its_tree_though_the_set_of_supervisors_was_deleted(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    watchdog.resign()
    world.raw("DEL", KEYS.supervisors)

    fresh = world.watchdog(desk())
    node.end("billing", "signal:SIGKILL")
    world.settle(fresh, node)

    assert fresh.leading
    assert sorted(node.running) == ["billing", "support"]
    assert world.agent("support")["incarnation"] == "1", "who did not die was not touched"


def test_a_changed_tree_under_two_watchdogs_does_not_flap(world: World) -> None:
    node = world.node("n1")
    old, new = world.watchdog(desk()), world.watchdog(Supervisor("desk", [Billing.child("billing")]))
    world.settle(old, node)
    new.run_once()
    world.settle(old, node)
    for _ in range(3):
        old.resign()
        world.settle(new, node)
        new.resign()
        world.settle(old, node)

    assert sorted(node.running) == ["billing"]
    assert world.agent("billing")["incarnation"] == "1"
    assert world.agent("support")["incarnation"] == "1"


def test_a_registered_agent_that_was_taken_out_goes_on_from_its_number(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    for op in ("terminate_child", "delete_child"):
        world.ask(op, path="desk", child="support")
    world.settle(watchdog, node)
    request = world.ask(
        "start_child", path="desk", spec=json.dumps(child_definition(Support.child("support")))
    )

    world.settle(watchdog, node)

    assert world.answer(request)["ok"]["incarnation"] == 2
    assert world.agent("support")["status"] == "running"


class LossyConnection(Connection):
    """Loses answers of decisions: half of them before they run, half after."""

    dice = random.Random(11)
    lossy = False

    def call(self, call: Call[Any]) -> Any:
        if not self.lossy or call.script != "decision":
            return super().call(call)
        fate = self.dice.random()
        if fate < 0.25:
            raise FateUnknown("the answer was lost; it had not run")
        answer = super().call(call)
        if fate < 0.5:
            raise FateUnknown("the answer was lost; it had run")
        return answer


def test_lost_answers_of_decisions_leave_one_restart_per_death(world: World) -> None:
    node = world.node("n1")
    tree = Supervisor(
        "desk",
        [Support.child(f"s{i}") for i in range(6)],
        max_restarts=100,
        max_seconds=600,
        strategy="rest_for_one",
    )
    connection = LossyConnection(world.url, timeout=2)
    world.opened.append(connection)
    watchdog = Watchdog(
        connection, KEYS, application=application(tree), say=world.said.append, clock=world.clock
    )
    world.settle(watchdog, node)
    connection.lossy = True

    for i in range(20):
        node.end(f"s{i % 6}", "signal:SIGKILL")
        for _ in range(60):
            watchdog.run_once()
            node.obey()
    connection.lossy = False
    world.settle(watchdog, node)

    assert len(node.running) == 6
    assert len(json.loads(world.record("desk")["stamps"])) == 20
    assert world.agent("s0")["incarnation"] == "5"
    assert world.agent("s0")["restarts"] == "4"
    starts = [(order["agent"], order["incarnation"]) for order in node.orders if order["order"] == "start"]
    assert len(starts) == len(set(starts))


def test_a_server_that_throws_keys_away_is_refused(own_server: PrivateServer) -> None:
    world = World(own_server.url)
    world.raw("CONFIG", "SET", "maxmemory", "100mb")
    world.raw("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

    with pytest.raises(WrongServer, match="noeviction"):
        world.watchdog(desk()).run_once()
    for connection in (world.look, *world.opened):
        connection.close()


def test_a_user_without_info_is_served(own_server: PrivateServer) -> None:
    world = World(own_server.url)
    world.raw("ACL", "SETUSER", "default", "-info")
    node, watchdog = world.node("n1"), world.watchdog(desk())

    world.settle(watchdog, node)

    assert sorted(node.running) == ["billing", "support"]
    for connection in (world.look, *world.opened):
        connection.close()


@pytest.mark.parametrize(("before", "after"), [("", "second"), ("first", "second")])
def test_a_changed_password_is_waited_for_and_nobody_is_lost_meanwhile(
    own_server: PrivateServer, before: str, after: str
) -> None:
    """NOAUTH where there was none, WRONGPASS where there was another: mended where it was broken, not by ending."""
    login = f":{before}@" if before else ""
    admin = World(own_server.url)
    admin.raw("CONFIG", "SET", "requirepass", before)
    world = World(f"unix://{login}{own_server.socket}")
    node, watchdog = world.node("n1"), world.watchdog(desk(max_restarts=1))
    world.settle(watchdog, node)

    admin.raw("CONFIG", "SET", "requirepass", after)
    (line,) = [line for line in admin.raw("CLIENT", "LIST").splitlines() if "name=regrow:watchdog " in line]
    admin.raw("CLIENT", "KILL", "ID", line.split("id=", 1)[1].split(" ", 1)[0])
    node.end("support", "signal:SIGKILL")
    assert watchdog.run_once()["wait_ms"] > 0
    for _ in range(40):
        world.clock.now += 0.5
        assert watchdog.run_once()["wait_ms"] > 0
    with pytest.raises(WrongServer):
        world.watchdog(desk()).run_once()
    assert admin.agent("support")["incarnation"] == "1"

    admin.raw("CONFIG", "SET", "requirepass", before)

    def mended() -> bool:
        world.settle(watchdog, node)
        return world.agent("support")["incarnation"] == "2"

    # The lease that it could not renew has to run out first, by the server's clock.
    wait_until(mended, "the death of meanwhile is mended")
    world.pass_time(watchdog, 2.0, node)

    assert world.agent("billing")["incarnation"] == "1"
    assert world.events("node_lost") == []
    for connection in (world.look, admin.look, *world.opened):
        connection.close()


def test_a_mailbox_of_the_wrong_type_is_waited_for(world: World) -> None:
    node, watchdog = world.node("n1"), world.watchdog(desk())
    world.settle(watchdog, node)
    world.raw("DEL", KEYS.exits)
    world.raw("SET", KEYS.exits, "junk")
    assert watchdog.run_once()["wait_ms"] > 0

    world.raw("DEL", KEYS.exits)
    node.end("support", "signal:SIGKILL")
    world.settle(watchdog, node)

    assert world.agent("support")["incarnation"] == "2"


@pytest.mark.parametrize("seed", range(4))
def test_a_storm_with_stolen_leases_and_lost_answers_restarts_once_per_death(world: World, seed: int) -> None:
    """Two watchdogs take the lease from one another while agents die and answers are lost."""
    dice = random.Random(seed)
    inner = Supervisor(
        "inner", [Support.child(f"i{i}") for i in range(3)], max_restarts=1000, max_seconds=600
    )
    tree = Supervisor(
        "desk", [*(Support.child(f"s{i}") for i in range(4)), inner], max_restarts=1000, max_seconds=600
    )
    watchdogs: list[Watchdog] = []
    for _ in range(2):
        connection = LossyConnection(world.url, timeout=2)
        world.opened.append(connection)
        watchdogs.append(
            Watchdog(
                connection, KEYS, application=application(tree), say=world.said.append, clock=world.clock
            )
        )
    node = world.node("n1")
    world.settle(watchdogs[0], node)
    LossyConnection.lossy, LossyConnection.dice = True, dice
    deaths = 0
    try:
        for _ in range(250):
            throw = dice.random()
            if throw < 0.2 and node.running:
                node.end(dice.choice(sorted(node.running)), "signal:SIGKILL")
                deaths += 1
            elif throw < 0.3:
                world.raw("DEL", KEYS.leader)
            elif throw < 0.5:
                node.obey()
            else:
                dice.choice(watchdogs).run_once()
    finally:
        LossyConnection.lossy = False
    world.raw("DEL", KEYS.leader)
    for _ in range(200):
        for watchdog in watchdogs:
            watchdog.run_once()
        node.obey()

    assert deaths > 20
    names = [f"s{i}" for i in range(4)] + [f"i{i}" for i in range(3)]
    assert sorted(node.running) == sorted(names)
    assert sum(int(world.agent(name)["restarts"]) for name in names) == deaths
    assert sum(int(world.agent(name)["incarnation"]) for name in names) == deaths + len(names)
    starts = [(order["agent"], order["incarnation"]) for order in node.orders if order["order"] == "start"]
    assert len(starts) == len(set(starts)) == deaths + len(names)
    stamps = [json.loads(world.record(path)["stamps"]) for path in ("desk", "desk/inner")]
    assert sum(len(each) for each in stamps) == deaths
