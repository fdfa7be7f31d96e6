"""The protocol of a life as a model that can be searched: what the world is made of.

What is modelled is DESIGN's "one mailbox, one cursor, one commit" and ``docs/internals.md`` "The life of an agent".
Each script is one indivisible step, since Redis runs it so; everything between two scripts may be interleaved,
interrupted or lost. The whole world is one hashable value.

    step in the model             script in signals/regrow_signals/lua
    ----------------------------  ----------------------------------------------------------------------------
    scripts.send                  send.lua          accept a signal, remembered by its id; refused when full
    scripts.claim                 claim.lua         owner, careful_until, the charge of the last exit
    scripts.reload                reload.lua        read by token, after a reconnect or a conflict
    scripts.mark_trying           trying.lua        which signal is in hand while careful
    scripts.commit                commit.lua        state, version, cursor, trim, emits, dead letters
    scripts.release               release.lua       clean = 1
    scripts.report                report_exit.lua   ended, owner = "", what was in hand, charge, entry in exits
    scripts.decide, .forget       decision.lua      incarnation + 1, owner = "", order, exits entry away
    scripts.deliver, .expire      deliver_held.lua  the relay; an emit held too long becomes a dead letter
    actors.node_steps             (no script)       the node reads orders, forks, reaps, ends what is stale
    faults                        (no script)       crash, broken line, repeated order, false verdict, lost node

A *broken line* is every loss of a reply at once: the call stays in ``flight``, where it runs at any later time (also
after its sender's death, also after the takeover) or is dropped, while its sender repeats the call or reloads. A
frozen process is one whose next step comes late, so it needs no step of its own.

``test_protocol_conformance.py`` runs walks of this model on a real server and compares every answer and every record.

Left out, because no step of the protocol reads it: ``started`` in exits (the watchdog notes it only), journal,
counters, effects, timers; the version of the supervisor's record is stood in for by the incarnation that the decision
saw, which the same decision changes. Redis going back in time is not searched here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "NOBODY",
    "Budget",
    "Call",
    "Flaw",
    "Kind",
    "Order",
    "Phase",
    "Plan",
    "Process",
    "Record",
    "Report",
    "Scenario",
    "Step",
    "World",
    "beginning",
    "emitted_by",
    "kind_of",
    "token_of",
]

NOBODY = 0
"""``owner = ""``."""

EMIT_BASE = 1000
"""Contents from here on are emits: ``EMIT_BASE * (sender + 1) + entry at the sender``."""


class Kind(StrEnum):
    """What a signal does to the agent that handles it."""

    PLAIN = "plain"
    EMITS = "emits"
    REJECTED = "rejected"
    POISON = "poison"


class Flaw(StrEnum):
    """One deliberate break each; the search has to find every one."""

    TOKEN_IN_ORDER = "the order carries the token"
    CURSOR_NOT_COMPARED = "commit compares the version only"
    BASE_NOT_COMPARED = "a repeated commit is applied again: neither base nor landed check"
    LANDED_NOT_CHECKED = "a repeat of a landed commit is taken for a fence"
    OWNER_OVERWRITTEN = "claim does not need an empty owner"
    CLAIM_IGNORES_INCARNATION = "claim does not compare the incarnation"
    OWNER_KEPT_AT_TAKEOVER = "neither exit report nor decision empties the owner"
    CLAIM_AFTER_END = "claim does not ask whether its life was reported ended"
    SUPERSEDED_IS_AN_END = "the exit of a process that never owned ends the life"
    OVERTAKEN = "a later emit goes directly while earlier ones are held"
    RELAY_IN_TWO_STEPS = "the relay appends first and removes in a second call"
    NO_EXPIRY = "a held emit never becomes a dead letter"
    RELEASE_UNFENCED = "release is not fenced"
    EXIT_OF_ANY_LIFE = "an exit report is taken whatever its incarnation"
    REPEATED_CLAIM_CHARGES = "a repeated claim charges the signal in hand again"
    DECISION_UNFENCED = "a decision is carried out by an old leader, for an exit already answered"
    NO_DEDUPE = "a repeated send is accepted again"
    DROP_UNNOTICED = "a commit does not ask whether one of its signals gave way to a newer one"


class Phase(StrEnum):
    """Where a process stands; in each it may crash, freeze or lose its line."""

    FORKED = "forked"
    LOADED = "loaded"
    TRYING = "trying"
    HANDLING = "handling"
    COMMITTING = "committing"
    RELOADING = "reloading"
    RELEASING = "releasing"


class Plan(NamedTuple):
    """A commit as it is sent: base, result, and the entries that it dead-letters."""

    base_version: int
    base_cursor: int
    version: int
    cursor: int
    applied: tuple[int, ...]
    dead: tuple[int, ...]


class Record(NamedTuple):
    """``{ns}:agent:<id>`` with its mailbox, outbox and dead letters. ``log`` is the history of what was accepted."""

    incarnation: int = 1
    owner: int = NOBODY
    node: int = 0
    version: int = 0
    cursor: int = 0
    applied: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    mailbox: tuple[int, ...] = ()
    log: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    shed: tuple[int, ...] = ()
    clean: bool = True
    careful_until: int = 0
    trying: int = 0
    attempts: int = 0
    charge: int = 0
    ended: int = 0
    dropped: int = 0
    deaths: int = 0  # what really happened: how often poison took a process down


class Process(NamedTuple):
    """One worker process: its life's number and token, and its memory."""

    agent: int
    incarnation: int
    token: int
    node: int
    phase: Phase = Phase.FORKED
    version: int = 0
    cursor: int = 0
    applied: tuple[int, ...] = ()
    careful_until: int = 0
    trying: int = 0
    attempts: int = 0
    condemned: bool = False
    plan: Plan | None = None


class Call(NamedTuple):
    """A script with its arguments, as it lies in a socket. ``args`` of decide: leader, exit answered (0 or 1), node."""

    script: str
    agent: int
    incarnation: int = 0
    token: int = 0
    args: tuple[int, ...] = ()
    plan: Plan | None = None


class Order(NamedTuple):
    """A start order in ``{ns}:control:<node>``; ``runs`` counts its executions (one, unless the node is at fault)."""

    node: int
    agent: int
    incarnation: int
    runs: int = 0


class Report(NamedTuple):
    """An exit that the node has still to report, and repeats until it is taken."""

    node: int
    agent: int
    incarnation: int
    charge: int
    in_hand: int = 0
    superseded: bool = False


class Budget(NamedTuple):
    """How many faults of each kind may still happen."""

    crashes: int = 0
    breaks: int = 0
    verdicts: int = 0
    repeats: int = 0
    lost_nodes: int = 0
    depositions: int = 0
    drains: int = 0


class World(NamedTuple):
    """Everything there is. Unordered collections are kept sorted, so that equal worlds are equal values."""

    agents: tuple[Record, ...]
    orders: tuple[Order, ...]
    budget: Budget
    processes: tuple[Process, ...] = ()
    flight: tuple[Call, ...] = ()
    reports: tuple[Report, ...] = ()
    exits: tuple[tuple[int, int], ...] = ()
    deciding: Call | None = None
    leader: int = 1
    lost: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()


class Step(NamedTuple):
    """One possible next world. ``fault`` steps are those that may stop happening."""

    label: str
    world: World
    fault: bool = False
    call: Call | None = None
    reply: str = ""


class Scenario(NamedTuple):
    """What is searched: the signals sent to each agent in order, bounds, faults, and at most one flaw."""

    name: str
    signals: tuple[tuple[Kind, ...], ...]
    budget: Budget
    batch: int = 2
    max_mailbox: int = 10
    max_outbox: int = 10
    max_attempts: int = 2
    nodes: int = 1
    latest: bool = False
    """Signals are published: in a full mailbox the oldest gives way to the newest (``policy=latest``)."""
    flaw: Flaw | None = None


def beginning(scenario: Scenario) -> World:
    """Every agent is registered, its first start order written."""
    count = len(scenario.signals)
    return World(
        agents=(Record(),) * count,
        orders=tuple(Order(0, agent, 1) for agent in range(count)),
        budget=scenario.budget,
        sent=(0,) * count,
    )


def kind_of(scenario: Scenario, agent: int, content: int) -> Kind:
    """Senders number their signals from 1; an emit does nothing further."""
    return Kind.PLAIN if content >= EMIT_BASE else scenario.signals[agent][content - 1]


def emitted_by(agent: int, entry: int) -> int:
    """The emit's id: sender and acceptance id, so that a second life makes the same one."""
    return EMIT_BASE * (agent + 1) + entry


def token_of(flaw: Flaw | None, order: Order) -> int:
    """A token of the process's own; equal only where the flaw says so."""
    run = 0 if flaw is Flaw.TOKEN_IN_ORDER else order.runs
    return 10 * order.incarnation + run + 1
