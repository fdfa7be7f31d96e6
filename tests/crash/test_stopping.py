"""Told to end at any instant, from any launcher: exit code 0, nothing lost, nothing charged, nothing left.

The drain of a node and ``regrow drain`` have tests beside those of the node and of supervision; here is what stands
around them: the program's first moments, process 1, wrappers, and SIGTERM to whomever.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shlex import quote

import pytest

from tests.conftest import PrivateServer, wait_until
from tests.crash.acceptance_app import Hold
from tests.crash.node_harness import Decisions, StartNode, numbers
from tests.crash.processes import alive, children, descendants, state
from tests.crash.recorder_app import Misbehave, Number
from tests.crash.whole_system import LONG, Service, WholeSystem, numbers_up_to

pytestmark = [pytest.mark.crash, pytest.mark.timeout(150)]

PROGRAM = "import sys; from regrow_workers.program_start import main; sys.argv[0] = 'regrow'; main()"
"""What the installed ``regrow`` does."""

REGROW = (sys.executable, "-c", PROGRAM)
FIRST = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Runs what follows as process 1 of a namespace; its exit code is that one's."""


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "pair") as made:
        yield made


@pytest.fixture
def first_process() -> tuple[str, ...]:
    try:
        tried = subprocess.run([*FIRST, "true"], check=False, capture_output=True)
    except OSError:
        tried = None
    if tried is None or tried.returncode != 0:
        pytest.skip("no process namespace may be made here (unshare)")
    return FIRST


def words(name: str, application: str) -> tuple[str, ...]:
    return (*REGROW, name) if name == "metrics" else (*REGROW, name, application)


def holds_sigterm(pid: int) -> bool:
    """Is it our program (not what launches it), and holds SIGTERM back, or has a handler for it?"""
    if b" import main; " not in arguments(pid) or b"unshare " in arguments(pid):
        return False
    lines = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    return any(int(lines[name], 16) >> (signal.SIGTERM - 1) & 1 for name in ("SigBlk", "SigCgt"))


def arguments(pid: int) -> bytes:
    """Its command line, words apart by spaces; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def exited(service: Service) -> int:
    wait_until(lambda: service.ended, f"{service.log.name} ends", LONG)
    return service.process.returncode


@pytest.mark.parametrize("as_first", [False, True])
def test_a_sigterm_while_the_program_is_still_imported_is_not_lost(
    system: WholeSystem, request: pytest.FixtureRequest, as_first: bool
) -> None:
    launcher: tuple[str, ...] = request.getfixturevalue("first_process") if as_first else ()
    names = ("watchdog", "worker", "effects", "metrics", "up")
    services = [
        system.start(name, *launcher, *words(name, system.tree), REGROW_METRICS_PORT="0") for name in names
    ]

    for service in services:
        if as_first:
            wait_until(partial(children, service.pid), "process 1 is there", LONG)
        pid = children(service.pid)[0] if as_first else service.pid
        wait_until(partial(holds_sigterm, pid), f"{service.log.name} holds SIGTERM back", LONG)
        os.kill(pid, signal.SIGTERM)

    assert [exited(service) for service in services] == [0] * len(names)
    wait_until(lambda: not system.processes(), "nothing is left", LONG)


@pytest.mark.parametrize("name", ["watchdog", "worker", "up"])
def test_a_sigterm_while_the_application_is_imported_ends_it_at_once(
    system: WholeSystem, own_server: PrivateServer, name: str
) -> None:
    marker = own_server.folder / "loading"
    service = system.start(name, *words(name, "tests.crash.slow_app:tree"), REGROW_TEST_LOADING=str(marker))
    wait_until(marker.exists, "the import has begun", LONG)

    service.send(signal.SIGTERM)

    assert exited(service) == 0
    wait_until(lambda: not system.processes(), "nothing is left", LONG)


def test_a_node_as_process_1_reaps_what_agents_leave_behind_and_drains(
    decisions: Decisions, start_node: StartNode, first_process: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory(prefix="regrow-copies-") as folder:
        node = start_node(
            application="tests.crash.forking_app:tree",
            launcher=first_process,
            environment={"REGROW_TEST_COPIES": folder},
        )
        where = decisions.node_id()
        decisions.register("a")
        decisions.start("a", where)
        decisions.send("a", *[Misbehave(how="orphan")] * 3, *numbers(1, 3))
        decisions.wait_numbers("a", [0, 0, 0, 1, 2, 3])
        wait_until(
            lambda: [state(pid) for pid in children(node.pid)] in (["S"], ["R"]),
            "process 1 has its spawner and no orphan",
        )

        family = descendants(node.process.pid)
        os.kill(node.pid, signal.SIGTERM)

        assert node.process.wait(LONG) == 0
        end = decisions.wait_end("a")
        assert (end["reason"], end["charged"]) == ("drained", "0")
        assert not any(map(alive, family))


def test_a_spawner_killed_under_a_node_as_process_1_is_replaced(
    decisions: Decisions, start_node: StartNode, first_process: tuple[str, ...]
) -> None:
    node = start_node(launcher=first_process)
    where = decisions.node_id()
    decisions.register("a")
    decisions.wait_running("a", decisions.start("a", where))

    os.kill(node.spawner(), signal.SIGKILL)

    assert decisions.wait_end("a")["reason"] == "spawner_lost"
    decisions.wait_running("a", decisions.start("a", where))
    wait_until(lambda: len(children(node.pid)) == 1, "no dead one is left")


def test_a_launcher_as_process_1_reaps_what_a_killed_node_leaves_and_ends_with_0(
    system: WholeSystem, first_process: tuple[str, ...]
) -> None:
    outer = system.start("up", *first_process, *words("up", system.tree), REGROW_METRICS_PORT="0")

    def life(number: str) -> bool:
        """Processes have other numbers in there, so it is Redis that tells."""
        records = [system.agent(agent) for agent in ("a", "b")]
        return all(each.get("incarnation") == number and each.get("owner") for each in records)

    wait_until(lambda: life("1"), "both agents run", LONG)
    (up,) = children(outer.pid)
    (node,) = [pid for pid in children(up) if b" worker " in arguments(pid)]

    os.kill(node, signal.SIGKILL)
    wait_until(lambda: not alive(node), "the node is dead", LONG)
    wait_until(lambda: life("2"), "both agents run again", LONG)
    wait_until(lambda: "Z" not in map(state, children(up)), "no dead one is left", LONG)
    os.kill(up, signal.SIGTERM)

    assert exited(outer) == 0
    wait_until(lambda: not system.processes(), "nothing is left", LONG)


def test_a_node_ends_with_the_shell_that_wraps_it(system: WholeSystem) -> None:
    system.watchdog()
    line = f"cd . && {' '.join(map(quote, words('worker', system.tree)))}; echo wrapped"
    wrapper = system.start("wrapped", "sh", "-c", line)
    system.wait_running("a", "b")
    (node,) = children(wrapper.pid)

    os.kill(wrapper.pid, signal.SIGTERM)

    assert exited(wrapper) == -signal.SIGTERM
    wait_until(lambda: not alive(node), "the node has drained", LONG)
    assert {each["reason"] for each in system.events("exited")} == {"drained"}
    assert [system.agent(agent)["clean"] for agent in ("a", "b")] == ["1", "1"]


def test_a_launchers_signal_to_shell_and_service_is_one_request(system: WholeSystem) -> None:
    """As honcho sends it, slowed down: the shell's end, which follows, must not hurry the drain that has begun."""
    system.watchdog()
    gate = system.server.folder / "gate"
    line = f"cd . && {' '.join(map(quote, words('worker', system.tree)))}; echo wrapped"
    wrapper = system.start("wrapped", "sh", "-c", line)
    pid = system.wait_running("a", "b")["a"]
    (node,) = children(wrapper.pid)
    system.send("a", Hold(n=1, gate=str(gate)))
    wait_until(Path(f"{gate}.{pid}").is_symlink, "the handler is at work", LONG)

    os.kill(node, signal.SIGTERM)
    wait_until(
        lambda: system.events("exited", "b"), "the drain has begun: the idle agent's life is over", LONG
    )
    os.kill(wrapper.pid, signal.SIGTERM)
    assert exited(wrapper) == -signal.SIGTERM
    gate.touch()

    wait_until(lambda: not alive(node), "the node has drained", LONG)
    assert system.numbers("a") == [1]
    assert {each["reason"] for each in system.events("exited")} == {"drained"}
    assert [system.agent(agent)["clean"] for agent in ("a", "b")] == ["1", "1"]


def test_a_background_job_outlives_the_shell_that_started_it(system: WholeSystem) -> None:
    system.watchdog()
    line = f"{' '.join(map(quote, words('worker', system.tree)))} &"
    shell = system.start("background", "sh", "-c", line)

    assert exited(shell) == 0
    system.wait_running("a", "b")
    (node,) = [each.pid for each in system.processes().values() if f"worker {system.tree}" in each.command]
    os.kill(node, signal.SIGTERM)
    wait_until(lambda: not alive(node), "it drains when it is told to", LONG)
    assert {each["reason"] for each in system.events("exited")} == {"drained"}


def test_a_sigterm_to_a_worker_charges_nobody(decisions: Decisions, start_node: StartNode) -> None:
    start_node()
    where = decisions.node_id()
    decisions.register("a")
    decisions.send("a", *numbers(1, 5))
    pid = decisions.wait_running("a", decisions.start("a", where))
    decisions.wait_numbers("a", [1, 2, 3, 4, 5])

    os.kill(pid, signal.SIGTERM)
    end = decisions.wait_end("a")
    decisions.send("a", Number(n=6))
    decisions.start("a", where)

    assert (end["reason"], end["charged"]) == ("signal:SIGTERM", "0")
    decisions.wait_numbers("a", [1, 2, 3, 4, 5, 6])


def test_sigterm_to_everything_at_once_and_a_new_start_lose_and_charge_nothing(system: WholeSystem) -> None:
    system.watchdog()
    system.watchdog()
    system.node()
    system.node()
    last = 0
    before = system.wait_running("a", "b")
    for _ in range(2):
        for agent in ("a", "b"):
            system.send(agent, *numbers_up_to(last + 400, first=last + 1))
        last += 400
        for pid in system.processes():
            os.kill(pid, signal.SIGTERM)
        assert [exited(service) for service in system.services] == [0] * 4
        wait_until(lambda: not system.processes(), "nothing is left", LONG)
        system.services.clear()
        for start in (system.watchdog, system.watchdog, system.node, system.node):
            start()
        system.wait_running("a", "b")

    assert {each["reason"] for each in system.events("exited")} <= {"drained", "signal:SIGTERM"}
    assert system.pids() != before
    system.assert_clean({"a": last, "b": last})


def test_a_drained_node_hands_its_agents_over_in_the_middle_of_their_work(system: WholeSystem) -> None:
    system.watchdog()
    first = system.node()
    system.wait_running("a", "b")
    system.node()
    wait_until(lambda: system.raw.zcard(system.keys.nodes) == 2, "the other node joins", LONG)
    for agent in ("a", "b"):
        system.send(agent, *numbers_up_to(1500))

    first.send(signal.SIGTERM)
    for agent in ("a", "b"):
        system.send(agent, *numbers_up_to(2000, first=1501))

    assert exited(first) == 0
    system.services.remove(first)
    system.wait_running("a", "b")
    assert {each["reason"] for each in system.events("exited")} == {"drained"}
    system.assert_clean({"a": 2000, "b": 2000})
