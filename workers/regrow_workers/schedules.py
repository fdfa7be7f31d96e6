"""``@every`` and ``@cron``: methods that are called again and again, by timers that their class declares.

An agent has these timers from its registration on, whether a process runs it or not, and for as long as its class
declares them: ``schedule_installer.py`` of the watchdog puts in force what the tree in force says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload

from pydantic import ValidationError

from regrow_signals.due_timers import Missed
from regrow_signals.durations import Duration, to_ms
from regrow_signals.errors import BadDefinition, BadInput
from regrow_signals.schedules import DeclaredTimer
from regrow_signals.signal import Payload, Signal
from regrow_workers.directives import Directive
from regrow_workers.handlers import Handles, marks_of
from regrow_workers.state import State
from regrow_workers.step import Step
from regrow_workers.timers import Cancel, TimerDirective

__all__ = ["Scheduled", "cron", "every", "refuse_declared", "schedules_of", "stored_schedules"]

A = TypeVar("A")
S = TypeVar("S", bound=State)
P = TypeVar("P")
Q = ParamSpec("Q")
P1 = TypeVar("P1", bound=Payload)

_MARK: Final = "__regrow_schedules__"


@dataclass(frozen=True, slots=True)
class Scheduled(Generic[P]):
    """The decorator that ``every(...)`` and ``cron(...)`` return; ``P`` is what the method's second parameter takes."""

    timer: DeclaredTimer
    what: type[Payload] | None

    def __call__(
        self, handler: Callable[Concatenate[A, S, P, Q], Step[S]], /
    ) -> Callable[Concatenate[A, S, P, Q], Step[S]]:
        name: str = getattr(handler, "__name__", "?")
        shown = f"@{self.timer.kind} on {getattr(handler, '__qualname__', name)}()"
        kind = self._type(name, shown)
        timer = replace(self.timer, tag=self.timer.tag or name, type=kind, data=self._data(shown))
        try:
            timer.checked()
        except BadInput as error:
            raise BadDefinition(f"{shown}: {error}") from None
        what = self.what or kind
        handles: Handles[P] = Handles((what,))
        marked = handler if what in marks_of(handler) else handles(handler)
        setattr(cast("Any", marked), _MARK, (timer, *_marked(marked)))
        return marked

    def _type(self, name: str, shown: str) -> str:
        if self.what is None:
            return f"timer.{name}"
        if not self.what.signal_type:
            payload = self.what.__name__
            raise BadDefinition(
                f"{shown}: {payload} names no signal type: class {payload}(Payload, type='...')"
            )
        return self.what.signal_type

    def _data(self, shown: str) -> str:
        if self.what is None:
            return "null"
        try:
            return self.what().to_json()
        except ValidationError:
            raise BadDefinition(
                f"{shown}: {self.what.__name__} has fields without a default; a timer cannot know what to put there"
            ) from None


@overload
def every(period: Duration, /, *, missed: Missed = "skip", tag: str | None = None) -> Scheduled[Signal]: ...
@overload
def every(
    period: Duration, what: type[P1], /, *, missed: Missed = "skip", tag: str | None = None
) -> Scheduled[P1]: ...
def every(
    period: Duration, what: type[Payload] | None = None, /, *, missed: Missed = "skip", tag: str | None = None
) -> Scheduled[Any]:
    """Call the method every ``period`` (seconds or a timedelta), the first time one period after the registration.

    ``@every(30)`` over ``def poll(self, state, signal: Signal)``: a signal of type ``timer.poll``, whose ``time`` is
    the due time. ``@every(30, PollDue)`` sends a ``PollDue()``. The timer's tag is the method's name.
    """
    try:
        timer = DeclaredTimer(
            tag=tag or "", kind="every", type="", missed=missed, every_ms=to_ms(period, "@every")
        )
    except BadInput as error:
        raise BadDefinition(str(error)) from None
    return Scheduled(timer, what)


@overload
def cron(
    expression: str, /, *, tz: str = "UTC", missed: Missed = "skip", tag: str | None = None
) -> Scheduled[Signal]: ...
@overload
def cron(
    expression: str, what: type[P1], /, *, tz: str = "UTC", missed: Missed = "skip", tag: str | None = None
) -> Scheduled[P1]: ...
def cron(
    expression: str,
    what: type[Payload] | None = None,
    /,
    *,
    tz: str = "UTC",
    missed: Missed = "skip",
    tag: str | None = None,
) -> Scheduled[Any]:
    """Call the method whenever the cron expression is due in time zone ``tz``; otherwise as ``every``.

    ``@cron("30 7 * * 1-5", tz="Europe/Berlin")``. ``missed``: what becomes of ticks for which nobody was there.
    """
    timer = DeclaredTimer(tag=tag or "", kind="cron", type="", missed=missed, expression=expression, tz=tz)
    return Scheduled(timer, what)


def schedules_of(shown: str, functions: Iterable[object]) -> tuple[DeclaredTimer, ...]:
    """What the handlers of a class declare, by tag; ``BadDefinition`` where two have one tag."""
    timers = [timer for function in dict.fromkeys(functions) for timer in _marked(function)]
    tags = [timer.tag for timer in timers]
    for tag in tags:
        if tags.count(tag) > 1:
            raise BadDefinition(
                f"{shown}: two of @every and @cron have the tag {tag!r}; give one another tag="
            )
    return tuple(sorted(timers, key=lambda timer: timer.tag))


def stored_schedules(timers: Sequence[DeclaredTimer]) -> list[Mapping[str, Any]]:
    """Their stored form, which ``read_declared`` reads: what is left out is the default."""
    defaults = asdict(DeclaredTimer(tag="", kind="", type=""))
    return [
        {name: value for name, value in asdict(timer).items() if value != defaults[name]} for timer in timers
    ]


def refuse_declared(timers: Sequence[DeclaredTimer], directives: Sequence[Directive], shown: str) -> None:
    """``BadInput`` where a directive wants to set or cancel what the class declares."""
    tags = {timer.tag for timer in timers}
    for directive in directives:
        if isinstance(directive, (TimerDirective, Cancel)) and directive.tag in tags:
            raise BadInput(
                f"{shown} returned {directive!r:.120}: the timer {directive.tag!r} is declared by @every or @cron, "
                "and there as long as the class says so; use another tag"
            )


def _marked(function: object) -> tuple[DeclaredTimer, ...]:
    return cast("tuple[DeclaredTimer, ...]", getattr(function, _MARK, ()))
