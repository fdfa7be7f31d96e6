"""The embedded Redis: private, found again, shared or refused in clear words, and gone when its parent is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from regrow import embedded_redis
from regrow.embedded_redis import EmbeddedRedis, ServerInfo, running
from regrow.server_program import find_program
from regrow_signals.errors import StoreError
from tests.conftest import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: pytest's own folders are longer than a socket's path may be."""
    with tempfile.TemporaryDirectory(prefix="regrow-embedded-") as made:
        yield Path(made) / "state"


def client_of(info: ServerInfo) -> redis.Redis:
    return redis.Redis(unix_socket_path=info.socket, password=info.password, decode_responses=True)


def put(info: ServerInfo, key: str, value: str) -> None:
    client = client_of(info)
    client.set(key, value)
    client.close()


def get(info: ServerInfo, key: str) -> object:
    client = client_of(info)
    try:
        return client.get(key)
    finally:
        client.close()


def exists(pid: int) -> bool:
    """Alive: a zombie that nobody has reaped yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


LAUNCHER = """
import pathlib, sys
from regrow.embedded_redis import EmbeddedRedis
info = EmbeddedRedis(pathlib.Path(sys.argv[1])).start()
print(info.pid, flush=True)
sys.stdin.read()
"""


def launch(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Another process that runs the folder's server: it, and the server's pid."""
    roots = [ROOT, ROOT / "signals", ROOT / "workers", ROOT / "supervisor"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_data_is_found_again_at_the_next_start(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        put(server.info, "k", "v")
        first = server.info

    with EmbeddedRedis(folder) as server:
        assert get(server.info, "k") == "v"
        assert server.info.pid != first.pid
        assert (server.info.password, server.info.port) == (first.password, first.port)


def test_people_reach_it_on_a_loopback_port_with_the_password(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        info = server.info
        people = redis.Redis(port=info.port, password=info.password)
        assert people.ping()
        people.close()

        stranger = redis.Redis(port=info.port)
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()
        stranger.close()
        assert f"-p {info.port}" in info.cli
        assert info.password not in info.cli


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_the_line_for_people_works_as_it_is_printed(folder: Path) -> None:
    with EmbeddedRedis(folder.with_name("it's here")) as server:
        done = subprocess.run(
            ["sh", "-c", f"{server.info.cli} PING"], check=False, capture_output=True, text=True
        )

    assert done.stdout == "PONG\n", done.stderr


def test_the_url_reaches_it(folder: Path) -> None:
    odd = folder.with_name("with space %41 and #")

    with EmbeddedRedis(odd) as server:
        client = redis.Redis.from_url(server.info.url)  # pyright: ignore[reportUnknownMemberType]
        assert client.ping()
        client.close()


def test_it_persists_every_second_and_evicts_nothing(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        client = client_of(server.info)
        for name, wanted in {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "bind": "127.0.0.1",
        }.items():
            assert client.config_get(name) == {name: wanted}
        client.close()


def test_nobody_else_can_read_the_password(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.iterdir():
            if path.is_file() and not path.is_symlink():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        words = Path(f"/proc/{server.info.pid}/cmdline").read_bytes()
        assert server.info.password.encode() not in words
        assert server.info.password not in repr(server.info)


def test_stop_ends_the_server_and_start_may_be_called_again(folder: Path) -> None:
    server = EmbeddedRedis(folder)
    pid = server.start().pid

    server.stop()

    assert not exists(pid)
    assert not server.alive
    assert running(folder) is None
    with pytest.raises(StoreError, match="not started"):
        server.info.url  # noqa: B018
    assert server.start().pid != pid
    server.stop()
    server.stop()


def test_a_server_that_died_is_started_anew(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        put(server.info, "k", "v")
        pid = server.info.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not server.alive, "the death of the server is seen")

        info = server.start()

        assert info.pid != pid
        assert get(info, "k") == "v"


def test_a_second_start_shares_the_running_server(folder: Path) -> None:
    process, pid = launch(folder)
    try:
        server = EmbeddedRedis(folder)
        info = server.start()

        assert info.reused
        assert info.pid == pid
        put(info, "k", "v")

        server.stop()
        assert exists(pid)
        assert running(folder) is not None
    finally:
        end(process)
    wait_until(lambda: not exists(pid), "the server ends with its launcher")


def test_a_killed_launcher_takes_its_server_along_and_the_next_start_finds_the_data(folder: Path) -> None:
    process, pid = launch(folder)
    other = EmbeddedRedis(folder)
    put(other.start(), "k", "v")
    other.stop()

    end(process)  # SIGKILL

    with EmbeddedRedis(folder) as server:  # at once: the old server may still be writing
        assert not server.info.reused
        assert not exists(pid)
        assert get(server.info, "k") == "v"


def test_a_launcher_killed_while_its_server_is_stopped_by_hand_is_not_shared(folder: Path) -> None:
    process, pid = launch(folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        end(process)
        with pytest.raises(StoreError, match=f"in use by a Redis that does not answer.*{pid}"):
            EmbeddedRedis(folder, start_timeout=0.3).start()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not exists(pid), "the server ends, its launcher being gone")
    with EmbeddedRedis(folder) as server:
        assert not server.info.reused


def test_a_stale_record_that_names_a_living_stranger_harms_nobody(folder: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    folder.mkdir(mode=0o700)
    record = {
        "url": "unix:///nowhere", "socket": str(folder / "redis.sock"), "port": 1,
        "password": "x", "password_file": "x",
        "pid": stranger.pid, "program": "valkey-server", "version": "9.0.0",
    }  # fmt: skip
    (folder / "server.json").write_text(json.dumps(record))
    (folder / "redis.sock").write_text("not a socket")
    (folder / "port").write_text("junk")
    try:
        assert running(folder) is None
        with EmbeddedRedis(folder) as server:
            assert server.info.pid != stranger.pid
        assert stranger.poll() is None
    finally:
        stranger.communicate()


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"socket": 1}', "\x00", '{"url": "x", "unexpected": 1}'])
def test_an_unreadable_record_is_no_server(folder: Path, record: str) -> None:
    folder.mkdir(mode=0o700)
    (folder / "server.json").write_text(record)

    assert running(folder) is None


def test_a_port_that_is_taken_is_given_up_for_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (folder / "port").write_text(str(port))

        with EmbeddedRedis(folder) as server:
            assert server.info.port != port
            assert int((folder / "port").read_text()) == server.info.port


def test_a_path_too_long_for_a_socket_gets_a_short_one(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)

    with EmbeddedRedis(deep) as server:
        assert len(server.info.socket) < 104
        put(server.info, "k", "v")
        assert (deep / "data").is_dir()
        short = Path(server.info.socket).parent
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    short.rmdir()


def test_the_thread_that_called_start_may_end(folder: Path) -> None:
    server = EmbeddedRedis(folder)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert server.alive
        put(server.info, "k", "v")
    finally:
        server.stop()


def test_a_fork_of_the_launcher_does_not_keep_the_folder(folder: Path) -> None:
    server = EmbeddedRedis(folder)
    server.start()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # holds copies of the locks, and a server object that is not its own
        os.close(write)
        server.stop()
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        server.stop()
        with EmbeddedRedis(folder, start_timeout=5) as again:
            assert not again.info.reused
    finally:
        os.close(write)
        os.waitpid(child, 0)


def append_file(folder: Path) -> Path:
    return next((folder / "data" / "appendonlydir").glob("*.incr.aof"))


def test_a_cut_tail_of_the_append_only_file_is_loaded_and_said(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        put(server.info, "a", "1")
        put(server.info, "b", "2")
    path = append_file(folder)
    path.write_bytes(path.read_bytes()[:-3])

    with EmbeddedRedis(folder) as server:
        assert get(server.info, "a") == "1"
        assert any("short read" in line or "truncated" in line.lower() for line in server.info.warnings)


def test_a_damaged_append_only_file_is_refused_in_the_servers_words(folder: Path) -> None:
    with EmbeddedRedis(folder) as server:
        put(server.info, "a", "1")
        put(server.info, "b", "2")
    path = append_file(folder)
    damaged = b"garbage" + path.read_bytes()
    path.write_bytes(damaged)

    with pytest.raises(StoreError, match=r"(?i)bad file format"):
        EmbeddedRedis(folder).start()
    assert path.read_bytes() == damaged


def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(StoreError, match="chmod 700"):
        EmbeddedRedis(folder).start()


def test_a_folder_that_cannot_be_made_is_refused(folder: Path) -> None:
    folder.write_text("a file")

    with pytest.raises(StoreError, match="REGROW_STATE_DIR"):
        EmbeddedRedis(folder / "below").start()
    with pytest.raises(StoreError, match="REGROW_STATE_DIR"):
        EmbeddedRedis(folder).start()


def fake_program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit 3\n")
    path.chmod(0o755)
    return path


def test_the_program_on_path_goes_first_unless_it_is_too_old(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_program(folder / "old" / "redis-server", "Redis server v=6.2.14 sha=0")
    new = fake_program(folder / "new" / "redis-server", "Redis server v=7.0.15 sha=0")

    monkeypatch.setenv("PATH", f"{old.parent}")
    assert find_program().path != str(old)
    monkeypatch.setenv("PATH", f"{new.parent}")
    assert find_program().path == str(new)
    assert find_program().version == "7.0.15"


def test_a_named_program_that_will_not_do_is_refused(folder: Path) -> None:
    old = fake_program(folder / "old" / "redis-server", "Redis server v=6.2.14 sha=0")

    for wanted, why in (
        (str(old), "version 6.2.14"),
        ("no-such-server", "is no program"),
        ("/bin/true", "unknown"),
    ):
        with pytest.raises(StoreError, match=why):
            find_program(wanted)


def test_no_server_at_all_is_one_line_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("regrow.server_program._from_wheel", lambda: None)

    with pytest.raises(StoreError, match=r"set REDIS_URL, or install"):
        find_program()


def test_a_server_that_ends_at_its_start_is_told_with_its_last_words(folder: Path) -> None:
    broken = fake_program(folder / "bin" / "redis-server", "Redis server v=7.2.0: I cannot go on")
    (folder / "state").mkdir(mode=0o700)

    with pytest.raises(StoreError, match=r"ended at its start.*I cannot go on"):
        EmbeddedRedis(folder / "state", program=str(broken)).start()


def test_the_helper_that_ties_a_program_to_its_parent_refuses_a_stranger() -> None:
    tied = Path(embedded_redis.__file__).with_name("tied.py")

    done = subprocess.run(
        [sys.executable, "-I", "-S", tied, "1", "15", "true"], check=False, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "parent 1 is gone" in done.stderr
