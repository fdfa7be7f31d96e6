"""W3C trace context: what a signal that is caused by another one has as its ``traceparent``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

__all__ = ["TRACE_FIELDS", "caused_trace"]

TRACE_FIELDS: Final = ("traceparent", "tracestate")

# Version 00 ends with its flags; a later one may go on, and is read as far as 00 goes. ff is forbidden, as are zeros.
_PARENT: Final = re.compile(
    r"(?:00-(?P<id>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
    r"|(?!ff|00)[0-9a-f]{2}-(?P<id2>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags2>[0-9a-f]{2})(?:-.*)?)"
)
_KNOWN_FLAGS: Final = 0x03
"""Sampled, and random trace id: others must not be handed on."""


def caused_trace(given: Mapping[str, str | bytes], cause: str, signal_id: str) -> dict[str, str]:
    """The trace of ``given`` goes on with a span of its own; where there is none, the cause is the root of a new one.

    ``cause`` and ``signal_id`` are the same whenever the cause is applied again, so the ids of trace and span are, too.
    """
    text = given.get("traceparent")
    found = _PARENT.fullmatch(text) if isinstance(text, str) else None
    span = blake2b(signal_id.encode(), digest_size=8).hexdigest()
    if found is None:
        return {"traceparent": f"00-{blake2b(cause.encode(), digest_size=16).hexdigest()}-{span}-00"}
    trace, flags = found["id"] or found["id2"], int(found["flags"] or found["flags2"], 16) & _KNOWN_FLAGS
    fields = {"traceparent": f"00-{trace}-{span}-{flags:02x}"}
    state = given.get("tracestate")
    if isinstance(state, str):
        fields["tracestate"] = state
    return fields
