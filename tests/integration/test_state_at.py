"""``regrow state AGENT --at VERSION``: for people, for machines, and what it says where nothing is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

import regrow.cli


@pytest.fixture
def agent(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An agent at version 4, with its first three transitions in one commit."""
    raw = redis.Redis.from_url(redis_url)
    raw.hset("{regrow}:agent:a", mapping={"type": "t", "version": "4", "state": '{"n":4}', "init": '{"n":0}'})
    for version, state in ((1, None), (2, None), (3, '{"n":3}'), (4, '{"n":4}')):
        line: dict[Any, Any] = {
            "version": version,
            "type": "add",
            "signal": f"s-{version}",
            "directives": "[]",
        }
        line |= {"at_ms": 1_700_000_000_000, "digest": f"d{version}", "outcome": "applied"}
        raw.xadd("{regrow}:journal:a", line if state is None else {**line, "state": state})
    raw.close()
    monkeypatch.setenv("REDIS_URL", redis_url)
    return "a"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = regrow.cli.run_words(words)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_an_earlier_state_is_shown_with_what_led_to_it(
    agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "state", agent, "--at", "3")

    assert code == 0
    assert out.splitlines()[0] == "a at version 3, after add (s-3) of 2023-11-14 22:13:20.000Z"
    assert '"n": 3' in out


def test_for_machines(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "state", agent, "--at", "0", "--json")

    assert (json.loads(out)["version"], json.loads(out)["state"]) == (0, {"n": 0})


def test_a_version_that_was_not_kept_is_refused_with_its_neighbours(
    agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "state", agent, "--at", "2")

    assert (code, out) == (2, "")
    assert "the nearest are 3" in err
