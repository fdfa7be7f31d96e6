"""A time limit for a call in the main thread, by the kernel's interval timer."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TimeLimitExceeded", "time_limit"]


class TimeLimitExceeded(BaseException):
    """Not an ``Exception``: a function that retries on any of those must not swallow its own time limit."""


@contextmanager
def time_limit(seconds: float) -> Generator[None, None, None]:
    """Raise ``TimeLimitExceeded`` in the block after ``seconds``. Main thread only; uses SIGALRM.

    Native code that does not return, and code that catches everything, go on: somebody outside has to end those.
    """
    armed = True

    def ring(number: int, frame: FrameType | None) -> None:
        del number, frame
        if armed:
            raise TimeLimitExceeded

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
