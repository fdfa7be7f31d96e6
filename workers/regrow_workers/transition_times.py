"""How long transitions took, as counters of one batch: buckets, sum and count, added up in Redis by its commit."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import compress
from typing import Final

__all__ = ["BUCKETS", "TransitionTimes"]

BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds in seconds; one more bucket is ``+Inf``."""

_NAMES: Final = (*map(str, BUCKETS), "+Inf")


class TransitionTimes:
    """Each transition falls into one bucket; buckets are not cumulative."""

    def __init__(self) -> None:
        self._counts = [0] * len(_NAMES)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def counters(self, agent_type: str) -> dict[str, int]:
        """By the field's name in the counters hash; empty if nothing was added."""
        if not any(self._counts):
            return {}
        buckets, total, count = _fields(agent_type)
        counters = dict(zip(compress(buckets, self._counts), filter(None, self._counts), strict=True))
        counters[total] = round(self._seconds * 1_000_000)
        counters[count] = sum(self._counts)
        return counters


@lru_cache(maxsize=256)
def _fields(agent_type: str) -> tuple[tuple[str, ...], str, str]:
    """Of the buckets, the sum and the count."""
    kind = f"type={agent_type}"
    buckets = tuple(f"transition_seconds_bucket|{kind}|le={name}" for name in _NAMES)
    return buckets, f"transition_seconds_sum_us|{kind}", f"transition_seconds_count|{kind}"
