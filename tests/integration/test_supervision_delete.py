"""Deleting an agent: a fenced step that takes all that is its own, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from regrow_signals.connection import Connection
from regrow_signals.deletion import Deleted, delete_agent
from regrow_signals.errors import Conflict, CorruptKey, NoSuchAgent, Refused
from regrow_signals.keys import Keys
from regrow_signals.leadership import Register, SupervisorWrite
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage, emit


def delete(stage: Stage, agent: str = "a", *, force: bool = False) -> Deleted:
    return stage.connection.run(delete_agent(stage.keys, stage.limits, agent, force=force))


@pytest.fixture
def stage(connection: Connection, raw: Any, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    stage.lead()
    stage.node("n1")
    return stage


@pytest.fixture
def settled(stage: Stage) -> Iterator[Stage]:
    """An agent that lived, and whose life has ended."""
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry))
    stage.die(owner)
    yield stage


def test_nothing_of_it_is_left_and_it_is_said(settled: Stage) -> None:
    assert delete(settled) == Deleted(0, 0, 0)

    left: list[str] = settled.raw.keys("*")  # type: ignore[assignment]  # a test's own server
    assert not [key for key in left if key.endswith(":a")]
    assert "a" not in settled.raw.zrange(settled.keys.agents, 0, -1)
    assert settled.entries(settled.keys.events)[-1]["event"] == "deleted"
    with pytest.raises(NoSuchAgent):
        delete(settled)


def test_one_that_lives_is_not_deleted(stage: Stage, unchanged: Unchanged) -> None:
    stage.live("a")

    with unchanged(), pytest.raises(Refused, match="has not ended"):
        delete(stage, force=True)


def test_one_that_a_supervisor_has_on_record_is_not_deleted(settled: Stage, unchanged: Unchanged) -> None:
    settled.decide(supervisors=[SupervisorWrite("helpdesk", 0, {"child:a": "{}"})])

    with unchanged(), pytest.raises(Refused, match="helpdesk"):
        delete(settled, force=True)


def test_what_waits_in_it_is_deleted_only_by_force(settled: Stage, unchanged: Unchanged) -> None:
    settled.feed("a", 2)

    with unchanged(), pytest.raises(Refused, match="2 signals, 0 dead letters"):
        delete(settled)
    assert delete(settled, force=True) == Deleted(2, 0, 0)


def test_a_registration_made_anew_meanwhile_stays(settled: Stage, unchanged: Unchanged) -> None:
    op = delete_agent(settled.keys, settled.limits, "a")
    next(op)
    op.send(["another-birth", "helpdesk"])
    call = op.send([])

    with unchanged(), pytest.raises(Conflict):
        raise settled.connection.pipeline([call])[0]


def test_emits_to_a_deleted_agent_become_their_senders_dead_letters(settled: Stage) -> None:
    settled.decide(register=[Register("b", "desk", "helpdesk")])
    delete(settled)
    owner, loaded = settled.live("b", "token-b")
    [entry] = settled.feed("b")

    settled.commit(settled.plan(owner, loaded, entry, emits=[emit("a")]))

    assert [letter["reason"] for letter in settled.entries(settled.keys.dead("b"))] == ["no_such_agent"]
    assert not settled.raw.exists(settled.keys.mailbox("a"))


def test_a_key_of_the_wrong_type_refuses_it_whole(settled: Stage, unchanged: Unchanged) -> None:
    settled.raw.delete(settled.keys.dead("a"))
    settled.raw.set(settled.keys.dead("a"), "junk")

    with unchanged(), pytest.raises(CorruptKey, match="dead:a"):
        delete(settled, force=True)
