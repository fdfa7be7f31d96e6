"""``regrow.testing.server()``: a real Redis for a test run; several side by side never meet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regrow.testing import server
from regrow_signals.calls import Command
from regrow_signals.connection import Connection

pytest_plugins = ("pytester",)


def test_servers_of_parallel_runs_never_meet_and_leave_nothing_behind() -> None:
    with server() as one, server() as other:
        with Connection.open(one.url) as here, Connection.open(other.url) as there:
            here.command(Command(("SET", "key", "x"), str, repeatable=False))
            assert here.command(Command(("EXISTS", "key"), int)) == 1
            assert there.command(Command(("EXISTS", "key"), int)) == 0
        folders = [Path(each.socket).parent for each in (one, other)]
        assert folders[0] != folders[1]
    assert [folder.exists() for folder in folders] == [False, False]
    for pid in (one.pid, other.pid):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_fixtures_are_found_by_a_users_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from regrow import Agent, Payload, State, Step, Supervisor, handles
        from regrow.testing import Harness

        class Ping(Payload, type="ping"):
            pass

        class Count(State):
            n: int = 0

        class Pinger(Agent[Count], name="plugin-pinger"):
            @handles(Ping)
            def ping(self, state: Count, ping: Ping) -> Step[Count]:
                return state.evolve(n=state.n + 1)

        def test_it(harness: type[Harness], regrow_server: object) -> None:
            tree = harness(Supervisor("tree", [Pinger.child("p")]))
            tree.send("p", Ping())
            tree.run()
            assert tree.state("p", Pinger).n == 1
            assert regrow_server.url.startswith("unix://")
        """
    )
    done = pytester.runpytest_inprocess("-p", "regrow.testing.pytest_plugin", "-p", "no:randomly")
    done.assert_outcomes(passed=1)
