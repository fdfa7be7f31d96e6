"""How long to wait before an effect is tried again. Pure: the same try of the same effect always waits the same."""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["LONGEST_MS", "retry_delay_ms"]

LONGEST_MS: Final = 60_000
_SMALLEST_SHARE: Final = 0.5


def retry_delay_ms(effect_id: str, attempt: int, backoff_ms: int) -> int:
    """Milliseconds from the end of try ``attempt`` (1 is the first) to the next one.

    ``backoff_ms`` after the first try and twice as long each time, up to a minute (or to ``backoff_ms``, if that is
    longer); of that, half to all, drawn from the effect's id and the try, so that a thousand calls which failed
    together do not come back together.
    """
    doublings = min(max(attempt, 1) - 1, 30)
    whole = min(backoff_ms << doublings, max(LONGEST_MS, backoff_ms))
    share = _SMALLEST_SHARE + (1 - _SMALLEST_SHARE) * Random(f"{effect_id} {attempt}").random()
    return round(whole * share)
