"""When a worker's process is worn and gives its place to a fresh one: ``max_signals``, ``max_growth``.

It happens between two steps, inside one incarnation: the next process goes on with the same token. So nothing is
charged, no supervisor hears of it, and no brother is restarted for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from regrow_workers.memory_limit import own_bytes

__all__ = ["Wear"]

_LOOK_EVERY = 0.2


class Wear:
    """Of one process. ``is_spent`` is asked between two steps."""

    def __init__(self, order: Mapping[str, str]) -> None:
        self._max_signals = int(order.get("max_signals") or 0)
        self._max_growth = int(order.get("max_growth") or 0)
        self._first: int | None = None
        self._bytes = 0
        self._look_at = 0.0

    def is_spent(self, version: int) -> str:
        """Why this process is to be replaced, or ''. ``version``: of the agent's last commit."""
        if not (self._max_signals or self._max_growth):
            return ""
        if self._first is None:
            self._first, self._bytes = version, own_bytes()
            return ""
        if self._max_signals and version - self._first >= self._max_signals:
            return f"max_signals: {version - self._first}"
        if not self._max_growth or time.monotonic() < self._look_at:
            return ""
        self._look_at = time.monotonic() + _LOOK_EVERY
        grown = own_bytes() - self._bytes
        return f"max_growth: {grown} bytes" if grown >= self._max_growth else ""
