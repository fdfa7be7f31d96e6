"""Branches of real agents: three deep, stopped in time or killed, held, parked, paused, killed by an operator."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import pytest

from regrow import Backoff, Supervisor
from regrow_signals.ids import new_id
from tests.conftest import wait_until
from tests.crash.supervision_app import Deaf, Fail, Played, Slow, player
from tests.crash.supervision_harness import LONG, SupervisedSystem, Watched, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def system() -> Generator[SupervisedSystem]:
    with SupervisedSystem.running() as running:
        yield running


@pytest.fixture
def name() -> Iterator[str]:
    yield f"b{new_id()[:8]}"


def kill(system: SupervisedSystem, agent: str) -> int:
    """SIGKILL to its process; the incarnation that was killed."""
    life = system.life(agent)
    kill_agent(life.pid)
    return life.incarnation


def wait_back(system: SupervisedSystem, branch: Watched, agent: str, killed: int) -> None:
    def back() -> bool:
        return (
            system.life(agent).incarnation > killed
            and all(map(system.is_running, branch.lives))
            and system.at_rest(branch.path)
        )

    wait_until(back, f"{agent} and all others run again", LONG)


def short(name: str, story: list[str]) -> list[str]:
    return [line.replace(f"{name}-", "") for line in story]


# Depth.


def three_deep(name: str, *, inner_restarts: int) -> Supervisor:
    inner = Supervisor(
        f"{name}-in", [player(f"{name}-i1"), player(f"{name}-i2")], max_restarts=inner_restarts
    )
    middle = Supervisor(f"{name}-mid", [player(f"{name}-m"), inner], max_restarts=0)
    return Supervisor(name, [player(f"{name}-out"), middle, player(f"{name}-last")], max_restarts=1)


def test_giving_up_climbs_as_far_as_the_budget_that_holds(system: SupervisedSystem, name: str) -> None:
    with system.branch(three_deep(name, inner_restarts=0)) as branch:
        branch.watch()

        killed = kill(system, f"{name}-i1")
        wait_back(system, branch, f"{name}-i1", killed)

        assert short(name, branch.story()) == ["-i1", "-i2", "-m", "+m", "+i1", "+i2"]
        assert branch.untouched() == {f"{name}-out", f"{name}-last"}
        inner = f"/{name}-mid/{name}-in"
        assert branch.reports("shutdown", inner) == [(f"{name}-i1", "reached_max_restart_intensity")]
        assert branch.reports("shutdown", f"/{name}-mid") == [(f"{name}-in", "reached_max_restart_intensity")]
        assert branch.reports("child_terminated") == [(f"{name}-mid", "shutdown")]
        assert len(system.supervisor(branch.path).stamps) == 1


def test_a_death_deep_down_disturbs_nobody_above(system: SupervisedSystem, name: str) -> None:
    with system.branch(three_deep(name, inner_restarts=3)) as branch:
        branch.watch()

        wait_back(system, branch, f"{name}-i2", kill(system, f"{name}-i2"))

        assert branch.untouched() == branch.lives.keys() - {f"{name}-i2"}
        assert system.supervisor(branch.path).stamps == ()


def test_a_branch_stops_from_the_last_to_the_first_through_all_depths(
    system: SupervisedSystem, name: str
) -> None:
    with system.branch(three_deep(name, inner_restarts=3)) as branch:
        branch.watch()
        assert short(name, branch.agents()) == ["out", "m", "i1", "i2", "last"]

    assert short(name, branch.story()) == ["-last", "-i2", "-i1", "-m", "-out"]
    assert not [path for path in system.paths() if name in path]


def test_an_operators_kill_of_a_branch_restarts_that_branch_uncharged(
    system: SupervisedSystem, name: str
) -> None:
    with system.branch(three_deep(name, inner_restarts=0)) as branch:
        branch.watch()
        target = f"{branch.path}/{name}-mid/{name}-in"
        before = system.life(f"{name}-i1").incarnation

        said = system.command("kill", target)

        assert said.returncode == 0, said.stderr
        wait_back(system, branch, f"{name}-i1", before)
        assert branch.untouched() == branch.lives.keys() - {f"{name}-i1", f"{name}-i2"}
        assert system.supervisor(f"{branch.path}/{name}-mid").stamps == ()  # whose budget is none at all
        assert system.supervisor(target).incarnation == 2


# Shutdown.


def test_a_child_that_ignores_its_stop_is_killed_when_its_time_is_up(
    system: SupervisedSystem, name: str
) -> None:
    deaf = Deaf.child(f"{name}-deaf", shutdown=0.6, deadline=60)
    with system.branch(Supervisor(name, [player(f"{name}-a"), deaf])) as branch:
        branch.watch()
        make_busy(system, deaf.id)

        asked = time.monotonic()
        system.client.terminate_child(branch.path, deaf.id)

        assert time.monotonic() - asked >= 0.6
        assert branch.reports("shutdown_error") == [(deaf.id, "killed")]
        assert branch.untouched() == {f"{name}-a"}
        assert system.record(deaf.id)["status"] == "stopped"


def test_brutal_kill_waits_for_nobody_and_is_no_error(system: SupervisedSystem, name: str) -> None:
    deaf = Deaf.child(f"{name}-deaf", shutdown="brutal_kill", deadline=60)
    with system.branch(Supervisor(name, [player(f"{name}-a"), deaf])) as branch:
        branch.watch()
        make_busy(system, deaf.id)

        system.client.terminate_child(branch.path, deaf.id)

        assert system.record(deaf.id)["exit_reason"] == "killed"
        assert branch.reports("shutdown_error") == []


def test_infinity_lets_a_slow_child_finish_what_it_has_in_hand(system: SupervisedSystem, name: str) -> None:
    slow = Slow.child(f"{name}-slow", shutdown="infinity")
    with system.branch(Supervisor(name, [slow])) as branch:
        branch.watch()
        make_busy(system, slow.id)

        system.client.terminate_child(branch.path, slow.id)

        assert system.record(slow.id)["exit_reason"] == "shutdown"
        assert system.record(slow.id)["state"] == '{"played":[1]}'


def make_busy(system: SupervisedSystem, agent: str) -> None:
    """With the first signal it is given in hand: nothing but it is in the mailbox, and time passes in its process."""
    from tests.crash.processes import cpu_ticks  # only here

    pid = system.life(agent).pid
    before = cpu_ticks(pid)
    system.client.send(agent, Played(n=1))
    wait_until(lambda: cpu_ticks(pid) >= before + 5, "it is busy", LONG)


# Beyond OTP.


def test_a_parked_child_disturbs_nobody_and_is_revived_by_hand(system: SupervisedSystem, name: str) -> None:
    weak = player(f"{name}-weak", max_restarts=1, max_seconds=60, on_exceeded="park")
    with system.branch(Supervisor(name, [weak, player(f"{name}-b")], max_restarts=0)) as branch:
        branch.watch()

        wait_back(system, branch, weak.id, kill(system, weak.id))
        kill(system, weak.id)
        wait_until(lambda: system.record(weak.id)["status"] == "parked", "it is parked", LONG)
        receipt = system.client.send(weak.id, Played(n=1))

        assert branch.reports("parked") == [(weak.id, "signal:SIGKILL")]
        assert branch.untouched() == {f"{name}-b"}
        assert receipt.status().state == "pending"
        assert system.command("revive", f"{name}-b").returncode != 0
        assert system.command("revive", weak.id).returncode == 0
        assert receipt.wait(LONG).state == "applied"
        wait_back(system, branch, weak.id, kill(system, weak.id))  # its budget is a fresh one


def test_a_held_child_sits_out_group_restarts_until_it_is_started(
    system: SupervisedSystem, name: str
) -> None:
    a, b = f"{name}-a", f"{name}-b"
    with system.branch(Supervisor(name, [player(a), player(b)], strategy="one_for_all")) as branch:
        branch.watch()
        assert system.command("stop", a).returncode == 0
        assert system.record(a)["status"] == "held"
        held = system.life(a).incarnation

        killed = kill(system, b)
        wait_until(
            lambda: (
                system.life(b).incarnation > killed and system.is_running(b) and system.at_rest(branch.path)
            ),
            "the other runs again",
            LONG,
        )

        assert system.life(a).incarnation == held
        assert system.record(a)["status"] == "held"
        assert system.command("restart", a).returncode != 0
        assert system.command("start", a).returncode == 0
        assert system.is_running(a)


def test_backoff_grows_and_is_forgiven_after_a_while(system: SupervisedSystem, name: str) -> None:
    child = player(f"{name}-a", backoff=Backoff(first=0.02, factor=10, longest=0.4))
    with system.branch(Supervisor(name, [child, player(f"{name}-b")], max_restarts=100)) as branch:
        branch.watch()

        for _ in range(2):
            wait_back(system, branch, child.id, kill(system, child.id))
        wait_until(lambda: lived_ms(system, child.id) >= 400, "it has lived a while", LONG)
        wait_back(system, branch, child.id, kill(system, child.id))

        delays = [int(reason.split()[0]) for _, reason in branch.reports("backoff")]
        assert len(delays) == 3
        assert all(10 <= delay <= 20 for delay in (delays[0], delays[2]))
        assert delays[1] >= 10
        assert branch.untouched() == {f"{name}-b"}


def lived_ms(system: SupervisedSystem, agent: str) -> int:
    from regrow_signals.calls import Command  # only here

    now = system.look.command(Command(("TIME",), lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000))
    return now - int(system.record(agent)["started_ms"])


def test_fresh_begins_anew_and_keeps_what_waits(system: SupervisedSystem, name: str) -> None:
    fresh, kept = player(f"{name}-fresh", resume="fresh"), player(f"{name}-kept")
    with system.branch(Supervisor(name, [fresh, kept])) as branch:
        branch.watch()
        for agent in (fresh.id, kept.id):
            system.client.send(agent, Played(n=1)).wait(LONG)
            system.client.send(agent, Fail(how="exit"))
            system.client.send(agent, Played(n=2)).wait(LONG)

        assert system.record(fresh.id)["state"] == '{"played":[2]}'
        assert system.record(kept.id)["state"] == '{"played":[1,2]}'


def test_a_root_that_gives_up_pauses_and_comes_back(system: SupervisedSystem) -> None:
    system.watchdog("tests.crash.supervision_app:fragile")
    wait_until(
        lambda: "fragile" in system.paths() and system.at_rest("fragile"), "the second tree runs", LONG
    )
    branch = Watched(system, "fragile")
    branch.watch()

    wait_back(system, branch, "fragile-a", kill(system, "fragile-a"))

    assert [event["event"] for event in system.events(branch.since) if event["event"] == "supervisor_paused"]
    assert system.supervisor("fragile").incarnation == 2
    assert [line for line in branch.story() if line[0] == "-"] == ["-fragile-a", "-fragile-b"]
    system.command("stop", "fragile")
    assert {system.record(agent)["status"] for agent in branch.lives} == {"stopped"}


def test_a_changed_tree_adds_removes_keeps_and_says_so(system: SupervisedSystem) -> None:
    first = system.watchdog("tests.crash.supervision_app:town_before")
    wait_until(lambda: "town" in system.paths() and system.at_rest("town"), "the town runs", LONG)
    branch = Watched(system, "town")
    branch.watch()
    assert branch.agents() == ["mayor", "baker", "pilot"]

    second = system.watchdog("tests.crash.supervision_app:town_after")
    wait_until(
        lambda: system.is_running("smith") and system.at_rest("town"), "the change is carried out", LONG
    )
    wait_until(lambda: "added town/smith" in second.log.read_text(), "it is said", LONG)

    assert sorted(branch.agents()) == ["cook", "mayor", "pilot", "smith"]
    assert branch.untouched() == {"mayor", "pilot"}
    said = second.log.read_text()
    assert "removed town/baker" in said and "added town/port/cook" in said
    assert system.record("baker")["status"] == "stopped"  # its state is kept

    # The one with the older tree comes anew, and changes nothing.
    first.kill()
    third = system.watchdog("tests.crash.supervision_app:town_before")
    wait_until(lambda: "does not come back" in third.log.read_text(), "it is told", LONG)
    assert sorted(branch.agents()) == ["cook", "mayor", "pilot", "smith"]
    system.command("stop", "town")
