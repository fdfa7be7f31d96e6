"""NaN and infinity inside of other models: pydantic writes them as ``null`` there, so they are looked for beforehand.

A ``State`` refuses them in its own fields; a model within it has a configuration of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from regrow_signals.errors import NotStrictJSON

__all__ = ["check_finite", "may_hide_nonfinite"]

_CONTAINERS = (list, tuple, set, frozenset)


def check_finite(value: object, what: str) -> None:
    """``NotStrictJSON`` if ``value`` holds a number that JSON has no word for. Nothing in it may hold itself."""
    level: list[object] = [value]
    while level:
        below: list[object] = []
        for node in level:
            if isinstance(node, float):
                if not math.isfinite(node):
                    raise NotStrictJSON(f"{what} is not strict JSON: {float(node)} is no JSON number")
            elif not isinstance(node, (str, bytes, int)):
                below.extend(_within(node))
        level = below


def may_hide_nonfinite(model: type[BaseModel]) -> bool:
    """Whether a value of the model can hold such a number where its encoder would not show it."""
    return _hides(model.__pydantic_core_schema__, strict=False)


def _within(node: object) -> Iterable[object]:
    if isinstance(node, BaseModel):
        return (*node.__dict__.values(), *(node.__pydantic_extra__ or {}).values())
    if isinstance(node, Mapping):
        mapping = cast("Mapping[object, object]", node)
        return (*mapping.keys(), *mapping.values())
    if isinstance(node, _CONTAINERS):
        return cast("Iterable[object]", node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return [getattr(node, field.name) for field in dataclasses.fields(node)]
    return ()


def _hides(schema: object, *, strict: bool) -> bool:
    if isinstance(schema, Mapping):
        node = cast("Mapping[str, Any]", schema)
        config = node.get("config")
        if isinstance(config, Mapping):
            strict = cast("Mapping[str, Any]", config).get("allow_inf_nan") is False
        kind = node.get("type")
        if kind in ("any", "definition-ref", "is-instance", "call", "function-plain"):
            return True
        if kind == "float":
            return not strict and node.get("allow_inf_nan") is not False
        return any(
            _hides(part, strict=strict)
            for key, part in node.items()
            if key not in ("metadata", "serialization")
        )
    if isinstance(schema, (list, tuple)):
        return any(_hides(part, strict=strict) for part in cast("list[object]", schema))
    return False
