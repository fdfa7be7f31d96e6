"""What pydantic knows, in one line of ours: a value's first problem, and whether a model may nest deeply."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

__all__ = ["did_you_mean", "first_problem", "may_nest", "one_line"]

_SHOWN: Final = 300

# Schemas that take values of any depth: `Any`, bare containers, a model inside itself, a user's own function.
_OPEN: Final = frozenset(
    {"any", "definition-ref", "json", "custom-error", "is-instance", "call", "arguments"}
)
_BARE: Final = {
    "dict": "values_schema",
    "list": "items_schema",
    "set": "items_schema",
    "frozenset": "items_schema",
}


def first_problem(error: ValidationError) -> str:
    """``field: what is wrong`` of the first problem, without the value (it may be a secret), and how many more."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return one_line(f"{place}: {first['msg']}{more}" if place else f"{first['msg']}{more}")


def did_you_mean(name: str, known: Mapping[str, object]) -> str:
    """``; did you mean 'open'?``, or the names there are."""
    close = get_close_matches(name, list(known), n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(sorted(known)) or 'none'}"


def one_line(text: object) -> str:
    """A message as one line of bounded length, safe to store and to log."""
    line = " ".join(str(text).split())
    if len(line) > _SHOWN:
        line = f"{line[:_SHOWN]}..."
    return line.encode("utf-8", "backslashreplace").decode()


def may_nest(model: type[BaseModel]) -> bool:
    """Whether values of the model can be nested without a bound that its definition gives."""
    return _open(model.__pydantic_core_schema__)


def _open(schema: object) -> bool:
    if isinstance(schema, Mapping):
        found = cast("Mapping[str, Any]", schema)
        kind = found.get("type")
        if kind in _OPEN or (kind in _BARE and _BARE[kind] not in found):
            return True
        return any(_open(part) for name, part in found.items() if name not in ("metadata", "serialization"))
    if isinstance(schema, (list, tuple)):
        return any(_open(part) for part in cast("list[object]", schema))
    return False
