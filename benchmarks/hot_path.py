"""What one signal costs from its acceptance to its commit, and where it goes: ``python -m benchmarks.hot_path``.

The steps of a worker and of a slot are taken one by one in one process, by the very functions that they call, on an
embedded Redis. A step's time is the processor's, taken for every batch; Redis's is its own count (``INFO
commandstats``), by script. A figure is the lowest decile of the batches, in microseconds a signal: what a step costs
while nothing else wants the processor, which a median on a busy machine does not tell. ``--write`` puts the table into
this folder's README.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from regrow.bench.app import Add, Counter
from regrow.embedded_redis import EmbeddedRedis
from regrow_signals import agents, pool
from regrow_signals.agents import Owner
from regrow_signals.calls import Call, Command
from regrow_signals.client import Client, Message
from regrow_signals.connection import Connection
from regrow_signals.decisions import DecisionCommit, PooledStart, Register, StartOrder, commit_decision
from regrow_signals.exchange import Entries, exchange, stream_command
from regrow_signals.keys import Keys
from regrow_signals.leadership import acquire
from regrow_signals.limits import Limits
from regrow_signals.nodes import join
from regrow_workers import batch, transition
from regrow_workers.batch import CommitPlan
from regrow_workers.delivery import Addressee, Delivery
from regrow_workers.purity import guard
from regrow_workers.slots import Slot, SlotTable
from regrow_workers.state import encode_state

PAGE = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- hot path: begin -->", "<!-- hot path: end -->"
LEADER, NODE, TYPE = "profile", "n1", "bench-counter"
BATCH, HANDS, SENT = 100, 32, 100
"""Signals of one commit of an isolated agent; pooled agents, with a signal each, in a slot's hands; of one send."""

DECODE, HANDLER, ENCODE, PLAN, LAY, PARSE, LINK = (
    "decode the payload",
    "the handler, its `evolve` and the guard",
    "encode the state",
    "the rest of the plan: bounds, journal line, times",
    "lay out and pack the commit",
    "parse what is read and answered",
    "the socket: send, receive, split into words",
)
SERVED: Final = ("XREAD", "commit", "pool_claim", "pool_commit")
WHOLE, TRIP = "the whole plan", "round trip"
WORKER: Final = (PARSE, DECODE, HANDLER, ENCODE, PLAN, LAY, LINK)


@dataclass
class Profile:
    """Microseconds a signal, one sample for each batch, by step."""

    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, step: str, seconds: float, signals: int) -> None:
        self.samples.setdefault(step, []).append(seconds / signals * 1e6)

    def figure(self, step: str) -> float:
        """The lowest decile: see the module's text."""
        found = sorted(self.samples[step])
        return found[len(found) // 10]


class Store:
    """A server of one's own with a node and a leader, and how long it worked."""

    def __init__(self, url: str, limits: Limits) -> None:
        self.connection = Connection.open(url, name="regrow-profile")
        self.client = Client(url, namespace="profile", limits=limits)
        self.keys: Keys = self.client.keys
        self.limits = limits
        self._turn = 0
        self.connection.call(acquire(self.keys, LEADER, 3_600_000))
        self.connection.call(
            join(self.keys, NODE, kind="worker", host="h", pid=1, labels={}, types={}, version="0")
        )

    def decide(self, **parts: Any) -> None:
        self.connection.call(commit_decision(self.keys, self.limits, DecisionCommit(token=LEADER, **parts)))

    def send(self, profile: Profile, to: Sequence[str]) -> None:
        """One signal to each, in parts as a client sends them."""
        for place, start in enumerate(range(0, len(to), SENT)):
            part = to[start : start + SENT]
            before = self.connection.command(_USED) if place % 10 == 0 else None
            self.client.send_many([Message(agent, Add()) for agent in part])
            if before is not None:
                profile.add("send", self.connection.command(_USED) - before, len(part))

    def trip(self, profile: Profile, step: str, item: Call[Any] | Command[Any], signals: int) -> Any:
        """One round trip: packed, sent, answered, parsed. By turns Redis tells its time, or ours is taken."""
        packing = time.thread_time()
        talk = exchange([item], {item.script} if isinstance(item, Call) else set(), "")
        next(talk)
        profile.add(f"{LAY}: {step}", time.thread_time() - packing, signals)
        asked = replace(item, parse=_as_it_is)
        self._turn += 1
        if self._turn // 2 % 2:
            before, raw, after = self.connection.pipeline([_USED, asked, _USED])
            profile.add(step, after - before, signals)
        else:
            began = time.thread_time()
            (raw,) = self.connection.pipeline([asked])
            profile.add(f"{TRIP}: {step}", time.thread_time() - began, signals)
        parsing = time.thread_time()
        answer = item.parse(raw)
        profile.add(f"{PARSE}: {step}", time.thread_time() - parsing, signals)
        return answer


def _used(text: str) -> float:
    """Seconds that the server has spent in scripts and reads."""
    wanted = ("cmdstat_evalsha:", "cmdstat_xread:")
    return (
        sum(int(row.split("usec=")[1].split(",")[0]) for row in text.splitlines() if row.startswith(wanted))
        / 1e6
    )


_USED: Final = Command(("INFO", "commandstats"), _used)


def _as_it_is(reply: Any) -> Any:
    return reply


def isolated(store: Store, signals: int) -> Profile:
    """One busy agent, a backlog, batches of 100."""
    profile, agent = Profile(), "counter"
    store.decide(register=[Register(agent, TYPE, "bench")])
    store.decide(starts=[StartOrder(agent, 1, NODE)])
    owner = Owner(agent, 1, secrets.token_hex(16), NODE)
    loaded = store.connection.call(agents.claim(store.keys, store.limits, owner, pid=os.getpid()))
    store.send(profile, [agent] * signals)
    slot = _slot()
    while True:
        read = stream_command(store.keys.mailbox(agent), loaded.cursor, BATCH, None)
        entries: Entries = store.trip(profile, "XREAD", read, BATCH)
        if not entries:
            return profile
        plan = _planned(profile, loaded, entries, owner=owner, limits=store.limits, slot=slot)
        laying = time.thread_time()
        call = agents.commit(store.keys, store.limits, plan.commit)
        profile.add(f"{LAY}: layout", time.thread_time() - laying, len(entries))
        store.trip(profile, "commit", call, len(entries))
        loaded = plan.after


def pooled(store: Store, count: int, rounds: int) -> Profile:
    """Many agents with one signal each, 32 in hand."""
    profile, name, slot = Profile(), pool.SlotName(NODE, 1), _slot()
    limits = replace(
        store.limits,
        journal_entries=store.limits.pool_journal_entries,
        journal_bytes=store.limits.pool_journal_bytes,
    )
    ids = [f"device-{number:06d}" for number in range(count)]
    for start in range(0, count, 500):
        part = ids[start : start + 500]
        store.decide(register=[Register(agent, TYPE, "bench") for agent in part])
        store.decide(pooled=[PooledStart(agent, 1, TYPE) for agent in part])
    for number in range(rounds):
        if number == 1:
            profile = Profile()  # agents without a state are another case
        store.send(profile, ids)
        while True:
            claim = pool.claim_agents(
                store.keys, limits, name, [f"{TYPE}@1"],
                pid=os.getpid(), token=secrets.token_hex(16), most=HANDS, signals=BATCH,
            )  # fmt: skip
            claimed = store.trip(profile, "pool_claim", claim, HANDS).agents
            if not claimed:
                break
            laid: list[pool.PlainCommit] = []
            seconds = 0.0
            for each in claimed:
                plan = _planned(
                    profile, each.loaded, each.entries, owner=each.owner, limits=limits, slot=slot
                )
                laying = time.thread_time()
                laid.append(pool.plain_commit(limits, plan.commit))
                seconds += time.thread_time() - laying
            laying = time.thread_time()
            call = pool.commit_agents(store.keys, name, laid)
            profile.add(f"{LAY}: layout", seconds + time.thread_time() - laying, len(claimed))
            store.trip(profile, "pool_commit", call, len(claimed))
    return profile


def _planned(
    profile: Profile, loaded: agents.Loaded, entries: Entries, *, owner: Owner, limits: Limits, slot: Slot
) -> CommitPlan:
    """The plan. It is pure, so what it is made of is run a second time, each part by itself."""
    count, definition = len(entries), Counter.definition
    began = time.thread_time()
    plan = batch.plan(
        Counter, loaded, entries, limits, time.monotonic,
        owner=owner, before=slot.begin, max_signals=BATCH, max_seconds=10.0, check_every=100,
    )  # fmt: skip
    profile.add(WHOLE, time.thread_time() - began, count)
    addressee = Addressee(loaded.agent, loaded.birth, loaded.supervisor)
    deliveries = [Delivery(addressee, entry, fields) for entry, fields in entries]
    state: Any = Counter.parse_state(loaded.state, loaded.schema) if loaded.state else Counter.initial_state()
    handler: Any = transition.handler_for(definition, state, deliveries[0].type)
    mode = transition.mode_of(definition)
    times = [time.thread_time()]
    arguments = [transition.argument_of(handler, delivery) for delivery in deliveries]
    times.append(time.thread_time())
    states: list[Any] = [
        transition.handle(definition, handler, state, argument, delivery, mode=mode)[0]
        for argument, delivery in zip(arguments, deliveries, strict=True)
    ]
    times.append(time.thread_time())
    for new in states:
        encode_state(new, max_bytes=limits.max_state_bytes)
    times.append(time.thread_time())
    for step, start, end in zip((DECODE, HANDLER, ENCODE), times, times[1:], strict=False):
        profile.add(step, end - start, count)
    return plan


def _slot() -> Slot:
    slot = SlotTable.create(1).take()
    assert slot is not None, "a new table has room"
    return slot


def total(profile: Profile, step: str) -> float:
    """Of a step of the worker: its parts, one for each round trip, together."""
    if step == LINK:
        trips = [name for name in SERVED if name in profile.samples]
        return sum(
            max(0.0, profile.figure(f"{TRIP}: {name}") - profile.figure(f"{LAY}: {name}")) for name in trips
        )
    if step == PLAN:
        return max(0.0, profile.figure(WHOLE) - sum(map(profile.figure, (DECODE, HANDLER, ENCODE))))
    names = [name for name in profile.samples if name == step or name.startswith(f"{step}: ")]
    return sum(map(profile.figure, names))


def as_table(isolated_one: Profile, pooled_ones: Profile) -> str:
    """Markdown: a row for each step, microseconds a signal."""
    both = (isolated_one, pooled_ones)
    rows = [
        f"| µs a signal | isolated, batches of {BATCH} | pooled, one signal an agent, {HANDS} in hand |",
        "| --- | --- | --- |",
    ]

    def row(what: str, figures: Sequence[float | None]) -> None:
        rows.append(f"| {what} | {' | '.join('' if one is None else f'{one:.1f}' for one in figures)} |")

    for step in WORKER:
        row(step, [total(profile, step) for profile in both])
    row("**worker or slot**", [sum(total(profile, step) for step in WORKER) for profile in both])
    for script in ("send", *SERVED):
        row(
            f"Redis: `{script}`",
            [profile.figure(script) if script in profile.samples else None for profile in both],
        )
    row(
        "**Redis, after the acceptance**",
        [sum(profile.figure(one) for one in SERVED if one in profile.samples) for profile in both],
    )
    return "\n".join(rows)


def measured(part: int) -> str:
    """Both tables and the machine; ``part`` 10 is a tenth of the work."""
    limits = Limits(max_mailbox=1_000_000)
    before = os.getloadavg()[0]
    guard.set_mode("warn")
    gc.collect()
    gc.freeze()
    with (
        tempfile.TemporaryDirectory(prefix="regrow-profile-") as folder,
        EmbeddedRedis(Path(folder)) as server,
    ):
        store = Store(server.info.url, limits)
        one = isolated(store, 30_000 // part)
        many = pooled(store, 3_000 // part, 4)
    return (
        f"{as_table(one, many)}\n\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; "
        f"the lowest decile of the batches. Load average before: {before:.1f}, after: {os.getloadavg()[0]:.1f}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    told = parser.parse_args(arguments)
    table = measured(10 if told.quick else 1)
    print(table)
    if told.write:
        head, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{PAGE}: the marks {BEGIN} and {END} are not there")
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
