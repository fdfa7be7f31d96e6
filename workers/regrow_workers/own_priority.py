"""A worker whose node has lowered its priority for a long transition: afterwards it puts itself back.

Where the system does not allow that (it takes root, CAP_SYS_NICE or RLIMIT_NICE) a fresh process of the same life goes
on, so that no agent stays slow for one long transition.
"""

from __future__ import annotations

import os
from typing import Final

from regrow_workers.scheduling import raise_own
from regrow_workers.slots import Slot

__all__ = ["PRIORITY", "OwnPriority"]

PRIORITY: Final = "priority: lowered for a long transition"
"""Why a fresh process goes on."""


class OwnPriority:
    """Of one process, for its slot. ``restore`` is called when no handler runs, and costs nothing but a look."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._seen = slot.lowered
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self.is_low = False
        """Lowered, and not allowed to be otherwise."""

    def restore(self) -> None:
        lowered = self._slot.lowered
        if lowered != self._seen:
            self._seen = lowered
            self.is_low = not raise_own(self._nice)
