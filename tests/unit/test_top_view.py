"""What two looks at a system come to, and how it is drawn: pure."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from regrow.cli.top import draw
from regrow.pool_view import NodePool, PoolView
from regrow.top_view import Look, frame
from regrow_signals.census import Census, Group, Seen, Tally

NODE = {"id": "n1", "kind": "worker", "status": "up", "load": "3", "slots": "2", "stuck": "1"}


def look(at_ms: int = 0, **counters: int) -> Look:
    census = Census(
        groups={Group("shop", "chat", "idle"): Tally(7, 0, 1), Group("shop", "mail", "running"): Tally(1, 5)},
        busiest=[Seen("m-1", "shop", "mail", "running", "n1/2", 5, 0)],
    )
    return Look(
        at_ms=at_ms,
        leader=True,
        counters=counters,
        nodes=[NODE],
        pool=PoolView([NodePool("n1", 2, 1, 4)], Counter({"chat@1": 3})),
        census=census,
        census_age=4.0,
        events=[
            {"event": "started", "agent": "m-1", "at_ms": "1"},
            {"event": "exited", "agent": "m-1", "at_ms": "2", "reason": "signal:SIGKILL"},
        ],
    )


def counters(**types: int) -> dict[str, int]:
    return {f"signals_applied_total|type={kind}": count for kind, count in types.items()}


def test_rates_are_for_a_second_between_the_two_looks() -> None:
    ends = {"exits_total|reason=exit": 1, "exits_total|reason=signal": 2}

    picture = frame(look(1_000, **counters(chat=10)), look(3_000, **counters(chat=50, mail=4), **ends))

    assert (picture.seconds, picture.rates["applied"], picture.rates["ends"]) == (2.0, 22.0, 1.5)
    rows = {row.type: (row.applied, row.agents, row.backlog, row.dead) for row in picture.types}
    assert rows == {"chat": (20.0, 7, 0, 1), "mail": (2.0, 1, 5, 0)}
    assert [row.type for row in picture.types] == ["chat", "mail"], "the busiest type comes first"


def test_counters_that_went_back_with_redis_count_from_zero() -> None:
    picture = frame(look(0, **counters(chat=1_000)), look(1_000, **counters(chat=30)))

    assert picture.rates["applied"] == 30.0


def test_only_ends_and_their_like_are_news() -> None:
    picture = frame(look(), look(1_000))

    assert [event["event"] for event in picture.news] == ["exited"]


def test_a_picture_is_plain_json() -> None:
    document = json.loads(json.dumps(frame(look(), look(1_000)).to_json()))

    assert document["slots"] == {"slots": 2, "stuck": 1, "in_hand": 4}
    assert document["busiest"][0]["slot"] == "n1/2"


@pytest.mark.parametrize("size", [(80, 24), (40, 5), (200, 1000)])
def test_a_picture_is_cut_to_the_terminal(size: tuple[int, int]) -> None:
    lines = draw(frame(look(), look(1_000)), "regrow", *size)

    assert len(lines) <= size[1] and max(map(len, lines)) <= size[0]


@pytest.mark.parametrize(
    "told",
    ["a watchdog leads", "agents counted 4 s ago", "7 idle, 1 running", "2, 1 stuck, 4 agents in hand",
     "3 for chat@1", "m-1", "n1/2", "signal:SIGKILL"],
)  # fmt: skip
def test_a_picture_tells(told: str) -> None:
    assert told in "\n".join(draw(frame(look(), look(1_000)), "regrow", 200, 100))


def test_without_a_leader_it_says_so() -> None:
    before, after = look(), look(1_000)
    leaderless: dict[str, Any] = {name: getattr(after, name) for name in after.__slots__} | {"leader": False}

    assert "NO WATCHDOG LEADS" in draw(frame(before, Look(**leaderless)), "regrow", 200, 9)[0]
