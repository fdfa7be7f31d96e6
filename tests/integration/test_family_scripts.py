"""Spawn, StopChild, Monitor and notices on a real server: whole with their commit, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import redis

from regrow_signals.commits import DirectiveAppend
from regrow_signals.decisions import Bond, Down, Register
from regrow_signals.deletion import delete_agent
from regrow_signals.errors import CorruptKey, DirectiveRefused
from regrow_signals.families import (
    DemonitorAppend,
    MonitorAppend,
    ParentAppend,
    SpawnAppend,
    StopChildAppend,
)
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.notices import Notice
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, emit


@pytest.fixture
def stage(connection: Any, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


def child(name: str = "w", tag: str = "w", **fields: Any) -> Register:
    return Register(name, "desk", "helpdesk/boss.children", parent="boss", tag=tag, told=True, **fields)


def spawn(record: Register | None = None, entry: str = "1-1") -> SpawnAppend:
    return SpawnAppend(entry, record or child(), '{"id":"w"}', "request-1")


class Boss:
    """An agent that lives and commits once for each call."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner, self.loaded = stage.live("boss")

    def commit(self, *others: DirectiveAppend, emits: Any = ()) -> Any:
        [entry] = self.stage.feed("boss")
        plan = self.stage.plan(self.owner, self.loaded, entry, others=list(others), emits=emits)
        reply = self.stage.commit(plan)
        self.loaded = replace(self.loaded, version=plan.version, cursor=entry)
        return plan, reply


def test_a_child_is_registered_asked_for_and_reached_in_one_step(stage: Stage) -> None:
    boss = Boss(stage)
    stage.raw.delete(stage.keys.exits)
    boss.commit(spawn(), emits=[emit("w")])

    record = stage.agent("w")
    assert (record["status"], record["parent"], record["tag"]) == ("registered", "boss", "w")
    assert record["supervisor"] == "helpdesk/boss.children"
    first, second = stage.entries(stage.keys.mailbox("w"))
    assert (first["type"], first["notice"]) == ("agent.created", "1")
    assert json.loads(first["data"]) == {"id": "w", "parent": "boss"} and second["type"] == "invoice.due"
    [asked] = stage.entries(stage.keys.exits)
    assert (asked["op"], asked["child"], asked["parent"]) == ("spawn", "w", "boss")
    assert stage.agent("boss")["child:w"] == "w" and stage.agent("boss")["children"] == "1"
    assert stage.raw.xlen(stage.keys.dead("boss")) == 0


def test_a_repeat_of_a_commit_that_landed_spawns_nothing(stage: Stage, unchanged: Unchanged) -> None:
    boss = Boss(stage)
    plan, _ = boss.commit(spawn())

    with unchanged():
        assert stage.commit(plan).landed_before


def test_a_fenced_commit_spawns_nothing(stage: Stage) -> None:
    boss = Boss(stage)
    stage.start("boss")

    with pytest.raises(Exception, match="not the current one"):
        boss.commit(spawn())
    assert stage.agent("w") == {}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (child("v"), "tag_in_use"),
        (child("w", tag="x"), "id_in_use"),
        (child("boss", tag="x"), "id_in_use"),
        (child("stranger", tag="x"), "id_in_use"),
        (replace(child(), type="other"), "id_in_use"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    stage: Stage, unchanged: Unchanged, given: Register, reason: str
) -> None:
    boss = Boss(stage)
    stage.register("stranger")
    boss.commit(spawn())
    [entry] = stage.feed("boss")
    plan = stage.plan(boss.owner, boss.loaded, entry, others=[spawn(given, entry)], emits=[emit("w")])

    with unchanged(), pytest.raises(DirectiveRefused) as refused:
        stage.commit(plan)
    assert (refused.value.entry, refused.value.reason) == (entry, reason)


def test_two_of_one_commit_are_looked_at_together(stage: Stage, unchanged: Unchanged) -> None:
    boss = Boss(stage)
    [entry] = stage.feed("boss")
    for second in (child("v"), child("w", tag="x")):
        plan = stage.plan(boss.owner, boss.loaded, entry, others=[spawn(), spawn(second, "2-2")])
        with unchanged(), pytest.raises(DirectiveRefused) as refused:
            stage.commit(plan)
        assert refused.value.entry == "2-2"


def test_the_number_of_children_is_bounded(
    stage: Stage, unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrow_signals.families.MAX_CHILDREN", 2)
    boss = Boss(stage)
    boss.commit(spawn())
    boss.commit(spawn(child("v", tag="v")))
    [entry] = stage.feed("boss")
    plan = stage.plan(boss.owner, boss.loaded, entry, others=[spawn(child("u", tag="u"))])

    with unchanged(), pytest.raises(DirectiveRefused, match="too_many_children"):
        stage.commit(plan)
    stage.decide(bonds=[Bond("boss", "v", "v", False)])
    assert not stage.commit(plan).landed_before


def test_a_wrong_type_is_named_and_nothing_is_written(stage: Stage, unchanged: Unchanged) -> None:
    boss = Boss(stage)
    stage.raw.set(stage.keys.mailbox("w"), "junk")
    [entry] = stage.feed("boss")
    plan = stage.plan(boss.owner, boss.loaded, entry, others=[spawn()])

    with unchanged(), pytest.raises(CorruptKey, match="mailbox:w"):
        stage.commit(plan)


def test_a_tag_is_freed_by_the_child_that_has_it_alone(stage: Stage) -> None:
    boss = Boss(stage)
    boss.commit(spawn())
    stage.decide(bonds=[Bond("boss", "w", "another", False), Bond("nobody", "w", "w", True)])
    assert stage.agent("boss")["child:w"] == "w" and stage.agent("nobody") == {}

    stage.decide(bonds=[Bond("boss", "w", "w", False), Bond("boss", "w", "w", False)])

    assert "child:w" not in stage.agent("boss") and stage.agent("boss")["children"] == "0"
    boss.commit(spawn())  # it is registered: started again, not created again
    assert len(stage.entries(stage.keys.mailbox("w"))) == 1 and stage.agent("boss")["children"] == "1"


def test_a_stop_names_the_child_that_has_the_tag_or_nobody(stage: Stage) -> None:
    boss = Boss(stage)
    boss.commit(spawn())
    stage.raw.delete(stage.keys.exits)
    boss.commit(StopChildAppend("nobody", "why", "r-1"), StopChildAppend("w", "why", "r-2"))

    [asked] = stage.entries(stage.keys.exits)
    assert (asked["op"], asked["child"], asked["reason"], asked["parent"]) == (
        "stop_child",
        "w",
        "why",
        "boss",
    )


def test_the_parent_changes_with_the_commit(stage: Stage) -> None:
    boss = Boss(stage)
    boss.commit(ParentAppend("somebody"))
    assert stage.agent("boss")["parent"] == "somebody"


# Notices.


def note(n: int = 1, agent: str = "boss") -> Notice:
    return Notice(agent, f"n-{n}", "agent.child.exit", {"n": n})


def test_a_notice_has_room_of_its_own_and_past_it_is_an_event(stage: Stage) -> None:
    stage.register("boss", max_mailbox=2)
    stage.limits = Limits(extra_room=2)
    stage.feed("boss", 2)
    stage.decide(notices=[note(n) for n in range(1, 5)])

    assert [entry["id"] for entry in stage.entries(stage.keys.mailbox("boss"))][2:] == ["n-1", "n-2"]
    dropped = [one for one in stage.entries(stage.keys.events) if one["event"] == "notice_dropped"]
    assert [(one["agent"], one["reason"]) for one in dropped] == [("boss", "mailbox_full")] * 2


@pytest.mark.parametrize("wrong", ["mailbox", "agent"])
def test_a_damaged_receiver_stops_no_decision(stage: Stage, wrong: str) -> None:
    stage.register("boss", "other")
    key = getattr(stage.keys, wrong)("boss")
    stage.raw.delete(key)
    stage.raw.set(key, "junk")
    stage.decide(notices=[note(), note(agent="other"), note(agent="nobody")], downs=[Down("boss", "d", {})])

    assert [entry["id"] for entry in stage.entries(stage.keys.mailbox("other"))] == ["n-1"]
    assert stage.raw.exists(stage.keys.mailbox("nobody")) == 0


# Monitors.


def watch(agent: str = "seen", n: int = 1) -> MonitorAppend:
    return MonitorAppend("1-1", agent, f"m-{n}", "agent.down", {"id": agent, "reason": "noproc"})


def down(reason: str = "killed") -> Down:
    return Down("seen", "agent.down", {"id": "seen", "reason": reason})


def test_whoever_watches_a_life_is_told_of_its_end_once(stage: Stage) -> None:
    stage.live("seen")
    boss = Boss(stage)
    boss.commit(watch(n=1), watch(n=2))
    stage.decide(downs=[down(), down()])

    [told] = stage.entries(stage.keys.mailbox("boss"))
    assert (told["id"], told["type"]) == ("m-2", "agent.down")
    assert json.loads(told["data"])["reason"] == "killed"
    assert not any(field.startswith("monitor:") for field in stage.agent("seen"))


@pytest.mark.parametrize("how", ["never registered", "ended", "damaged"])
def test_where_nothing_lives_it_is_told_at_once(stage: Stage, how: str) -> None:
    if how == "ended":
        owner, _ = stage.live("seen")
        stage.die(owner)
    if how == "damaged":
        stage.raw.set(stage.keys.agent("seen"), "junk")
    boss = Boss(stage)
    boss.commit(watch(), watch(n=2))

    told = stage.entries(stage.keys.mailbox("boss"))
    assert [json.loads(one["data"])["reason"] for one in told] == ["noproc", "noproc"]


def test_one_that_is_spawned_in_the_same_step_is_watched(stage: Stage) -> None:
    boss = Boss(stage)
    boss.commit(watch("w"), spawn())

    assert stage.agent("w")["monitor:boss"].split(" ")[0] == "m-1"
    assert stage.entries(stage.keys.mailbox("boss")) == []


def test_a_monitor_is_taken_back(stage: Stage) -> None:
    stage.live("seen")
    boss = Boss(stage)
    boss.commit(watch())
    boss.commit(DemonitorAppend("seen"), DemonitorAppend("nobody"))
    stage.decide(downs=[down()])

    assert stage.entries(stage.keys.mailbox("boss")) == []


def test_a_watcher_that_was_made_anew_is_told_nothing(stage: Stage) -> None:
    stage.live("seen")
    boss = Boss(stage)
    boss.commit(watch())
    stage.die(boss.owner)
    stage.connection.run(delete_agent(stage.keys, stage.limits, "boss", force=True))
    stage.decide(register=[Register("boss", "desk", "helpdesk")])
    stage.decide(downs=[down()])

    assert stage.entries(stage.keys.mailbox("boss")) == []


def test_the_number_of_watchers_is_bounded(
    stage: Stage, unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrow_signals.families.MAX_MONITORS", 1)
    stage.live("seen")
    stage.raw.hset(stage.keys.agent("seen"), "monitor:another", "m b")
    boss = Boss(stage)
    [entry] = stage.feed("boss")
    plan = stage.plan(boss.owner, boss.loaded, entry, others=[watch()])

    with unchanged(), pytest.raises(DirectiveRefused, match="too_many_monitors"):
        stage.commit(plan)


# Ephemeral children.


def test_an_ended_agent_is_deleted_with_all_that_is_its_own(stage: Stage) -> None:
    owner, _ = stage.live("w")
    stage.die(owner)
    stage.decide(ended=["w"])

    assert not [key for key in stage.raw.keys("*") if str(key).endswith(":w")]
    assert stage.entries(stage.keys.events)[-1]["reason"] == "ended"


@pytest.mark.parametrize("left", ["signal", "letter", "life"])
def test_one_with_anything_left_in_it_stays(stage: Stage, left: str) -> None:
    owner, _ = stage.live("w")
    if left != "life":
        stage.die(owner)
    if left == "signal":
        stage.feed("w")
    if left == "letter":
        stage.raw.xadd(stage.keys.dead("w"), {"reason": "x"})
    stage.decide(ended=["w"])

    assert stage.agent("w")["type"] == "desk"
