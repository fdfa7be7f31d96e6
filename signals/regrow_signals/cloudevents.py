"""CloudEvents 1.0's JSON format, both ways: what comes from and goes to systems that are not regrow."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from regrow_signals import strict_json
from regrow_signals.errors import BadInput
from regrow_signals.ids import check_id, check_type
from regrow_signals.limits import Limits
from regrow_signals.signal import OPTIONAL, Signal

__all__ = ["from_cloudevent", "to_cloudevent"]

_VERSION: Final = "1.0"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", re.ASCII)
_JSON_TYPE: Final = re.compile(r"[^/;]+/(?:json|[^/;]+\+json)\s*(?:;.*)?", re.IGNORECASE)


def to_cloudevent(signal: Signal) -> str:
    """The event as JSON text. Data that is null is left out; what regrow adds are extension attributes."""
    event: dict[str, object] = {
        "specversion": _VERSION,
        "id": signal.id,
        "source": signal.source,
        "type": signal.type,
    }
    event |= {name: value for name in OPTIONAL if (value := getattr(signal, name)) is not None}
    if signal.hops:
        event["hops"] = signal.hops
    event |= signal.extensions
    data = "" if signal.data == "null" else f',"{_data_name(signal)}":{signal.data}'
    return f"{strict_json.dumps(event)[:-1]}{data}}}"


def from_cloudevent(event: str | bytes | Mapping[str, Any], limits: Limits) -> Signal:
    """``Signal.from_cloudevent``: checked whole; nothing of it is lost but a null that was spelled out."""
    # What stands around the data: attributes, and the depth of the object itself.
    room = limits.max_signal_bytes + 64 * 1024
    depth = limits.max_json_depth + 1
    read: object = event
    if isinstance(event, str | bytes):
        read = strict_json.loads(
            event, max_bytes=2 * room, max_depth=depth, unique_keys=True, what="the event"
        )
    if not isinstance(read, Mapping):
        raise BadInput("the event is no JSON object (a batch is sent one by one)")
    members = cast("Mapping[str, Any]", read)
    given: dict[str, Any] = {name: value for name, value in members.items() if value is not None}
    version = given.pop("specversion", None)
    if version != _VERSION:
        raise BadInput(
            f"specversion of the event is {version!r:.40}: CloudEvents {_VERSION} is what is read here"
        )
    data, is_binary = _data(given, limits)
    known: dict[str, str] = {
        name: _text(given.pop(name), name) for name in ("id", "source", "type", *OPTIONAL) if name in given
    }
    missing = next((name for name in ("id", "source", "type") if name not in known), None)
    if missing:
        raise BadInput(f"the event has no {missing}, which CloudEvents requires")
    check_id(known["id"], "id of the event")
    check_type(known["type"], "type of the event")
    _check_forms(known)
    hops = given.pop("hops", 0)
    signal = Signal(**known, data=data, data_base64=is_binary, hops=_hops(hops), extensions=given)
    signal.check_attributes(limits)
    return signal


def _data_name(signal: Signal) -> str:
    return "data_base64" if signal.data_base64 else "data"


def _data(given: dict[str, Any], limits: Limits) -> tuple[str, bool]:
    """The data as JSON text, and whether it is binary. Both members are taken out."""
    what = "data of the event"
    encoded = given.pop("data_base64", None)
    is_binary = encoded is not None
    if is_binary and "data" in given:
        raise BadInput("the event has data and data_base64: it can have one of them")
    value = given.pop("data", None)
    if is_binary:
        value = encoded
        _check_base64(encoded)
    elif value is not None and not isinstance(value, str) and not _is_json(given.get("datacontenttype")):
        raise BadInput(f"{what} must be text, for its datacontenttype is not JSON")
    text = strict_json.dumps(
        value, max_bytes=limits.max_signal_bytes, max_depth=limits.max_json_depth, what=what
    )
    return text, is_binary


def _check_base64(encoded: object) -> None:
    try:
        b64decode(cast("str", encoded), validate=True)
    except (ValueError, TypeError):
        raise BadInput("data_base64 of the event is not Base64 (RFC 4648, with its padding)") from None


def _is_json(content_type: object) -> bool:
    return not isinstance(content_type, str) or _JSON_TYPE.fullmatch(content_type.strip()) is not None


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name} of the event is {value!r:.40}: it must be text")
    return value


def _check_forms(known: Mapping[str, str]) -> None:
    time, schema, content = known.get("time"), known.get("dataschema"), known.get("datacontenttype")
    if time is not None and not _is_time(time):
        raise BadInput(f"time of the event is {time!r:.60}: RFC 3339 has it as 2018-04-05T17:31:00Z")
    if schema is not None and not _ABSOLUTE.fullmatch(schema):
        raise BadInput(f"dataschema of the event is {schema!r:.60}: it must be an absolute URI")
    if content is not None and "/" not in content:
        raise BadInput(f"datacontenttype of the event is {content!r:.60}: it must be a media type")


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        # A leap second is none that datetime knows.
        return text[17:19] == "60"
    return True


def _hops(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"hops of the event is {value!r:.40}: regrow writes a whole number there")
    return value
