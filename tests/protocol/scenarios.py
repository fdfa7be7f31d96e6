"""What is searched: small systems, each with the faults that its part of the protocol has to stand."""

from __future__ import annotations

from tests.protocol.world import Budget, Kind, Scenario

__all__ = ["SCENARIOS"]

P, E, R, X = Kind.PLAIN, Kind.EMITS, Kind.REJECTED, Kind.POISON

SCENARIOS: dict[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("killed, lines broken twice", ((P, R, P),), Budget(crashes=1, breaks=2)),
        Scenario("killed twice", ((P, P),), Budget(crashes=2, breaks=1)),
        Scenario("false verdict", ((P, R),), Budget(crashes=1, breaks=1, verdicts=1)),
        Scenario("false verdict, lines broken twice", ((P,),), Budget(crashes=1, breaks=2, verdicts=1)),
        Scenario("order repeated", ((P,),), Budget(crashes=1, breaks=1, repeats=1)),
        Scenario("poison", ((P, X, P),), Budget(crashes=1, breaks=1)),
        Scenario("drained", ((P, P),), Budget(crashes=1, verdicts=1, drains=1)),
        Scenario("node lost", ((P,),), Budget(crashes=1, verdicts=1, lost_nodes=1, depositions=1), nodes=2),
        Scenario("leader deposed", ((P,),), Budget(crashes=1, breaks=1, verdicts=1, depositions=1)),
        Scenario("two full agents", ((E, E), (E, E)), Budget(), max_mailbox=1, max_outbox=0, batch=1),
        Scenario(
            "two full agents, lines broken", ((E, E, E), (E,)), Budget(breaks=1), max_mailbox=1, max_outbox=1
        ),
        Scenario("two full agents, killed", ((E, E), (P, E)), Budget(crashes=1), max_mailbox=1, max_outbox=1),
        Scenario(
            "two full agents, killed, lines broken",
            ((E, E), (E,)),
            Budget(crashes=1, breaks=1),
            max_mailbox=1,
            max_outbox=0,
            batch=1,
        ),
        Scenario("two full agents, verdict", ((E, E), (E,)), Budget(verdicts=1), max_mailbox=1, max_outbox=0),
        Scenario("latest", ((P, P, P, P),), Budget(crashes=1, breaks=1), max_mailbox=2, latest=True),
        Scenario("latest, poison", ((P, X, P, P),), Budget(crashes=1), max_mailbox=2, latest=True),
        Scenario("latest, verdict", ((P, R, P),), Budget(verdicts=1, breaks=1), max_mailbox=1, latest=True),
        Scenario(
            "agent that emits to itself",
            ((E, E, E),),
            Budget(crashes=1, breaks=1),
            max_mailbox=2,
            max_outbox=0,
        ),
    )
}
