"""``Delivery``: one accepted signal as a transition meets it: data as JSON text, the rest made on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from regrow_signals.ids import check_type
from regrow_signals.signal import FIELDS, Signal
from regrow_signals.strict_json import check
from regrow_workers.context import Context

__all__ = ["Addressee", "Delivery"]


class Addressee(NamedTuple):
    """Whom a signal is for: an agent, the birth of this registration of it, its supervisor, its parent or empty."""

    agent: str
    birth: str
    supervisor: str = ""
    parent: str = ""


class Delivery:
    """``fields`` are a mailbox entry's. Most handlers need the payload only, so nothing else is made beforehand."""

    __slots__ = ("_context", "_signal", "addressee", "data", "entry", "fields", "id", "type")

    def __init__(self, addressee: Addressee, entry: str, fields: Mapping[str, str | bytes]) -> None:
        """``fields`` have an id, a type and data as text."""
        self.addressee = addressee
        self.entry = entry
        self.fields = fields
        text: Mapping[str, Any] = fields
        self.id: str = text["id"]
        self.type: str = text["type"]
        self.data: str = text["data"]
        self._signal: Signal | None = None
        self._context: Context | None = None

    @classmethod
    def example(cls, signal: Signal, context: Context) -> Delivery:
        """A delivery outside of any mailbox, for ``cmd`` and ``transition.apply``."""
        made = cls(Addressee(context.agent_id, "", "", context.parent or ""), "", signal.to_fields())
        made._signal = signal
        made._context = context
        return made

    @property
    def source(self) -> str:
        """The sender's name; empty where the entry says none."""
        source = self.fields.get("source", "")
        return source if isinstance(source, str) else ""

    @property
    def at_ms(self) -> int:
        """The time of acceptance by the clock of Redis: the entry's own, else that of its id."""
        text = self.fields.get("at_ms")
        if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 16:
            return int(text)
        return int(self.entry.partition("-")[0])

    def rewritten(self, signal: Signal) -> Delivery:
        """The same with another signal in its place: what middleware makes of it. The context's chance goes on."""
        kept = {name: value for name, value in self.fields.items() if name not in FIELDS}
        made = Delivery(self.addressee, self.entry, {**kept, **signal.to_fields()})
        made._signal = signal
        made._context = self.context().of_signal(signal)
        return made

    def signal(self) -> Signal:
        """The whole signal; ``BadInput`` for an entry that is none."""
        if self._signal is None:
            check_type(self.type)
            check(self.data)
            self._signal = Signal.from_fields(self.fields)
        return self._signal

    def context(self) -> Context:
        """The handler's context, the same whenever the signal is replayed."""
        if self._context is None:
            replyto = self.fields.get("replyto")
            self._context = Context(
                self.addressee.agent,
                self.signal,
                at_ms=self.at_ms,
                seed=f"{self.addressee.birth}:{self.entry}",
                parent=self.addressee.parent or None,
                reply_to=replyto if isinstance(replyto, str) else None,
            )
        return self._context
