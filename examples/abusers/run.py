"""One run: start everything, measure the good agents in quiet, let all abusers loose at once, look at what is left."""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from regrow import Client, Message, RegrowError
from regrow.metrics.collector import RegrowCollector
from regrow.settings import load_settings
from regrow.up import Stack

from .abuses import ABUSES, Abuse
from .app import GOOD, Do, Number
from .marked import MARK, left_over, marked
from .verdict import NUMBERS, Latency, Report, Seen

__all__ = ["NotInTime", "measure_each", "run"]

APPLICATION = "examples.abusers.app:tree"
NAMESPACE = "abusers"
START_SECONDS = 60.0
OVER_SECONDS = 100.0
LEFT_SECONDS = 5.0
PACE = 0.004
"""Seconds from one signal to a good agent to the next."""


class NotInTime(RegrowError):
    """Something that must come true did not; the message names it."""


def run(*, quiet: int = 2000, say: Callable[[str], object] = lambda _line: None) -> Report:
    """``quiet``: how many signals go to the good agents in quiet, half before the abuse and half after it.

    While it lasts they are sent at the same pace.
    """
    with _room(say) as room:
        report = room.live(quiet)
    report.left_after_stop = _wait_empty(lambda: {pid: name for pid, (_, name) in marked(room.mark).items()})
    return report


def measure_each(
    *, quiet: int = 400, say: Callable[[str], object] = lambda _line: None
) -> dict[str, tuple[Latency, Latency]]:
    """One abuser after the other, alone: the good agents' latency in quiet around it, and while it lasts."""
    with _room(say) as room:
        return room.measure_each(quiet)


@contextmanager
def _room(say: Callable[[str], object]) -> Generator[_Room, None, None]:
    # The thread that passes the services' output on is in the same process as whoever measures.
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        with tempfile.TemporaryDirectory(prefix="regrow-abusers-") as name:
            folder = Path(name)
            settings = load_settings(state_dir=folder, namespace=NAMESPACE, redis_url="")
            mark = secrets.token_hex(8)
            with (folder / "log").open("w", encoding="utf-8") as log:
                stack = Stack(
                    APPLICATION,
                    settings=settings,
                    services=("watchdog", "worker"),
                    environment={MARK: mark},
                    output=lambda name, line: print(name, "|", line, file=log),
                )
                with stack:
                    yield _Room(stack, mark, say)
    finally:
        sys.setswitchinterval(before)


class _Room:
    """A running system, and who looks at it from outside: by the public keys, and by sending."""

    def __init__(self, stack: Stack, mark: str, say: Callable[[str], object]) -> None:
        self._stack = stack
        self.mark = mark
        self._say = say
        self._redis: Any = redis.Redis.from_url(stack.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
        self._client = Client(stack.url, namespace=NAMESPACE)
        self._rounds = 0
        self._journal: dict[str, str] = {}

    def live(self, quiet: int) -> Report:
        names = [abuse.name for abuse in ABUSES]
        with self._client:
            self._wait_up()
            services = self._stack.processes()
            self._say(f"{len(GOOD)} good agents and {len(names)} abusers run; {quiet} signals in quiet ...")
            before = self._ping(quiet // len(GOOD) // 2, lambda: False)
            self._say("all abusers at once ...")
            began = time.monotonic()
            self._let_loose(ABUSES)
            during = self._ping(1, lambda: not self._is_over(ABUSES))
            over = time.monotonic() - began
            before += self._ping(quiet // len(GOOD) // 2, lambda: False)
            left = _wait_empty(lambda: left_over(
                marked(self.mark), self._stack.processes().values(), self._pids()))  # fmt: skip
            report = Report(
                abusers={name: self._seen(name) for name in names},
                good={name: self._seen(name) for name in GOOD},
                sent_to_good=self._rounds,
                counted_ends=self._counted_ends(),
                moved=[name for name, pid in services.items() if self._stack.processes().get(name) != pid],
                quiet=_latency(before),
                busy=_latency(during),
                seconds=over,
                left=left,
            )
        self._redis.close()
        return report

    def measure_each(self, quiet: int) -> dict[str, tuple[Latency, Latency]]:
        found: dict[str, tuple[Latency, Latency]] = {}
        with self._client:
            self._wait_up()
            for abuse in ABUSES:
                around = self._ping(quiet // len(GOOD) // 2, lambda: False)
                self._let_loose([abuse])
                during = self._ping(1, lambda abuse=abuse: not self._is_over([abuse]))  # type: ignore[misc]
                around += self._ping(quiet // len(GOOD) // 2, lambda: False)
                found[abuse.name] = _latency(around), _latency(during)
                self._say(f"{abuse.name} ...")
        self._redis.close()
        return found

    def _wait_up(self) -> None:
        names = [*GOOD, *(abuse.name for abuse in ABUSES)]
        _until(lambda: all(self._record(each).get("status") == "running" for each in names),
               "all agents run", START_SECONDS)  # fmt: skip
        self._ping(2, lambda: False)

    # The good ones.

    def _ping(self, rounds: int, goes_on: Callable[[], bool]) -> list[float]:
        """One signal after the other, each from before its sending to its commit; each good agent gets as many.

        So many rounds, and then on for as long as ``goes_on``.
        """
        times: list[float] = []
        end = time.monotonic() + OVER_SECONDS
        while rounds > 0 or goes_on():
            rounds -= 1
            self._rounds += 1
            for agent in GOOD:
                began = time.perf_counter()
                self._client.send(agent, Number(n=self._rounds))
                self._await_commit(agent)
                times.append((time.perf_counter() - began) * 1000)
                time.sleep(PACE)
            if rounds <= 0 and time.monotonic() > end:
                raise NotInTime(f"not over within {OVER_SECONDS:g} s")
        return times

    def _await_commit(self, agent: str) -> None:
        """Redis tells of the next line of its journal."""
        key = self._key(f"journal:{agent}")
        found = self._redis.xread({key: self._journal.get(agent, "0-0")}, count=1, block=20_000)
        if not found:
            raise NotInTime(f"{agent} did not commit within 20 s")
        self._journal[agent] = found[0][1][0][0]

    # The others.

    def _let_loose(self, abuses: Sequence[Abuse]) -> None:
        messages: list[Message] = []
        for abuse in abuses:
            numbers = [Message(abuse.name, Number(n=n)) for n in NUMBERS]
            messages += [
                *numbers[:2],
                *[Message(abuse.name, Do(deed=abuse.name))] * abuse.times,
                *numbers[2:],
            ]
        refused = [each for each in self._client.send_many(messages) if isinstance(each, RegrowError)]
        if refused:
            raise refused[0]

    def _is_over(self, abuses: Sequence[Abuse]) -> bool:
        return all(
            self._numbers(abuse.name) == NUMBERS and self._record(abuse.name)["status"] == "running"
            for abuse in abuses
        )

    # What Redis says.

    def _key(self, rest: str) -> str:
        return f"{{{NAMESPACE}}}:{rest}"

    def _record(self, agent: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self._redis.hgetall(self._key(f"agent:{agent}"))
        return found

    def _pids(self) -> set[int]:
        agents: Sequence[str] = self._redis.zrange(self._key("agents"), 0, -1)
        return {int(self._record(agent).get("pid") or 0) for agent in agents}

    def _numbers(self, agent: str) -> tuple[int, ...]:
        return tuple(json.loads(self._record(agent).get("state") or "{}").get("seen", ()))

    def _seen(self, agent: str) -> Seen:
        events: list[tuple[str, Mapping[str, str]]] = self._redis.xrange(self._key("events"))
        ends = [
            each["reason"] for _, each in events if each["event"] == "exited" and each.get("agent") == agent
        ]
        letters = [fields["reason"] for _, fields in self._client.dead_letters(agent, count=100)]
        return Seen(
            tuple(ends), tuple(letters), self._record(agent).get("last_error", ""), self._numbers(agent)
        )

    def _counted_ends(self) -> dict[str, int]:
        families = RegrowCollector(self._stack.url, NAMESPACE).collect()
        samples = [sample for family in families for sample in family.samples]
        return {
            sample.labels["reason"]: int(sample.value)
            for sample in samples
            if sample.name == "regrow_exits_total" and sample.value
        }


def _latency(times: Sequence[float]) -> Latency:
    ordered = sorted(times)
    return Latency(
        statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], len(ordered)
    )


def _until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise NotInTime(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def _wait_empty(look: Callable[[], Mapping[int, str]]) -> Mapping[int, str]:
    """What is there still after a moment in which it may go."""
    end = time.monotonic() + LEFT_SECONDS
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found
