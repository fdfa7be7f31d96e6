"""Durations and sizes as people write them, as the whole milliseconds and bytes that Redis holds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, cast

from regrow_signals.errors import BadSetting

__all__ = ["Duration", "size_bytes", "to_ms", "to_seconds"]

Duration = float | timedelta

MAX_SECONDS: Final = 10 * 365 * 86_400.0
UNITS: Final = {
    "": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def to_seconds(value: Duration, what: str = "duration", *, zero: bool = False) -> float:
    """Seconds of a number of seconds or a ``timedelta``; must be positive (``zero``: or 0), and at most ten years."""
    given = cast("object", value)
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given)
    else:
        raise BadSetting(f"{what}={given!r}: give seconds or a timedelta")
    if not math.isfinite(seconds) or seconds < 0 or seconds > MAX_SECONDS or (seconds == 0 and not zero):
        least = "0 or more" if zero else "more than 0"
        raise BadSetting(f"{what}={given!r}: must be {least} seconds, and at most ten years")
    return seconds


def to_ms(value: Duration, what: str = "duration", *, zero: bool = False) -> int:
    """Whole milliseconds, rounded up: a positive duration never becomes 0."""
    return math.ceil(round(to_seconds(value, what, zero=zero) * 1000, 6))


def size_bytes(value: int | str, what: str = "size") -> int:
    """Bytes of a whole number or of text such as ``"256MiB"``, ``"64 kB"``; must be at least 1."""
    given = cast("object", value)
    if isinstance(given, str):
        match = _SIZE.fullmatch(given)
        unit = UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise BadSetting(f'{what}={given!r}: give bytes, or a size such as "256MiB"')
        size = int(float(match[1]) * unit)
    elif isinstance(given, int) and not isinstance(given, bool):
        size = given
    else:
        raise BadSetting(f'{what}={given!r}: give bytes, or a size such as "256MiB"')
    if size < 1:
        raise BadSetting(f"{what}={given!r}: must be at least 1 byte")
    return size
