"""Recovery: SIGKILL to a worker, until its agent's next signal is committed.

Beside each such kill one of the floor, so that both meet the same machine: what is running beside them slows both.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import APPLICATION, BenchError, System, kill_worker, running_system, summary

__all__ = ["measure_recovery"]

PAUSE = 0.15
"""Seconds before each kill: deaths come one by one, so the node has its spare again."""


def measure_recovery(kills: int = 200, spares: int = 1) -> dict[str, Any]:
    """Kill ``kills`` times, with ``spares`` processes ready; every signal sent must have been counted once, or
    ``BenchError``.
    """
    times: list[float] = []
    floor: list[float] = []
    environment = {"REGROW_SPARES": str(spares)}
    with running_system(environment) as system, _floor(system.url) as lowest:
        for _ in range(kills):
            times.append(_one_kill(system))
            floor.append(_one_of_the_floor(lowest))
        total = json.loads(system.record()["state"])["total"]
        if total != kills:
            raise BenchError(f"{kills} signals were sent, {total} were counted")
    found, least = summary(times), summary(floor)
    return {
        "what": "SIGKILL of a worker until its agent's next signal is committed",
        "kills": kills,
        "spares": spares,
        **found,
        "floor_median_ms": least["median_ms"],
        "floor_p99_ms": least["p99_ms"],
        "above_floor_median_ms": round(found["median_ms"] - least["median_ms"], 3),
        "times_floor": round(found["median_ms"] / least["median_ms"], 2),
    }


def _one_kill(system: System) -> float:
    pid = system.wait_running()
    time.sleep(PAUSE)
    after = system.last_commit()
    began = time.perf_counter()
    kill_worker(pid, signal.SIGKILL)
    system.client.send(AGENT, Add())
    system.wait_commit(after)
    return (time.perf_counter() - began) * 1000


@contextmanager
def _floor(url: str) -> Generator[subprocess.Popen[str]]:
    """In a process of its own, since it forks and this one has threads. The URL may hold a password: by stdin."""
    words = [sys.executable, "-m", "regrow.bench.floor", APPLICATION]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            _tell(process, url)
            _one_of_the_floor(process)  # the first one waits for the imports
            yield process
        except BaseException:
            process.kill()
            raise
        # Leaving the block closes its input, which ends it and its last child.


def _one_of_the_floor(process: subprocess.Popen[str]) -> float:
    _tell(process, "kill")
    assert process.stdout is not None, "opened as a pipe"
    line = process.stdout.readline()
    if not line:
        raise BenchError("the process that measures the floor ended")
    return float(line)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None, "opened as a pipe"
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
