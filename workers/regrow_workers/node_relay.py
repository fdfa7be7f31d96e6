"""The node's thread that delivers held emits."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from regrow_signals import relay
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey, StoreError
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.store_watch import StoreWatch

__all__ = ["Relay"]

_LOG = logging.getLogger(__name__)
BUSY_PAUSE = 0.1
IDLE_PAUSE = 1.0


class Relay(threading.Thread):
    """Looks once a second at ``{ns}:held``, ten times while something is held. Any number of nodes may: each delivery
    is one script that keeps the order of emits for each target."""

    def __init__(self, open_connection: Callable[[], Connection], keys: Keys, limits: Limits) -> None:
        super().__init__(name="regrow-relay", daemon=True)
        self._open = open_connection
        self._keys = keys
        self._limits = limits
        self._unreadable: set[str] = set()
        self._ended = threading.Event()
        self._watch = StoreWatch(_LOG, "relay")

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        connection = self._open()
        pause = IDLE_PAUSE
        # Jitter: a hundred nodes that started together must not all look in the same instant.
        while not self._ended.wait(pause * (0.5 + random.random() / 2)):
            try:
                pause = BUSY_PAUSE if self.run_once(connection) else IDLE_PAUSE
                self._watch.answered()
            except StoreError as error:
                pause = max(IDLE_PAUSE, self._watch.failed(error))
        connection.close()

    def run_once(self, connection: Connection) -> int:
        """Deliver what has room now; returns how many senders still had something held when it began."""
        senders = connection.command(relay.held_agents(self._keys))
        for sender in senders:
            try:
                connection.call(relay.deliver_held(self._keys, self._limits, sender))
            except CorruptKey as error:
                # The others' emits go on; one line for each sender, not one for each look.
                if sender not in self._unreadable:
                    log.event(_LOG, "relay_refused", level=logging.ERROR, agent=sender, error=str(error))
                self._unreadable.add(sender)
        return len(senders)
