"""``regrow metrics``: /metrics, /healthz and /readyz over HTTP, from any replica."""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from regrow.metrics.collector import RegrowCollector
from regrow_signals import views
from regrow_signals.connection import Connection
from regrow_signals.errors import BadSetting, RegrowError
from regrow_signals.keys import Keys
from regrow_workers.first_process import let_orphans_go
from regrow_workers.os_signals import TOLD_TO_END, install

__all__ = ["MetricsServer", "run_metrics"]

log = logging.getLogger("regrow.metrics")

TEXT = "text/plain; charset=utf-8"


class MetricsServer:
    """Serves until ``stop``. ``port`` 0 takes any free one; ``address`` tells which."""

    def __init__(self, url: str, *, namespace: str, host: str, port: int) -> None:
        registry = CollectorRegistry()
        registry.register(RegrowCollector(url, namespace))
        keys = Keys(namespace)

        class Handler(_Handler):
            def pages(self) -> dict[str, tuple[int, str, bytes]]:
                if self.path == "/metrics":
                    return {self.path: (200, CONTENT_TYPE_LATEST, generate_latest(registry))}
                if self.path == "/healthz":
                    return {self.path: (200, TEXT, b"ok\n")}
                return {"/readyz": _readiness(url, keys)}

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise BadSetting(
                f"cannot listen on {host}:{port}: {error.strerror or error}; set REGROW_METRICS_HOST and "
                "REGROW_METRICS_PORT to an address of this machine that is free"
            ) from None
        self._server.daemon_threads = True

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def serve(self) -> None:
        """Serve until ``stop`` is called from another thread."""
        self._server.serve_forever(poll_interval=0.1)
        self._server.server_close()

    def stop(self) -> None:
        """End ``serve``."""
        self._server.shutdown()


def run_metrics(url: str, *, namespace: str, host: str, port: int) -> int:
    """Serve until SIGTERM or SIGINT; the exit code is 0."""
    server = MetricsServer(url, namespace=namespace, host=host, port=port)
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        asked.set()

    let_orphans_go()
    install(TOLD_TO_END, handle)
    thread = threading.Thread(target=server.serve, name="regrow-metrics", daemon=True)
    thread.start()
    shown_host, shown_port = server.address
    log.info("metrics at http://%s:%s/metrics", shown_host, shown_port)
    while not asked.wait(1.0) and thread.is_alive():
        pass
    server.stop()
    thread.join()
    return 0


class _Handler(BaseHTTPRequestHandler):
    """One page a request. ``wbufsize`` -1: one packet an answer (else Nagle and delayed ACK cost 40 ms)."""

    wbufsize = -1
    server_version = "regrow"
    protocol_version = "HTTP/1.1"

    def pages(self) -> dict[str, tuple[int, str, bytes]]:
        """The page asked for: path -> (status, content type, body)."""
        return {}

    def do_GET(self) -> None:
        known = ("/metrics", "/healthz", "/readyz")
        if self.path in known:
            status, kind, body = self.pages()[self.path]
        else:
            status, kind, body = 404, TEXT, f"no such page; there are {', '.join(known)}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  the base class's word

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's word
        """Scrapes are not events: nothing is logged."""


def _readiness(url: str, keys: Keys) -> tuple[int, str, bytes]:
    """Ready: Redis answers and a watchdog leads."""
    try:
        with Connection.open(url, name="regrow-readyz", timeout=2.0) as connection:
            token = connection.command(views.leader(keys))
    except RegrowError as error:
        return 503, TEXT, f"not ready: {error}\n".encode()
    return (200, TEXT, b"ready\n") if token else (503, TEXT, b"not ready: no watchdog leads\n")
