"""One look at the system: what Redis says of agents, nodes and leader, and their processes on this host."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regrow.chaos.plan import Kind
from regrow.chaos.processes import Process, children, command_of, environment_of, find, name_of
from regrow.settings import variable_of
from regrow_signals import views
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import RegrowError
from regrow_signals.keys import Keys

__all__ = ["Agent", "Look", "Node", "look_at", "others_hosts", "redis_of", "targets", "watchdogs"]

WORKER, SPARE = "regrow-worker", "regrow-spare"
SPAWNER = "regrow_workers.spawner"
_FIELDS = ("status", "pid", "node", "incarnation", "isolation", "handled", "failed", "exit_reason")


@dataclass(frozen=True, slots=True)
class Agent:
    """Of its record."""

    id: str
    status: str
    pid: int
    node: str
    incarnation: int
    pooled: bool
    dealt_with: int
    """Signals that were applied, or became dead letters."""
    exit_reason: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """Of its record."""

    id: str
    kind: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Look:
    """At one moment. ``targets``: by kind, what can be struck, by name."""

    agents: Mapping[str, Agent]
    nodes: Mapping[str, Node]
    leader: str
    targets: Mapping[Kind, Mapping[str, Process]] = field(default_factory=dict[Kind, Mapping[str, Process]])


def look_at(connection: Connection, keys: Keys) -> Look:
    """Redis alone. Raises ``StoreError`` while it cannot be asked."""
    ids = connection.command(views.agent_ids(keys))
    nodes = connection.command(views.node_ids(keys))
    answers = connection.pipeline([
        *views.agent_records(keys, ids, *_FIELDS),
        *(views.node_record(keys, node) for node in nodes),
        views.leader(keys),
    ])  # fmt: skip
    for answer in answers:
        if isinstance(answer, RegrowError):
            raise answer
    found: list[Any] = list(answers)
    return Look(
        {each: _agent(each, record) for each, record in zip(ids, found, strict=False)},
        {
            each: Node(each, record["kind"], record["host"], int(record["pid"] or 0))
            for each, record in zip(nodes, found[len(ids) : -1], strict=True)
            if record
        },
        found[-1],
    )


def _agent(name: str, record: Mapping[str, str]) -> Agent:
    return Agent(
        name,
        record["status"],
        int(record["pid"] or 0),
        record["node"],
        int(record["incarnation"] or 0),
        record["isolation"] == "pool",
        int(record["handled"] or 0) + int(record["failed"] or 0),
        record["exit_reason"],
    )


def others_hosts(look: Look) -> list[str]:
    """Nodes of other hosts, which nobody here may strike."""
    here = socket.gethostname()
    return sorted(f"{node.id} on {node.host}" for node in look.nodes.values() if node.host != here)


def targets(
    look: Look, watchdogs: Mapping[str, Process], redis: Process | None
) -> dict[Kind, dict[str, Process]]:
    """What can be struck now, by kind and name. A worker is one only below the spawner of its node."""
    found: dict[Kind, dict[str, Process]] = {
        "node": {}, "spawner": {}, "worker": {}, "slot": {}, "executor": {},
        "watchdog": dict(watchdogs), "redis": {} if redis is None else {"redis": redis},
    }  # fmt: skip
    owners = {agent.pid: agent.id for agent in look.agents.values() if agent.pid and not agent.pooled}
    for node in look.nodes.values():
        process = find(node.pid)
        if node.host != socket.gethostname() or process is None or not _is_ours(node):
            continue
        found["node"][node.id] = process
        for spawner in children(node.pid):
            if not any(SPAWNER in word for word in command_of(spawner.pid)):
                continue
            found["spawner"][f"spawner of {node.id}"] = spawner
            for worker in children(spawner.pid):
                if name_of(worker.pid) == SPARE:
                    continue
                if node.kind == "effects":
                    found["executor"][f"executor {worker.pid}"] = worker
                elif worker.pid in owners:
                    found["worker"][owners[worker.pid]] = worker
                elif name_of(worker.pid) == WORKER:
                    found["slot"][f"slot {worker.pid}"] = worker
    return found


def _is_ours(node: Node) -> bool:
    """Its number may be another program's by now, if it has died and nobody has noticed."""
    return any("regrow" in word for word in command_of(node.pid))


def watchdogs(namespace: str, url: str) -> dict[str, Process]:
    """Processes of this host that are watchdogs of this system: told the same namespace and server."""
    found: dict[str, Process] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or not _is_watchdog(command_of(int(name))):
            continue
        told = environment_of(int(name))
        process = find(int(name))
        same = (
            told.get(variable_of("namespace"), "regrow") == namespace
            and told.get(variable_of("redis_url")) == url
        )
        if same and process is not None:
            found[f"watchdog {name}"] = process
    return found


def _is_watchdog(words: list[str]) -> bool:
    """``regrow watchdog ...`` or ``python -m regrow watchdog ...``."""
    return any(
        word == "watchdog" and Path(before).name in ("regrow", "__main__.py")
        for before, word in itertools.pairwise(words)
    )


def redis_of(connection: Connection) -> Process | None:
    """The server's process, by its own word; only asked of a server that this program has started."""
    text = connection.command(Command(("INFO", "server"), str))
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return find(int(rows.get("process_id", "0")))
