"""An agent that leaves processes behind, or does harm to its group: with nobody to refuse it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from regrow_workers.agent import Agent
from regrow_workers.handlers import handles
from regrow_workers.step import Step
from tests.crash.recorder_app import Misbehave, Number, Seen


class Parent(Agent[Seen], name="recorder", guard="off"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        return seen.evolve(numbers=(*seen.numbers, number.n))

    @handles(Misbehave)
    def misbehave(self, seen: Seen, wanted: Misbehave) -> Step[Seen]:
        match wanted.how:
            case "children":
                for _ in range(3):
                    _child()
            case "detached":
                _child(detached=True)
            case "kill the group":
                _child()
                os.killpg(0, signal.SIGKILL)
            case _:
                return None
        return None


def _child(*, detached: bool = False) -> None:
    """A process that lives until it is killed; ``detached``: in a session of its own, its parent gone."""
    if os.fork() != 0:
        return
    if detached:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    while True:
        time.sleep(60)


class _Tree:
    name = "parents"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"recorder": Parent}


tree = _Tree()
