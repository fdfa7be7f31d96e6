"""How long to wait before a restart: growing, capped, jittered, forgiven. Pure: the jitter comes from the names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

__all__ = ["delay_ms", "failures_before", "pause_ms"]

#: Exponents above this are capped long before; it keeps the float finite.
_LAST_STEP = 64

_FIRST_PAUSE_MS = 1000
_LONGEST_PAUSE_MS = 60_000


def delay_ms(backoff: Mapping[str, Any], failures: int, seed: str) -> int:
    """Milliseconds before restart number ``failures`` (1 is the first): between half and all of the full delay.

    The same seed gives the same jitter, so a decision repeated by a standby is the same decision.
    """
    full = float(backoff["first_ms"]) * float(backoff["factor"]) ** min(failures - 1, _LAST_STEP)
    full = min(full, float(backoff["longest_ms"]))
    digest = hashlib.blake2b(f"{seed}#{failures}".encode(), digest_size=4).digest()
    share = int.from_bytes(digest) / 0xFFFFFFFF
    return max(1, round(full * (0.5 + share / 2)))


def failures_before(backoff: Mapping[str, Any], failures: int, started_ms: int, now_ms: int) -> int:
    """What is left of the count when a life ends: none if it lived as long as the longest delay."""
    lived_long = started_ms > 0 and now_ms - started_ms >= int(backoff["longest_ms"])
    return 0 if lived_long else failures


def pause_ms(pause: Mapping[str, Any], pauses: int) -> int:
    """The root's pause number ``pauses`` (1 is the first): doubles up to the longest."""
    first = int(pause.get("first_ms", _FIRST_PAUSE_MS))
    longest = int(pause.get("longest_ms", _LONGEST_PAUSE_MS))
    return min(longest, first << min(pauses - 1, _LAST_STEP))
