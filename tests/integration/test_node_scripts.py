"""A node's life in Redis: join, beat, report, drain, leave; and the leader's lease and requests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import redis

from regrow_signals.agents import commit
from regrow_signals.connection import Connection
from regrow_signals.errors import BadSetting, CorruptKey, Refused
from regrow_signals.keys import Keys
from regrow_signals.leadership import acquire, renew, request, resign
from regrow_signals.nodes import ExitReport, beat, join, node_event, report_exit, report_start_failed
from tests.conftest import wait_until
from tests.integration.conftest import Unchanged
from tests.integration.stage import LAST_ID, Stage


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


def spoil(stage: Stage, key: str) -> None:
    stage.raw.delete(key)
    stage.raw.set(key, "junk")


def test_node_that_joins_is_known_and_the_watchdog_hears_of_it(stage: Stage) -> None:
    types: dict[str, dict[str, str | int]] = {"desk": {"code": "c1", "schema": 2}}
    stage.do(
        join(
            stage.keys, "n1", kind="worker", host="h", pid=7, labels={"zone": "a"}, types=types, version="0.1"
        )
    )

    record = stage.raw.hgetall(stage.keys.node("n1"))
    assert json.loads(record["types"]) == types and json.loads(record["labels"]) == {"zone": "a"}
    assert stage.raw.zscore(stage.keys.nodes, "n1") == float(record["started_ms"])
    [entry] = stage.entries(stage.keys.exits)
    assert (entry["kind"], entry["node"], entry["event"], entry["node_kind"]) == (
        "node",
        "n1",
        "joined",
        "worker",
    )


def test_join_repeated_writes_nothing(stage: Stage, unchanged: Unchanged) -> None:
    stage.node()
    with unchanged():
        stage.node()


def test_beat_stamps_node_and_agents_and_names_the_stale(stage: Stage) -> None:
    stage.node()
    stage.live("a")
    old, _ = stage.live("b")
    stage.start("b")
    ended, _ = stage.live("c")
    stage.die(ended)

    running = [("a", 1), ("b", old.incarnation), ("c", 1), ("ghost", 1)]
    reply = stage.do(beat(stage.keys, "n1", running, load=4))

    assert reply.known and reply.stale == [("b", 1), ("c", 1), ("ghost", 1)]
    assert stage.raw.zscore(stage.keys.agents, "a") == stage.raw.zscore(stage.keys.nodes, "n1")
    assert stage.raw.zscore(stage.keys.agents, "b") == 0
    assert stage.raw.zscore(stage.keys.agents, "ghost") is None
    assert stage.raw.hget(stage.keys.node("n1"), "load") == "4"
    assert not stage.raw.exists(stage.keys.agent("ghost"))


def test_beat_leaves_an_agent_with_a_damaged_record_alone(stage: Stage) -> None:
    stage.node()
    spoil(stage, stage.keys.agent("a"))

    assert stage.do(beat(stage.keys, "n1", [("a", 1)], load=1)).stale == []


def test_node_declared_lost_learns_it_from_its_beat(stage: Stage, unchanged: Unchanged) -> None:
    stage.live("a")
    with unchanged():
        assert not stage.do(beat(stage.keys, "n1", [("a", 1)], load=1)).known


def test_exit_is_recorded_once_with_reason_charge_and_signal_in_hand(stage: Stage) -> None:
    owner, _ = stage.live("a")
    [entry] = stage.feed("a")

    assert stage.die(owner, charge="kill", in_hand=entry, reason="signal:SIGKILL") == "recorded"

    record = stage.agent("a")
    assert (record["ended"], record["owner"], record["status"], record["pid"]) == ("1", "", "exited", "")
    assert (record["charge"], record["trying"]) == ("kill", f"{entry} 0 0")
    assert (record["exit_reason"], record["last_error"]) == ("signal:SIGKILL", "boom")
    exited = stage.entries(stage.keys.exits)[-1]
    assert (exited["kind"], exited["reason"], exited["charged"]) == ("exited", "signal:SIGKILL", "1")
    assert exited["supervisor"] == "helpdesk"
    assert stage.counters()["exits_total|reason=signal"] == 1


def test_exit_reported_again_or_of_an_old_life_changes_nothing(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    stage.die(owner)
    with unchanged():
        assert stage.die(owner) == "known"
    stage.start("a")
    with unchanged():
        assert stage.die(owner) == "stale"
        assert stage.die(replace(owner, agent="ghost")) == "stale"


def test_superseded_process_does_not_end_the_life_that_bears_its_number(
    stage: Stage, unchanged: Unchanged
) -> None:
    owner, _ = stage.live("a")
    with unchanged():
        assert stage.die(owner, reason="superseded", charge="none") == "stale"


def test_superseded_process_of_a_claim_that_redis_has_lost_is_the_end_of_that_life(stage: Stage) -> None:
    owner, _ = stage.live("a")
    stage.raw.hset(stage.keys.agent("a"), mapping={"owner": "", "status": "starting"})  # before its claim

    assert stage.die(owner, reason="superseded", charge="none") == "recorded"

    assert stage.agent("a")["ended"] == "1"
    assert stage.entries(stage.keys.exits)[-1]["reason"] == "superseded"
    assert stage.die(owner, reason="superseded", charge="none") == "known"


def test_signal_already_committed_is_not_noted_as_in_hand(stage: Stage) -> None:
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry))
    stage.die(owner, in_hand=entry)

    assert stage.agent("a")["trying"] == ""


READING = "deadline:reading"
TOO_SLOW = "unreadable_state:reading it took longer than the deadline"


def test_a_state_that_twice_running_took_too_long_to_read_is_unreadable(stage: Stage) -> None:
    told: list[str] = []
    bases: set[str] = set()
    for _ in range(3):
        owner, loaded = stage.live("a")
        bases.add(f"version {loaded.version} at {loaded.cursor}")
        stage.die(owner, charge="none", reason=READING)
        told.append(stage.agent("a")["exit_reason"])

    [base] = bases
    first = f"{READING} {base}"
    assert told == [first, TOO_SLOW, first]
    ends = [each["reason"] for each in stage.entries(stage.keys.exits) if each["kind"] == "exited"]
    assert ends == told
    counters = stage.counters()
    assert counters["exits_total|reason=deadline"] == 2
    assert counters["exits_total|reason=unreadable_state"] == 1


@pytest.mark.parametrize("between", ["a commit", "another end"])
def test_who_was_read_in_between_is_not_unreadable(stage: Stage, between: str) -> None:
    owner, _ = stage.live("a")
    stage.die(owner, charge="none", reason=READING)
    owner, loaded = stage.live("a")
    if between == "a commit":
        [entry] = stage.feed("a")
        stage.do(commit(stage.keys, stage.limits, stage.plan(owner, loaded, entry)))
    else:
        stage.die(owner)
        owner, _ = stage.live("a")

    stage.die(owner, charge="none", reason=READING)

    assert stage.agent("a")["exit_reason"].startswith(READING)


def test_unknown_kind_of_reason_makes_no_label_of_its_own(stage: Stage) -> None:
    owner, _ = stage.live("a")
    stage.die(owner, reason="strange-17:x")

    assert "exits_total|reason=other" in stage.counters()


def test_error_is_cut_and_cleaned(stage: Stage) -> None:
    owner, _ = stage.live("a")
    report = ExitReport("n1", "a", owner.incarnation, "exception:X", "none", True, "\ud800" + "ü" * 50_000)
    stage.do(report_exit(stage.keys, report))

    assert len(stage.agent("a")["last_error"].encode()) <= 8192
    assert stage.entries(stage.keys.exits)[-1]["error"].startswith("\\ud800ü")


def test_failed_start_is_an_exit_that_counts(stage: Stage) -> None:
    stage.register("a")
    stage.start("a")

    assert stage.do(report_start_failed(stage.keys, "n1", "a", 1, "no such type")) == "recorded"
    exited = stage.entries(stage.keys.exits)[-1]
    assert (exited["reason"], exited["charged"]) == ("start_failed:no such type", "1")


def test_draining_and_left_are_told_once_and_leave_no_key(stage: Stage, unchanged: Unchanged) -> None:
    stage.node()
    stage.raw.xadd(stage.keys.control("n1"), {"order": "x"})
    stage.do(node_event(stage.keys, "n1", "draining"))
    assert stage.raw.hget(stage.keys.node("n1"), "status") == "draining"
    with unchanged():
        stage.do(node_event(stage.keys, "n1", "draining"))
    stage.do(node_event(stage.keys, "n1", "left"))
    with unchanged():
        stage.do(node_event(stage.keys, "n1", "left"))

    told = [one["event"] for one in stage.entries(stage.keys.exits) if one["kind"] == "node"]
    assert told == ["joined", "draining", "left"]
    assert not stage.raw.exists(stage.keys.node("n1"), stage.keys.control("n1"), stage.keys.nodes)


@pytest.mark.parametrize("name", ["node", "nodes", "exits"])
def test_wrong_type_refuses_a_nodes_steps_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    stage.live("a")
    stage.node()
    key = stage.keys.node("n1") if name == "node" else getattr(stage.keys, name)
    spoil(stage, key)
    with unchanged(), pytest.raises(CorruptKey):
        stage.node()
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(node_event(stage.keys, "n1", "left"))
    if name != "exits":
        with unchanged(), pytest.raises(CorruptKey):
            stage.do(beat(stage.keys, "n1", [("a", 1)], load=1))


@pytest.mark.parametrize("name", ["agent", "exits"])
def test_wrong_type_refuses_an_exit_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    owner, _ = stage.live("a")
    spoil(stage, stage.keys.exits if name == "exits" else stage.keys.agent("a"))
    with unchanged(), pytest.raises(CorruptKey):
        stage.die(owner)


def test_watchdogs_mailbox_without_ids_left_refuses_whole(stage: Stage, unchanged: Unchanged) -> None:
    owner, _ = stage.live("a")
    stage.register("b")
    stage.start("b")
    stage.raw.xadd(stage.keys.exits, {"x": "y"}, id=LAST_ID)
    for step in (lambda: stage.die(owner), stage.node, lambda: stage.claim("b")):
        with unchanged(), pytest.raises(CorruptKey, match="ids"):
            step()


def test_one_leads_at_a_time_and_only_it_renews(stage: Stage, unchanged: Unchanged) -> None:
    assert stage.do(acquire(stage.keys, "one", 10_000))
    with unchanged():
        assert not stage.do(acquire(stage.keys, "two", 10_000))
        assert not stage.do(renew(stage.keys, "two", 10_000))
        stage.do(resign(stage.keys, "two"))
    assert stage.do(renew(stage.keys, "one", 10_000))
    assert stage.do(acquire(stage.keys, "one", 10_000))
    stage.do(resign(stage.keys, "one"))
    assert stage.do(acquire(stage.keys, "two", 10_000))
    told = [one["event"] for one in stage.entries(stage.keys.events)]
    assert told == ["leader_elected", "leader_resigned", "leader_elected"]


def test_lease_runs_out_by_itself(stage: Stage) -> None:
    stage.do(acquire(stage.keys, "one", 100))

    wait_until(lambda: stage.do(acquire(stage.keys, "two", 10_000)), "the lease of one has run out")


@pytest.mark.parametrize("lease", [-1, 0, 1])
def test_lease_that_cannot_work_is_refused(stage: Stage, lease: int) -> None:
    with pytest.raises(BadSetting):
        stage.do(acquire(stage.keys, "one", lease))


def test_wrong_type_at_the_lease_is_said(stage: Stage, unchanged: Unchanged) -> None:
    stage.raw.lpush(stage.keys.leader, "junk")
    for call in (
        acquire(stage.keys, "one", 1000),
        renew(stage.keys, "one", 1000),
        resign(stage.keys, "one"),
    ):
        with unchanged(), pytest.raises(CorruptKey):
            stage.do(call)


def test_request_is_taken_once(stage: Stage, unchanged: Unchanged) -> None:
    call = request(stage.keys, "r-1", "restart_child", {"path": "helpdesk", "child": "a"})
    assert stage.do(call) is True
    with unchanged():
        assert stage.do(call) is False

    [entry] = stage.entries(stage.keys.exits)
    assert (entry["kind"], entry["request"], entry["op"]) == ("request", "r-1", "restart_child")
    assert (entry["path"], entry["child"]) == ("helpdesk", "a")


def test_request_to_a_watchdog_that_reads_nothing_is_refused(
    stage: Stage, unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrow_signals.leadership.MAX_EXITS", 2)
    stage.node("n1")
    stage.node("n2")

    with unchanged(), pytest.raises(Refused, match="watchdog_busy"):
        stage.do(request(stage.keys, "r-1", "which_children", {}))


@pytest.mark.parametrize("name", ["exits", "reply"])
def test_wrong_type_refuses_a_request_whole(stage: Stage, unchanged: Unchanged, name: str) -> None:
    spoil(stage, stage.keys.exits if name == "exits" else stage.keys.reply("r-1"))
    with unchanged(), pytest.raises(CorruptKey):
        stage.do(request(stage.keys, "r-1", "which_children", {}))


def test_a_node_that_joins_is_told_whether_there_are_pooled_agents(stage: Stage) -> None:
    def joined(node: str) -> bool:
        call = join(stage.keys, node, kind="worker", host="h", pid=7, labels={}, types={}, version="0.1")
        return bool(stage.do(call))

    assert not joined("n1")
    stage.raw.sadd(stage.keys.classes, "desk")
    assert joined("n2")
    assert joined("n2"), "repeated"
