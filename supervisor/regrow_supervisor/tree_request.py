"""Handing our own tree in: once per life of this process, as a request like any other.

It is handed in again, for the case that Redis lost it, at a takeover and after a restart of Redis; then it counts only
where no root of its name is on record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from regrow_signals import leadership
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import Refused
from regrow_signals.ids import new_id
from regrow_signals.keys import Keys

__all__ = ["TreeRequest"]


class TreeRequest:
    """The tree is handed in until it was taken, then its answer is fetched and said, once.

    The request's id is made here, before the first try: handing it in again after an unknown fate is harmless.
    """

    def __init__(
        self, keys: Keys, name: str, definition: Mapping[str, Any], say: Callable[[str], None]
    ) -> None:
        self._keys = keys
        self.name = name
        self._fields = {"name": name, "definition": json.dumps(definition)}
        self._say = say
        self._request = new_id()
        self._handed_in = False
        self.answered = False

    def step(self, connection: Connection) -> None:
        """Go on with whatever is open; raises a StoreError when Redis cannot be asked."""
        if self.answered:
            return
        if not self._handed_in:
            try:
                connection.call(leadership.request(self._keys, self._request, "tree", self._fields))
            except Refused as refusal:  # too many requests wait; the next step tries again
                self._say(f"tree not handed in yet: {refusal}")
                return
            self._handed_in = True
        answer = connection.command(
            Command(("LPOP", self._keys.reply(self._request)), _text, repeatable=False)
        )
        if answer is not None:
            self.answered = True
            for line in _lines(answer):
                self._say(line)

    def again(self) -> None:
        """Redis may have lost the request, or the tree itself: hand it in again, once answered only for that case."""
        self._handed_in = False
        if self.answered:
            self.answered = False
            self._request = new_id()
            self._fields["absent"] = "1"


def _text(reply: Any) -> str | None:
    if reply is None:
        return None
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)


def _lines(answer: str) -> list[str]:
    found = cast("dict[str, Any]", json.loads(answer))
    if "error" in found:
        return [f"tree refused: {found['message']}"]
    said: Any = found.get("ok")
    if not isinstance(said, list):
        return [str(said)]
    return [str(line) for line in said]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
