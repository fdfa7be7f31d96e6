"""The stored form of supervisors and children: plain JSON, checked as OTP checks, in OTP's order.

    supervisor  strategy, max_restarts, max_seconds, auto_shutdown, max_children, children: [child, ..]
                keep       children added at run time come back when the supervisor itself is restarted
                limit      the limit of each child that has none of its own (see child)
                owner      the agent whose spawned children they are (families.py)
                pause      the root does not end when it gives up, it pauses: {first_ms, longest_ms}
                schedules  of a root: the timers that its agents' types declare, {type: [timer, ..]}
    child       id, start (opaque to a decision: what shell and node need), restart, significant, type, shutdown (ms,
                "brutal_kill", "infinity"), modules
                supervisor the definition of a nested supervisor
                limit      counted by itself: {max_restarts, max_seconds, on_exceeded: "park" | "escalate"}; what it
                           leaves out is the supervisor's
                backoff    {first_ms, factor, longest_ms}
                parent, tag, on_parent_death, ephemeral  of a child that an agent spawned (families.py)
                idle_delete_ms  how long it may have nothing to do before it is deleted (of dynamic supervisors alone)
                incarnation  the last number used before it came on record

Defaults are OTP's and Elixir's, in the supervisor's flags too; regrow's own stand in spec.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

__all__ = [
    "WORKER_SHUTDOWN_MS",
    "Definition",
    "SpecError",
    "full_child",
    "full_children",
    "full_flags",
    "public_spec",
    "with_incarnations",
]

Definition = Mapping[str, Any]

STRATEGIES: Final = ("one_for_one", "one_for_all", "rest_for_one", "simple_one_for_one", "dynamic")
RESTARTS: Final = ("permanent", "transient", "temporary")
AUTO_SHUTDOWNS: Final = ("never", "any_significant", "all_significant")
WORKER_SHUTDOWN_MS: Final = 5000
"""OTP's default, on record for a worker that says nothing."""

_PUBLIC: Final = ("id", "restart", "significant", "shutdown", "type", "modules")


class SpecError(ValueError):
    """A definition that OTP refuses; ``str()`` is OTP's word for it."""


def full_flags(definition: Definition) -> dict[str, Any]:
    """The supervisor's definition with defaults filled in; ``SpecError`` names the first wrong flag."""
    full: dict[str, Any] = {
        "strategy": "one_for_one",
        "max_restarts": 3 if definition.get("strategy") == "dynamic" else 1,
        "max_seconds": 5,
        "auto_shutdown": "never",
        "max_children": None,
        "children": [],
        **definition,
    }
    _require(full["strategy"] in STRATEGIES, "invalid_strategy")
    _require(_is_count(full["max_restarts"], 0), "invalid_intensity")
    _require(_is_count(full["max_seconds"], 1), "invalid_period")
    _require(full["max_children"] is None or _is_count(full["max_children"], 0), "invalid_max_children")
    _require(full["auto_shutdown"] in AUTO_SHUTDOWNS, "invalid_auto_shutdown")
    return full


def full_children(flags: Definition) -> list[dict[str, Any]]:
    """The children of ``full_flags``' result, each complete; ``SpecError`` names the first wrong one's fault."""
    children: dict[str, dict[str, Any]] = {}
    for raw in cast("Sequence[object]", flags["children"]):
        child = full_child(raw, flags)
        if child["id"] in children:
            raise SpecError(f"duplicate_child_name({child['id']})")
        children[child["id"]] = child
    return list(children.values())


def full_child(raw: object, flags: Definition) -> dict[str, Any]:
    """One child with defaults filled in, checked in OTP's order."""
    if not isinstance(raw, Mapping):
        raise SpecError("invalid_child_spec")
    given = cast("Mapping[str, Any]", raw)
    dynamic = flags["strategy"] == "dynamic"
    _require("id" in given, "invalid_child_spec" if dynamic else "missing_id")
    _require("start" in given, "invalid_child_spec" if dynamic else "missing_start")
    kind = given.get("type", "supervisor" if "supervisor" in given else "worker")
    full: dict[str, Any] = {
        "restart": "permanent",
        "significant": False,
        "shutdown": "infinity" if kind == "supervisor" else WORKER_SHUTDOWN_MS,
        **given,
        "type": kind,
    }
    _require(isinstance(full["start"], Mapping), "invalid_mfa")
    _require(full["restart"] in RESTARTS, "invalid_restart_type")
    _require(dynamic or "idle_delete_ms" not in given, "invalid_idle_delete")
    if not dynamic:
        _check_significant(full, flags)
    _require(dynamic or kind in ("worker", "supervisor"), "invalid_child_type")
    _require(_is_shutdown(full["shutdown"]), "invalid_shutdown")
    _require(kind in ("worker", "supervisor"), "invalid_child_type")
    _check_modules(given.get("modules", "dynamic"))
    # Elixir's dynamic supervisor looks at this last, and takes no significant child at all.
    _require(not dynamic or full["significant"] is False, "invalid_significant")
    limit = _limit(full.get("limit"), flags)
    if limit is not None:
        full["limit"] = limit
    return full


def _limit(own: Mapping[str, Any] | None, flags: Definition) -> Mapping[str, Any] | None:
    """A child's budget: what its spec leaves open is the supervisor's, which it may not have known when it was made."""
    inherited: Mapping[str, Any] | None = flags.get("limit")
    if own is None:
        return inherited
    budget = {"max_restarts": flags.get("max_restarts", 3), "max_seconds": flags.get("max_seconds", 5)}
    return {**budget, "on_exceeded": "park", **(inherited or {}), **own}


def public_spec(spec: Definition) -> dict[str, Any]:
    """What get_childspec shows: OTP's fields."""
    return {name: spec[name] for name in _PUBLIC if name in spec}


def with_incarnations(definition: Definition, numbers: Mapping[str, int]) -> Definition:
    """The definition with the last used number of each agent in ``numbers``, the nested supervisors' too."""
    if not numbers:
        return definition
    children = [_numbered(child, numbers) for child in definition.get("children", [])]
    return {**definition, "children": children}


def _numbered(child: object, numbers: Mapping[str, int]) -> object:
    if not isinstance(child, Mapping):
        return child
    known = dict(cast("Mapping[str, Any]", child))
    if "supervisor" in known:
        return {**known, "supervisor": with_incarnations(known["supervisor"], numbers)}
    if known.get("id") in numbers:
        known["incarnation"] = max(numbers[known["id"]], known.get("incarnation", 0))
    return known


def _check_significant(full: Definition, flags: Definition) -> None:
    significant = full["significant"]
    if significant is True:
        _require(flags["auto_shutdown"] != "never" and full["restart"] != "permanent", "bad_combination")
    _require(isinstance(significant, bool), "invalid_significant")


def _check_modules(modules: object) -> None:
    if modules == "dynamic":
        return
    _require(isinstance(modules, list), "invalid_modules")
    for module in cast("list[object]", modules):
        _require(isinstance(module, str), f"invalid_module({module})")


def _require(fine: bool, error: str) -> None:
    if not fine:
        raise SpecError(error)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_shutdown(value: object) -> bool:
    return value in ("brutal_kill", "infinity") if isinstance(value, str) else _is_count(value, 0)
