"""Limits of effects: what may be written, and the bucket's arithmetic, which is the scripts' own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from regrow.testing.memory_connection import MemoryConnection
from regrow.testing.memory_server import MemoryServer
from regrow_signals.calls import Command
from regrow_signals.effect_store import EffectLimit, EffectPutOff, announce_limits, claim_effect, ring
from regrow_signals.errors import BadDefinition
from regrow_signals.keys import Keys
from regrow_workers.effects.effect import EffectContext, effect
from regrow_workers.effects.rates import Rate, effect_limit

KEYS = Keys("regrow")


@pytest.mark.parametrize(
    ("rate", "count", "period_ms"),
    [
        ("10/s", 10, 1_000),
        ("1/100ms", 1, 100),
        (" 100 / min ", 100, 60_000),
        ("5/10s", 5, 10_000),
        ("1/h", 1, 3_600_000),
        ("1000/d", 1_000, 86_400_000),
        ((10, 1.0), 10, 1_000),
        ((3, timedelta(minutes=2)), 3, 120_000),
        ((1, 0.0001), 1, 1),
    ],
)
def test_rate_as_it_may_be_written(rate: Rate, count: int, period_ms: int) -> None:
    assert effect_limit("fetch", None, rate) == EffectLimit(0, count, period_ms)


@pytest.mark.parametrize(
    ("concurrency", "rate", "says"),
    [
        (0, None, "concurrency is 0"),
        (True, None, "concurrency is True"),
        (2.0, None, "concurrency is 2.0"),
        (1_000_001, None, "from 1 to 1,000,000"),
        (None, "ten a second", 'write "10/s"'),
        (None, "10/week", 'write "10/s"'),
        (None, "0/s", "rate's number is 0"),
        (None, 10, 'write "10/s"'),
        (None, (10,), 'write "10/s"'),
        (None, (1.5, 1.0), "rate's number is 1.5"),
        (None, (10, 0), "more than 0"),
        (None, (10, "1"), "give seconds or a timedelta"),
        (None, "1/0s", "from 1 ms to a year"),
        (None, "1/400d", "from 1 ms to a year"),
    ],
)
def test_limit_that_makes_no_sense_is_named_with_its_effect(concurrency: Any, rate: Any, says: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        effect_limit("fetch", concurrency, rate)
    assert "effect fetch: " in str(caught.value)
    assert says in str(caught.value)


def test_decorator_keeps_the_limit_and_refuses_a_bad_one_at_once() -> None:
    @effect(name="limited.here", concurrency=3, rate="10/s")
    def limited(run: EffectContext) -> None: ...

    assert limited.limit == EffectLimit(3, 10, 1_000)
    with pytest.raises(BadDefinition, match=r"limited\.there: rate="):
        effect(name="limited.there", rate="fast")(lambda run: None)


# The bucket: a server whose clock the table moves, real scripts, no limit but the rate.


class Desk:
    """Orders effects by hand and claims them when told."""

    def __init__(self, limit: EffectLimit, count: int) -> None:
        self.ms = 1_000_000_000_000
        self.connection: Any = MemoryConnection(MemoryServer(lambda: self.ms / 1000))
        self._do("HSET", KEYS.node("n"), "kind", "effects")
        self._do("HSET", KEYS.agent("a"), "type", "t", "cursor", "0-0", "birth", "b")
        self.waiting = [f"b:1-1:{n}" for n in range(count)]
        for effect_id in self.waiting:
            entry = self._do("XADD", KEYS.outbox("a"), "*", "kind", "effect", "args", "{}")
            fields: tuple[str, ...] = (
                "agent",
                "a",
                "entry",
                entry,
                "birth",
                "b",
                "name",
                "fetch",
                "status",
                "pending",
            )
            fields += ("attempts", "0", "kills", "0", "due_ms", "0", "timeout_ms", "1000", "queue", "")
            self._do("HSET", KEYS.effect(effect_id), *fields)
            self._do("ZADD", KEYS.effects, 0, effect_id)
        self.connection.call(announce_limits(KEYS, {"fetch": limit}))

    def _do(self, *words: str | int) -> Any:
        return self.connection.command(Command(words, lambda reply: reply))

    def claim(self) -> int | None:
        """None: it was claimed; else in how many ms to try again."""
        call = claim_effect(KEYS, self.waiting[0], node="n", executor="x", token=self.waiting[0])
        try:
            self.connection.call(call)
        except EffectPutOff as refusal:
            assert refusal.bound == "rate"
            return refusal.retry_in_ms
        self.waiting.pop(0)
        return None


@pytest.mark.parametrize(
    ("count", "period_ms", "steps"),
    [
        # (ms that pass, what a claim then says: None, or when to try again)
        (1, 100, [(0, None), (0, 100), (40, 60), (59, 1), (1, None), (0, 100)]),
        (3, 300, [(0, None), (0, None), (0, None), (0, 100), (100, None), (0, 100)]),
        # A full bucket takes no more: an hour of rest buys no more than `count`.
        (2, 1000, [(3_600_000, None), (0, None), (0, 500), (500, None), (1_000, None), (0, None), (0, 500)]),
        # Steps that are no whole milliseconds.
        (3, 1000, [(0, None), (0, None), (0, None), (0, 334), (333, 1), (1, None), (332, 1), (1, None)]),
        # A clock that was set back by a day: at worst the bucket is empty.
        (2, 1000, [(0, None), (-86_400_000, 500), (500, None), (0, 500)]),
    ],
)
def test_bucket(count: int, period_ms: int, steps: Sequence[tuple[int, int | None]]) -> None:
    desk = Desk(EffectLimit(0, count, period_ms), len(steps))
    for passed, expected in steps:
        desk.ms += passed
        assert desk.claim() == expected, (passed, expected, steps)


@pytest.mark.parametrize(("count", "period_ms"), [(1, 7), (3, 100), (7, 1000), (10, 1000)])
def test_whoever_waits_as_told_is_never_over_the_rate_and_never_under_it(count: int, period_ms: int) -> None:
    desk, began = Desk(EffectLimit(0, count, period_ms), 60), list[int]()
    while desk.waiting:
        wait = desk.claim()
        if wait is None:
            began.append(desk.ms)
        else:
            assert wait > 0
            desk.ms += wait
    step = period_ms / count
    for first, last in ((i, j) for i in range(60) for j in range(i, 60)):
        assert last - first + 1 <= count + (began[last] - began[first]) / step + 1e-6
    after_burst = began[count - 1 :]
    assert all(later - earlier <= step + 1 for earlier, later in pairwise(after_burst))
    assert began[-1] - began[0] < (60 - count) * step + 1


def test_ring_tells_no_more_than_there_is_room_for_and_when_to_ask_again() -> None:
    desk = Desk(EffectLimit(4, 2, 1000), 6)

    first = desk.connection.call(ring(KEYS, 10, 4_000))

    assert [one.effect_id for one in first.told] == desk.waiting[:2]
    assert first.next_ms == 500
    assert [desk.claim(), desk.claim()] == [None, None]
    assert desk.connection.call(ring(KEYS, 10, 4_000)).told == []
    desk.ms += 500
    assert [one.effect_id for one in desk.connection.call(ring(KEYS, 10, 4_000)).told] == desk.waiting[:1]
