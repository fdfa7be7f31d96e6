"""``regrow up``: services are started in order, started again when they die, ended in reverse, and none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from regrow.child_process import restart_delay
from regrow.embedded_redis import running
from regrow.settings import Settings, load_settings
from regrow.up import SERVICES, Stack
from regrow_signals.errors import StoreError
from tests.conftest import wait_until

ROOT = Path(__file__).resolve().parents[2]

SERVICE = """
import os, signal, sys, time
name = sys.argv[1]
def end(*_):
    print(name, "ends", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print(name, "serves", os.environ["REDIS_URL"], os.environ["REGROW_NAMESPACE"], flush=True)
while True:
    signal.pause()
"""


class Heard:
    """The lines of a stack."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    def count(self, name: str, part: str) -> int:
        return sum(1 for who, line in list(self.lines) if who == name and part in line)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="regrow-up-") as made:
        yield Path(made)


@pytest.fixture
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("REDIS_URL", raising=False)
    return load_settings(state_dir=folder, drain=0.2, shutdown=0.2)


def running_program(source: str) -> Callable[[str], Sequence[str]]:
    return lambda name: [sys.executable, "-c", source, name]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_services_start_in_order_and_end_in_reverse(settings: Settings) -> None:
    heard = Heard()
    stack = Stack("app:tree", settings=settings, output=heard, command=running_program(SERVICE))

    stack.start()
    pids = stack.processes()
    wait_until(lambda: all(heard.count(name, "serves") for name in SERVICES), "all services serve")
    stack.stop()

    assert list(pids) == [*SERVICES, "redis"]
    assert [name for name, line in heard.lines if "ends" in line] == list(reversed(SERVICES))
    assert all(gone(pid) for pid in pids.values())
    assert stack.processes() == {}


def test_services_are_told_the_server_and_the_namespace_by_environment_alone(settings: Settings) -> None:
    heard = Heard()
    with Stack("app:tree", settings=settings, output=heard, command=running_program(SERVICE)) as stack:
        wait_until(lambda: heard.count("worker", f"{stack.url} regrow"), "the worker tells what it was told")
        password = stack.server.info.password if stack.server else ""
        for pid in stack.processes().values():
            assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_named_server_is_used_and_none_is_started(settings: Settings, redis_url: str) -> None:
    heard = Heard()
    named = settings.model_copy(update={"redis_url": redis_url})
    with Stack("app:tree", settings=named, output=heard, command=running_program(SERVICE)) as stack:
        wait_until(lambda: heard.count("worker", redis_url), "the worker tells its server")
        assert "redis" not in stack.processes()


def test_a_service_that_dies_is_started_again_and_the_others_are_not(settings: Settings) -> None:
    heard = Heard()
    with Stack("app:tree", settings=settings, output=heard, command=running_program(SERVICE)) as stack:
        before = stack.processes()
        wait_until(lambda: heard.count("worker", "serves"), "the worker serves")

        os.kill(before["worker"], signal.SIGKILL)
        wait_until(lambda: heard.count("worker", "serves") == 2, "the worker serves again")

        after = stack.processes()
        assert heard.count("up", "worker ended (SIGKILL)") == 1
        assert {name for name in before if before[name] != after[name]} == {"worker"}


def test_a_server_that_dies_is_started_again_with_the_same_address(settings: Settings) -> None:
    heard = Heard()
    with Stack("app:tree", settings=settings, output=heard, command=running_program(SERVICE)) as stack:
        before, url = stack.processes(), stack.url

        os.kill(before["redis"], signal.SIGKILL)
        wait_until(
            lambda: stack.processes().get("redis", before["redis"]) != before["redis"], "Redis is back"
        )

        assert stack.server is not None
        server = stack.server
        wait_until(lambda: running(server.folder) is not None, "Redis answers")
        assert stack.url == url
        found = running(server.folder)
        assert found is not None
        assert found.url == url
        assert {**stack.processes(), "redis": 0} == {**before, "redis": 0}


def test_a_service_that_does_not_end_in_time_is_killed_with_its_group(
    settings: Settings, folder: Path
) -> None:
    stubborn = f"""
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    pathlib.Path({str(folder)!r}, sys.argv[1]).write_text(str(child))
while True:
    signal.pause()
"""
    quick = settings.model_copy(update={"drain": -1.9, "shutdown": -1.9})
    heard = Heard()
    stack = Stack("a:b", settings=quick, output=heard, services=["worker"], command=running_program(stubborn))
    stack.start()
    note = folder / "worker"
    wait_until(lambda: note.exists() and note.read_text(), "the worker has a child")
    pids = [*stack.processes().values(), int(note.read_text())]

    stack.stop()

    assert heard.count("up", "worker did not end in time: killed") == 1
    for pid in pids:
        wait_until(partial(gone, pid), f"{pid} is gone")


def test_an_application_that_cannot_be_loaded_ends_the_stack(settings: Settings) -> None:
    source = "import sys; print('no module named app'); sys.exit(78 if sys.argv[1] == 'worker' else 0)"
    heard = Heard()
    stack = Stack(
        "app:tree", settings=settings, output=heard, services=["worker"], command=running_program(source)
    )
    stack.start()
    try:
        assert stack.wait(10)
        assert stack.exit_code == 78
        assert heard.count("worker", "no module named app") == 1
    finally:
        stack.stop()


def test_work_goes_on_without_metrics_when_their_port_is_taken(settings: Settings) -> None:
    source = "import sys, signal; sys.argv[1] == 'metrics' and sys.exit(2); signal.pause()"
    heard = Heard()
    stack = Stack(
        "app:tree",
        settings=settings,
        output=heard,
        services=["worker", "metrics"],
        command=running_program(source),
    )
    stack.start()
    try:
        worker = stack.processes()["worker"]
        wait_until(
            lambda: heard.count("up", "metrics ended (code 2)") >= 2, "metrics were tried again, twice"
        )
        assert stack.processes()["worker"] == worker
        assert stack.exit_code is None
    finally:
        stack.stop()


def test_lines_are_passed_on_whole_also_the_last_one_without_an_end(settings: Settings) -> None:
    source = (
        "import sys; sys.stdout.buffer.write(b'caf\\xc3\\xa9\\nbad \\xff byte\\n' + b'x' * 200000 + b'\\nrest');"
        "sys.stdout.flush(); sys.exit(78)"
    )
    heard = Heard()
    stack = Stack(
        "a:b", settings=settings, output=heard, services=["worker"], command=running_program(source)
    )
    stack.start()
    try:
        assert stack.wait(10)
    finally:
        stack.stop()

    lines = [line for name, line in heard.lines if name == "worker"]
    assert lines[:2] == ["café", "bad \ufffd byte"]
    assert "".join(lines[2:]) == "x" * 200000 + "rest"


def test_a_stack_can_be_started_again_and_finds_its_data(settings: Settings) -> None:
    stack = Stack("a:b", settings=settings, services=["worker"], command=running_program(SERVICE))
    stack.start()
    url = stack.url
    stack.stop()
    stack.stop()

    stack.start()
    assert stack.url == url
    assert set(stack.processes()) == {"worker", "redis"}
    stack.stop()


def test_a_server_that_cannot_start_leaves_nothing_running(settings: Settings, folder: Path) -> None:
    (folder / "regrow").write_text("a file where the folder should be")
    stack = Stack("a:b", settings=settings, command=running_program(SERVICE))

    with pytest.raises(StoreError, match="REGROW_STATE_DIR"):
        stack.start()

    assert stack.processes() == {}
    stack.stop()


LAUNCHER = textwrap.dedent("""
    import pathlib, sys
    from regrow.settings import load_settings
    from regrow.up import Stack
    service = sys.argv[2]
    stack = Stack("a:b", settings=load_settings(state_dir=pathlib.Path(sys.argv[1])),
                  command=lambda name: [sys.executable, "-c", service, name])
    stack.start()
    print(*stack.processes().values(), flush=True)
    sys.stdin.read()
""")


def launch(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    roots = [ROOT, ROOT / "signals", ROOT / "workers", ROOT / "supervisor"]
    environment = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(folder), SERVICE],
        env={**environment, "PYTHONPATH": os.pathsep.join(map(str, roots))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


def test_a_killed_launcher_leaves_no_process_behind_and_can_be_started_again_at_once(folder: Path) -> None:
    process, first = launch(folder)
    assert len(first) == len(SERVICES) + 1

    process.kill()
    process.communicate()
    again, second = launch(folder)

    try:
        for pid in first:
            wait_until(partial(gone, pid), f"{pid} of the killed launcher is gone")
        assert len(second) == len(first)
    finally:
        again.kill()
        again.communicate()
    for pid in second:
        wait_until(partial(gone, pid), f"{pid} of the second launcher is gone")


def test_the_thread_that_started_a_stack_may_end(settings: Settings) -> None:
    stack = Stack("a:b", settings=settings, services=["worker"], command=running_program(SERVICE))
    thread = threading.Thread(target=stack.start)
    thread.start()
    thread.join()
    try:
        pids = stack.processes()
        assert set(pids) == {"worker", "redis"}
        assert not any(gone(pid) for pid in pids.values())
    finally:
        stack.stop()


def test_pauses_between_restarts_double_up_to_ten_seconds() -> None:
    assert [restart_delay(deaths) for deaths in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]
    assert restart_delay(8) == restart_delay(1000) == 10.0
