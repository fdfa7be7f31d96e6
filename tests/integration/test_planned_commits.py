"""What the planner plans is what Redis takes: mailbox to plan to commit, on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from regrow_signals.agents import Loaded, Owner, commit
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.mailbox import send
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent import Agent
from regrow_workers.batch import CommitPlan, plan
from regrow_workers.directives import EffectRun, Emit
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step
from tests.integration.stage import Stage


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


@pytest.fixture
def in_bytes(redis_url: str) -> Iterator[Any]:
    """A plain client that decodes nothing."""
    client = redis.Redis.from_url(redis_url)
    yield client
    client.close()


class Add(Payload, type="add"):
    n: int


class Sum(State):
    total: int = 0


class Adder(Agent[Sum], name="adder"):
    @handles(Add)
    def add(self, state: Sum, add: Add) -> Step[Sum]:
        return state.evolve(total=state.total + add.n)

    @handles("tell.everyone")
    def tell(self, state: Sum, signal: Signal) -> Step[Sum]:
        return [Emit(Add(n=state.total), to=name) for name in ("adder", "other", "nobody")]

    @handles("pay")
    def pay(self, state: Sum, signal: Signal) -> Step[Sum]:
        return EffectRun("charge", {"cents": state.total})

    @handles("crash")
    def crash(self, state: Sum, signal: Signal) -> Step[Sum]:
        raise ValueError("boom")


def put(stage: Stage, what: Payload | str) -> None:
    stage.do(send(stage.keys, stage.limits, "adder", Signal.of(what), remember=False))


def work(
    stage: Stage, owner: Owner, loaded: Loaded, limits: Limits | None = None
) -> tuple[Loaded, list[CommitPlan]]:
    """As a worker does, until nothing waits or the incarnation ends."""
    plans: list[CommitPlan] = []
    while True:
        entries = stage.connection.read_stream(
            stage.keys.mailbox("adder"), loaded.cursor or "0-0", count=100, block_ms=None
        )
        if not entries:
            return loaded, plans
        found = plan(
            Adder, loaded, entries, limits or stage.limits, time.monotonic, owner=owner, max_seconds=60
        )
        stage.do(commit(stage.keys, stage.limits, found.commit))
        plans.append(found)
        loaded = found.after
        if found.ends is not None:
            return loaded, plans


def test_a_backlog_with_junk_is_worked_off_and_nothing_is_lost(stage: Stage, in_bytes: Any) -> None:
    owner, loaded = stage.live("adder")
    mailbox = stage.keys.mailbox("adder")
    junk: list[dict[str | bytes, str | bytes]] = [
        {"id": b"\xff\xfe", "type": "add", "data": "1"},
        {"n\xe9".encode("latin-1"): "x", "id": "j-2", "type": "add", "data": '{"n":1}x'},
        {"id": "j-3", "type": "add", "data": '"\\ud800"'},
        {"id": "j-4", "type": "add", "data": ""},
        {"payload": b"\x80\x04\x95"},
        {"id": "j-6", "type": "add", "data": '{"n":1e400}'},
    ]

    for number in range(1, 301):
        put(stage, Add(n=number))
        if number % 50 == 0:
            in_bytes.xadd(mailbox, junk[number // 50 - 1])
    after, plans = work(stage, owner, loaded)

    assert len(plans) == 4
    assert json.loads(stage.agent("adder")["state"]) == {"total": sum(range(1, 301))}
    assert int(stage.agent("adder")["version"]) == after.version == loaded.version + 300
    assert stage.raw.xlen(mailbox) == 0
    letters = in_bytes.xrange(stage.keys.dead("adder"))
    assert [letter[b"reason"] for _, letter in letters] == [
        b"malformed", b"bad_data", b"bad_data", b"bad_data", b"malformed", b"bad_data",
    ]  # fmt: skip
    for given, (_, letter) in zip(junk, letters, strict=True):
        for name, value in given.items():
            key = name if isinstance(name, bytes) else name.encode()
            assert letter[key] == (value if isinstance(value, bytes) else value.encode())


def test_directives_land_with_the_state(stage: Stage) -> None:
    owner, loaded = stage.live("adder")
    stage.register("other")

    for what in (Add(n=5), "tell.everyone", "pay"):
        put(stage, what)
    after, _ = work(stage, owner, loaded)

    assert json.loads(after.state) == {"total": 10}  # its own emit came back to it
    (other,) = stage.entries(stage.keys.mailbox("other"))
    assert (other["data"], other["source"]) == ('{"n":5}', "adder")
    (letter,) = stage.entries(stage.keys.dead("adder"))
    assert (letter["reason"], letter["target"]) == ("no_such_agent", "nobody")
    (order,) = stage.entries(stage.keys.outbox("adder"))
    assert (order["kind"], order["args"]) == ("effect", '{"cents":5}')


def test_a_crash_commits_what_came_before_and_its_dead_letter(stage: Stage) -> None:
    owner, loaded = stage.live("adder")

    for what in (Add(n=5), "crash", Add(n=6)):
        put(stage, what)
    after, (found,) = work(stage, owner, loaded)

    assert found.ends is not None and found.ends.reason == "exception:ValueError: boom"
    assert json.loads(after.state) == {"total": 5}
    assert "ValueError: boom" in stage.agent("adder")["last_error"]
    assert stage.raw.xlen(stage.keys.mailbox("adder")) == 1


def test_small_commits_give_what_large_ones_give(stage: Stage) -> None:
    owner, loaded = stage.live("adder")

    for number in range(20):
        put(stage, Add(n=number))
        put(stage, "pay")
    after, plans = work(stage, owner, loaded, Limits(commit_appends=3))

    assert len(plans) >= 6
    assert json.loads(after.state) == {"total": sum(range(20))}
    assert stage.raw.xlen(stage.keys.outbox("adder")) == 20
