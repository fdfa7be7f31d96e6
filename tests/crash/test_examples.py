"""The programs of ``examples/`` as they are run by hand, only shorter: real processes, real kills, own verdicts."""

from __future__ import annotations

import pytest

from examples.chat.__main__ import run as run_chat
from examples.crawler.__main__ import run as run_crawler
from examples.fanout.__main__ import run as run_fanout
from examples.orders.__main__ import run as run_orders
from examples.reporter.__main__ import run as run_reporter
from examples.running import Finding

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def assert_all_hold(findings: list[Finding]) -> None:
    assert [finding.text for finding in findings if not finding.holds] == []
    assert findings


def test_books_of_the_order_saga_balance_after_kills() -> None:
    assert_all_hold(run_orders(kills=5, seed=3))


def test_chat_goes_on_after_a_kill_between_a_tool_call_and_its_answer() -> None:
    assert_all_hold(run_chat(chats=2))


def test_hundred_effects_are_joined_once_though_all_executors_are_killed() -> None:
    assert_all_hold(run_fanout())


def test_every_second_has_its_sale_though_the_watchdog_and_the_agents_are_killed() -> None:
    assert_all_hold(run_reporter(seconds=5))


def test_site_is_crawled_within_its_rate_though_executors_and_the_crawler_are_killed() -> None:
    assert_all_hold(run_crawler(depth=3))
