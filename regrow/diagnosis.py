"""Pure: what `regrow doctor` says of the facts it found. One line a check, with the fix where something is amiss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from regrow.pool_view import PoolView
from regrow_signals.census import NAMED, Census
from regrow_signals.keys import Keys
from regrow_signals.server_check import FLOOR
from regrow_signals.views import Listed
from regrow_supervisor.restart_types import is_unreadable

__all__ = [
    "Check",
    "exit_code",
    "judge_agents",
    "judge_clock",
    "judge_cluster",
    "judge_eviction",
    "judge_key_types",
    "judge_leader",
    "judge_letters",
    "judge_memory",
    "judge_nodes",
    "judge_persistence",
    "judge_pool",
    "judge_python",
    "judge_rights",
    "judge_version",
]

Level = Literal["OK", "WARN", "FAIL"]
_SEVERITY: Final[dict[Level, int]] = {"OK": 0, "WARN": 1, "FAIL": 2}
_NAMED_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor: ``fix`` is empty where nothing is to be done."""

    name: str
    level: Level
    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.level:<4}  {self.name:<12} {self.text}{f'; {self.fix}' if self.fix else ''}"


def exit_code(checks: Sequence[Check]) -> int:
    """0: all is well; 1: there are warnings; 2: something fails."""
    return max((_SEVERITY[check.level] for check in checks), default=0)


def judge_python(version: tuple[int, int], platform: str) -> Check:
    text = f"{version[0]}.{version[1]} on {platform}"
    if version < (3, 11):
        return Check("python", "FAIL", text, "regrow needs Python 3.11 or newer")
    if platform == "linux":
        return Check("python", "OK", text)
    if platform == "darwin":
        return Check("python", "WARN", text, "macOS is for development; run production on Linux")
    return Check("python", "FAIL", text, "run regrow on Linux (or, for development, macOS)")


def judge_version(info: Mapping[str, str]) -> Check:
    software = "Valkey" if info.get("valkey_version") else "Redis"
    version = info.get("valkey_version") or info.get("redis_version") or "of unknown version"
    numbers = (info.get("redis_version", "") + ".0").split(".")[:2]
    if not all(part.isdigit() for part in numbers) or tuple(map(int, numbers)) < FLOOR:
        return Check("version", "FAIL", f"{software} {version}", "regrow needs Redis 7.0 or newer, or Valkey")
    return Check("version", "OK", f"{software} {version}")


def judge_eviction(info: Mapping[str, str]) -> Check:
    policy = info.get("maxmemory_policy", "")
    if policy == "noeviction":
        return Check("eviction", "OK", "noeviction: nothing is thrown away when memory is short")
    if not policy:
        return Check(
            "eviction", "WARN", "unknown", "ask its administrator that maxmemory-policy is noeviction"
        )
    level: Level = "WARN" if info.get("maxmemory", "0") == "0" else "FAIL"
    return Check(
        "eviction", level, f"{policy}: takes agents and leases when memory is short",
        "run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf",
    )  # fmt: skip


def judge_persistence(info: Mapping[str, str], config: Mapping[str, str]) -> Check:
    """How much a crash of the server may lose of what was accepted."""
    if info.get("aof_last_write_status") == "err" or info.get("rdb_last_bgsave_status") == "err":
        return Check(
            "persistence", "FAIL", "its last save failed", "look at the disk: Redis will refuse writes"
        )
    if "aof_enabled" not in info:
        return Check("persistence", "WARN", "unknown", "ask its administrator for appendonly yes")
    if info["aof_enabled"] == "1":
        return _judge_append_only(config.get("appendfsync", ""))
    if config.get("save", "unknown"):
        unsaved = info.get("rdb_changes_since_last_save", "unknown")
        text = f"snapshots alone: a crash loses all since the last one ({unsaved} changes now)"
        return Check("persistence", "WARN", text, "run CONFIG SET appendonly yes, and set it in redis.conf")
    return Check(
        "persistence", "FAIL", "none: a restart of the server loses everything",
        "run CONFIG SET appendonly yes, and set it in redis.conf",
    )  # fmt: skip


def _judge_append_only(fsync: str) -> Check:
    if fsync == "always":
        return Check("persistence", "OK", "append-only file, fsync always: nothing accepted is lost")
    if fsync == "everysec":
        return Check(
            "persistence",
            "OK",
            "append-only file, fsync everysec: a power cut loses up to 1 s (2 s at worst)",
        )
    if fsync == "no":
        text = "append-only file, fsync no: a power cut loses what the system had not written, some 30 s"
        return Check("persistence", "WARN", text, "run CONFIG SET appendfsync everysec")
    return Check(
        "persistence", "WARN", "append-only file, fsync unknown (CONFIG is denied)",
        "ask its administrator that appendfsync is everysec or always",
    )  # fmt: skip


def judge_memory(info: Mapping[str, str]) -> Check:
    used, limit = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    mib = f"{used / (1 << 20):.0f} MiB used"
    if not limit:
        return Check("memory", "OK", f"{mib}, no maxmemory: the host's memory is the limit")
    text = f"{mib} of {limit / (1 << 20):.0f} MiB ({100 * used / limit:.0f} %)"
    if used > 0.8 * limit:
        return Check(
            "memory", "WARN", text, "raise maxmemory: at its limit Redis refuses signals and commits"
        )
    return Check("memory", "OK", text)


def judge_cluster(info: Mapping[str, str], namespace: str) -> Check:
    if info.get("role") == "slave":
        return Check("topology", "FAIL", "a replica takes no writes", "name the primary in REDIS_URL")
    if info.get("cluster_enabled") == "1":
        text = f"cluster: namespace {namespace} lives in one slot, on one node"
        return Check(
            "topology", "WARN", text, "name that node in REDIS_URL, and another server in REGROW_RQ_URL"
        )
    return Check("topology", "OK", "a single server")


def judge_rights(missing: Sequence[str] | None) -> Check:
    if missing is None:
        return Check(
            "rights", "WARN", "cannot be asked beforehand (ACL is denied to this user)",
            "docs/redis.md lists those that must be granted",
        )  # fmt: skip
    if missing:
        return Check("rights", "FAIL", f"{len(missing)} denied: {missing[0]}", "grant them with ACL SETUSER")
    return Check("rights", "OK", "every command that regrow uses is allowed on its keys")


def judge_clock(server_seconds: float, before: float, after: float) -> Check:
    """Only for people who compare logs: regrow itself compares stamps of Redis alone."""
    skew = max(before - server_seconds, server_seconds - after, 0.0)
    if skew > 1.0:
        text = f"this host and Redis differ by {skew:.1f} s"
        return Check("clock", "WARN", text, "run NTP on both: stamps in logs and in Redis will not match")
    return Check("clock", "OK", f"this host and Redis agree ({(after - before) * 1000:.1f} ms for an answer)")


def judge_key_types(keys: Keys, types: Mapping[str, str], *, complete: bool) -> Check:
    """Against the documented table: another type means that somebody else writes under our names."""
    wrong: list[str] = []
    strange: list[str] = []
    for key, found in sorted(types.items()):
        kind = keys.kind(key)
        if kind is None:
            strange.append(key)
        elif found not in (kind.type, "none"):  # none: it went away meanwhile
            wrong.append(f"{key} is a {found}, not a {kind.type}")
    if wrong:
        fix = "rename it away: whoever needs the key stops with an error until then"
        return Check("keys", "FAIL", _some(wrong), fix)
    if strange:
        return Check(
            "keys", "WARN", f"not regrow's: {_some(strange)}", "use another namespace for other keys"
        )
    return Check(
        "keys", "OK", f"{len(types)} {'keys' if complete else 'keys looked at'}, all of their documented type"
    )


def judge_nodes(ages: Mapping[str, float], node_timeout: float) -> Check:
    """``ages``: seconds since each node's last beat, by Redis's clock."""
    alive = [node for node, age in ages.items() if age <= node_timeout]
    late = sorted(set(ages) - set(alive))
    if late:
        text = f"{len(alive)} alive, late: {_some([f'{node} ({ages[node]:.0f} s)' for node in late])}"
        return Check("nodes", "WARN", text, "a running watchdog declares them lost and moves their agents")
    if not alive:
        return Check("nodes", "WARN", "none alive: no agent runs", "start `regrow worker`")
    return Check("nodes", "OK", f"{len(alive)} alive")


def judge_agents(census: Census, reasons: Mapping[str, str]) -> Check:
    """Agents that do not run though they are wanted. ``reasons``: of those that the census names as down, why."""
    counts = {status: tally.agents for (status,), tally in census.by("status").items()}
    parked = [seen.agent for seen in census.down if seen.status == "parked"]
    waiting = [seen.agent for seen in census.down if seen.status == "waiting"]
    unreadable = [agent for agent in parked if is_unreadable(reasons.get(agent, ""))]
    if unreadable:
        text = f"parked, their state cannot be read: {_with_reasons(unreadable, reasons)}"
        fix = "deploy code that reads it (docs/upgrades.md), then run `regrow revive --unreadable`"
        return Check("agents", "WARN", text, fix)
    if counts.get("parked"):
        text = f"{counts['parked']} parked: {_with_reasons(parked, reasons)}"
        return Check("agents", "WARN", text, "mend the cause, then run `regrow revive ID`")
    if counts.get("waiting"):
        text = f"{counts['waiting']} waiting: {_with_reasons(waiting, reasons)}"
        return Check("agents", "WARN", text, "start a node that can run them")
    return Check("agents", "OK", f"{census.agents} registered, none parked, none waiting for a node")


def judge_letters(census: Census, letters: Sequence[Listed]) -> Check:
    """``letters``: the first of each agent that the census names for them."""
    holders = sum(1 for seen in census.lettered if seen.dead)
    count = sum(tally.dead for tally in census.groups.values())
    if not count:
        return Check("dead letters", "OK", "none")
    reasons = Counter(fields.get("reason", "?").partition(":")[0] for some in letters for _, fields in some)
    words = ", ".join(reason for reason, _ in reasons.most_common(_NAMED_KEYS))
    agents = [f"{seen.agent} ({seen.dead})" for seen in census.lettered]
    more = "at least " if holders == len(census.lettered) and holders >= NAMED else ""
    text = f"{count} of {more}{holders} agents ({words}): {_some(agents)}"
    return Check("dead letters", "WARN", text, "look with `regrow dead list ID`, then retry or drop them")


def judge_pool(pool: PoolView) -> Check:
    """Pooled agents: slots, who waits for one, and who waits in vain."""
    if pool.unserved:
        queues = _some([f"{count} in {queue}" for queue, count in pool.unserved.most_common()])
        text = f"no live node has the type, the schema and the labels for agents that wait: {queues}"
        return Check("pool", "WARN", text, "start a node with that code and those labels (docs/pool.md)")
    if pool.slots and pool.stuck >= pool.slots:
        text = f"all {pool.slots} slots are in a transition of more than 50 ms; {pool.queues.total()} agents wait"
        return Check("pool", "WARN", text, "raise REGROW_POOL_EXTRA_SLOTS, or make slow agents isolated ones")
    if not pool.nodes and not pool.queues:
        return Check("pool", "OK", "no node keeps slots: there are no pooled agents, or no node")
    where = f"{pool.slots} slots on {len(pool.nodes)} node(s), {pool.stuck} of them stuck"
    return Check("pool", "OK", f"{where}; {pool.in_hand} agents in hand, {pool.queues.total()} in line")


def judge_leader(leader: str | None, lease_left_ms: int) -> Check:
    if not leader:
        return Check(
            "watchdog", "WARN", "none leads: nothing dead is started again", "start `regrow watchdog`"
        )
    return Check("watchdog", "OK", f"one leads (lease ends in {lease_left_ms / 1000:.1f} s unless renewed)")


def _with_reasons(agents: Sequence[str], reasons: Mapping[str, str]) -> str:
    return _some([f"{agent} ({reasons.get(agent, '?').removeprefix('waiting: ')})" for agent in agents])


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED_KEYS} more" if len(items) > _NAMED_KEYS else ""
    return ", ".join(items[:_NAMED_KEYS]) + more
