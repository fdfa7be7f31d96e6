"""Signals that are sent meanwhile, and what becomes of each: an accepted one is applied, or a dead letter."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from regrow.client import Client
from regrow_signals.errors import FateUnknown, RegrowError, StoreError
from regrow_signals.mailbox import Receipt

__all__ = ["Traffic"]

PAUSE: Final = 0.2
"""Seconds between two rounds of asking."""


class Traffic(threading.Thread):
    """``messages`` in turn, ``rate`` of them a second, until it is told to end; it asks about each until that is final.

    A signal whose sending came to no answer may have been accepted or not: either is right, but not a third.
    """

    def __init__(
        self,
        open_client: Callable[[], Client],
        messages: Callable[[int], tuple[str, Any, object]],
        rate: float,
    ) -> None:
        """``messages``: agent, payload or type, and data of the signal of this number, from 1 on."""
        super().__init__(name="regrow-chaos-traffic", daemon=True)
        self._open_client = open_client
        self._messages = messages
        self._rate = rate
        self._mark = secrets.token_hex(4)
        self._open: list[tuple[Receipt, bool]] = []
        self._ending = threading.Event()
        self.accepted = 0
        self.refused = 0
        """Nothing was written, and the sender was told: the target was full, or Redis was away."""
        self.unanswered = 0
        self.applied: dict[str, int] = {}
        self.dead = 0
        self.lost: list[str] = []

    @property
    def waiting(self) -> list[str]:
        """Accepted ones that are neither applied nor dead, as far as was asked."""
        return [receipt.signal_id for receipt, sure in self._open if sure]

    def end(self) -> None:
        """No more are sent; what is open is asked about on."""
        self._ending.set()

    def run(self) -> None:
        number = 0
        began = time.monotonic()
        with self._open_client() as client:
            while not self._ending.is_set():
                number += 1
                self._send(client, number)
                if number % max(1, int(self._rate * PAUSE)) == 0:
                    self._ask(client)
                self._ending.wait(max(0.0, began + number / self._rate - time.monotonic()))

    def settle(self, client: Client) -> None:
        """Ask once about all that is open. After ``end``, by the thread that ended it."""
        self._ask(client)

    def _send(self, client: Client, number: int) -> None:
        agent, what, data = self._messages(number)
        try:
            receipt = client.send(agent, what, data, id=f"chaos-{self._mark}-{number}")
        except FateUnknown as error:
            self.unanswered += 1
            if isinstance(error.receipt, Receipt):
                self._open.append((error.receipt, False))
        except RegrowError:
            self.refused += 1
        else:
            self.accepted += 1
            self._open.append((receipt, True))

    def _ask(self, client: Client) -> None:
        still: list[tuple[Receipt, bool]] = []
        asked = 0
        try:
            for receipt, sure in self._open:
                status = client.status(receipt)
                asked += 1
                match status.state:
                    case "applied":
                        self.applied[receipt.agent] = self.applied.get(receipt.agent, 0) + 1
                    case "dead" | "dropped" | "retried":
                        self.dead += 1
                    case "unknown" if sure:
                        self.lost.append(receipt.signal_id)
                    case "unknown":
                        pass  # it never was accepted
                    case _:
                        still.append((receipt, sure))
        except StoreError:
            still += self._open[asked:]
        self._open = still
