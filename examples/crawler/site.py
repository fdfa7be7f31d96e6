"""A site to crawl: pages that are slow, pages that fail once or always, links that lead nowhere, and a robots.txt."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from examples.running import ProviderHandler

__all__ = ["BROKEN", "Request", "Site", "expected", "links"]

BROKEN = 4
SLOW_SECONDS = 0.3


def links(page: int) -> list[str]:
    """Two pages further down, the first one again, one that is forbidden, elsewhere, and sometimes nowhere. Pure."""
    down = [f"/page/{2 * page + 1}", f"/page/{2 * page + 2}", "/page/0", f"/private/{page}"]
    return [*down, "http://elsewhere.invalid/", *([f"/gone/{page}"] if page % 3 == 0 else [])]


def expected(depth: int) -> dict[str, int]:
    """By path: what a crawl to this depth has to come to; 0 for a page that never came. Pure."""
    pages: dict[str, int] = {}
    level = ["/page/0"]
    for _ in range(depth + 1):
        found: list[str] = []
        for path in level:
            kind, number = path.split("/")[1:]
            status = 404 if kind == "gone" else 0 if int(number) == BROKEN else 200
            if path not in pages and status == 200:
                found += links(int(number))
            pages.setdefault(path, status)
        level = [path for path in found if path.startswith(("/page/", "/gone/"))]
    return pages


@dataclass(frozen=True)
class Request:
    path: str
    at: float
    """Seconds, by a clock that is never set."""
    others: int
    """How many others were being answered."""


class Site:
    """``handler`` is for ``serving``. Remembers who asked for what, and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answering = 0
        self.requests: list[Request] = []
        self.fetched: Counter[str] = Counter()

    def handler(self, *args: Any) -> ProviderHandler:
        site = self

        class Handler(ProviderHandler):
            def do_GET(self) -> None:  # noqa: N802  the name that http.server looks for
                if self.path == "/robots.txt":
                    self.answer_text("User-agent: *\nDisallow: /private\n")
                    return
                times = site.begun(self.path)
                try:
                    status, slow = outcome(self.path, times)
                    end = time.monotonic() + slow
                    while time.monotonic() < end and not self.hung_up():
                        time.sleep(0.01)
                    self.answer_text(body(self.path), status)
                finally:
                    site.ended()

        return Handler(*args)

    def begun(self, path: str) -> int:
        """How often this page was asked for, this time included."""
        with self._lock:
            self.requests.append(Request(path, time.monotonic(), self._answering))
            self._answering += 1
            self.fetched[path] += 1
            return self.fetched[path]

    def ended(self) -> None:
        with self._lock:
            self._answering -= 1


def outcome(path: str, times: int) -> tuple[HTTPStatus, float]:
    """Of the request for this page that comes as the ``times``-th: its status, and how long it takes. Pure."""
    kind, number = path.split("/")[1], int(path.split("/")[2])
    if kind != "page":
        return HTTPStatus.NOT_FOUND, 0.0
    if number == BROKEN or (number % 5 == 1 and times == 1):
        return HTTPStatus.INTERNAL_SERVER_ERROR, 0.0
    return HTTPStatus.OK, SLOW_SECONDS if number % 4 == 0 else 0.02


def body(path: str) -> str:
    return "\n".join(f'<a href="{link}">more</a>' for link in links(int(path.split("/")[2])))
