"""Durations and sizes as people write them: ``1.5``, ``"1.5s"``, ``"250ms"``, ``"2m"``; ``65536``, ``"512MiB"``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

__all__ = ["bytes_of", "seconds_of", "show_bytes", "show_seconds"]

_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.ASCII)


def seconds_of(value: object) -> float:
    """Seconds of a number, a timedelta or a text with a unit. Raises ValueError with the forms that are understood."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _read(value, _SECONDS, "a duration: seconds, or a number with ms, s, m, h or d")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise ValueError("not a duration: give seconds, or a text such as '1.5s' or '2m'")  # noqa: TRY004  # pydantic takes no TypeError
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("must be a finite number of seconds, not negative")
    return seconds


def bytes_of(value: object) -> int:
    """Bytes of a whole number or a text with a unit. Raises ValueError with the forms that are understood."""
    if isinstance(value, str):
        size = _read(value, _BYTES, "a size: bytes, or a number with KiB, MiB or GiB")
    elif isinstance(value, int) and not isinstance(value, bool):
        size = float(value)
    else:
        raise ValueError("not a size: give bytes, or a text such as '512MiB'")  # noqa: TRY004  # pydantic takes no TypeError
    if size < 1 or size != int(size):
        raise ValueError("must be a whole number of bytes, at least 1")
    return int(size)


def _read(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or found.group(2) not in units:
        raise ValueError(f"not {what}")
    return float(found.group(1)) * units[found.group(2)]


def show_seconds(seconds: float) -> str:
    """``"1s"``, ``"250ms"``, ``"10m"``: text that ``seconds_of`` reads back."""
    if seconds and seconds < 1:
        return f"{seconds * 1000:g}ms"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    return f"{seconds:g}s"


def show_bytes(size: int) -> str:
    """``"512MiB"``: text that ``bytes_of`` reads back."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
