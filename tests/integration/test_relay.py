"""Held emits: in order for each target, past full ones, dead after their time; one script, so nothing is doubled."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from regrow_signals.agents import Owner
from regrow_signals.commits import EmitAppend
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.relay import deliver_held, held_agents
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, Stage, effect, emit


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    """``a`` is alive; ``full`` takes no signal more, ``open`` takes many."""
    stage = Stage(connection, raw, keys)
    stage.live("a")
    stage.register("full", max_mailbox=2)
    stage.register("open")
    stage.feed("full", 2)
    return stage


def send_out(stage: Stage, *emits: EmitAppend) -> int:
    """One commit of ``a`` with these emits; how many are held by it."""
    record = stage.agent("a")
    owner = Owner("a", 1, "token-1", "n1")
    [entry] = stage.feed("a")
    plan = stage.plan(owner, stage.claim("a")[1], entry, emits=emits)
    assert plan.base_version == int(record["version"])
    return stage.commit(plan).held


def make_room(stage: Stage, agent: str, count: int = 100) -> None:
    key = stage.keys.mailbox(agent)
    for entry in stage.ids(key)[:count]:
        stage.raw.xdel(key, entry)


def deliver(stage: Stage, most: int = 100) -> int:
    settled: int = stage.do(deliver_held(stage.keys, stage.limits, "a", most))
    return settled


def ids(stage: Stage, agent: str) -> list[str]:
    return [one["id"] for one in stage.entries(stage.keys.mailbox(agent))]


def test_emit_to_a_full_mailbox_is_held_and_found(stage: Stage) -> None:
    assert send_out(stage, emit("full", 1), emit("open", 2)) == 1

    assert ids(stage, "open") == ["e-2"]
    [held] = stage.entries(stage.keys.outbox("a"))
    assert (held["kind"], held["target"], held["id"]) == ("emit", "full", "e-1")
    assert stage.agent("a")["held:full"] == "1"
    assert stage.connection.command(held_agents(stage.keys)) == ["a"]
    assert stage.counters()["emits_held_total|type=desk"] == 1


def test_later_emits_queue_behind_a_held_one_though_there_is_room_again(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    make_room(stage, "full")

    assert send_out(stage, emit("full", 2)) == 1
    assert ids(stage, "full") == []
    assert deliver(stage) == 2
    assert ids(stage, "full") == ["e-1", "e-2"]


def test_one_commit_fills_the_room_and_holds_the_rest_in_order(stage: Stage) -> None:
    make_room(stage, "full", 1)

    assert send_out(stage, *(emit("full", n) for n in range(1, 5))) == 3
    assert ids(stage, "full")[-1] == "e-1"
    make_room(stage, "full")
    assert deliver(stage) == 2
    make_room(stage, "full")
    assert deliver(stage) == 1
    assert ids(stage, "full") == ["e-4"]


def test_full_target_does_not_keep_back_others(stage: Stage) -> None:
    stage.register("other", max_mailbox=1)
    stage.feed("other")
    send_out(stage, emit("full", 1), emit("other", 2), emit("full", 3), emit("other", 4))
    make_room(stage, "other")

    assert deliver(stage) == 1
    assert ids(stage, "other") == ["e-2"]
    assert stage.agent("a")["held:full"] == "2"
    assert stage.agent("a")["held:other"] == "1"


def test_nothing_is_left_behind_when_all_is_delivered(stage: Stage, unchanged: Unchanged) -> None:
    send_out(stage, emit("full", 1))
    make_room(stage, "full")

    assert deliver(stage) == 1
    assert "held:full" not in stage.agent("a")
    assert stage.raw.zcard(stage.keys.held) == 0
    assert stage.raw.xlen(stage.keys.outbox("a")) == 0
    with unchanged():
        assert deliver(stage) == 0


def test_delivery_without_room_changes_nothing(stage: Stage, unchanged: Unchanged) -> None:
    send_out(stage, emit("full", 1))
    deliver(stage)

    with unchanged():
        assert deliver(stage) == 0


def test_delivered_signal_is_the_one_that_was_emitted(stage: Stage) -> None:
    send_out(stage, emit("full", 1, traceparent="00-1", hops="3"))
    make_room(stage, "full")
    deliver(stage)

    [found] = stage.entries(stage.keys.mailbox("full"))
    assert int(found.pop("at_ms")) > 0
    assert found == dict(emit("full", 1, traceparent="00-1", hops="3").fields)


def test_emit_held_too_long_is_the_senders_dead_letter(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    [entry] = stage.ids(stage.keys.outbox("a"))
    stage.raw.xdel(stage.keys.outbox("a"), entry)
    stage.raw.xadd(stage.keys.outbox("a"), {"kind": "emit", "target": "full", "held_ms": "1", "id": "e-1"})

    assert deliver(stage) == 1
    [letter] = stage.entries(stage.keys.dead("a"))
    assert (letter["reason"], letter["target"], letter["id"]) == ("target_full", "full", "e-1")
    assert stage.raw.zcard(stage.keys.held) == 0


def test_emit_held_long_is_delivered_where_there_is_room(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    make_room(stage, "full")
    stage.limits = Limits(held_timeout_ms=1)

    deliver(stage)

    assert ids(stage, "full") == ["e-1"]


def test_emit_whose_target_went_away_is_the_senders_dead_letter(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    stage.raw.delete(stage.keys.agent("full"), stage.keys.mailbox("full"))

    assert deliver(stage) == 1
    assert [one["reason"] for one in stage.entries(stage.keys.dead("a"))] == ["no_such_agent"]
    assert not stage.raw.exists(stage.keys.mailbox("full"))


def test_target_with_full_dead_letters_counts_as_full(stage: Stage) -> None:
    stage.limits = Limits(max_dead=1)
    stage.raw.xadd(stage.keys.dead("open"), {"id": "x"})

    assert send_out(stage, emit("open", 1)) == 1
    assert deliver(stage) == 0
    stage.raw.xtrim(stage.keys.dead("open"), maxlen=0)
    assert deliver(stage) == 1


def test_calls_are_bounded_and_find_held_emits_behind_many_effects(stage: Stage) -> None:
    entries = stage.feed("a")
    plan = stage.plan(
        Owner("a", 1, "token-1", "n1"),
        stage.claim("a")[1],
        entries[0],
        effects=[effect(n) for n in range(250)],
    )
    stage.commit(plan)
    send_out(stage, *(emit("full", n) for n in range(5)))
    make_room(stage, "full")

    assert deliver(stage, 1) == 1
    assert stage.agent("a")["held:full"] == "4"
    assert deliver(stage, 1) == 1
    assert ids(stage, "full") == ["e-0", "e-1"]
    assert stage.raw.zcard(stage.keys.held) == 1


def test_delivery_unblocks_the_sender(stage: Stage) -> None:
    stage.limits = Limits(max_outbox=1)
    send_out(stage, emit("full", 1), emit("full", 2))
    assert stage.agent("a")["status"] == "blocked"
    make_room(stage, "full")

    deliver(stage)

    assert (stage.agent("a")["status"], stage.agent("a")["blocked"]) == ("running", "0")


def test_ring_of_full_agents_frees_itself_after_the_time(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    stage.limits = replace(stage.limits, held_timeout_ms=1)
    stage.raw.xadd(stage.keys.outbox("a"), {"kind": "emit", "target": "full", "held_ms": "1", "id": "e-9"})

    deliver(stage)

    assert "target_full" in [one["reason"] for one in stage.entries(stage.keys.dead("a"))]


def test_counts_without_entries_are_mended(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    stage.raw.delete(stage.keys.outbox("a"))

    assert deliver(stage) == 0
    assert "held:full" not in stage.agent("a")


def test_held_emits_of_a_deleted_sender_are_forgotten(stage: Stage) -> None:
    send_out(stage, emit("full", 1))
    stage.raw.delete(stage.keys.agent("a"))

    assert deliver(stage) == 0
    assert stage.connection.command(held_agents(stage.keys)) == []


@pytest.mark.parametrize("name", ["agent", "outbox", "dead", "fate", "held"])
def test_wrong_type_refuses_the_delivery_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    send_out(stage, emit("full", 1))
    make_room(stage, "full")
    key = stage.keys.held if name == "held" else getattr(stage.keys, name)("a")
    stage.raw.delete(key)
    stage.raw.set(key, "junk")

    with unchanged(), pytest.raises(CorruptKey):
        deliver(stage)


def test_dead_letters_without_ids_left_refuse_the_delivery_whole(stage: Stage, unchanged: Unchanged) -> None:
    send_out(stage, emit("full", 1))
    stage.raw.xadd(stage.keys.dead("a"), {"x": "y"}, id=LAST_ID)

    with unchanged(), pytest.raises(CorruptKey):
        deliver(stage)
