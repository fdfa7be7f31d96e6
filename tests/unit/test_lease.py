"""The lease as the leader counts it, and when its keeper renews it: by a clock that the test moves."""

from __future__ import annotations

import pytest

from regrow_signals.keys import Keys
from regrow_supervisor.leader import Lease, Standing


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    return Lease(Keys("t"), 3000, clock)


def test_a_lease_counts_from_before_its_request(lease: Lease, clock: Clock) -> None:
    assert lease.standing() is Standing.NONE
    lease.acquired(clock.now - 1)

    clock.now += 1.9
    assert lease.standing() is Standing.HELD
    clock.now += 0.2
    assert lease.standing() is Standing.EXPIRED


@pytest.mark.parametrize(
    ("after", "renews"),
    [
        pytest.param(0.0, False, id="just renewed by the leader"),
        pytest.param(1.4, False, id="in time"),
        pytest.param(1.6, True, id="late"),
        pytest.param(9.9, True, id="late, and run out"),
        pytest.param(10.1, False, id="stuck"),
    ],
)
def test_the_keeper_renews_for_a_leader_that_is_late_but_not_for_one_that_is_stuck(
    lease: Lease, clock: Clock, after: float, renews: bool
) -> None:
    lease.acquired(clock.now)
    clock.now += after

    assert (lease.keep_call(longest=10.0) is not None) == renews


def test_a_kept_lease_is_held_on_and_is_no_sign_of_life(lease: Lease, clock: Clock) -> None:
    lease.acquired(clock.now)
    for _ in range(5):
        clock.now += 2.0
        assert lease.standing() is Standing.HELD
        assert lease.keep_call(longest=10.0) is not None
        lease.kept(clock.now)

    clock.now += 2.0
    assert lease.keep_call(longest=10.0) is None
    lease.renewed(clock.now)
    clock.now += 2.0
    assert lease.keep_call(longest=10.0) is not None


def test_nobody_keeps_a_lease_that_was_dropped(lease: Lease, clock: Clock) -> None:
    lease.acquired(clock.now)
    lease.drop()
    clock.now += 2.0

    assert lease.keep_call() is None


def test_a_late_answer_to_the_keeper_shortens_no_lease(lease: Lease, clock: Clock) -> None:
    lease.acquired(clock.now)
    lease.kept(clock.now - 2.0)

    clock.now += 2.9
    assert lease.standing() is Standing.HELD
