"""The whole system as people start it, killed as the world kills it: nothing is left over, nothing accepted is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrow.embedded_redis import running
from regrow.state_folder import read_record
from regrow_signals.client import Client
from regrow_signals.errors import RegrowError
from tests.conftest import wait_until
from tests.crash.processes import default_signals

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

APPLICATION = """
from regrow import Agent, Payload, State, Step, Supervisor, handles

class Knocked(Payload, type="door.knocked"):
    number: int

class Door(State):
    seen: tuple[int, ...] = ()

class Doorman(Agent[Door], name="doorman"):
    @handles(Knocked)
    def knocked(self, door: Door, knock: Knocked) -> Step[Door]:
        return door.evolve(seen=(*door.seen, knock.number))

tree = Supervisor("house", [Doorman.child("doorman")])
"""

PROCFILE = """\
watchdog: regrow watchdog house:tree
worker: regrow worker house:tree
effects: regrow effects house:tree
metrics: regrow metrics
"""


class System:
    """A launcher in a folder of its own; all that descends from it carries a mark in its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"REGROW_TEST_MARK={uuid.uuid4().hex}"
        self.launcher: subprocess.Popen[bytes] | None = None
        (folder / "house.py").write_text(APPLICATION)
        (folder / "Procfile").write_text(PROCFILE)
        # `regrow` as the Procfile calls it, wherever the tests run from.
        (folder / "bin").mkdir()
        command = folder / "bin" / "regrow"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regrow "$@"\n')
        command.chmod(0o755)

    def launch(self, *words: str, **environment: str) -> None:
        name, _, value = self.mark.partition("=")
        roots = [ROOT, ROOT / "signals", ROOT / "workers", ROOT / "supervisor"]
        inherited = {key: text for key, text in os.environ.items() if key != "REDIS_URL"}
        with (self.folder / "log").open("ab") as log, default_signals():
            self.launcher = subprocess.Popen(
                words,
                cwd=self.folder,
                env={
                    **inherited,
                    "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                    "PYTHONPATH": os.pathsep.join(map(str, roots)),
                    "REGROW_STATE_DIR": str(self.folder / "state"),
                    "REGROW_METRICS_PORT": "0",
                    name: value,
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def up(self) -> None:
        self.launch(sys.executable, "-m", "regrow", "up", "house:tree")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def processes(self) -> dict[int, str]:
        """Every living process of it, and its command line.

        The server writes its title over its environment, so it is known by the record of its start.
        """
        server = read_record(self.folder / "state" / "regrow").get("pid")
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    marks = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue  # it ended while it was looked at
                is_server = int(entry.name) == server and "-server" in words
                if self.mark.encode() in marks or is_server:
                    found[int(entry.name)] = words
        return found

    def pid_of(self, part: str) -> int:
        return next(pid for pid, words in self.processes().items() if part in words)

    def wait_for_nothing(self, seconds: float) -> None:
        def nothing() -> bool:
            if self.launcher is not None:
                self.launcher.poll()
            return not self.processes()

        try:
            wait_until(nothing, "no process is left", timeout=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.processes()}\n{self.log}") from None

    def clean(self) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self.launcher is not None:
            self.launcher.wait()


@pytest.fixture
def system() -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="regrow-whole-") as folder:
        made = System(Path(folder))
        yield made
        made.clean()


def url_of(system: System) -> str:
    found = running(system.folder / "state" / "regrow")
    return found.url if found is not None else ""


def seen_by_doorman(url: str) -> list[int]:
    import json

    from regrow_signals import views
    from regrow_signals.keys import Keys

    with Client(url) as client:
        try:
            record = client.connection.command(views.agent_record(Keys(), "doorman"))
        except RegrowError:
            return []
    return list(json.loads(record.get("state") or "{}").get("seen", []))


def send(url: str, number: int) -> None:
    with Client(url) as client:
        client.send("doorman", "door.knocked", {"number": number}, id=f"k-{number}")


def runs(url: str, number: int) -> bool:
    """Whether a signal gets in; the same one may be sent again, it is known by its id."""
    try:
        send(url, number)
    except RegrowError:
        return False
    return True


def wait_for_seen(system: System, url: str, wanted: list[int], seconds: float) -> None:
    try:
        wait_until(lambda: seen_by_doorman(url) == wanted, f"doorman saw {wanted}", timeout=seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}, but {seen_by_doorman(url)}\n{system.log}") from None


def start_and_knock(system: System, number: int, seen: list[int]) -> str:
    system.up()
    wait_until(lambda: bool(url_of(system)), "the embedded Redis answers", timeout=20)
    url = url_of(system)
    wait_until(lambda: runs(url, number), "doorman takes a signal", timeout=20)
    wait_for_seen(system, url, [*seen, number], 20)
    return url


def test_a_launcher_whose_terminal_is_closed_leaves_no_process(system: System) -> None:
    start_and_knock(system, 1, [])
    launcher = system.launcher
    assert launcher is not None

    launcher.send_signal(signal.SIGHUP)

    assert launcher.wait(15) == 0, system.log
    assert system.processes() == {}


def test_a_redis_killed_under_a_running_system_is_started_again_and_all_go_on(system: System) -> None:
    url = start_and_knock(system, 1, [])
    services = {pid for pid, words in system.processes().items() if "-m regrow" in words}

    os.kill(system.pid_of("-server"), signal.SIGKILL)
    wait_until(lambda: runs(url, 2), "doorman takes a signal", timeout=15)
    wait_for_seen(system, url, [1, 2], 15)

    assert services <= system.processes().keys(), system.log


def test_an_application_that_cannot_be_loaded_ends_it_with_its_own_code(system: System) -> None:
    system.launch(sys.executable, "-m", "regrow", "up", "no_such_module:tree")
    assert system.launcher is not None

    assert system.launcher.wait(20) == 78, system.log
    assert "no module 'no_such_module'" in system.log
    assert system.processes() == {}


def test_no_argument_list_shows_the_password(system: System) -> None:
    url = start_and_knock(system, 1, [])
    password = url.partition("://:")[2].partition("@")[0]

    assert len(password) == 32
    assert not [words for words in system.processes().values() if password in words]
    assert password not in system.log
