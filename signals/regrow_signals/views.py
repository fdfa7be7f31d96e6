"""Looking in: read-only commands for the command line, metrics and tests. Nothing here changes anything.

Text that is not UTF-8 is shown with its bytes spelled out (``\\xff``): a view never fails on what it shows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from regrow_signals import replies
from regrow_signals.calls import Command, Op
from regrow_signals.errors import BadInput, NoSuchAgent
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys

__all__ = [
    "agent_ids",
    "agent_record",
    "agent_records",
    "counters",
    "dead_letters",
    "dead_length",
    "effect_ids",
    "effect_record",
    "limited_names",
    "parked_ids",
    "events",
    "journal",
    "leader",
    "mailbox",
    "mailbox_length",
    "newest_entry",
    "next_timer_ms",
    "node_ids",
    "node_record",
    "oldest_waiting",
    "outbox",
    "own_timer_ids",
    "stored_state",
    "supervisor_paths",
    "supervisor_record",
    "timer_ids",
    "timer_record",
]

Record = dict[str, str]
Listed = list[tuple[str, Record]]


def agent_ids(keys: Keys) -> Command[list[str]]:
    """Ids of all registered agents, in order."""
    return _sorted_members(keys.agents)


def agent_record(keys: Keys, agent: str) -> Command[Record]:
    """The agent's hash; empty when there is no such agent."""
    return Command(("HGETALL", keys.agent(check_id(agent, "agent"))), _record, hint=agent)


def agent_records(keys: Keys, agents: list[str], *fields: str) -> list[Command[Record]]:
    """Some fields of many agents, for one pipeline: what scrapes and trees read. An absent field is ''."""

    def parse(values: Any) -> Record:
        return {
            field: shown(value) if value is not None else ""
            for field, value in zip(fields, values, strict=True)
        }

    return [Command(("HMGET", keys.agent(agent), *fields), parse, hint=agent) for agent in agents]


def mailbox_length(keys: Keys, agent: str) -> Command[int]:
    """How many signals wait."""
    return Command(("XLEN", keys.mailbox(check_id(agent, "agent"))), int, hint=agent)


def oldest_waiting(keys: Keys, agent: str) -> Command[int]:
    """When the oldest waiting signal was accepted, in Redis ms; 0 when none waits."""
    return Command(
        ("XRANGE", keys.mailbox(check_id(agent, "agent")), "-", "+", "COUNT", 1), _accepted_ms, hint=agent
    )


def mailbox(keys: Keys, agent: str, *, after: str = "", count: int = 100) -> Command[Listed]:
    """Waiting signals in order, from after the entry ``after``."""
    return _range(keys.mailbox(check_id(agent, "agent")), after, count)


def dead_letters(keys: Keys, agent: str, *, after: str = "", count: int = 100) -> Command[Listed]:
    """Dead letters, the oldest first, with the id that retry and drop take."""
    return _range(keys.dead(check_id(agent, "agent")), after, count)


def dead_length(keys: Keys, agent: str) -> Command[int]:
    """How many dead letters there are."""
    return Command(("XLEN", keys.dead(check_id(agent, "agent"))), int, hint=agent)


def outbox(keys: Keys, agent: str, *, after: str = "", count: int = 100) -> Command[Listed]:
    """Committed effects and held emits not yet settled."""
    return _range(keys.outbox(check_id(agent, "agent")), after, count)


def journal(keys: Keys, agent: str, *, after: str = "", count: int = 100) -> Command[Listed]:
    """The last transitions, the oldest first."""
    return _range(keys.journal(check_id(agent, "agent")), after, count)


def events(keys: Keys, *, after: str = "", count: int = 100, newest: bool = False) -> Command[Listed]:
    """Life events, the oldest first; ``newest``: the last ``count`` of them. To follow, use ``read_stream``."""
    if newest:
        words = ("XREVRANGE", keys.events, "+", "-", "COUNT", count)
        return Command(words, lambda reply: _entries(reply)[::-1], hint=keys.events)
    return _range(keys.events, after, count)


def newest_entry(key: str) -> Command[str]:
    """The id of a stream's newest entry; '' when it has none."""
    return Command(
        ("XREVRANGE", key, "+", "-", "COUNT", 1), lambda reply: str(reply[0][0]) if reply else "", hint=key
    )


def effect_ids(keys: Keys, *, awaited: bool = False, count: int = 100) -> Command[list[str]]:
    """Ids of committed effects of one queue (``awaited``: of those that are an ``async def``), the next first."""
    queue = keys.effects_async if awaited else keys.effects
    return Command(("ZRANGE", queue, 0, count - 1), lambda reply: [shown(one) for one in reply], hint=queue)


def limited_names(keys: Keys) -> Command[list[str]]:
    """Names of effects that have a ``concurrency`` or a ``rate``."""
    return Command(
        ("HKEYS", keys.limits), lambda reply: sorted(shown(one) for one in reply), hint=keys.limits
    )


def parked_ids(keys: Keys, name: str, *, awaited: bool = False, count: int = 100) -> Command[list[str]]:
    """Ids of committed effects of a name that wait for room under its limit, the next first."""
    key = keys.parked(name, awaited=awaited)
    return Command(("ZRANGE", key, 0, count - 1), lambda reply: [shown(one) for one in reply], hint=key)


def effect_record(keys: Keys, effect: str) -> Command[Record]:
    """An effect's hash; empty once it is settled."""
    return Command(("HGETALL", keys.effect(check_id(effect, "effect"))), _record, hint=effect)


def node_ids(keys: Keys) -> Command[list[str]]:
    """Ids of all nodes that are up."""
    return _sorted_members(keys.nodes)


def node_record(keys: Keys, node: str) -> Command[Record]:
    """A node's hash; empty when there is no such node."""
    return Command(("HGETALL", keys.node(check_id(node, "node"))), _record, hint=node)


def counters(keys: Keys) -> Command[dict[str, int]]:
    """All counters. One that was overwritten by hand with what is no number is left out."""

    def parse(flat: Any) -> dict[str, int]:
        return {name: int(value) for name, value in _record(flat).items() if value.lstrip("-").isdecimal()}

    return Command(("HGETALL", keys.counters), parse, hint=keys.counters)


def supervisor_paths(keys: Keys) -> Command[list[str]]:
    """Paths of all stored supervisors, in order."""
    return Command(("SMEMBERS", keys.supervisors), _sorted, hint=keys.supervisors)


def supervisor_record(keys: Keys, path: str) -> Command[Record]:
    """A supervisor's hash; empty when there is none of this path."""
    return Command(("HGETALL", keys.supervisor(check_id(path, "supervisor"))), _record, hint=path)


def next_timer_ms(keys: Keys) -> Command[int | None]:
    """When the first of all timers is looked at, in Redis ms; None while there is none."""

    def parse(reply: Any) -> int | None:
        return int(float(reply[1])) if reply else None

    return Command(("ZRANGE", keys.timers, 0, 0, "WITHSCORES"), parse, hint=keys.timers)


def timer_ids(keys: Keys, *, count: int = 100) -> Command[list[str]]:
    """Ids of timers of all agents, the next first."""
    return Command(
        ("ZRANGE", keys.timers, 0, count - 1), lambda reply: [shown(one) for one in reply], hint=keys.timers
    )


def own_timer_ids(keys: Keys, agent: str) -> Command[list[str]]:
    """Ids of the timers that an agent set itself, in order; those that its class declares are named in its record."""
    return Command(("SMEMBERS", keys.timers_of(check_id(agent, "agent"))), _sorted, hint=agent)


def timer_record(keys: Keys, timer: str) -> Command[Record]:
    """A timer's hash; empty when it is gone."""
    return Command(("HGETALL", keys.timer(timer)), _record, hint=timer)


def leader(keys: Keys) -> Command[str]:
    """The token of the watchdog that leads; '' when none does."""
    return Command(
        ("GET", keys.leader), lambda token: shown(token) if token is not None else "", hint=keys.leader
    )


def stored_state(keys: Keys, agent: str, types: Collection[str] = ()) -> Op[tuple[str, int]]:
    """The agent's state as JSON, and its schema; before the first commit, the initial data that it was given.

    ``types``: names that the agent's type may have (empty: any); another one is refused, for its state might fit.
    """
    fields = ("type", "state", "init", "schema")
    words = ("HMGET", keys.agent(check_id(agent, "agent")), *fields)
    kind, state, init, schema = yield Command(words, list, hint=agent)
    if kind is None:
        raise NoSuchAgent(f"no agent {agent} is registered")
    if types and kind not in types:
        raise BadInput(
            f"agent {agent} is of type {shown(kind)!r}, not {sorted(types)[0]!r}: name its own class"
        )
    return str(state or init or "{}"), int(schema or 1)


def shown(value: object) -> str:
    """Text for people: bytes that are not UTF-8 are spelled out."""
    text = str(value)
    return text if replies.is_text(text) else replies.raw(text).decode("utf-8", "backslashreplace")


def _sorted_members(key: str) -> Command[list[str]]:
    return Command(("ZRANGE", key, 0, -1), _sorted, hint=key)


def _sorted(members: Any) -> list[str]:
    return sorted(map(shown, members))


def _range(key: str, after: str, count: int) -> Command[Listed]:
    return Command(("XRANGE", key, f"({after}" if after else "-", "+", "COUNT", count), _entries, hint=key)


def _entries(reply: Any) -> Listed:
    return [(str(entry), _record(flat)) for entry, flat in reply]


def _record(flat: Any) -> Record:
    return {shown(name): shown(value) for name, value in replies.pairs(flat).items()}


def _accepted_ms(reply: Any) -> int:
    for entry, fields in _entries(reply):
        at_ms = fields.get("at_ms", "")
        return int(at_ms) if at_ms.isdecimal() else int(entry.partition("-")[0])
    return 0
