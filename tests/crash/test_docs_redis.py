"""docs/redis.md and a running system say the same: every key, every type, every field."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from regrow import Agent, Client, Signal, State
from regrow.control import ask_watchdog
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals.connection import Connection
from regrow_signals.keys import KEY_TABLE, Keys
from regrow_signals.limits import Limits
from tests.conftest import PrivateServer, wait_until
from tests.crash.redis_docs import DOCUMENT, read_document
from tests.crash.write_monitor import Writes

pytestmark = pytest.mark.crash

KEYS, SCHEMAS = read_document(DOCUMENT.read_text())

#: Documented fields that this scenario need not bring about; each is "only when ...".
ELSEWHERE = {
    "{ns}:agent:<agent>": {"postponed", "rewound"},
    "{ns}:outbox:<agent> with kind=emit": {
        "dataschema",
        "replyto",
        "time",
        "tracestate",
        "datacontenttype",
        "data_base64",
        "extensions",
    },
    "{ns}:dead:<agent>": {
        "time",
        "datacontenttype",
        "dataschema",
        "replyto",
        "data_base64",
        "tracestate",
        "extensions",
        "notice",
    },
    "{ns}:timer:<agent>#<tag>": {"tracestate", "datacontenttype", "data_base64", "extensions"},
    "{ns}:fate:<agent>": {".forgot"},
    "{ns}:control:<node> with order=start": {"keep"},
    "{ns}:exits with kind=request": {"absent", "force", "reason"},
    "{ns}:supervisor:<path>": {"q:<number>"},
    "{ns}:counters": {
        "supervisor_gave_up_total|supervisor=<path>",
        "supervisor_paused_total|supervisor=<path>",
        "supervisor_parked_total|supervisor=<path>",
        "nodes_lost_total",
        "workers_recycled_total|type=<type>|reason=<reason>",
        "subscriptions_refused_total",
        "store_restarts_total",
    },
}

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

PACES = {
    "REGROW_MAX_OUTBOX": "2",
    "REGROW_METRICS_PORT": "0",
    "REGROW_HELD_TIMEOUT": "30",
}


class Count(State):
    count: int = 0


class Front(Agent[Count], name="front"):
    """As the application has it: importing that would define its effects in this process, where others have theirs."""


@dataclass
class Seen:
    """What the system wrote, and what was there at its end: type and time to live."""

    writes: Writes
    found: dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Everything happens once; the tests look at what it left."""
    server = PrivateServer(tmp_path_factory.mktemp("redis"))
    server.start()
    try:
        with Writes(server.url) as writes:
            settings = load_settings(redis_url=server.url, drain=2, shutdown=2)
            with Stack("tests.crash.docs_app:tree", settings=settings, environment=PACES, output=print):
                Scenario(server.url).run()
                found = dict(_scan(server.url))
        yield Seen(writes, found)
    finally:
        server.kill()


def _scan(url: str) -> Iterator[tuple[str, tuple[str, int]]]:
    raw: Any = redis.Redis.from_url(url, decode_responses=True)
    for key in list(raw.scan_iter(count=1000)):
        kind, ttl = raw.type(key), raw.pttl(key)
        if kind != "none":  # what expires may be gone by now
            yield key, (kind, ttl)
    raw.close()


class Scenario:
    """Signals of every fate, a held emit, effects, a kill, a hold, crashes."""

    def __init__(self, url: str) -> None:
        self.keys = Keys("regrow")
        self.client = Client(url, limits=Limits(dedupe_window_ms=500))
        self.connection = Connection.open(url)
        self.raw: Any = redis.Redis.from_url(url, decode_responses=True)

    def run(self) -> None:
        self.until("front", "status", "running", "both agents run")
        self.until("slow", "status", "running", "both agents run")
        self.signals()
        self.letters()
        self.timers()
        self.effects()
        self.held_emits()
        assert self.client.send("pooled", "note", 1).wait(20).state == "applied"
        self.creation()
        self.family()
        self.publishing()
        self.deaths()
        self.drain()
        self.client.close()
        self.connection.close()
        self.raw.close()

    def signals(self) -> None:
        receipt = self.client.send(
            "front", "note", 1, id="n-1", subject="s", time="2026-01-01T00:00:00Z",
            traceparent=TRACE, causationid="c", replyto="r",
        )  # fmt: skip
        assert receipt.wait(10).state == "applied"
        assert self.client.ask("front", "ask", timeout=10) == 1
        event = {
            "specversion": "1.0", "id": "n-2", "type": "note", "source": "/docs", "data_base64": "AA==",
            "datacontenttype": "application/octet-stream", "dataschema": "urn:x", "tracestate": "a=b", "other": 1,
        }  # fmt: skip
        assert self.client.send("front", Signal.from_cloudevent(event)).wait(10).state == "applied"
        first = self.raw.hget(self.keys.seen("front"), ".since")
        wait_until(lambda: self.is_later_generation(first), "a second generation of signal ids begins")

    def is_later_generation(self, first: str) -> bool:
        self.client.send("front", "note", 1)
        return bool(self.raw.hget(self.keys.seen("front"), ".since") != first)

    def letters(self) -> None:
        dead = [
            self.client.send("front", "reject", 1, subject="s", traceparent=TRACE, causationid="c"),
            self.client.send("front", "nobody.handles.this", 1),
            self.client.send("front", "crash", 1),
        ]
        for receipt in dead:
            assert receipt.wait(10).state == "dead"
        self.client.send("front", "forward", "nobody")
        wait_until(lambda: self.raw.xlen(self.keys.dead("front")) == 4, "the emit to nobody is a dead letter")
        letters = [letter for letter, _ in self.client.dead_letters("front")]
        self.client.dead_retry("front", letters[0])
        self.client.dead_drop("front", letters[1])

    def timers(self) -> None:
        """A timer that fires, one that has no business here any more, and cron, whose next time is moved up."""
        self.client.send("front", "later", 1, traceparent=TRACE)
        minutes = self.keys.timer("front#minutes")
        wait_until(lambda: self.raw.hget(minutes, "due_ms"), "the first due time of cron is found")
        stranger = {"agent": "front", "birth": "gone", "kind": "once", "set": "gone:0-0:0", "set_ms": "0"}
        stranger |= {"due_ms": "0", "to": "front", "type": "note", "data": "1"}
        self.raw.hset(self.keys.timer("front#stranger"), mapping=stranger)
        seconds = int(self.raw.time()[0])
        due_ms = (seconds - seconds % 60 - 300) * 1000
        self.raw.hset(minutes, "due_ms", due_ms)
        self.raw.zadd(self.keys.timers, {"front#minutes": due_ms, "front#stranger": 0})
        wait_until(lambda: self.raw.hget(minutes, "entry"), "cron has fired")
        wait_until(lambda: self.counted("timers_dropped_total"), "the stranger's timer is dropped")
        wait_until(lambda: self.raw.scard(self.keys.timers_of("front")) == 2, "the first timer has fired")

    def counted(self, name: str) -> object:
        return self.raw.hget(self.keys.counters, name)

    def effects(self) -> None:
        self.client.send("front", "order", 1)  # fails once
        wait_until(lambda: self.effects_counted("charge"), "the effect is done", 20)
        wait_until(lambda: self.effects_counted("fetch"), "the async effect is done", 20)
        self.client.send("front", "crawl", 1, traceparent=TRACE, tracestate="a=b")
        tags = self.keys.effect_tags("front")
        wait_until(lambda: self.raw.hlen(tags), "an effect has a tag", 20)
        [crawl] = self.raw.hgetall(tags)
        wait_until(lambda: self.client.effect_progress(crawl), "it says how far it is", 20)
        self.client.send("front", "call.off", 1)
        wait_until(lambda: self.effects_counted("crawl", "cancelled"), "it is cancelled", 20)

    def effects_counted(self, name: str, outcome: str = "done") -> object:
        return self.raw.hget(self.keys.counters, f"effects_total|name={name}|outcome={outcome}")

    def held_emits(self) -> None:
        ask_watchdog(self.connection, self.keys, "hold", {"target": "slow"})
        self.until("slow", "status", "held", "slow is on hold")
        for _ in range(4):  # one fits into the mailbox, three are more than the outbox may hold
            self.client.send("front", "forward", "slow")
        self.until("front", "blocked", "1", "front is blocked by its outbox")
        ask_watchdog(self.connection, self.keys, "unhold", {"target": "slow"})
        self.until("front", "blocked", "0", "the relay has made room")

    def creation(self) -> None:
        receipt = self.client.send("guest", "note", 1, create=Front.child(under="docs/guests"))
        assert receipt.wait(20).state == "applied"

    def publishing(self) -> None:
        self.client.subscribe("front", "note.*")
        self.client.subscribe("guest", "nobody.*")
        assert self.client.publish("note.published", 1).receipts
        assert not self.client.publish("nothing", 1).receipts
        self.raw.hset(self.keys.agent("slow"), "max_mailbox", "1")
        ask_watchdog(self.connection, self.keys, "hold", {"target": "slow"})
        self.until("slow", "status", "held", "slow is on hold")
        self.client.subscribe("slow", "note", policy="latest")
        for _ in range(2):
            assert self.client.publish("note", 1).receipts
        assert self.client.unsubscribe("guest", "nobody.*")
        ask_watchdog(self.connection, self.keys, "unhold", {"target": "slow"})

    def family(self) -> None:
        self.client.send("front", "hire", "helper")
        self.until("front/helper", "status", "running", "front's child runs")
        wait_until(
            lambda: self.raw.hexists(self.keys.agent("front/helper"), "monitor:front"),
            "front monitors its child",
        )
        self.client.send("front", "fire", "helper")
        self.until("front/helper", "status", "stopped", "front's child is stopped")

    def deaths(self) -> None:
        self.until("front", "status", "running", "front runs")
        pid = int(self.raw.hget(self.keys.agent("front"), "pid"))
        os.kill(pid, signal.SIGKILL)
        self.until_new_life(pid)
        assert self.client.send("front", "die", 1).wait(20).state == "dead"
        self.until("front", "status", "running", "front runs")
        pid = int(self.raw.hget(self.keys.agent("front"), "pid"))
        ask_watchdog(self.connection, self.keys, "kill", {"target": "front"})
        self.until_new_life(pid)
        self.client.send("front", "stop", 1)
        wait_until(
            lambda: self.raw.hget(self.keys.counters, "exits_total|reason=normal"), "front has stopped itself"
        )
        self.until("front", "status", "running", "front, which is permanent, runs again")

    def drain(self) -> None:
        node = self.raw.hget(self.keys.agent("front"), "node")
        ask_watchdog(self.connection, self.keys, "drain", {"node": node})
        wait_until(lambda: not self.raw.exists(self.keys.node(node)), "the node has left", 20)

    def until_new_life(self, pid: int) -> None:
        def lives() -> bool:
            record: Mapping[str, str] = self.raw.hgetall(self.keys.agent("front"))
            return record["status"] == "running" and record["pid"] not in {"", str(pid)}

        wait_until(lives, "front runs in another process", 20)

    def until(self, agent: str, field: str, value: str, description: str) -> None:
        wait_until(lambda: self.raw.hget(self.keys.agent(agent), field) == value, description, 20)


def test_every_key_is_documented_with_its_type(seen: Seen) -> None:
    unknown: list[str] = []
    for key, types in seen.writes.types.items():
        documented = {row.type for row in KEYS if row.matches(key)}
        if types != documented:
            unknown.append(f"{key} is a {types}, documented as {documented or 'nothing'}")
    assert unknown == []


def test_what_lies_there_at_the_end_has_the_documented_type_and_expiry(seen: Seen) -> None:
    wrong: list[str] = []
    for key, (kind, ttl) in seen.found.items():
        rows = [row for row in KEYS if row.matches(key)]
        if not any(row.type == kind and row.expires.startswith("never") == (ttl == -1) for row in rows):
            wrong.append(f"{key}: {kind}, {ttl} ms to live, documented as {rows}")
    assert wrong == []


def test_every_documented_key_was_there(seen: Seen) -> None:
    unseen = [row.template for row in KEYS if not any(row.matches(key) for key in seen.writes.types)]
    assert unseen == []


def test_every_field_is_documented(seen: Seen) -> None:
    unknown = sorted(
        {
            f"{table}: {field}"
            for key, fields in _records(seen)
            for table, field, row in _described(key, fields)
            if row is None
        }
    )
    assert unknown == []


def test_fields_that_are_always_there_are_always_there(seen: Seen) -> None:
    missing: set[str] = set()
    for key, fields in _records(seen):
        for schema in SCHEMAS:
            if schema.applies(key, fields):
                names = [
                    row.template for row in schema.rows if row.always and not any(map(row.matches, fields))
                ]
                missing |= {f"{key}: {name}" for name in names}
    assert missing == set()


def test_every_documented_field_was_seen_or_is_of_a_case_that_is_not_played_here(seen: Seen) -> None:
    found = {
        (table, row.template)
        for key, fields in _records(seen)
        for table, _, row in _described(key, fields)
        if row is not None
    }
    unseen: list[str] = []
    for schema in SCHEMAS:
        for row in schema.rows:
            elsewhere = row.template in ELSEWHERE.get(schema.name, ()) and row.when.startswith("only when ")
            if (schema.name, row.template) not in found and not elsewhere:
                unseen.append(f"{schema.name}: {row.template}")
    assert unseen == []


def test_the_document_and_the_table_of_keys_in_the_code_name_the_same_keys() -> None:
    documented = {
        (row.template.removeprefix("{ns}:").partition("<")[0], row.type)
        for row in KEYS
        if row.template.startswith("{ns}:")
    }
    assert documented == {(kind.name, kind.type) for kind in KEY_TABLE}


def _records(seen: Seen) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Hashes and entries of ours."""
    for key, fields in [*seen.writes.fields.items(), *seen.writes.entries]:
        if key.startswith("{regrow}:"):
            yield key, fields


def _described(key: str, fields: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """(name of the table, field, its row or None) for each field; what no table describes at all is named, too."""
    schemas = [schema for schema in SCHEMAS if schema.applies(key.replace(":seen-old:", ":seen:"), fields)]
    if not schemas:
        yield key, "no table for it", None
    for schema in schemas:
        for field in fields:
            yield schema.name, field, schema.row_of(field)
