"""``regrow doctor``: is everything here that regrow stands on, and how much may be lost? Reads, and changes nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

from regrow.client import server_url
from regrow.diagnosis import (
    Check,
    exit_code,
    judge_agents,
    judge_clock,
    judge_cluster,
    judge_eviction,
    judge_key_types,
    judge_leader,
    judge_letters,
    judge_memory,
    judge_nodes,
    judge_persistence,
    judge_pool,
    judge_python,
    judge_rights,
    judge_version,
)
from regrow.large_branches import children_reasons
from regrow.pool_view import read_pool
from regrow.server_rights import missing_rights
from regrow.settings import Settings
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.census import take_census
from regrow_signals.connection import Connection
from regrow_signals.errors import BadSetting, StoreError
from regrow_signals.keys import Keys
from regrow_signals.server_check import info_fields
from regrow_signals.server_url import mask_url

__all__ = ["examine", "run_doctor"]

_MOST_KEYS = 10_000
_LETTERS = 100


def run_doctor(settings: Settings, *, as_json: bool = False) -> int:
    """Print every check, a line each or one JSON list; the exit code is 0 (well), 1 (warnings) or 2 (failures)."""
    checks: list[Check] = []
    for check in examine(settings):
        checks.append(check)
        if not as_json:
            print(check, flush=True)
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    return exit_code(checks)


def examine(settings: Settings) -> Iterator[Check]:
    """Every check in turn; those of the server end with the first that cannot reach it."""
    yield judge_python(sys.version_info[:2], sys.platform)
    changed = sorted(settings.model_fields_set - {"redis_url", "namespace"})
    yield Check("settings", "OK", f"changed: {', '.join(changed)}" if changed else "all defaults")
    keys = Keys(settings.namespace)
    try:
        url = server_url(settings)
    except BadSetting as error:
        yield Check("server", "FAIL", str(error))
        return
    with Connection.open(url, name="regrow-doctor") as connection:
        try:
            connection.command(Command(("PING",), str, hint="PING"))
        except StoreError as error:
            yield Check("server", "FAIL", str(error), "start it, or correct REDIS_URL")
            return
        yield Check("server", "OK", f"{mask_url(url)} answers")
        for step in (_of_the_server, _of_the_system):
            try:
                yield from step(connection, keys, settings)
            except StoreError as error:
                yield Check("server", "FAIL", str(error), "see the checks above, and the server's log")


def _of_the_server(connection: Connection, keys: Keys, settings: Settings) -> Iterator[Check]:
    info = _info(connection)
    if info is None:
        yield Check("version", "WARN", "unknown (INFO is denied to this user)", "grant +info")
    else:
        yield judge_version(info)
        yield judge_eviction(info)
        yield judge_persistence(info, _config(connection))
        yield judge_memory(info)
        yield judge_cluster(info, settings.namespace)
    yield judge_rights(missing_rights(connection, keys))
    before = time.time()
    seconds = connection.command(Command(("TIME",), _seconds, hint="TIME"))
    yield judge_clock(seconds, before, time.time())


def _of_the_system(connection: Connection, keys: Keys, settings: Settings) -> Iterator[Check]:
    names, complete = _key_names(connection, keys)
    types = connection.pipeline([Command(("TYPE", name), str, hint=name) for name in names])
    found = {name: kind for name, kind in zip(names, types, strict=True) if isinstance(kind, str)}
    wrong = judge_key_types(keys, found, complete=complete)
    yield wrong
    if found.get(keys.nodes, "zset") == "zset":
        beats = connection.command(
            Command(("ZRANGE", keys.nodes, 0, -1, "WITHSCORES"), _scores, hint=keys.nodes)
        )
        now = connection.command(Command(("TIME",), _seconds, hint="TIME"))
        yield judge_nodes({node: now - beat / 1000 for node, beat in beats.items()}, settings.node_timeout)
    if found.get(keys.agents, "zset") == "zset":
        census = connection.run(take_census(keys))
        yield judge_agents(census, children_reasons(connection, keys, census.down))
        letters = connection.pipeline(
            [views.dead_letters(keys, seen.agent, count=_LETTERS) for seen in census.lettered]
        )
        yield judge_letters(
            census, [cast("views.Listed", each) for each in letters if isinstance(each, list)]
        )
        yield judge_pool(read_pool(connection, keys, census.queues))
    if found.get(keys.leader, "string") == "string":
        leader = connection.command(Command(("GET", keys.leader), _text, hint=keys.leader))
        left = connection.command(Command(("PTTL", keys.leader), int, hint=keys.leader))
        yield judge_leader(leader, left)


def _info(connection: Connection) -> dict[str, str] | None:
    try:
        return connection.command(Command(("INFO",), info_fields, hint="INFO"))
    except StoreError:
        return None


def _config(connection: Connection) -> dict[str, str]:
    """Empty where this user may not ask: the checks then say unknown."""
    try:
        return connection.command(
            Command(("CONFIG", "GET", "appendfsync", "save"), _pairs, hint="CONFIG GET")
        )
    except StoreError:
        return {}


def _key_names(connection: Connection, keys: Keys) -> tuple[list[str], bool]:
    """Keys of the namespace, some 10,000 at most, and whether these are all. SCAN shows no key of another's."""
    names: set[str] = set()
    cursor = "0"
    while True:
        words = ("SCAN", cursor, "MATCH", f"{keys.tag}:*", "COUNT", 1000)
        cursor, found = connection.command(Command(words, _page, hint="SCAN"))
        names.update(found)
        if cursor == "0" or len(names) >= _MOST_KEYS:
            return sorted(names), cursor == "0"


def _page(reply: Any) -> tuple[str, list[str]]:
    return str(reply[0]), [str(name) for name in reply[1]]


def _pairs(reply: Any) -> dict[str, str]:
    return dict(zip(map(str, reply[::2]), map(str, reply[1::2]), strict=True))


def _scores(reply: Any) -> dict[str, float]:
    return {name: float(score) for name, score in _pairs(reply).items()}


def _seconds(reply: Any) -> float:
    return int(reply[0]) + int(reply[1]) / 1_000_000


def _text(reply: Any) -> str | None:
    return None if reply is None else str(reply)
