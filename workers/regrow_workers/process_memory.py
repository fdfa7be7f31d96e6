"""Memory of a worker's process: hundreds of them wait on one machine, so what a burst of work left is given back."""

from __future__ import annotations

import ctypes
import gc
import sys

__all__ = ["give_memory_back"]

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_memory_back() -> None:
    """Collect, and let glibc return its free pages to the kernel. Takes about a millisecond: call it when idle.

    What was frozen before the fork is not looked at, so the pages shared with the spawner stay shared.
    """
    gc.collect()
    if _TRIM is not None:
        _TRIM(0)
