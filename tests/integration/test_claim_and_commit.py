"""One owner, each signal once: claim, fence and commit against a real server, refusals byte for byte."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import redis

from regrow_signals.agents import Owner, claim, mark_trying, release, reload, unblocked
from regrow_signals.calls import Call
from regrow_signals.commits import DeadAppend, commit
from regrow_signals.connection import Connection
from regrow_signals.errors import BadInput, Conflict, CorruptKey, Fenced
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, Stage, effect, emit, transition


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


def test_claim_makes_the_owner_and_tells_the_watchdog(stage: Stage) -> None:
    owner, loaded = stage.live("a")

    record = stage.agent("a")
    assert (record["owner"], record["status"], record["pid"], record["clean"]) == (
        "token-1",
        "running",
        "42",
        "0",
    )
    assert (loaded.version, loaded.cursor, loaded.state, loaded.careful_until) == (0, "0-0", "", "")
    assert stage.entries(stage.keys.exits)[-1]["kind"] == "started"
    assert stage.entries(stage.keys.events)[-1]["event"] == "started"
    assert owner.incarnation == 1


def test_repeated_claim_answers_alike_and_writes_nothing(stage: Stage, unchanged: Unchanged) -> None:
    _, first = stage.live("a")

    with unchanged():
        _, second = stage.claim("a")

    assert first == second


def test_claims_that_are_refused_leave_no_trace(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    strangers = [
        replace(owner, token="other"),
        replace(owner, incarnation=2),
        replace(owner, incarnation=0),
        replace(owner, token=""),
        replace(owner, agent="nobody"),
    ]
    for stranger in strangers:
        with unchanged(), pytest.raises(Fenced):
            stage.do(claim(stage.keys, stage.limits, stranger, pid=1))


def test_ended_incarnation_cannot_be_claimed(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    stage.die(owner)

    with unchanged(), pytest.raises(Fenced):
        stage.claim("a")


def test_claim_after_a_death_is_careful_up_to_the_last_signal(stage: Stage) -> None:
    owner, _ = stage.live("a")
    entries = stage.feed("a", 3)
    stage.die(owner, in_hand=entries[0])
    stage.start("a")

    _, loaded = stage.claim("a", "token-2")

    assert loaded.careful_until == entries[-1]
    assert (loaded.trying_entry, loaded.trying_attempts, loaded.condemned) == (entries[0], 1, "")
    assert stage.counters()["recovery_seconds_count"] == 1
    buckets = [by for name, by in stage.counters().items() if name.startswith("recovery_seconds_bucket|le=")]
    assert buckets == [1]


def test_claim_after_a_clean_release_is_not_careful(stage: Stage) -> None:
    owner, _ = stage.live("a")
    stage.feed("a", 3)
    stage.do(release(stage.keys, owner, reason="drained"))
    stage.die(owner, charge="none", reason="drained")
    stage.start("a")

    _, loaded = stage.claim("a", "token-2")

    assert (loaded.careful_until, loaded.trying_entry) == ("", "")
    assert "recovery_seconds_count" not in stage.counters()


@pytest.mark.parametrize(("charge", "deaths", "bound"), [("attempt", 2, "attempts"), ("kill", 10, "kills")])
def test_signal_in_hand_is_condemned_at_its_bound(stage: Stage, charge: str, deaths: int, bound: str) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    for death in range(deaths):
        assert loaded.condemned == ""
        stage.die(owner, charge=charge, in_hand=entry)
        stage.start("a")
        owner, loaded = stage.claim("a", f"t-{death}")
        stage.do(mark_trying(stage.keys, owner, entry, loaded.trying_attempts, loaded.trying_kills))

    assert loaded.condemned == bound


def test_failed_start_keeps_the_charge_of_the_death_before(stage: Stage) -> None:
    owner, _ = stage.live("a")
    [entry] = stage.feed("a")
    stage.die(owner, in_hand=entry)
    incarnation = stage.start("a")
    stage.die(replace(owner, incarnation=incarnation), charge="none", reason="start_timeout")
    stage.start("a")

    _, loaded = stage.claim("a", "token-3")

    assert loaded.trying_attempts == 1


def test_charge_of_a_signal_that_was_committed_is_dropped(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.do(mark_trying(stage.keys, owner, entry, 0, 0))
    stage.commit(stage.plan(owner, loaded, entry))
    stage.die(owner, in_hand=entry)
    stage.start("a")

    _, again = stage.claim("a", "token-2")

    assert (again.trying_entry, again.careful_until) == ("", "")


def test_commit_writes_state_version_cursor_and_trims_what_was_applied(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    entries = stage.feed("a", 3)
    plan = stage.plan(
        owner,
        loaded,
        entries[1],
        version=2,
        handled=2,
        journal=[transition(1), transition(2, '{"open":2}')],
        counters={"step_seconds_count|type=desk": 2},
    )

    reply = stage.commit(plan)

    record = stage.agent("a")
    assert (record["state"], record["version"], record["cursor"]) == ('{"open": 2}', "2", entries[1])
    assert record["handled"] == "2"
    assert stage.ids(stage.keys.mailbox("a")) == [entries[2]]
    journal = stage.entries(stage.keys.journal("a"))
    assert [one["version"] for one in journal] == ["1", "2"]
    assert [one.get("state") for one in journal] == [None, '{"open":2}']
    assert [one.get("schema") for one in journal] == [None, "1"]
    assert [(one["signal"], one["type"], one["source"], one["data"]) for one in journal] == [
        ("s-1", "ticket.opened", "shop", "{}"), ("s-2", "ticket.opened", "shop", "{}"),
    ]  # fmt: skip
    counters = stage.counters()
    assert counters["signals_applied_total|type=desk"] == 2
    assert counters["step_seconds_count|type=desk"] == 2
    assert (reply.landed_before, reply.blocked, reply.held) == (False, False, 0)


def test_repeat_of_a_landed_commit_writes_nothing(stage: Stage, unchanged: Unchanged) -> None:
    owner, loaded = stage.live("a")
    stage.register("b")
    [entry] = stage.feed("a")
    plan = stage.plan(owner, loaded, entry, emits=[emit("b")], effects=[effect()], journal=[transition()])
    stage.commit(plan)

    with unchanged():
        assert stage.commit(plan).landed_before


def test_commit_of_a_lost_owner_leaves_no_trace(stage: Stage, unchanged: Unchanged) -> None:
    old, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.start("a")
    plan = stage.plan(old, loaded, entry, emits=[emit("a")], effects=[effect()], journal=[transition()])

    with unchanged(), pytest.raises(Fenced):
        stage.commit(plan)
    stage.claim("a", "token-2")
    with unchanged(), pytest.raises(Fenced):
        stage.commit(plan)


def test_owner_that_was_declared_lost_cannot_commit(stage: Stage, unchanged: Unchanged) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.die(owner, charge="kill", reason="node_lost")

    with unchanged(), pytest.raises(Fenced):
        stage.commit(stage.plan(owner, loaded, entry))


def test_token_of_the_right_owner_with_a_higher_number_is_refused(stage: Stage, unchanged: Unchanged) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")

    with unchanged(), pytest.raises(Fenced):
        stage.commit(stage.plan(replace(owner, incarnation=9), loaded, entry))


@pytest.mark.parametrize("field", ["version", "cursor"])
def test_commit_from_another_base_is_a_conflict(stage: Stage, unchanged: Unchanged, field: str) -> None:
    owner, loaded = stage.live("a")
    entries = stage.feed("a", 2)
    other = {"version": replace(loaded, version=7), "cursor": replace(loaded, cursor=entries[0])}[field]

    with unchanged(), pytest.raises(Conflict):
        stage.commit(stage.plan(owner, other, entries[1], version=9))


def test_redis_that_went_back_is_a_conflict_and_reload_shows_where_it_is(
    stage: Stage, unchanged: Unchanged
) -> None:
    owner, loaded = stage.live("a")
    entries = stage.feed("a", 2)
    stage.commit(stage.plan(owner, loaded, entries[0]))
    ahead = replace(loaded, version=1, cursor=entries[0])
    stage.raw.hset(stage.keys.agent("a"), mapping={"version": "0", "cursor": "0-0"})

    with unchanged(), pytest.raises(Conflict):
        stage.commit(stage.plan(owner, ahead, entries[1]))
    with unchanged():
        again = stage.do(reload(stage.keys, owner))

    assert (again.version, again.cursor) == (0, "0-0")


def test_commit_must_move_the_cursor(stage: Stage) -> None:
    owner, loaded = stage.live("a")

    with pytest.raises(BadInput):
        stage.commit(stage.plan(owner, loaded, "0-0"))


def test_dead_letter_is_kept_with_its_reason_byte_for_byte(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    fields: dict[str, str | bytes] = {"id": "s-1", "type": "x", "data": b"\xff\xfe", "reason": "theirs"}
    letter = DeadAppend(entry, "not_json", "at byte 0", 1, fields)

    stage.commit(stage.plan(owner, loaded, entry, version=0, state="", dead=[letter], handled=0, failed=1))

    [(_, found)] = stage.connection.read_stream(stage.keys.dead("a"), "0-0", count=10)
    assert found["data"] == b"\xff\xfe"
    assert (found["reason"], found["signal.reason"], found["entry"]) == ("not_json", "theirs", entry)
    assert stage.raw.hget(stage.keys.fate("a"), "s-1") == "dead not_json"
    assert stage.counters()["signals_dead_total|type=desk|reason=not_json"] == 1
    assert stage.entries(stage.keys.events)[-1]["event"] == "dead_letter"
    assert stage.agent("a")["failed"] == "1"


def test_dead_letter_of_a_strangers_entry_with_very_many_fields_is_taken(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    letter = DeadAppend(entry, "no_data", "", 1, {f"f{n}": "x" for n in range(5_000)})

    stage.commit(stage.plan(owner, loaded, entry, dead=[letter]))

    [kept] = stage.entries(stage.keys.dead("a"))
    rest = [b64decode(name).decode() for name, _ in json.loads(kept["signal.rest"])]
    assert [name for name in kept if name.startswith("f")] + rest == list(letter.fields)


def test_emits_go_to_their_targets_in_order_and_to_the_sender_itself(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.register("b")
    [entry] = stage.feed("a")

    stage.commit(
        stage.plan(owner, loaded, entry, emits=[emit("b", 1), emit("a", 2), emit("b", 3), emit("a", 4)])
    )

    assert [one["id"] for one in stage.entries(stage.keys.mailbox("b"))] == ["e-1", "e-3"]
    assert [one["id"] for one in stage.entries(stage.keys.mailbox("a"))] == ["e-2", "e-4"]
    assert all(int(one["at_ms"]) > 0 for one in stage.entries(stage.keys.mailbox("b")))


def test_emit_to_nobody_is_the_senders_dead_letter_and_makes_no_key(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")

    stage.commit(stage.plan(owner, loaded, entry, emits=[emit("ghost"), emit("not an id")]))

    letters = stage.entries(stage.keys.dead("a"))
    assert sorted((one["reason"], one["target"]) for one in letters) == [
        ("no_such_agent", "ghost"),
        ("no_such_agent", "not an id"),
    ]
    assert not stage.raw.exists(stage.keys.mailbox("ghost"), stage.keys.agent("ghost"))


def test_emit_over_the_hops_is_a_dead_letter(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")

    stage.commit(stage.plan(owner, loaded, entry, emits=[emit("a", hops="65"), emit("a", 2, hops="64")]))

    assert [one["reason"] for one in stage.entries(stage.keys.dead("a"))] == ["max_hops"]
    assert [one["id"] for one in stage.entries(stage.keys.mailbox("a"))] == ["e-2"]


@pytest.mark.parametrize("broken", ["agent", "mailbox", "exhausted"])
def test_target_that_can_take_nothing_does_not_stop_the_sender(stage: Stage, broken: str) -> None:
    owner, loaded = stage.live("a")
    stage.register("b")
    [entry] = stage.feed("a")
    if broken == "exhausted":
        stage.raw.xadd(stage.keys.mailbox("b"), {"x": "y"}, id=LAST_ID)
    else:
        key = {"agent": stage.keys.agent, "mailbox": stage.keys.mailbox}[broken]("b")
        stage.raw.set(key, "junk")

    stage.commit(stage.plan(owner, loaded, entry, emits=[emit("b")]))

    [letter] = stage.entries(stage.keys.dead("a"))
    assert letter["reason"] == ("mailbox_exhausted" if broken == "exhausted" else "target_corrupt")


def test_entry_never_lies_at_or_before_the_targets_cursor(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.register("b")
    [entry] = stage.feed("a")
    future = "99999999999999-7"
    stage.raw.hset(stage.keys.agent("b"), "cursor", future)

    stage.commit(stage.plan(owner, loaded, entry, emits=[emit("b", 1), emit("b", 2)]))

    assert len(stage.ids(stage.keys.mailbox("b"), f"({future}")) == 2


def test_cursor_at_the_last_possible_id_trims_all(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.feed("a")
    stage.raw.xadd(stage.keys.mailbox("a"), {"x": "y"}, id=LAST_ID)

    stage.commit(stage.plan(owner, loaded, LAST_ID))

    assert stage.raw.xlen(stage.keys.mailbox("a")) == 0


def test_effects_are_stored_due_and_the_bell_is_rung_once(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    entries = stage.feed("a", 2)
    stage.commit(stage.plan(owner, loaded, entries[0], effects=[effect(1), effect(2)]))
    loaded = replace(loaded, version=1, cursor=entries[0])
    stage.commit(stage.plan(owner, loaded, entries[1], effects=[effect(3)]))

    assert stage.raw.llen(stage.keys.bell) == 1
    assert stage.raw.zcard(stage.keys.effects) == 3
    record = stage.raw.hgetall(stage.keys.effect("birth:1-1:1"))
    assert record["status"] == "pending" and record["agent"] == "a"
    assert [one["kind"] for one in stage.entries(stage.keys.outbox("a"))] == ["effect"] * 3


def test_agent_over_its_outbox_is_blocked_until_that_is_emptied(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.limits = Limits(max_outbox=2)
    [entry] = stage.feed("a")

    reply = stage.commit(stage.plan(owner, loaded, entry, effects=[effect(n) for n in (1, 2, 3)]))

    assert reply.blocked and stage.agent("a")["status"] == "blocked"
    assert not stage.do(unblocked(stage.keys, owner))
    stage.raw.xtrim(stage.keys.outbox("a"), maxlen=2, approximate=False)
    assert stage.do(unblocked(stage.keys, owner))
    assert stage.agent("a")["status"] == "running"


def test_journal_keeps_about_as_many_entries_as_it_may(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.limits = Limits(journal_entries=10)
    entries = stage.feed("a", 6)
    for entry in entries:
        plan = stage.plan(owner, loaded, entry, journal=[transition(n) for n in range(100)])
        stage.commit(plan)
        loaded = replace(loaded, version=plan.version, cursor=entry)

    assert stage.raw.xlen(stage.keys.journal("a")) <= 210


def test_journal_that_takes_no_entry_costs_no_commit(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    stage.raw.xadd(stage.keys.journal("a"), {"x": "y"}, id=LAST_ID)
    [entry] = stage.feed("a")

    stage.commit(stage.plan(owner, loaded, entry, journal=[transition()]))

    assert stage.agent("a")["version"] == "1"


def test_damaged_counters_and_events_stop_nobody(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    for key in (stage.keys.counters, stage.keys.events):
        stage.raw.delete(key)
        stage.raw.set(key, "junk")

    stage.commit(stage.plan(owner, loaded, entry, dead=[DeadAppend(entry, "x", "", 1, {"id": "i"})]))

    assert stage.agent("a")["version"] == "1"


Keyed = Callable[[Keys], str]
OWN_KEYS: dict[str, Keyed] = {
    "agent": lambda keys: keys.agent("a"),
    "mailbox": lambda keys: keys.mailbox("a"),
    "outbox": lambda keys: keys.outbox("a"),
    "dead": lambda keys: keys.dead("a"),
    "journal": lambda keys: keys.journal("a"),
    "fate": lambda keys: keys.fate("a"),
    "held": lambda keys: keys.held,
    "effects": lambda keys: keys.effects,
    "bell": lambda keys: keys.bell,
    "effect": lambda keys: keys.effect("birth:1-1:1"),
}


@pytest.mark.parametrize("key", OWN_KEYS)
def test_wrong_type_at_any_key_of_the_agent_refuses_the_commit_whole(
    stage: Stage, unchanged: Unchanged, key: str
) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    name = OWN_KEYS[key](stage.keys)
    stage.raw.delete(name)
    stage.raw.set(name, "junk")
    plan = stage.plan(
        owner, loaded, entry, emits=[emit("a")], effects=[effect()], dead=[DeadAppend(entry, "x", "", 1, {})]
    )

    with unchanged(), pytest.raises(CorruptKey, match=name.replace("{", r"\{").replace("}", r"\}")):
        stage.commit(plan)


@pytest.mark.parametrize("field", ["version", "cursor"])
def test_missing_field_of_the_record_refuses_the_commit_whole(
    stage: Stage, unchanged: Unchanged, field: str
) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.raw.hdel(stage.keys.agent("a"), field)

    with unchanged(), pytest.raises(CorruptKey):
        stage.commit(stage.plan(owner, loaded, entry))
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(reload(stage.keys, owner))


@pytest.mark.parametrize("key", ["outbox", "dead"])
def test_stream_without_ids_left_refuses_the_commit_whole(
    stage: Stage, unchanged: Unchanged, key: str
) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.raw.xadd(OWN_KEYS[key](stage.keys), {"x": "y"}, id=LAST_ID)

    with unchanged(), pytest.raises(CorruptKey, match="ids"):
        stage.commit(stage.plan(owner, loaded, entry, emits=[emit("a")]))


@pytest.mark.parametrize("field", ["type", "birth", "state", "schema", "version", "cursor"])
def test_claim_of_a_record_that_lacks_a_field_is_refused(
    stage: Stage, unchanged: Unchanged, field: str
) -> None:
    stage.register("a")
    stage.start("a")
    stage.raw.hdel(stage.keys.agent("a"), field)

    with unchanged(), pytest.raises(CorruptKey, match=field):
        stage.claim("a")


@pytest.mark.parametrize("name", ["agent", "mailbox", "exits"])
def test_claim_with_a_wrong_type_is_refused(stage: Stage, unchanged: Unchanged, name: str) -> None:
    stage.register("a")
    incarnation = stage.start("a")
    key = stage.keys.exits if name == "exits" else OWN_KEYS[name](stage.keys)
    stage.raw.delete(key)
    stage.raw.set(key, "junk")
    owner = Owner("a", incarnation, "t", "n1")

    with unchanged(), pytest.raises(CorruptKey):
        stage.do(claim(stage.keys, stage.limits, owner, pid=1))


@pytest.mark.parametrize("field", ["trying", "careful_until"])
def test_claim_of_unreadable_notes_is_refused(stage: Stage, unchanged: Unchanged, field: str) -> None:
    stage.register("a")
    stage.start("a")
    stage.raw.hset(stage.keys.agent("a"), field, "junk")

    with unchanged(), pytest.raises(CorruptKey, match=field):
        stage.claim("a")


def fenced_calls(stage: Stage, owner: Owner, entry: str = "1-1") -> list[Call[Any]]:
    return [
        reload(stage.keys, owner),
        mark_trying(stage.keys, owner, entry, 0, 0),
        release(stage.keys, owner, reason="drained"),
        unblocked(stage.keys, owner),
    ]


def test_every_step_of_a_stranger_is_fenced(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    for stranger in (replace(owner, token="x"), replace(owner, incarnation=2), replace(owner, agent="ghost")):
        for call in fenced_calls(stage, stranger):
            with unchanged(), pytest.raises(Fenced):
                stage.do(call)


def test_every_step_on_a_key_of_the_wrong_type_says_so(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    stage.raw.delete(stage.keys.agent("a"))
    stage.raw.set(stage.keys.agent("a"), "junk")
    for call in fenced_calls(stage, owner):
        with unchanged(), pytest.raises(CorruptKey):
            stage.do(call)


def test_release_and_trying_may_be_repeated(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    for call in fenced_calls(stage, owner, stage.feed("a")[0]):
        stage.do(call)
        with unchanged():
            stage.do(call)


def test_state_comes_back_as_it_was_written(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    state = json.dumps({"big": 2**63 + 1, "list": [], "text": "ü\u0000", "none": None}, ensure_ascii=False)
    stage.commit(stage.plan(owner, loaded, entry, state=state))

    assert stage.do(reload(stage.keys, owner)).state == state


def test_commit_call_may_be_repeated_by_the_connection(stage: Stage) -> None:
    owner, loaded = stage.live("a")

    assert commit(stage.keys, stage.limits, stage.plan(owner, loaded, "1-1")).repeatable
