"""A real ``Worker`` that is driven step by step and may die at each of them, as its process would."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import Any, Literal

from regrow_signals import agents
from regrow_signals.connection import Connection
from regrow_signals.errors import BadPayload, CorruptKey
from regrow_signals.exchange import Entries
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers.agent import Agent
from regrow_workers.fail_points import FailPoints
from regrow_workers.own_descriptors import OwnDescriptors
from regrow_workers.own_priority import OwnPriority
from regrow_workers.reasons import ASKED, Killed, WorkerExit
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Reading, Slot
from regrow_workers.stop_request import StopRequest
from regrow_workers.worker import Worker

__all__ = ["Died", "Flag", "KillStep", "SteppedWorker", "Steps"]

KillStep = Literal["before_claim", "before_read", "after_read", "in_handler", "before_commit", "after_commit"]
"""Where a life may be killed: the steps of the worker's loop, in order."""


class Died(BaseException):
    """The process is gone at this very step. No code of the worker or of a handler may live on after it.

    ``killed``: why the node killed it; None for a SIGKILL that came from outside.
    """

    def __init__(self, killed: Killed | None = None) -> None:
        super().__init__(killed)
        self.killed = killed


class Flag(StopRequest):
    """A request to stop without operating-system signals."""

    def __init__(self) -> None:
        self.requested = False

    def fileno(self) -> int:
        return -1

    def request(self) -> None:
        self.requested = True


class Steps(FailPoints):
    """Tells each step that the worker reaches."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__({}, 0)
        self.armed = True
        self._tell = tell

    def reach(self, step: str) -> None:
        self._tell(step)


class SteppedWorker(Worker):
    """One incarnation. ``step`` does one turn of the worker's loop; its answer is whether anything was done."""

    def __init__(
        self,
        *,
        order: Mapping[str, str],
        node: str,
        agent_type: type[Agent[Any]],
        connection: Connection,
        keys: Keys,
        limits: Limits,
        settings: NodeSettings,
        reach: Callable[[str], None],
    ) -> None:
        super().__init__(
            order=order,
            node=node,
            agent_type=agent_type,
            connection=connection,
            keys=keys,
            limits=limits,
            settings=settings,
        )
        self.clock = lambda: (
            0.0
        )  # a slow machine ends no batch early: a test meets the same batches everywhere
        self._slot = self.slot = Slot(mmap.mmap(-1, mmap.PAGESIZE), 0)
        self.slot.note(Phase.BOOT)
        self._stop = self.asked = Flag()
        self._own = OwnDescriptors(-1, connection)
        self._priority = OwnPriority(self._slot)
        self._fail = Steps(reach)
        self._before = self._begin_and_fail
        self._entries: Entries | None = None

    def reading(self) -> Reading:
        return self.slot.read()

    def step(self) -> tuple[bool, WorkerExit | None]:
        """Whether anything was done, and the exit code once the life is over. Raises what the worker's loop raises."""
        self._worked = False  # memory is not given back to the system in a test
        try:
            return self._one_turn()
        except (BadPayload, CorruptKey) as error:
            return True, self._cannot_go_on(error)

    def _one_turn(self) -> tuple[bool, WorkerExit | None]:
        if self._entries is None:
            self._entries = self._begin()
            return True, None
        if self.asked.requested:
            return True, self._release(ASKED)
        if self._connection.generation != self._generation:
            self._reload()
            self._entries = []
        if self._is_worn():
            return True, WorkerExit.RECYCLED
        if self._loaded.blocked:
            if not self._ask(agents.unblocked(self._keys, self._owner)):
                return False, None
            self._reload()
            return True, None
        if not self._entries:
            self._entries = self._read()
            if not self._entries:
                return False, None
        self._entries, ends = self._turn(self._entries)
        return True, None if ends is None else self._end(ends)
