"""Two versions of an application at once: what older code does not know goes to newer code, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from regrow import Agent, Emit, Payload, Signal, State, Step, Supervisor, handles, upcast
from regrow.testing import Harness
from regrow_signals.calls import Command
from regrow_workers.announced import AnnouncedType, announce, is_handled_by, read_announced
from regrow_workers.elsewhere import Elsewhere


class Add(Payload, type="add"):
    n: int = 1


class Double(Payload, type="double"):
    pass


class Sum1(State):
    total: int = 0


class Counter1(Agent[Sum1], name="versions-counter"):
    @handles(Add)
    def add(self, state: Sum1, add: Add) -> Step[Sum1]:
        return state.evolve(total=state.total + add.n)

    @handles("old.only")
    def old_only(self, state: Sum1, signal: Signal) -> Step[Sum1]:
        return state.evolve(total=state.total + 1000)


class Sum2(State):
    total: int = 0
    note: str = "none"


class Counter2(Agent[Sum2], name="versions-counter"):
    """The same schema, one handler more, one less."""

    @handles(Add)
    def add(self, state: Sum2, add: Add) -> Step[Sum2]:
        return state.evolve(total=state.total + add.n)

    @handles(Double)
    def double(self, state: Sum2, _double: Double) -> Step[Sum2]:
        return state.evolve(total=state.total * 2, note="doubled"), Emit(Add(n=1), to="b")


class Sum3(State, schema=2):
    amount: int = 0

    @upcast(1)
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        return {"amount": old["total"]}


class Counter3(Agent[Sum3], name="versions-counter"):
    @handles(Add)
    def add(self, state: Sum3, add: Add) -> Step[Sum3]:
        return state.evolve(amount=state.amount + add.n)

    @handles(Double)
    def double(self, state: Sum3, _double: Double) -> Step[Sum3]:
        return state.evolve(amount=state.amount * 2)


def tree(kind: Any, strategy: Any = "one_for_all", **spec: Any) -> Supervisor:
    return Supervisor("root", [kind.child(name, **spec) for name in ("a", "b")], strategy=strategy)


def node_of(world: Harness, agent: str) -> str:
    return world.record(agent)["node"]


def exits(world: Harness, agent: str) -> list[str]:
    return [
        event["reason"] for event in world.events() if event["event"] == "exited" and event["agent"] == agent
    ]


# A signal that this code does not know.


@pytest.mark.parametrize("restart", ["permanent", "temporary"])
def test_it_is_left_to_a_node_whose_code_does_uncharged_and_alone(restart: Any) -> None:
    world = Harness(tree(Counter1, restart=restart))
    world.add_node(tree(Counter2))
    world.send("a", Add(n=20))
    world.send("a", Double())
    world.send("a", Add(n=2))

    world.run()

    assert world.state("a", Counter2) == Sum2(total=42, note="doubled")
    assert (node_of(world, "a"), node_of(world, "b")) == ("node-2", "node-1")
    assert exits(world, "a") == ["newer_code:double"]
    assert (world.incarnation("a"), world.incarnation("b")) == (2, 1)
    assert world.dead_letters("a") == []
    assert world.record("a")["careful_until"] == ""
    assert world.state("b", Counter1).total == 1


def test_where_no_node_knows_it_it_is_a_dead_letter_at_once() -> None:
    world = Harness(tree(Counter1))
    world.send("a", Double())
    world.send("a", Add(n=1))

    world.run()

    assert [letter["reason"] for letter in world.dead_letters("a")] == ["unhandled"]
    assert (world.state("a", Counter1).total, world.incarnation("a")) == (1, 1)


def test_a_node_that_knows_it_and_cannot_have_the_agent_gets_nothing_and_nobody_turns_in_circles() -> None:
    world = Harness(tree(Counter1, labels={"gpu": "a100"}, strategy="one_for_one"), labels={"gpu": "a100"})
    world.add_node(tree(Counter2), labels={})
    for _ in range(3):
        world.send("a", Double())
    world.send("a", Add(n=1))

    world.run()

    assert [letter["reason"] for letter in world.dead_letters("a")] == ["unhandled"] * 3
    assert (node_of(world, "a"), world.state("a", Counter1).total) == ("node-1", 1)
    assert exits(world, "a") == ["newer_code:double"]


def test_what_it_is_to_keep_it_keeps_for_one_life_only() -> None:
    world = Harness(tree(Counter1, labels={"gpu": "a100"}, strategy="one_for_one"), labels={"gpu": "a100"})
    world.add_node(tree(Counter2), labels={})
    world.send("a", Double())
    world.run()
    world.add_node(tree(Counter2), labels={"gpu": "a100"})

    world.kill("a", reason="operator")
    world.send("a", Double())
    world.run()

    assert (node_of(world, "a"), len(world.dead_letters("a"))) == ("node-3", 1)


def test_each_side_gets_what_only_it_knows_while_both_are_there() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter2))
    for what in ("double", "old.only", "double", "old.only"):
        world.send("a", what, {})

    world.run()

    assert world.state("a", Counter1).total == 3000
    assert world.dead_letters("a") == []
    assert len(exits(world, "a")) == 4


def test_a_fallen_node_that_knew_it_leaves_it_to_be_a_dead_letter() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter2))
    world.lose_node(2)
    world.send("a", Double())
    world.send("a", Add(n=1))

    world.advance(20)

    assert (world.status("a"), node_of(world, "a")) == ("running", "node-1")
    assert world.state("a", Counter1).total == 1
    assert [letter["reason"] for letter in world.dead_letters("a")] == ["unhandled"]


def test_a_drained_node_that_knew_it_gets_nothing_any_more() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter2))
    world.drain_node(2)
    world.send("a", Double())

    world.run()

    assert (world.incarnation("a"), len(world.dead_letters("a"))) == (1, 1)


def test_a_new_leader_knows_for_what_an_agent_that_waits_for_room_was_left() -> None:
    world = Harness(tree(Counter2, "one_for_one"))
    world.add_node(tree(Counter1))
    world.kill("a", reason="operator")
    world.run()
    assert (node_of(world, "a"), node_of(world, "b")) == ("node-2", "node-1")
    view_of(world).note_room("node-1", full=True)
    world.send("a", Double())
    world.run()
    assert world.status("a") == "waiting"

    world.kill_watchdog()
    world.run()

    assert (world.status("a"), node_of(world, "a"), world.dead_letters("a")) == ("running", "node-1", [])


def test_who_waits_for_room_on_a_node_that_is_lost_is_run_by_what_is_left() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter2))
    world.run()
    view_of(world).note_room("node-2", full=True)
    world.send("a", Double())
    world.run()
    assert world.status("a") == "waiting"

    world.drain_node(2)
    world.run()

    assert (world.status("a"), len(world.dead_letters("a"))) == ("running", 1)


def view_of(world: Harness) -> Any:
    reign = world._watchdog.reign  # pyright: ignore[reportPrivateUsage]
    assert reign is not None
    return reign.view


def test_a_nodes_damaged_record_keeps_nobody_from_looking() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter2))
    keys, connection = world.client.keys, world.client.connection
    connection.command(Command(("SET", keys.node("broken"), "no hash"), str))
    connection.command(Command(("ZADD", keys.nodes, "1", "broken"), int))
    world.send("a", Double())

    world.run()

    assert (node_of(world, "a"), world.dead_letters("a")) == ("node-2", [])


# A schema that this code does not know.


def test_a_state_of_a_newer_schema_goes_only_where_it_can_be_read() -> None:
    world = Harness(tree(Counter1))
    world.send("a", Add(n=20))
    world.add_node(tree(Counter3))
    world.send("a", Double())
    world.run()
    assert (world.record("a")["schema"], node_of(world, "a")) == ("2", "node-2")

    for _ in range(3):  # the older node is the less loaded one each time
        world.kill("a", reason="operator")
        world.run()

    assert node_of(world, "a") == "node-2"
    assert world.state("a", Counter3).amount == 40
    assert exits(world, "a") == ["newer_code:double", "operator", "operator", "operator"]


def test_it_waits_for_such_a_node_with_its_signals() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter3))
    world.send("a", Double())
    world.run()

    world.drain_node(2)
    world.send("a", Add(n=7))
    world.run()

    assert (world.status("a"), world.waiting("a")) == ("waiting", 1)
    world.add_node(tree(Counter3))
    world.run()
    assert (world.status("a"), world.state("a", Counter3).amount) == ("running", 7)


def test_a_lost_nodes_agents_go_only_where_their_newest_state_can_be_read() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter3))
    world.send("a", Double())
    world.run()

    world.lose_node(2)
    world.advance(20)

    assert (world.status("a"), exits(world, "a")) == ("waiting", ["newer_code:double", "node_lost"])


def test_older_code_that_meets_a_newer_schema_leaves_it_though_the_leader_knew_nothing_of_it() -> None:
    world = Harness(tree(Counter1))
    world.add_node(tree(Counter3))
    assert node_of(world, "a") == "node-1"

    world.put_state("a", {"amount": 5}, schema=2)
    world.send("a", Add(n=1))
    world.run()

    assert (node_of(world, "a"), world.state("a", Counter3).amount) == ("node-2", 6)
    assert exits(world, "a") == ["newer_code"]


def test_without_any_node_for_it_it_waits_and_does_not_turn_in_circles() -> None:
    world = Harness(tree(Counter1))

    world.put_state("a", {"amount": 5}, schema=2)
    world.run()

    assert (world.status("a"), world.record("a")["state"]) == ("waiting", '{"amount": 5}')
    assert exits(world, "a") == ["newer_code"]


# A renamed class.


class Renamed(Agent[Sum2], name="versions-adder", aliases=("versions-counter",)):
    @handles(Add)
    def add(self, state: Sum2, add: Add) -> Step[Sum2]:
        return state.evolve(total=state.total + add.n)


def test_a_renamed_class_runs_the_agents_of_its_old_name() -> None:
    world = Harness(tree(Counter1, "one_for_one"))
    world.send("a", Add(n=1))
    world.add_node(tree(Renamed))

    world.drain_node(1)
    world.send("a", Add(n=2))
    world.run()

    assert (node_of(world, "a"), world.record("a")["type"]) == ("node-2", "versions-counter")
    assert world.state("a", Renamed).total == world.state("a", Counter1).total == 3


def test_older_nodes_run_what_the_tree_knows_by_its_new_name() -> None:
    world = Harness(tree(Renamed, "one_for_one"))
    world.add_node(tree(Counter1))

    world.drain_node(1)
    world.send("a", Add(n=2))
    world.run()

    assert (world.status("a"), node_of(world, "a")) == ("running", "node-2")
    assert world.state("a", Renamed).total == 2
    assert world.dead_letters("a") == []


def test_a_name_that_no_node_knows_waits_for_one() -> None:
    class Other(Agent[Sum2], name="versions-other"):
        pass

    world = Harness(tree(Renamed, "one_for_one"))
    world.add_node(Supervisor("root", [Other.child("x")]))
    world.drain_node(1)
    world.run()

    assert world.status("a") == "waiting"


# What nodes announce.


def test_a_node_announces_code_schema_and_patterns_by_name_and_alias() -> None:
    class Renamed(Agent[Sum3], name="now", aliases=("before",)):
        @handles("ticket.**", "note")
        def any_ticket(self, state: Sum3, signal: Signal) -> Step[Sum3]:
            return None

    told = announce({"now": Renamed, "before": Renamed})

    assert told["before"] == told["now"]
    assert told["now"] == {"code": Renamed.definition.code, "schema": 2, "handles": ["note", "ticket.**"]}


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"a": 1}', '{"a": {"schema": "2", "handles": 3}}'])
def test_what_cannot_be_read_of_it_is_taken_as_nothing(text: str) -> None:
    assert set(read_announced(text).values()) <= {AnnouncedType()}


def test_only_worker_nodes_that_are_up_count() -> None:
    types = '{"t": {"schema": 1, "handles": ["ticket.*"]}}'
    up = {"kind": "worker", "status": "up", "types": types}

    assert is_handled_by([{}, up], "t", "ticket.split")
    assert not is_handled_by([up], "t", "ticket.split.again")
    assert not is_handled_by([up], "other", "ticket.split")
    assert not is_handled_by([{**up, "status": "draining"}, {**up, "kind": "effects"}], "t", "ticket.split")


# Asking who knows a type.


def test_a_type_that_nobody_handles_is_asked_about_again_after_a_while() -> None:
    world, now = Harness(tree(Counter1)), [100.0]
    elsewhere = Elsewhere(world.client.keys, {"type": "versions-counter", "keep": "kept"}, lambda: now[0])
    connection = world.client.connection
    assert ("double" in elsewhere.nowhere, "kept" in elsewhere.nowhere) == (False, True)

    assert not elsewhere.look(connection, "double")
    now[0] += 0.9
    assert "double" in elsewhere.nowhere

    now[0] += 0.2
    world.add_node(tree(Counter2))
    assert ("double" in elsewhere.nowhere, "kept" in elsewhere.nowhere) == (False, True)
    assert elsewhere.look(connection, "double")


def test_a_type_of_any_length_is_answered() -> None:
    world = Harness(tree(Counter1))
    elsewhere = Elsewhere(world.client.keys, {"type": "versions-counter"})

    assert not elsewhere.look(world.client.connection, "x" * 100_000)
