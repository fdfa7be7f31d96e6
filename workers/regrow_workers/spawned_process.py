"""What a spawner knows of a process that it made."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from regrow_workers.process_tree import end_group
from regrow_workers.spawner_link import Message, SpawnerLink

__all__ = ["SpawnedProcess"]


@dataclass(slots=True, eq=False)
class SpawnedProcess:
    """A child that is not reaped yet, so that its pid is nobody else's."""

    key: str
    """Of the life that it has; empty while it is a spare."""
    pid: int
    pidfd: int
    link: SpawnerLink | None = None
    """To one that is a spare, until it has said that it took an agent."""
    given: Message | None = None
    """What a spare was given and has not taken yet."""

    @classmethod
    def adopt(cls, pid: int, key: str) -> SpawnedProcess | None:
        """A child that was just made; one that cannot be watched (no descriptor left) is ended: None."""
        try:
            return cls(key, pid, os.pidfd_open(pid))
        except OSError:
            # Our own child, not reaped: the pid is still its own.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None

    def send(self, number: int) -> None:
        """An operating-system signal, by pidfd; SIGKILL to its whole group. One that has just ended does not mind."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return
        if number == signal.SIGKILL:
            end_group(self.pid)
