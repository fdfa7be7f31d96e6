"""From a fork (or a fresh interpreter) to the worker's loop and out again: what happens once in a worker's process.

``fresh_process.py`` has the way through a fresh interpreter, ``spare_process.py`` the wait for an agent in between.
"""

from __future__ import annotations

import _thread
import importlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn, cast

from pydantic import create_model

from regrow_signals.connection import Connection
from regrow_signals.errors import DescriptorsLost, Fenced
from regrow_signals.keys import Keys
from regrow_signals.pool import SlotName
from regrow_workers.application import Application
from regrow_workers.fork_copies import leave_if_copied, let_go_in_copies
from regrow_workers.memory_limit import lift_limit, limit_jumps
from regrow_workers.os_signals import die_with_parent, limit_descriptors, name_process, reset_for_child
from regrow_workers.pool_roster import SLOT
from regrow_workers.pool_slot import PoolSlot
from regrow_workers.process_tree import has_children
from regrow_workers.purity import guard
from regrow_workers.reasons import MEMORY, WorkerExit
from regrow_workers.rehearsal import SCRIPTS, rehearse
from regrow_workers.slots import Phase, Slot, SlotTable
from regrow_workers.spawner_link import Message
from regrow_workers.stop_request import StopRequest
from regrow_workers.worker import Worker
from regrow_workers.worker_config import WorkerConfig
from regrow_workers.worker_output import bound_output

__all__ = ["WORKER", "Serving", "WorkerProcess", "leave_with", "new_worker", "preload", "run_forked"]

_LOG = logging.getLogger(__name__)
BEAT_SECONDS = 0.5
EXECUTOR = "regrow_workers.effects.executor"
WORKER = "regrow-worker"
"""Its name for ``ps`` and ``top``."""


Serving = Worker | PoolSlot
"""What such a process does: serve one agent, or many in turn."""


def preload(config: WorkerConfig, application: Application) -> None:
    """Do once, before any fork, what each worker would do first."""
    # pydantic imports its core only when a first model is built.
    create_model("Preloaded", text=(str, ...)).model_validate_json('{"text": ""}')
    # Connecting to a host by name imports it.
    importlib.import_module("encodings.idna")
    if config.kind == "effects":
        importlib.import_module(EXECUTOR)
        return
    rehearse(config, application)


def new_worker(
    config: WorkerConfig,
    application: Application,
    message: Message,
    connection: Connection | None = None,
) -> Serving:
    """All of a worker that is not its process's own: no socket (unless one is given), no slot, no thread."""
    order: Mapping[str, str] = message["order"]
    connection = connection or Connection.open(config.url, name=f"regrow:{order['agent']}", scripts=SCRIPTS)
    if order.get("order") == SLOT:
        return PoolSlot(
            name=SlotName(message["node"], int(order["number"])),
            agent_types=application.agent_types,
            connection=connection,
            keys=Keys(config.namespace),
            limits=config.limits,
            settings=config.settings,
        )
    return Worker(
        order=order,
        node=message["node"],
        agent_type=application.agent_types[order["type"]],
        connection=connection,
        keys=Keys(config.namespace),
        limits=config.limits,
        settings=config.settings,
    )


def run_forked(
    config: WorkerConfig,
    application: Application,
    message: Message,
    slots_fd: int,
    parent: int,
    *,
    worker: Serving | None = None,
) -> NoReturn:
    """The child of a fork, or a fresh interpreter: become a worker.

    ``worker``: made before the fork. A page that is first touched after it is copied, so what was done before is cheap.
    """

    def work() -> int:
        name_process(WORKER)
        slot = SlotTable.open_slot(slots_fd, message["slot"])
        os.close(slots_fd)
        process = WorkerProcess(config, application)
        return process.live(message, slot, lambda: worker or new_worker(config, application, message))

    leave_with(parent, work)


def leave_with(parent: int, work: Callable[[], int]) -> NoReturn:
    """Die with ``parent``; work, and leave with the exit code of it, without the parent's exit handlers."""
    code = int(WorkerExit.CRASHED)
    try:
        die_with_parent(parent)
        os.setsid()  # its signals to "its group" reach nobody else, and all that it starts can be found
        code = work()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    finally:
        # Also after a KeyboardInterrupt or MemoryError: this process must never go on in the spawner's loop.
        _flush()
        os._exit(code & 0xFF)


class WorkerProcess:
    """One process: what it does before it has an agent (or is an executor), and the life that it then leads."""

    def __init__(self, config: WorkerConfig, application: Application) -> None:
        """Takes the process's signals: a stop sent before waits until its handler stands, and does not get lost."""
        self._config = config
        self._application = application
        self._is_ready = False
        bound_output()
        limit_descriptors(config.max_descriptors)
        reset_for_child(ignored=(signal.SIGINT, signal.SIGHUP))
        self.stop = StopRequest.on(signal.SIGTERM)
        # Blocked since before the fork.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._beats = _Beats()
        # From here on there is the user's code, which may fork.
        let_go_in_copies(self.stop.let_go)

    def get_ready(self) -> None:
        """The application's own hooks, once. Raises what they raise."""
        if self._is_ready:
            return
        for hook in self._application.on_worker_start:
            hook()
            leave_if_copied()
        guard.set_mode(self._config.settings.guard)
        self._is_ready = True

    def live(self, message: Message, slot: Slot, make_worker: Callable[[], Serving]) -> int:
        """One life, to its end; the exit code. Whatever ends it is noted in ``slot``."""
        self._beats.give(slot)
        let_go_in_copies(slot.let_go)
        try:
            self.get_ready()
            slot.note(Phase.STORING)
            return int(self._live(message, slot, make_worker))
        except Fenced:
            slot.note(Phase.SUPERSEDED)
            return WorkerExit.SUPERSEDED
        except DescriptorsLost as error:
            slot.end_in_hand(Phase.CRASHED, f"{type(error).__name__}: {error}")
            return WorkerExit.CRASHED
        except MemoryError:
            lift_limit()
            slot.end_in_hand(Phase.CRASHED, MEMORY)
            return WorkerExit.CRASHED
        except Exception as error:  # noqa: BLE001  whatever it is, it is the reason of this worker's end
            slot.note(Phase.CRASHED, f"{type(error).__name__}: {error}")
            _LOG.exception("worker_crashed")
            return WorkerExit.CRASHED

    def _live(self, message: Message, slot: Slot, make_worker: Callable[[], Serving]) -> WorkerExit:
        config = self._config
        if config.kind == "effects":
            # By name, not imported above: agents' workers need no RQ.
            executor = importlib.import_module(EXECUTOR)
            ran = executor.run_executor(config, self._application, message, slot, self.stop)
            return cast("WorkerExit", ran)
        limit_jumps(int(message["order"].get("max_memory") or config.settings.max_memory))
        worker = make_worker()
        let_go_in_copies(worker.let_go)
        return worker.run(slot, self.stop)


class _Beats:
    """Progress, not life: the thread needs the interpreter lock, so native code that holds it stops the beat, as does
    SIGSTOP; waiting for Redis does not. It begins when it is given a slot."""

    def __init__(self) -> None:
        self._slot: Slot | None = None
        self._given = _thread.allocate_lock()
        self._given.acquire()
        # Not threading.Thread: its start() waits until the thread runs, a millisecond of each recovery.
        _thread.start_new_thread(self._beat, ())

    def give(self, slot: Slot) -> None:
        self._slot = slot
        self._given.release()

    def _beat(self) -> None:
        self._given.acquire()
        while self._slot is not None:
            self._slot.beat(has_children=has_children())
            time.sleep(BEAT_SECONDS)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
