"""Directives: what a transition wants done in the world, as values. Nothing here acts; a commit carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, overload

from pydantic_core import PydanticSerializationError

from regrow_signals.errors import BadInput, NotStrictJSON
from regrow_signals.finite import check_finite
from regrow_signals.ids import check_id, check_tag, check_type
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from regrow_signals.strict_json import dumps, loads
from regrow_workers.validation import one_line

__all__ = ["CancelEffect", "Directive", "EffectRun", "Emit", "SignalDirective", "Stop", "check_reason"]

_REASON_LENGTH: Final = 200
_ATTRIBUTE: Final = 1024
_LIMITS: Final = Limits()


class Directive:
    """The root of all directives. Two are equal when they ask for the same."""

    __slots__ = ()


class SignalDirective(Directive):
    """A directive that sends a signal: what its type, data, subject and schema are, given as ``Emit`` takes them."""

    __slots__ = ("_what", "dataschema", "subject", "type")

    def __init__(self, what: object, data: object, subject: str | None) -> None:
        name = self.__class__.__name__
        dataschema: str | None = None
        if isinstance(what, Signal):
            kind, subject, dataschema = what.type, subject or what.subject, what.dataschema
        elif isinstance(what, Payload):
            kind = what.signal_type
            if not kind:
                payload = type(what).__name__
                raise BadInput(
                    f"{name}: {payload} names no signal type: class {payload}(Payload, type='...')"
                )
        elif isinstance(what, str):
            kind, what = check_type(what, f"{name}: type"), _Value(data)
        else:
            raise BadInput(
                f"{name}: give a Payload, a Signal, or a type and data, not a {type(what).__name__}"
            )
        if data is not None and not isinstance(what, _Value):
            raise BadInput(f"{name}: give a payload, or a type name and data, not both")
        self.type: Final = kind
        self.subject: Final = subject if subject is None else self._attribute("subject", subject)
        self.dataschema: Final = dataschema
        self._what: Final[Payload | Signal | _Value] = what

    def _attribute(self, name: str, text: object) -> str:
        if not (isinstance(text, str) and 0 < len(text) <= _ATTRIBUTE):
            raise BadInput(f"{type(self).__name__}: {name} must be text of 1 to {_ATTRIBUTE} characters")
        return text

    @property
    def data(self) -> Any:
        """The data as plain JSON values."""
        return loads(self.data_json(_LIMITS))

    def data_json(self, limits: Limits) -> str:
        """The data as strict JSON; ``NotStrictJSON`` or ``TooLarge`` if it is not, or does not fit."""
        if isinstance(self._what, _Value):
            return dumps(
                self._what.value,
                max_bytes=limits.max_signal_bytes,
                max_depth=limits.max_json_depth,
                what=f"data of {self.type}",
            )
        if isinstance(self._what, Signal):
            return self._what.data
        check_finite(self._what, f"data of {self.type}")
        try:
            return self._what.to_json(limits)
        except PydanticSerializationError as error:
            raise NotStrictJSON(f"data of {self.type} is not strict JSON: {one_line(error)}") from None

    @property
    def asked(self) -> tuple[object, ...]:
        """All but the data: what two equal directives agree in."""
        return self.type, self.subject, self.dataschema, *sorted(self.carried.items())

    @property
    def carried(self) -> dict[str, str]:
        """What stays with the data of a whole signal: how it is to be read, and extension attributes."""
        return self._what.carried() if isinstance(self._what, Signal) else {}

    @property
    def shown(self) -> str:
        """What is sent, as it would be written."""
        return repr(self._what) if isinstance(self._what, Payload) else f"{self.type!r}, {self.data!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SignalDirective) or type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._what, other._what
        return self.asked == other.asked and (
            (type(mine) is type(theirs) and mine == theirs) or self.data == other.data
        )

    def __hash__(self) -> int:
        return hash(self.asked)


class Emit(SignalDirective):
    """Send a signal to another agent, in the same commit as the new state; without ``to``, to all who subscribe to it.

    ``Emit(InvoiceDue(subject="x"), to="billing")``, ``Emit("invoice.due", {"subject": "x"}, to="billing")``, or a
    whole ``Signal``, whose type, data, subject, schema and extensions are taken; its id, source and time are new.
    ``reply_to``: where a ``Reply`` of the other agent goes; ``ctx.reply_to`` leaves the answer to it.
    """

    __slots__ = ("reply_to", "to")

    @overload
    def __init__(
        self,
        what: Payload | Signal,
        /,
        *,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        what: str,
        data: object = None,
        /,
        *,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        what: object,
        data: object = None,
        /,
        *,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
    ) -> None:
        self.to: Final = None if to is None else check_id(to, f"{type(self).__name__}: to")
        super().__init__(what, data, subject)
        self.reply_to: Final = reply_to if reply_to is None else self._attribute("reply_to", reply_to)

    @property
    def asked(self) -> tuple[object, ...]:
        return *super().asked, self.to, self.reply_to

    def __repr__(self) -> str:
        given = (("to", self.to), ("subject", self.subject), ("reply_to", self.reply_to))
        extra = "".join(f", {name}={text!r}" for name, text in given if text is not None)
        return f"{type(self).__name__}({self.shown}{extra})"


@dataclass(frozen=True, slots=True)
class _Value:
    """Data given beside a type name, not yet looked at."""

    value: object


@dataclass(frozen=True, slots=True)
class Stop(Directive):
    """End this incarnation after the commit. ``normal``, ``shutdown`` and ``shutdown:<text>`` are expected ends.

    Any other reason is an abnormal end, as in OTP: a transient child is started again after it.
    """

    reason: str = "normal"

    def __post_init__(self) -> None:
        check_reason("Stop", self.reason)


def check_reason(who: str, given: str) -> None:
    """``BadInput`` unless it can stand in a record and an event as the reason of an end."""
    reason = cast("object", given)
    if not isinstance(reason, str) or not reason.strip() or len(reason) > _REASON_LENGTH:
        raise BadInput(f"{who}: reason={reason!r:.80} must be text of 1 to {_REASON_LENGTH} characters")
    if not reason.isprintable():
        raise BadInput(f"{who}: reason={reason!r:.80} must be one printable line")


@dataclass(frozen=True, slots=True)
class EffectRun(Directive):
    """Run a registered effect after the commit, at least once, under a stable id. Made by ``effect.run(...)``."""

    name: str
    args: dict[str, Any]
    """The arguments by name, as plain JSON values."""
    timeout_ms: int = field(default=60_000, compare=False)
    retries: int = field(default=3, compare=False)
    idempotent: bool = field(default=True, compare=False)
    backoff_ms: int = field(default=1_000, compare=False)
    awaited: bool = field(default=False, compare=False)
    tag: str | None = None
    """What ``CancelEffect`` knows it by; any number of runs of an agent may have the same."""

    def tagged(self, tag: str) -> EffectRun:
        """The same run under a tag: ``charge.run(...).tagged("order-7")``. ``BadInput`` if it can be none."""
        return replace(self, tag=check_tag(tag, f"{self.name}: tag"))

    def args_json(self, limits: Limits) -> str:
        """The arguments as strict JSON; ``NotStrictJSON`` or ``TooLarge`` if they are not, or do not fit."""
        return dumps(
            self.args,
            max_bytes=limits.max_signal_bytes,
            max_depth=limits.max_json_depth,
            what=f"arguments of effect {self.name}",
        )

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.args), self.tag))


@dataclass(frozen=True, slots=True)
class CancelEffect(Directive):
    """Cancel the effects of this tag that this agent has ordered; nothing happens if there are none.

    ``name``: of this effect alone, as ``charge.cancel(tag=...)`` says it. Each of them is told as ``charge.cancelled``,
    unless its call comes to its own end first.
    """

    tag: str
    name: str | None = None

    def __post_init__(self) -> None:
        check_tag(self.tag, "CancelEffect: tag")
