"""A supervisor's record as the fields of its hash, each readable text; small fields, so that a change writes little.

path parent status incarnation reason next_place started_ms starter pauses due_ms held
definition            JSON: what it was started from
strategy              of the definition, for people
stamps plan waiting spent   JSON
child:<id>            JSON: the child's state, without what never changes
spec:<id>             JSON: the child's spec
q:<number>            JSON: one message of the queue
version               the shell's; read, never written here
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast, get_args

from regrow_signals.errors import CorruptKey
from regrow_supervisor.states import ALIVE, ChildState, ChildStatus, SupervisorState, SupervisorStatus

__all__ = ["FieldChanges", "changes", "child_from_texts", "from_fields", "to_fields"]

_TEXTS: Final = ("path", "parent", "status", "reason", "starter")
_NUMBERS: Final = ("incarnation", "next_place", "started_ms", "pauses", "due_ms")
_JSONS: Final = ("definition", "stamps", "plan", "waiting", "spent")
_CHILD, _SPEC, _QUEUE = "child:", "spec:", "q:"

_FLAGS: Final = frozenset(
    {"strategy", "max_restarts", "max_seconds", "auto_shutdown", "max_children", "children"}
)

#: What a supervisor waits for, with the parts that it needs to go on.
_WAITS: Final[Mapping[str, frozenset[str]]] = {
    "start": frozenset({"child", "incarnation", "why", "request", "result"}),
    "stop": frozenset({"child", "incarnation", "mode", "due_ms", "result"}),
    "stops": frozenset({"left", "errors"}),
}

#: Fields of a child that may be left out, with the value that this means.
_DEFAULTS: Final = {
    field.name: field.default for field in fields(ChildState) if field.name not in ("id", "spec", "place")
}


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """What to write so that one record becomes another."""

    set: Mapping[str, str]
    delete: tuple[str, ...]


def to_fields(state: SupervisorState) -> dict[str, str]:
    """The whole record."""
    texts = _own_fields(state)
    for child in state.children.values():
        texts[_CHILD + child.id] = _child_text(child)
        texts[_SPEC + child.id] = _dump(child.spec)
    for number, message in state.queue.items():
        texts[f"{_QUEUE}{number}"] = _dump(message)
    return texts


def changes(
    old: SupervisorState | None, new: SupervisorState, touched: Iterable[str] | None = None
) -> FieldChanges:
    """The fields that differ. ``touched``: no other child does; None: look at all of them."""
    if old is None:
        return FieldChanges(to_fields(new), ())
    ids = {**dict.fromkeys(old.children), **dict.fromkeys(new.children)} if touched is None else touched
    before = _own_fields(old, like=new)
    written = {name: text for name, text in _own_fields(new, like=old).items() if before.get(name) != text}
    gone: list[str] = []
    for id_ in ids:
        child, known = new.children.get(id_), old.children.get(id_)
        if child is None:
            gone += [name + id_ for name in (_CHILD, _SPEC) if known is not None]
            continue
        if known is child:
            continue
        if known is None or known.but(spec=child.spec) != child:
            written[_CHILD + child.id] = _child_text(child)
        if known is None or (known.spec is not child.spec and known.spec != child.spec):
            written[_SPEC + child.id] = _dump(child.spec)
    for number, message in new.queue.items():
        if number not in old.queue or old.queue[number] != message:
            written[f"{_QUEUE}{number}"] = _dump(message)
    gone += [f"{_QUEUE}{number}" for number in old.queue if number not in new.queue]
    return FieldChanges(written, tuple(gone))


def from_fields(texts: Mapping[str, str]) -> SupervisorState:
    """The record again. ``CorruptKey`` if it cannot be read, naming the supervisor and the field."""
    path = texts.get("path", "?")
    own = {name: texts.get(name, "") for name in _TEXTS}
    read: dict[str, Any] = {**own, "held": texts.get("held") == "1"}
    for name in _NUMBERS:
        read[name] = _field(path, name, texts, int)
    read["version"] = int(_field(path, "version", {"version": "0", **texts}, int))
    for name in _JSONS:
        read[name] = _field(path, name, texts, json.loads)
    _require(path, "status", own["status"] in get_args(SupervisorStatus))
    _require(path, "path", bool(own["path"]))
    _require(path, "definition", _is_definition(read["definition"], complete=own["status"] in ALIVE))
    _require(path, "stamps", _all(read["stamps"], list, int))
    _require(path, "plan", _all(read["plan"], list, list))
    _require(path, "waiting", _is_waiting(read["waiting"]))
    _require(path, "spent", isinstance(read["spent"], dict))
    read["stamps"], read["plan"] = tuple(read["stamps"]), tuple(read["plan"])
    children = _children(path, texts)
    dues = {child.id: child.due_ms for child in children.values() if child.due_ms}
    return SupervisorState(**read, children=children, queue=_queue(path, texts), dues=dues)


def child_from_texts(path: str, child_id: str, state: str, spec: str) -> ChildState:
    """One child alone, from its two fields. ``CorruptKey`` as ``from_fields``."""
    return _children(path, {_CHILD + child_id: state, _SPEC + child_id: spec})[child_id]


def _own_fields(state: SupervisorState, *, like: SupervisorState | None = None) -> dict[str, str]:
    """All but children and queue; JSON that ``like`` shares is left out, for it has not changed."""
    texts = {name: str(getattr(state, name)) for name in (*_TEXTS, *_NUMBERS)}
    texts["held"] = "1" if state.held else "0"
    texts["strategy"] = state.strategy
    for name in _JSONS:
        value = getattr(state, name)
        if like is None or value is not getattr(like, name):
            texts[name] = _dump(value)
    return texts


def _child_text(child: ChildState) -> str:
    shown = {"place": child.place, "status": child.status, "incarnation": child.incarnation}
    changed = {
        name: getattr(child, name) for name, default in _DEFAULTS.items() if getattr(child, name) != default
    }
    return _dump({**shown, **changed})


def _children(path: str, texts: Mapping[str, str]) -> dict[str, ChildState]:
    found: list[ChildState] = []
    for name, text in texts.items():
        if not name.startswith(_CHILD):
            continue
        child_id = name.removeprefix(_CHILD)
        state = _field(path, name, {name: text}, json.loads)
        spec = _field(path, _SPEC + child_id, texts, json.loads)
        _require(path, name, _is_child(state))
        _require(path, _SPEC + child_id, _is_spec(spec))
        stamps = tuple(state.pop("stamps", ()))
        found.append(ChildState(id=child_id, spec=spec, stamps=stamps, **state))
    found.sort(key=lambda child: child.place)
    return {child.id: child for child in found}


def _is_definition(value: Any, *, complete: bool) -> bool:
    """One that a supervisor runs on has its defaults filled in."""
    if not isinstance(value, dict):
        return False
    definition = cast("dict[str, Any]", value)
    return not complete or (definition.keys() >= _FLAGS and isinstance(definition["children"], list))


def _is_waiting(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict):
        return False
    waiting = cast("dict[str, Any]", value)
    kind = waiting.get("for")
    if not isinstance(kind, str) or kind not in _WAITS or not _WAITS[kind] <= waiting.keys():
        return False
    return isinstance(waiting.get("due_ms", 0), int)


def _is_child(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    state = cast("dict[str, Any]", value)
    known = {"place": 0, **_DEFAULTS}
    if not {"place", "status", "incarnation"} <= state.keys() <= known.keys():
        return False
    if state["status"] not in get_args(ChildStatus) or not _all(state.get("stamps", []), list, int):
        return False
    return all(name == "stamps" or type(item) is type(known[name]) for name, item in state.items())


def _is_spec(value: Any) -> bool:
    needed = {"restart", "significant", "shutdown", "type", "start"}
    return isinstance(value, dict) and needed <= cast("dict[str, Any]", value).keys()


def _queue(path: str, texts: Mapping[str, str]) -> dict[int, Any]:
    queue: dict[int, Any] = {}
    for name, text in texts.items():
        if name.startswith(_QUEUE):
            number = _field(path, name, {name: name.removeprefix(_QUEUE)}, int)
            queue[number] = _field(path, name, {name: text}, json.loads)
            _require(path, name, isinstance(queue[number], list))
    return dict(sorted(queue.items()))


def _field(path: str, name: str, texts: Mapping[str, str], read: Callable[[str], Any]) -> Any:
    try:
        return read(texts[name])
    except (KeyError, ValueError, RecursionError, TypeError):
        raise CorruptKey(f"supervisor {path!r}: field {name!r} is missing or cannot be read") from None


def _require(path: str, name: str, fine: bool) -> None:
    if not fine:
        raise CorruptKey(f"supervisor {path!r}: field {name!r} does not hold what it should")


def _all(value: object, outer: type, inner: type) -> bool:
    return isinstance(value, outer) and all(isinstance(item, inner) for item in cast("list[object]", value))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
