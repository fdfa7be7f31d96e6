"""A worker's day, rehearsed in the spawner and in each spare, so that a worker does nothing for the first time.

What runs for the first time is slow (lazy imports, caches, bytecode not yet specialised) and, after a fork, copies
pages. So a ``Worker`` with an agent of its own claims, plans, commits and releases against canned answers, in a process
that has time for it. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from regrow_signals import agents, pool
from regrow_signals.calls import Call, Command
from regrow_signals.connection import Connection, Interrupted, Sent
from regrow_signals.errors import RegrowError
from regrow_signals.exchange import Entries, exchange
from regrow_signals.keys import Keys
from regrow_signals.scripts import load
from regrow_signals.signal import Payload, Signal
from regrow_workers.agent import Agent
from regrow_workers.application import Application
from regrow_workers.handlers import handles
from regrow_workers.slots import SLOT_BYTES, Slot
from regrow_workers.state import State, encode_state
from regrow_workers.step import Step
from regrow_workers.stop_request import StopRequest
from regrow_workers.worker import Worker
from regrow_workers.worker_config import WorkerConfig

__all__ = ["SCRIPTS", "rehearse", "warm_up"]

ROUNDS = 16
"""Python 3.11 specialises what ran eight times."""

WARM_ROUNDS = 2

CONNECT_SECONDS = 0.5

SCRIPTS = (
    agents.CLAIM, agents.TRYING, agents.COMMIT, agents.RELEASE, agents.RELOAD,
    pool.POOL_CLAIM, pool.POOL_COMMIT, pool.POOL_RELEASE,
)  # fmt: skip
"""Those of every worker: given to the server here, so that no worker has to."""

AGENT = "rehearsal"

ANSWERS = {
    # Careful up to the second one, which is noted before it is tried.
    agents.CLAIM: [
        "ok",
        AGENT,
        "birth",
        "",
        "1",
        "0",
        "0-0",
        "2-0",
        "1-0 0 0",
        "{}",
        "2",
        "10",
        "0",
        *[""] * 5,
    ],
    agents.TRYING: ["ok"],
    agents.COMMIT: ["ok", "0", "0", "0"],
    agents.RELEASE: ["ok"],
}


class Line(Payload, type="regrow.rehearsal"):
    text: str


class Lines(State):
    last: str = ""
    count: int = 0


class Actor(Agent[Lines], name="regrow-rehearsal"):
    @handles(Line)
    def line(self, lines: Lines, line: Line) -> Step[Lines]:
        return lines.evolve(last=line.text, count=lines.count + 1)


def rehearse(config: WorkerConfig, application: Application) -> None:
    """In the spawner, before it forks. Raises nothing: a failure here is found, and told, where it matters."""
    for kind in {*application.agent_types.values()}:
        try:
            kind.parse_state(encode_state(kind.initial_state()), kind.definition.schema)
        except Exception:  # noqa: BLE001, S112  a user's validators may raise anything
            # Most often a state without defaults, whose agents are started with `init`.
            continue
    for _ in range(ROUNDS):
        _live_a_day(config)
    mailbox = Keys(config.namespace).mailbox(AGENT)
    try:
        # Closed before the first fork: a worker never shares a socket with anybody.
        for _ in range(ROUNDS):
            with Connection.open(config.url, name=AGENT, timeout=CONNECT_SECONDS) as connection:
                connection.read_stream(mailbox, "0-0", count=1)
        with Connection.open(config.url, name=AGENT, timeout=CONNECT_SECONDS) as connection:
            connection.pipeline([Command(("SCRIPT", "LOAD", load(name).source), str) for name in SCRIPTS])
    except RegrowError:
        return


def warm_up(config: WorkerConfig, connection: Connection) -> None:
    """In a spare: touch what a first signal touches, and connect. Where Redis is away, that is left for later."""
    for _ in range(WARM_ROUNDS):
        _live_a_day(config)
    try:
        connection.read_stream(Keys(config.namespace).mailbox(AGENT), "0-0", count=1)
    except RegrowError:
        return


def _live_a_day(config: WorkerConfig) -> None:
    stop = _Evening()
    server = _Server(stop)
    order = {"agent": AGENT, "incarnation": "1", "token": "token"}
    worker = Worker(
        order=order,
        node=AGENT,
        agent_type=Actor,
        connection=cast("Connection", server),
        keys=Keys(config.namespace),
        limits=config.limits,
        settings=replace(config.settings, fail_points={}),
    )
    worker.run(Slot(bytearray(SLOT_BYTES), 0), stop)


class _Evening(StopRequest):
    """Asked for by ``_Server`` when the day's signals are done."""

    def __init__(self) -> None:
        self.requested = False

    def fileno(self) -> int:
        return -1


class _Server:
    """Stands for the worker's connection: two signals wait, and every script answers as if all were well."""

    generation = 1
    interrupt_fd: int | None = None

    def __init__(self, stop: _Evening) -> None:
        self._stop = stop
        fields = Signal.of(Line(text="once more"), source=AGENT).to_fields()
        flat = [word for pair in {**fields, "at_ms": "1700000000000"}.items() for word in pair]
        self._waiting = [[f"{number}-0", flat] for number in (1, 2)]

    def fileno(self) -> int | None:
        return None

    def pipeline(self, items: Sequence[Call[Any] | Command[Any]]) -> list[Any]:
        return _answered(items, [self._answer(item) for item in items])

    def send(self, items: Sequence[Call[Any] | Command[Any]]) -> Sent:
        return Sent(items, None, 0)

    def receive(self, sent: Sent) -> list[Any]:
        return self.pipeline(sent.items)

    def read_stream(self, *_: object, **__: object) -> Entries:
        self._stop.requested = True
        raise Interrupted("that was all")

    def _answer(self, item: Call[Any] | Command[Any]) -> Any:
        if isinstance(item, Command):
            waiting, self._waiting = self._waiting, []
            return [["mailbox", waiting]] if waiting else None
        return ANSWERS[item.script]


def _answered(items: Sequence[Call[Any] | Command[Any]], answers: list[Any]) -> list[Any]:
    """An exchange whose answers are known beforehand."""
    talk = exchange(items, set(), "rehearsal")
    sent = next(talk)
    try:
        talk.send([None] * (sent.answers - len(answers)) + answers)
    except StopIteration as end:
        played: list[Any] = end.value
        return played
    raise AssertionError("the canned answers are complete")
