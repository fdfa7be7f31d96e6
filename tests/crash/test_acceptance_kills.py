"""SIGKILL at every step of a worker's loop: 1,000 numbered signals are applied exactly once and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_signals.scripts import load
from tests.conftest import PrivateServer, wait_until
from tests.crash.reply_dropper import ReplyDropper
from tests.crash.whole_system import WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

SIGNALS = 1000
COMMIT = load("commit").sha.encode()


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "one") as system:
        system.watchdog()
        yield system


def send_in_parts(system: WholeSystem) -> None:
    """The agent is idle after each hundred, so that it reads, commits and waits at least ten times."""
    wait_until(lambda: "a" in system.agents(), "the agent is registered", 20)
    for first in range(1, SIGNALS, 100):
        system.send("a", *numbers_up_to(first + 99, first=first))
        system.wait_numbers("a", list(range(1, first + 100)))


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("before_claim", 1), ("before_read", 2), ("after_read", 3), ("in_handler", 455), ("before_commit", 4),
        ("after_commit", 5),
    ],
)  # fmt: skip
def test_a_worker_killed_at_any_step_of_its_loop_applies_each_signal_once_and_in_order(
    system: WholeSystem, step: str, times: int
) -> None:
    system.failing_node({step: times})

    send_in_parts(system)

    ends = system.events("exited", "a")
    assert [each["reason"] for each in ends] == ["signal:SIGKILL"]
    assert system.incarnations() == {"a": "2"}
    system.assert_clean({"a": SIGNALS})


def test_a_commit_whose_reply_is_lost_is_not_applied_again(system: WholeSystem) -> None:
    with ReplyDropper(system.server.url, COMMIT) as proxy:
        system.failing_node({}, url=proxy.url)

        send_in_parts(system)

        assert proxy.dropped == 1
        assert system.incarnations() == {"a": "1"}
        system.assert_clean({"a": SIGNALS})


def test_a_worker_killed_before_it_learns_that_its_commit_landed_applies_nothing_twice(
    system: WholeSystem,
) -> None:
    with ReplyDropper(system.server.url, COMMIT) as proxy:
        system.failing_node({"after_commit": 1}, url=proxy.url)

        send_in_parts(system)

        assert proxy.dropped == 1
        assert [each["reason"] for each in system.events("exited", "a")] == ["signal:SIGKILL"]
        assert system.incarnations() == {"a": "2"}
        system.assert_clean({"a": SIGNALS})
