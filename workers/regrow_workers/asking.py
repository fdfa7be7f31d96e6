"""Directives of questions and answers: ``Reply``, ``Ask``, ``Forward``; and what an agent that asked is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast, overload

from pydantic import BaseModel, ConfigDict

from regrow_signals.errors import BadInput, NotStrictJSON
from regrow_signals.finite import check_finite
from regrow_signals.ids import check_id, check_type
from regrow_signals.limits import Limits
from regrow_signals.reply_places import AGENT_REPLY, FAILED
from regrow_signals.signal import Payload, Signal
from regrow_signals.strict_json import dumps
from regrow_workers.directives import Directive, Emit
from regrow_workers.validation import one_line

__all__ = ["Ask", "Forward", "Replied", "Reply", "Unreplied"]

_PLACE_LENGTH: Final = 1024

# What was answered by newer code may say more.
_CONFIG = ConfigDict(extra="ignore")


class Replied(Payload, type=AGENT_REPLY):
    """The reply to an ``Ask`` of this agent. A subclass with a type of its own may narrow ``value``."""

    model_config = _CONFIG

    tag: str
    value: Any


class Unreplied(Payload, type=AGENT_REPLY + FAILED):
    """There will be no reply to an ``Ask``: the signal became a dead letter of whom it reached."""

    model_config = _CONFIG

    tag: str
    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reply(Directive):
    """Answer an ``ask``, in the same commit: ``Reply(value, to=ctx.reply_to)``, at once or signals later.

    ``value`` is a payload, a model, or plain JSON values. The first reply counts, later ones change nothing. ``to`` is
    text that a state may keep; where it is None (nobody asked) or no place any more, nothing is sent.
    """

    value: object
    to: str | None

    def __post_init__(self) -> None:
        to = cast("object", self.to)
        if to is not None and not (isinstance(to, str) and 0 < len(to) <= _PLACE_LENGTH):
            raise BadInput(f"Reply: to={to!r:.80} must be ctx.reply_to, or what a state kept of it")

    def value_json(self, limits: Limits) -> str:
        """The value as strict JSON; ``NotStrictJSON`` or ``TooLarge`` if it is not, or does not fit."""
        value, what = self.value, "the value of a Reply"
        if isinstance(value, BaseModel):
            check_finite(value, what)
            try:
                value = value.model_dump(mode="json", by_alias=True)
            except ValueError as error:
                raise NotStrictJSON(f"{what} is not strict JSON: {one_line(error)}") from None
        # It goes inside of an object, which is one level more.
        return dumps(value, max_bytes=limits.max_signal_bytes, max_depth=limits.max_json_depth - 1, what=what)

    def __hash__(self) -> int:
        return hash(self.to)


class Ask(Emit):
    """Ask another agent by a signal, never waiting: its ``Reply`` comes as a signal ``Replied`` with this ``tag``.

    ``reply``: the type of that signal, or a subclass of ``Replied``. If the question becomes a dead letter there,
    ``Unreplied`` comes (its type: the same and ``.failed``). Whether it takes too long is for a timer to tell.
    """

    __slots__ = ("reply", "tag")

    @overload
    def __init__(
        self,
        what: Payload | Signal,
        /,
        *,
        to: str,
        tag: str,
        reply: str | type[Replied] = ...,
        subject: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        what: str,
        data: object = None,
        /,
        *,
        to: str,
        tag: str,
        reply: str | type[Replied] = ...,
        subject: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        what: Any,
        data: object = None,
        /,
        *,
        to: str,
        tag: str,
        reply: str | type[Replied] = Replied,
        subject: str | None = None,
    ) -> None:
        super().__init__(what, data, to=to, subject=subject)
        name = reply if isinstance(reply, str) else reply.signal_type
        check_type(f"{name}{FAILED}", "Ask: reply")
        self.tag: Final = check_id(tag, "Ask: tag")
        self.reply: Final = name

    @property
    def asked(self) -> tuple[object, ...]:
        return *super().asked, self.tag, self.reply

    def __repr__(self) -> str:
        more = "" if self.reply == AGENT_REPLY else f", reply={self.reply!r}"
        return f"{super().__repr__()[:-1]}, tag={self.tag!r}{more})"


@dataclass(frozen=True, slots=True)
class Forward(Directive):
    """Hand the signal in hand on as it is: type, data, source, subject, and where its reply goes. One hop more."""

    to: str

    def __post_init__(self) -> None:
        check_id(self.to, "Forward: to")
