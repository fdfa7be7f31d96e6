"""Dramatiq: its defaults (retries on, acks after the work)."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peer_apps import marks

dramatiq.set_broker(RedisBroker(url=marks.URL))


@dramatiq.actor
def noop(number: int, total: int) -> None:
    marks.noop(number, total)


@dramatiq.actor
def work(number: int, total: int) -> None:
    marks.work(number, total)


def fill(kind: str, count: int) -> None:
    actor = {"noop": noop, "work": work}[kind]
    for i in range(1, count + 1):
        actor.send(i, count)
