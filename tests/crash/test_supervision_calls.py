"""OTP's calls from code and from the command line, to supervisors that run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from regrow import AsyncClient, ChildCounts, ChildInfo, Client, StartedChild, Supervisor
from regrow.errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadInput,
    ChildNotFound,
    FateUnknown,
    MaxChildren,
    NoSuchAgent,
    NotDynamic,
    Refused,
    StillRestarting,
    StillRunning,
    SupervisorNotFound,
)
from regrow_signals import views
from regrow_signals.ids import new_id
from tests.conftest import PrivateServer, wait_until
from tests.crash.supervision_app import Played, Player, player
from tests.crash.supervision_harness import LONG, SupervisedSystem, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def system() -> Generator[SupervisedSystem]:
    with SupervisedSystem.running() as running:
        yield running


@pytest.fixture
def name() -> Iterator[str]:
    yield f"c{new_id()[:8]}"


def test_a_child_lives_through_all_calls(system: SupervisedSystem, name: str) -> None:
    client, b = system.client, f"{name}-b"
    with system.branch(Supervisor(name, [player(f"{name}-a")])) as branch:
        path = branch.path

        assert client.start_child(path, player(b)) == StartedChild(b, 1)
        client.send(b, Played(n=1)).wait(LONG)
        assert client.which_children(path) == [
            ChildInfo(b, "running", 1, "worker"),
            ChildInfo(f"{name}-a", "running", 1, "worker"),
        ]
        assert client.count_children(path) == ChildCounts(specs=2, active=2, supervisors=0, workers=2)
        client.terminate_child(path, b)
        assert client.count_children(path).active == 1
        assert client.restart_child(path, b) == StartedChild(b, 2)
        client.terminate_child(path, b)
        client.delete_child(path, b)
        assert [child.id for child in client.which_children(path)] == [f"{name}-a"]

        # The agent is still registered: what it remembers comes back with it.
        assert client.start_child(path, player(b)).incarnation == 3
        assert system.record(b)["state"] == '{"played":[1]}'


def test_a_branch_is_a_child_like_any_other(system: SupervisedSystem, name: str) -> None:
    inner = Supervisor(f"{name}-in", [player(f"{name}-i")])
    with system.branch(Supervisor(name, [player(f"{name}-a")])) as branch:
        system.client.start_child(branch.path, inner.child(restart="transient"))

        assert system.client.count_children(branch.path) == ChildCounts(2, 2, 1, 1)
        assert system.is_running(f"{name}-i")
        system.client.terminate_child(branch.path, inner.name)
        assert system.record(f"{name}-i")["status"] == "stopped"
        with pytest.raises(SupervisorNotFound):
            system.client.count_children(f"{branch.path}/{inner.name}")


def test_what_otp_refuses_is_a_typed_error_and_changes_nothing(system: SupervisedSystem, name: str) -> None:
    client, a = system.client, f"{name}-a"
    with system.branch(Supervisor(name, [player(a), player(f"{name}-b")])) as branch:
        branch.watch()
        path = branch.path
        refused: list[tuple[type[Exception], Any]] = [
            (AlreadyStarted, lambda: client.start_child(path, player(a))),
            (StillRunning, lambda: client.restart_child(path, a)),
            (StillRunning, lambda: client.delete_child(path, a)),
            (ChildNotFound, lambda: client.terminate_child(path, "nobody")),
            (ChildNotFound, lambda: client.restart_child(path, "nobody")),
            (ChildNotFound, lambda: client.delete_child(path, "nobody")),
            (SupervisorNotFound, lambda: client.start_child("nowhere", player("x"))),
            (SupervisorNotFound, lambda: client.which_children(f"{path}/nowhere")),
            (SupervisorNotFound, lambda: client.count_children("nowhere")),
            (BadInput, lambda: client.start_child(path, a)),  # type: ignore[arg-type]
            (BadInput, lambda: client.start_child("not a path!", player("x"))),
            (BadInput, lambda: client.terminate_child(path, "")),
            (BadInput, lambda: client.start_child(path, player("x", significant=True, restart="transient"))),
        ]
        for error, call in refused:
            with pytest.raises(error):
                call()

        client.terminate_child(path, a)
        with pytest.raises(AlreadyPresent):
            client.start_child(path, player(a))
        assert f"{name}-b" in branch.untouched()


def test_a_child_in_its_backoff_is_restarting(system: SupervisedSystem, name: str) -> None:
    slow = player(f"{name}-a", backoff=60)
    with system.branch(Supervisor(name, [slow])) as branch:
        kill_agent(system.life(slow.id).pid)
        wait_until(
            lambda: system.client.which_children(branch.path)[0].status == "restarting", "it waits", LONG
        )

        with pytest.raises(StillRestarting):
            system.client.restart_child(branch.path, slow.id)
        with pytest.raises(StillRestarting):
            system.client.delete_child(branch.path, slow.id)
        system.client.terminate_child(branch.path, slow.id)  # cancels the restart
        assert system.client.restart_child(branch.path, slow.id).incarnation == 2


def test_a_dynamic_supervisor_takes_children_up_to_its_bound_and_parks_the_bad_one(
    system: SupervisedSystem, name: str
) -> None:
    client = system.client
    dynamic = Supervisor(name, strategy="dynamic", max_children=3, max_restarts=1, max_seconds=60)
    bad = f"{name}-1"
    with system.branch(dynamic) as branch:
        for n in range(3):
            client.start_child(branch.path, player(f"{name}-{n}"))
        with pytest.raises(MaxChildren):
            client.start_child(branch.path, player(f"{name}-3"))
        branch.watch()

        for status in ("running", "parked"):
            life = system.life(bad)
            kill_agent(life.pid)
            wait_until(
                lambda was=life, then=status: (
                    system.record(bad)["status"] == then  # type: ignore[misc]
                    and (then == "parked" or system.life(bad).incarnation > was.incarnation)
                ),
                f"it is {status}",
                LONG,
            )

        assert branch.untouched() == {f"{name}-0", f"{name}-2"}
        assert client.count_children(branch.path) == ChildCounts(3, 2, 0, 3)
        client.terminate_child(branch.path, f"{name}-0")  # a dynamic child is forgotten at once
        assert client.start_child(branch.path, player(f"{name}-3")).incarnation == 1


def test_the_awaited_client_makes_the_same_calls(system: SupervisedSystem, name: str) -> None:
    b = f"{name}-b"

    async def calls(path: str) -> None:
        async with AsyncClient(system.server.url) as client:
            assert await client.start_child(path, player(b)) == StartedChild(b, 1)
            assert (await client.which_children(path))[0].id == b
            assert (await client.count_children(path)).active == 2
            await client.terminate_child(path, b)
            assert (await client.restart_child(path, b)).incarnation == 2
            with pytest.raises(StillRunning):
                await client.delete_child(path, b)
            await client.terminate_child(path, b)
            await client.delete_child(path, b)
            with pytest.raises(ChildNotFound):
                await client.terminate_child(path, b)

    with system.branch(Supervisor(name, [player(f"{name}-a")])) as branch:
        asyncio.run(calls(branch.path))


def test_an_unknown_type_waits_and_a_wrong_one_is_said(system: SupervisedSystem, name: str) -> None:
    from regrow import Agent, State  # only here

    class Nothing(State):
        pass

    class Stranger(Agent[Nothing], name="stranger"):
        pass

    with system.branch(Supervisor(name, [player(f"{name}-a")])) as branch:
        started = system.client.start_child(branch.path, Stranger.child(f"{name}-s"))

        assert started.incarnation is None and "no worker node runs agent type 'stranger'" in started.why


def test_an_agent_under_one_supervisor_cannot_be_started_under_another(
    system: SupervisedSystem, name: str
) -> None:
    a = f"{name}-a"
    other = Supervisor(f"{name}2", [player(f"{name}-x")])
    with system.branch(Supervisor(name, [player(a)])) as branch, system.branch(other) as second:
        with pytest.raises(AlreadyStarted, match=branch.path):
            system.client.start_child(second.path, player(a))
        with pytest.raises(AlreadyStarted, match=branch.path):
            system.client.start_child(second.path, Supervisor("deeper", [player(a)]))


def test_calls_from_the_command_line(system: SupervisedSystem, name: str) -> None:
    a = f"{name}-a"
    with system.branch(Supervisor(name, [player(a)])) as branch:
        listed = system.command("children", branch.path, "--json")
        assert json.loads(listed.stdout)["children"] == [
            {"id": a, "status": "running", "incarnation": 1, "type": "worker"}
        ]
        assert system.command("restart", a).returncode == 0
        wait_until(lambda: system.life(a).incarnation == 2 and system.is_running(a), "it runs anew", LONG)
        wrong = system.command("children", "nowhere")
        assert wrong.returncode != 0 and "nowhere" in wrong.stderr


def test_an_agent_is_deleted_once_no_supervisor_wants_it(system: SupervisedSystem, name: str) -> None:
    client, a = system.client, f"{name}-a"
    with system.branch(Supervisor(name, [player(f"{name}-b")])) as branch:
        client.start_child(branch.path, player(a))
        client.send(a, Played(n=1)).wait(LONG)
        with pytest.raises(Refused, match=branch.path):
            client.delete(a)
        client.terminate_child(branch.path, a)
        with pytest.raises(Refused, match=branch.path):
            client.delete(a)
        client.delete_child(branch.path, a)
        waiting = client.send(a, Played(n=2))  # it is still registered
        with pytest.raises(Refused, match="1 signals"):
            client.delete(a)

        assert system.command("delete", a, "--force").returncode == 0

        assert system.record(a) == {} and a not in system.look.command(views.agent_ids(system.keys))
        assert waiting.status().state == "unknown"
        with pytest.raises(NoSuchAgent):
            client.send(a, Played(n=3))
        with pytest.raises(NoSuchAgent):
            client.delete(a)
        assert (
            client.start_child(branch.path, player(a)).incarnation is not None
        )  # a new one of the same name
        assert system.record(a)["state"] == '{"played":[]}'


def test_an_agent_is_there_once_somebody_sends_to_it(system: SupervisedSystem, name: str) -> None:
    a = f"{name}-a"
    guest = Player.child(under=f"stage/{name}", max_attempts=1)

    async def sent(n: int) -> str:
        async with AsyncClient(system.server.url) as client:
            receipt = await client.send(a, Played(n=n), create=guest)
            return (await receipt.wait(LONG)).state

    async def both() -> list[str]:
        return list(await asyncio.gather(sent(1), sent(2)))

    with system.branch(Supervisor(name, strategy="dynamic", max_children=1)) as branch:
        assert asyncio.run(both()) == ["applied", "applied"]
        assert system.life(a).incarnation == 1
        assert system.record(a)["state"] in ('{"played":[1,2]}', '{"played":[2,1]}')
        kill_agent(system.life(a).pid)
        system.client.send(a, Played(n=3), create=guest).wait(LONG)
        assert system.record(a)["state"].endswith(",3]}")

        late = system.client.send(f"{name}-b", Played(n=1), create=guest)
        wait_until(
            lambda: "max_children" in system.record(late.agent).get("last_error", ""), "it is said", LONG
        )
        assert system.record(late.agent)["status"] == "registered" and late.status().state == "pending"
        system.client.terminate_child(branch.path, a)
        system.client.start_child(branch.path, player(late.agent))
        assert late.wait(LONG).state == "applied"
    with pytest.raises(SupervisorNotFound):
        system.client.send(f"{name}-c", Played(n=1), create=guest)
    with pytest.raises(NotDynamic):
        system.client.send(f"{name}-c", Played(n=1), create=Player.child(under="stage"))


def test_an_idle_agent_goes_and_comes_back_and_no_signal_is_lost(system: SupervisedSystem, name: str) -> None:
    a, client = f"{name}-a", system.client
    guest = Player.child(under=f"stage/{name}", idle_delete=0.5)
    counted = ("signals_accepted_total|type=player", "signals_applied_total|type=player")
    with system.branch(Supervisor(name, strategy="dynamic")):
        before = [system.counter(counter) for counter in counted]
        births: set[str] = set()
        for n in range(4):
            receipt = client.send(a, Played(n=n), create=guest)
            births.add(receipt.birth)
            assert receipt.wait(LONG).state == "applied"
            # The next one comes while it stops, or is deleted.
            wait_until(lambda: system.record(a).get("status") != "running", "it is idle", LONG)
        wait_until(lambda: system.record(a) == {}, "it is deleted", LONG)

        def all_applied() -> bool:
            accepted, applied = (system.counter(c) - n for c, n in zip(counted, before, strict=True))
            return accepted == applied == 4

        wait_until(all_applied, "each accepted signal was applied", LONG)
        assert births and not client.which_children(f"stage/{name}")
        assert not [
            event for event in system.events() if event["event"] == "child_terminated" and event["agent"] == a
        ]
        with pytest.raises(NoSuchAgent):
            client.send(a, Played(n=9))


def test_what_is_sent_while_no_watchdog_lives_is_applied_when_one_comes() -> None:
    with SupervisedSystem.running() as system:
        system.client.start_child("stage", Supervisor("crowd", strategy="dynamic"))
        system.services[0].kill()
        receipt = system.client.send("guest", Played(n=7), create=Player.child(under="stage/crowd"))
        assert system.record("guest")["status"] == "registered" and receipt.status().state == "pending"

        system.watchdog()

        assert receipt.wait(LONG).state == "applied"
        assert system.record("guest")["state"] == '{"played":[7]}'
        assert system.life("guest").incarnation == 1


def test_without_a_watchdog_a_call_says_that_its_fate_is_open(own_server: PrivateServer) -> None:
    with Client(own_server.url) as client, pytest.raises(FateUnknown, match="regrow watchdog"):
        client.count_children("stage", timeout=0.3)
