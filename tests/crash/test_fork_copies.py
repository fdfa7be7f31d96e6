"""What user code forks is nobody's worker: it ends when it comes back to us, and with its worker at the latest."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.crash.node_harness import Decisions, NodeUnderTest, StartNode, numbers
from tests.crash.processes import alive, descendants, sockets
from tests.crash.recorder_app import Misbehave, Number

pytestmark = pytest.mark.crash


@pytest.fixture
def copies() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="regrow-copies-") as folder:
        yield Path(folder)


@pytest.fixture
def node(start_node: StartNode, copies: Path) -> NodeUnderTest:
    return start_node(
        application="tests.crash.forking_app:tree", environment={"REGROW_TEST_COPIES": str(copies)}
    )


def forked(copies: Path) -> list[int]:
    return [int(each.name) for each in copies.iterdir() if each.name.isdigit()]


@pytest.mark.parametrize("how", ["return", "raise", "exit"])
def test_a_copy_that_comes_back_ends_and_the_worker_goes_on(
    decisions: Decisions, node: NodeUnderTest, copies: Path, how: str
) -> None:
    decisions.register("a")
    decisions.send("a", *numbers(1, 150), Misbehave(how=how), *numbers(151, 400), Misbehave(how=how))

    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    decisions.wait_numbers("a", [*range(1, 151), 0, *range(151, 401), 0])
    wait_until(lambda: len(forked(copies)) == 2 and not any(map(alive, forked(copies))), "the copies end")
    decisions.send("a", Number(n=401))

    decisions.wait_numbers("a", [*range(1, 151), 0, *range(151, 401), 0, 401])
    assert alive(pid)
    assert decisions.ends("a") == []
    assert decisions.dead("a") == []
    assert len([each for each in decisions.raw.client_list() if each["name"] == "regrow:a"]) == 1
    assert ("copy_ended" in node.said()) == (how != "exit")


def test_a_copy_that_lives_on_is_on_no_socket_and_dies_with_its_worker(
    decisions: Decisions, node: NodeUnderTest, copies: Path
) -> None:
    decisions.register("a")
    decisions.send("a", Misbehave(how="live on"))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    decisions.wait_numbers("a", [0])
    wait_until(lambda: forked(copies), "the copy runs")
    (copy,) = forked(copies)

    assert alive(copy)
    assert sockets(copy) & sockets(pid) == set()
    os.kill(pid, signal.SIGKILL)
    decisions.wait_end("a")

    wait_until(lambda: not alive(copy), "the copy dies with its worker", timeout=10)
    assert node.process.poll() is None


def test_a_copy_can_be_told_to_end(decisions: Decisions, node: NodeUnderTest, copies: Path) -> None:
    decisions.register("a")
    decisions.send("a", Misbehave(how="live on"))
    pid = decisions.wait_running("a", decisions.start("a", decisions.node_id()))
    wait_until(lambda: forked(copies), "the copy runs")
    (copy,) = forked(copies)

    os.kill(copy, signal.SIGTERM)
    wait_until(lambda: not alive(copy), "the copy ends", timeout=10)
    decisions.send("a", Number(n=1))

    decisions.wait_numbers("a", [0, 1])
    assert alive(pid)


def test_a_hook_that_forks_makes_no_second_worker(
    decisions: Decisions, node: NodeUnderTest, copies: Path
) -> None:
    where = decisions.node_id()
    (copies / "hook").touch()
    node.wait_spare()
    decisions.register("a")
    decisions.register("b")
    decisions.start("a", where)
    decisions.start("b", where)
    decisions.send("a", Number(n=1))
    decisions.send("b", Number(n=1))

    decisions.wait_numbers("a", [1])
    decisions.wait_numbers("b", [1])
    wait_until(lambda: forked(copies) and not any(map(alive, forked(copies))), "the copies have ended")
    owners = {decisions.wait_running(agent, 1) for agent in ("a", "b")}
    assert not owners & {*forked(copies)}
    assert owners <= {*descendants(node.process.pid)}
