"""Sending to an agent that is not there yet, on a real server: all in one step, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from regrow import Agent, AsyncClient, Client, Payload, State, Supervisor
from regrow.create import creation
from regrow.errors import (
    BadInput,
    CorruptKey,
    DeadLettersFull,
    IdConflict,
    MailboxFull,
    NotDynamic,
    Refused,
    StoreError,
    SupervisorNotFound,
)
from regrow_signals.creation import create_and_send
from regrow_signals.decisions import AgentBounds
from regrow_signals.deletion import delete_agent
from regrow_signals.keys import Keys
from regrow_signals.leadership import MAX_EXITS, Register, SupervisorWrite
from regrow_signals.limits import Limits
from regrow_signals.mailbox import Outgoing
from regrow_signals.signal import Signal
from regrow_supervisor.spec import child_definition
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage


class Said(Payload, type="chat.said"):
    text: str


class Talk(State):
    said: tuple[str, ...] = ()


class Chat(Agent[Talk], name="chat"):
    pass


CHAT = Chat.child(under="desk/chats", max_mailbox=3)
RUNNING = {"status": "running", "strategy": "dynamic"}


@pytest.fixture
def stage(connection: Any, raw: redis.Redis, keys: Keys) -> Stage:
    """A leader, and a dynamic supervisor's record."""
    stage = Stage(connection, raw, keys)
    stage.lead()
    stage.decide(supervisors=[SupervisorWrite("desk/chats", 0, RUNNING)])
    return stage


@pytest.fixture
def client(redis_url: str, stage: Stage) -> Iterator[Client]:
    with Client(redis_url) as client:
        yield client


def test_it_is_registered_with_its_signal_and_its_start_is_asked_for(client: Client, stage: Stage) -> None:
    receipt = client.send("chat-1", Said(text="hi"), create=CHAT)

    assert receipt.status().state == "pending" and receipt.birth
    [fields] = stage.entries(stage.keys.mailbox("chat-1"))
    assert fields["data"] == '{"text":"hi"}'
    [asked] = stage.entries(stage.keys.exits)
    assert (asked["kind"], asked["op"], asked["path"], asked["child"]) == (
        "request", "create", "desk/chats", "chat-1"
    )  # fmt: skip
    assert json.loads(asked["spec"]) == child_definition(Chat.child("chat-1", max_mailbox=3))
    assert client.state("chat-1", Chat) == Talk()
    assert stage.raw.zscore(stage.keys.agents, "chat-1") == 0
    assert stage.counters()["signals_accepted_total|type=chat"] == 1


def test_the_record_is_field_for_field_that_of_a_decision(client: Client, stage: Stage) -> None:
    client.send("chat-1", Said(text="hi"), create=CHAT)
    new = Register("chat-2", "chat", "desk/chats", state='{"said":[]}', bounds=AgentBounds(max_mailbox=3))
    stage.decide(register=[new])

    sent, decided = stage.agent("chat-1"), stage.agent("chat-2")
    for own in ("birth", "created_ms"):
        assert sent.pop(own) and decided.pop(own)
    assert sent == decided


def test_one_that_is_there_just_gets_the_signal(client: Client, stage: Stage) -> None:
    client.send("chat-1", Said(text="hi"), create=CHAT)
    before = stage.agent("chat-1")

    receipt = client.send("chat-1", Said(text="there"), create=CHAT)
    stage.decide(supervisors=[SupervisorWrite("desk/chats", 1, remove=True)])
    client.send("chat-1", Said(text="!"), create=CHAT)  # its supervisor is none of this send's business

    assert receipt.birth == before["birth"] and stage.agent("chat-1") == before
    assert len(stage.entries(stage.keys.mailbox("chat-1"))) == 3
    assert len(stage.entries(stage.keys.exits)) == 1


def test_of_many_senders_at_once_one_creates_it(redis_url: str, stage: Stage) -> None:
    def one(n: int) -> str:
        with Client(redis_url) as client:
            return client.send("chat-1", Said(text=str(n)), create=Chat.child(under="desk/chats")).birth

    with ThreadPoolExecutor(8) as pool:
        births = set(pool.map(one, range(24)))

    assert births == {stage.agent("chat-1")["birth"]}
    assert len(stage.entries(stage.keys.exits)) == 1
    assert len(stage.entries(stage.keys.mailbox("chat-1"))) == 24


def test_a_repeat_after_a_lost_answer_changes_nothing(client: Client, stage: Stage) -> None:
    first = client.send("chat-1", Said(text="hi"), id="s-1", create=CHAT)
    again = client.send("chat-1", Said(text="hi"), id="s-1", create=CHAT)

    assert again.duplicate and again.entry == first.entry
    assert len(stage.entries(stage.keys.mailbox("chat-1"))) == 1
    with pytest.raises(IdConflict):
        client.send("chat-1", Said(text="other"), id="s-1", create=CHAT)


def test_a_supervisor_that_cannot_take_it_refuses_and_nothing_is_changed(
    client: Client, stage: Stage, unchanged: Unchanged
) -> None:
    for path, record in (
        ("desk", {"status": "running", "strategy": "one_for_one"}),
        ("paused", {"status": "paused", "strategy": "dynamic"}),
        ("ended", {"status": "exited", "strategy": "dynamic"}),
    ):
        stage.decide(supervisors=[SupervisorWrite(path, 0, record)])
    for path, error, why in (
        ("nowhere", SupervisorNotFound, "no supervisor nowhere"),
        ("paused", SupervisorNotFound, "is paused"),
        ("ended", SupervisorNotFound, "is exited"),
        ("desk", NotDynamic, "is one_for_one"),
    ):
        with unchanged(), pytest.raises(error, match=why):
            client.send("chat-1", Said(text="hi"), create=Chat.child(under=path))


def test_what_is_wrong_with_the_spec_is_said_before_anything_is_sent(
    client: Client, unchanged: Unchanged
) -> None:
    for spec in (Chat.child("chat-1"), Supervisor("x").child()):
        with unchanged(), pytest.raises(BadInput, match="under="):
            client.send("chat-1", Said(text="hi"), create=spec)
    with unchanged(), pytest.raises(BadInput):
        client.send("chat 1!", Said(text="hi"), create=CHAT)


@pytest.mark.parametrize("kind", ["agents", "exits", "agent", "mailbox", "dead", "seen", "seen_old", "fate"])
def test_a_key_of_the_wrong_type_refuses_it_whole(
    client: Client, stage: Stage, unchanged: Unchanged, kind: str
) -> None:
    found = getattr(stage.keys, kind)
    key = found if isinstance(found, str) else found("chat-1")
    stage.raw.delete(key)
    stage.raw.set(key, "junk")

    with unchanged(), pytest.raises(CorruptKey, match="string"):
        client.send("chat-1", Said(text="hi"), create=CHAT)


def test_bounds_hold_and_leave_no_trace(
    redis_url: str, client: Client, stage: Stage, unchanged: Unchanged
) -> None:
    for n in range(3):
        client.send("chat-1", Said(text=str(n)), create=CHAT)
    with unchanged(), pytest.raises(MailboxFull, match="3 is its bound"):
        client.send("chat-1", Said(text="one too many"), create=CHAT)

    stage.raw.xadd(stage.keys.dead("chat-2"), {"id": "left over"})
    with (
        Client(redis_url, limits=Limits(max_dead=1)) as small,
        unchanged(),
        pytest.raises(DeadLettersFull),
    ):
        small.send("chat-2", Said(text="hi"), create=CHAT)


def test_a_watchdogs_mailbox_that_nobody_reads_refuses_it(
    stage: Stage, unchanged: Unchanged, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.setattr("regrow_signals.creation.MAX_EXITS", 1)
    assert MAX_EXITS > 1
    client.send("chat-1", Said(text="hi"), create=CHAT)

    with unchanged(), pytest.raises(Refused, match="watchdog_busy"):
        client.send("chat-2", Said(text="hi"), create=CHAT)
    client.send("chat-1", Said(text="it needs no start"), create=CHAT)


def test_without_memory_it_is_refused_whole_and_lands_afterwards(
    client: Client, stage: Stage, unchanged: Unchanged
) -> None:
    stage.raw.config_set("maxmemory", 1)
    try:
        with unchanged(), pytest.raises(StoreError, match="memory"):
            client.send("chat-1", Said(text="hi"), create=CHAT)
    finally:
        stage.raw.config_set("maxmemory", 0)
    client.send("chat-1", Said(text="hi"), create=CHAT)


def test_a_send_that_races_a_delete_creates_it_anew(client: Client, stage: Stage) -> None:
    first = client.send("chat-1", Said(text="hi"), create=CHAT)
    stage.connection.run(delete_agent(stage.keys, stage.limits, "chat-1", force=True))

    second = client.send("chat-1", Said(text="again"), create=CHAT)

    assert first.status().state == "unknown"
    assert second.birth != first.birth and len(stage.entries(stage.keys.exits)) == 2


def test_the_call_itself_may_be_repeated(stage: Stage, keys: Keys, limits: Limits) -> None:
    signal = Signal.of("chat.said", {"text": "hi"})
    call = create_and_send(keys, limits, creation("chat-1", CHAT, limits), Outgoing("chat-1", signal))

    assert call.repeatable
    first, second = stage.do(call), stage.do(call)
    assert (first.entry, second.duplicate) == (second.entry, True)


async def _sent(url: str) -> str:
    async with AsyncClient(url) as client:
        return (await client.send("chat-1", Said(text="hi"), create=CHAT)).birth


def test_the_awaited_client_does_the_same(redis_url: str, stage: Stage) -> None:
    import asyncio  # only here

    assert asyncio.run(_sent(redis_url)) == stage.agent("chat-1")["birth"]
