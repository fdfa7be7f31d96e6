"""The in-memory server that users' tests run on answers and stores what a real one does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from regrow.testing.memory_connection import MemoryConnection
from regrow.testing.memory_server import MemoryServer
from regrow_signals import agents, effect_store, leadership, mailbox, nodes, relay
from regrow_signals.calls import Call, Command
from regrow_signals.commits import Commit, DeadAppend, EffectAppend, EmitAppend, JournalAppend
from regrow_signals.connection import Connection
from regrow_signals.decisions import DecisionCommit, Register, StartOrder, SupervisorWrite
from regrow_signals.errors import CorruptKey, RegrowError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.nodes import ExitReport
from regrow_signals.signal import Signal

KEYS = Keys("regrow")
LIMITS = Limits(max_mailbox=3, max_outbox=4)


def commit(owner: agents.Owner, loaded: agents.Loaded, cursor: str, **parts: Any) -> Call[Any]:
    base: dict[str, Any] = {
        "owner": owner, "base_version": loaded.version, "base_cursor": loaded.cursor, "version": loaded.version + 1,
        "cursor": cursor, "state": '{"n":1}', "schema": 1, "emits": (), "effects": (), "dead": (), "journal": (),
        "handled": 1, "failed": 0, "counters": {"x_total|type=t": 2}, "last_error": "err", "agent_type": "t",
        "birth": loaded.birth,
    }  # fmt: skip
    return agents.commit(KEYS, LIMITS, Commit(**{**base, **parts}))


class Life:
    """A busy life of two agents; every answer or refusal is noted."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.heard: list[str] = []

    def do(self, call: Call[Any] | Command[Any]) -> Any:
        try:
            answer = self.connection.call(call) if isinstance(call, Call) else self.connection.command(call)
        except RegrowError as refusal:
            self.heard.append(f"{type(refusal).__name__}")
            return refusal
        self.heard.append(repr(answer))
        return answer

    def live(self) -> None:
        self.begin()
        owner = agents.Owner("a", 1, "token-a", "n1")
        loaded = self.do(agents.claim(KEYS, LIMITS, owner, pid=1))
        self.do(agents.claim(KEYS, LIMITS, agents.Owner("a", 9, "other", "n1"), pid=1))
        for number in range(5):
            signal = Signal.of("deed", {"n": number, "text": 'ü"\\\n'}, id=f"s-{number}")
            self.do(mailbox.send(KEYS, LIMITS, "a", signal))
        self.do(mailbox.send(KEYS, LIMITS, "a", Signal.of("deed", {"n": 0, "text": 'ü"\\\n'}, id="s-0")))
        self.do(mailbox.send(KEYS, LIMITS, "nobody", Signal.of("deed", {})))
        entries = self.connection.read_stream(KEYS.mailbox("a"), "0-0", count=10)
        self.heard.append(repr([fields for _, fields in entries]))
        first, second = entries[0][0], entries[1][0]
        self.do(agents.mark_trying(KEYS, owner, first, 1, 0))
        emits = [EmitAppend(to, {"id": f"e-{n}", "type": "x", "source": "a", "data": "{}"})
                 for n, to in enumerate(["b", "b", "b", "b", "b", "gone", "a"])]  # fmt: skip
        effects = [EffectAppend("birth:1-0:7", "pay", "[1]", 60_000, 3, True, 1000)]
        dead = [
            DeadAppend(
                first, "rejected", "why", 1, {"id": "s-0", "type": "deed", "source": "x", "data": "{}"}
            )
        ]
        journal = [
            JournalAppend(
                second, 1, "[]", "d", "applied", "s-1", "deed", 5, "x", "{}", '{"n":1}', ("hops", "2")
            )
        ]
        step = commit(
            owner, loaded, second, emits=emits, effects=effects, dead=dead, journal=journal, failed=1
        )
        self.do(step)
        self.do(step)
        self.do(commit(owner, loaded, first))
        self.do(agents.unblocked(KEYS, owner))
        self.do(relay.held_agents(KEYS))
        self.do(relay.deliver_held(KEYS, LIMITS, "a"))
        self.effects()
        self.end(owner)

    def begin(self) -> None:
        self.do(nodes.join(KEYS, "n1", kind="worker", host="h", pid=1, labels={}, types={}, version="0"))
        self.do(leadership.acquire(KEYS, "lead", 60_000))
        self.do(leadership.acquire(KEYS, "other", 60_000))
        register = [Register("a", "t", "sup", birth="birth"), Register("b", "t", "sup", birth="birth-b")]
        write = [SupervisorWrite("sup", 0, {"status": "running", "child:a": '{"x":"ä/"}'})]
        decision = DecisionCommit(
            token="lead", register=register, supervisors=write, starts=[StartOrder("a", 1, "n1")]
        )
        self.do(leadership.commit_decision(KEYS, LIMITS, decision))
        self.do(leadership.commit_decision(KEYS, LIMITS, decision))

    def effects(self) -> None:
        self.do(effect_store.ring(KEYS, 10, 1000))
        claim = effect_store.claim_effect(KEYS, "birth:1-0:7", node="n1", executor="x", token="t1")
        self.do(claim)
        self.do(effect_store.claim_effect(KEYS, "birth:1-0:7", node="n1", executor="y", token="t2"))
        data = '{"effect":"e","result":1}'
        for _ in range(2):
            self.do(effect_store.settle_effect(KEYS, "birth:1-0:7", "t1", "done", data))
        self.do(claim)

    def end(self, owner: agents.Owner) -> None:
        self.do(nodes.beat(KEYS, "n1", [("a", 1), ("a", 7)], load=1))
        report = ExitReport("n1", "a", 1, "exit:1", "attempt", True, "boom", "")
        self.do(nodes.report_exit(KEYS, report))
        self.do(nodes.report_exit(KEYS, report))
        self.do(agents.release(KEYS, owner, reason="late"))
        self.do(nodes.node_event(KEYS, "n1", "left"))
        self.do(Command(("SET", KEYS.agent("b"), "junk"), str, repeatable=False))
        self.do(mailbox.send(KEYS, LIMITS, "b", Signal.of("deed", {})))


def contents(connection: Connection) -> dict[str, Any]:
    """All keys, without ids and times."""
    readers: dict[str, Callable[[str], tuple[Any, ...]]] = {
        "hash": lambda key: ("HGETALL", key),
        "stream": lambda key: ("XRANGE", key, "-", "+"),
        "zset": lambda key: ("ZRANGE", key, 0, -1),
        "string": lambda key: ("GET", key),
        "list": lambda key: ("LRANGE", key, 0, -1),
        "set": lambda key: ("SMEMBERS", key),
    }
    found: dict[str, Any] = {}
    for key in sorted(connection.command(Command(("KEYS", "*"), list[Any]))):
        kind = connection.command(Command(("TYPE", key), str))
        value = connection.command(Command(readers[kind](key), lambda reply: reply))
        if kind == "hash":
            value = sorted(zip(value[::2], value[1::2], strict=True))
        found[str(key)] = timeless(repr(value))
    return found


def timeless(text: str) -> str:
    """Milliseconds of today, alone, in ids and in histograms of times, are told apart by nobody."""
    text = re.sub(r"\b\d{13}(-\d+)?\b", "T", text)
    text = re.sub(r"_(bucket|sum_us|count)[^']*', '\d+'", r"_\1", text)
    return re.sub(r"'[0-9a-f]{32}'", "'random'", text)


@pytest.fixture
def memory() -> MemoryConnection:
    return MemoryConnection(MemoryServer(time.time))


def test_a_busy_life_leaves_the_same_answers_and_the_same_keys(
    redis_url: str, memory: MemoryConnection
) -> None:
    real = Connection.open(redis_url)
    lives = [Life(real), Life(memory)]
    for life in lives:
        life.live()

    assert [timeless(each) for each in lives[1].heard] == [timeless(each) for each in lives[0].heard]
    assert contents(memory) == contents(real)
    real.close()


def test_a_key_of_the_wrong_type_is_named(memory: MemoryConnection) -> None:
    memory.command(Command(("SET", KEYS.mailbox("a"), "junk"), str, repeatable=False))

    with pytest.raises(CorruptKey, match="mailbox:a"):
        memory.read_stream(KEYS.mailbox("a"), "0-0", count=1)


def test_bytes_that_are_no_text_come_back_as_bytes(memory: MemoryConnection) -> None:
    memory.command(Command(("XADD", "s", "*", "x", b"\xff\xfe"), str, repeatable=False))

    ((_, fields),) = memory.read_stream("s", "0-0", count=1)

    assert fields == {"x": b"\xff\xfe"}


def test_a_lease_ends_when_the_clock_says_so() -> None:
    now = 1_000.0
    connection = MemoryConnection(MemoryServer(lambda: now))
    assert connection.call(leadership.acquire(KEYS, "one", 5_000))
    now += 4.9
    assert not connection.call(leadership.acquire(KEYS, "other", 5_000))
    now += 0.2
    assert connection.call(leadership.acquire(KEYS, "other", 5_000))


def test_who_would_wait_lets_the_others_go_on() -> None:
    server = MemoryServer(time.time)
    other = MemoryConnection(server)
    push = Command(("RPUSH", "list", "x"), int, repeatable=False)
    waiting = MemoryConnection(server, idle=lambda: other.command(push))

    popped = waiting.command(
        Command(("BLPOP", "list", "0.1"), lambda reply: reply, repeatable=False, wait=0.1)
    )

    assert popped == ["list", "x"]
