"""taskiq over Redis streams, which acknowledge work after it is done."""

from __future__ import annotations

import asyncio

from taskiq_redis import RedisStreamBroker

from benchmarks.peer_apps import marks

broker = RedisStreamBroker(url=marks.URL)


@broker.task
async def noop(number: int, total: int) -> None:
    await marks.noop_async(number, total)


@broker.task
async def work(number: int, total: int) -> None:
    await marks.work_async(number, total)


def fill(kind: str, count: int) -> None:
    asyncio.run(_fill(kind, count))


async def _fill(kind: str, count: int) -> None:
    await broker.startup()
    task = {"noop": noop, "work": work}[kind]
    for i in range(1, count + 1):
        await task.kiq(i, count)
    await broker.shutdown()
