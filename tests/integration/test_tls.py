"""The connection over TLS: a server is verified, and an idle loss is noticed there too."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrow_signals.async_connection import AsyncConnection
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import StoreUnavailable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")

COUNT: Command[int] = Command(("INCR", "n"), int, repeatable=False)


class TLSFront:
    """A TLS listener before the private server, one client at a time."""

    def __init__(self, folder: Path, target: str) -> None:
        self.certificate = folder / "cert.pem"
        key = folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out",
             str(self.certificate),
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.hang_up_after: int | None = None
        self.hung_up = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}?ssl_ca_certs={self.certificate}"

    def _serve(self) -> None:
        while True:
            plain, _ = self._listener.accept()
            if self._stopping:
                plain.close()
                return
            try:
                with self._context.wrap_socket(plain, server_side=True) as client:
                    self._pass_on(client)
            except OSError:
                continue

    def _pass_on(self, client: ssl.SSLSocket) -> None:
        answered = 0
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self._target)
            while data := client.recv(65536):
                server.sendall(data)
                client.sendall(server.recv(65536))
                answered += 1
                if answered == self.hang_up_after:
                    break
        client.close()
        self.hung_up.set()

    def close(self) -> None:
        self._stopping = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def front(tmp_path: Path, redis_url: str) -> Iterator[TLSFront]:
    found = TLSFront(tmp_path, redis_url.removeprefix("unix://"))
    yield found
    found.close()


def test_commands_pass_over_one_verified_connection(front: TLSFront) -> None:
    with Connection.open(front.url) as connection:
        assert [connection.command(COUNT) for _ in range(5)] == [1, 2, 3, 4, 5]
        assert connection.read_stream("s", "0-0", count=1, block_ms=20) == []
        assert connection.generation == 1


def test_unknown_authority_is_refused(front: TLSFront) -> None:
    with (
        Connection.open(f"rediss://localhost:{front.port}") as connection,
        pytest.raises(StoreUnavailable, match="CERTIFICATE"),
    ):
        connection.command(COUNT)


def test_idle_loss_is_noticed_before_sending(front: TLSFront) -> None:
    front.hang_up_after = 1
    with Connection.open(front.url) as connection:
        assert connection.command(COUNT) == 1
        assert front.hung_up.wait(5)
        assert connection.command(COUNT) == 2
        assert connection.generation == 2


def test_awaited_connection_speaks_tls_too(front: TLSFront) -> None:
    async def scenario() -> None:
        async with AsyncConnection.open(front.url) as connection:
            assert [await connection.command(COUNT) for _ in range(3)] == [1, 2, 3]

    asyncio.run(scenario())
