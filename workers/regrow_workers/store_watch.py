"""Waiting for Redis: how long until the next try, and one log line when it goes away and when it is back."""

from __future__ import annotations

import logging
import random

from regrow_workers import log

__all__ = ["StoreWatch"]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


class StoreWatch:
    """One per connection. Unknown is not dead: nobody gives up, and nobody floods the log."""

    def __init__(self, logger: logging.Logger, who: str) -> None:
        self._logger = logger
        self._who = who
        self._failures = 0

    @property
    def away(self) -> bool:
        return self._failures > 0

    def failed(self, error: Exception) -> float:
        """A call failed: seconds to wait before the next try, growing, with jitter for the fleet's sake."""
        if not self._failures:
            log.event(self._logger, "store_away", level=logging.WARNING, who=self._who, error=str(error))
        self._failures += 1
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10))
        return longest * (0.5 + random.random() / 2)

    def answered(self) -> None:
        """A call was answered."""
        if self._failures:
            log.event(self._logger, "store_back", who=self._who, failed_tries=self._failures)
            self._failures = 0
