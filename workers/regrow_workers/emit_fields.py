"""What every signal that a transition sends carries besides its type and data: who sent it, and what caused it."""

from __future__ import annotations

from typing import Final

from regrow_signals.limits import Limits
from regrow_workers.delivery import Delivery
from regrow_workers.directives import SignalDirective
from regrow_workers.trace_context import caused_trace

__all__ = ["OVERHEAD", "caused_fields", "signal_fields"]

OVERHEAD: Final = 200
"""Bytes of names, ids and lengths around an append's own content, about."""


def signal_fields(
    what: SignalDirective, signal_id: str, delivery: Delivery, limits: Limits
) -> dict[str, str]:
    """The mailbox entry of a signal that this agent sends because of ``delivery``, without ``at_ms``."""
    fields = caused_fields(signal_id, what.type, what.data_json(limits), delivery, limits)
    if what.subject is not None:
        fields["subject"] = what.subject
    if what.dataschema is not None:
        fields["dataschema"] = what.dataschema
    return fields | what.carried


def caused_fields(
    signal_id: str, type_name: str, data: str, delivery: Delivery, limits: Limits
) -> dict[str, str]:
    """The same of a signal that is told by its type and data alone."""
    given = delivery.fields
    fields = {"id": signal_id, "type": type_name, "source": delivery.addressee.agent, "data": data}
    fields |= caused_trace(given, f"{delivery.addressee.birth}:{delivery.entry}", signal_id)
    fields["causationid"] = delivery.id
    fields["hops"] = str(_hops(given.get("hops"), limits) + 1)
    return fields


def _hops(text: str | bytes | None, limits: Limits) -> int:
    """Hops made so far. What cannot be read counts as the most: a storm must not hide behind junk."""
    if text is None:
        return 0
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 6:
        return int(text)
    return limits.max_hops
