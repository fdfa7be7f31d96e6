"""Asking something of the watchdog: a request into its mailbox, and the wait for its answer.

Requests are ``start_child``, ``terminate_child``, ``hold``, ``kill`` and so on: see regrow_supervisor/requests.py. A
request id is taken once, so sending it again after a lost answer is harmless.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from regrow_signals import leadership
from regrow_signals.calls import Command
from regrow_signals.connection import Connection
from regrow_signals.errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadInput,
    ChildNotFound,
    MaxChildren,
    Refused,
    StartFailed,
    StillRestarting,
    StillRunning,
    StoreUnavailable,
    SupervisorNotFound,
)
from regrow_signals.keys import Keys

__all__ = ["ask_watchdog"]

#: codes of answers -> the error that a caller sees; any other code is a plain ``Refused``
_ERRORS: Mapping[str, type[Refused] | type[BadInput]] = {
    "noproc": SupervisorNotFound,
    "not_found": ChildNotFound,
    "already_started": AlreadyStarted,
    "already_present": AlreadyPresent,
    "running": StillRunning,
    "restarting": StillRestarting,
    "max_children": MaxChildren,
    "start_failed": StartFailed,
    "invalid_child_spec": BadInput,
    "missing_field": BadInput,
    "bad_json": BadInput,
    "too_large": BadInput,
}


def ask_watchdog(
    connection: Connection, keys: Keys, op: str, fields: Mapping[str, str], *, timeout: float = 10.0
) -> Any:
    """Ask and wait; the value is the answer's.

    Raises a typed refusal, or ``StoreUnavailable`` when no watchdog answered in time: the request then stays in
    ``{ns}:exits`` and is carried out when one leads again.
    """
    request_id = uuid.uuid4().hex
    connection.call(leadership.request(keys, request_id, op, fields))
    wait = Command(
        ("BLPOP", keys.reply(request_id), max(1, round(timeout))), lambda reply: reply, repeatable=False
    )
    reply = connection.command(wait, wait=timeout)
    if reply is None:
        raise StoreUnavailable(
            f"no watchdog answered {op} within {timeout:g} s; the request stays and is carried out when one leads: "
            "is `regrow watchdog` running?"
        )
    answer = json.loads(reply[1])
    if "ok" in answer:
        return answer["ok"]
    code = str(answer.get("error", "refused"))
    raise _ERRORS.get(code.partition(":")[0], Refused)(f"{op}: {answer.get('message', code)}")
