"""The floor of recovery: kill, notice by pidfd, fork, connect, one commit. No supervision, no fencing, no order.

``python -m regrow.bench.floor KILLS`` reads the server's URL from stdin and prints JSON.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time

from pydantic import create_model

from regrow.bench.system import summary
from regrow_signals.calls import Command
from regrow_signals.connection import Connection

STREAM = "{regrow-floor}:journal"


def one_kill(url: str, watcher: Connection, pid: int, after: str) -> tuple[float, int, str]:
    """Kill ``pid``, fork the next, wait for its commit: milliseconds, the new pid, the id of the commit."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    began = time.perf_counter()
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    poll.poll()
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
    os.close(descriptor)
    pid = fork_worker(url)
    entries = watcher.read_stream(STREAM, after, count=1, block_ms=4000)
    return (time.perf_counter() - began) * 1000, pid, entries[0][0]


def fork_worker(url: str) -> int:
    """A child that connects, commits once, and waits to be killed."""
    pid = os.fork()
    if pid == 0:
        Connection.open(url).command(Command(("XADD", STREAM, "*", "state", "{}"), str, repeatable=False))
        while True:
            signal.pause()
    return pid


def main() -> None:
    """Measure and print."""
    kills, url = int(sys.argv[1]), sys.stdin.read().strip()
    create_model("Preloaded", text=(str, ...)).model_validate_json('{"text": ""}')
    watcher = Connection.open(url)
    watcher.command(Command(("DEL", STREAM), int))
    gc.collect()
    gc.freeze()
    pid = fork_worker(url)
    after = watcher.read_stream(STREAM, "0-0", count=1, block_ms=4000)[0][0]
    times: list[float] = []
    for _ in range(kills):
        took, pid, after = one_kill(url, watcher, pid, after)
        times.append(took)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    watcher.command(Command(("DEL", STREAM), int))
    watcher.close()
    print(json.dumps(summary(times)))


if __name__ == "__main__":
    main()
