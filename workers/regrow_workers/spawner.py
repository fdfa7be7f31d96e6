"""The process that forks workers: no threads, no connection, no event loop; the user's application loaded and frozen.

Started by the node (``spawner_process.py``) with the link's and the slots' descriptors and the node's pid. Its duties:

1. Load the application once, then freeze the heap, so that a fork shares its pages and takes a few milliseconds.
2. Fork a worker for each ``start``; open a pidfd for it; reap it and tell its end at once.
3. Send signals to workers, by pidfd: a worker is not reaped before its end was told, so no stranger is ever hit.
4. End when the node ends (parent-death signal, or the link's end); workers end with it the same way.

If imports started threads, a fork could copy a held lock: then each worker is a fresh interpreter instead, and
``ready`` says which threads were the reason.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import select
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from regrow_signals.errors import RegrowError
from regrow_workers import log
from regrow_workers.application import Application, load
from regrow_workers.os_signals import die_with_parent
from regrow_workers.spawner_link import LinkClosed, Message, SpawnerLink
from regrow_workers.worker import Worker
from regrow_workers.worker_process import (
    WorkerConfig,
    exec_worker,
    new_worker,
    preload,
    run_forked,
)

__all__ = ["UNLOADABLE", "Spawner", "main", "threads_running"]

UNLOADABLE = 78
"""Exit code when the application cannot be loaded; nobody starts such a spawner again."""

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal's Ctrl-C reaches the whole process group: what is to be done about it is the node's business."""


@dataclass(slots=True)
class _Child:
    key: str
    pid: int
    pidfd: int


class Spawner:
    """The loop: one thread, ``poll`` over the link and the pidfds of all children."""

    def __init__(
        self, link: SpawnerLink, slots_fd: int, config: WorkerConfig, application: Application
    ) -> None:
        self._link = link
        self._slots_fd = slots_fd
        self._config = config
        self._application = application
        self._pid = os.getpid()
        self._children: dict[str, _Child] = {}
        self._by_pidfd: dict[int, _Child] = {}
        self._poll = select.poll()
        self._poll.register(link.fileno(), select.POLLIN)
        self.fresh = False

    def run(self) -> int:
        while True:
            self._poll.modify(self._link.fileno(), self._link_events())
            try:
                for fd, _ in self._poll.poll():
                    self._on_ready(fd)
            except LinkClosed:
                return self._end_all()

    def _link_events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._link.wants_to_write else 0)

    def _on_ready(self, fd: int) -> None:
        child = self._by_pidfd.get(fd)
        if child is not None:
            self._reap(child)
        elif fd == self._link.fileno():
            self._link.flush()
            for message in self._link.receive():
                self._obey(message)

    def _obey(self, message: Message) -> None:
        match message["do"]:
            case "start":
                self._start(message)
            case "signal":
                self._signal(message["key"], message["signal"])
            case "ping":
                self._link.send({"is": "alive"})
            case unknown:
                log.event(_LOG, "unknown_message", level=logging.WARNING, message=unknown)

    def _start(self, message: Message) -> None:
        key = message["key"]
        worker = self._made_before(message)
        try:
            pid = exec_worker(self._config, message, self._slots_fd) if self.fresh else os.fork()
        except OSError as error:
            self._link.send({"is": "not_forked", "key": key, "error": str(error)})
            return
        if pid == 0:
            self._become_worker(message, worker)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            # Our own child, not reaped: the pid is still its own.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._link.send({"is": "not_forked", "key": key, "error": f"no pidfd for it: {error}"})
            return
        child = _Child(key, pid, pidfd)
        self._children[key] = child
        self._by_pidfd[child.pidfd] = child
        self._poll.register(child.pidfd, select.POLLIN)
        self._link.send({"is": "forked", "key": key, "pid": pid})

    def _made_before(self, message: Message) -> Worker | None:
        """What needs no process of its own, made here: after the fork it would cost ten times as much."""
        if self.fresh or self._config.kind != "worker":
            return None
        try:
            return new_worker(self._config, self._application, message)
        except Exception:  # noqa: BLE001  the child meets it again, and it is the reason of that worker's end
            return None

    def _become_worker(self, message: Message, worker: Worker | None) -> NoReturn:
        """In the child: let go of what is the spawner's, then never come back."""
        for child in self._children.values():
            os.close(child.pidfd)
        self._link.close()
        run_forked(self._config, self._application, message, self._slots_fd, self._pid, worker=worker)

    def _signal(self, key: str, number: int) -> None:
        child = self._children.get(key)
        if child is None:
            return
        try:
            signal.pidfd_send_signal(child.pidfd, number)
        except ProcessLookupError:
            # Ended between two polls: its end is told in the next one.
            return

    def _reap(self, child: _Child) -> None:
        ended = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        self._poll.unregister(child.pidfd)
        os.close(child.pidfd)
        del self._by_pidfd[child.pidfd], self._children[child.key]
        status = 0
        if ended is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        self._link.send({"is": "exited", "key": child.key, "pid": child.pid, "status": status})

    def _end_all(self) -> int:
        """The node is gone: nobody could report what these workers do."""
        for child in self._children.values():
            self._signal(child.key, signal.SIGKILL)
        for child in self._children.values():
            os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        return 0


_LOG = logging.getLogger(__name__)


def threads_running() -> list[str]:
    """Names of threads besides the main one, with the module that they run; native ones by the kernel's name."""
    main = threading.main_thread()
    python = [thread for thread in threading.enumerate() if thread is not main]
    named = [f"{thread.name} ({_module_of(thread)})" for thread in python]
    known = {thread.native_id for thread in python} | {main.native_id}
    tasks = list(Path("/proc/self/task").glob("*"))
    if len(tasks) <= len(known):
        # In a container /proc may be the host's, with other numbers: the count is right in any case.
        return named
    tasks = [task for task in tasks if int(task.name) not in known]
    return named + [f"native thread {(task / 'comm').read_text().strip()}" for task in tasks]


def _module_of(thread: threading.Thread) -> str:
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", None) or type(thread).__module__)


def _announced(application: Application) -> dict[str, dict[str, str | int]]:
    """The agent types that can run here, with the versions of their code and of their states."""
    return {
        name: {"code": agent_type.definition.code, "schema": agent_type.definition.schema}
        for name, agent_type in application.agent_types.items()
    }


def _first_message(link: SpawnerLink) -> Message:
    waiting = select.poll()
    waiting.register(link.fileno(), select.POLLIN)
    while True:
        waiting.poll()
        for message in link.receive():
            return message


def main(arguments: list[str]) -> int:
    link_fd, slots_fd, node_pid = (int(each) for each in arguments)
    die_with_parent(node_pid)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # One descriptor for each worker: the usual soft limit of 1,024 would be the end of it.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    link = SpawnerLink(socket.socket(fileno=link_fd))
    try:
        return _live(link, slots_fd)
    except LinkClosed:
        # The node went while the application was loaded: there is nobody to tell.
        return 0


def _live(link: SpawnerLink, slots_fd: int) -> int:
    """Load the application, then fork for as long as the node lives. ``LinkClosed`` when it goes before that."""
    try:
        config = WorkerConfig.from_message(_first_message(link))
        log.configure(config.settings.log_format, config.settings.log_level)
        application = load(config.application)
        preload(config, application)
    except RegrowError as error:
        link.send({"is": "unloadable", "error": " ".join(str(error).split())})
        return UNLOADABLE
    spawner = Spawner(link, slots_fd, config, application)
    threads = threads_running()
    spawner.fresh = bool(threads)
    warnings = [f"importing {config.application} started {each}" for each in threads]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    gc.collect()
    gc.freeze()
    # Agents run on nodes that announce their type: executors run none.
    types = {} if config.kind == "effects" else _announced(application)
    link.send({"is": "ready", "types": types, "warnings": warnings, "fresh": spawner.fresh})
    return spawner.run()
