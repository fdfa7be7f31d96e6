"""The application of the supervision tests: agents that end as they are told; branches come at run time."""

from __future__ import annotations

import os
from typing import Any

from regrow import Agent, Payload, State, Step, Stop, Supervisor, handles


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
    """Takes so long over one signal that a request to stop finds it busy."""

    @handles(Played)
    def played(self, score: Score, played: Played) -> Step[Score]:
        while True:
            score = Score(played=score.played)


def player(name: str, **fields: Any) -> Any:
    return Player.child(name, max_attempts=1, deadline=0.5, **fields)


tree = Supervisor("stage", agents=[Player, Deaf], max_restarts=100_000, max_seconds=1)
