"""Pure: what an error answer of the server means for the caller. Secrets and payloads never get into a message."""

from __future__ import annotations

import re
from typing import Final

from regrow_signals.errors import CorruptKey, StoreError, StoreUnavailable, WrongServer

__all__ = ["is_refused_by_state", "store_error"]

UNAVAILABLE: Final = {
    "LOADING": "it is loading its data",
    "MISCONF": "it refuses writes because its last save failed; look at its disk",
    "OOM": "it is out of memory (maxmemory)",
    "READONLY": "it is a replica and takes no writes",
    "BUSY": "it is busy with a script",
    "CLUSTERDOWN": "the cluster is down",
    "MASTERDOWN": "its link to the primary is down",
    "NOREPLICAS": "it has not enough replicas to take writes",
    "TRYAGAIN": "the cluster is moving this slot",
    "UNBLOCKED": "it ended the blocking call",
}
WRONG: Final = {
    "NOAUTH": "it wants a password",
    "WRONGPASS": "it does not know this user and password",
    "MOVED": "it is a cluster's node that does not hold this namespace's slot; name the right node in the URL",
    "ASK": "it is a cluster's node that is giving this namespace's slot away",
    "CROSSSLOT": "cluster mode: the keys of the step are not in one slot",
}
_DENIED_COMMAND = re.compile(r"'([\w|-]+)'")


def store_error(text: str, what: str, where: str) -> StoreError:
    """The typed error for the server's error line ``text``; ``what`` was asked, ``where`` is the masked URL."""
    code = text.split(" ", 1)[0]
    if code in UNAVAILABLE:
        return StoreUnavailable(f"Redis at {where}: {UNAVAILABLE[code]} ({code}); {what} did not run")
    if code in WRONG:
        return WrongServer(f"Redis at {where}: {WRONG[code]} ({code}, at {what})")
    if code == "WRONGTYPE":
        return CorruptKey(f"{what}: a key holds the wrong type; nothing was changed")
    if code == "NOPERM" or "ACL failure" in text or "has no permissions" in text:
        return WrongServer(f"Redis at {where}: {_denied(text, what)}; grant it with ACL SETUSER")
    if "max number of clients" in text:
        return StoreUnavailable(f"Redis at {where}: it has no room for more clients (maxclients)")
    if "unknown command" in text.lower() or "unknown subcommand" in text.lower():
        return WrongServer(
            f"Redis at {where}: it does not know {what}; regrow needs Redis 7.0 or newer, or Valkey"
        )
    if (
        "unauthenticated" in text
    ):  # what is long is refused before it is read: "Protocol error: unauthenticated ..."
        return WrongServer(f"Redis at {where}: {WRONG['NOAUTH']} (NOAUTH, at {what})")
    if "AUTH" in text and "called without" in text:
        return WrongServer(f"Redis at {where}: the URL has a password but the server asks for none")
    return StoreError(f"Redis at {where}: {what} failed: {_without_arguments(text)}")


def is_refused_by_state(text: str) -> bool:
    """Does the answer say that the server as such cannot serve now, so that the connection is better made anew?"""
    return text.startswith(("READONLY", "MASTERDOWN", "CLUSTERDOWN"))


def _denied(text: str, what: str) -> str:
    if "key" in text and "'" not in text:
        return f"this user may not touch the keys of {what} (NOPERM)"
    command = _DENIED_COMMAND.search(text)
    return f"this user may not run {command[1].upper() if command else what} (NOPERM, at {what})"


def _without_arguments(text: str) -> str:
    return text.split(", with args", 1)[0][:300]
