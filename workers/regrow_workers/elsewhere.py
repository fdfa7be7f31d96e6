"""Signals without a handler here: is there a node whose code has one? Asked of Redis only when such a signal is met."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping

from regrow_signals import views
from regrow_signals.connection import Connection
from regrow_signals.keys import Keys
from regrow_workers.announced import LONGEST_TYPE, is_handled_by

__all__ = ["Elsewhere"]

LOOK_AGAIN = 1.0
"""Seconds for which a type that no node handled is not asked about again."""


class Elsewhere:
    """``nowhere`` are the types that are dealt with here, for the planner; ``look`` says of another one.

    The type in field ``keep`` of the start order is: the last life was left for it, and no node could take the agent.
    """

    def __init__(
        self, keys: Keys, order: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys = keys
        self._agent_type = order.get("type", "")
        self._kept = order.get("keep", "")
        self._nowhere: set[str] = {self._kept}
        self._clock = clock
        self._until = float("inf")

    @property
    def nowhere(self) -> Container[str]:
        if self._clock() >= self._until:
            self._nowhere, self._until = {self._kept}, float("inf")
        return self._nowhere

    def look(self, connection: Connection, signal_type: str) -> bool:
        """Whether a node that is up has a handler for it; if none has, it is ``nowhere`` for a while.

        Raises a StoreError when Redis cannot be asked.
        """
        if len(signal_type) <= LONGEST_TYPE:
            nodes = connection.command(views.node_ids(self._keys))
            answers = connection.pipeline([views.node_record(self._keys, node) for node in nodes])
            records: list[Mapping[str, str]] = [each for each in answers if isinstance(each, dict)]
            if is_handled_by(records, self._agent_type, signal_type):
                return True
        if self._until == float("inf"):
            self._until = self._clock() + LOOK_AGAIN
        self._nowhere.add(signal_type)
        return False
