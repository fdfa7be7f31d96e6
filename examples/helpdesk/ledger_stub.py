"""A ledger that is slow for some customers: ``python -m examples.helpdesk.ledger_stub --ledger FILE [--port 0]``.

Prints its address, then serves until it is ended or its standard input closes (``--with-parent``).

    POST /entries   Idempotency-Key and a JSON entry: 201 written, 200 written before, 400 what is wrong with it
    GET  /healthz   200

For each customer in ``SLOW_CUSTOMERS`` the first three requests are never answered: the first writes nothing, the
second writes and then says nothing, which is what an outside system does at its worst. The ledger file survives a
restart; an entry is in it before it is acknowledged.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections import Counter
from dataclasses import asdict, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast

from .ledger import Entry, read_ledger

__all__ = ["SLOW_CUSTOMERS", "Ledger", "LedgerServer", "main"]

SLOW_CUSTOMERS: Final = frozenset(
    {
        "Bäckerei Sonnleitner",
        "Hartley & Sons Ltd",
        "Librairie du Vieux-Port",
        "Talleres Ibarra",
        "株式会社青葉",
    }
)
UNANSWERED_REQUESTS: Final = 3
MAX_BODY: Final = 64 * 1024
SILENCE_SECONDS: Final = 2.0


class Ledger:
    """The file and what is in it. One entry per idempotency key, whatever arrives how often."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._written = {entry.effect: entry for entry in read_ledger(path)}
        self._requests: Counter[str] = Counter()

    def request_number(self, customer: str) -> int:
        """How many requests this customer has had, this one included."""
        with self._lock:
            self._requests[customer] += 1
            return self._requests[customer]

    def append(self, entry: Entry) -> bool:
        """True if the entry was there before. ``ValueError`` if its key was used for another one."""
        with self._lock:
            before = self._written.get(entry.effect)
            if before is not None:
                if before != entry:
                    raise ValueError(f"key {entry.effect} was used for another entry")
                return True
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            self._written[entry.effect] = entry
            return False


class LedgerServer(ThreadingHTTPServer):
    """Loopback only. ``silence`` is how long an unanswered request is held; set ``ended`` to let them go."""

    daemon_threads = True
    # All of a restarted effects node's calls may come at once.
    request_queue_size = 128

    def __init__(self, ledger: Ledger, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), LedgerHandler)
        self.ledger = ledger
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class LedgerHandler(BaseHTTPRequestHandler):
    """One request; whatever is wrong with it is said in one line."""

    server: LedgerServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, "ok")
        else:
            self._answer(404, "there are POST /entries and GET /healthz")

    def do_POST(self) -> None:
        if self.path != "/entries":
            self._answer(404, "there are POST /entries and GET /healthz")
            return
        try:
            entry = self._entry()
            number = self.server.ledger.request_number(entry.customer)
            silent = entry.customer in SLOW_CUSTOMERS and number <= UNANSWERED_REQUESTS
            if silent and number == 1:
                self._say_nothing()
                return
            before = self.server.ledger.append(entry)
        except ValueError as error:
            self._answer(400, str(error))
            return
        if silent:
            self._say_nothing()
        else:
            self._answer(200 if before else 201, "written before" if before else "written")

    def _entry(self) -> Entry:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_BODY:
            raise ValueError(f"Content-Length must be a number up to {MAX_BODY}")
        return parse_entry(self.rfile.read(int(length)), self.headers.get("Idempotency-Key", ""))

    def _say_nothing(self) -> None:
        self.server.ended.wait(SILENCE_SECONDS)
        self.close_connection = True

    def _answer(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the demo's own transcript is what is read."""


def parse_entry(body: bytes, key: str) -> Entry:
    """The entry in a request's body; ``ValueError`` names what is wrong."""
    try:
        data: object = json.loads(body)
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    names = {field.name for field in fields(Entry)}
    if not isinstance(data, dict) or set(cast("dict[str, object]", data)) != names:
        raise ValueError(f"an entry has the fields {', '.join(sorted(names))}")
    entry = Entry(**cast("dict[str, Any]", data))
    if not key or entry.effect != key:
        raise ValueError("Idempotency-Key must be the entry's effect")
    if type(entry.amount) is not int or entry.amount < 1:
        raise ValueError(f"amount {entry.amount!r} must be a whole number of 1 or more")
    return entry


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.helpdesk.ledger_stub", description="A slow ledger."
    )
    parser.add_argument("--ledger", type=Path, required=True, help="file of JSON lines, made if missing")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    ledger_file = cast("Path", options.ledger)
    try:
        server = LedgerServer(Ledger(ledger_file), cast("int", options.port))
    except (OSError, ValueError, TypeError) as error:
        print(f"ledger_stub: cannot serve {ledger_file} on port {options.port}: {error}", file=sys.stderr)
        return 1
    print(server.address, flush=True)
    if options.with_parent:
        threading.Thread(target=end_with_parent, args=(server,), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        return 0
    finally:
        server.ended.set()
        server.server_close()
    return 0


def end_with_parent(server: LedgerServer) -> None:
    """Standard input is a pipe from the parent: its end is the parent's end."""
    sys.stdin.buffer.read()
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
