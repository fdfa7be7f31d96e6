"""A spare: a worker's process in all but its agent. It has run the application's hooks, is connected, and waits.

Until it says that it has taken its agent it is nobody: it has no slot, is in no list, and its end is no loss, for the
spawner then gives the agent to a fresh fork. From then on it is a worker like any other.
"""

from __future__ import annotations

import logging
import os
import select
import socket
from typing import NoReturn

from regrow_signals.connection import Connection
from regrow_workers.application import Application
from regrow_workers.fork_copies import let_go_in_copies
from regrow_workers.os_signals import name_process
from regrow_workers.reasons import WorkerExit
from regrow_workers.rehearsal import SCRIPTS, warm_up
from regrow_workers.slots import SlotTable
from regrow_workers.spawner_link import LinkClosed, Message, SpawnerLink
from regrow_workers.stop_request import StopRequest
from regrow_workers.worker_config import WorkerConfig
from regrow_workers.worker_process import WORKER, WorkerProcess, leave_with, new_worker

__all__ = ["READY", "SPARE", "TAKEN", "run_spare"]

_LOG = logging.getLogger(__name__)

SPARE = "regrow-spare"
"""Its name for ``ps`` and ``top``, until it has an agent."""

READY: Message = {"is": "ready"}
TAKEN: Message = {"is": "taken"}


def run_spare(
    config: WorkerConfig, application: Application, orders: socket.socket, slots_fd: int, parent: int
) -> NoReturn:
    """The child of a fork, or a fresh interpreter; ``orders`` is its end of a pair with the spawner."""
    leave_with(parent, lambda: _stand_by(config, application, SpawnerLink(orders), slots_fd))


def _stand_by(config: WorkerConfig, application: Application, link: SpawnerLink, slots_fd: int) -> int:
    name_process(SPARE)
    process = WorkerProcess(config, application)
    let_go_in_copies(link.close)
    try:
        process.get_ready()
    except Exception:  # noqa: BLE001  a hook may raise anything
        # Said here, charged to nobody: should it fail for a worker too, that is the worker's end.
        _LOG.exception("spare_failed")
        return WorkerExit.CRASHED
    connection = Connection.open(config.url, name=SPARE, scripts=SCRIPTS)
    warm_up(config, connection)
    try:
        link.send(READY)
        message = _await_agent(link, process.stop)
        if message is None:
            return WorkerExit.RELEASED
        link.send(TAKEN)
        link.close()
    except LinkClosed:
        return WorkerExit.RELEASED
    name_process(WORKER)
    connection.rename(f"regrow:{message['order']['agent']}")
    slot = SlotTable.open_slot(slots_fd, message["slot"])
    os.close(slots_fd)
    return process.live(message, slot, lambda: new_worker(config, application, message, connection))


def _await_agent(link: SpawnerLink, stop: StopRequest) -> Message | None:
    """None: asked to end before it had one. Nothing that the spawner could still send is lost for it."""
    waiting = select.poll()
    waiting.register(link.fileno(), select.POLLIN)
    waiting.register(stop.fileno(), select.POLLIN)
    while True:
        waiting.poll()
        asked = stop.requested
        if asked:
            link.take_no_more()
        try:
            for message in link.receive():
                return message
        except LinkClosed:
            return None
