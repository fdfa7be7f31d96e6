"""Recovery: SIGKILL to a worker, until its agent's next signal is committed. Beside it the floor, in the same run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

from regrow.bench.app import AGENT, Add
from regrow.bench.system import BenchError, System, kill_worker, private_bytes, running_system, summary

__all__ = ["measure_recovery"]


def measure_recovery(kills: int = 200) -> dict[str, Any]:
    """Kill ``kills`` times; every signal sent must have been counted once, or ``BenchError``."""
    with running_system() as system:
        system.wait_running()
        memory = _idle_memory(system)
        times = [_one_kill(system) for _ in range(kills)]
        total = json.loads(system.record()["state"])["total"]
        if total != kills + 1:
            raise BenchError(f"{kills + 1} signals were sent, {total} were counted")
        floor = _floor(system.url, kills)
    return {
        "what": "SIGKILL of a worker until its agent's next signal is committed",
        "kills": kills,
        **summary(times),
        "floor_median_ms": floor["median_ms"],
        "floor_p99_ms": floor["p99_ms"],
        "worker_private_mib": round(memory / 2**20, 2),
    }


def _idle_memory(system: System) -> int:
    after = system.last_commit()
    system.client.send(AGENT, Add())
    system.wait_commit(after)
    return private_bytes(system.wait_running())


def _one_kill(system: System) -> float:
    pid = system.wait_running()
    after = system.last_commit()
    began = time.perf_counter()
    kill_worker(pid, signal.SIGKILL)
    system.client.send(AGENT, Add())
    system.wait_commit(after)
    return (time.perf_counter() - began) * 1000


def _floor(url: str, kills: int) -> dict[str, Any]:
    """In a process of its own, since it forks and this one has threads. The URL may hold a password: by stdin."""
    words = [sys.executable, "-m", "regrow.bench.floor", str(kills)]
    done = subprocess.run(words, input=url, capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
