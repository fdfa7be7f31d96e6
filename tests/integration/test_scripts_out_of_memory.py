"""A Redis that is out of memory refuses each step whole, the leader's renewal as well as the nodes' beats."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from regrow_signals.agents import mark_trying, release
from regrow_signals.calls import Call
from regrow_signals.commits import commit
from regrow_signals.connection import Connection
from regrow_signals.decisions import DecisionCommit, SupervisorWrite, commit_decision
from regrow_signals.effect_store import abandon, claim_effect, ring, settle_effect
from regrow_signals.errors import StoreUnavailable
from regrow_signals.keys import Keys
from regrow_signals.leadership import renew, request
from regrow_signals.nodes import ExitReport, beat, join, report_exit
from regrow_signals.relay import deliver_held
from tests.integration.conftest import Unchanged
from tests.integration.stage import LEADER, Stage, effect, emit, transition

ONE = "birth:1-1:1"


@contextmanager
def no_memory(raw: redis.Redis) -> Generator[None]:
    raw.config_set("maxmemory", 1)
    try:
        yield
    finally:
        raw.config_set("maxmemory", 0)


def steps(stage: Stage) -> dict[str, Call[Any]]:
    """One call of each kind that writes, each of which would land."""
    keys, limits = stage.keys, stage.limits
    owner, loaded = stage.live("a")
    stage.node("n1")
    stage.node("fx", "effects")
    stage.register("full", max_mailbox=1)
    stage.feed("full")
    first, second = stage.feed("a", 2)
    plan = stage.plan(owner, loaded, first, emits=[emit("full")], effects=[effect(1), effect(2)])
    stage.commit(plan)
    stage.raw.xtrim(keys.mailbox("full"), maxlen=0)
    loaded = stage.claim("a")[1]
    stage.do(claim_effect(keys, ONE, node="fx", executor="x", token="t"))
    next_plan = stage.plan(owner, loaded, second, emits=[emit("a")], journal=[transition()])
    decision = DecisionCommit(token=LEADER, supervisors=[SupervisorWrite("s", 0, {"a": "1"})])
    report = ExitReport("n1", "a", owner.incarnation, "exit:1", "attempt", True, "boom", second)
    return {
        "commit": commit(keys, limits, next_plan),
        "trying": mark_trying(keys, owner, second, 0, 0),
        "release": release(keys, owner, reason="drained"),
        "exit": report_exit(keys, report),
        "beat": beat(keys, "n1", [("a", 1)], load=1),
        "join": join(keys, "n9", kind="worker", host="h", pid=1, labels={}, types={}, version="0"),
        "renew": renew(keys, LEADER, 10_000),
        "request": request(keys, "r", "which_children", {}),
        "decision": commit_decision(keys, limits, decision),
        "deliver": deliver_held(keys, limits, "a"),
        "ring": ring(keys, 10, 100),
        "effect claim": claim_effect(keys, "birth:1-1:2", node="fx", executor="x", token="t2"),
        "settle": settle_effect(keys, ONE, "t", "done", "{}"),
        "retry": settle_effect(keys, ONE, "t", "retry", "{}"),
        "abandon": abandon(keys, "fx", None),
    }


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


NAMES = (
    "commit", "trying", "release", "exit", "beat", "join", "renew", "request", "decision", "deliver", "ring",
    "effect claim", "settle", "retry", "abandon",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_step_without_memory_is_refused_whole_and_lands_afterwards(
    stage: Stage, unchanged: Unchanged, name: str
) -> None:
    call = steps(stage)[name]
    act: Callable[[], object] = lambda: stage.do(call)  # noqa: E731

    with no_memory(stage.raw), unchanged(), pytest.raises(StoreUnavailable, match="memory"):
        act()

    act()


def test_every_step_is_tried(stage: Stage) -> None:
    assert tuple(steps(stage)) == NAMES
