"""The first signal, rehearsed in the spawner, so that a fresh worker does not do anything for the first time.

What runs for the first time is slow (lazy imports, caches, bytecode not yet specialised) and, after a fork, copies
pages that could have stayed shared. So before it forks, the spawner goes through a worker's day: it connects, reads
nothing, claims, plans, commits, with canned answers and an agent of its own. Nothing is written anywhere.
"""

from __future__ import annotations

import time
from typing import Any

from regrow_signals import agents
from regrow_signals.calls import Call, Command
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError
from regrow_signals.exchange import Entries, exchange, stream_command
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import load
from regrow_signals.signal import Payload, Signal
from regrow_workers import batch
from regrow_workers.agent import Agent
from regrow_workers.application import Application
from regrow_workers.handlers import handles
from regrow_workers.state import State, encode_state
from regrow_workers.step import Step

__all__ = ["rehearse"]

ROUNDS = 16
"""Python 3.11 specialises what ran eight times."""

CONNECT_SECONDS = 0.5

SCRIPTS = (agents.CLAIM, agents.TRYING, agents.COMMIT, agents.RELEASE, agents.RELOAD)
"""Those of every worker: given to the server here, so that no worker has to."""

AGENT = "rehearsal"


class Line(Payload, type="regrow.rehearsal"):
    text: str


class Lines(State):
    last: str = ""
    count: int = 0


class Actor(Agent[Lines], name="regrow-rehearsal"):
    @handles(Line)
    def line(self, lines: Lines, line: Line) -> Step[Lines]:
        return lines.evolve(last=line.text, count=lines.count + 1)


def rehearse(url: str, keys: Keys, limits: Limits, application: Application) -> None:
    """Raises nothing: a failure here is found, and told, where it matters."""
    for kind in {*application.agent_types.values()}:
        try:
            kind.parse_state(encode_state(kind.initial_state()), kind.definition.schema)
        except Exception:  # noqa: BLE001, S112  a user's validators may raise anything
            # Most often a state without defaults, whose agents are started with `init`.
            continue
    owner = agents.Owner(AGENT, 1, "token", "node")
    signal = Signal.of(Line(text="once more"), source="rehearsal").to_fields()
    entry = [word for pair in {**signal, "at_ms": "1700000000000"}.items() for word in pair]
    for number in range(1, ROUNDS + 1):
        _play(keys, limits, owner, [f"{number}-0", entry])
    try:
        # Closed before the first fork: a worker never shares a socket with anybody.
        for _ in range(ROUNDS):
            with Connection.open(url, name=AGENT, timeout=CONNECT_SECONDS) as connection:
                connection.read_stream(keys.mailbox(AGENT), "0-0", count=1)
        with Connection.open(url, name=AGENT, timeout=CONNECT_SECONDS) as connection:
            connection.pipeline([Command(("SCRIPT", "LOAD", load(name).source), str) for name in SCRIPTS])
    except RegrowError:
        return


def _play(keys: Keys, limits: Limits, owner: agents.Owner, entry: list[Any]) -> None:
    mailbox = keys.mailbox(AGENT)
    claim = agents.claim(keys, limits, owner, pid=1)
    record = [
        "ok",
        Actor.definition.name,
        "birth",
        "",
        "1",
        "0",
        "0-0",
        "",
        "",
        "{}",
        "2",
        "10",
        "0",
        "",
        "",
        "",
    ]
    read = stream_command(mailbox, "0-0", 100, None)
    loaded, entries = _answered([claim, read], [record, [[mailbox, [entry]]]])
    found: Entries = entries
    plan = batch.plan(Actor, loaded, found, limits, time.monotonic, owner=owner, check_every=1)
    _answered([agents.mark_trying(keys, owner, found[0][0], 0, 0)], [["ok"]])
    _answered([agents.commit(keys, limits, plan.commit), read], [["ok", "0", "0", "0"], None])


def _answered(items: list[Call[Any] | Command[Any]], answers: list[Any]) -> list[Any]:
    """An exchange whose answers are known beforehand."""
    talk = exchange(items, set(), "rehearsal")
    sent = next(talk)
    try:
        talk.send([None] * (sent.answers - len(answers)) + answers)
    except StopIteration as end:
        played: list[Any] = end.value
        return played
    raise AssertionError("the canned answers are complete")
