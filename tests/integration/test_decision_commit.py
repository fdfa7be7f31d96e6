"""One event is one step: a decision lands whole, or is refused and leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from regrow_signals.connection import Connection
from regrow_signals.decisions import (
    AgentBounds,
    AgentUpdate,
    NodeOrder,
    Register,
    StartOrder,
    SupervisorWrite,
)
from regrow_signals.errors import BadInput, Conflict, CorruptKey, Fenced, NotLeader
from regrow_signals.keys import Keys
from regrow_signals.leadership import acquire, resign
from regrow_signals.nodes import ExitReport
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, LEADER, Stage


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.lead()
    stage.node("n1")
    return stage


def exits_entry(stage: Stage) -> str:
    return stage.ids(stage.keys.exits)[-1]


def whole(stage: Stage) -> dict[str, Any]:
    """A decision with something of everything; agent ``a`` lived its first life and ended."""
    owner, _ = stage.live("a")
    stage.die(owner)
    stage.register("b")
    stage.node("n2")
    return {
        "exits_entry": exits_entry(stage),
        "supervisors": [
            SupervisorWrite("helpdesk", 0, {"status": "running", "child:a": "{}"}),
            SupervisorWrite("helpdesk/chats", 0, {"status": "running"}),
        ],
        "register": [Register("c", "desk", "helpdesk", init='{"x":1}')],
        "starts": [
            StartOrder("a", 2, "n1", {"deadline_ms": "5000"}),
            StartOrder("c", 1, "n1"),
        ],
        "orders": [NodeOrder("n1", {"order": "stop", "agent": "x"})],
        "agent_updates": [AgentUpdate("b", {"status": "waiting"})],
        "lost_nodes": ["n2"],
        "replies": [("r-1", '{"ok":true}')],
        "events": [{"event": "restart", "agent": "a"}],
        "counters": {"restarts_total|supervisor=helpdesk|reason=exit": 1},
        "restarts": ["a"],
    }


def test_decision_lands_whole(stage: Stage) -> None:
    parts = whole(stage)
    now = stage.decide(**parts)

    record = stage.agent("a")
    assert (record["incarnation"], record["owner"], record["status"], record["node"]) == (
        "2",
        "",
        "starting",
        "n1",
    )
    assert (record["restarts"], record["ended"], record["start_ms"]) == ("1", "", str(now))
    assert stage.agent("b")["status"] == "waiting"
    new = stage.agent("c")
    assert (new["type"], new["init"], new["version"], new["cursor"], new["incarnation"]) == (
        "desk",
        '{"x":1}',
        "0",
        "0-0",
        "1",
    )
    orders = [one["order"] for one in stage.entries(stage.keys.control("n1"))]
    assert orders[1:] == ["stop", "start", "start"]
    start = stage.entries(stage.keys.control("n1"))[2]
    assert (start["agent"], start["incarnation"], start["deadline_ms"]) == ("a", "2", "5000")
    assert stage.raw.hget(stage.keys.supervisor("helpdesk"), "version") == "1"
    assert stage.raw.smembers(stage.keys.supervisors) == {"helpdesk", "helpdesk/chats"}
    assert not stage.raw.exists(stage.keys.node("n2"))
    assert stage.raw.lrange(stage.keys.reply("r-1"), 0, -1) == ['{"ok":true}']
    assert 0 < int(stage.raw.pttl(stage.keys.reply("r-1"))) <= 60_000
    assert stage.counters()["restarts_total|supervisor=helpdesk|reason=exit"] == 1
    assert stage.entries(stage.keys.events)[-1]["event"] == "restart"
    assert parts["exits_entry"] not in stage.ids(stage.keys.exits)


def test_from_the_decision_on_the_old_life_cannot_commit(stage: Stage, unchanged: Unchanged) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.start("a")

    with unchanged(), pytest.raises(Fenced):
        stage.commit(stage.plan(owner, loaded, entry))


def test_decision_of_one_who_does_not_lead_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    parts = whole(stage)
    with unchanged(), pytest.raises(NotLeader):
        stage.decide(token="old", **parts)
    stage.do(resign(stage.keys, LEADER))
    with unchanged(), pytest.raises(NotLeader):
        stage.decide(**parts)
    with unchanged(), pytest.raises(NotLeader):
        stage.decide(token="", **parts)
    stage.do(acquire(stage.keys, "two", 10_000))
    with unchanged(), pytest.raises(NotLeader):
        stage.decide(**parts)


def test_decision_repeated_is_a_conflict_and_restarts_once(stage: Stage, unchanged: Unchanged) -> None:
    parts = whole(stage)
    stage.decide(**parts)

    with unchanged(), pytest.raises(Conflict):
        stage.decide(**parts)
    assert stage.agent("a")["restarts"] == "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("exits_entry", "1-1"),
        ("supervisors", [SupervisorWrite("helpdesk", 3, {})]),
        ("starts", [StartOrder("a", 1, "n1")]),
        ("starts", [StartOrder("a", 0, "n1")]),
        ("starts", [StartOrder("nobody", 1, "n1")]),
        ("lost", [ExitReport("n1", "a", 7, "node_lost", "kill", False)]),
    ],
)
def test_decision_made_from_something_else_is_a_conflict(
    stage: Stage, unchanged: Unchanged, name: str, value: Any
) -> None:
    parts = {**whole(stage), name: value}
    with unchanged(), pytest.raises(Conflict):
        stage.decide(**parts)


def spoiled(keys: Keys) -> dict[str, str]:
    return {
        "exits": keys.exits,
        "agents": keys.agents,
        "nodes": keys.nodes,
        "supervisors": keys.supervisors,
        "supervisor": keys.supervisor("helpdesk/chats"),
        "agent": keys.agent("a"),
        "registered": keys.agent("c"),
        "updated": keys.agent("b"),
        "control": keys.control("n1"),
        "lost": keys.control("n2"),
        "node": keys.node("n2"),
        "reply": keys.reply("r-1"),
    }


@pytest.mark.parametrize("name", spoiled(Keys()))
def test_wrong_type_anywhere_refuses_the_decision_whole(
    stage: Stage, unchanged: Unchanged, name: str
) -> None:
    parts = whole(stage)
    key = spoiled(stage.keys)[name]
    stage.raw.delete(key)
    stage.raw.set(key, "junk")

    with unchanged(), pytest.raises(CorruptKey):
        stage.decide(**parts)


def test_orders_without_ids_left_refuse_the_decision_whole(stage: Stage, unchanged: Unchanged) -> None:
    parts = whole(stage)
    stage.raw.xadd(stage.keys.control("n1"), {"x": "y"}, id=LAST_ID)

    with unchanged(), pytest.raises(CorruptKey, match="ids"):
        stage.decide(**parts)


def test_damaged_counters_and_events_stop_no_decision(stage: Stage) -> None:
    parts = whole(stage)
    for key in (stage.keys.counters, stage.keys.events):
        stage.raw.delete(key)
        stage.raw.set(key, "junk")

    stage.decide(**parts)

    assert stage.agent("a")["incarnation"] == "2"


def test_agent_that_is_registered_again_keeps_its_memory(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry))
    before = stage.agent("a")

    stage.decide(
        register=[Register("a", "desk", "helpdesk/new", init="{}", bounds=AgentBounds(max_mailbox=5))]
    )

    after = stage.agent("a")
    kept = ("birth", "state", "version", "cursor", "incarnation", "owner", "handled", "created_ms")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert (after["supervisor"], after["max_mailbox"]) == ("helpdesk/new", "5")


def test_damaged_record_is_not_made_anew_by_a_registration(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry))
    stage.raw.hdel(stage.keys.agent("a"), "birth")

    stage.decide(register=[Register("a", "desk", "helpdesk")])

    record = stage.agent("a")
    assert "birth" not in record and record["state"] == '{"open": 1}'


@pytest.mark.parametrize("value", [None, "junk"])
def test_start_of_a_record_with_an_unreadable_incarnation_is_refused(
    stage: Stage, unchanged: Unchanged, value: str | None
) -> None:
    stage.register("a")
    stage.raw.hdel(stage.keys.agent("a"), "incarnation")
    if value is not None:
        stage.raw.hset(stage.keys.agent("a"), "incarnation", value)

    with unchanged(), pytest.raises(CorruptKey, match="incarnation"):
        stage.decide(starts=[StartOrder("a", 1, "n1")])


def test_fresh_start_begins_anew_and_keeps_mailbox_cursor_and_versions(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    first, second = stage.feed("a", 2)
    stage.commit(stage.plan(owner, loaded, first, state='{"open":7}'))
    number = owner.incarnation + 1

    stage.decide(starts=[StartOrder("a", number, "n1", {"resume": "fresh"}, fresh=('{"open":0}', 3))])
    _, begun = stage.claim("a", "token-2")

    assert (begun.state, begun.schema, begun.cursor) == ('{"open":0}', 3, first)
    assert begun.version == loaded.version + 2  # no version is used twice
    assert stage.ids(stage.keys.mailbox("a")) == [second]


def test_start_that_continues_keeps_the_state(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.commit(stage.plan(owner, loaded, stage.feed("a")[0], state='{"open":7}'))

    stage.start("a")

    assert stage.claim("a", "token-2")[1].state == '{"open":7}'


@pytest.mark.parametrize("version", ["", "many", "1.5", "-1", "1" * 19])
def test_fresh_start_of_a_record_with_an_unreadable_version_is_refused(
    stage: Stage, unchanged: Unchanged, version: str
) -> None:
    stage.register("a")
    stage.raw.hset(stage.keys.agent("a"), "version", version)

    with unchanged(), pytest.raises(CorruptKey, match="version"):
        stage.decide(starts=[StartOrder("a", 1, "n1", fresh=("", 1))])


def test_fresh_start_in_the_step_that_registers_the_agent(stage: Stage) -> None:
    stage.decide(
        register=[Register("new", "desk", "helpdesk", state='{"open":0}')],
        starts=[StartOrder("new", 1, "n1", fresh=('{"open":0}', 1))],
    )

    assert stage.claim("new")[1].state == '{"open":0}'


def test_supervisors_fields_are_set_deleted_and_removed(stage: Stage) -> None:
    stage.decide(supervisors=[SupervisorWrite("s", 0, {"a": "1", "b": "2"})])
    stage.decide(supervisors=[SupervisorWrite("s", 1, {"a": "3"}, ("b",))])
    assert stage.raw.hgetall(stage.keys.supervisor("s")) == {"a": "3", "version": "2"}

    stage.decide(supervisors=[SupervisorWrite("s", 2, remove=True)])
    assert not stage.raw.exists(stage.keys.supervisor("s"), stage.keys.supervisors)


def test_lost_life_is_recorded_as_an_exit_without_an_entry(stage: Stage) -> None:
    stage.live("a")
    entries = stage.raw.xlen(stage.keys.exits)
    stage.decide(lost=[ExitReport("n1", "a", 1, "node_lost", "kill", False)])

    record = stage.agent("a")
    assert (record["ended"], record["owner"], record["charge"], record["exit_reason"]) == (
        "1",
        "",
        "kill",
        "node_lost",
    )
    assert stage.raw.xlen(stage.keys.exits) == entries
    assert stage.counters()["exits_total|reason=node_lost"] == 1


def test_loss_of_a_life_whose_exit_is_known_changes_nothing_in_it(stage: Stage) -> None:
    owner, _ = stage.live("a")
    stage.die(owner)
    before = stage.agent("a")
    stage.decide(lost=[ExitReport("n1", "a", 1, "node_lost", "kill", False)])

    assert stage.agent("a") == before


def test_update_of_another_life_or_of_a_gone_agent_is_left_out(stage: Stage) -> None:
    stage.live("a")
    stage.decide(
        agent_updates=[
            AgentUpdate("a", {"status": "stopping"}, incarnation=7),
            AgentUpdate("ghost", {"status": "stopping"}),
        ]
    )
    assert stage.agent("a")["status"] == "running"
    assert not stage.raw.exists(stage.keys.agent("ghost"))

    stage.decide(agent_updates=[AgentUpdate("a", {"status": "stopping"}, incarnation=1)])
    assert stage.agent("a")["status"] == "stopping"


@pytest.mark.parametrize("name", ["owner", "incarnation", "state", "version", "cursor", "birth"])
def test_update_may_not_touch_what_fences_or_remembers(stage: Stage, name: str) -> None:
    with pytest.raises(BadInput, match=name):
        stage.decide(agent_updates=[AgentUpdate("a", {name: "x"})])


def test_orders_to_a_node_that_is_gone_do_not_stay(stage: Stage) -> None:
    stage.decide(orders=[NodeOrder("gone", {"order": "stop"})])

    assert int(stage.raw.pttl(stage.keys.control("gone"))) > 0
    stage.decide(orders=[NodeOrder("n1", {"order": "stop"})])
    assert stage.raw.pttl(stage.keys.control("n1")) == -1


def test_numbers_and_text_come_through_as_they_are(stage: Stage) -> None:
    text = '{"big":9007199254740993,"list":[],"none":null,"text":"ü\\u0000"}'
    stage.decide(supervisors=[SupervisorWrite("s", 0, {"child:a": text, "empty": ""})])

    found = stage.raw.hgetall(stage.keys.supervisor("s"))
    assert found == {"child:a": text, "empty": "", "version": "1"}
