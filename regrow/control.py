"""Asking something of the watchdog: a request into its mailbox, and the wait for its answer.

Requests are ``start_child``, ``terminate_child``, ``hold``, ``kill`` and so on: see regrow_supervisor/requests.py. All
are Ops, so the blocking and the awaited client run the same ones. A request id is taken once, so sending it again
after a lost answer is harmless.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from regrow_signals import leadership
from regrow_signals.calls import Command, Op
from regrow_signals.connection import Connection
from regrow_signals.durations import Duration, to_seconds
from regrow_signals.errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadInput,
    ChildNotFound,
    FateUnknown,
    MaxChildren,
    Refused,
    StartFailed,
    StillRestarting,
    StillRunning,
    SupervisorNotFound,
)
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_supervisor.spec import Supervisor, child_definition
from regrow_workers.child_spec import ChildSpec

__all__ = [
    "TIMEOUT",
    "ChildCounts",
    "ChildInfo",
    "StartedChild",
    "ask",
    "ask_watchdog",
    "child_call",
    "count_children",
    "restart_child",
    "start_child",
    "which_children",
]

T = TypeVar("T")

TIMEOUT = 10.0

#: One wait in the server: short, since tasks that share an AsyncClient wait for each other's commands.
_SLICE_SECONDS = 0.1

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
    "missing_field": BadInput,
    "bad_json": BadInput,
    "bad_tree": BadInput,
    "too_large": BadInput,
}


@dataclass(frozen=True, slots=True)
class StartedChild:
    """What a start came to. ``incarnation`` is None when nothing runs yet: on hold, or no node takes it (``why``)."""

    child: str
    incarnation: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """One child as its supervisor sees it; ``incarnation`` is of its current life, else of its last one."""

    id: str
    status: Literal["starting", "running", "stopping", "stopped", "restarting", "waiting", "parked"]
    incarnation: int
    type: Literal["worker", "supervisor"]


@dataclass(frozen=True, slots=True)
class ChildCounts:
    """As OTP counts: child specs on record, children that live, and of all children supervisors and workers."""

    specs: int
    active: int
    supervisors: int
    workers: int


def ask_watchdog(
    connection: Connection, keys: Keys, op: str, fields: Mapping[str, str], *, timeout: float = TIMEOUT
) -> Any:
    """``ask`` on a blocking connection."""
    return connection.run(ask(keys, op, fields, timeout=timeout))


def ask(keys: Keys, op: str, fields: Mapping[str, str], *, timeout: Duration = TIMEOUT) -> Op[Any]:
    """Ask and wait; the value is the answer's.

    Raises a typed refusal (``SupervisorCallRefused`` kinds, ``BadInput``), or ``FateUnknown`` when nobody answered in
    time: the request then stays in ``{ns}:exits``, and is carried out when a watchdog leads again.
    """
    seconds = to_seconds(timeout, "timeout")
    request_id = uuid.uuid4().hex
    yield leadership.request(keys, request_id, op, fields)
    left = seconds
    while left > 0:
        wait = min(left, _SLICE_SECONDS)
        words = ("BLPOP", keys.reply(request_id), f"{wait:.3f}")
        reply = yield Command(words, _popped, repeatable=False, hint=f"the answer to {op}", wait=wait)
        if reply is not None:
            return _value(op, json.loads(cast("str", reply)))
        left -= wait
    raise FateUnknown(
        f"{op} was handed in and not answered within {seconds:g} s: the watchdog is busy with it, or none leads "
        "(is `regrow watchdog` running?); it stays in line and is carried out"
    )


def start_child(
    keys: Keys, supervisor: str, spec: ChildSpec | Supervisor, *, timeout: Duration = TIMEOUT
) -> Op[StartedChild]:
    """OTP's start_child: put a child under a running supervisor, and start it."""
    given = spec.child() if isinstance(spec, Supervisor) else spec
    if not isinstance(cast("object", given), ChildSpec):
        raise BadInput(
            f"start_child: {spec!r:.200} is no child; give YourAgent.child('an id') or a Supervisor"
        )
    if given.under:
        raise BadInput(
            f"start_child: a child under {given.under!r} is for send(create=...); give it an id here"
        )
    fields = {"path": check_id(supervisor, "supervisor"), "spec": json.dumps(child_definition(given))}
    return _started(ask(keys, "start_child", fields, timeout=timeout))


def restart_child(
    keys: Keys, supervisor: str, child: str, *, timeout: Duration = TIMEOUT
) -> Op[StartedChild]:
    """OTP's restart_child: start a child that was terminated and is still on record."""
    return _started(ask(keys, "restart_child", _child_fields(supervisor, child), timeout=timeout))


def child_call(keys: Keys, op: str, supervisor: str, child: str, *, timeout: Duration = TIMEOUT) -> Op[None]:
    """OTP's terminate_child and delete_child."""
    return _mapped(ask(keys, op, _child_fields(supervisor, child), timeout=timeout), lambda _: None)


def which_children(keys: Keys, supervisor: str, *, timeout: Duration = TIMEOUT) -> Op[list[ChildInfo]]:
    """OTP's which_children: all of them, the one started last first."""
    asked = ask(keys, "which_children", {"path": check_id(supervisor, "supervisor")}, timeout=timeout)
    return _mapped(asked, lambda rows: [ChildInfo(*row) for row in rows])


def count_children(keys: Keys, supervisor: str, *, timeout: Duration = TIMEOUT) -> Op[ChildCounts]:
    """OTP's count_children."""
    asked = ask(keys, "count_children", {"path": check_id(supervisor, "supervisor")}, timeout=timeout)
    return _mapped(asked, lambda counts: ChildCounts(*counts))


def _child_fields(supervisor: str, child: str) -> dict[str, str]:
    return {"path": check_id(supervisor, "supervisor"), "child": check_id(child, "child")}


def _started(asked: Op[Any]) -> Op[StartedChild]:
    return _mapped(
        asked, lambda life: StartedChild(life["child"], life["incarnation"], str(life["info"] or ""))
    )


def _mapped(asked: Op[Any], read: Callable[[Any], T]) -> Op[T]:
    return read((yield from asked))


def _popped(reply: Any) -> str | None:
    return None if reply is None else str(reply[1])


def _value(op: str, answer: dict[str, Any]) -> Any:
    if "ok" in answer:
        return answer["ok"]
    code = str(answer.get("error", "refused"))
    known = code.partition(":")[0]
    error = _ERRORS.get(known, BadInput if known.startswith(("invalid_", "missing_", "bad_")) else Refused)
    message = str(answer.get("message") or code)
    raise error(f"{op}: {code}" if message == code.replace("_", " ") else f"{op}: {code}: {message}")
