"""Declared timers (``@every``, ``@cron``) are put in force: for each agent those that the tree in force says.

An agent's record names what is in force for it, and the view knows it. Whoever may differ from the tree is in
``view.unscheduled``, from a load, a new tree or a new child on: so what a leader leaves undone the next one finds.
An agent that no supervisor has any more has none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from regrow_signals.connection import Connection
from regrow_signals.errors import BadInput, CorruptKey
from regrow_signals.keys import Keys
from regrow_signals.schedules import DeclaredTimer, Installation, install, installed_text, read_declared
from regrow_supervisor.leader import Lease
from regrow_supervisor.leader_view import LeaderView
from regrow_workers import log

__all__ = ["ScheduleInstaller"]

_LOG = logging.getLogger(__name__)
_AT_ONCE: Final = 100
_RETRY_SECONDS: Final = 5.0
_REMEMBERED: Final = 1000


class ScheduleInstaller:
    """One step of it is one script at most, for so many agents that nobody waits."""

    def __init__(self, connection: Connection, keys: Keys, lease: Lease) -> None:
        self._connection = connection
        self._keys = keys
        self._lease = lease
        self._read: dict[int, tuple[object, str, Sequence[DeclaredTimer]]] = {}
        self._not_before = 0.0

    def pending(self, view: LeaderView, now: float) -> bool:
        """Whether a step has anything to do at the monotonic instant ``now``."""
        return bool(view.unscheduled) and now >= self._not_before

    def step(self, view: LeaderView, now: float) -> int:
        """Put the timers of some agents in force; how many agents were looked at. Raises ``NotLeader``."""
        some = list(islice(view.unscheduled, _AT_ONCE))
        wanted = [Installation(agent, *self._wanted(view, agent)) for agent in some]
        differing = [one for one in wanted if one.text != view.schedules_of(one.agent)]
        try:
            if differing:
                self._connection.call(install(self._keys, self._lease.token, differing))
        except CorruptKey as error:
            log.event(_LOG, "corrupt_key", level=logging.ERROR, reason=str(error))
            self._not_before = now + _RETRY_SECONDS
            return 0
        for one in wanted:
            view.note_schedules(one.agent, one.text)
        return len(some)

    def _wanted(self, view: LeaderView, agent: str) -> tuple[str, Sequence[DeclaredTimer]]:
        declared = view.declared_of(agent)
        if declared is None:
            return "", ()
        known = self._read.get(id(declared))
        if known is None or known[0] is not declared:
            if len(self._read) > _REMEMBERED:
                self._read.clear()
            timers = _readable(declared)
            # The stored form is kept beside what was read, so that its id stays its own.
            known = self._read[id(declared)] = (declared, installed_text(timers), timers)
        return known[1], known[2]


def _readable(declared: Any) -> Sequence[DeclaredTimer]:
    try:
        return read_declared(declared)
    except BadInput as error:  # it was checked when the tree was handed in: somebody changed the record
        log.event(_LOG, "schedules_unreadable", level=logging.ERROR, reason=str(error))
        return ()
