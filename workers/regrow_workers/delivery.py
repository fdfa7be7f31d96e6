"""``Delivery``: one accepted signal as a transition meets it: data still JSON text, the ``Signal`` made on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from regrow_signals.signal import Signal

__all__ = ["Delivery"]


class Delivery:
    """Type and data of a signal. ``data`` is JSON text; most handlers need the payload only, not the whole signal."""

    __slots__ = ("_fields", "_signal", "data", "type")

    def __init__(self, type_name: str, data: str, fields: Mapping[str, str]) -> None:
        self.type = type_name
        self.data = data
        self._fields = fields
        self._signal: Signal | None = None

    @classmethod
    def of(cls, signal: Signal) -> Self:
        made = cls(signal.type, signal.data, {})
        made._signal = signal
        return made

    def signal(self) -> Signal:
        """The whole signal; ``BadInput`` for an entry that is none."""
        if self._signal is None:
            self._signal = Signal.from_fields(self._fields)
        return self._signal
