"""Strategy x restart type x way of ending, with real processes: who stops, who starts, who is not touched.

One system for all cases: each is a branch of its own with children ``a``, ``b``, ``c``, of which ``b`` ends.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import pytest

from regrow import Supervisor
from regrow_signals.ids import new_id
from tests.conftest import wait_until
from tests.crash.supervision_app import Fail, Played, player
from tests.crash.supervision_harness import LONG, Life, SupervisedSystem, Watched, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
Restart = Literal["permanent", "transient", "temporary"]
WAYS = {
    "normal": "normal",
    "exception": "exception:ValueError: told to raise",
    "exit": "exit:3",
    "SIGKILL": "signal:SIGKILL",
    "deadline": "deadline",
    "SIGSTOP": "frozen",
}
"""Way of ending -> the reason that is reported."""

GROUP = {"one_for_one": "", "one_for_all": "ca", "rest_for_one": "c", "dynamic": ""}
"""Whom the death of ``b`` stops as well, in this order."""

CASES = list(itertools.product(get_args(Strategy), get_args(Restart), WAYS))


@pytest.fixture(scope="module")
def system() -> Generator[SupervisedSystem]:
    with SupervisedSystem.running(REGROW_NODE_TIMEOUT="1.5", REGROW_HEARTBEAT="0.5") as running:
        yield running


@pytest.fixture
def name() -> Iterator[str]:
    yield f"t{new_id()[:8]}"


def end_child(system: SupervisedSystem, agent: str, way: str) -> None:
    if way.startswith("SIG"):
        kill_agent(system.life(agent).pid, getattr(signal, way))
    else:
        system.client.send(agent, Fail(how=way))


@contextmanager
def trio(
    system: SupervisedSystem, name: str, strategy: Strategy, restart: Restart, **flags: Any
) -> Generator[Watched]:
    """A branch of three; a dynamic supervisor begins empty and is given them one by one."""
    children = [player(f"{name}-{letter}", restart=restart) for letter in "abc"]
    dynamic = strategy == "dynamic"
    supervisor = Supervisor(name, [] if dynamic else children, strategy=strategy, **flags)
    with system.branch(supervisor) as branch:
        for child in children if dynamic else ():
            system.client.start_child(branch.path, child)
        yield branch


def letters(name: str, story: list[str]) -> list[str]:
    return [line.replace(f"{name}-", "") for line in story]


@pytest.mark.parametrize(("strategy", "restart", "way"), CASES)
def test_an_end_is_answered_as_otp_does(
    system: SupervisedSystem, name: str, strategy: Strategy, restart: Restart, way: str
) -> None:
    a, b, c = (f"{name}-{letter}" for letter in "abc")
    restarted = restart == "permanent" or (restart == "transient" and way != "normal")
    with trio(system, name, strategy, restart) as branch:
        branch.watch()
        before = branch.lives[b]

        end_child(system, b, way)
        wait_until(lambda: ended(system, branch, b, before, restarted=restarted), f"{b} is dealt with", LONG)

        group = GROUP[strategy] if restarted else ""
        up = "".join(sorted(group + "b")) if restarted else ""
        assert letters(name, branch.story()) == ["-b", *(f"-{x}" for x in group), *(f"+{x}" for x in up)]
        assert branch.untouched() == {a, b, c} - {f"{name}-{x}" for x in group + "b"} - (
            set() if restarted else {b}
        )
        assert branch.reports("child_terminated") == expected_reports(b, restart, way)
        assert branch.reports("shutdown_error") == []
        forgotten = not restarted and (restart == "temporary" or strategy == "dynamic")
        check_counts(system, branch, b, way, restarted=restarted, forgotten=forgotten)


def ended(system: SupervisedSystem, branch: Watched, b: str, before: Life, *, restarted: bool) -> bool:
    """``b`` runs again, or never will; and, looked at after that, nothing is under way."""
    if restarted:
        back = system.life(b).incarnation > before.incarnation and all(map(system.is_running, branch.lives))
        return back and system.at_rest(branch.path)
    return system.record(b)["status"] == "stopped" and system.at_rest(branch.path)


def expected_reports(b: str, restart: Restart, way: str) -> list[tuple[str, str]]:
    """OTP reports each end but the normal one of a child that may end."""
    return [] if way == "normal" and restart != "permanent" else [(b, WAYS[way])]


def check_counts(
    system: SupervisedSystem, branch: Watched, b: str, way: str, *, restarted: bool, forgotten: bool
) -> None:
    counts = system.client.count_children(branch.path)
    listed = {child.id: child for child in system.client.which_children(branch.path)}
    state = system.supervisor(branch.path)
    charged = len(state.stamps) + sum(len(child.stamps) for child in state.children.values())
    assert counts.active == (3 if restarted else 2)
    assert counts.specs == len(listed) == (2 if forgotten else 3)
    assert charged == int(restarted)
    assert int(system.record(b)["restarts"]) == int(restarted)
    kind = WAYS[way].partition(":")[0]
    assert system.counter(f"restarts_total|supervisor={branch.path}|reason={kind}") == int(restarted)


def test_state_and_mailbox_outlive_every_restart(system: SupervisedSystem, name: str) -> None:
    agent = f"{name}-b"
    with trio(system, name, "one_for_all", "permanent", max_restarts=10) as branch:
        for n, way in enumerate(("exception", "SIGKILL", "exit"), start=1):
            branch.watch()
            before = branch.lives[agent]
            system.client.send(agent, Played(n=n)).wait(LONG)
            end_child(system, agent, way)
            system.client.send(agent, Played(n=10 * n))
            wait_until(lambda old=before: ended(system, branch, agent, old, restarted=True), "back", LONG)  # type: ignore[misc]

        wait_until(lambda: system.record(agent)["state"].count("30"), "the last signal is applied", LONG)
        assert system.record(agent)["state"] == '{"played":[1,10,2,20,3,30]}'
