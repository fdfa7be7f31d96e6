"""Between the scenarios' JSON (format.md) and the product's: definitions on the way in, texts on the way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regrow_supervisor.orders import Reply, Report
from regrow_supervisor.states import DYNAMIC

FLAGS = {"intensity": "max_restarts", "period": "max_seconds", "init_returns": "returns"}
SPEC_FIELDS = ("id", "restart", "significant", "shutdown", "type", "modules")


@dataclass(frozen=True)
class Process:
    """A simulated life: ``label`` is what traces call it, ``key`` its id in its supervisor."""

    label: str
    path: str
    key: str
    incarnation: int
    number: int

    @property
    def name(self) -> str:
        return f"{self.label}#{self.number}"

    @property
    def life(self) -> dict[str, Any]:
        return {"path": self.path, "child": self.key, "incarnation": self.incarnation}


def definition_form(
    flags: Mapping[str, Any], children: list[Mapping[str, Any]], attempts: Mapping[str, int]
) -> dict[str, Any]:
    """A supervisor's stored form; wrong values are passed on as they are."""
    renamed = {FLAGS.get(name, name): value for name, value in flags.items()}
    return {**renamed, "children": [child_form(child, attempts) for child in children]}


def child_form(spec: Mapping[str, Any], attempts: Mapping[str, int]) -> Any:
    """A child's stored form; ``attempts`` are the starts seen so far, as the shell knows them."""
    if "raw" in spec:
        return spec["raw"]
    form: dict[str, Any] = {name: spec[name] for name in SPEC_FIELDS if name in spec}
    form["start"] = spec.get("start", {})
    form["incarnation"] = attempts.get(str(spec.get("id", "")), 0)
    if "children" in spec or "sup" in spec:
        form["supervisor"] = definition_form(spec.get("sup", {}), spec.get("children", []), attempts)
    for name in spec.get("omit", []):
        form.pop(name, None)
    return form


def reply_text(reply: Reply, kind: str, strategy: str) -> Any:
    dynamic = strategy in DYNAMIC
    if reply.error:
        return _error_text(reply, kind, dynamic=dynamic)
    match kind:
        case "start_tree" | "start_child" | "restart_child":
            declined = "ignore" if strategy == "dynamic" or kind == "start_tree" else "ok:undefined"
            return declined if reply.value["incarnation"] is None else _started_text(reply.value)
        case "which_children":
            return counts_and_children(reply.value, dynamic=dynamic)
        case "count_children" | "get_childspec":
            return reply.value
        case "stop_sup" | "kill_sup":
            return None
        case _:
            return "ok"


def _error_text(reply: Reply, kind: str, *, dynamic: bool) -> str:
    match reply.error:
        case "noproc":
            return "noproc"
        case "call_exit":
            return f"call_exit:{reply.detail}"
        case "start_failed" if dynamic or kind != "start_child":
            return f"error:{reply.detail}"
        case _:
            return ":".join(filter(None, ("error", reply.error, reply.detail)))


def _started_text(value: Mapping[str, Any]) -> str:
    word = "ok_info" if value["info"] else "ok"
    return f"{word}:{_label(value['child'])}#{value['incarnation']}"


def counts_and_children(rows: list[list[Any]], *, dynamic: bool) -> list[Any]:
    """which_children's rows, first started first; those of dynamic supervisors have no names and no order."""
    named = [
        [child, f"{_label(child)}#{incarnation}" if status in ("running", "stopping", "starting") else status]
        for child, status, incarnation, _ in reversed(rows)
    ]
    return sorted(state for _, state in named) if dynamic else named


def report_text(report: Report) -> str:
    child = f"{_label(report.child)} x{report.count}" if report.count else _label(report.child)
    return f"{report.context} {child} {report.reason}"


def _label(key: str) -> str:
    return key.partition("~")[0]
