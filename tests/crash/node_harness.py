"""A node in a process of its own, driven without a watchdog: the tests write the decisions themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from regrow_signals import leadership, mailbox
from regrow_signals.connection import Connection
from regrow_signals.decisions import AgentBounds
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.signal import Payload, Signal
from tests.conftest import wait_until
from tests.crash.processes import alive, children, descendants, is_spare
from tests.crash.recorder_app import Number

LEADER = "the test"
ROOT = Path(__file__).resolve().parents[2]

NODE_MAIN = """
import json, sys
from regrow_workers import log
from regrow_workers.node import run_node
from regrow_workers.settings import NodeSettings
told = json.loads(sys.argv[1])
settings = NodeSettings(die_with_parent=True, **told["settings"])
log.configure(settings.log_format, settings.log_level)
sys.exit(run_node(settings, url=told["url"], namespace="regrow", application=told["application"]))
"""


def numbers(first: int, last: int) -> list[Number]:
    return [Number(n=n) for n in range(first, last + 1)]


class NodeUnderTest:
    """One ``run_node`` in a process; its log is kept for the failing test's message."""

    def __init__(
        self,
        url: str,
        application: str = "tests.crash.recorder_app:tree",
        environment: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        told = {"url": url, "application": application, "settings": {"log_level": "DEBUG", **settings}}
        self._launched = bool(launcher)
        self.log = Path(tempfile.mkdtemp(prefix="regrow-node-")) / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*launcher, sys.executable, "-c", NODE_MAIN, json.dumps(told)],
                env={
                    **os.environ,
                    **(environment or {}),
                    "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("signals", "workers", ".")),
                },
                stderr=log,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def ask_to_end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to our own child."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """After a test: kill, show the log, and see that nothing is left."""
        left = descendants(self.process.pid)
        self.kill()
        print(self.said())
        wait_until(lambda: not any(map(alive, left)), "a killed node leaves no process behind", timeout=10)

    @property
    def pid(self) -> int:
        """The node's own, also where something launched it."""
        return children(self.process.pid)[0] if self._launched else self.process.pid

    def spawner(self) -> int:
        (pid,) = children(self.pid)
        return pid

    def spares(self) -> list[int]:
        return [pid for pid in children(self.spawner()) if is_spare(pid)]

    def wait_spare(self) -> int:
        """Until a spare is ready; its pid."""

        def ready() -> list[int]:
            said = self.said()
            return [pid for pid in self.spares() if re.search(rf"spare_ready .*pid={pid}\b", said)]

        wait_until(ready, "a spare is ready")
        return ready()[0]


StartNode = Callable[..., NodeUnderTest]


class Decisions:
    """What the watchdog would write: registration and start, stop, kill orders."""

    def __init__(self, url: str) -> None:
        self.keys = Keys("regrow")
        self.limits = Limits()
        self.raw: Any = redis.Redis.from_url(url, decode_responses=True)
        self.connection = Connection.open(url, name="test")
        self._incarnations: dict[str, int] = {}
        self.connection.call(leadership.acquire(self.keys, LEADER, 600_000))

    def close(self) -> None:
        self.raw.close()
        self.connection.close()

    def node_id(self) -> str:
        """The id of the youngest node, once it has joined."""
        wait_until(lambda: self.raw.zcard(self.keys.nodes), "a node joins", timeout=20)
        news = [fields for _, fields in self.exits() if fields["kind"] == "node"]
        return [each["node"] for each in news if each["event"] == "joined"][-1]

    def register(self, agent: str, **bounds: Any) -> None:
        new = leadership.Register(
            agent=agent, type="recorder", supervisor="recorders", bounds=AgentBounds(**bounds)
        )
        self._decide(register=(new,))

    def start(self, agent: str, node: str, **fields: str) -> int:
        """Order the next incarnation of ``agent`` on ``node``; its number."""
        incarnation = self._incarnations.get(agent, 0) + 1
        self._incarnations[agent] = incarnation
        order = {
            "type": "recorder",
            "supervisor": "recorders",
            "deadline_ms": "5000",
            "shutdown_ms": "5000",
            **fields,
        }
        self._decide(
            starts=(leadership.StartOrder(agent=agent, incarnation=incarnation, node=node, fields=order),)
        )
        return incarnation

    def order(self, node: str, **fields: str) -> None:
        self._decide(orders=(leadership.NodeOrder(node=node, fields=fields),))

    def send(self, agent: str, *payloads: Payload) -> None:
        calls = [
            mailbox.send(self.keys, self.limits, agent, Signal.of(each, source="test")) for each in payloads
        ]
        for answer in self.connection.pipeline(calls):
            assert not isinstance(answer, Exception), answer

    # What is seen.

    def agent(self, agent: str) -> dict[str, str]:
        return dict(self.raw.hgetall(self.keys.agent(agent)))

    def numbers(self, agent: str) -> list[int]:
        return list(json.loads(self.agent(agent).get("state") or "{}").get("numbers", []))

    def exits(self) -> list[tuple[str, dict[str, str]]]:
        return list(self.raw.xrange(self.keys.exits))

    def ends(self, agent: str) -> list[dict[str, str]]:
        return [
            fields
            for _, fields in self.exits()
            if fields.get("kind") == "exited" and fields["agent"] == agent
        ]

    def dead(self, agent: str) -> list[dict[str, str]]:
        return [fields for _, fields in self.raw.xrange(self.keys.dead(agent))]

    def wait_running(self, agent: str, incarnation: int) -> int:
        """Until that incarnation has claimed; its pid."""

        def claimed() -> bool:
            record = self.agent(agent)
            return record.get("incarnation") == str(incarnation) and bool(record.get("owner"))

        wait_until(claimed, f"incarnation {incarnation} of {agent} claims")
        return int(self.agent(agent)["pid"])

    def wait_end(self, agent: str, number: int = 1, timeout: float = 10) -> dict[str, str]:
        """The ``number``-th reported end of the agent."""
        wait_until(lambda: len(self.ends(agent)) >= number, f"end {number} of {agent} is reported", timeout)
        return self.ends(agent)[number - 1]

    def wait_numbers(self, agent: str, expected: list[int], timeout: float = 10) -> None:
        wait_until(lambda: self.numbers(agent) == expected, f"{agent} has seen {expected[:20]}", timeout)

    def _decide(self, **parts: Any) -> None:
        decision = leadership.DecisionCommit(token=LEADER, **parts)
        self.connection.call(leadership.commit_decision(self.keys, self.limits, decision))
