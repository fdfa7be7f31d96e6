"""Deleting agents that have had nothing to do for their ``idle_delete``: what the leader does about them in each round.

Two steps for each, so that any leader can go on between them. 1. It is asked to stop, and stays on record as idle.
2. Once it has ended, one commit takes it off the record and deletes it, refused if anything was accepted in the
meantime: then it starts again. So what races with a deletion is applied, or is refused to its sender.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import CorruptKey, NotIdle, RegrowError
from regrow_signals.keys import Keys
from regrow_supervisor.commit_plan import Extras
from regrow_supervisor.events import Event, ForgetIdle, StopIdle, WakeIdle
from regrow_supervisor.idleness import IdleChild, IdleWatch, idle_children
from regrow_supervisor.leader_view import LeaderView
from regrow_workers import log

__all__ = ["IdleDeletion"]

_LOG = logging.getLogger(__name__)
_AT_ONCE: Final = 250
_MOVING: Final = ("birth", "version", "cursor", "handled", "failed")
"""Fields of an agent's record that change with whatever it does."""


class IdleDeletion:
    """``commit`` is the reign's: decide, and write what follows. Looks are ``every`` seconds apart at least."""

    def __init__(
        self, connection: Connection, keys: Keys, commit: Callable[[Event, Extras], object], *, every: float
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._commit = commit
        self._every = every
        self._watch = IdleWatch()
        self._next = 0.0

    def doubt(self) -> None:
        """The store did not answer, or may be another: everybody's time begins anew."""
        self._watch.restart()

    def step(self, view: LeaderView, elapsed_ms: int, now: float) -> None:
        """One round at the monotonic instant ``now``; ``elapsed_ms`` is time in which the store answered."""
        if now < self._next:
            return
        self._next = now + self._every
        children = idle_children(view)
        running = [child for child in self._watch.due(children, elapsed_ms) if not child.stopped]
        tokens = self._look(running)
        for child in running:
            if self._watch.observe(child, tokens[child.agent], elapsed_ms):
                stop = StopIdle(path=child.path, child=child.agent, incarnation=child.incarnation)
                self._commit(stop, Extras())
        for child in children:
            if child.stopped:
                self.delete(view, child)

    def delete(self, view: LeaderView, child: IdleChild) -> None:
        """The second step, for one that was stopped."""
        try:
            self._commit(ForgetIdle(path=child.path, child=child.agent), Extras(deletions=[child.agent]))
        except NotIdle:
            self._commit(WakeIdle(path=child.path, child=child.agent), Extras())
        except CorruptKey as error:
            log.event(_LOG, "corrupt_key", level=logging.ERROR, reason=str(error))
            view.corrupt.add(child.agent)

    def _look(self, children: list[IdleChild]) -> Mapping[str, str]:
        """What each agent is at: a token that changes with all that it does; empty while anything is in it."""
        tokens: dict[str, str] = {}
        for start in range(0, len(children), _AT_ONCE):
            some = children[start : start + _AT_ONCE]
            commands = [command for child in some for command in self._commands(child.agent)]
            answers = self._connection.pipeline(commands)
            for place, child in enumerate(some):
                record, *lengths = answers[5 * place : 5 * place + 5]
                readable = not any(isinstance(answer, RegrowError) for answer in (record, *lengths))
                tokens[child.agent] = str(record) if readable and not any(lengths) else ""
        return tokens

    def _commands(self, agent: str) -> list[Command[Any]]:
        keys = self._keys
        streams = (keys.mailbox(agent), keys.outbox(agent), keys.dead(agent))
        return [
            Command(("HMGET", keys.agent(agent), *_MOVING), _text, hint=agent),
            *(Command(("XLEN", stream), int, hint=agent) for stream in streams),
            Command(("SCARD", keys.timers_of(agent)), int, hint=agent),
        ]


def _text(reply: Any) -> str:
    return " ".join(str(item) for item in cast("list[Any]", reply))
