"""The protocol of a life, searched over every interleaving: it holds, and each deliberate break of it is found."""

from __future__ import annotations

import pytest

from tests.protocol.scenarios import SCENARIOS
from tests.protocol.search import Found, search
from tests.protocol.world import Flaw, Scenario

CAUGHT: dict[Flaw, tuple[str, str]] = {
    Flaw.TOKEN_IN_ORDER: ("order repeated", "never two owners able to commit"),
    Flaw.CURSOR_NOT_COMPARED: ("killed, lines broken twice", "settled exactly once"),
    Flaw.BASE_NOT_COMPARED: ("two full agents, lines broken", "an emit is neither lost nor doubled"),
    Flaw.LANDED_NOT_CHECKED: ("killed twice", "refused with the owner still ours is no fence"),
    Flaw.OWNER_OVERWRITTEN: ("order repeated", "one incarnation never has two owners"),
    Flaw.CLAIM_IGNORES_INCARNATION: ("false verdict", "only the current incarnation is claimed"),
    Flaw.OWNER_KEPT_AT_TAKEOVER: ("killed twice", "never comes to rest"),
    Flaw.CLAIM_AFTER_END: ("killed twice", "one incarnation never has two owners, nor one after its end"),
    Flaw.SUPERSEDED_IS_AN_END: ("order repeated", "a life is reported ended only when it is over"),
    Flaw.OVERTAKEN: ("two full agents, killed", "emits arrive in order"),
    Flaw.RELAY_IN_TWO_STEPS: ("two full agents", "an emit is neither lost nor doubled"),
    Flaw.NO_EXPIRY: ("two full agents", "never comes to rest"),
    Flaw.RELEASE_UNFENCED: ("drained", "release of a life that is over leaves no trace"),
    Flaw.EXIT_OF_ANY_LIFE: ("false verdict", "a life is reported ended only when it is over"),
    Flaw.REPEATED_CLAIM_CHARGES: ("poison", "condemned only for deaths that happened"),
    Flaw.DECISION_UNFENCED: ("node lost", "one incarnation never has two owners"),
    Flaw.NO_DEDUPE: ("killed twice", "a signal id is accepted once"),
    Flaw.DROP_UNNOTICED: ("latest", "each signal up to the cursor is settled exactly once"),
}


@pytest.mark.timeout(300)  # seconds of one core each, on a machine that may have better things to do
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_protocol_holds_in_every_interleaving(scenario: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    worlds = search(scenario)

    with capsys.disabled():
        print(f"\n{scenario.name}: {worlds:,} worlds, all promises hold, all can come to rest")
    assert worlds > 1_000


@pytest.mark.parametrize("flaw", Flaw, ids=[flaw.name.lower() for flaw in Flaw])
def test_every_break_of_the_protocol_is_found(flaw: Flaw) -> None:
    name, promise = CAUGHT[flaw]

    with pytest.raises(Found, match=promise) as found:
        search(SCENARIOS[name]._replace(flaw=flaw))

    assert found.value.path, "a break is shown with the steps that lead to it"
