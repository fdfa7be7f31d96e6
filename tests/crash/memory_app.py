"""Agents that take more memory than they are allowed, in several ways."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Mapping
from typing import Any

from regrow_workers.agent import Agent
from regrow_workers.handlers import handles
from regrow_workers.step import Step
from tests.crash.recorder_app import Misbehave, Number, Seen

MIB = 1 << 20

leaked: list[bytearray] = []


class Hoarder(Agent[Seen], name="recorder"):
    @handles(Number)
    def number(self, seen: Seen, number: Number) -> Step[Seen]:
        return seen.evolve(numbers=(*seen.numbers, number.n))

    @handles(Misbehave)
    def take(self, seen: Seen, wanted: Misbehave) -> Step[Seen]:
        match wanted.how:
            case "grow":
                while True:
                    leaked.append(bytearray(b"x") * (2 * MIB))
            case "jump":
                leaked.append(bytearray(8192 * MIB))
            case "swallow":
                with contextlib.suppress(MemoryError):
                    leaked.append(bytearray(8192 * MIB))
            case "leak":
                leaked.append(bytearray(b"x") * (10 * MIB))
            case "share":
                # Mapped, never written to: it is nobody's memory yet.
                mmap.mmap(-1, 64 * MIB)
            case _:
                return None
        return None


class _Tree:
    name = "hoarders"

    def agent_types(self) -> Mapping[str, type[Agent[Any]]]:
        return {"recorder": Hoarder}


tree = _Tree()
