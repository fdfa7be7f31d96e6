"""RQ: jobs without results, removed once done."""

from __future__ import annotations

from rq import Queue

from benchmarks.peer_apps import marks


def noop(number: int, total: int) -> None:
    marks.noop(number, total)


def work(number: int, total: int) -> None:
    marks.work(number, total)


def fill(kind: str, count: int) -> None:
    job = {"noop": noop, "work": work}[kind]
    queue = Queue("peers", connection=marks.client())
    queue.enqueue_many([Queue.prepare_data(job, (i, count), result_ttl=0) for i in range(1, count + 1)])
