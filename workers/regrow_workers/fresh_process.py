"""A worker (or a spare) as a fresh interpreter: for applications whose imports started threads, which no fork survives.

It loads the application by itself, so it is slower to start; it keeps every other promise of a forked one.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from typing import NoReturn

from regrow_workers import log
from regrow_workers.application import load
from regrow_workers.os_signals import die_with_parent
from regrow_workers.spare_process import run_spare
from regrow_workers.spawner_link import Message
from regrow_workers.worker_config import WorkerConfig
from regrow_workers.worker_process import run_forked

__all__ = ["exec_spare", "exec_worker", "main"]

_LOG = logging.getLogger(__name__)

BOOT = "import sys; sys.path[:] = sys.argv[4:]; from regrow_workers.fresh_process import main; main(sys.argv[1:4])"


def exec_worker(config: WorkerConfig, message: Message, slots_fd: int) -> int:
    """Start a worker; its pid."""
    return _exec({"config": config.to_message(), "message": message}, (slots_fd,))


def exec_spare(config: WorkerConfig, orders: socket.socket, slots_fd: int) -> int:
    """Start a spare that listens at ``orders``; its pid."""
    return _exec({"config": config.to_message(), "orders": orders.fileno()}, (slots_fd, orders.fileno()))


def _exec(told: Message, descriptors: tuple[int, ...]) -> int:
    """Configuration goes through a pipe, for it may hold a password."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [
            sys.executable, "-c", BOOT,
            str(reader), str(descriptors[0]), str(os.getpid()), *sys.path,
        ],
        stdin=subprocess.DEVNULL,
        pass_fds=(reader, *descriptors),
    )  # fmt: skip
    os.close(reader)
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(told).encode())
    except BrokenPipeError:
        _LOG.warning("a fresh worker ended before it was told what to do")
    # The spawner reaps by pidfd; Popen must not wait for this pid, nor warn that nobody did.
    process.returncode = 0
    return process.pid


def main(arguments: list[str]) -> NoReturn:
    """The interpreter's entry."""
    reader, slots_fd, parent = (int(each) for each in arguments)
    with os.fdopen(reader, "rb") as pipe:
        told = json.loads(pipe.read())
    config = WorkerConfig.from_message(told["config"])
    log.configure(config.settings.log_format, config.settings.log_level)
    die_with_parent(parent)
    application = load(config.application)
    if "orders" in told:
        run_spare(config, application, socket.socket(fileno=told["orders"]), slots_fd, parent)
    run_forked(config, application, told["message"], slots_fd, parent)
