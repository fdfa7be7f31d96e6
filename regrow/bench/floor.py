"""The floor of recovery: kill, notice by pidfd, fork, connect, one commit. No supervision, no fencing, no order.

``python -m regrow.bench.floor APPLICATION`` reads the server's URL from its first line of input (it may hold a
password) and answers each further line with the milliseconds of one kill. It loads the application as a spawner does,
so that it forks what a spawner forks; and nothing more.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Generator

from pydantic import create_model

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_workers import application

STREAM = "{regrow-floor}:journal"


def kills(url: str, watcher: Connection) -> Generator[float]:
    """Kill, fork the next, wait for its commit, again and again: milliseconds. The last one ends with the generator."""
    pid = fork_worker(url)
    try:
        after = watcher.read_stream(STREAM, "0-0", count=1, block_ms=4000)[0][0]
        while True:
            began = time.perf_counter()
            kill_and_reap(pid)
            pid = fork_worker(url)
            entries = watcher.read_stream(STREAM, after, count=1, block_ms=4000)
            after = entries[0][0]
            yield (time.perf_counter() - began) * 1000
    finally:
        kill_and_reap(pid)


def kill_and_reap(pid: int) -> None:
    """SIGKILL to our own child; returns when the kernel has told its end."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    poll.poll()
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
    os.close(descriptor)


def fork_worker(url: str) -> int:
    """A child that connects, commits once, and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        Connection.open(url).command(Command(("XADD", STREAM, "*", "state", "{}"), str, repeatable=False))
        while True:
            signal.pause()
    return pid


def main() -> None:
    """Answer each line of input until its end."""
    create_model("Preloaded", text=(str, ...)).model_validate_json('{"text": ""}')
    application.load(sys.argv[1])
    url = sys.stdin.readline().strip()
    watcher = Connection.open(url)
    watcher.command(Command(("DEL", STREAM), int))
    gc.collect()
    gc.freeze()
    times = kills(url, watcher)
    for _ in sys.stdin:
        print(next(times), flush=True)
    times.close()
    watcher.command(Command(("DEL", STREAM), int))
    watcher.close()


if __name__ == "__main__":
    main()
