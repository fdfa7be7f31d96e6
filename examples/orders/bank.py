"""The bank and the carrier: a provider of our own behind HTTP, and how an effect calls it.

``charge`` and ``parcel`` honour the caller's key: the same key is answered as the first time, and nothing is done
again. ``refund`` knows no keys: each call pays back. Whatever is done stands in ``bank.jsonl``; a while before, and a
while after it, the caller has no answer, and if it dies then nobody knows.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.running import ProviderHandler

__all__ = ["ADDRESS", "DECLINED", "NOWHERE", "Bank", "Line", "post", "read"]

ADDRESS = "ORDERS_BANK_URL"
DECLINED = "4000-0000"
NOWHERE = "nowhere"


@dataclass(frozen=True)
class Line:
    """What was done, once for each time."""

    did: str
    """``charge``, ``refund`` or ``parcel``."""
    order: str
    cents: int = 0


class Bank:
    """``handler`` is for ``serving``. One call in ``flaky`` of those that may be repeated fails, before or after."""

    def __init__(self, log: Path, *, seed: int = 1, slow: float = 0.4, flaky: int = 10) -> None:
        self._log = log.open("a", encoding="utf-8")
        self._random = random.Random(seed)
        self._slow = slow
        self._flaky = flaky
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self.repeated = 0
        """Calls with a key that it knew already."""

    def handler(self, *args: Any) -> ProviderHandler:
        bank = self

        class Handler(ProviderHandler):
            def do_POST(self) -> None:  # noqa: N802  the name that http.server looks for
                what, key, body = self.path.strip("/"), self.headers.get("Idempotency-Key") or "", self.body()
                bank.pause()
                if self.hung_up():
                    return
                status, value = bank.called(what, key, body)
                bank.pause()
                self.answer(value, status)

        return Handler(*args)

    def called(self, what: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.calls += 1
            fate = self._random.randrange(self._flaky) if key else -1
            if fate == 0:
                return 503, {"error": "down"}
            done = self._do(what, key, body)
        return (500, {"error": "something broke, who knows when"}) if fate == 1 else (200, done)

    def called_since(self, calls: int) -> bool:
        return self.calls > calls

    def pause(self) -> None:
        """Banks take their time, before and after."""
        time.sleep(self._random.random() * self._slow)

    def _do(self, what: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        if key in self._known:
            self.repeated += 1
            return self._known[key]
        if body.get("card") == DECLINED or body.get("address") == NOWHERE:
            return {"accepted": False}
        line = Line(what, body["order"], body.get("cents", 0))
        print(json.dumps(asdict(line)), file=self._log, flush=True)
        answer = {"accepted": True, "number": f"{what}-{body['order']}"}
        if key:
            self._known[key] = answer
        return answer

    def close(self) -> None:
        self._log.close()


def read(log: Path) -> list[Line]:
    return [Line(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def post(what: str, *, key: str = "", **body: Any) -> dict[str, Any]:
    """One call; raises when the provider does not answer, or says that it is in trouble."""
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(
        f"{os.environ[ADDRESS]}/{what}", json.dumps(body).encode(), headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=5) as response:
        answer: dict[str, Any] = json.load(response)
        return answer
