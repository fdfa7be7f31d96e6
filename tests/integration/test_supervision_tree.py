"""``regrow tree`` shows what the records say, and says of what it cannot read that it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from regrow.cli.look import tree_command
from regrow.cli.session import Session
from regrow_signals.keys import Keys
from regrow_supervisor.codec import to_fields
from regrow_supervisor.decide import decide
from regrow_supervisor.events import Event, Exited, Hold, Started, StartTree, Unplaced
from regrow_supervisor.states import SupervisorState

KEYS = Keys("regrow")


class Shown:
    """Records written as a watchdog would, and what the command prints of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.raw: Any = redis.Redis.from_url(url, decode_responses=True)
        self.states: dict[str, SupervisorState] = {}

    def happens(self, *events: Event) -> None:
        seconds, micros = self.raw.time()
        for event in events:
            decision = decide(self.states, event, seconds * 1000 + micros // 1000)
            self.states.update(decision.states)
        for path, state in self.states.items():
            self.raw.hset(KEYS.supervisor(path), mapping=to_fields(state))
            self.raw.sadd(KEYS.supervisors, path)

    def text(self, *words: str) -> str:
        session = Session(namespace=None, redis_url=self.url)
        done = CliRunner().invoke(tree_command, words, obj=session, catch_exceptions=False)
        session.connection.close()
        assert done.exit_code == 0
        return done.output

    def line(self, name: str) -> str:
        return next(line for line in self.text().splitlines() if f" {name}  " in f" {line}")


@pytest.fixture
def shown(redis_url: str) -> Iterator[Shown]:
    made = Shown(redis_url)
    inner: dict[str, Any] = {
        "strategy": "rest_for_one",
        "max_restarts": 2,
        "children": [{"id": "c", "start": {}}],
    }
    own = {"max_restarts": 5, "max_seconds": 60, "on_exceeded": "park"}
    children: list[dict[str, Any]] = [
        {"id": "a", "start": {}, "backoff": {"first_ms": 60_000, "factor": 2, "longest_ms": 60_000}},
        {"id": "b", "start": {}, "limit": own},
        {"id": "inner", "start": {}, "supervisor": inner},
    ]
    tree: dict[str, Any] = {
        "strategy": "one_for_one",
        "max_restarts": 3,
        "max_seconds": 60,
        "children": children,
    }
    made.happens(
        StartTree(path="desk", definition=tree),
        Started(path="desk", child="a", incarnation=1),
        Started(path="desk", child="b", incarnation=1),
        Started(path="desk/inner", child="c", incarnation=1),
    )
    yield made
    made.raw.close()


def test_budgets_uptime_and_last_reasons_are_drawn(shown: Shown) -> None:
    shown.happens(
        Exited(path="desk", child="a", incarnation=1, reason="signal:SIGKILL"),
        Exited(path="desk", child="b", incarnation=1, reason="deadline"),
        Started(path="desk", child="b", incarnation=2),
    )

    assert "budget 1 of 3 in 60 s used" in shown.line("desk")
    assert "up 0 s" in shown.line("desk")
    assert "restarting" in shown.line("a") and "starts in" in shown.line("a")
    assert "its own budget 1 of 5 in 60 s used" in shown.line("b")
    assert "last end: deadline" in shown.line("b")
    assert "rest_for_one" in shown.line("inner") and "budget 0 of 2 in 5 s used" in shown.line("inner")


def test_holds_are_drawn_for_agents_and_branches(shown: Shown) -> None:
    shown.happens(
        Hold(path="desk", child="b", request="r1"),
        Exited(path="desk", child="b", incarnation=1, reason="shutdown"),
        Hold(path="desk/inner", child="", request="r2"),
        Exited(path="desk/inner", child="c", incarnation=1, reason="shutdown"),
    )

    assert "held" in shown.line("b") and "on hold" in shown.line("b")
    assert "on hold" in shown.line("inner")
    assert "on hold" not in shown.line("a")


def test_a_child_without_a_node_says_what_it_waits_for(shown: Shown) -> None:
    shown.happens(
        Exited(path="desk", child="b", incarnation=1, reason="node_lost", charged=False),
        Unplaced(path="desk", child="b", incarnation=2, reason="no worker node is up"),
    )

    assert "waiting" in shown.line("b") and "no worker node is up" in shown.line("b")
    assert "last end: waiting" not in shown.text()


def test_a_record_that_cannot_be_read_is_shown_as_such_and_the_others_as_they_are(shown: Shown) -> None:
    shown.raw.hset(KEYS.supervisor("desk/inner"), "stamps", "junk")
    shown.raw.sadd(KEYS.supervisors, "other")
    shown.raw.hset(KEYS.supervisor("other"), "version", "junk")

    assert "cannot be read" in shown.line("inner") and "cannot be read" in shown.line("other")
    assert "one_for_one" in shown.line("desk")
    document = json.loads(shown.text("--json"))
    assert [root["path"] for root in document["roots"]] == ["desk", "other"]
    assert document["roots"][0]["children"][2]["unreadable"]
