"""A proxy before Redis that passes one command on and drops its reply: the sender never learns that it has run."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType

__all__ = ["ReplyDropper"]


class ReplyDropper:
    """Passes everything, but the first request that holds ``mark`` loses its reply and its connection."""

    def __init__(self, url: str, mark: bytes) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="regrow-proxy-"))
        self._server = url.removeprefix("unix://")
        self._mark = mark
        self._listener = socket.socket(socket.AF_UNIX)
        self._sockets: list[socket.socket] = [self._listener]
        self.url = f"unix://{self._folder}/redis.sock"
        self.dropped = 0

    def __enter__(self) -> ReplyDropper:
        self._listener.bind(self.url.removeprefix("unix://"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for each in self._sockets:
            _end(each)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._sockets += [client, server]
            lost = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, lost), daemon=True).start()
            threading.Thread(target=self._replies, args=(client, server, lost), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        try:
            while data := client.recv(1 << 20):
                if self._mark in data and not self.dropped:
                    self.dropped += 1
                    lost.set()
                server.sendall(data)
        except OSError:
            pass
        _end(server)

    def _replies(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        try:
            while data := server.recv(1 << 20):
                if lost.is_set():
                    break
                client.sendall(data)
        except OSError:
            pass
        _end(client)


def _end(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    each.close()
