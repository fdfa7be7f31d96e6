"""Signals: CloudEvents 1.0 events whose data is strict JSON, and payloads, the typed form of their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NoReturn, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from regrow_signals import strict_json
from regrow_signals.errors import BadDefinition, BadInput, BadPayload, NotStrictJSON, TooLarge
from regrow_signals.extensions import (
    NO_EXTENSIONS,
    Extension,
    check_extensions,
    check_text,
    dump_extensions,
    load_extensions,
)
from regrow_signals.finite import check_finite
from regrow_signals.ids import check_id, check_type, new_id
from regrow_signals.limits import Limits

__all__ = ["FIELDS", "NOTICE", "SOURCE", "Payload", "Signal"]

SOURCE: Final = "regrow:client"
"""The source of a signal whose sender names none."""

OPTIONAL: Final = (
    "subject", "time", "datacontenttype", "dataschema", "traceparent", "tracestate", "causationid", "replyto",
)  # fmt: skip
FIELDS: Final = ("id", "type", "source", "data", *OPTIONAL, "hops", "data_base64", "extensions")
"""The mailbox fields that make a signal, ``at_ms`` apart."""

NOTICE: Final = "notice"
"""The mailbox field of what regrow itself sends: no part of a signal, so nobody else can make one."""

_KNOWN: Final = frozenset(FIELDS)

ATTRIBUTES: Final = frozenset({"specversion", *FIELDS}) - {"extensions"}
"""Names that no extension attribute can have."""


class Payload(BaseModel):
    """The data of one type of signal. Subclass with the type as class keyword; instances are frozen.

    >>> class TicketOpened(Payload, type="ticket.opened"):
    ...     subject: str
    >>> TicketOpened.signal_type
    'ticket.opened'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")

    signal_type: ClassVar[str] = ""

    def __init_subclass__(cls, *, type: str | None = None, **kwargs: Any) -> None:  # noqa: A002
        super().__init_subclass__(**kwargs)
        if type is not None:
            cls.signal_type = check_type(type, f"type of {cls.__name__}")

    def to_json(self, limits: Limits = Limits()) -> str:  # noqa: B008
        """The payload as strict JSON, bounded."""
        what = f"data of {self.signal_type or type(self).__name__}"
        check_finite(self, what)
        value = self.model_dump(mode="json", by_alias=True)
        return strict_json.dumps(
            value, max_bytes=limits.max_signal_bytes, max_depth=limits.max_json_depth, what=what
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The payload of a signal's data; ``BadPayload`` says in a line what does not fit."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise BadPayload(f"data does not fit {cls.__name__}: {_first_fault(error)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One CloudEvents 1.0 event. ``data`` is JSON text, checked where it came in; ``value`` reads it.

    ``data_base64``: the data is binary, a JSON string of its Base64. ``extensions`` are attributes that neither
    CloudEvents nor regrow knows; they stay with the signal.
    """

    id: str
    type: str
    source: str = SOURCE
    data: str = "null"
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    causationid: str | None = None
    replyto: str | None = None
    hops: int = 0
    data_base64: bool = False
    extensions: Mapping[str, Extension] = field(default_factory=lambda: NO_EXTENSIONS, hash=False)

    @classmethod
    def of(
        cls,
        what: Payload | str,
        data: object = None,
        *,
        id: str | None = None,  # noqa: A002
        source: str = SOURCE,
        subject: str | None = None,
        time: str | None = None,
        dataschema: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        causationid: str | None = None,
        replyto: str | None = None,
        hops: int = 0,
        extensions: Mapping[str, Extension] = NO_EXTENSIONS,
        limits: Limits = Limits(),  # noqa: B008
    ) -> Signal:
        """A checked signal of a payload, or of a type name and data. Everything wrong with it is found here."""
        if isinstance(what, Payload):
            if data is not None:
                raise BadInput("give a payload, or a type name and data, not both")
            if not what.signal_type:
                name = type(what).__name__
                raise BadDefinition(f"{name} names no signal type: class {name}(Payload, type='...')")
            kind, text = what.signal_type, what.to_json(limits)
        else:
            kind = check_type(what)
            text = strict_json.dumps(
                data,
                max_bytes=limits.max_signal_bytes,
                max_depth=limits.max_json_depth,
                what=f"data of {kind}",
            )
        signal = cls(
            id=new_id() if id is None else check_id(id, "signal id"),
            type=kind, source=source, data=text, subject=subject, time=time, dataschema=dataschema,
            traceparent=traceparent, tracestate=tracestate, causationid=causationid, replyto=replyto, hops=hops,
            extensions=extensions,
        )  # fmt: skip
        signal.check_attributes(limits)
        return signal

    def check_attributes(self, limits: Limits) -> None:
        """Attributes are short text, the source is not empty, and hops are in bounds."""
        for name in ("source", *OPTIONAL):
            value: object = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise BadInput(f"{name} of signal {self.id}: must be text that is not empty")
            check_text(value, f"{name} of signal {self.id}")
            if not value.isascii() and any("\ud800" <= mark <= "\udfff" for mark in value):
                raise NotStrictJSON(f"{name} of signal {self.id} holds a lone surrogate")
        if self.extensions:
            check_extensions(self.extensions, ATTRIBUTES)
            dump_extensions(self.extensions)
        if not 0 <= self.hops <= limits.max_hops:
            raise TooLarge(f"signal {self.id} has made {self.hops} hops; {limits.max_hops} is the bound")

    @property
    def value(self) -> Any:
        """The data, read."""
        return strict_json.loads(self.data, what=f"data of signal {self.id}")

    def with_id(self, new: str) -> Signal:
        """The same signal under another id."""
        return replace(self, id=check_id(new, "signal id"))

    def content_digest(self) -> str:
        """What makes two signals of one id the same: all but ids, times and traces."""
        content = [self.type, self.source, self.subject, self.dataschema, self.replyto, self.value]
        if carried := self.carried():
            content.append(carried)
        return strict_json.digest(content)

    def carried(self) -> dict[str, str]:
        """The fields that say how the data is to be read, and the extensions: they stay with it wherever it goes."""
        fields: dict[str, str] = {}
        if self.datacontenttype is not None:
            fields["datacontenttype"] = self.datacontenttype
        if self.data_base64:
            fields["data_base64"] = "1"
        if self.extensions:
            fields["extensions"] = dump_extensions(self.extensions)
        return fields

    def to_cloudevent(self) -> str:
        """The event as structured JSON (``application/cloudevents+json``), in CloudEvents' own names."""
        from regrow_signals.cloudevents import to_cloudevent  # needed at the borders of a system only

        return to_cloudevent(self)

    @classmethod
    def from_cloudevent(
        cls,
        event: str | bytes | Mapping[str, Any],
        *,
        limits: Limits = Limits(),  # noqa: B008
    ) -> Signal:
        """The signal of a structured JSON event. ``BadInput`` kinds say which attribute is wrong, and the rule."""
        from regrow_signals.cloudevents import from_cloudevent  # as above

        return from_cloudevent(event, limits)

    def to_fields(self) -> dict[str, str]:
        """The mailbox entry's fields, ``at_ms`` apart: absent attributes are left out."""
        fields = {"id": self.id, "type": self.type, "source": self.source, "data": self.data}
        for name in OPTIONAL:
            value: str | None = getattr(self, name)
            if value is not None:
                fields[name] = value
        if self.hops:
            fields["hops"] = str(self.hops)
        if self.data_base64 or self.extensions:
            fields |= self.carried()
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, str | bytes]) -> Signal:
        """The signal of a mailbox entry. ``BadInput`` for one that nobody of ours wrote; data is checked when read."""
        text: dict[str, Any] = {}
        for name, value in fields.items():
            if name in _KNOWN:
                text[name] = value if type(value) is str else _not_text(name)
        hops = text.pop("hops", "0")
        if hops != "0" and not (hops.isascii() and hops.isdigit() and len(hops) < 6):
            raise BadInput(f"field hops is {hops!r:.40}, not a small number")
        if not (text.get("id") and text.get("type") and text.get("data")):
            missing = next(name for name in ("id", "type", "data") if not text.get(name))
            raise BadInput(f"no field {missing} in the entry")
        if "data_base64" in text:
            text["data_base64"] = text["data_base64"] == "1"
        if "extensions" in text:
            text["extensions"] = load_extensions(text["extensions"])
        return cls(**text, hops=int(hops))


def _not_text(name: str) -> NoReturn:
    raise NotStrictJSON(f"field {name} is not UTF-8")


def _first_fault(error: ValidationError) -> str:
    """Where and what, without the input itself: it may be long, and it may be secret."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    first = faults[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {first['msg']}{more}" if place else f"{first['msg']}{more}"
