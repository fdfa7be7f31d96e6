"""The real scripts do what the model does: random walks of the model are run on a real server, and every answer and
every record is compared."""

from __future__ import annotations

from random import Random

import pytest

from tests.protocol.actors import loaded, successors
from tests.protocol.real_store import RealStore, comparable
from tests.protocol.world import Budget, Kind, Process, Scenario, Step, World, beginning

P, E, R, X = Kind.PLAIN, Kind.EMITS, Kind.REJECTED, Kind.POISON

MANY = Budget(crashes=4, breaks=40, verdicts=3, repeats=2, lost_nodes=1, depositions=2, drains=2)

FAULTS = 0.35
"""How often a fault is chosen, where there is a choice: with fewer no call is repeated, with more nothing is done."""

ANSWERS = {
    *(("send", word) for word in ("accepted", "duplicate", "full")),
    *(("claim", word) for word in ("claimed", "fenced")),
    *(("commit", word) for word in ("committed", "landed", "conflict", "fenced")),
    *(("reload", word) for word in ("loaded", "fenced")),
    *(("report", word) for word in ("recorded", "known", "stale")),
    *(("decide", word) for word in ("decided", "conflict", "not_leader")),
    *(("forget", word) for word in ("forgotten", "conflict", "not_leader")),
    *(("trying", word) for word in ("marked", "conflict", "fenced")),
    *(("release", word) for word in ("released", "fenced")),
    ("deliver", "delivered"),
    ("expire", "expired"),
}
"""Every answer that a script of the model has: the walks together have to meet each."""

SEEDS = 20

WALKS = (
    Scenario("one agent", ((P, R, X, P, P, R, P, X, P),), MANY, batch=3, nodes=2),
    Scenario(
        "two full agents", ((E, E, R, E, P, E), (E, E, X, E, E)), MANY, max_mailbox=2, max_outbox=1, nodes=2
    ),
    Scenario("latest", ((P, R, P, P, X, P, P, P, R, P),), MANY, max_mailbox=2, batch=3, nodes=2, latest=True),
    Scenario("self emitting", ((E, R, E, E, X, E),), MANY, max_mailbox=3, max_outbox=1, nodes=2),
)


@pytest.mark.timeout(300)  # some thousand calls; seconds on an idle machine
def test_scripts_follow_the_model(redis_url: str) -> None:
    met: set[tuple[str, str]] = set()

    for scenario in WALKS:
        for seed in range(SEEDS):
            store = RealStore(redis_url, scenario, f"{scenario.name.replace(' ', '-')}-{seed}")
            try:
                walk(scenario, store, Random(seed), met)
            finally:
                store.close()

    assert met == ANSWERS


def walk(
    scenario: Scenario, store: RealStore, chance: Random, met: set[tuple[str, str]], longest: int = 250
) -> None:
    """Random steps until nothing is left to do; every call of the model is made to the server too."""
    world, path = beginning(scenario), list[str]()
    while len(path) < longest and (steps := list(successors(scenario, world))):
        step = chosen(steps, chance)
        path.append(f"{step.label} {step.call or ''} {step.reply}")
        store.lead(step.world.leader)
        if step.call is not None:
            follow(scenario, store, world, step, path)
            met.add((step.call.script, step.reply))
        world = step.world


def chosen(steps: list[Step], chance: Random) -> Step:
    """Any step; expiry seldom, since it would leave the relay nothing to deliver."""
    fault = chance.random() < FAULTS
    fitting = [step for step in steps if step.fault is fault] or steps
    patient = [step for step in fitting if step.reply != "expired"]
    return chance.choice(patient if patient and chance.random() < 0.9 else fitting)


def follow(scenario: Scenario, store: RealStore, before: World, step: Step, path: list[str]) -> None:
    assert step.call is not None
    agent = step.call.agent
    told = "\n  ".join(path[-40:])

    word, found = store.run(before, step.call)

    assert word == step.reply, f"the script answered {word}:\n  {told}"
    assert store.exits() == step.world.exits, f"exits:\n  {told}"
    for one, record in enumerate(step.world.agents):
        assert store.record(one) == comparable(record), f"agent {one}:\n  {told}"
    if found is not None:
        memory = loaded(scenario, Process(agent, 0, 0, 0), step.world.agents[agent])
        expected = {name: getattr(memory, name) for name in ("version", "cursor", "applied", "condemned")}
        assert store.shown(found, agent) == expected, f"loaded:\n  {told}"
