"""Timers as directives: ``Schedule`` once, ``Cron`` again and again, ``Cancel`` by tag. Carried out by the commit."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final, get_args, overload

from regrow_signals.cron import parse_cron
from regrow_signals.due_timers import Missed
from regrow_signals.durations import Duration, to_ms
from regrow_signals.errors import BadInput
from regrow_signals.ids import check_id, check_tag
from regrow_signals.signal import Payload, Signal
from regrow_workers.directives import Directive, SignalDirective

__all__ = ["Cancel", "Cron", "Schedule", "TimerDirective"]


class TimerDirective(SignalDirective):
    """What sends a signal later. ``tag`` names the timer among those of its agent; ``to`` None: to the agent itself."""

    __slots__ = ("tag", "to")
    recurs: ClassVar[bool] = False
    """Then it has a tag in any case, so that it can be cancelled."""

    def __init__(
        self, what: object, data: object, subject: str | None, tag: str | None, to: str | None
    ) -> None:
        super().__init__(what, data, subject)
        name = self.__class__.__name__
        if tag is None and self.recurs:
            tag = self.type
        self.tag: Final = None if tag is None else check_tag(tag, f"{name}: tag")
        self.to: Final = None if to is None else check_id(to, f"{name}: to")

    @property
    def asked(self) -> tuple[object, ...]:
        return *super().asked, self.tag, self.to

    def options(self, *options: tuple[str, object]) -> str:
        """``after=5.0, tag='t'``: those that are given."""
        given = (*options, ("tag", self.tag), ("to", self.to), ("subject", self.subject))
        return ", ".join(f"{name}={value!r}" for name, value in given if value is not None)


class Schedule(TimerDirective):
    """Send a signal once, ``after`` seconds (from the commit on) or ``at`` a time: to itself, or ``to`` another agent.

    ``Schedule(PaymentOverdue(order="o-1"), after=3600, tag="overdue")``. A second one with the same tag takes the place
    of the first; ``Cancel("overdue")`` takes it away. The signal's ``time`` is the time it was due.
    """

    __slots__ = ("after_ms", "at_ms")

    @overload
    def __init__(
        self, what: Payload | Signal, /, *, after: Duration | None = None, at: datetime | None = None,
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, what: str, data: object = None, /, *, after: Duration | None = None, at: datetime | None = None,
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, what: object, data: object = None, /, *, after: Duration | None = None, at: datetime | None = None,
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(what, data, subject, tag, to)
        if (after is None) == (at is None):
            raise BadInput("Schedule: give either after= (seconds or a timedelta) or at= (a datetime)")
        self.after_ms: Final = None if after is None else to_ms(after, "Schedule: after", zero=True)
        self.at_ms: Final = None if at is None else _instant(at)

    @property
    def asked(self) -> tuple[object, ...]:
        return *super().asked, self.after_ms, self.at_ms

    def __repr__(self) -> str:
        after = None if self.after_ms is None else self.after_ms / 1000
        return f"Schedule({self.shown}, {self.options(('after', after), ('at_ms', self.at_ms))})"


class Cron(TimerDirective):
    """Send a signal each time that a cron expression is due in time zone ``tz``, until it is cancelled.

    ``Cron("30 7 * * 1-5", ReportDue(), tz="Europe/Berlin")``. ``missed`` says what becomes of ticks for which nobody
    was there: ``skip``, ``one`` for all of them, or ``all``. Its tag is the signal's type unless one is given.
    """

    __slots__ = ("expression", "missed", "tz")
    recurs = True

    @overload
    def __init__(
        self, expression: str, what: Payload | Signal, /, *, tz: str = "UTC", missed: Missed = "skip",
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, expression: str, what: str, data: object = None, /, *, tz: str = "UTC", missed: Missed = "skip",
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, expression: str, what: object, data: object = None, /, *, tz: str = "UTC", missed: Missed = "skip",
        tag: str | None = None, to: str | None = None, subject: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(what, data, subject, tag, to)
        parse_cron(expression, tz)
        if missed not in get_args(Missed):
            raise BadInput(f"Cron: missed={missed!r:.40} is none of {', '.join(get_args(Missed))}")
        self.expression: Final = expression
        self.tz: Final = tz
        self.missed: Final[Missed] = missed

    @property
    def asked(self) -> tuple[object, ...]:
        return *super().asked, self.expression, self.tz, self.missed

    def __repr__(self) -> str:
        options = self.options(("tz", self.tz), ("missed", self.missed))
        return f"Cron({self.expression!r}, {self.shown}, {options})"


class Cancel(Directive):
    """Take away the timer of this tag that this agent set; nothing happens if there is none.

    A signal that it has already sent stays in the mailbox.
    """

    __slots__ = ("tag",)

    def __init__(self, tag: str) -> None:
        self.tag: Final = check_tag(tag, "Cancel: tag")

    def __eq__(self, other: object) -> bool:
        return self.tag == other.tag if isinstance(other, Cancel) else NotImplemented

    def __hash__(self) -> int:
        return hash((Cancel, self.tag))

    def __repr__(self) -> str:
        return f"Cancel({self.tag!r})"


def _instant(at: object) -> int:
    if not isinstance(at, datetime):
        raise BadInput(f"Schedule: at={at!r:.80} must be a datetime with a time zone")
    if at.utcoffset() is None:
        raise BadInput(
            f"Schedule: at={at.isoformat()} has no time zone: datetime(..., tzinfo=ZoneInfo('Europe/Berlin')), "
            "or ctx.now + timedelta(...)"
        )
    ms = round(at.timestamp() * 1000)
    return max(0, ms)
