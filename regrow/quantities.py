"""Durations and sizes as text in the environment: ``"1.5s"``, ``"250ms"``, ``"2m"``, ``"512MiB"``; and back to text."""

from __future__ import annotations

import re
from typing import cast

from regrow_signals.durations import Duration, size_bytes, to_seconds

__all__ = ["bytes_of", "seconds_of", "show_bytes", "show_seconds"]

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.ASCII)


def seconds_of(value: object) -> float:
    """Seconds of a number, a timedelta or a text with a unit. Raises ValueError with the forms that are understood."""
    if isinstance(value, str):
        found = _QUANTITY.fullmatch(value.strip().lower())
        if found is None or found.group(2) not in _UNITS:
            raise ValueError("not a duration: give seconds, or a number with ms, s, m, h or d")
        value = float(found.group(1)) * _UNITS[found.group(2)]
    return to_seconds(cast("Duration", value), zero=True)


def bytes_of(value: object) -> int:
    """Bytes of a whole number or a text with a unit. Raises ValueError with the forms that are understood."""
    return size_bytes(cast("int | str", value))


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
