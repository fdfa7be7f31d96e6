"""An application that logs, imports and uses Redis in its hook and its handler, and in a thread when told to."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any

import redis

from regrow_workers.agent import Agent
from regrow_workers.application import on_worker_start
from regrow_workers.handlers import handles
from regrow_workers.step import Step
from tests.crash.recorder_app import Number, Seen

MODULES = (
    "colorsys", "chunk", "sndhdr", "cmd", "code", "mailbox", "netrc", "nntplib", "pdb", "pstats",
    "pyclbr", "rlcompleter", "sched", "shelve", "smtplib", "symtable", "tabnanny", "telnetlib", "trace",
    "wave", "xdrlib", "zipapp",
)  # fmt: skip
"""Of the standard library, mostly not loaded yet; what is not there any more in later Pythons is left out."""

log = logging.getLogger("busy")


class Line:
    """A connection of this process's own."""

    client: Any = None


def use_redis() -> None:
    """A word of our own comes back; on a socket shared with another process it might be that one's."""
    word = secrets.token_hex(8)
    answer = Line.client.echo(word).decode()
    if answer != word:
        raise RuntimeError(f"said {word}, heard {answer}: somebody else is on this socket")


def be_busy(number: int) -> None:
    log.info("busy with %s", number)
    try:
        importlib.import_module(MODULES[number % len(MODULES)])
    except ImportError:
        log.info("this Python has it no more")
    use_redis()


@on_worker_start
def connect() -> None:
    Line.client = redis.Redis.from_url(os.environ["REGROW_TEST_URL"])
    be_busy(os.getpid())


class Busy(Agent[Seen], name="recorder", guard="off"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        be_busy(number.n)
        return seen.evolve(numbers=(*seen.numbers[-1:], number.n))


class _Tree:
    name = "busy"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"recorder": Busy}


tree = _Tree()


def _run() -> None:
    Line.client = redis.Redis.from_url(os.environ["REGROW_TEST_URL"])
    for number in range(1_000_000):
        be_busy(number)
        time.sleep(0.0005)


if os.environ.get("REGROW_TEST_THREADS"):
    threading.Thread(target=_run, name="busy", daemon=True).start()
