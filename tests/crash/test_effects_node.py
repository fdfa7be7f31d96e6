"""The effects node with real processes: killed executors, hung calls, drains, a lost node, strangers' jobs in RQ."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regrow_signals import effect_store
from regrow_signals.leadership import resign
from tests.conftest import PrivateServer, wait_until
from tests.crash.effects_harness import SOURCE_ROOTS, EffectsNodeUnderTest, Mark, Orders
from tests.crash.processes import alive
from tests.integration.stage import LEADER

pytestmark = pytest.mark.crash


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


@pytest.fixture
def orders(redis_url: str, marks: Path) -> Iterator[Orders]:
    made = Orders(redis_url, marks)
    yield made
    made.close()


class Starter:
    def __init__(self, url: str) -> None:
        self.url = url
        self.nodes: list[EffectsNodeUnderTest] = []

    def __call__(self, **settings: Any) -> EffectsNodeUnderTest:
        self.nodes.append(EffectsNodeUnderTest(self.url, **settings))
        return self.nodes[-1]


@pytest.fixture
def start(redis_url: str) -> Iterator[Starter]:
    starter = Starter(redis_url)
    yield starter
    for node in starter.nodes:
        node.end()


def kill_in_call(orders: Orders, effect_id: str) -> Mark:
    """SIGKILL the executor that is in this effect's function; its mark."""
    mark = orders.wait_called(effect_id)[-1]
    os.kill(mark.pid, signal.SIGKILL)
    return mark


def assert_settled(orders: Orders, node: str = "") -> None:
    """Nothing of the effects is left: no record, no due time, nobody's claim, no outbox entry."""
    raw: Any = orders.raw
    assert not raw.exists(orders.keys.effects)
    assert not [
        key
        for key in raw.scan_iter()
        if key.startswith((f"{orders.keys.tag}:effect:", orders.keys.claims("")))
    ]
    assert raw.xlen(orders.keys.outbox("a")) == 0


def test_effect_runs_once_and_its_result_is_told(start: Starter, orders: Orders) -> None:
    effect_id = orders.order()
    start()

    assert orders.outcome(effect_id, 20) == ("charge.done", {"effect": effect_id, "result": "done"})
    assert [mark.attempt for mark in orders.marks(effect_id)] == [1]
    assert_settled(orders)


def test_killed_executors_effect_runs_again_at_once_under_the_same_id(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order("sleep once")

    first = kill_in_call(orders, effect_id)

    _, second = orders.wait_called(effect_id, 2, timeout=5)
    assert second.pid != first.pid
    assert orders.outcome(effect_id)[0] == "charge.done"
    # A kill that nobody of ours made is no try that failed.
    assert second.attempt == 1
    assert_settled(orders)


def test_killed_executors_place_under_a_concurrency_goes_to_the_next_in_turn(
    start: Starter, orders: Orders
) -> None:
    orders.wait_up(start())
    first = orders.order("sleep once", name="crawl")
    orders.wait_called(first)
    others = orders.order_many("", 2, name="crawl")
    wait_until(lambda: orders.raw.zcard(orders.keys.parked("crawl")) == 2, "both wait for the one place")
    assert orders.marks() == orders.marks(first)

    kill_in_call(orders, first)

    assert {orders.outcome(each)[0] for each in (*others, first)} == {"crawl.done"}
    assert [mark.effect_id for mark in orders.marks()][-1] == first
    assert not orders.raw.exists(orders.keys.running("crawl"), orders.keys.parked("crawl"))
    assert_settled(orders)


def test_cancelled_call_that_reports_its_progress_stops_and_its_executor_goes_on(
    start: Starter, orders: Orders
) -> None:
    node = start()
    orders.wait_up(node)
    before = set(node.executors())
    effect_id = orders.order("report", tag="order-7", idempotent=False)
    mark = orders.wait_called(effect_id)[0]
    wait_until(lambda: "progress" in orders.record(effect_id), "it says how far it is")
    assert json.loads(orders.record(effect_id)["progress"]) == {"pid": mark.pid}

    assert orders.cancel("order-7") == (0, 1)

    told = {"effect": effect_id, "tag": "order-7", "attempts": 1}
    assert orders.outcome(effect_id) == ("charge.cancelled", told)
    assert set(node.executors()) == before
    assert not orders.raw.exists(orders.keys.cancelling, orders.keys.effect_tags("a"))
    assert_settled(orders)


def test_killed_executor_is_replaced_at_once(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    before = set(node.executors())

    victim = min(before)
    os.kill(victim, signal.SIGKILL)

    wait_until(lambda: len(set(node.executors()) - {victim}) == 2, "there are two executors again", 5)


def test_effect_that_is_not_idempotent_is_in_doubt_after_a_kill_and_not_repeated(
    start: Starter, orders: Orders
) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order("sleep", idempotent=False)

    kill_in_call(orders, effect_id)

    assert orders.outcome(effect_id, 5) == ("charge.in_doubt", {"effect": effect_id, "attempts": 1})
    assert len(orders.marks(effect_id)) == 1
    assert_settled(orders)


def test_exception_is_tried_again_then_told_with_its_error(start: Starter, orders: Orders) -> None:
    start()
    effect_id = orders.order("raise", retries=2)

    kind, data = orders.outcome(effect_id, 20)

    assert (kind, data["attempts"]) == ("charge.failed", 3)
    assert data["error"].startswith("ValueError: told to raise")
    assert [mark.attempt for mark in orders.marks(effect_id)] == [1, 2, 3]


def test_exception_of_an_effect_that_is_not_idempotent_is_told_at_once(
    start: Starter, orders: Orders
) -> None:
    start()
    effect_id = orders.order("raise", idempotent=False)

    assert orders.outcome(effect_id, 20)[0] == "charge.failed"
    assert len(orders.marks(effect_id)) == 1


@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_call_that_takes_its_process_down_is_charged_a_try(start: Starter, orders: Orders, how: str) -> None:
    start()
    effect_id = orders.order(how, retries=1)

    kind, data = orders.outcome(effect_id, 20)

    assert (kind, data["attempts"]) == ("charge.failed", 2)
    assert {"exit": "exit:3", "segfault": "SIGSEGV"}[how] in data["error"]
    assert len(orders.marks(effect_id)) == 2


def test_call_over_its_time_limit_is_a_try_that_failed(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    before = set(node.executors())
    effect_id = orders.order("sleep", timeout_ms=200, retries=1)

    kind, data = orders.outcome(effect_id)

    assert (kind, data["attempts"]) == ("charge.failed", 2)
    assert "timeout of 0.2 s" in data["error"]
    assert set(node.executors()) == before  # the call ended, its executor goes on


@pytest.mark.parametrize("how", ["hold the lock", "swallow everything"])
def test_call_that_no_alarm_ends_is_killed_from_outside(start: Starter, orders: Orders, how: str) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order(how, timeout_ms=200, retries=0)

    kind, data = orders.outcome(effect_id)

    assert (kind, data["attempts"]) == ("charge.failed", 1)
    assert "timeout of 0.2 s" in data["error"]


def test_call_over_its_time_limit_is_in_doubt_where_a_repeat_is_not_allowed(
    start: Starter, orders: Orders
) -> None:
    start()
    effect_id = orders.order("sleep", timeout_ms=200, idempotent=False)

    assert orders.outcome(effect_id, 20)[0] == "charge.in_doubt"
    assert len(orders.marks(effect_id)) == 1


def test_native_call_longer_than_the_nodes_timeout_is_left_alone(start: Starter, orders: Orders) -> None:
    node = start(heartbeat=0.2, node_timeout=0.4)
    orders.wait_up(node)
    effect_id = orders.order("hold the lock", timeout_ms=1_500, retries=0)

    _, data = orders.outcome(effect_id)

    assert "timeout of 1.5 s" in data["error"]


def test_result_of_another_type_and_arguments_that_do_not_fit_are_told_as_failures(
    start: Starter, orders: Orders
) -> None:
    start()
    wrong_result = orders.order("wrong result")
    wrong_arguments = orders.order(args='{"how": 7}')

    kind, data = orders.outcome(wrong_result, 20)
    assert kind == "charge.failed"
    assert data["error"].startswith("it ran, and its result cannot be told")
    kind, data = orders.outcome(wrong_arguments)
    assert kind == "charge.failed"
    assert data["error"].startswith("not called: effect charge: how: ")
    assert len(orders.marks()) == 1


def test_effect_that_only_newer_code_knows_is_given_back_for_it(start: Starter, orders: Orders) -> None:
    start()
    effect_id = orders.order(name="chargge")

    wait_until(lambda: orders.record(effect_id).get("attempts") == "1", "it was tried", 20)
    wait_until(lambda: orders.record(effect_id)["status"] == "pending", "it is given back")
    assert orders.outcomes() == []
    wait_until(lambda: "did you mean 'charge'?" in start.nodes[0].said(), "the log says what is missing")


def test_drain_lets_a_call_finish_and_leaves(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order("nap")
    orders.wait_called(effect_id)

    node.ask_to_end()

    assert node.process.wait(5) == 0
    assert orders.outcome(effect_id)[0] == "charge.done"
    assert orders.raw.zcard(orders.keys.nodes) == 1  # "n1", the worker node of these tests
    assert_settled(orders)


def test_drain_of_idle_executors_takes_a_moment(start: Starter, orders: Orders) -> None:
    node = start(drain=30)  # which it does not take, for nothing is in hand
    orders.wait_up(node)

    node.ask_to_end()

    assert node.process.wait(15) == 0
    assert not orders.raw.exists("rq:workers")
    assert "rq_job_refused" not in node.said()


def test_call_longer_than_the_drain_is_killed_and_runs_again_elsewhere(
    start: Starter, orders: Orders
) -> None:
    node = start(drain=0.3)
    orders.wait_up(node)
    effect_id = orders.order("sleep once")
    orders.wait_called(effect_id)

    node.ask_to_end()
    assert node.process.wait(5) == 0
    assert orders.record(effect_id)["status"] == "pending"

    start()
    assert orders.outcome(effect_id, 20)[0] == "charge.done"
    assert_settled(orders)


def test_dead_spawner_costs_no_effect(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order("sleep once")
    mark = orders.wait_called(effect_id)[0]

    os.kill(node.spawner(), signal.SIGKILL)

    orders.wait_called(effect_id, 2, timeout=5)
    assert not alive(mark.pid)
    assert orders.outcome(effect_id)[0] == "charge.done"


def test_lost_nodes_effect_is_run_by_the_next_node(start: Starter, orders: Orders) -> None:
    node = start()
    orders.wait_up(node)
    effect_id = orders.order("sleep once")
    orders.wait_called(effect_id)
    lost = orders.record(effect_id)["node"]

    node.kill()
    # What the leader does with a lost node of whichever kind.
    orders.connection.call(effect_store.abandon(orders.keys, lost, None))
    start()

    assert orders.outcome(effect_id, 20)[0] == "charge.done"
    assert [mark.attempt for mark in orders.marks(effect_id)] == [1, 1]


WATCHDOG_MAIN = """
import sys
from regrow_supervisor.watchdog_settings import WatchdogSettings
from regrow_supervisor.watchdog import run_watchdog
sys.exit(run_watchdog(WatchdogSettings(), url=sys.argv[1], namespace="regrow", application=None))
"""


def test_leader_gives_a_lost_nodes_effect_to_another_node(
    start: Starter, orders: Orders, redis_url: str
) -> None:
    orders.connection.call(resign(orders.keys, LEADER))
    watchdog = subprocess.Popen(
        [sys.executable, "-c", WATCHDOG_MAIN, redis_url],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOTS},
        stderr=subprocess.DEVNULL,
    )
    try:
        lost = start()
        orders.wait_up(lost)
        effect_id = orders.order("sleep once")
        orders.wait_called(effect_id)
        holder = orders.record(effect_id)["node"]
        other = start()
        orders.wait_up(other)
        wait_until(lambda: orders.raw.get(orders.keys.leader), "the watchdog leads", 20)
        wait_until(lambda: orders.raw.zcard(orders.keys.nodes) >= 2, "both effects nodes are known", 20)

        lost.kill()

        orders.wait_called(effect_id, 2, timeout=15)
        assert orders.outcome(effect_id)[0] == "charge.done"
        assert not orders.raw.exists(orders.keys.node(holder), orders.keys.claims(holder))
    finally:
        watchdog.kill()
        watchdog.wait()


def test_node_that_is_not_known_any_more_begins_anew(start: Starter, orders: Orders) -> None:
    node = start(heartbeat=0.2, node_timeout=1.0)
    orders.wait_up(node)
    raw: Any = orders.raw
    (before,) = (one for one in raw.zrange(orders.keys.nodes, 0, -1) if one != "n1")
    raw.delete(orders.keys.node(before))
    raw.zrem(orders.keys.nodes, before)

    wait_until(lambda: raw.zcard(orders.keys.nodes) == 2, "it joins under a new id")
    effect_id = orders.order()

    assert orders.outcome(effect_id)[0] == "charge.done"


def test_doorbell_that_was_lost_is_rung_again(start: Starter, orders: Orders) -> None:
    """Popped by nobody of ours, or RQ's Redis emptied: five seconds at most."""
    raw: Any = orders.raw
    effect_id = orders.order()
    # Taken as a ringer takes it, which then dies before it told RQ.
    assert orders.connection.call(effect_store.ring(orders.keys, 10, 4_000)).told
    assert raw.llen("rq:queue:regrow:regrow") == 0

    start()

    assert orders.outcome(effect_id, 10)[0] == "charge.done"


def test_long_queue_is_neither_doubled_nor_piled_up_in_rq(start: Starter, orders: Orders) -> None:
    start()
    ordered = orders.order_many("", 300) + orders.order_many("", 300)
    raw: Any = orders.raw
    longest = 0

    def all_told() -> bool:
        nonlocal longest
        longest = max(longest, raw.llen("rq:queue:regrow:regrow"))
        return len(orders.outcomes()) == len(ordered)

    wait_until(all_told, "all effects are done", 40)

    assert longest <= 128
    assert sorted(mark.effect_id for mark in orders.marks()) == sorted(ordered)
    wait_until(lambda: not list(raw.scan_iter("rq:job:*")), "RQ keeps no job")
    known = {"rq:workers", "rq:workers:regrow:regrow", "rq:queues"}
    left = {key for key in raw.scan_iter("rq:*") if not key.startswith("rq:worker:")}
    assert left <= known
    assert_settled(orders)


def strangers_jobs(marker: Path) -> dict[str, dict[str, Any]]:
    command = f"touch {marker}"
    callback = {"success_callback_name": "os.abort", "failure_callback_name": "os.abort"}
    return {
        "path": {"data": json.dumps(["os.system", None, [command], {}])},
        "colon": {"data": json.dumps(["os:system", None, [command], {}])},
        "pickle": {"data": pickle.dumps((os.system, None, (command,), {}))},  # pyright: ignore[reportDeprecated]
        "instance": {"data": json.dumps(["regrow.effect", "os", ["birth:1-1:1"], {}])},
        "callback": {"data": json.dumps(["regrow.effect", None, ["birth:1-1:1"], {}]), **callback},
        "bad-id": {"data": json.dumps(["regrow.effect", None, [{"x": 1}], {}])},
        "no-data": {"status": "queued"},
        "dates": {
            "data": json.dumps(["regrow.effect", None, ["birth:1-1:2"], {}]),
            "created_at": "yesterday",
        },
    }


def test_stranger_in_rqs_keys_runs_nothing_and_stops_nobody(
    start: Starter, orders: Orders, tmp_path: Path
) -> None:
    marker = tmp_path / "strangers-were-here"
    raw: Any = orders.raw
    for job_id, fields in strangers_jobs(marker).items():
        raw.hset(f"rq:job:{job_id}", mapping=fields)
        raw.rpush("rq:queue:regrow:regrow", job_id)
    raw.rpush("rq:queue:regrow:regrow", b"\xff\xfe", "no such job", "../../etc")
    node = start()
    orders.wait_up(node)
    before = set(node.executors())
    effect_id = orders.order()

    assert orders.outcome(effect_id, 20)[0] == "charge.done"
    wait_until(lambda: raw.llen("rq:queue:regrow:regrow") == 0, "the queue is empty")
    wait_until(lambda: not list(raw.scan_iter("rq:job:*")), "what is not ours was thrown away")
    assert not marker.exists()
    assert set(node.executors()) == before
    assert node.said().count("rq_job_refused") >= 5


def test_executors_wait_while_redis_is_away_and_go_on_when_it_is_back(
    own_server: PrivateServer, marks: Path
) -> None:
    orders = Orders(own_server.url, marks)
    node = EffectsNodeUnderTest(own_server.url)
    try:
        orders.wait_up(node)
        before = set(node.executors())
        effect_id = orders.order("nap")
        orders.wait_called(effect_id)
        own_server.kill()
        down_at = time.monotonic()
        wait_until(lambda: time.monotonic() - down_at > 1.5, "Redis has been away for a while")
        own_server.start()

        assert orders.outcome(effect_id, 15)[0] == "charge.done"
        assert len(orders.marks(effect_id)) == 1
        assert set(node.executors()) == before
        lines = [line for line in node.said().splitlines() if "store_away" in line]
        assert len(lines) < 20
    finally:
        node.end()
        orders.close()
