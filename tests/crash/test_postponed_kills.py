"""A worker is killed over and over while its agent looks back at postponed signals: each is applied once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from regrow import Message, RegrowError
from regrow_signals import views
from tests.conftest import PrivateServer, wait_until
from tests.crash.postponing_app import Turnstiles
from tests.crash.supervision_harness import LONG, SupervisedSystem, kill_agent

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

KILLS = 6
ROUND = 120
"""Numbers between two turns: more than one batch, so that kills meet a look back in its middle."""


def test_postponed_signals_are_applied_once_and_in_order_though_the_worker_is_killed(tmp_path: Path) -> None:
    server = PrivateServer(tmp_path)
    server.start()
    system = SupervisedSystem(server, "tests.crash.postponing_app:tree")

    def send(*messages: Message) -> None:
        assert not [one for one in system.client.send_many(list(messages)) if isinstance(one, RegrowError)]

    def seen() -> tuple[int, ...]:
        return system.client.state("turnstile", Turnstiles).seen

    def looks_back(count: int) -> None:
        wait_until(lambda: len(seen()) > count, "it looks back", LONG)

    try:
        system.watchdog()
        system.node()
        wait_until(lambda: system.is_running("turnstile"), "the agent runs", LONG)
        expected: list[int] = []
        waiting: list[int] = []
        side = 1
        for first in range(0, KILLS * ROUND, ROUND):
            numbers = range(first, first + ROUND)
            send(*(Message("turnstile", "odd" if n % 2 else "even", n) for n in numbers))
            expected += [n for n in numbers if n % 2 == side]
            waiting += [n for n in numbers if n % 2 != side]
            send(Message("turnstile", "turn"))
            side = 1 - side
            expected, waiting = expected + waiting, []
            looks_back(len(expected) - ROUND // 4)
            kill_agent(system.life("turnstile").pid)
        wait_until(lambda: len(seen()) >= len(expected), "all are taken", LONG)

        assert list(seen()) == expected
        left = [look(system.keys, "turnstile") for look in (views.mailbox_length, views.dead_length)]
        assert system.look.pipeline(left) == [0, 0]
    finally:
        system.end()
        server.kill()


def test_a_postponed_signal_that_takes_its_process_down_is_the_one_that_is_charged(tmp_path: Path) -> None:
    server = PrivateServer(tmp_path)
    server.start()
    system = SupervisedSystem(server, "tests.crash.postponing_app:tree")
    try:
        system.watchdog()
        system.node()
        wait_until(lambda: system.is_running("turnstile"), "the agent runs", LONG)
        for signal, number in (("even", 2), ("saw", 0), ("even", 4), ("odd", 1), ("turn", 0)):
            system.client.send("turnstile", signal, number)

        letters = views.dead_letters(system.keys, "turnstile")
        wait_until(lambda: system.look.command(letters), "it is given up", LONG)
        wait_until(
            lambda: system.client.state("turnstile", Turnstiles).seen == (1, 2, 4),
            "all others are taken",
            LONG,
        )

        [(_, letter)] = system.look.command(letters)
        assert (letter["type"], letter["reason"]) == ("saw", "max_attempts")
    finally:
        system.end()
        server.kill()
