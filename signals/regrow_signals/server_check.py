"""Is this a server that regrow can stand on? Asked at start, and by ``regrow doctor``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from regrow_signals.calls import Command, Op
from regrow_signals.errors import WrongServer

__all__ = ["FLOOR", "ServerReport", "check_server", "info_fields", "judge"]

FLOOR: Final = (7, 0)


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What the server is; ``warnings`` say what it may lose or refuse, each in one line with the fix."""

    software: str
    version: str
    is_cluster: bool
    eviction: str
    persistence: str
    warnings: tuple[str, ...]


def check_server() -> Op[ServerReport]:
    """Ask the server about itself. ``WrongServer`` when it is too old, or throws keys away when memory is short.

    A server that keeps ``INFO`` from this user is taken with a warning: what is needed is then seen in use.
    """
    try:
        info = yield Command(("INFO",), info_fields, hint="server check")
    except WrongServer as error:
        return ServerReport("unknown", "unknown", False, "unknown", "unknown", (str(error),))
    return judge(cast("dict[str, str]", info))


def judge(info: Mapping[str, str]) -> ServerReport:
    """Pure: what the fields of INFO say."""
    software = "Valkey" if info.get("valkey_version") else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "")
    if _number(info.get("redis_version", "")) < FLOOR:
        raise WrongServer(
            f"{software} {version or 'of unknown version'} is too old: regrow needs 7.0 or newer"
        )
    eviction = info.get("maxmemory_policy", "noeviction")
    if eviction != "noeviction" and info.get("maxmemory", "0") != "0":
        raise WrongServer(
            f"{software}: maxmemory-policy is {eviction}: it would throw away agents and leases when memory is short; "
            "run CONFIG SET maxmemory-policy noeviction"
        )
    is_cluster = info.get("cluster_enabled") == "1" or info.get("redis_mode") == "cluster"
    return ServerReport(
        software,
        version,
        is_cluster,
        eviction,
        _persistence(info),
        tuple(_warnings(info, eviction, is_cluster)),
    )


def info_fields(reply: object) -> dict[str, str]:
    """The lines of INFO as a dict."""
    lines = str(reply).splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def _warnings(info: Mapping[str, str], eviction: str, is_cluster: bool) -> list[str]:
    found: list[str] = []
    if eviction != "noeviction":
        found.append(f"maxmemory-policy is {eviction}: set it to noeviction before maxmemory is ever set")
    # While it loads its data it has not opened the append-only file yet.
    if info.get("aof_enabled") != "1" and info.get("loading", "0") == "0":
        found.append(
            "no append-only file: a crash of Redis loses what came after its last snapshot; set appendonly yes"
        )
    if info.get("role") == "slave":
        found.append("this server is a replica and takes no writes: name the primary in the URL")
    if is_cluster:
        found.append("cluster mode: the namespace lives in one slot, on one node; name that node in the URL")
    if info.get("rdb_last_bgsave_status") == "err" or info.get("aof_last_write_status") == "err":
        found.append("its last save failed: look at the disk, or Redis will refuse writes")
    return found


def _persistence(info: Mapping[str, str]) -> str:
    if info.get("aof_enabled") == "1":
        return "append-only file"
    return "snapshots" if info.get("rdb_last_save_time") else "unknown"


def _number(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
