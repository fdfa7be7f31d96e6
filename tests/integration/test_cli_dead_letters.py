"""``regrow dead retry``: a letter that cannot be sent again says why, stays, and stands in no other's way."""

from __future__ import annotations

from typing import Any

import pytest

from regrow.cli import run_words
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from tests.integration.conftest import Unchanged
from tests.integration.stage import Stage


@pytest.fixture
def stage(
    connection: Connection, raw: Any, keys: Keys, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    monkeypatch.setenv("REDIS_URL", redis_url)
    stage = Stage(connection, raw, keys)
    stage.register("support")
    stage.register("full", max_mailbox=1)
    raw.xadd(keys.mailbox("full"), {"id": "waits"})
    return stage


def letter(stage: Stage, **fields: str) -> str:
    raw: Any = stage.raw
    about = {"reason": "rejected", "error": "", "attempts": "1", "dead_ms": "1"}
    return str(raw.xadd(stage.keys.dead("support"), {**about, **fields}))


def test_all_letters_are_tried_and_the_refused_ones_are_named(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    first = letter(stage, id="s-1", type="a.b", data="1")
    bad = letter(stage, id="s-2", type="a.b", data="1", target="no good!")
    to_full = letter(stage, id="s-3", type="a.b", data="1", target="full")
    to_nobody = letter(stage, id="s-4", type="a.b", data="1", target="nobody")
    last = letter(stage, type="a.b", data="1")

    code = run_words(["dead", "retry", "support", "--all"])

    said = capsys.readouterr()
    assert code == 1
    assert said.out.splitlines() == [
        f"{first} is sent again as s-1:retry-1",
        f"{last} is sent again as {last}:retry-1",
    ]
    lines = said.err.splitlines()
    assert [line.split()[1] for line in lines] == [bad, to_full, to_nobody]
    assert ["no good!" in lines[0], "full is full" in lines[1], "nobody" in lines[2]] == [True] * 3
    assert stage.ids(stage.keys.dead("support")) == [bad, to_full, to_nobody]


def test_a_letter_accepted_under_a_larger_bound_is_sent_again_whole(stage: Stage) -> None:
    large = letter(stage, id="s-1", type="a.b", data='"' + "x" * 300_000 + '"')

    assert run_words(["dead", "retry", "support", large]) == 0

    (fields,) = stage.entries(stage.keys.mailbox("support"))
    assert len(fields["data"]) == 300_002


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("support", "first"), 2, "'first': give the id that the list of dead letters shows"),
        (("support", "9-9"), 1, "support has no dead letter 9-9"),
        (("nobody", "9-9"), 1, "no agent nobody is registered"),
        (("wrong", "9-9"), 3, "{regrow}:dead:wrong"),
    ],
)
def test_what_is_not_there_is_named_and_changes_nothing(
    stage: Stage,
    unchanged: Unchanged,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    stage.raw.set(stage.keys.dead("wrong"), "text")

    with unchanged():
        assert run_words(["dead", "retry", *words]) == code

    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
