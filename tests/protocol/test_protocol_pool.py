"""Pooled agents, searched over every interleaving of slots, nodes and the watchdog; each deliberate break is found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.protocol import pool_model
from tests.protocol.pool_model import PoolFlaw, PoolScenario, PoolWorld
from tests.protocol.search import Found, explore

SCENARIOS = {
    one.name: one
    for one in (
        PoolScenario("killed", (2, 1), crashes=1),
        PoolScenario("killed twice", (2,), crashes=2),
        PoolScenario("stuck, and killed", (1, 1), crashes=1, stuck=1),
        PoolScenario("held", (2, 1), stuck=1, holds=1),
        PoolScenario("held, and killed", (2,), crashes=1, holds=1),
    )
}

CAUGHT: dict[PoolFlaw, tuple[str, str]] = {
    PoolFlaw.COMMIT_UNFENCED: ("stuck, and killed", "leaves no trace"),
    PoolFlaw.FREED_KEEPS_OWNER: ("killed", "in the claims of their slot"),
    PoolFlaw.FREED_UNQUEUED: ("killed", "is in the queue"),
    PoolFlaw.RELEASE_FORGETS_BACKLOG: ("killed", "is in the queue"),
    PoolFlaw.ONE_LOOK: ("killed", "never comes to rest"),
    PoolFlaw.ALL_CHARGED: ("killed", "one is charged"),
    PoolFlaw.HOLD_KEEPS_OWNER: ("held", "nobody owns a life that is over"),
    PoolFlaw.QUEUED_TWICE: ("killed", "."),
}


def search(scenario: PoolScenario) -> int:
    def steps(world: PoolWorld) -> Iterator[tuple[str, PoolWorld, bool]]:
        pool_model.check(scenario, world)
        yield from pool_model.successors(scenario, world)

    start = pool_model.beginning(scenario)
    return explore(scenario.name, start, steps, partial(pool_model.at_rest, scenario))


@pytest.mark.timeout(120)  # seconds of one core each, on a machine that may have better things to do
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_pooled_agents_hold_their_promises_in_every_interleaving(
    scenario: PoolScenario, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds = search(scenario)

    with capsys.disabled():
        print(f"\npool, {scenario.name}: {worlds:,} worlds, all promises hold, all can come to rest")
    assert worlds > 500


@pytest.mark.parametrize("flaw", PoolFlaw, ids=[flaw.name.lower() for flaw in PoolFlaw])
def test_every_break_of_the_pool_is_found(flaw: PoolFlaw) -> None:
    name, promise = CAUGHT[flaw]

    with pytest.raises(Found, match=promise) as found:
        search(SCENARIOS[name]._replace(flaw=flaw))

    assert found.value.path, "a break is shown with the steps that lead to it"
