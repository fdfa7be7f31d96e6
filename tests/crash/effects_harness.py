"""An effects node in a process of its own; the tests commit what orders the effects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis

from regrow_signals.commits import EffectAppend
from regrow_signals.connection import Connection
from regrow_signals.effect_tags import EffectTagAppend, cancel_tagged
from regrow_signals.keys import Keys
from tests.conftest import wait_until
from tests.crash.processes import alive, children, descendants
from tests.integration.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = os.pathsep.join(str(ROOT / each) for each in ("signals", "workers", "supervisor", "."))

NODE_MAIN = """
import json, sys
from regrow_workers import log
from regrow_workers.effects.effects_node import run_effects
from regrow_workers.settings import NodeSettings
told = json.loads(sys.argv[1])
settings = NodeSettings(die_with_parent=True, **told.pop("settings"))
log.configure(settings.log_format, settings.log_level)
sys.exit(run_effects(settings, namespace="regrow", **told))
"""


class EffectsNodeUnderTest:
    """One ``run_effects`` in a process; its log is kept for the failing test's message."""

    def __init__(
        self, url: str, *, rq_url: str = "", executors: int = 2, application: str = "", **settings: Any
    ) -> None:
        told = {
            "url": url,
            "rq_url": rq_url or url,
            "executors": executors,
            "application": application or "tests.crash.effects_app:tree",
            "settings": {"log_level": "DEBUG", **settings},
        }
        self.log = Path(tempfile.mkdtemp(prefix="regrow-effects-")) / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", NODE_MAIN, json.dumps(told)],
                env={**os.environ, "PYTHONPATH": SOURCE_ROOTS},
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

    def spawner(self) -> int:
        (pid,) = children(self.process.pid)
        return pid

    def executors(self) -> list[int]:
        return [pid for spawner in children(self.process.pid) for pid in children(spawner)]


@dataclass(frozen=True)
class Mark:
    """One call of the function."""

    effect_id: str
    attempt: int
    pid: int
    at: float


class Orders:
    """Agent ``a`` orders effects by commits, and is told their outcomes."""

    def __init__(self, url: str, marks: Path) -> None:
        self.keys = Keys("regrow")
        self.connection = Connection.open(url, name="test")
        self.raw: redis.Redis = redis.Redis.from_url(url, decode_responses=True)
        self.stage = Stage(self.connection, self.raw, self.keys)
        self.stage.node("n1")
        self._owner, self._loaded = self.stage.live("a")
        self._marks = marks
        self._count = 0

    def close(self) -> None:
        self.connection.close()
        self.raw.close()

    def order(self, how: str = "", **fields: Any) -> str:
        """One commit with one effect; its id."""
        return self.order_many(how, 1, **fields)[0]

    def order_many(self, how: str, count: int, **fields: Any) -> list[str]:
        [entry] = self.stage.feed("a")
        args = fields.pop("args", json.dumps({"how": how, "marks": str(self._marks)}))
        known: dict[str, Any] = {"timeout_ms": 60_000, "retries": 3, "idempotent": True, "backoff_ms": 100}
        name, tag = fields.pop("name", "charge"), fields.pop("tag", "")
        effects = [
            EffectAppend(f"birth:{entry}:{n}", name, args, **{**known, **fields}) for n in range(1, count + 1)
        ]
        tags = [EffectTagAppend(each.effect_id, tag) for each in effects if tag]
        plan = self.stage.plan(self._owner, self._loaded, entry, effects=effects, others=tags)
        self.stage.commit(plan)
        self._owner, self._loaded = self._reloaded()
        return [each.effect_id for each in effects]

    def cancel(self, tag: str) -> tuple[int, int]:
        return self.connection.call(cancel_tagged(self.keys, "a", tag))

    def _reloaded(self) -> Any:
        from regrow_signals.agents import reload

        return self._owner, self.connection.call(reload(self.keys, self._owner))

    # What is seen.

    def marks(self, effect_id: str = "") -> list[Mark]:
        if not self._marks.exists():
            return []
        found = [line.split() for line in self._marks.read_text().splitlines()]
        marks = [Mark(one, int(attempt), int(pid), float(at)) for one, attempt, pid, at in found]
        return [mark for mark in marks if effect_id in ("", mark.effect_id)]

    def wait_called(self, effect_id: str, times: int = 1, timeout: float = 10) -> list[Mark]:
        wait_until(
            lambda: len(self.marks(effect_id)) >= times, f"{effect_id} is called {times} times", timeout
        )
        return self.marks(effect_id)

    def outcomes(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (fields["type"], json.loads(fields["data"]))
            for fields in self.stage.entries(self.keys.mailbox("a"))
            if fields["source"].startswith("effect:")
        ]

    def outcome(self, effect_id: str, timeout: float = 10) -> tuple[str, dict[str, Any]]:
        """The one outcome of this effect, once it is there."""

        def found() -> list[tuple[str, dict[str, Any]]]:
            return [each for each in self.outcomes() if each[1]["effect"] == effect_id]

        wait_until(found, f"an outcome of {effect_id} is delivered", timeout)
        [outcome] = found()
        return outcome

    def record(self, effect_id: str) -> dict[str, str]:
        return cast("dict[str, str]", self.raw.hgetall(self.keys.effect(effect_id)))

    def wait_up(self, node: EffectsNodeUnderTest, executors: int = 2) -> None:
        """Until RQ knows that many of the node's executors: they wait for doorbells."""
        raw: Any = self.raw

        def waiting() -> bool:
            known = {raw.hget(worker, "pid") for worker in raw.smembers("rq:workers")}
            return len({str(pid) for pid in node.executors()} & known) >= executors

        wait_until(waiting, "the executors wait for doorbells", 20)
