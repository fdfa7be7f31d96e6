"""Stands for a model and two tools: slow, sometimes down, streams word by word, and sometimes breaks off in it."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from examples.running import ProviderHandler

__all__ = ["Provider", "completion"]

WISHES = re.compile(r"(weather|table) in (\w+)")
WORD_SECONDS = 0.02
DOWN, BREAKS_OFF = 0.1, 0.1
"""Shares of the calls."""


class Provider:
    """``handler`` is for ``serving``. What it did is counted, so that a verdict can be made of it."""

    def __init__(self, seed: int = 1, *, down: float = DOWN, breaks_off: float = BREAKS_OFF) -> None:
        self._random = random.Random(seed)
        self._down, self._breaks_off = down, breaks_off
        self._lock = threading.Lock()
        self._booked: dict[str, dict[str, Any]] = {}
        self.tables: Counter[str] = Counter()
        """How many tables were booked at a place: by key, each once."""
        self.calls: Counter[str] = Counter()
        self.booking = threading.Semaphore(0)
        """Released when a table is booked, and the answer is still to be given."""

    def handler(self, *args: Any) -> ProviderHandler:
        provider = self

        class Handler(ProviderHandler):
            def do_POST(self) -> None:  # noqa: N802  the name that http.server looks for
                what, body = self.path.strip("/"), self.body()
                provider.calls[what] += 1
                if provider.chance() < provider._down:
                    self.answer({}, 503)
                    return
                pieces = provider.pieces(what, self.headers["Idempotency-Key"], body)
                self.answer_in_pieces([*pieces, {}], breaks_off=provider.chance() < provider._breaks_off)

            def answer_in_pieces(self, pieces: list[Any], *, breaks_off: bool) -> None:
                try:
                    self.send_response(200)
                    self.end_headers()
                    for piece in pieces[: len(pieces) // 2] if breaks_off else pieces:
                        time.sleep(WORD_SECONDS)
                        self.wfile.write(json.dumps(piece).encode() + b"\n")
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        return Handler(*args)

    def chance(self) -> float:
        with self._lock:
            return self._random.random()

    def pieces(self, what: str, key: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        if what == "chat":
            return list(completion(body["messages"]))
        if what == "weather":
            return [{"weather": f"sunny in {body['place']}"}]
        table = self.book(key, body["place"])
        self.booking.release()
        time.sleep(10 * WORD_SECONDS)
        return [table]

    def book(self, key: str, place: str) -> dict[str, Any]:
        with self._lock:
            if key not in self._booked:
                self.tables[place] += 1
                self._booked[key] = {"table": f"table {self.tables[place]} in {place}"}
            return self._booked[key]


def completion(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a small model would say: it calls a tool for each wish of the last user's message, then sums up. Pure."""
    last = messages[-1]
    if last["role"] == "user":
        calls = [
            {
                "id": f"call-{len(messages)}-{place}",
                "tool": "book" if wish == "table" else "weather",
                "about": where,
            }
            for place, (wish, where) in enumerate(WISHES.findall(last["text"]))
        ]
        if calls:
            yield {"calls": calls}
            return
    told: list[str] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        told.insert(0, message["text"])
    for word in f"You have: {', '.join(sorted(told)) or 'no wish'}.".split(" "):
        yield {"text": f"{word} "}
