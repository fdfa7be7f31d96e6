"""The application of the effects node's tests: each call of its effect leaves a line in a file, and can fail."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regrow_workers.agent import Agent
from regrow_workers.effects.effect import EffectContext, effect
from regrow_workers.state import State


class Nothing(State):
    pass


class Orderer(Agent[Nothing], name="desk"):
    pass


def misbehave(run: EffectContext, how: str, marks: str) -> str:
    """Leave a mark, then do as told; ``how`` with ``once`` in it does so on the first call alone."""
    path = Path(marks)
    called_before = path.exists() and run.id in path.read_text()
    with path.open("a") as file:
        file.write(f"{run.id} {run.attempt} {os.getpid()} {time.monotonic()}\n")
    if "once" in how and called_before:
        return "done"
    match how.removesuffix(" once"):
        case "raise":
            raise ValueError("told to raise")
        case "sys.exit":
            raise SystemExit(3)
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "sleep":
            time.sleep(60)
        case "swallow everything":
            swallow()
        case "hold the lock":
            # A call that keeps the interpreter lock: native code that spins.
            ctypes.PyDLL(None).sleep(60)
        case "report":
            while True:
                run.progress({"pid": os.getpid()})
                time.sleep(0.02)
        case "nap":
            time.sleep(0.5)
        case "wrong result":
            return {"not": "text"}  # type: ignore[return-value]
        case _:
            return "done"
    return "done"


def swallow() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@effect(name="charge")
def charge(run: EffectContext, how: str, marks: str) -> str:
    return misbehave(run, how, marks)


@effect(name="fetch", timeout=20)
async def fetch(run: EffectContext, how: str, marks: str) -> str:
    """Waits until a file named ``go`` lies beside the marks, or misbehaves."""
    if how == "slow":
        await asyncio.sleep(60)
    while how == "hold on":
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
    if how == "cancel itself":
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(60)
    if how != "wait":
        return misbehave(run, how, marks)
    misbehave(run, "", marks)
    while not (Path(marks).parent / "go").exists():
        await asyncio.sleep(0.25)  # a thousand of them must not keep the loop busy
    return "fetched"


@effect(name="crawl", concurrency=1)
def crawl(run: EffectContext, how: str, marks: str) -> str:
    return misbehave(run, how, marks)


@effect(name="post", idempotent=False)
async def post(run: EffectContext, how: str, marks: str) -> str:
    return await fetch(run, how, marks)


class _Tree:
    name = "effects"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"desk": Orderer}


tree = _Tree()
