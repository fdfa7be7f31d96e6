"""The process that forks workers: no threads, no connection, no event loop; the user's application loaded and frozen.

Started by the node (``spawner_process.py``) with the link's and the slots' descriptors and the node's pid. Its duties:

1. Load the application once, then freeze the heap, so that a fork shares its pages and takes a few milliseconds.
2. Fork a worker for each ``start``; open a pidfd for it; reap it and tell its end at once.
3. Send signals to workers, by pidfd: a worker is not reaped before its end was told, so no stranger is ever hit.
4. End what workers left behind: their process groups, and what escaped from those (``process_tree.py``).
5. End when the node ends, and all of the above first: the link's end tells, and the kernel wakes a spawner that
   somebody stopped. Workers end with their spawner (parent-death signal).

If imports started threads, a fork could copy a held lock: then each worker is a fresh interpreter instead, and
``ready`` says which threads were the reason.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import resource
import select
import signal
import socket
import time
from typing import NoReturn

from regrow_signals.errors import RegrowError
from regrow_workers import fresh_process, log
from regrow_workers.announced import announce
from regrow_workers.application import Application, load
from regrow_workers.left_processes import LeftProcesses
from regrow_workers.os_signals import SignalInbox, die_with_parent
from regrow_workers.process_tree import adopt_orphans, end_group
from regrow_workers.spare_process import READY, run_spare
from regrow_workers.spares import Spares
from regrow_workers.spawned_process import SpawnedProcess
from regrow_workers.spawner_link import LinkClosed, Message, SpawnerLink
from regrow_workers.thread_names import threads_running
from regrow_workers.worker_config import WorkerConfig
from regrow_workers.worker_process import Serving, new_worker, preload, run_forked

__all__ = ["UNLOADABLE", "Spawner", "main"]

UNLOADABLE = 78
"""Exit code when the application cannot be loaded; nobody starts such a spawner again."""

IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal's Ctrl-C reaches the whole process group: what is to be done about it is the node's business."""


class Spawner:
    """The loop: one thread, ``poll`` over the link and the pidfds of all children, and the links of its spares."""

    def __init__(
        self, link: SpawnerLink, slots_fd: int, config: WorkerConfig, application: Application
    ) -> None:
        self._link = link
        self._slots_fd = slots_fd
        self._config = config
        self._application = application
        self._pid = os.getpid()
        self._children: dict[str, SpawnedProcess] = {}
        self._by_fd: dict[int, SpawnedProcess] = {}
        self._spares: Spares[SpawnedProcess] = Spares(
            config.settings.spares if config.kind == "worker" else 0, config.settings.start_timeout
        )
        self._left = LeftProcesses()
        self._signals = SignalInbox()
        self._poll = select.poll()
        self._poll.register(link.fileno(), select.POLLIN)
        self._poll.register(self._signals.fileno(), select.POLLIN)
        self.fresh = False

    def run(self) -> int:
        self._signals.install((signal.SIGCHLD,))
        self._spares.note_start(time.monotonic())
        while True:
            self._poll.modify(self._link.fileno(), self._link_events())
            wait = self._spares.wait(time.monotonic())
            try:
                ready = [fd for fd, _ in self._poll.poll(None if wait is None else math.ceil(wait * 1000))]
                for fd in ready:
                    self._on_ready(fd)
            except LinkClosed:
                return self._end_all()
            # Last, for it takes a while: whoever waits for a restart has been told of the end by now.
            if self._signals.fileno() in ready:
                self._signals.take()
                self._left.end({each.pid for each in self._by_fd.values()})
            if wait is not None:
                self._tend_spares(time.monotonic())

    def _link_events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._link.wants_to_write else 0)

    def _on_ready(self, fd: int) -> None:
        child = self._by_fd.get(fd)
        if child is not None and fd == child.pidfd:
            self._reap(child)
        elif child is not None:
            self._hear_spare(child)
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
        now = time.monotonic()
        self._spares.note_start(now)
        while (spare := self._spares.take(now)) is not None:
            if self._give(spare, message):
                return
        key = message["key"]
        worker = self._made_before(message)
        try:
            pid = (
                fresh_process.exec_worker(self._config, message, self._slots_fd) if self.fresh else os.fork()
            )
        except OSError as error:
            self._link.send({"is": "not_forked", "key": key, "error": str(error)})
            return
        if pid == 0:
            self._become_worker(message, worker)
        child = SpawnedProcess.adopt(pid, key)
        if child is None:
            self._link.send({"is": "not_forked", "key": key, "error": "no pidfd for it"})
            return
        self._children[key] = child
        self._watch(child.pidfd, child)
        self._link.send({"is": "forked", "key": key, "pid": pid})

    def _made_before(self, message: Message) -> Serving | None:
        """What needs no process of its own, made here: after the fork it would cost ten times as much."""
        if self.fresh or self._config.kind != "worker":
            return None
        try:
            return new_worker(self._config, self._application, message)
        except Exception:  # noqa: BLE001  the child meets it again, and it is the reason of that worker's end
            return None

    def _become_worker(self, message: Message, worker: Serving | None) -> NoReturn:
        self._let_go()
        run_forked(self._config, self._application, message, self._slots_fd, self._pid, worker=worker)

    def _become_spare(self, orders: socket.socket) -> NoReturn:
        self._let_go()
        run_spare(self._config, self._application, orders, self._slots_fd, self._pid)

    def _let_go(self) -> None:
        """In the child: what is the spawner's."""
        for fd in self._by_fd:
            os.close(fd)
        self._link.close()
        self._signals.close()

    def _watch(self, fd: int, child: SpawnedProcess) -> None:
        self._by_fd[fd] = child
        self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._by_fd[fd]

    def _signal(self, key: str, number: int) -> None:
        child = self._children.get(key)
        if child is not None:
            # Whatever becomes of it now, the node has had a hand in it: nobody else gets this life.
            child.given = None
            child.send(number)

    def _reap(self, child: SpawnedProcess) -> None:
        if child.link is not None:
            self._hear_spare(child)
        if os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return  # what was polled was another's, whose number this one has got since
        end_group(child.pid)
        ended = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        assert ended is not None, "it waits until there is something to tell"
        self._left.note_end(child.pid, child.key)
        self._forget(child.pidfd)
        os.close(child.pidfd)
        self._close_spare(child)
        self._children.pop(child.key, None)
        status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        if child.key and child.given is None:
            self._link.send({"is": "exited", "key": child.key, "pid": child.pid, "status": status})
            return
        log.event(_LOG, "spare_lost", level=logging.WARNING, pid=child.pid, status=status)
        self._spares.remove(child, time.monotonic())
        if child.given is not None:
            self._start(child.given)

    # Spares.

    def _tend_spares(self, now: float) -> None:
        for late in self._spares.take_overdue(now):
            what = "did not take its agent" if late.key else "did not get ready"
            log.event(_LOG, "spare_overdue", level=logging.WARNING, pid=late.pid, reason=what)
            late.send(signal.SIGKILL)
        if self._spares.is_due(now):
            self._make_spare(now)

    def _make_spare(self, now: float) -> None:
        link, theirs = SpawnerLink.pair()
        child: SpawnedProcess | None = None
        error = "no pidfd for it"
        with theirs:
            try:
                pid = (
                    fresh_process.exec_spare(self._config, theirs, self._slots_fd)
                    if self.fresh
                    else os.fork()
                )
            except OSError as failed:
                error = str(failed)
            else:
                if pid == 0:
                    link.close()
                    self._become_spare(theirs)
                child = SpawnedProcess.adopt(pid, "")
        if child is None:
            link.close()
            log.event(_LOG, "no_spare", level=logging.WARNING, error=error)
            self._spares.put_off(now)
            return
        child.link = link
        self._watch(child.pidfd, child)
        self._watch(link.fileno(), child)
        self._spares.begin(child, now)

    def _give(self, child: SpawnedProcess, message: Message) -> bool:
        """Give a spare its agent. False: it is of no use, and is ended."""
        if child.link is None:
            return False
        try:
            child.link.send(message)
        except LinkClosed:
            return False  # it has ended, or is about to: its pidfd tells
        child.key, child.given = message["key"], message
        self._children[child.key] = child
        self._link.send({"is": "forked", "key": child.key, "pid": child.pid})
        return True

    def _hear_spare(self, child: SpawnedProcess) -> None:
        """It is ready, it took what it was given, or it has closed its end."""
        assert child.link is not None, "only a spare is heard"
        try:
            for message in child.link.receive():
                if message == READY:
                    self._spares.note_ready(child)
                    log.event(_LOG, "spare_ready", level=logging.DEBUG, pid=child.pid)
                else:
                    child.given = None
                    self._spares.remove(child, time.monotonic())
                    self._close_spare(child)
                    return
        except LinkClosed:
            self._close_spare(child)

    def _close_spare(self, child: SpawnedProcess) -> None:
        link, child.link = child.link, None
        if link is not None:
            self._forget(link.fileno())
            link.close()

    def _end_all(self) -> int:
        """The node is gone: nobody could report what these workers do."""
        left = [child for fd, child in self._by_fd.items() if fd == child.pidfd]
        for child in left:
            child.send(signal.SIGKILL)
        for child in left:
            os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED)
        self._left.end_all(lambda: self._poll.poll(10))
        return 0


_LOG = logging.getLogger(__name__)


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
    # Whoever kills the node's process group shall leave us the time to end ours.
    os.setsid()
    adopt_orphans()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # One descriptor for each worker: the usual soft limit of 1,024 would be the end of it.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    link = SpawnerLink(socket.socket(fileno=link_fd))
    try:
        return _live(link, slots_fd, node_pid)
    except LinkClosed:
        # The node went while the application was loaded: there is nobody to tell.
        return 0


def _live(link: SpawnerLink, slots_fd: int, node_pid: int) -> int:
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
    # From now on the link's end is heard at once; should we be stopped just then, this wakes us to hear it.
    die_with_parent(node_pid, signal.SIGCONT)
    gc.collect()
    gc.freeze()
    # Agents run on nodes that announce their type: executors run none.
    types = {} if config.kind == "effects" else announce(application.agent_types)
    awaits = any(effect.awaited for effect in application.effects.values())
    link.send({"is": "ready", "types": types, "warnings": warnings, "fresh": spawner.fresh, "awaits": awaits})
    return spawner.run()
