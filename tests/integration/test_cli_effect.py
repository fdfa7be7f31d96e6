"""``regrow effect``: what is listed, settled and tried again, at a prompt."""

from __future__ import annotations

import json

import pytest
import redis

from regrow.cli import run_words
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from tests.integration.stage import Stage, effect

ONE, TWO = "birth:1-1:1", "birth:1-1:2"


@pytest.fixture
def stage(connection: Connection, raw: redis.Redis, keys: Keys) -> Stage:
    stage = Stage(connection, raw, keys)
    owner, loaded = stage.live("a")
    [entry] = stage.feed("a")
    stage.commit(stage.plan(owner, loaded, entry, effects=[effect(1), effect(2)]))
    return stage


def test_effects_are_listed_settled_and_cancelled(
    stage: Stage, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def regrow(*words: str) -> str:
        assert run_words(["--redis-url", redis_url, "effect", *words]) == 0
        return capsys.readouterr().out

    listed = json.loads(regrow("ls", "--agent", "a", "--json"))
    assert [(one["effect"], one["status"]) for one in listed] == [(ONE, "pending"), (TWO, "pending")]
    assert "waiting, due" in regrow("ls")

    regrow("retry", ONE)
    regrow("settle", ONE, "done", '{"paid": true}')
    regrow("cancel", TWO)

    told = [(signal["type"], json.loads(signal["data"])) for signal in stage.entries(stage.keys.mailbox("a"))]
    assert told == [
        ("charge.done", {"effect": ONE, "result": {"paid": True}}),
        ("charge.failed", {"effect": TWO, "error": "cancelled by an operator", "attempts": 0}),
    ]
    assert regrow("ls") == "no effect waits or runs\n"
    assert run_words(["--redis-url", redis_url, "effect", "cancel", TWO]) == 1
    assert "regrow effect ls" in capsys.readouterr().err
