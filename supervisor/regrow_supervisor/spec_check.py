"""Is a stored form that came over Redis one that everything behind it can work with? Pure; looked at before anything.

``definition.py`` checks what OTP checks, in OTP's words. Here stands what is regrow's own: ids, the parts that nodes
and workers read, limits, backoff, nested supervisors down to the last. Trees written with ``Supervisor`` and ``child``
pass by construction; a request may come from anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from regrow_signals.errors import BadInput
from regrow_signals.ids import check_id
from regrow_signals.schedules import read_declared
from regrow_signals.subscriptions import check_subscription
from regrow_supervisor.definition import SpecError, full_children, full_flags
from regrow_workers.child_spec import Isolation, OnExceeded, Resume
from regrow_workers.family_directives import OnParentDeath
from regrow_workers.purity import GuardMode

__all__ = ["check_child", "check_tree"]

_DEEPEST: Final = 50
_LARGEST: Final = 2**53
_COUNTS: Final = (
    ("max_mailbox", 1), ("max_attempts", 1), ("max_kills", 1), ("deadline_ms", 1), ("max_memory", 1),
    ("max_state", 1), ("max_processes", 0), ("max_signals", 1), ("max_growth", 1), ("shutdown_ms", -1),
)  # fmt: skip
"""Fields of ``start`` that nodes and workers read as whole numbers, each with the least one."""

_LEFT_OPEN: Final = {"max_restarts": 0, "max_seconds": 1}
"""What a child's limit may leave to its supervisor, as values that nobody would refuse."""

_BOND: Final = frozenset({"parent", "tag", "on_parent_death", "ephemeral"})


def check_tree(definition: object, path: str, depth: int = 0) -> None:
    """A supervisor's definition with all below it; ``SpecError`` names the place and the field."""
    if not isinstance(definition, Mapping):
        raise SpecError(f"supervisor {path} is no JSON object")
    if depth > _DEEPEST:
        raise SpecError(f"supervisor {path} is deeper than {_DEEPEST} levels")
    given = cast("Mapping[str, Any]", definition)
    children = given.get("children", [])
    if not isinstance(children, list):
        raise SpecError(f"supervisor {path}: children is no list")
    for child in cast("list[object]", children):
        check_child(child, path, depth)
    if given.get("limit") is not None:
        _check_limit(given["limit"], f"supervisor {path}")
    if given.get("pause") is not None:
        pause = _object(given["pause"], f"supervisor {path}: pause")
        for name in ("first_ms", "longest_ms"):
            _count(pause.get(name, 1), 1, f"supervisor {path}: pause.{name}")
    for kind, declared in _object(given.get("schedules") or {}, f"supervisor {path}: schedules").items():
        try:
            read_declared(declared)
        except BadInput as error:
            raise SpecError(f"supervisor {path}: of type {kind}: {error}") from None
    try:
        full_children(full_flags(given))
    except SpecError as error:
        raise SpecError(f"supervisor {path}: {error}") from None


def check_child(child: object, path: str, depth: int = 0) -> None:
    """One child's stored form below the supervisor ``path``, with all below it."""
    given = _object(child, f"a child of {path}")
    try:
        child_id = check_id(given.get("id"), "child id")
    except BadInput as error:
        raise SpecError(f"a child of {path}: {error}") from None
    where = f"child {child_id} of {path}"
    if "limit" in given:
        _check_limit({**_LEFT_OPEN, **_object(given["limit"], f"{where}: limit")}, where)
    if "backoff" in given:
        _check_backoff(given["backoff"], where)
    _count(given.get("incarnation", 0), 0, f"{where}: incarnation")
    _count(given.get("idle_delete_ms", 1), 1, f"{where}: idle_delete_ms")
    if "idle_delete_ms" in given and "supervisor" in given:
        raise SpecError(f"{where}: a supervisor has no idle_delete_ms")
    _check_bond(given, where)
    if not isinstance(given.get("template", ""), str):
        raise SpecError(f"{where}: template is no text")
    if "supervisor" in given:
        if "/" in child_id:
            raise SpecError(f"{where}: '/' cannot be in a supervisor's name")
        check_tree(given["supervisor"], f"{path}/{child_id}", depth + 1)
    elif "start" in given:  # without it: OTP's missing_start
        _check_start(given["start"], where)


def _check_bond(given: Mapping[str, Any], where: str) -> None:
    """What a spawned child has besides: all of it or nothing."""
    if given.keys().isdisjoint(_BOND):
        return
    try:
        check_id(given.get("parent"), "parent")
        check_id(given.get("tag"), "tag")
    except BadInput as error:
        raise SpecError(f"{where}: {error}") from None
    _word(given.get("on_parent_death"), get_args(OnParentDeath), f"{where}: on_parent_death")
    if not isinstance(given.get("ephemeral"), bool):
        raise SpecError(f"{where}: ephemeral is {given.get('ephemeral')!r:.80}, not true or false")


def _check_start(start: object, where: str) -> None:
    given = _object(start, f"{where}: start")
    kind = given.get("type")
    if not isinstance(kind, str) or not kind:
        raise SpecError(f"{where}: start.type is {kind!r:.80}, not the name of an agent type")
    aliases: object = given.get("aliases", [])
    if not isinstance(aliases, list) or not all(
        isinstance(one, str) for one in cast("list[object]", aliases)
    ):
        raise SpecError(f"{where}: start.aliases is no list of texts")
    _object(given.get("init") or {}, f"{where}: start.init")
    labels = _object(given.get("labels") or {}, f"{where}: start.labels")
    if not all(isinstance(value, str) for value in labels.values()):
        raise SpecError(f"{where}: start.labels must be text to text")
    wants: object = given.get("wants", [])
    if not isinstance(wants, list) or not all(isinstance(one, str) for one in cast("list[object]", wants)):
        raise SpecError(f"{where}: start.wants is no list of texts")
    for name, least in _COUNTS:
        if name in given:
            _count(given[name], least, f"{where}: start.{name}")
    if "guard" in given:
        _word(given["guard"], get_args(GuardMode), f"{where}: start.guard")
    _check_subscribe(given.get("subscribe", []), where)
    _word(given.get("isolation", "process"), get_args(Isolation), f"{where}: start.isolation")
    _word(given.get("resume", "state"), get_args(Resume), f"{where}: start.resume")


def _check_subscribe(listed: object, where: str) -> None:
    if not isinstance(listed, list):
        raise SpecError(f"{where}: start.subscribe is {listed!r:.80}, not a list")
    for one in cast("list[object]", listed):
        if not isinstance(one, list) or len(cast("list[object]", one)) != 3:
            raise SpecError(f"{where}: start.subscribe: {one!r:.80} is not pattern, priority, policy")
        pattern, priority, policy = cast("list[object]", one)
        try:
            spelling = check_subscription(cast("str", pattern), cast("int", priority), cast("str", policy))
        except BadInput as error:
            raise SpecError(f"{where}: start.subscribe: {error}") from None
        if spelling != pattern:
            raise SpecError(f"{where}: start.subscribe: write {pattern} as {spelling}")


def _check_limit(limit: object, where: str) -> None:
    given = _object(limit, f"{where}: limit")
    _count(given.get("max_restarts"), 0, f"{where}: limit.max_restarts")
    _number(given.get("max_seconds"), 0.001, f"{where}: limit.max_seconds")
    _word(given.get("on_exceeded", "park"), get_args(OnExceeded), f"{where}: limit.on_exceeded")


def _check_backoff(backoff: object, where: str) -> None:
    given = _object(backoff, f"{where}: backoff")
    first = given.get("first_ms")
    _count(first, 1, f"{where}: backoff.first_ms")
    _count(given.get("longest_ms"), cast("int", first), f"{where}: backoff.longest_ms")
    _number(given.get("factor"), 1, f"{where}: backoff.factor")


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{where} is {value!r:.80}, not a JSON object")
    return cast("Mapping[str, Any]", value)


def _count(value: object, least: int, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise SpecError(f"{where} is {value!r:.80}, not a whole number of {least} or more")


def _number(value: object, least: float, where: str) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or cast("float", value) < least or cast("float", value) > _LARGEST:
        raise SpecError(f"{where} is {value!r:.80}, not a number of {least:g} or more")


def _word(value: object, words: tuple[str, ...], where: str) -> None:
    if value not in words:
        raise SpecError(f"{where} is {value!r:.80}, none of {', '.join(words)}")
