"""Who leads, and what is asked of the leader. ``decisions.py`` has the commit of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from regrow_signals.answers import answer, flat, nothing
from regrow_signals.calls import Call
from regrow_signals.decisions import (
    AgentUpdate,
    DecisionCommit,
    Fence,
    NodeOrder,
    PooledStart,
    Register,
    StartOrder,
    SupervisorWrite,
    commit_decision,
)
from regrow_signals.errors import BadInput, BadSetting
from regrow_signals.keys import Keys
from regrow_signals.limits import Limits
from regrow_signals.scripts import declare

__all__ = [
    "acquire",
    "renew",
    "resign",
    "request",
    "AgentUpdate",
    "DecisionCommit",
    "Fence",
    "NodeOrder",
    "PooledStart",
    "Register",
    "StartOrder",
    "SupervisorWrite",
    "commit_decision",
]

MAX_EVENTS: Final = Limits().max_events

MAX_EXITS: Final = 100_000
"""With so many entries in the watchdog's mailbox no request is taken any more: nobody reads them."""

MAX_REQUEST_FIELDS: Final = 50

ACQUIRE: Final = declare(
    "acquire", keys=["leader", "counters", "events"], args=["token", "lease_ms", "max_events"]
)
RENEW: Final = declare("renew", keys=["leader"], args=["token", "lease_ms"])
RESIGN: Final = declare("resign", keys=["leader", "events"], args=["token", "max_events"])
REQUEST: Final = declare(
    "request",
    keys=["exits", "reply", "asked"],
    args=["request", "op", "max_exits"],
    arg_tail="fields",
)


def acquire(keys: Keys, token: str, lease_ms: int) -> Call[bool]:
    """Take the lease if it is free, renew it if it is ours; False while another holds it."""
    args = (_token(token), _lease(lease_ms), MAX_EVENTS)
    return Call(
        ACQUIRE, (keys.leader, keys.counters, keys.events), args, _yes, repeatable=True, hint="leader"
    )


def renew(keys: Keys, token: str, lease_ms: int) -> Call[bool]:
    """Prolong the lease; False when it is not ours any more."""
    return Call(
        RENEW, (keys.leader,), (_token(token), _lease(lease_ms)), _yes, repeatable=True, hint="leader"
    )


def resign(keys: Keys, token: str) -> Call[None]:
    """Give the lease back, if it is ours."""
    args = (_token(token), MAX_EVENTS)
    return Call(RESIGN, (keys.leader, keys.events), args, nothing("leader"), repeatable=True, hint="leader")


def request(keys: Keys, request_id: str, op: str, fields: Mapping[str, str]) -> Call[bool]:
    """Ask something of the watchdog; the answer comes as the one element of ``keys.reply(request_id)``.

    False: this request id was taken before, so a repeat is harmless. ``Refused`` when nobody reads requests.
    """
    if len(fields) > MAX_REQUEST_FIELDS:
        raise BadInput(f"{len(fields)} fields in a request; {MAX_REQUEST_FIELDS} is the bound")
    names = (keys.exits, keys.reply(request_id), keys.reply(f"{request_id}:asked"))
    args = (request_id, op, MAX_EXITS, *flat(fields))
    return Call(
        REQUEST,
        names,
        args,
        lambda reply: answer(reply, f"request {op}")[0] == "ok",
        repeatable=True,
        hint=op,
    )


def _yes(reply: object) -> bool:
    return bool(answer(reply, "leader")[1] == "1")


def _token(token: str) -> str:
    if not token:
        raise BadInput("a leader needs a token")
    return token


def _lease(lease_ms: int) -> int:
    if lease_ms < 100:
        raise BadSetting(
            f"lease of {lease_ms} ms: must be at least 100 ms, and longer than the watchdog's loop"
        )
    return lease_ms
