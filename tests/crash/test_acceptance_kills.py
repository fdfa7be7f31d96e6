"""SIGKILL at every step of a worker's loop: 1,000 numbered signals are applied exactly once and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from regrow_signals.scripts import load
from tests.conftest import PrivateServer, wait_until
from tests.crash.reply_dropper import ReplyDropper
from tests.crash.whole_system import LONG, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

SIGNALS = 1000


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "one") as system:
        system.watchdog()
        yield system


@pytest.fixture(params=["one", "one_pooled"])
def either(own_server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[WholeSystem]:
    """The agent in a process of its own, and in a slot."""
    with WholeSystem.on(own_server, request.param) as system:
        system.watchdog()
        yield system


def dropper(system: WholeSystem) -> ReplyDropper:
    """Loses the reply of the first commit."""
    script = "pool_commit" if system.tree.endswith("one_pooled") else "commit"
    return ReplyDropper(system.server.url, load(script).sha.encode())


def send_in_parts(system: WholeSystem) -> None:
    """The agent is idle after each hundred, so that it reads, commits and waits at least ten times."""
    wait_until(lambda: "a" in system.agents(), "the agent is registered", LONG)
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


def test_a_slot_killed_at_each_step_of_its_loop_applies_each_signal_once_and_in_order(
    own_server: PrivateServer,
) -> None:
    steps = {
        "before_read": 2,
        "after_read#2": 2,
        "in_handler#3": 55,
        "before_commit#4": 2,
        "after_commit#5": 2,
    }
    with WholeSystem.on(own_server, "one_pooled") as system:
        system.watchdog()
        system.told_node({"fail_points": steps, "pool_slots": 1, "pool_extra_slots": 0})

        send_in_parts(system)

        # Only the death in a handler is the agent's.
        assert [each["reason"] for each in system.events("exited", "a")] == ["signal:SIGKILL"]
        assert system.incarnations() == {"a": "2"}
        system.assert_clean({"a": SIGNALS})


def test_a_commit_whose_reply_is_lost_is_not_applied_again(either: WholeSystem) -> None:
    with dropper(either) as proxy:
        either.failing_node({}, url=proxy.url)

        send_in_parts(either)

        assert proxy.dropped == 1
        assert either.incarnations() == {"a": "1"}
        either.assert_clean({"a": SIGNALS})


def test_a_worker_killed_before_it_learns_that_its_commit_landed_applies_nothing_twice(
    either: WholeSystem,
) -> None:
    with dropper(either) as proxy:
        either.failing_node({"after_commit": 1}, url=proxy.url)

        send_in_parts(either)

        assert proxy.dropped == 1
        # A slot that has stored its commit has no agent in hand.
        ends = [] if either.tree.endswith("one_pooled") else ["signal:SIGKILL"]
        assert [each["reason"] for each in either.events("exited", "a")] == ends
        assert either.incarnations() == {"a": str(1 + len(ends))}
        either.assert_clean({"a": SIGNALS})
