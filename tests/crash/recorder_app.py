"""The application of the node's crash tests: it remembers every number it saw, and can be told to fail in many ways."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regrow_signals.signal import Payload
from regrow_workers.agent import Agent
from regrow_workers.directives import Emit, Stop
from regrow_workers.handlers import handles
from regrow_workers.state import State
from regrow_workers.step import Step


class Number(Payload, type="test.number"):
    n: int


class Misbehave(Payload, type="test.misbehave"):
    how: str


class Forward(Payload, type="test.forward"):
    to: str
    n: int


class Seen(State):
    numbers: tuple[int, ...] = ()


class Recorder(Agent[Seen], name="recorder"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        return seen.evolve(numbers=(*seen.numbers, number.n))

    @handles(Forward)
    def forward(self, seen: Seen, wanted: Forward) -> Step[Seen]:
        return Emit(Number(n=wanted.n), to=wanted.to)

    @handles(Misbehave)
    def misbehave(self, seen: Seen, wanted: Misbehave) -> Step[Seen]:
        match wanted.how:
            case "raise":
                raise ValueError("told to raise")
            case "exit":
                os._exit(3)
            case "sys.exit":
                raise SystemExit(0)
            case "segfault":
                ctypes.string_at(0)
            case "spin":
                while True:
                    seen = Seen(numbers=seen.numbers)
            case "slow":
                end = time.monotonic() + 0.5
                while time.monotonic() < end:
                    seen = Seen(numbers=seen.numbers)
                return seen.evolve(numbers=(*seen.numbers, -1))
            case "hold the lock":
                # A call that keeps the interpreter lock: native code that spins.
                ctypes.PyDLL(None).sleep(60)
            case "stop":
                return Stop("normal")
            case gate if gate.startswith("/"):
                # A link, not a file: opening one for writing is what a transition is kept from.
                Path(f"{gate}.inside").symlink_to("nowhere")
                while not Path(gate).exists():
                    pass
            case _:
                return None
        return None


class _Tree:
    name = "recorders"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"recorder": Recorder}


tree = _Tree()
