"""What a child spec leaves out is the setting's: of the node for times, of sender and worker for bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from regrow import Client
from regrow_signals.errors import MailboxFull
from regrow_signals.limits import Limits
from tests.conftest import PrivateServer, wait_until
from tests.crash.processes import cpu_ticks
from tests.crash.settings_app import Note, Spin
from tests.crash.whole_system import LONG, WholeSystem

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture
def system(own_server: PrivateServer) -> Iterator[WholeSystem]:
    with WholeSystem.on(own_server, "one") as system:
        system.tree = "tests.crash.settings_app:tree"
        yield system


def test_deadline_and_attempts_of_the_node_end_an_endless_handler(system: WholeSystem) -> None:
    system.watchdog()
    system.node(REGROW_DEADLINE="300ms", REGROW_MAX_ATTEMPTS="3")
    system.wait_running("a")

    system.send("a", Note(n=1), Spin(), Note(n=2))

    system.wait_numbers("a", [1, 2])
    (letter,) = system.dead("a")
    assert (letter["reason"], letter["attempts"]) == ("max_attempts", "3")
    assert {event["reason"] for event in system.events("exited", "a")} == {"deadline"}


def test_the_shutdown_time_of_the_node_ends_a_handler_that_does_not(system: WholeSystem) -> None:
    system.watchdog()
    system.node(REGROW_DEADLINE="60s", REGROW_SHUTDOWN="300ms")
    pid = system.wait_running("a")["a"]
    system.send("a", Spin())
    wait_until(lambda: cpu_ticks(pid) > 20, "the handler spins", LONG)

    begun = time.monotonic()
    system.client.terminate_child("plain", "a", timeout=LONG)

    assert 0.3 <= time.monotonic() - begun < 4.5, "neither at once nor after the default of 5 s"
    assert system.events("exited", "a")[0]["reason"] == "killed"


def test_the_mailbox_bound_of_the_sender_counts(system: WholeSystem) -> None:
    system.watchdog()
    wait_until(lambda: "a" in system.agents(), "it is registered, and waits for a node", LONG)

    with Client(system.server.url, limits=Limits(max_mailbox=2)) as client:
        client.send("a", Note(n=1))
        client.send("a", Note(n=2))
        with pytest.raises(MailboxFull):
            client.send("a", Note(n=3))
