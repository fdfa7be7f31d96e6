"""What every peer's task does, and when a round began and ended, by the clock of the one machine that all run on."""

from __future__ import annotations

import os
import time
from functools import cache

import redis
import redis.asyncio

STAMPS, COUNTER = "peers:stamps", "peers:counter"
URL = os.environ["PEERS_REDIS"]


@cache
def client() -> redis.Redis:
    """One for each process, made by its first task, after any fork."""
    return redis.Redis.from_url(URL)


@cache
def async_client() -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(URL)


def due(number: int, total: int) -> str:
    """The first tenth warms the peer up; what is timed runs from there to the last task."""
    if number == total // 10:
        return "began"
    return "done" if number == total else ""


def noop(number: int, total: int) -> None:
    if name := due(number, total):
        client().hset(STAMPS, name, repr(time.time()))


def work(_number: int, total: int) -> None:
    value = client().incr(COUNTER)
    if name := due(value, total):
        client().hset(STAMPS, name, repr(time.time()))


async def noop_async(number: int, total: int) -> None:
    if name := due(number, total):
        await async_client().hset(STAMPS, name, repr(time.time()))


async def work_async(_number: int, total: int) -> None:
    value = await async_client().incr(COUNTER)
    if name := due(value, total):
        await async_client().hset(STAMPS, name, repr(time.time()))
