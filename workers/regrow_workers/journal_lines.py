"""A journal's lines: what of a signal is kept in one, and the signal that is read from it again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from regrow_signals.notices import NOTICE
from regrow_signals.signal import FIELDS
from regrow_workers.delivery import Delivery

__all__ = ["KEPT", "digest_of", "entry_of", "kept_signal"]

KEPT: Final = 16 * 1024
"""Characters of a signal in a journal. A larger one is not kept: its transition cannot be run again."""

_NAMED: Final = {"id": "signal", "type": "type", "source": "source", "data": "data"}
"""A signal's fields that every line has, by the names that they have there."""

_MORE: Final = (*(name for name in FIELDS if name not in _NAMED), NOTICE)
_PLAIN: Final = len(_NAMED) + 1
"""Fields of an entry that has nothing more: these, and `at_ms`."""


def kept_signal(delivery: Delivery) -> tuple[str, tuple[str, ...]]:
    """The data, empty if the signal is too large; and fields that only some signals have, names and values in turn."""
    fields, data = delivery.fields, delivery.data
    if len(fields) <= _PLAIN:
        return (data if len(data) <= KEPT else ""), ()
    more = [word for name in _MORE if isinstance(value := fields.get(name), str) for word in (name, value)]
    if len(data) + sum(map(len, more)) > KEPT:
        return "", ()
    return data, tuple(more)


def entry_of(line: Mapping[str, str]) -> Mapping[str, str] | None:
    """The mailbox entry that the line is about; None where its signal was too large to be kept."""
    if "data" not in line:
        return None
    fields = {name: line[kept] for name, kept in _NAMED.items() if line.get(kept)}
    fields |= {name: line[name] for name in _MORE if name in line}
    return fields | {"at_ms": line.get("at_ms", "")}


def digest_of(encoded: str) -> str:
    """Of a state. Short and fast: it finds a replay that came out otherwise, it guards against nobody."""
    return "%08x" % crc32(encoded.encode())  # noqa: UP031  for every signal: an f-string takes twice as long
