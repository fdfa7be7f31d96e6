"""An effect beside a bare job of RQ: the same function that does nothing, one process each, in turns on one server."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from regrow.bench.app import AGENT
from regrow.bench.effects_app import Order, Orderer, nothing
from regrow.bench.system import BenchError, System, running_stack, until

__all__ = ["measure_effects"]

APPLICATION: Final = "regrow.bench.effects_app:tree"
QUEUE: Final = "bench-rq"
START_SECONDS: Final = 120.0
WORKER: Final = "rq.worker.SimpleWorker"


def measure_effects(rounds: int = 7, count: int = 300) -> dict[str, Any]:
    """Medians, in ms: of one of ``count`` ordered at once (from the order to the last one's end), and of one alone.

    ``times_rq``: how many times RQ's that is. An effect's end is its outcome applied by its agent; a job's is its
    result stored, as RQ does by default. It is RQ's ``SimpleWorker``, which calls in its own process, as an
    executor does; its default worker forks for each job, which costs more.
    """
    services = ("watchdog", "worker", "effects")
    with running_stack(APPLICATION, services=services, command=_command) as system:
        system.wait_running()
        ours = _Effects(system)
        _round(ours, 20)  # its executor is up
        found: dict[str, list[float]] = {
            "rq_ms": [],
            "effect_ms": [],
            "rq_alone_ms": [],
            "effect_alone_ms": [],
        }
        with _rq_worker(system.url) as jobs:
            _round(jobs, 20)
            for _ in range(rounds):
                found["rq_ms"].append(_round(jobs, count) / count)
                found["effect_ms"].append(_round(ours, count) / count)
                found["rq_alone_ms"].append(_median_alone(jobs))
                found["effect_alone_ms"].append(_median_alone(ours))
    medians = {name: round(statistics.median(values), 3) for name, values in found.items()}
    return {
        "rounds": rounds,
        "effects": count,
        **medians,
        "times_rq": round(medians["effect_ms"] / medians["rq_ms"], 2),
        "times_rq_alone": round(medians["effect_alone_ms"] / medians["rq_alone_ms"], 2),
    }


def _command(service: str) -> list[str]:
    """One executor, as there is one worker of RQ's."""
    words = [sys.executable, "-m", "regrow", service, APPLICATION]
    return [*words, "--executors", "1"] if service == "effects" else words


class _Effects:
    """Orders effects, and waits until the agent was told of all."""

    def __init__(self, system: System) -> None:
        self._client = system.client
        self._wanted = 0

    def start(self, count: int) -> None:
        self._wanted += count
        self._client.send(AGENT, Order(count=count))

    def is_over(self) -> bool:
        return self._client.state(AGENT, Orderer).done == self._wanted


class _Jobs:
    """Enqueues jobs of RQ, and waits until the results of all are stored."""

    def __init__(self, queue: Any, worker: subprocess.Popen[bytes]) -> None:
        self._queue = queue
        self._worker = worker
        self._wanted = 0

    def start(self, count: int) -> None:
        self._wanted += count
        prepared = [self._queue.prepare_data(nothing, (number,)) for number in range(count)]
        self._queue.enqueue_many(prepared)

    def is_over(self) -> bool:
        if self._worker.poll() is not None:
            raise BenchError(f"RQ's worker ended: {self._worker.returncode}")
        return bool(self._queue.finished_job_registry.get_job_count(cleanup=False) == self._wanted)


def _round(what: _Effects | _Jobs, count: int) -> float:
    """Milliseconds from the order to the end of the last one."""
    began = time.perf_counter()
    what.start(count)
    _until_over(what.is_over)
    return (time.perf_counter() - began) * 1000


def _median_alone(what: _Effects | _Jobs) -> float:
    return statistics.median(_round(what, 1) for _ in range(5))


def _until_over(is_over: Callable[[], bool]) -> None:
    until(is_over, "all of them are done", START_SECONDS, pause=0.0005)


@contextmanager
def _rq_worker(url: str) -> Generator[_Jobs]:
    """One worker of RQ in a process of its own, on an empty queue."""
    from redis import Redis
    from rq import Queue

    untyped: Any = Redis
    with untyped.from_url(url) as connection:
        queue: Any = Queue(QUEUE, connection=connection)
        words = ("worker", "--logging_level", "WARNING", "--worker-class", WORKER, "--url", url, QUEUE)
        worker = subprocess.Popen([sys.executable, "-m", "rq.cli", *words])
        try:
            yield _Jobs(queue, worker)
        finally:
            worker.terminate()
            worker.wait(START_SECONDS)
            queue.empty()
            for job_id in queue.finished_job_registry.get_job_ids(cleanup=False):
                queue.finished_job_registry.remove(job_id, delete_job=True)
