"""Every Redis command that regrow uses, and whether this user may run it.

Asked beforehand, since a right that is missed in use only is missed weeks later. ACL DRYRUN runs and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import StoreError
from regrow_signals.keys import Keys

__all__ = ["COMMANDS", "acl_rule", "missing_rights"]

#: Command -> arguments of a harmless example; ``K`` stands for a key of the namespace.
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "PING": (),
    "INFO": (),
    "TIME": (),
    "ROLE": (),
    "CLIENT|SETNAME": ("x",),
    "SCRIPT|LOAD": ("return 1",),
    "EVALSHA": ("0" * 40, "1", "K"),
    "TYPE": ("K",),
    "EXISTS": ("K",),
    "DEL": ("K",),
    "PEXPIRE": ("K", "1"),
    "PTTL": ("K",),
    "RENAME": ("K", "K"),
    "SCAN": ("0",),
    "GET": ("K",),
    "MGET": ("K",),
    "SET": ("K", "v"),
    "HSET": ("K", "f", "v"),
    "HSETNX": ("K", "f", "v"),
    "HGET": ("K", "f"),
    "HMGET": ("K", "f"),
    "HGETALL": ("K",),
    "HDEL": ("K", "f"),
    "HEXISTS": ("K", "f"),
    "HINCRBY": ("K", "f", "1"),
    "HKEYS": ("K",),
    "HLEN": ("K",),
    "HSTRLEN": ("K", "f"),
    "HRANDFIELD": ("K",),
    "HSCAN": ("K", "0"),
    "XADD": ("K", "*", "f", "v"),
    "XDEL": ("K", "1-0"),
    "XINFO|STREAM": ("K",),
    "XLEN": ("K",),
    "XRANGE": ("K", "-", "+"),
    "XREVRANGE": ("K", "+", "-"),
    "XREAD": ("STREAMS", "K", "0"),
    "XTRIM": ("K", "MAXLEN", "1"),
    "LPUSH": ("K", "v"),
    "RPUSH": ("K", "v"),
    "LLEN": ("K",),
    "LPOP": ("K",),
    "BLPOP": ("K", "1"),
    "BLMOVE": ("K", "K", "LEFT", "LEFT", "1"),
    "LINDEX": ("K", "0"),
    "LSET": ("K", "0", "v"),
    "LTRIM": ("K", "0", "1"),
    "PUBLISH": ("K", "v"),
    "SUBSCRIBE": ("K",),
    "SADD": ("K", "v"),
    "SCARD": ("K",),
    "SRANDMEMBER": ("K", "1"),
    "SREM": ("K", "v"),
    "SISMEMBER": ("K", "v"),
    "SMEMBERS": ("K",),
    "ZADD": ("K", "1", "v"),
    "ZCARD": ("K",),
    "ZCOUNT": ("K", "0", "1"),
    "ZMSCORE": ("K", "v"),
    "ZPOPMIN": ("K",),
    "ZRANGE": ("K", "0", "1"),
    "ZRANGEBYSCORE": ("K", "0", "1"),
    "ZREM": ("K", "v"),
    "ZSCAN": ("K", "0"),
    "ZSCORE": ("K", "v"),
}


def acl_rule(user: str, namespace: str) -> str:
    """The line that gives a user what regrow needs and no more (RQ, for effects, wants its own keys besides)."""
    grants = " ".join(f"+{name.lower()}" for name in COMMANDS)
    tag = Keys(namespace).tag
    return f"ACL SETUSER {user} on ~{tag}:* &{tag}:* {grants}"


def missing_rights(connection: Connection, keys: Keys) -> list[str] | None:
    """What the server would refuse, a line each; None where this user may not ask (ACL is an administrator's)."""
    try:
        user = connection.command(Command(("ACL", "WHOAMI"), str, hint="ACL WHOAMI"))
        dry = [Command(_dry_run(user, name, keys), str, hint=f"ACL DRYRUN {name}") for name in COMMANDS]
        answers = connection.pipeline(dry)
    except StoreError:
        return None
    if any(isinstance(answer, StoreError) and "DRYRUN" not in str(answer) for answer in answers):
        return None
    if all(isinstance(answer, StoreError) for answer in answers):
        return None
    return [str(answer) for answer in answers if str(answer) != "OK"]


def _dry_run(user: str, name: str, keys: Keys) -> Sequence[str]:
    key = keys.agent("doctor")
    return (
        "ACL",
        "DRYRUN",
        user,
        *name.split("|"),
        *(key if word == "K" else word for word in COMMANDS[name]),
    )
