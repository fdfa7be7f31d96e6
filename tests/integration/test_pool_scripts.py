"""Pooled agents in Redis: queued once, claimed by one slot, let go, and freed where a slot is stuck or dead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import redis

from regrow_signals import pool
from regrow_signals.agents import Owner, commit
from regrow_signals.connection import Connection
from regrow_signals.decisions import Fence, PooledStart, StartOrder
from regrow_signals.effect_store import claim_effect, settle_effect
from regrow_signals.errors import CorruptKey, Fenced
from regrow_signals.keys import Keys
from regrow_signals.mailbox import dead_retry
from regrow_signals.nodes import ExitReport, report_exit
from regrow_signals.pool import Claimed, Claims, NodeGone, SlotName
from regrow_signals.relay import deliver_held
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, effect, emit

QUEUE = "desk@1"
SLOT = SlotName("n1", 1)
OTHER = SlotName("n1", 2)


@dataclass
class PoolStage(Stage):
    """``pooled`` agents of class ``desk``, slots 1 and 2 of node n1."""

    def pooled(self, *agents: str) -> None:
        self.node()
        self.register(*agents)
        self.decide(pooled=[PooledStart(agent, 1, "desk") for agent in agents])

    def restart(self, agent: str) -> int:
        incarnation = int(self.agent(agent)["incarnation"]) + 1
        self.decide(pooled=[PooledStart(agent, incarnation, "desk")])
        return incarnation

    def take(self, slot: SlotName = SLOT, *, most: int = 32, token: str = "t", signals: int = 100) -> Claims:
        call = pool.claim_agents(
            self.keys, self.limits, slot, [QUEUE], pid=42, token=token, most=most, signals=signals
        )
        return self.connection.call(call)

    def taken(self, *agents: str, slot: SlotName = SLOT, token: str = "t") -> dict[str, Claimed]:
        """One signal each, and all of them claimed."""
        for agent in agents:
            self.feed(agent)
        return {each.owner.agent: each for each in self.take(slot, token=token).agents}

    def let_go(self, owners: Sequence[Owner], slot: SlotName = SLOT) -> int:
        return self.connection.call(pool.release_agents(self.keys, slot, owners))

    def apply(self, claimed: Claimed) -> None:
        self.commit(self.plan(claimed.owner, claimed.loaded, claimed.entries[-1][0]))

    def free(
        self, slot: SlotName = SLOT, *, spare: str = "", ended: ExitReport | None = None
    ) -> tuple[int, str]:
        return self.connection.call(pool.free_slot(self.keys, slot, spare=spare, ended=ended))

    def queue(self) -> list[str]:
        listed: list[str] = self.raw.lrange(self.keys.ready(QUEUE), 0, -1)  # type: ignore[assignment]
        return listed

    def held(self) -> set[str]:
        members: set[str] = self.raw.smembers(self.keys.pool_claims("n1"))  # type: ignore[assignment]
        return members


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> PoolStage:
    return PoolStage(connection, raw, keys)


def died(claimed: Claimed, reason: str = "signal:SIGKILL") -> ExitReport:
    owner = claimed.owner
    return ExitReport("n1", owner.agent, owner.incarnation, reason, "kill", True, "", claimed.entries[0][0])


# In the queue.


def test_signals_queue_an_agent_once_and_ring_once(stage: PoolStage) -> None:
    stage.pooled("a", "b")

    stage.feed("a", 3)
    stage.feed("b", 2)

    assert stage.queue() == ["a", "b"]
    assert stage.raw.lrange(stage.keys.ready_bell(QUEUE), 0, -1) == ["1"]
    assert (stage.agent("a")["queued"], stage.agent("a")["status"]) == ("1", "queued")


def test_an_agent_that_never_started_or_has_a_process_is_not_queued(stage: PoolStage) -> None:
    stage.register("new", "own")
    stage.node()
    stage.start("own")

    stage.feed("new")
    stage.feed("own")

    assert stage.queue() == []


def test_a_start_queues_whoever_has_signals_already(stage: PoolStage) -> None:
    stage.register("a", "b")
    stage.feed("a")

    stage.decide(pooled=[PooledStart("a", 1, "desk"), PooledStart("b", 1, "desk")])

    assert stage.queue() == ["a"]
    assert stage.agent("b")["status"] == "idle"
    assert stage.raw.smembers(stage.keys.classes) == {"desk"}


def test_a_stopped_agent_is_not_queued_until_its_next_start(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.decide(fences=[Fence("a", 1, "shutdown")])

    stage.feed("a")
    assert stage.queue() == []

    stage.restart("a")
    assert stage.queue() == ["a"]


def test_every_way_into_a_mailbox_queues(stage: PoolStage) -> None:
    stage.pooled("a", "b", "c", "d")
    claimed = stage.taken("a")["a"]
    emits, effects = [emit("b"), emit("c", 2)], [effect()]
    stage.raw.hset(stage.keys.agent("c"), "max_mailbox", "0")
    plan = stage.plan(claimed.owner, claimed.loaded, claimed.entries[-1][0], emits=emits, effects=effects)
    stage.commit(plan)
    stage.let_go([claimed.owner])
    assert stage.queue() == ["b"]

    stage.raw.hset(stage.keys.agent("c"), "max_mailbox", "5")
    stage.do(deliver_held(stage.keys, stage.limits, "a"))
    assert stage.queue() == ["b", "c"]

    taken = stage.do(claim_effect(stage.keys, effects[0].effect_id, node="n1", executor="x", token="e"))
    stage.do(settle_effect(stage.keys, taken.effect_id, "e", "done", "{}"))
    assert stage.queue() == ["b", "c", "a"]

    letter = stage.raw.xadd(stage.keys.dead("d"), {"id": "s", "type": "t", "source": "x", "data": "{}"})
    stage.connection.run(dead_retry(stage.keys, stage.limits, "d", str(letter)))
    assert stage.queue() == ["b", "c", "a", "d"]


def test_an_agent_freed_from_its_full_outbox_is_queued_again(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.limits = replace(stage.limits, max_outbox=1)
    claimed = stage.taken("a")["a"]
    effects = [effect(1), effect(2)]
    plan = stage.plan(claimed.owner, claimed.loaded, claimed.entries[-1][0], effects=effects)
    assert stage.commit(plan).blocked
    stage.let_go([claimed.owner])
    stage.feed("a")
    assert (stage.queue(), stage.agent("a")["status"]) == ([], "blocked")

    stage.do(claim_effect(stage.keys, effects[0].effect_id, node="n1", executor="x", token="e"))
    stage.do(settle_effect(stage.keys, effects[0].effect_id, "e", "done", "{}"))

    assert (stage.queue(), stage.agent("a")["status"]) == (["a"], "queued")


def test_a_queue_that_was_lost_is_made_anew_by_the_next_signal(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.feed("a")
    stage.raw.delete(stage.keys.ready(QUEUE))

    stage.feed("a")

    assert stage.queue() == ["a"]


def test_a_damaged_queue_costs_no_sender_its_signal(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.raw.set(stage.keys.ready(QUEUE), "junk")
    stage.raw.set(stage.keys.ready_bell(QUEUE), "junk")

    assert len(stage.feed("a")) == 1
    with pytest.raises(CorruptKey, match="ready"):
        stage.take()

    stage.raw.delete(stage.keys.ready(QUEUE))
    stage.feed("a")
    assert stage.queue() == ["a"]


# Claimed.


def test_a_claim_takes_agents_in_turn_each_with_its_own_token_and_its_signals(stage: PoolStage) -> None:
    stage.pooled("a", "b", "c")
    ids = stage.feed("a", 2)
    stage.feed("b")
    stage.feed("c")

    first = stage.take(most=2)

    a, b = first.agents
    assert (a.owner.agent, b.owner.agent, first.waiting) == ("a", "b", True)
    assert a.owner.token != b.owner.token
    assert [entry for entry, _ in a.entries] == ids
    assert a.entries[0][1]["type"] == "ticket.opened"
    assert stage.held() == {"1 a", "1 b"}
    record = stage.agent("a")
    assert (record["status"], record["worker"], record["pid"], record["queued"]) == (
        "running",
        "n1/1",
        "42",
        "",
    )
    second = stage.take(OTHER)
    assert ([each.owner.agent for each in second.agents], second.waiting) == (["c"], False)


def test_signals_beyond_a_slice_are_left_for_the_next_turn(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.feed("a", 30)

    (claimed,) = stage.take(signals=12).agents
    stage.apply(claimed)
    stage.let_go([claimed.owner])

    assert len(claimed.entries) == 12
    (again,) = stage.take().agents
    assert len(again.entries) == 18
    assert again.loaded.version == 1


def test_a_claimed_agent_is_not_queued_by_further_signals_but_by_its_release(stage: PoolStage) -> None:
    stage.pooled("a")
    claimed = stage.taken("a")["a"]
    stage.feed("a")
    assert stage.queue() == []

    stage.apply(claimed)
    assert stage.let_go([claimed.owner]) == 1

    assert (stage.queue(), stage.held()) == (["a"], set())
    assert stage.agent("a")["clean"] == "1"


def test_an_agent_without_more_to_do_rests(stage: PoolStage) -> None:
    stage.pooled("a")
    claimed = stage.taken("a")["a"]
    stage.apply(claimed)

    stage.let_go([claimed.owner])

    record = stage.agent("a")
    assert (stage.queue(), record["status"], record["owner"], record["worker"]) == ([], "idle", "", "")
    assert json.loads(record["state"]) == {"open": 1}


def test_a_release_by_who_is_not_the_owner_changes_nothing(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a")
    claimed = stage.taken("a")["a"]
    strangers = [replace(claimed.owner, token="other"), replace(claimed.owner, incarnation=2)]

    with unchanged():
        for stranger in strangers:
            assert stage.let_go([stranger], SlotName("n1", 9)) == 0


def test_ids_in_the_queue_that_are_out_of_date_are_passed_over(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    stage.feed("a")
    stage.raw.rpush(stage.keys.ready(QUEUE), "a", "gone", "b", "a")

    claims = stage.take()

    assert [each.owner.agent for each in claims.agents] == ["a"]
    assert (stage.queue(), stage.agent("b")["owner"]) == ([], "")


def test_a_node_that_is_not_known_claims_nothing(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a")
    stage.feed("a")

    with unchanged(), pytest.raises(NodeGone):
        stage.take(SlotName("lost", 1))


def test_a_record_that_cannot_be_read_does_not_cost_the_others(stage: PoolStage) -> None:
    stage.pooled("a", "b", "c", "d")
    for agent in ("a", "b", "c", "d"):
        stage.feed(agent)
    stage.raw.hset(stage.keys.agent("a"), "cursor", "junk")
    stage.raw.hset(stage.keys.agent("b"), "schema", "junk")
    stage.raw.rpush(stage.keys.ready(QUEUE), "b")
    stage.raw.delete(stage.keys.mailbox("c"))
    stage.raw.set(stage.keys.mailbox("c"), "junk")

    claims = stage.take()

    assert [each.owner.agent for each in claims.agents] == ["d"]
    unreadable = {owner.agent: why for owner, why in claims.unreadable}
    assert unreadable.keys() == {"a", "b", "c"}
    assert "cursor" in unreadable["a"] and "mailbox" in unreadable["c"]
    assert {stage.agent(agent)["queued"] for agent in "abcd"} == {""}


# Fenced.


def test_a_stop_fences_the_slot_that_has_the_agent_in_hand_and_nobody_else(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    held = stage.taken("a", "b")

    stage.decide(fences=[Fence("a", 1, "shutdown")])

    with pytest.raises(Fenced):
        stage.apply(held["a"])
    stage.apply(held["b"])
    assert stage.let_go([each.owner for each in held.values()]) == 1
    record = stage.agent("a")
    assert (record["ended"], record["owner"], record["exit_reason"], record["clean"]) == (
        "1",
        "",
        "shutdown",
        "1",
    )
    assert stage.queue() == []


def test_a_restart_fences_the_life_before(stage: PoolStage) -> None:
    stage.pooled("a")
    claimed = stage.taken("a")["a"]

    stage.restart("a")

    with pytest.raises(Fenced):
        stage.apply(claimed)
    (again,) = stage.take(OTHER, token="u").agents
    assert again.owner.incarnation == 2
    stage.apply(again)


def test_moved_to_a_process_of_its_own_an_agent_leaves_the_queue(stage: PoolStage) -> None:
    stage.pooled("a")
    stage.feed("a")

    stage.decide(starts=[StartOrder("a", 2, "n1")])

    assert stage.take().agents == []
    owner, loaded = stage.claim("a")
    assert (owner.incarnation, loaded.careful_until) == (2, "")


# Freed.


def test_the_end_of_a_slot_is_the_end_of_the_agent_in_hand_alone(stage: PoolStage) -> None:
    stage.pooled("a", "b", "c")
    held = stage.taken("a", "b", "c")
    stage.apply(held["c"])

    assert stage.free(ended=died(held["a"])) == (2, "recorded")

    assert stage.queue() == ["b"]
    record = stage.agent("a")
    assert (record["ended"], record["charge"], record["exit_reason"]) == ("1", "kill", "signal:SIGKILL")
    assert record["trying"] == f"{held['a'].entries[0][0]} 0 0"
    assert stage.entries(stage.keys.exits)[-1]["agent"] == "a"
    assert (stage.agent("b")["clean"], stage.agent("c")["clean"], stage.held()) == ("1", "1", set())
    for each in held.values():
        with pytest.raises(Fenced):
            stage.connection.call(
                commit(stage.keys, stage.limits, stage.plan(each.owner, each.loaded, "9-9"))
            )

    (other,) = stage.take(OTHER, token="u").agents
    assert (other.owner.agent, other.loaded.careful_until) == ("b", "")
    stage.restart("a")
    (again,) = stage.take(OTHER, token="v").agents
    assert (again.loaded.trying_entry, again.loaded.trying_kills) == (held["a"].entries[0][0], 1)
    assert again.loaded.careful_until == held["a"].entries[0][0]


def test_a_repeated_report_of_a_slots_end_changes_nothing(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a", "b")
    held = stage.taken("a", "b")
    stage.free(ended=died(held["a"]))

    with unchanged():
        assert stage.free(ended=died(held["a"])) == (0, "stale")


def test_a_pooled_state_that_twice_running_took_too_long_to_read_is_unreadable(stage: PoolStage) -> None:
    stage.pooled("a")
    told = []
    for _ in range(2):
        held = stage.taken("a")["a"].owner
        end = ExitReport("n1", "a", held.incarnation, "deadline:reading", "none", charged=False)
        assert stage.free(ended=end) == (0, "recorded")
        told.append(stage.entries(stage.keys.exits)[-1]["reason"])
        stage.restart("a")

    assert told[0].startswith("deadline:reading version ")
    assert told[1] == "unreadable_state:reading it took longer than the deadline"
    assert stage.counters()["exits_total|reason=unreadable_state"] == 1


def test_an_agent_that_was_freed_before_its_slot_ended_is_not_charged(stage: PoolStage) -> None:
    stage.pooled("a")
    held = stage.taken("a")
    stage.free()
    (elsewhere,) = stage.take(OTHER, token="u").agents

    assert stage.free(ended=died(held["a"])) == (0, "stale")

    stage.apply(elsewhere)


def test_a_stuck_slot_keeps_the_agent_that_it_is_in(stage: PoolStage) -> None:
    stage.pooled("a", "b", "c")
    held = stage.taken("a", "b", "c")

    assert stage.free(spare="b") == (2, "none")

    assert set(stage.queue()) == {"a", "c"}
    stage.apply(held["b"])
    with pytest.raises(Fenced):
        stage.apply(held["a"])
    assert stage.held() == {"1 b"}


def test_a_slots_own_report_of_an_end_needs_its_token(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a")
    owner = stage.taken("a")["a"].owner
    stage.free()
    (elsewhere,) = stage.take(OTHER, token="u").agents
    report = ExitReport("n1", "a", 1, "exception:x", "none", True)

    with unchanged():
        assert stage.do(report_exit(stage.keys, report, token=owner.token)) == "stale"

    assert stage.do(report_exit(stage.keys, report, token=elsewhere.owner.token)) == "recorded"


def test_a_lost_nodes_agents_go_on_elsewhere_with_care(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    stage.node("n2")
    held = stage.taken("a", "b")
    stage.apply(held["b"])

    stage.decide(lost_nodes=["n1"])

    with pytest.raises(Fenced):
        stage.apply(held["a"])
    assert stage.raw.exists(stage.keys.pool_claims("n1")) == 0
    (again,) = stage.take(SlotName("n2", 1), token="u").agents
    assert (again.owner.agent, again.owner.incarnation) == ("a", 1)
    assert again.loaded.careful_until == held["a"].entries[0][0]
    assert (stage.agent("b")["status"], stage.agent("b")["owner"]) == ("idle", "")


def test_free_passes_over_what_cannot_be_read(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    stage.taken("a", "b")
    stage.raw.delete(stage.keys.agent("a"))
    stage.raw.set(stage.keys.agent("a"), "junk")

    assert stage.free() == (1, "none")

    assert stage.held() == {"1 a"}


def test_an_agent_that_was_queued_for_another_class_before_is_taken_by_slots_of_its_own_only(
    stage: PoolStage,
) -> None:
    stage.pooled("a")
    stage.feed("a")
    assert stage.queue() == ["a"]

    stage.decide(fences=[Fence("a", 1, "shutdown")])
    stage.decide(pooled=[PooledStart("a", 2, "desk[gpu=a]")])

    assert not stage.take().agents
    call = pool.claim_agents(
        stage.keys, stage.limits, SLOT, ["desk[gpu=a]@1"], pid=42, token="t", most=9, signals=9
    )
    assert [each.owner.agent for each in stage.connection.call(call).agents] == ["a"]
