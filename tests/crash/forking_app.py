"""An agent whose handler forks, and a hook that does so when told: what their copies do must be nobody's business."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regrow_workers.agent import Agent
from regrow_workers.application import on_worker_start
from regrow_workers.handlers import handles
from regrow_workers.step import Step
from tests.crash.recorder_app import Misbehave, Number, Seen

FOLDER = Path(os.environ["REGROW_TEST_COPIES"])


def note_copy() -> None:
    (FOLDER / str(os.getpid())).touch()


@on_worker_start
def fork_in_hook() -> None:
    if (FOLDER / "hook").exists() and os.fork() == 0:
        note_copy()


class Forker(Agent[Seen], name="recorder", guard="off"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        return seen.evolve(numbers=(*seen.numbers, number.n))

    @handles(Misbehave)
    def misbehave(self, seen: Seen, wanted: Misbehave) -> Step[Seen]:
        if wanted.how == "orphan":
            subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)
            return seen.evolve(numbers=(*seen.numbers, 0))
        if os.fork() == 0:
            note_copy()
            match wanted.how:
                case "raise":
                    raise ValueError("told to raise")
                case "exit":
                    raise SystemExit(0)
                case "live on":
                    while True:
                        time.sleep(60)
                case _:
                    pass
        return seen.evolve(numbers=(*seen.numbers, 0))


class _Tree:
    name = "forkers"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"recorder": Forker}


tree = _Tree()
