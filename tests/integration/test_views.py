"""Looking in: what is shown, what is shown of nothing, and that looking changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from regrow_signals import views
from regrow_signals.connection import Connection
from regrow_signals.errors import BadId, BadInput, CorruptKey
from regrow_signals.keys import Keys


@pytest.fixture(autouse=True)
def system(raw: Any, keys: Keys) -> None:
    raw.hset(keys.agent("a"), mapping={"type": "desk", "version": "7", "state": '{"open":1}', "schema": "2"})
    raw.zadd(keys.agents, {"b": 5, "a": 9})
    raw.zadd(keys.nodes, {"n-2": 1, "n-1": 2})
    raw.hset(keys.node("n-1"), mapping={"host": "h"})
    raw.xadd(keys.mailbox("a"), {"id": "1", "at_ms": "1234"})
    raw.xadd(keys.mailbox("a"), {"id": "2", "at_ms": "1235"})
    raw.xadd(keys.dead("a"), {"id": "0", "reason": "reject"})
    for n in range(3):
        raw.xadd(keys.events, {"event": "started", "n": str(n)})
    raw.hset(keys.counters, mapping={"x_total": "5", "y_sum_us|type=a": "-1", "spoilt": "many"})
    raw.sadd(keys.supervisors, "root/b", "root")
    raw.hset(keys.supervisor("root"), mapping={"status": "running"})
    raw.set(keys.leader, "token")


def test_everything_is_shown(connection: Connection, keys: Keys, unchanged: Any) -> None:
    with unchanged():
        assert connection.command(views.agent_ids(keys)) == ["a", "b"]
        assert connection.command(views.agent_record(keys, "a"))["version"] == "7"
        assert connection.command(views.mailbox_length(keys, "a")) == 2
        assert connection.command(views.oldest_waiting(keys, "a")) == 1234
        assert connection.command(views.dead_length(keys, "a")) == 1
        assert connection.command(views.dead_letters(keys, "a"))[0][1] == {"id": "0", "reason": "reject"}
        assert connection.command(views.node_ids(keys)) == ["n-1", "n-2"]
        assert connection.command(views.node_record(keys, "n-1")) == {"host": "h"}
        assert connection.command(views.counters(keys)) == {"x_total": 5, "y_sum_us|type=a": -1}
        assert connection.command(views.supervisor_paths(keys)) == ["root", "root/b"]
        assert connection.command(views.supervisor_record(keys, "root")) == {"status": "running"}
        assert connection.command(views.leader(keys)) == "token"
        assert connection.run(views.stored_state(keys, "a")) == ('{"open":1}', 2)
        with pytest.raises(BadInput, match="name its own class"):
            connection.run(views.stored_state(keys, "a", types=("another",)))


def test_pages_go_on_after_the_last_entry_shown(connection: Connection, keys: Keys) -> None:
    [(first, fields)] = connection.command(views.events(keys, count=1))
    assert fields["n"] == "0"
    rest = connection.command(views.events(keys, after=first))
    assert [shown["n"] for _, shown in rest] == ["1", "2"]
    newest = connection.command(views.events(keys, count=2, newest=True))
    assert [shown["n"] for _, shown in newest] == ["1", "2"]


def test_fields_of_many_agents_come_in_one_round_trip(connection: Connection, keys: Keys) -> None:
    found = connection.pipeline(views.agent_records(keys, ["a", "b"], "type", "version"))
    assert found == [{"type": "desk", "version": "7"}, {"type": "", "version": ""}]


def test_nothing_is_shown_as_nothing(connection: Connection) -> None:
    keys = Keys("empty")
    assert connection.command(views.agent_ids(keys)) == []
    assert connection.command(views.agent_record(keys, "a")) == {}
    assert connection.command(views.oldest_waiting(keys, "a")) == 0
    assert connection.command(views.outbox(keys, "a")) == connection.command(views.journal(keys, "a")) == []
    assert connection.command(views.mailbox(keys, "a")) == []
    assert connection.command(views.leader(keys)) == ""
    assert connection.command(views.counters(keys)) == {}


def test_bytes_that_are_no_text_are_spelled_out(connection: Connection, redis_url: str, keys: Keys) -> None:
    person = redis.Redis.from_url(redis_url)
    person.hset(keys.agent("a"), "last_error", b"caf\xe9")
    person.close()
    assert connection.command(views.agent_record(keys, "a"))["last_error"] == "caf\\xe9"


def test_wrong_type_and_bad_id_are_typed(connection: Connection, raw: Any, keys: Keys) -> None:
    raw.delete(keys.mailbox("a"))
    raw.set(keys.mailbox("a"), "by hand")
    with pytest.raises(CorruptKey):
        connection.command(views.mailbox_length(keys, "a"))
    with pytest.raises(BadId):
        views.agent_record(keys, "a*")
