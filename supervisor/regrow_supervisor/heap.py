"""The collector of reference cycles, kept away from what the leader holds in memory for long."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["no_collections"]


@contextmanager
def no_collections() -> Generator[None, None, None]:
    """None while a large view is read; afterwards it counts as old: nobody looks for garbage among it again.

    What is frozen is still freed when nobody refers to it any more.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
