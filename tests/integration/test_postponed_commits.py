"""Commits that leave signals in the mailbox, and those that look back at them: what lands, what a repeat changes."""

from __future__ import annotations

import time
from typing import Literal

import pytest
import redis

from regrow_signals.agents import FIRST, Loaded, Owner, claim, commit, mark_trying, reload
from regrow_signals.connection import Connection
from regrow_signals.deletion import delete_agent
from regrow_signals.errors import Conflict, Refused
from regrow_signals.exchange import range_command
from regrow_signals.keys import Keys
from regrow_signals.mailbox import send, status
from regrow_signals.signal import Signal
from regrow_workers.agent import Agent
from regrow_workers.batch import CommitPlan, plan
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step
from tests.integration.stage import Stage


class Lamp(State):
    lit: Literal["off", "on"] = "off"
    seen: tuple[str, ...] = ()


class Lamps(Agent[Lamp], name="desk", mode_field="lit", unhandled_in_mode="postpone"):
    @handles("switch")
    def switch(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        return lamp.evolve(lit="on" if lamp.lit == "off" else "off")

    @handles("lit.*", mode="on")
    def lit(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        if signal.value is None:
            raise ValueError("nothing")
        return lamp.evolve(seen=(*lamp.seen, signal.value))


class Later(Agent[Lamp], name="desk-later"):
    """The code after a deploy: no modes any more."""

    @handles("*")
    @handles("lit.*")
    def note(self, lamp: Lamp, signal: Signal) -> Step[Lamp]:
        return lamp.evolve(seen=(*lamp.seen, signal.value))


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    return Stage(connection, raw, keys)


def put(stage: Stage, kind: str, value: object = "x") -> str:
    receipt = stage.do(send(stage.keys, stage.limits, "lamp", Signal.of(kind, value)))
    return str(receipt.entry)


def planned(
    stage: Stage, owner: Owner, loaded: Loaded, count: int = 100, code: type[Agent[Lamp]] = Lamps
) -> CommitPlan:
    """The next batch, from where the worker would read."""
    mailbox = stage.keys.mailbox("lamp")
    last = loaded.cursor if loaded.rewound else "+"
    entries = stage.connection.command(range_command(mailbox, loaded.rewound or loaded.cursor, last, count))
    return plan(code, loaded, entries, stage.limits, time.monotonic, owner=owner, max_seconds=60)


def step(
    stage: Stage, owner: Owner, loaded: Loaded, count: int = 100, code: type[Agent[Lamp]] = Lamps
) -> Loaded:
    found = planned(stage, owner, loaded, count, code)
    stage.do(commit(stage.keys, stage.limits, found.commit))
    return found.after


def test_what_waits_lies_before_the_cursor_and_goes_when_it_is_applied(stage: Stage) -> None:
    owner, loaded = stage.live("lamp")
    first, second = put(stage, "lit.a", "a"), put(stage, "lit.b", "b")
    put(stage, "switch")

    loaded = step(stage, owner, loaded)
    assert (loaded.postponed, loaded.rewound, loaded.version) == (2, FIRST, 1)
    assert stage.ids(stage.keys.mailbox("lamp")) == [first, second]
    assert stage.do(reload(stage.keys, owner)).rewound == FIRST

    loaded = step(stage, owner, loaded, 1)
    assert stage.ids(stage.keys.mailbox("lamp")) == [second]
    assert stage.agent("lamp")["rewound"] == first
    loaded = step(stage, owner, loaded, 1)
    assert stage.ids(stage.keys.mailbox("lamp")) == []
    assert (stage.agent("lamp")["rewound"], stage.agent("lamp")["postponed"]) == ("", "0")
    assert '"seen":["a","b"]' in stage.agent("lamp")["state"]


@pytest.mark.parametrize("looking_back", [False, True])
def test_what_waits_is_not_lost_when_newer_code_postpones_nothing(stage: Stage, looking_back: bool) -> None:
    owner, loaded = stage.live("lamp")
    first, second = put(stage, "lit.a", "a"), put(stage, "lit.b", "b")
    if looking_back:
        put(stage, "switch", "c")
    loaded = step(stage, owner, loaded)
    assert loaded.rewound == (FIRST if looking_back else "")

    if not looking_back:
        put(stage, "switch", "c")
        put(stage, "switch", "d")
        loaded = step(stage, owner, loaded, code=Later)
        assert stage.ids(stage.keys.mailbox("lamp"))[:2] == [first, second]
    loaded = step(stage, owner, loaded, code=Later)
    assert (stage.agent("lamp")["rewound"], stage.agent("lamp")["postponed"]) == ("", "0")
    if not looking_back:
        loaded = step(stage, owner, stage.do(reload(stage.keys, owner)), code=Later)

    assert stage.ids(stage.keys.mailbox("lamp")) == []
    seen = '"seen":["a","b"]' if looking_back else '"seen":["c","a","b","d"]'
    assert seen in stage.agent("lamp")["state"]


@pytest.mark.parametrize("value", ["applied", None])
def test_a_repeat_of_a_look_back_changes_nothing(stage: Stage, value: str | None) -> None:
    owner, loaded = stage.live("lamp")
    put(stage, "lit.a", value)
    put(stage, "switch")
    found = planned(stage, owner, step(stage, owner, loaded))
    call = commit(stage.keys, stage.limits, found.commit)

    assert not stage.do(call).landed_before
    before = stage.agent("lamp"), stage.ids(stage.keys.dead("lamp")), stage.counters()
    assert stage.do(call).landed_before
    assert (stage.agent("lamp"), stage.ids(stage.keys.dead("lamp")), stage.counters()) == before
    assert len(before[1]) == (value is None)


def test_a_look_back_at_what_is_gone_is_a_conflict(stage: Stage) -> None:
    owner, loaded = stage.live("lamp")
    entry = put(stage, "lit.a", "a")
    put(stage, "switch")
    found = planned(stage, owner, step(stage, owner, loaded))

    stage.raw.xdel(stage.keys.mailbox("lamp"), entry)
    with pytest.raises(Conflict):
        stage.do(commit(stage.keys, stage.limits, found.commit))
    assert "seen" not in stage.agent("lamp")["state"] or '"a"' not in stage.agent("lamp")["state"]


def test_status_says_pending_and_then_applied(stage: Stage) -> None:
    owner, loaded = stage.live("lamp")
    receipt = stage.do(send(stage.keys, stage.limits, "lamp", Signal.of("lit.a", "a")))
    loaded = step(stage, owner, loaded)
    assert stage.do(status(stage.keys, receipt)).state == "pending"

    put(stage, "switch")
    loaded = step(stage, owner, loaded)
    assert stage.do(status(stage.keys, receipt)).state == "pending"
    step(stage, owner, loaded)
    assert stage.do(status(stage.keys, receipt)).state == "applied"


def test_a_death_in_a_look_back_is_charged_and_the_next_life_is_careful_in_it(stage: Stage) -> None:
    owner, loaded = stage.live("lamp")
    first = put(stage, "lit.a", "a")
    put(stage, "lit.b", "b")
    put(stage, "switch")
    step(stage, owner, loaded)
    stage.die(owner, in_hand=first)

    stage.start("lamp")
    owner = Owner("lamp", int(stage.agent("lamp")["incarnation"]), "token-2", "n1")
    loaded = stage.do(claim(stage.keys, stage.limits, owner, pid=1))
    assert (loaded.trying_entry, loaded.trying_attempts) == (first, 1)
    assert loaded.careful_until >= first and loaded.rewound == FIRST
    stage.do(mark_trying(stage.keys, owner, first, 1, 0))

    loaded = step(stage, owner, loaded)
    assert stage.agent("lamp")["careful_until"] == loaded.careful_until != ""
    assert stage.agent("lamp")["trying"] == "" == loaded.trying_entry
    step(stage, owner, loaded)
    assert stage.raw.xlen(stage.keys.mailbox("lamp")) == 0
    assert stage.agent("lamp")["careful_until"] == ""


def test_an_agent_with_postponed_signals_is_not_deleted_unasked(stage: Stage) -> None:
    owner, loaded = stage.live("lamp")
    put(stage, "lit.a")
    step(stage, owner, loaded)
    stage.die(owner)

    with pytest.raises(Refused):
        stage.connection.run(delete_agent(stage.keys, stage.limits, "lamp"))
