"""``regrow timers``: what is set, for people and for machines; and taking one away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regrow.cli import run_words
from regrow_signals.connection import Connection
from regrow_signals.due_timers import decide
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.schedules import DeclaredTimer, Installation, install, installed_text
from regrow_signals.timers import due, fire
from tests.integration.stage import LEADER, Stage
from tests.integration.timer_desk import Desk

HOUR = 3_600_000


@pytest.fixture
def desk(
    connection: Connection, raw: Any, keys: Keys, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.setenv("REDIS_URL", redis_url)
    stage = Stage(connection, raw, keys)
    stage.node()
    stage.register("a", "b")
    return Desk(stage)


def declare(desk: Desk, *timers: DeclaredTimer) -> None:
    stage = desk.stage
    stage.do(install(stage.keys, LEADER, [Installation("a", installed_text(timers), timers)]))
    now, _, found = stage.do(due(stage.keys, 10))
    stage.do(fire(stage.keys, Limits(), LEADER, [decide(timer, now) for timer in found]))


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run_words(["timers", *words]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_list_says_who_sends_what_when_and_how_often(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "list") == ["no timers are set"]
    assert shown(capsys, "list", "b") == ["b has no timers"]
    desk.commit(
        desk.timer("later", after_ms=30 * HOUR, to="b"),
        desk.timer("cron", after_ms=None, kind="cron", expression="@yearly", tz="UTC", missed="one"),
    )
    declare(desk, DeclaredTimer(tag="poll", kind="every", type="timer.poll", every_ms=90_000))

    for words in (["list"], ["list", "a"]):
        heading, *lines = shown(capsys, *words)
        assert heading == "AGENT TAG DUE AGAIN SENDS TO"
        first, second, third = (line.split() for line in lines)
        assert (first[:2], first[4:]) == (
            ["a", "poll"], ["every", "90", "s,", "missed=skip,", "declared", "timer.poll", "a"],
        )  # fmt: skip
        assert (second[:2], second[4:]) == (["a", "later"], ["once", "late", "b"])
        assert (third[:2], third[4:]) == (["a", "cron"], ["@yearly", "UTC,", "missed=one", "late", "a"])

    assert len(shown(capsys, "list", "-c", "1")) == 2
    assert run_words(["timers", "list", "a", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["timer"] for record in records] == ["a#poll", "a#later", "a#cron"]
    assert records[1]["to"] == "b" and records[2]["expression"] == "@yearly"


def test_a_timer_is_cancelled_by_its_tag(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.commit(desk.timer("later", after_ms=HOUR))
    declare(desk, DeclaredTimer(tag="poll", kind="every", type="timer.poll", every_ms=90_000))

    assert shown(capsys, "cancel", "a", "later") == ["timer a#later is cancelled"]

    for tag, told in (("later", "a has no timer later"), ("poll", "a#poll is declared by the agent's class")):
        assert run_words(["timers", "cancel", "a", tag]) != 0
        assert told in capsys.readouterr().err
    assert [line.split()[1] for line in shown(capsys, "list", "a")[1:]] == ["poll"]


def test_timers_of_nobody_are_asked_for_in_vain(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_words(["timers", "list", "nobody"]) != 0
    assert "no agent nobody is registered" in capsys.readouterr().err
