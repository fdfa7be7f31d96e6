"""The demo's kills: when each was noticed, when the agent ran again, and where it went on. All read from Redis."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from regrow import Client
from regrow.errors import RegrowError
from regrow_signals import views
from regrow_signals.calls import Command

__all__ = ["Death", "Deaths"]

BACK_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Death:
    """One kill. Times are Redis's clock in milliseconds."""

    number: int
    how: str
    incarnation: int
    at_ms: float
    version: int
    waiting: int


class Deaths:
    """Kills one agent's process, and remembers."""

    def __init__(self, client: Client, agent: str) -> None:
        self._client = client
        self._agent = agent
        self._killed: list[Death] = []
        self._poison: list[str] = []

    def record(self, agent: str = "") -> dict[str, str]:
        """An agent's record; empty before it is registered."""
        return self._client.connection.command(views.agent_record(self._client.keys, agent or self._agent))

    def runs(self, agent: str) -> bool:
        """Has it a process that claimed it?"""
        return self.record(agent).get("status") == "running"

    def is_idle(self, agent: str = "") -> bool:
        """It runs, and nothing waits."""
        name = agent or self._agent
        waiting = self._client.connection.command(views.mailbox_length(self._client.keys, name))
        return waiting == 0 and self.runs(name)

    def kill(self, how: str, work: Callable[[], None] | None = None) -> None:
        """SIGKILL to whatever process is its worker now.

        With ``work`` (which gives it something to do) it stands still meanwhile (SIGSTOP, SIGCONT), so that it dies in
        the middle of that; not long enough for anybody to call it dead before.
        """
        self.wait_running()
        descriptor = os.pidfd_open(int(self.record()["pid"]))
        try:
            if work is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
                work()
            death = self._about_to_die(how)
            if work is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
        self._killed.append(death)

    def _about_to_die(self, how: str) -> Death:
        record, waiting, at_ms = self._client.connection.pipeline(
            [
                views.agent_record(self._client.keys, self._agent),
                views.mailbox_length(self._client.keys, self._agent),
                Command(("TIME",), _milliseconds),
            ]
        )
        return Death(
            number=len(self._killed) + 1,
            how=how,
            incarnation=int(record["incarnation"]),
            at_ms=at_ms,
            version=int(record["version"]),
            waiting=waiting,
        )

    def wait_back(self) -> None:
        """Until a later incarnation runs than the one killed last."""
        self.wait_running(after=self._killed[-1].incarnation if self._killed else 0)

    def wait_running(self, after: int = 0) -> None:
        """Until it runs, in a later incarnation than ``after``."""
        end = time.monotonic() + BACK_SECONDS
        while True:
            record = self.record()
            if record.get("status") == "running" and int(record["incarnation"]) > after:
                return
            if time.monotonic() > end:
                raise RegrowError(
                    f"{self._agent} did not come back within {BACK_SECONDS:g} s: {record.get('status')}"
                )
            time.sleep(0.002)

    def count(self) -> int:
        """All its ends so far, the poison's included."""
        return sum(1 for fields in self._events() if fields["event"] == "exited")

    def note_poison(self, ticket: str, deaths: int, reason: str) -> None:
        """The poison ticket's own line in the report."""
        self._poison.append(
            f"  poison ticket {ticket}: its process died {deaths} times, then it was a dead letter: {reason}"
        )

    def report(self, say: Callable[[str], object]) -> None:
        """For each kill: noticed, running again, at which version it went on."""
        say(f"{self._agent} was killed {len(self._killed)} times (SIGKILL):")
        events = self._events()
        for death in self._killed:
            noticed = self._at(events, "exited", death.incarnation)
            again = self._at(events, "started", death.incarnation + 1)
            say(
                f"  {death.number}. {death.how + ',':<34} {death.waiting:>2} waiting: noticed after "
                f"{noticed - death.at_ms:5.1f} ms, running again after {again - death.at_ms:5.1f} ms as incarnation "
                f"{death.incarnation + 1}, from version {self._went_on_at(events, death)}"
            )
        for line in self._poison:
            say(line)

    def _events(self) -> list[dict[str, str]]:
        listed = self._client.connection.command(views.events(self._client.keys, count=10_000))
        return [fields for _, fields in listed if fields.get("agent") == self._agent]

    def _at(self, events: list[dict[str, str]], event: str, incarnation: int) -> float:
        for fields in events:
            if fields["event"] == event and fields.get("incarnation") == str(incarnation):
                return float(fields["at_ms"])
        raise RegrowError(f"no event {event!r} of {self._agent}, incarnation {incarnation}")

    def _went_on_at(self, events: list[dict[str, str]], death: Death) -> str:
        for fields in events:
            if fields["event"] == "started" and fields.get("incarnation") == str(death.incarnation + 1):
                return fields.get("version", "?")
        return "?"


def _milliseconds(time: list[str]) -> float:
    """The reply of TIME."""
    return int(time[0]) * 1000 + int(time[1]) / 1000
