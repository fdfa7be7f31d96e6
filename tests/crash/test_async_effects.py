"""Effects that are an ``async def``: many wait in one process; killed, over their time, drained."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import wait_until
from tests.crash.effects_harness import EffectsNodeUnderTest, Orders

pytestmark = pytest.mark.crash

MANY = 1_000


@pytest.fixture
def orders(redis_url: str, tmp_path: Path) -> Iterator[Orders]:
    made = Orders(redis_url, tmp_path / "marks")
    yield made
    made.close()


@pytest.fixture
def node(redis_url: str) -> Iterator[EffectsNodeUnderTest]:
    made = EffectsNodeUnderTest(redis_url, executors=1)
    yield made
    made.end()


def let_go(tmp_path: Path) -> None:
    (tmp_path / "go").touch()


def assert_settled(orders: Orders) -> None:
    raw, keys = orders.raw, orders.keys
    assert not raw.exists(keys.effects_async, keys.effects)
    assert raw.xlen(keys.outbox("a")) == 0
    assert list(cast("Any", raw).scan_iter(match=f"{keys.tag}:effect:*")) == []


def test_async_effects_result_is_told(node: EffectsNodeUnderTest, orders: Orders) -> None:
    effect_id = orders.order(name="fetch", awaited=True)

    assert orders.outcome(effect_id, 20) == ("fetch.done", {"effect": effect_id, "result": "done"})
    assert_settled(orders)


def test_thousand_calls_wait_in_one_process_beside_a_plain_one(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    asked = orders.order_many("wait", MANY, name="fetch", awaited=True)
    wait_until(lambda: len(orders.marks()) >= MANY, "all of them are called", 30)
    pids = {mark.pid for mark in orders.marks()}
    assert len(pids) == 1
    plain = orders.order()
    assert orders.outcome(plain)[0] == "charge.done"

    let_go(tmp_path)

    wait_until(lambda: len(orders.outcomes()) == MANY + 1, "all of them are told", 30)
    assert {found["effect"] for _, found in orders.outcomes()} == {plain, *asked}
    assert len(orders.marks()) == MANY + 1
    assert_settled(orders)


def test_killed_loops_calls_run_again_or_are_in_doubt(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    again = orders.order_many("wait", 20, name="fetch", awaited=True)
    doubtful = orders.order_many("wait", 20, name="post", awaited=True, idempotent=False)
    wait_until(lambda: len(orders.marks()) == 40, "all are called", 20)

    os.kill(orders.marks()[0].pid, signal.SIGKILL)
    wait_until(lambda: len(orders.marks()) == 60, "what may be repeated is called again", 20)
    let_go(tmp_path)

    wait_until(lambda: len(orders.outcomes()) == 40, "all are told", 20)
    told = {found["effect"]: kind for kind, found in orders.outcomes()}
    assert {told[each] for each in again} == {"fetch.done"}
    assert {told[each] for each in doubtful} == {"post.in_doubt"}
    assert all(len(orders.marks(each)) == 2 for each in again)
    assert all(len(orders.marks(each)) == 1 for each in doubtful)
    assert_settled(orders)


def test_cancelled_calls_stop_and_their_neighbours_go_on(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    others = orders.order_many("wait", 3, name="fetch", awaited=True)
    cancelled = orders.order_many("wait", 3, name="post", awaited=True, idempotent=False, tag="order-7")
    wait_until(lambda: len(orders.marks()) == 6, "all are called", 20)

    assert orders.cancel("order-7") == (0, 3)

    for each in cancelled:
        assert orders.outcome(each) == ("post.cancelled", {"effect": each, "tag": "order-7", "attempts": 1})
    let_go(tmp_path)
    assert {orders.outcome(each)[0] for each in others} == {"fetch.done"}
    assert_settled(orders)


def test_exception_and_time_limit_are_tries_that_failed(node: EffectsNodeUnderTest, orders: Orders) -> None:
    raising = orders.order("raise", name="fetch", awaited=True, retries=1, backoff_ms=10)
    slow = orders.order("slow", name="fetch", awaited=True, retries=0, timeout_ms=300)
    doubtful = orders.order("slow", name="post", awaited=True, idempotent=False, timeout_ms=300)

    kind, found = orders.outcome(raising, 20)
    assert (kind, found["attempts"]) == ("fetch.failed", 2)
    assert "ValueError: told to raise" in found["error"]
    kind, found = orders.outcome(slow)
    assert (kind, found["error"]) == ("fetch.failed", "it took longer than its timeout of 0.3 s")
    assert orders.outcome(doubtful)[0] == "post.in_doubt"
    assert_settled(orders)


def test_drain_lets_calls_finish_and_takes_no_new_ones(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    asked = orders.order_many("wait", 5, name="fetch", awaited=True)
    wait_until(lambda: len(orders.marks()) == 5, "all are called", 20)

    node.ask_to_end()
    wait_until(lambda: "drain" in node.said(), "the node drains", 5)
    late = orders.order(name="fetch", awaited=True)
    let_go(tmp_path)

    assert node.process.wait(10) == 0
    assert {found["effect"] for _, found in orders.outcomes()} == set(asked)
    assert orders.record(late)["status"] == "pending"


def test_call_that_cancels_itself_or_raises_sys_exit_is_told_and_ends_nobody(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    waiting = orders.order("wait", name="post", awaited=True, idempotent=False)
    orders.wait_called(waiting, timeout=20)
    cancelled = orders.order("cancel itself", name="fetch", awaited=True, retries=0)
    kind, found = orders.outcome(cancelled)
    assert (kind, "CancelledError" in found["error"]) == ("fetch.failed", True)
    left = orders.order("sys.exit", name="fetch", awaited=True, retries=0)
    kind, found = orders.outcome(left)
    assert (kind, "SystemExit" in found["error"]) == ("fetch.failed", True)
    let_go(tmp_path)
    assert orders.outcome(waiting)[0] == "post.done"
    assert_settled(orders)


def test_call_that_holds_on_beyond_its_time_costs_the_loop_and_its_neighbours_are_given_back(
    node: EffectsNodeUnderTest, orders: Orders, tmp_path: Path
) -> None:
    again = orders.order("wait", name="fetch", awaited=True)
    doubtful = orders.order("wait", name="post", awaited=True, idempotent=False)
    wait_until(lambda: len(orders.marks()) == 2, "both are called", 20)
    holding = orders.order("hold on", name="post", awaited=True, idempotent=False, timeout_ms=300)

    assert orders.outcome(holding, 20)[0] == "post.in_doubt"
    assert orders.outcome(doubtful)[0] == "post.in_doubt"
    let_go(tmp_path)
    assert orders.outcome(again)[0] == "fetch.done"
    assert len(orders.marks(again)) == 2
    assert_settled(orders)
