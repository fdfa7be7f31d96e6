"""Cron expressions: five fields or an alias such as ``@daily``, in a time zone; when they are due. Pure.

Daylight saving follows Debian's cron, as ``cronsim`` does it. An expression of fixed hours that falls into the hour
that is left out is due at its end (02:30 becomes 03:00), once; in the hour that comes twice it is due in the first.
One whose minutes or hours begin with ``*`` goes by elapsed time: it is due in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from regrow_signals.errors import BadInput

__all__ = ["CronExpression", "parse_cron"]

ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST: Final = 200
_SOME_DAY: Final = 1_577_836_800_000
"""2020-01-01: an expression that is due at all is due in the fifty years after it."""


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A checked expression; instants are milliseconds since 1970, as Redis's clock gives them."""

    fields: str
    zone: ZoneInfo

    def after(self, ms: int) -> int:
        """The first instant after ``ms`` at which it is due."""
        return next(self.ticks(ms))

    def ticks(self, ms: int) -> Iterator[int]:
        """All instants after ``ms``, in order."""
        last = ms
        for due in CronSim(self.fields, self._time(ms)):
            tick = _ms(due)
            # In the hour that comes twice cronsim may name the first one again.
            if tick > last:
                last = tick
                yield tick
        raise BadInput(f"cron expression {self.fields!r} is never due")

    def before(self, ms: int, count: int) -> int:
        """The ``count``-th last instant that is not after ``ms``."""
        back = CronSim(self.fields, self._time(ms + 1000), reverse=True)
        found = ms
        for due in back:
            tick = _ms(due)
            if tick <= ms:
                found, count = tick, count - 1
            if count == 0:
                break
        return found

    def _time(self, ms: int) -> datetime:
        try:
            return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self.zone)
        except (ValueError, OverflowError, OSError):
            raise BadInput(f"{ms} ms is no time of this calendar") from None


@lru_cache(maxsize=1000)
def parse_cron(text: str, tz: str = "UTC") -> CronExpression:
    """The expression, or ``BadInput`` that names what is wrong with it or with the time zone."""
    shown = f"cron expression {text!r:.220}"
    if not isinstance(text, str) or len(text) > _LONGEST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput(f"{shown}: give five fields, such as '30 7 * * 1-5', or an alias such as '@daily'")
    fields = " ".join(ALIASES.get(text.strip().lower(), text).split())
    if fields.startswith("@"):
        raise BadInput(f"{shown}: no such alias; there are {', '.join(ALIASES)}")
    if fields.count(" ") != 4:
        raise BadInput(
            f"{shown}: has {len(fields.split())} fields, not five: minute, hour, day of month, month, day of week"
        )
    expression = CronExpression(fields, _zone(tz))
    try:
        expression.after(_SOME_DAY)
    except CronSimError as error:
        raise BadInput(f"{shown}: {error}") from None
    return expression


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise BadInput(f"tz={tz!r:.80} is no time zone; give a name such as 'Europe/Berlin'") from None


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
