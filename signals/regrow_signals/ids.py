"""The rules for names: agent ids, signal types, namespaces. Whatever passes here is safe inside a key."""

from __future__ import annotations

import re
import secrets
from typing import Final

from regrow_signals.errors import BadId, BadInput, BadNamespace, BadTypeName

__all__ = ["check_id", "check_namespace", "check_tag", "check_type", "new_id"]

MAX_TYPE_LENGTH: Final = 200
MAX_TAG: Final = 100
SHOWN: Final = 80

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}", re.ASCII)
_TYPE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def check_id(value: object, what: str = "id") -> str:
    """The id itself, or ``BadId`` naming the rule. Braces, globs, spaces and newlines never reach a key."""
    if type(value) is str and _ID.fullmatch(value):
        return value
    raise BadId(
        f"{what} {_shown(value)} is not usable: 1 to 200 characters of A-Z a-z 0-9 . _ : / @ - "
        "beginning with a letter or digit"
    )


def check_tag(tag: object, what: str) -> str:
    """The tag of a timer or an effect itself, or ``BadInput``: an id of 100 characters at most."""
    checked = check_id(tag, what)
    if len(checked) > MAX_TAG:
        raise BadInput(f"{what} has {len(checked)} characters; {MAX_TAG} is the bound")
    return checked


def check_type(value: object, what: str = "signal type") -> str:
    """The type name itself, or ``BadTypeName``: dot-separated segments such as ``ticket.opened``."""
    if type(value) is str and len(value) <= MAX_TYPE_LENGTH and _TYPE.fullmatch(value):
        return value
    raise BadTypeName(
        f"{what} {_shown(value)} is not usable: segments of A-Z a-z 0-9 _ - joined by dots, such as "
        f"'ticket.opened', {MAX_TYPE_LENGTH} characters at most"
    )


def check_namespace(value: object) -> str:
    """The namespace itself, or ``BadNamespace``: it becomes the hash tag of every key."""
    if type(value) is str and _NAMESPACE.fullmatch(value):
        return value
    raise BadNamespace(
        f"namespace {_shown(value)} is not usable: 1 to 64 characters of A-Z a-z 0-9 . _ - "
        "beginning with a letter or digit"
    )


def new_id() -> str:
    """A fresh random id of 128 bits in 32 hex digits: for signals, births, tokens, requests."""
    return secrets.token_hex(16)


def _shown(value: object) -> str:
    text = ascii(value) if isinstance(value, str) else f"of type {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
