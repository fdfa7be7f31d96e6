"""The limit: the same commits from a raw client, with no Python model in between: ``python -m benchmarks.raw_limit``.

The planner makes the commits beforehand, from signals that lie in the mailboxes; they are encoded, and one process
sends them by a plain socket as fast as Redis takes them: each when the one before is answered, and eight on their way.
What is left of regrow's own rate, measured in turns beside it, is what its processes cost. ``--write`` puts the table
into this folder's README.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hiredis

from benchmarks.figures import with_table
from regrow.bench.app import Add, Counter
from regrow.bench.pool_app import agent_id
from regrow.bench.pooled import measure_pooled
from regrow.bench.system import BenchError
from regrow.bench.throughput import measure_throughput
from regrow.embedded_redis import EmbeddedRedis
from regrow_signals import agents, pool, views
from regrow_signals.agents import Owner
from regrow_signals.calls import Call, Command
from regrow_signals.client import Client, Message
from regrow_signals.decisions import (
    AgentBounds,
    DecisionCommit,
    PooledStart,
    Register,
    StartOrder,
    commit_decision,
)
from regrow_signals.errors import RegrowError
from regrow_signals.leadership import acquire
from regrow_signals.limits import Limits
from regrow_signals.nodes import join
from regrow_signals.pool import SlotName
from regrow_signals.scripts import load
from regrow_workers import batch

BEGIN, END = "<!-- raw limit: begin -->", "<!-- raw limit: end -->"
PAGE = Path(__file__).resolve().parent / "README.md"
TOKEN, NODE, TYPE = "raw", "raw-node", "bench-counter"
WINDOWS = (1, 8)
AT_ONCE = 32
"""Pooled agents of one claim, as a slot's."""

PART = 1_000
BATCHES = (100, 10, 1)
LIMITS = Limits()
POOLED_LIMITS = replace(
    LIMITS, journal_entries=LIMITS.pool_journal_entries, journal_bytes=LIMITS.pool_journal_bytes
)
"""As a slot has them."""

LONG = 10_000_000.0


@dataclass(frozen=True)
class Raw:
    """Commits a second for each window."""

    by_window: dict[int, float]


class Line:
    """A plain socket: bytes out, answers in."""

    def __init__(self, server: EmbeddedRedis) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(server.info.socket)
        self._reader = hiredis.Reader()
        self.send([encoded("AUTH", server.info.password)], 1)

    def send(self, commands: Sequence[bytes], window: int) -> list[Any]:
        """All of them, ``window`` on their way at once."""
        answers: list[Any] = []
        for first in range(0, len(commands), window):
            some = commands[first : first + window]
            self._socket.sendall(b"".join(some))
            while len(answers) < first + len(some):
                answer = self._reader.gets()
                if answer is False:
                    self._reader.feed(self._socket.recv(1 << 18))
                elif isinstance(answer, Exception):
                    raise BenchError(f"Redis refused a raw command: {answer}")
                else:
                    answers.append(answer)
        return answers


def packed(call: Call[Any]) -> bytes:
    """As the connection sends it."""
    return encoded("EVALSHA", load(call.script).sha, len(call.keys), *call.keys, *call.args)


def encoded(*words: Any) -> bytes:
    library: Any = hiredis  # it has no annotations
    return bytes(library.pack_command(words))


class Stage:
    """A Redis without any process of regrow; this one plays watchdog, node and worker."""

    def __init__(self, server: EmbeddedRedis) -> None:
        self.client = Client(server.info.url, namespace="raw")
        self.keys, self.connection = self.client.keys, self.client.connection
        self.line = Line(server)
        self.connection.call(acquire(self.keys, TOKEN, 3_600_000))
        self.connection.call(
            join(self.keys, NODE, kind="worker", host="h", pid=1, labels={}, types={}, version="0")
        )

    def decide(self, **parts: Any) -> None:
        self.connection.call(commit_decision(self.keys, LIMITS, DecisionCommit(token=TOKEN, **parts)))

    def fill(self, names: Sequence[str]) -> None:
        for first in range(0, len(names), PART):
            for result in self.client.send_many(
                [Message(each, Add()) for each in names[first : first + PART]]
            ):
                if isinstance(result, RegrowError):
                    raise result

    def handled(self) -> int:
        counted = self.connection.command(views.counters(self.keys))
        return counted.get(f"signals_applied_total|type={TYPE}", 0)

    def load_scripts(self, *names: str) -> None:
        for name in names:
            self.connection.command(Command(("SCRIPT", "LOAD", load(name).source), str))


def planned(
    stage: Stage, owner: Owner, loaded: agents.Loaded, size: int
) -> Iterator[tuple[bytes, agents.Loaded]]:
    """The commits of what lies in the mailbox, ``size`` signals each."""
    while True:
        entries = stage.connection.read_stream(stage.keys.mailbox(owner.agent), loaded.cursor, count=PART)
        if not entries:
            return
        while entries:
            plan = batch.plan(
                Counter, loaded, entries, LIMITS, lambda: 0.0, owner=owner, max_signals=size, max_seconds=LONG
            )
            loaded, entries = plan.after, entries[plan.taken :]
            yield packed(agents.commit(stage.keys, LIMITS, plan.commit)), loaded


def one_agent(stage: Stage, signals: int) -> dict[int, Raw]:
    """Signals a second by batch."""
    bounds = AgentBounds(max_mailbox=1_000_000)
    stage.decide(register=[Register("counter", TYPE, "bench", bounds=bounds)])
    stage.decide(starts=[StartOrder("counter", 1, NODE)])
    owner = Owner("counter", 1, "token", NODE)
    loaded = stage.connection.call(agents.claim(stage.keys, LIMITS, owner, pid=1))
    stage.load_scripts("commit")
    found: dict[int, Raw] = {}
    for size in BATCHES:
        rates: dict[int, float] = {}
        count = signals if size > 1 else signals // 10
        for window in WINDOWS:
            stage.fill(["counter"] * count)
            commits: list[bytes] = []
            for command, after in planned(stage, owner, loaded, size):
                commits.append(command)
                loaded = after
            before, began = stage.handled(), time.perf_counter()
            stage.line.send(commits, window)
            rates[window] = count / (time.perf_counter() - began)
            require(stage, before + count)
        found[size] = Raw(rates)
    return found


def many_agents(stage: Stage, count: int) -> Raw:
    """Signals a second: one for each pooled agent, claims and commits as a slot sends them."""
    names = [agent_id(number) for number in range(count)]
    for first in range(0, count, PART):
        some = names[first : first + PART]
        stage.decide(register=[Register(each, TYPE, "bench") for each in some])
        stage.decide(pooled=[PooledStart(each, 1, TYPE) for each in some])
    stage.load_scripts("pool_claim", "pool_commit")
    slot, rates = SlotName(NODE, 1), dict[int, float]()
    for window in WINDOWS:
        stage.fill(names)
        calls = [
            pool.claim_agents(
                stage.keys,
                POOLED_LIMITS,
                slot,
                [f"{TYPE}@1"],
                pid=1,
                token=f"t{window}-{number}",
                most=AT_ONCE,
                signals=100,
            )
            for number in range(0, count, AT_ONCE)
        ]
        commands = [packed(call) for call in calls]
        began = time.perf_counter()
        answers = stage.line.send(commands, window)
        took = time.perf_counter() - began
        commits: list[bytes] = []
        for call, answer in zip(calls, answers, strict=True):
            claims = call.parse(as_text(answer))
            plain = [
                pool.plain_commit(
                    POOLED_LIMITS,
                    batch.plan(
                        Counter,
                        each.loaded,
                        each.entries,
                        POOLED_LIMITS,
                        lambda: 0.0,
                        owner=each.owner,
                        max_seconds=LONG,
                    ).commit,
                )
                for each in claims.agents
            ]
            commits.append(packed(pool.commit_agents(stage.keys, slot, plain)))
        before, began = stage.handled(), time.perf_counter()
        stage.line.send(commits, window)
        rates[window] = count / (took + time.perf_counter() - began)
        require(stage, before + count)
    return Raw(rates)


def as_text(answer: Any) -> Any:
    """As the connection's own reader gives it."""
    if isinstance(answer, bytes):
        return answer.decode()
    return [as_text(each) for each in answer] if isinstance(answer, list) else answer  # pyright: ignore[reportUnknownVariableType]


def require(stage: Stage, handled: int) -> None:
    if stage.handled() != handled:
        raise BenchError(f"{handled} signals were to be applied, {stage.handled()} were")


def measured(rounds: int, part: int) -> dict[str, dict[str, list[float]]]:
    """Rates by row and column, raw and ours in turns."""
    found: dict[str, dict[str, list[float]]] = {}

    def add(row: str, column: str, rate: float) -> None:
        print(f"{row}, {column}: {rate:,.0f} a second", file=sys.stderr)
        found.setdefault(row, {}).setdefault(column, []).append(rate)

    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(prefix="regrow-raw-") as folder,
            EmbeddedRedis(Path(folder)) as server,
        ):
            stage = Stage(server)
            for size, raw in one_agent(stage, 50_000 // part).items():
                for window, rate in raw.by_window.items():
                    add(f"one agent, batch {size}", str(window), rate)
        with (
            tempfile.TemporaryDirectory(prefix="regrow-raw-") as folder,
            EmbeddedRedis(Path(folder)) as server,
        ):
            for window, rate in many_agents(Stage(server), 10_000 // part).by_window.items():
                add(POOLED, str(window), rate)
        ours = measure_throughput(100_000 // part, 1)
        add("one agent, batch 100", "ours", float(ours["per_second"]))
        add("one agent, batch 1", "ours", float(ours["batch_1_per_second"]))
        add(POOLED, "ours", float(measure_pooled(10_000 // part, 1)["per_second"]))
    return found


POOLED = "10,000 pooled agents, one signal for each"


def as_table(found: dict[str, dict[str, list[float]]], rounds: int) -> str:
    """Markdown."""
    rows = [
        "| signals a second | raw, one command on its way | raw, eight on their way | regrow | of the limit |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row, columns in found.items():
        one, eight = (statistics.median(columns[str(window)]) for window in WINDOWS)
        ours = statistics.median(columns["ours"]) if "ours" in columns else None
        shown = "" if ours is None else f"{ours:,.0f}"
        share = "" if ours is None else f"{ours / max(one, eight):.0%}"
        rows.append(f"| {row} | {one:,.0f} | {eight:,.0f} | {shown} | {share} |")
    return (
        "\n".join(rows)
        + f"\n\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; "
        f"medians of {rounds} rounds in turns. Load average after: {os.getloadavg()[0]:.1f}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    told = parser.parse_args(arguments)
    table = as_table(measured(told.rounds, 10 if told.quick else 1), told.rounds)
    print(table)
    if told.write:
        PAGE.write_text(with_table(PAGE, table, BEGIN, END), encoding="utf-8")


if __name__ == "__main__":
    main()
