"""Strict JSON: what goes in comes out equal, or is refused before anything is sent.

Refused: NaN, infinity, numbers that overflow to it, lone surrogates, keys that are not strings, values JSON has no word
for, nesting or size over the bound. Allowed: NUL, any integer of up to 4,300 digits (Python's own bound), tuples (as
arrays). Reading and writing go through pydantic's Rust core, several times faster than the standard library; what that
core is lax in (it takes 1e400 for infinity) is checked here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Final, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from regrow_signals.errors import NotStrictJSON, TooLarge

__all__ = ["MAX_DEPTH", "canonical", "check", "digest", "dumps", "loads"]

MAX_DEPTH: Final = 64

_LEAVES: Final = frozenset((str, bool, type(None)))
_INTEGERS: Final = 10**4300
"""Where Python's own reading of integers ends: nothing is written that cannot be read."""
_MAY_OVERFLOW: Final = re.compile(r"[0-9][eE]\+?0*[1-9][0-9]{2}|[0-9]{300}")
_canonical = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def dumps(
    value: object, *, max_bytes: int | None = None, max_depth: int = MAX_DEPTH, what: str = "data"
) -> str:
    """``value`` as compact strict JSON. ``NotStrictJSON`` says where it is not; ``TooLarge`` gives both figures."""
    _check_value(value, max_depth, what)
    try:
        encoded = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise NotStrictJSON(f"{what} is not strict JSON: {_reason(error)}") from None
    _check_size(len(encoded), max_bytes, what)
    return encoded.decode()


def loads(
    text: str | bytes,
    *,
    max_bytes: int | None = None,
    max_depth: int = MAX_DEPTH,
    unique_keys: bool = False,
    what: str = "data",
) -> Any:
    """The value of strict JSON text. ``unique_keys`` also refuses an object with a key twice (for text from people)."""
    if max_bytes is not None:
        _check_size(len(text) if isinstance(text, bytes) else len(_encoded(text, what)), max_bytes, what)
    try:
        value = from_json(text, allow_inf_nan=False)
        if isinstance(text, bytes):
            text = text.decode()
    except (ValueError, TypeError) as error:  # TypeError: a str with a lone surrogate
        raise NotStrictJSON(f"{what} is not strict JSON: {_reason(error)}") from None
    if text.count("[") + text.count("{") > max_depth or _MAY_OVERFLOW.search(text):
        _check_value(value, max_depth, what)
    if unique_keys:
        _check_unique_keys(text, what)
    return value


def check(text: str, *, max_bytes: int | None = None, max_depth: int = MAX_DEPTH, what: str = "data") -> str:
    """The text itself if it is strict JSON within the bounds; for text that another encoder made."""
    loads(text, max_bytes=max_bytes, max_depth=max_depth, what=what)
    return text


def canonical(value: object, *, max_depth: int = MAX_DEPTH, what: str = "data") -> bytes:
    """One spelling for equal values: keys sorted, no spaces. For digests, not for storing."""
    _check_value(value, max_depth, what)
    try:
        return _canonical(value).encode()
    except ValueError as error:
        raise NotStrictJSON(f"{what} is not strict JSON: {_reason(error)}") from None


def digest(value: object) -> str:
    """32 hex digits that equal values share."""
    return hashlib.blake2b(canonical(value), digest_size=16).hexdigest()


def _check_value(value: object, max_depth: int, what: str) -> None:
    """Walk containers level by level, so that no depth can exhaust the stack; a loop ends as too deep."""
    level: list[object] = [value]
    depth = 0
    while level:
        below: list[object] = []
        for node in level:
            kind = type(node)
            if kind is dict:
                mapping = cast("dict[object, object]", node)
                for key in mapping:
                    if not isinstance(key, str):
                        raise NotStrictJSON(f"{what} is not strict JSON: key {key!r:.60} is not a string")
                below.extend(mapping.values())
            elif kind is list or kind is tuple:
                below.extend(cast("list[object]", node))
            elif kind is int:
                if not -_INTEGERS < cast("int", node) < _INTEGERS:
                    raise NotStrictJSON(f"{what} holds an integer of more than 4,300 digits")
            elif kind not in _LEAVES:
                _check_leaf(node, what)
        if not below and not any(type(node) in (dict, list, tuple) for node in level):
            return
        depth += 1
        if depth > max_depth:
            raise NotStrictJSON(f"{what} is nested deeper than {max_depth} levels")
        level = below


def _check_leaf(node: object, what: str) -> None:
    if isinstance(node, float):
        if not math.isfinite(node):
            raise NotStrictJSON(f"{what} is not strict JSON: {float(node)} is no JSON number")
    elif not isinstance(node, str | int):
        raise NotStrictJSON(
            f"{what} is not strict JSON: a {type(node).__name__} cannot be written; "
            "use dict, list, str, int, float, bool or None"
        )


def _check_unique_keys(text: str, what: str) -> None:
    def unique(found: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in found]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise NotStrictJSON(f"{what} is not strict JSON: key {twice!r:.60} stands twice in one object")

    json.loads(text, object_pairs_hook=unique)


def _check_size(size: int, max_bytes: int | None, what: str) -> None:
    if max_bytes is not None and size > max_bytes:
        raise TooLarge(f"{what} is {size:,} bytes of JSON; {max_bytes:,} is the bound")


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotStrictJSON(
            f"{what} is not strict JSON: a lone surrogate cannot be written as UTF-8"
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError) or "surrogate" in str(error) or isinstance(error, TypeError):
        return "a lone surrogate, or bytes that are not UTF-8"
    return str(error)[:200]
