"""Declared timers: those that an agent's class says it has (``@every``, ``@cron``), put in force for each agent of it.

Their stored form is part of the tree that is handed in. An agent's record names the digest of what is in force for it,
so that whoever leads knows whose timers are to be changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, cast, get_args

from regrow_signals.answers import answer
from regrow_signals.calls import Arg, Call
from regrow_signals.cron import parse_cron
from regrow_signals.due_timers import Missed
from regrow_signals.errors import BadInput
from regrow_signals.ids import check_tag, check_type
from regrow_signals.keys import Keys
from regrow_signals.scripts import declare
from regrow_signals.strict_json import check

__all__ = [
    "MIN_EVERY_MS",
    "DeclaredTimer",
    "Installation",
    "declared_tags",
    "install",
    "installed_text",
    "read_declared",
]

MIN_EVERY_MS: Final = 100
MAX_EVERY_MS: Final = 10 * 365 * 86_400_000
MAX_DECLARED: Final = 100

INSTALL: Final = declare(
    "schedules_install",
    keys=["leader", "timers", "bell"],
    args=["token", "prefix", "agents"],
    arg_tail="lists",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTimer:
    """A recurring timer of a class: ``kind`` is ``cron`` (expression, tz) or ``every`` (every_ms)."""

    tag: str
    kind: str
    type: str
    missed: Missed = "skip"
    expression: str = ""
    tz: str = ""
    every_ms: int = 0
    data: str = "null"

    def checked(self) -> DeclaredTimer:
        """Itself, or ``BadInput`` that says what is wrong with it."""
        check_tag(self.tag, "tag")
        check_type(self.type)
        if self.missed not in get_args(Missed):
            raise BadInput(f"missed={self.missed!r:.40} is none of {', '.join(get_args(Missed))}")
        if self.kind == "cron":
            parse_cron(self.expression, self.tz)
        elif self.kind != "every" or not MIN_EVERY_MS <= self.every_ms <= MAX_EVERY_MS:
            raise BadInput(f"every {self.every_ms} ms: give 0.1 seconds or more, and at most ten years")
        check(self.data)
        return self


@dataclass(frozen=True, slots=True)
class Installation:
    """What is to be in force for one agent; ``text`` is what its record is to name."""

    agent: str
    text: str
    timers: Sequence[DeclaredTimer] = ()


def install(keys: Keys, token: str, installations: Sequence[Installation]) -> Call[int]:
    """Put them in force; how many agents changed. One that is not registered, or damaged, is passed over.

    A timer that stays as it is goes on in its rhythm; one of the same tag that the agent set itself is replaced. Raises
    ``NotLeader``.
    """
    args: list[Arg] = [token, f"{keys.tag}:", len(installations)]
    for one in installations:
        args += (one.agent, one.text, len(one.timers))
        for timer in one.timers:
            args += (timer.tag, timer.kind, timer.expression, timer.tz, timer.every_ms)
            args += (timer.missed, timer.type, timer.data)
    names = (keys.leader, keys.timers, keys.timer_bell)
    return Call(
        INSTALL, names, args, lambda reply: int(answer(reply, "schedules")[1]), repeatable=True,
        hint="schedules",
    )  # fmt: skip


def installed_text(timers: Sequence[DeclaredTimer]) -> str:
    """``<digest> <tag> <tag> ..``; empty for none."""
    if not timers:
        return ""
    digest = hashlib.sha256(json.dumps([asdict(timer) for timer in timers], sort_keys=True).encode())
    return " ".join([digest.hexdigest()[:16], *(timer.tag for timer in timers)])


def declared_tags(text: str) -> list[str]:
    """The tags that an ``installed_text`` names."""
    return text.split()[1:]


def read_declared(stored: object) -> list[DeclaredTimer]:
    """The declared timers of one type, from their stored form; ``BadInput`` if it is none."""
    if not isinstance(stored, list) or len(cast("list[object]", stored)) > MAX_DECLARED:
        raise BadInput(f"schedules: not a list of {MAX_DECLARED} timers at most")
    timers = [_read(one) for one in cast("list[object]", stored)]
    if len({timer.tag for timer in timers}) != len(timers):
        raise BadInput("schedules: two have the same tag")
    return timers


_KINDS: Final = {field.name: int if field.name == "every_ms" else str for field in fields(DeclaredTimer)}


def _read(stored: object) -> DeclaredTimer:
    if not isinstance(stored, Mapping):
        raise BadInput(f"schedules: {stored!r:.80} is no JSON object")
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", stored))
    for name, value in given.items():
        if name not in _KINDS or type(value) is not _KINDS[name]:
            raise BadInput(f"schedules: {name}={value!r:.80} is no field of a timer")
    if missing := {"tag", "kind", "type"} - given.keys():
        raise BadInput(f"schedules: no {', '.join(sorted(missing))} in a timer")
    return DeclaredTimer(**given).checked()
