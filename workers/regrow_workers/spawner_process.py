"""The node's view of its spawner: a child process, a link and a table of slots, all new for each spawner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from regrow_workers.slots import SlotTable
from regrow_workers.spawner_link import LinkClosed, Message, SpawnerLink

__all__ = ["SpawnerProcess"]


BOOT = "import sys; sys.path[:] = sys.argv[4:]; from regrow_workers.spawner import main; sys.exit(main(sys.argv[1:4]))"
"""The child finds modules where its parent did, however that was told (a script's folder, a test's setting)."""

FOR_THE_NODE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal and a launcher send these to the whole group; the spawner leaves them to the node."""


class SpawnerProcess:
    """Start one from the node's main thread only: its parent-death signal fires when the forking *thread* ends."""

    def __init__(self, configuration: Message, slots: int) -> None:
        self.slots = SlotTable.create(slots)
        self.link, theirs = SpawnerLink.pair()
        self.ready = False
        self.awaits = False
        """Whether its application has effects that are an ``async def``."""
        self.heard_at: float | None = None
        # Inherited: a child that has only begun could not ignore them yet, and would die of a Ctrl-C with a traceback.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_NODE)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [
                        sys.executable, "-c", BOOT,
                        str(theirs.fileno()), str(self.slots.fd), str(os.getpid()), *sys.path,
                    ],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self.slots.fd),
                )  # fmt: skip
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # By the link, not by argv or environment: the URL may hold a password, and those can be read by others.
        self.say({"do": "configure", **configuration})

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, message: Message) -> None:
        """A message to a spawner that is gone is dropped: the link's end tells, and is dealt with there."""
        try:
            self.link.send(message)
        except LinkClosed:
            return

    def kill(self) -> None:
        """Our own child, not reaped: its pid cannot be another's."""
        self._process.kill()

    def wait(self, seconds: float) -> int:
        """Its exit code (minus a signal's number); it is killed if it does not end in time. Releases link and slots."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def close(self, wait: float = 1.0) -> int:
        """Close the link, which ends the spawner and its workers; returns its exit code."""
        self.link.close()
        code = self.wait(wait)
        self.slots.close()
        return code


SpawnerFactory = Callable[[], SpawnerProcess]
