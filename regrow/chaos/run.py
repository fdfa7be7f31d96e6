"""A run: strike, watch it mend, go on; then hold what Redis says against what it has to be."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from regrow.chaos import verdict
from regrow.chaos.app import AGENTS, Counter, Increment
from regrow.chaos.look import Look, look_at, others_hosts, targets, watchdogs
from regrow.chaos.plan import KINDS, Kind, Strike, choose, strikes
from regrow.chaos.processes import Held, Process, find
from regrow.chaos.traffic import Traffic
from regrow.chaos.verdict import Wound
from regrow.client import Client
from regrow.settings import Settings, load_settings
from regrow.up import Stack, check_application
from regrow_signals import views
from regrow_signals.connection import Connection
from regrow_signals.errors import BadInput, RegrowError, StoreError
from regrow_signals.keys import Keys

__all__ = ["APPLICATION", "Wanted", "run_against", "run_own"]

APPLICATION: Final = "regrow.chaos.app:tree"
NAMESPACE: Final = "chaos"
START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 90.0
"""The root's longest pause is 60 s."""
LOOK_EVERY: Final = 0.02

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done. ``sent``: agent, type and data of signals that are sent in turn, ``rate`` a second."""

    kinds: Sequence[Kind] = KINDS
    seconds: float = 60.0
    every: float = 1.0
    seed: int = 1
    sent: Sequence[tuple[str, str, object]] = ()
    rate: float = 20.0
    strikes: int = field(default=100_000)


def run_own(application: str | None, wanted: Wanted, settings: Settings, say: Say) -> dict[str, Any]:
    """Start a system in a throw-away folder: of ``application``, or of agents that count what is sent to them.

    Raises ``ApplicationError``; ``BadInput`` where a signal is to go to an agent that is not there.
    """
    if application is not None:
        check_application(application)
    with tempfile.TemporaryDirectory(prefix="regrow-chaos-") as folder:
        own = load_settings(
            **{**settings.model_dump(), "state_dir": Path(folder), "namespace": NAMESPACE, "redis_url": "",
               "metrics_port": 0},
        )  # fmt: skip
        stack = Stack(application or APPLICATION, settings=own, services=("watchdog", "worker", "effects"))
        with stack, _system(stack.url, own) as system:
            system.stack = stack
            system.wait_settled(START_SECONDS)
            if application is None:
                return system.run(wanted, say, counted=AGENTS)
            return system.run(wanted, say)


def run_against(url: str, settings: Settings, wanted: Wanted, say: Say) -> dict[str, Any]:
    """Of a system that runs. Raises ``BadInput`` where a node of it runs on another host, or none at all."""
    if "redis" in wanted.kinds:
        raise BadInput(
            "the server is struck only where `regrow chaos` has started it: leave redis out of --kill"
        )
    with _system(url, settings) as system:
        look = system.look()
        if others := others_hosts(look):
            raise BadInput(f"a node runs on another host: {', '.join(others)}; nothing was done")
        if not look.nodes:
            raise BadInput(f"no node runs in namespace {settings.namespace}; nothing was done")
        return system.run(wanted, say)


@contextmanager
def _system(url: str, settings: Settings) -> Generator[_System]:
    system = _System(url, settings)
    try:
        yield system
    finally:
        system.close()


class _System:
    """The system under attack, seen through Redis and ``/proc``."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._keys = Keys(settings.namespace)
        self._connection = Connection.open(url, name="regrow-chaos")
        self.stack: Stack | None = None
        """Where this program has started it."""
        self._redis: Process | None = None
        self._wounds: list[Wound] = []
        self._stopped: list[tuple[float, Held]] = []
        self._skipped = 0

    def close(self) -> None:
        self._go_on(float("inf"))
        self._connection.close()

    def client(self) -> Client:
        return Client(self._url, namespace=self._settings.namespace, limits=self._settings.limits)

    def look(self) -> Look:
        """Raises ``StoreError`` while Redis cannot be asked."""
        look = look_at(self._connection, self._keys)
        if self.stack is not None and (pid := self.stack.processes().get("redis")):
            self._redis = find(pid)
        return replace(look, targets=targets(look, self._watchdogs(), self._redis))

    def wait_settled(self, seconds: float) -> Look:
        """Until every agent is, a node is there and somebody leads; at last whatever there is then."""
        end = time.monotonic() + seconds
        while True:
            look = self._look_if_it_answers()
            if (
                look is not None
                and look.agents
                and look.nodes
                and look.leader
                and not verdict.unsettled(look)
            ):
                return look
            if time.monotonic() > end:
                if look is None:
                    raise RegrowError(f"Redis did not answer within {seconds:g} s")
                return look
            time.sleep(LOOK_EVERY)

    def run(self, wanted: Wanted, say: Say, *, counted: Sequence[str] = ()) -> dict[str, Any]:
        before = self.look()
        if strangers := sorted({agent for agent, _, _ in wanted.sent} - before.agents.keys()):
            known = ", ".join(sorted(before.agents)[:10])
            raise BadInput(
                f"--send {strangers[0]}: no agent has this id; nothing was done; there are: {known}"
            )
        since = self._connection.command(views.newest_entry(self._keys.events))
        counts = self._counts(counted)
        traffic = self._traffic(wanted, counted)
        began = time.monotonic()
        if traffic is not None:
            traffic.start()
        try:
            self._storm(wanted, say, began)
        finally:
            self._go_on(float("inf"))
            if traffic is not None:
                traffic.end()
                traffic.join()
        self._watch(time.monotonic() + SETTLE_SECONDS, say, until_all=True)
        after = self.wait_settled(SETTLE_SECONDS)
        if traffic is not None:
            self._settle(traffic)
        seconds = round(time.monotonic() - began, 1)
        report = self._report(before, after, since, traffic, counts)
        return {"seed": wanted.seed, "seconds": seconds, **report}

    # The storm.

    def _storm(self, wanted: Wanted, say: Say, began: float) -> None:
        for strike in strikes(wanted.kinds, wanted.seed):
            due = began + strike.number * wanted.every
            if strike.number > wanted.strikes or due > began + wanted.seconds:
                return
            self._watch(due, say)
            look = self._look_if_it_answers()
            if look is None or not self._deal(strike, look, say, began):
                self._skipped += 1

    def _deal(self, strike: Strike, look: Look, say: Say, began: float) -> bool:
        """False: there was none of the kind, or it ended just now."""
        there = look.targets.get(strike.kind, {})
        name = choose(strike, sorted(there))
        if name is None:
            return False
        try:
            held = Held(there[name])
        except ProcessLookupError:
            return False
        try:
            held.send(signal.SIGSTOP if strike.frozen else signal.SIGKILL)
        except ProcessLookupError:
            held.close()
            return False
        now = time.monotonic()
        if strike.frozen:
            self._stopped.append((now + strike.frozen, held))
        else:
            held.close()
        self._wounds.append(Wound(strike, name, there[name].pid, now, look))
        how = f"stopped for {strike.frozen:g} s" if strike.frozen else "killed"
        say(f"{now - began:7.2f} s  {strike.number:5}  {strike.kind} {name}, {how}")
        return True

    def _watch(self, until: float, say: Say, *, until_all: bool = False) -> None:
        """Until then, or until everything is mended; who has been stopped for long enough goes on."""
        while (now := time.monotonic()) < until:
            self._go_on(now)
            open_wounds = [wound for wound in self._wounds if wound.mended is None]
            if until_all and not open_wounds:
                return
            if open_wounds and (look := self._look_if_it_answers()) is not None:
                self._note_mended(open_wounds, look, say)
            time.sleep(max(0.0, min(LOOK_EVERY, until - time.monotonic())))

    def _note_mended(self, wounds: Sequence[Wound], look: Look, say: Say) -> None:
        now = time.monotonic()
        for wound in wounds:
            if verdict.is_mended(wound, look, now, self._settings.lease):
                wound.mended = now
                say(f"           {wound.strike.number:5}  mended after {1000 * (wound.took or 0.0):.0f} ms")

    def _go_on(self, now: float) -> None:
        """SIGCONT to those whose time is over; nobody stays stopped."""
        for due, held in list(self._stopped):
            if now >= due:
                with contextlib.suppress(ProcessLookupError):
                    held.send(signal.SIGCONT)
                held.close()
                self._stopped.remove((due, held))

    def _look_if_it_answers(self) -> Look | None:
        try:
            return self.look()
        except StoreError:
            return None

    def _watchdogs(self) -> Mapping[str, Process]:
        if self.stack is None:
            return watchdogs(self._settings.namespace, self._url)
        pid = self.stack.processes().get("watchdog")
        process = None if pid is None else find(pid)
        return {} if process is None else {"watchdog": process}

    # The signals.

    def _traffic(self, wanted: Wanted, counted: Sequence[str]) -> Traffic | None:
        if counted:
            return Traffic(
                self.client,
                lambda number: (counted[number % len(counted)], Increment(number=number), None),
                wanted.rate,
            )
        if not wanted.sent:
            return None
        return Traffic(self.client, lambda number: wanted.sent[number % len(wanted.sent)], wanted.rate)

    def _settle(self, traffic: Traffic) -> None:
        end = time.monotonic() + SETTLE_SECONDS
        with self.client() as client:
            traffic.settle(client)
            while traffic.waiting and time.monotonic() < end:
                time.sleep(0.1)
                traffic.settle(client)

    def _counts(self, counted: Sequence[str]) -> dict[str, int]:
        with self.client() as client:
            return {agent: client.state(agent, Counter).count for agent in counted}

    # The end.

    def _report(
        self,
        before: Look,
        after: Look,
        since: str,
        traffic: Traffic | None,
        counts: Mapping[str, int],
    ) -> dict[str, Any]:
        miscounted: dict[str, str] = {}
        if traffic is not None:
            for agent, count in self._counts(list(counts)).items():
                due = counts[agent] + traffic.applied.get(agent, 0)
                if count != due:
                    miscounted[agent] = f"has counted {count}, {due} of its signals were applied"
        faults = verdict.faults(
            before=before.agents,
            after=after,
            wounds=self._wounds,
            events=self._events(since, {agent.id for agent in after.agents.values() if agent.pooled}),
            lost=[] if traffic is None else traffic.lost,
            waiting=[] if traffic is None else traffic.waiting,
            miscounted=miscounted,
        )
        if traffic is not None and not traffic.applied and traffic.refused + traffic.dead:
            faults.append("not one of the signals sent was applied: see --send")
        return {
            "verdict": "ok" if not faults else "faults",
            "faults": faults,
            "strikes": len(self._wounds),
            "without_a_target": self._skipped,
            "recoveries": verdict.recoveries(self._wounds),
            "not_running": verdict.explained(after),
            "signals": None if traffic is None else {
                "accepted": traffic.accepted, "applied": sum(traffic.applied.values()), "dead": traffic.dead,
                "unanswered": traffic.unanswered, "refused": traffic.refused,
            },
        }  # fmt: skip

    def _events(self, since: str, pooled: set[str]) -> list[Mapping[str, str]]:
        """All since then, of agents with processes of their own."""
        found: list[Mapping[str, str]] = []
        while page := self._connection.command(views.events(self._keys, after=since, count=1000)):
            found += [fields for _, fields in page if fields.get("agent") not in pooled]
            since = page[-1][0]
        return found
