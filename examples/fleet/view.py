"""The live view: one line a second, or on a terminal the same line again and again. Pure but for ``Line``."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

__all__ = ["Line", "Look"]

EVERY = 1.0


@dataclass(frozen=True)
class Look:
    """What is so at an instant."""

    at: float
    """Seconds since the beginning."""
    devices: int
    sent: int
    applied: int
    alarms: int
    kills: int
    restarts: int

    def text(self, before: Look | None) -> str:
        """With the rate since the look before."""
        seconds = self.at - (before.at if before else 0.0)
        applied = self.applied - (before.applied if before else 0)
        rate = applied / seconds if seconds > 0 else 0.0
        return (
            f"{self.at:5.1f} s  {self.devices:6,} devices  {self.applied:9,} applied  {rate:7,.0f}/s  "
            f"{max(0, self.sent - self.applied):6,} wait  {self.alarms:7,} alarms  "
            f"{self.kills:3} slots killed  {self.restarts:3} devices restarted"
        )


@dataclass
class Line:
    """Where it is shown."""

    _before: Look | None = None
    _next_at: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next_at

    def show(self, look: Look, *, last: bool = False) -> None:
        self._next_at = time.monotonic() + EVERY
        text = look.text(self._before)
        self._before = look
        if sys.stdout.isatty():
            print(f"\r{text}\033[K", end="\n" if last else "", flush=True)
        else:
            print(text, flush=True)
