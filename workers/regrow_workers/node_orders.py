"""The node's thread that reads its orders."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import StoreError
from regrow_signals.keys import Keys
from regrow_workers.inbox import Inbox
from regrow_workers.node_messages import NodeMessage, Order
from regrow_workers.store_watch import StoreWatch

__all__ = ["OrderReader"]

BLOCK_MS = 1000
COUNT = 200


class OrderReader(threading.Thread):
    """1. Reads ``{ns}:control:<node>`` after a cursor of its own and posts each order once; 2. trims what it posted.

    A node id is new for each run, so the cursor begins at 0 and lives in memory: an order is executed at most once, and
    those of a dead node by nobody.
    """

    def __init__(
        self, open_connection: Callable[[], Connection], keys: Keys, inbox: Inbox[NodeMessage]
    ) -> None:
        super().__init__(name="regrow-orders", daemon=True)
        self._open = open_connection
        self._keys = keys
        self._inbox = inbox
        self._node = ""
        self._ended = threading.Event()
        self._watch = StoreWatch(logging.getLogger(__name__), "orders")

    def follow(self, node: str) -> None:
        """Read the orders of this node id from their start. Called by the main thread."""
        self._node = node
        if not self.is_alive():
            self.start()

    def end(self) -> None:
        """No order is posted after the read in hand. The thread is a daemon: nobody waits for a blocking read."""
        self._ended.set()

    def run(self) -> None:
        connection = self._open()
        node, cursor = self._node, "0"
        while not self._ended.is_set():
            if node != self._node:
                node, cursor = self._node, "0"
            try:
                cursor = self._read(connection, node, cursor)
                self._watch.answered()
            except StoreError as error:
                self._ended.wait(self._watch.failed(error))
        connection.close()

    def _read(self, connection: Connection, node: str, cursor: str) -> str:
        key = self._keys.control(node)
        entries = connection.read_stream(key, cursor, count=COUNT, block_ms=BLOCK_MS)
        for entry, fields in entries:
            cursor = entry
            if not self._ended.is_set():
                self._inbox.post(Order(node, {name: _text(value) for name, value in fields.items()}))
        if entries:
            connection.command(Command(("XTRIM", key, "MINID", _following(cursor)), int))
        return cursor


def _following(entry: str) -> str:
    ms, _, seq = entry.partition("-")
    return f"{ms}-{int(seq) + 1}"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
