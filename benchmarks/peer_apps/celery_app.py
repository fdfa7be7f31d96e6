"""Celery: prefork, late acks (work is done before it is forgotten), no results."""

from __future__ import annotations

from celery import Celery

from benchmarks.peer_apps import marks

app = Celery("peers", broker=marks.URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task
def noop(number: int, total: int) -> None:
    marks.noop(number, total)


@app.task
def work(number: int, total: int) -> None:
    marks.work(number, total)


def fill(kind: str, count: int) -> None:
    task = {"noop": noop, "work": work}[kind]
    with app.pool.acquire() as connection:
        for i in range(1, count + 1):
            task.apply_async((i, count), connection=connection)
