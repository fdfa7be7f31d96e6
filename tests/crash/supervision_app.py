"""The application of the supervision tests: agents that end as they are told; branches come at run time."""

from __future__ import annotations

import os
import time
from typing import Any

from regrow import Agent, Payload, State, Step, Stop, Supervisor, handles
from regrow_supervisor.spec import Pause


class Fail(Payload, type="player.fail"):
    how: str


class Played(Payload, type="player.played"):
    n: int


class Score(State):
    played: tuple[int, ...] = ()


class Player(Agent[Score], name="player"):
    @handles(Played)
    def played(self, score: Score, played: Played) -> Step[Score]:
        return score.evolve(played=(*score.played, played.n))

    @handles(Fail)
    def fail(self, score: Score, fail: Fail) -> Step[Score]:
        match fail.how:
            case "normal":
                return Stop("normal")
            case "exception":
                raise ValueError("told to raise")
            case "exit":
                os._exit(3)
            case "deadline":
                while True:
                    score = Score(played=score.played)
            case _:
                return None


class Deaf(Agent[Score], name="deaf"):
    """Never comes back from a signal, so a request to stop finds it busy."""

    @handles(Played)
    def played(self, score: Score, played: Played) -> Step[Score]:
        while True:
            score = Score(played=score.played)


class Slow(Agent[Score], name="slow"):
    """Takes its time over a signal, longer than it takes to ask it to stop."""

    @handles(Played)
    def played(self, score: Score, played: Played) -> Step[Score]:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            score = Score(played=score.played)
        return score.evolve(played=(*score.played, played.n))


def player(name: str, **fields: Any) -> Any:
    return Player.child(name, max_attempts=1, deadline=0.5, **fields)


tree = Supervisor("stage", agents=[Player, Deaf, Slow], max_restarts=100_000, max_seconds=1)

# Roots of their own, handed in by further watchdogs.
fragile = Supervisor("fragile", [player("fragile-a"), player("fragile-b")], max_restarts=0, pause=Pause(0.2))
town_before = Supervisor("town", [player("mayor"), player("baker"), Supervisor("port", [player("pilot")])])
town_after = Supervisor(
    "town", [player("mayor"), player("smith"), Supervisor("port", [player("pilot"), player("cook")])]
)
