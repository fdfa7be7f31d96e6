"""What lies in ``{ns}:exits``, read into values: pure and total. What cannot be read is ``Junk`` with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regrow_signals.creation import CREATE_OP
from regrow_signals.errors import BadId
from regrow_signals.families import SPAWN_OP, STOP_CHILD_OP
from regrow_signals.ids import check_id
from regrow_signals.replies import is_text
from regrow_supervisor.created import about

__all__ = [
    "AgentExited",
    "AgentStarted",
    "Entry",
    "Junk",
    "NodeChanged",
    "RequestMade",
    "Run",
    "read_entry",
    "runs",
]

_LONGEST_REASON = 1_000


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A claim: the incarnation runs."""

    agent: str
    incarnation: int
    node: str


@dataclass(frozen=True, slots=True)
class AgentExited:
    """A node's report of an end. ``charged``: does it count for the restart intensity."""

    agent: str
    incarnation: int
    node: str
    reason: str
    charged: bool
    schema: int | None = None
    """Of the state that is stored now."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """``joined``, ``draining`` or ``left``."""

    node: str
    event: str


@dataclass(frozen=True, slots=True)
class RequestMade:
    """A client's or an operator's request; the answer goes to ``{ns}:reply:<request>``.

    Nobody waits for the answer to a ``create`` or a ``spawn``: its ``request`` says which agent it is about
    (created.py); nor for that to a ``stop_child``, whose request is empty.
    """

    request: str
    op: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Junk:
    """Nothing that a node or a client of ours writes. ``request`` is set where somebody can still be answered."""

    why: str
    request: str = ""


Entry = AgentStarted | AgentExited | NodeChanged | RequestMade | Junk

Run = Sequence[tuple[str, Entry]]
"""Entries that may be answered in one step, each with its id."""


def runs(entries: Run) -> list[Run]:
    """In order: neighbours that create agents together, each agent once; every other entry by itself."""
    found: list[list[tuple[str, Entry]]] = []
    agents: set[str] = set()
    for entry, read in entries:
        created = (
            read.fields.get("child", "") if isinstance(read, RequestMade) and read.op == CREATE_OP else ""
        )
        if created and agents and created not in agents:
            found[-1].append((entry, read))
            agents.add(created)
        else:
            found.append([(entry, read)])
            agents = {created} if created else set()
    return [*found]


def read_entry(fields: Mapping[str, str | bytes]) -> Entry:
    """Read one entry; never raises."""
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, bytes) or not is_text(value) or not is_text(name):
            return Junk(f"field {name!a:.80} is not UTF-8")
        texts[name] = value
    try:
        return _READERS[texts.get("kind", "")](texts)
    except KeyError as missing:
        if texts.get("kind", "") not in _READERS:
            return Junk(f"unknown kind {texts.get('kind')!r:.80}")
        return Junk(f"kind={texts['kind']} without field {missing}", _answerable(texts))
    except (BadId, ValueError) as error:
        return Junk(f"kind={texts.get('kind')}: {error}"[:300], _answerable(texts))


def _started(texts: Mapping[str, str]) -> Entry:
    return AgentStarted(check_id(texts["agent"], "agent"), _number(texts), texts.get("node", ""))


def _exited(texts: Mapping[str, str]) -> Entry:
    return AgentExited(
        check_id(texts["agent"], "agent"),
        _number(texts),
        texts.get("node", ""),
        texts["reason"][:_LONGEST_REASON],
        texts.get("charged", "1") == "1",
        int(schema) if (schema := texts.get("schema", "")).isascii() and schema.isdigit() else None,
    )


def _node(texts: Mapping[str, str]) -> Entry:
    return NodeChanged(check_id(texts["node"], "node"), texts["event"])


def _request(texts: Mapping[str, str]) -> Entry:
    request = check_id(texts["request"], "request")
    rest = {name: value for name, value in texts.items() if name not in ("kind", "request", "op")}
    if texts["op"] in (CREATE_OP, SPAWN_OP):
        request = about(check_id(texts["child"], "child"))
    elif texts["op"] == STOP_CHILD_OP:
        request = ""
    return RequestMade(request, texts["op"], rest)


_READERS = {"started": _started, "exited": _exited, "node": _node, "request": _request}


def _number(texts: Mapping[str, str]) -> int:
    text = texts["incarnation"]
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise ValueError(f"incarnation {text!r:.40} is no number")
    return int(text)


def _answerable(texts: Mapping[str, str]) -> str:
    try:
        return check_id(texts.get("request", ""))
    except BadId:
        return ""
