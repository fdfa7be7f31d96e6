"""From a fork (or a fresh interpreter) to the worker's loop and out again: what happens once in a worker's process."""

from __future__ import annotations

import _thread
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn, cast

from pydantic import create_model

from regrow_signals.connection import Connection
from regrow_signals.errors import Fenced
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_workers import log
from regrow_workers.application import Application, load
from regrow_workers.memory_limit import lift_limit, limit_jumps
from regrow_workers.os_signals import die_with_parent, reset_for_child
from regrow_workers.purity import guard
from regrow_workers.reasons import MEMORY, WorkerExit
from regrow_workers.rehearsal import SCRIPTS, rehearse
from regrow_workers.settings import NodeSettings
from regrow_workers.slots import Phase, Slot, SlotTable
from regrow_workers.spawner_link import Message
from regrow_workers.stop_request import StopRequest
from regrow_workers.worker import Worker

__all__ = [
    "WorkerConfig",
    "exec_worker",
    "new_worker",
    "preload",
    "run_forked",
]

_LOG = logging.getLogger(__name__)
BEAT_SECONDS = 0.5
EXECUTOR = "regrow_workers.effects.executor"
BOOT = "import sys; sys.path[:] = sys.argv[4:]; from regrow_workers.worker_process import main; main(sys.argv[1:4])"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What all workers of a spawner are told."""

    application: str
    url: str
    namespace: str
    limits: Limits
    settings: NodeSettings
    kind: str = "worker"
    """Of the node: ``effects`` has executors instead of agents' workers."""

    def to_message(self) -> Message:
        return {
            "application": self.application,
            "url": self.url,
            "namespace": self.namespace,
            "limits": asdict(self.limits),
            "settings": self.settings.to_json(),
            "kind": self.kind,
        }

    @classmethod
    def from_message(cls, message: Message) -> WorkerConfig:
        return cls(
            application=message["application"],
            url=message["url"],
            namespace=message["namespace"],
            limits=Limits(**message["limits"]),
            settings=NodeSettings.from_json(message["settings"]),
            kind=message["kind"],
        )


def preload(config: WorkerConfig, application: Application) -> None:
    """Do once, before any fork, what each worker would do first."""
    # pydantic imports its core only when a first model is built.
    create_model("Preloaded", text=(str, ...)).model_validate_json('{"text": ""}')
    # Connecting to a host by name imports it.
    importlib.import_module("encodings.idna")
    if config.kind == "effects":
        importlib.import_module(EXECUTOR)
        return
    rehearse(config.url, Keys(config.namespace), config.limits, application)


def new_worker(config: WorkerConfig, application: Application, message: Message) -> Worker:
    """All of a worker that is not its process's own: no socket, no slot, no thread."""
    order: Mapping[str, str] = message["order"]
    return Worker(
        order=order,
        node=message["node"],
        agent_type=application.agent_types[order["type"]],
        connection=Connection.open(config.url, name=f"regrow:{order['agent']}", scripts=SCRIPTS),
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
    worker: Worker | None = None,
) -> NoReturn:
    """The child of a fork: become a worker, then leave without the parent's exit handlers.

    ``worker``: made before the fork. A page that is first touched after it is copied, so what was done before is cheap.
    """
    code = int(WorkerExit.CRASHED)
    try:
        die_with_parent(parent)
        code = _work(config, application, message, slots_fd, worker=worker)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    finally:
        # Also after a KeyboardInterrupt or MemoryError: this process must never go on in the spawner's loop.
        _flush()
        os._exit(code & 0xFF)


def exec_worker(config: WorkerConfig, message: Message, slots_fd: int) -> int:
    """Start a fresh interpreter as worker; its pid. Configuration goes through a pipe, for it may hold a password."""
    reader, writer = os.pipe()
    text = json.dumps({"config": config.to_message(), "message": message}).encode()
    process = subprocess.Popen(
        [
            sys.executable, "-c", BOOT,
            str(reader), str(slots_fd), str(os.getpid()), *sys.path,
        ],
        stdin=subprocess.DEVNULL,
        pass_fds=(reader, slots_fd),
    )  # fmt: skip
    os.close(reader)
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(text)
    except BrokenPipeError:
        _LOG.warning("a fresh worker ended before it was told what to do")
    # The spawner reaps by pidfd; Popen must not wait for this pid, nor warn that nobody did.
    process.returncode = 0
    return process.pid


def main(arguments: list[str]) -> NoReturn:
    """A fresh interpreter's entry."""
    reader, slots_fd, parent = (int(each) for each in arguments)
    with os.fdopen(reader, "rb") as pipe:
        told = json.loads(pipe.read())
    config = WorkerConfig.from_message(told["config"])
    log.configure(config.settings.log_format, config.settings.log_level)
    die_with_parent(parent)
    run_forked(config, load(config.application), told["message"], slots_fd, parent)


def _work(
    config: WorkerConfig, application: Application, message: Message, slots_fd: int, *, worker: Worker | None
) -> int:
    slot = SlotTable.open_slot(slots_fd, message["slot"])
    reset_for_child(ignored=(signal.SIGINT, signal.SIGHUP))
    stop = StopRequest.on(signal.SIGTERM)
    # Blocked since before the fork, so that a stop sent in between waits for the handler instead of getting lost.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _start_beating(slot)
    try:
        return int(_live(config, application, message, slot, stop, worker=worker))
    except Fenced:
        slot.note(Phase.SUPERSEDED)
        return WorkerExit.SUPERSEDED
    except MemoryError:
        lift_limit()
        slot.end_in_hand(Phase.CRASHED, MEMORY)
        return WorkerExit.CRASHED
    except Exception as error:  # noqa: BLE001  whatever it is, it is the reason of this worker's end
        slot.note(Phase.CRASHED, f"{type(error).__name__}: {error}")
        _LOG.exception("worker_crashed")
        return WorkerExit.CRASHED


def _live(
    config: WorkerConfig,
    application: Application,
    message: Message,
    slot: Slot,
    stop: StopRequest,
    *,
    worker: Worker | None,
) -> WorkerExit:
    for hook in application.on_worker_start:
        hook()
    guard.set_mode(config.settings.guard)
    slot.note(Phase.STORING)
    if config.kind == "effects":
        # By name, not imported above: agents' workers need no RQ.
        executor = importlib.import_module(EXECUTOR)
        return cast("WorkerExit", executor.run_executor(config, application, message, slot, stop))
    limit_jumps(int(message["order"].get("max_memory") or config.settings.max_memory))
    return (worker or new_worker(config, application, message)).run(slot, stop)


def _start_beating(slot: Slot) -> None:
    """Progress, not life: the thread needs the interpreter lock, so native code that holds it stops the beat, as does
    SIGSTOP; waiting for Redis does not."""

    def beat() -> None:
        while True:
            slot.beat()
            time.sleep(BEAT_SECONDS)

    # Not threading.Thread: its start() waits until the thread runs, a millisecond of each recovery.
    _thread.start_new_thread(beat, ())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
