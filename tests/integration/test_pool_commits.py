"""Many pooled agents' commits in one call: each stands or falls alone, and its agent is let go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import redis

from regrow_signals import pool
from regrow_signals.commits import Commit, CommitReply
from regrow_signals.connection import Connection
from regrow_signals.decisions import Fence
from regrow_signals.errors import Conflict, CorruptKey, Fenced, RegrowError
from regrow_signals.keys import Keys
from regrow_signals.pool import Claimed
from tests.integration.conftest import Unchanged
from tests.integration.stage import transition
from tests.integration.test_pool_scripts import SLOT, PoolStage

LANDED = CommitReply(landed_before=False, blocked=False, held=0)
PASSING = frozenset({"birth", "created_ms", "start_ms", "started_ms", "cursor"})
"""What two agents that did the same differ in."""


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> PoolStage:
    return PoolStage(connection, raw, keys)


def planned(stage: PoolStage, claimed: Claimed) -> Commit:
    """All of its entries applied."""
    count = len(claimed.entries)
    version = claimed.loaded.version + count
    return stage.plan(
        claimed.owner,
        claimed.loaded,
        claimed.entries[-1][0],
        version=version,
        handled=count,
        journal=[
            transition(n, '{"open":1}' if n == version else "")
            for n in range(claimed.loaded.version + 1, version + 1)
        ],
        counters={"seconds|type=desk": 2},
    )


def commit_all(stage: PoolStage, plans: Sequence[Commit]) -> list[CommitReply | RegrowError]:
    laid = [pool.plain_commit(stage.limits, plan) for plan in plans]
    return stage.connection.call(pool.commit_agents(stage.keys, SLOT, laid))


def journal(stage: PoolStage, agent: str) -> list[dict[str, str]]:
    return stage.entries(stage.keys.journal(agent))


def test_each_agent_is_committed_and_let_go(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    stage.feed("a", 2)
    held = stage.taken("a", "b")

    assert commit_all(stage, [planned(stage, each) for each in held.values()]) == [LANDED, LANDED]

    a, b = stage.agent("a"), stage.agent("b")
    assert (a["version"], a["state"], a["handled"]) == ("3", '{"open": 3}', "3")
    assert (b["version"], b["state"], b["handled"]) == ("1", '{"open": 1}', "1")
    assert (a["cursor"], b["cursor"]) == (held["a"].entries[-1][0], held["b"].entries[-1][0])
    for record in (a, b):
        let_go = {name: record[name] for name in ("owner", "worker", "pid", "clean", "status", "queued")}
        assert let_go == {"owner": "", "worker": "", "pid": "", "clean": "1", "status": "idle", "queued": ""}
    assert (stage.held(), stage.queue()) == (set(), [])
    assert stage.raw.xlen(stage.keys.mailbox("a")) == 0
    assert [line["version"] for line in journal(stage, "a")] == ["1", "2", "3"]
    assert [line.get("state", "") for line in journal(stage, "a")] == ["", "", '{"open":1}']
    assert stage.counters()["signals_applied_total|type=desk"] == 4
    assert stage.counters()["seconds|type=desk"] == 4


def test_it_leaves_what_a_commit_and_a_release_leave(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    stage.feed("a", 11)
    stage.feed("b", 11)
    held = {each.owner.agent: each for each in stage.take(signals=10).agents}

    assert commit_all(stage, [planned(stage, held["a"])]) == [LANDED]
    stage.commit(planned(stage, held["b"]))
    stage.let_go([held["b"].owner])

    one, other = (
        {name: value for name, value in stage.agent(agent).items() if name not in PASSING} for agent in "ab"
    )
    assert one == other
    assert journal(stage, "a") == journal(stage, "b")
    assert (stage.queue(), stage.held()) == (["a", "b"], set())
    assert stage.raw.xlen(stage.keys.mailbox("a")) == stage.raw.xlen(stage.keys.mailbox("b")) == 1


def test_a_transition_that_changes_no_state_leaves_the_stored_one(stage: PoolStage) -> None:
    stage.pooled("a")
    claimed = stage.taken("a")["a"]
    before = stage.agent("a")["state"]

    commit_all(stage, [replace(planned(stage, claimed), state=None)])

    assert (stage.agent("a")["state"], stage.agent("a")["version"]) == (before, "1")


def stopped(stage: PoolStage, _: Claimed) -> None:
    stage.decide(fences=[Fence("b", 1, "shutdown")])


def elsewhere(stage: PoolStage, _: Claimed) -> None:
    stage.raw.hset(stage.keys.agent("b"), "version", "7")


def given_way(stage: PoolStage, claimed: Claimed) -> None:
    """What `publish` with `policy=latest` does to a signal that waits."""
    entry = claimed.entries[0][0]
    stage.raw.xdel(stage.keys.mailbox("b"), entry)
    stage.raw.hset(stage.keys.agent("b"), "dropped", entry)


def damaged(key: Callable[[Keys, str], str]) -> Callable[[PoolStage, Claimed], None]:
    def damage(stage: PoolStage, _: Claimed) -> None:
        stage.raw.delete(key(stage.keys, "b"))
        stage.raw.set(key(stage.keys, "b"), "junk")

    return damage


@pytest.mark.parametrize(
    ("fate", "refused"),
    [
        (stopped, Fenced),
        (elsewhere, Conflict),
        (given_way, Conflict),
        (damaged(Keys.agent), CorruptKey),
        (damaged(Keys.mailbox), CorruptKey),
        (damaged(Keys.journal), CorruptKey),
    ],
)
def test_one_that_is_refused_costs_the_others_nothing(
    stage: PoolStage, fate: Callable[[PoolStage, Claimed], None], refused: type[RegrowError]
) -> None:
    stage.pooled("a", "b", "c")
    held = stage.taken("a", "b", "c")
    fate(stage, held["b"])
    kept = {name: stage.raw.dump(getattr(stage.keys, name)("b")) for name in ("mailbox", "journal")}
    state = stage.agent("b")["state"] if refused is not CorruptKey else ""

    first, second, third = commit_all(stage, [planned(stage, each) for each in held.values()])

    assert (first, type(second), third) == (LANDED, refused, LANDED)
    assert {name: stage.raw.dump(getattr(stage.keys, name)("b")) for name in kept} == kept
    assert stage.counters()["signals_applied_total|type=desk"] == 2
    assert [stage.agent(agent)["version"] for agent in "ac"] == ["1", "1"]
    # One that cannot be read stays in the slot's hands; any other is let go.
    assert stage.held() == ({"1 b"} if refused is CorruptKey else set())
    if refused is not CorruptKey:
        assert (stage.agent("b")["state"], stage.agent("b")["owner"]) == (state, "")


def test_signals_that_came_meanwhile_queue_the_agent_again(stage: PoolStage) -> None:
    stage.pooled("a", "b")
    held = stage.taken("a", "b")
    stage.feed("a")

    commit_all(stage, [planned(stage, each) for each in held.values()])

    assert (stage.queue(), stage.agent("a")["status"], stage.agent("b")["status"]) == (
        ["a"],
        "queued",
        "idle",
    )
    (again,) = stage.take().agents
    assert (again.loaded.version, again.loaded.careful_until) == (1, "")


def test_a_careful_agent_is_so_up_to_where_it_was_to_be(stage: PoolStage) -> None:
    stage.pooled("a")
    ids = stage.feed("a", 2)
    stage.raw.hset(stage.keys.agent("a"), "clean", "0")
    (claimed,) = stage.take(signals=1).agents
    assert (claimed.loaded.careful_until, claimed.loaded.trying_entry) == (ids[1], ids[0])

    commit_all(stage, [planned(stage, claimed)])
    assert (stage.agent("a")["careful_until"], stage.agent("a")["trying"]) == (ids[1], "")

    (claimed,) = stage.take(signals=1).agents
    commit_all(stage, [planned(stage, claimed)])
    assert (stage.agent("a")["careful_until"], stage.agent("a")["trying"]) == ("", "")


def test_a_repeat_is_fenced_and_changes_nothing(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a", "b")
    plans = [planned(stage, each) for each in stage.taken("a", "b").values()]
    commit_all(stage, plans)

    with unchanged():
        assert [type(one) for one in commit_all(stage, plans)] == [Fenced, Fenced]


def test_a_damaged_set_of_claims_refuses_all(stage: PoolStage, unchanged: Unchanged) -> None:
    stage.pooled("a")
    plans = [planned(stage, each) for each in stage.taken("a").values()]
    stage.raw.delete(stage.keys.pool_claims("n1"))
    stage.raw.set(stage.keys.pool_claims("n1"), "junk")

    with unchanged(), pytest.raises(CorruptKey, match="pool"):
        commit_all(stage, plans)
