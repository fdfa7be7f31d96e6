"""CloudEvents' extension attributes: names and values that are none of the specification's own, nor of regrow's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from regrow_signals import strict_json
from regrow_signals.errors import BadInput, TooLarge

__all__ = [
    "NO_EXTENSIONS",
    "Extension",
    "check_extensions",
    "check_text",
    "dump_extensions",
    "load_extensions",
]

Extension = str | int | bool

NO_EXTENSIONS: Final[Mapping[str, Extension]] = MappingProxyType({})

MAX_ATTRIBUTE: Final = 1024
"""Characters of an attribute's text."""

MAX_EXTENSIONS: Final = 50
MAX_EXTENSIONS_BYTES: Final = 8192

_NAME: Final = re.compile(r"[a-z0-9]{1,60}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_extensions(extensions: Mapping[str, Any], taken: frozenset[str]) -> Mapping[str, Extension]:
    """The same if they are extension attributes; ``BadInput`` names the one that is not, and the rule.

    ``taken`` are names that mean something else.
    """
    for name, value in extensions.items():
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"extension attribute {name!r:.80} is not usable: names are lower-case letters and digits, 60 at most"
            )
        if name in taken:
            raise BadInput(f"extension attribute {name}: that is an attribute of its own, give it as such")
        if isinstance(value, str):
            check_text(value, f"extension attribute {name}")
        elif not isinstance(value, int) or not -(2**31) <= value < 2**31:
            raise BadInput(
                f"extension attribute {name} is {value!r:.60}: give text, a whole number of 32 bits, true or false"
            )
    if len(extensions) > MAX_EXTENSIONS:
        raise TooLarge(f"{len(extensions)} extension attributes; {MAX_EXTENSIONS} is the bound")
    return extensions


def check_text(value: str, what: str) -> None:
    """An attribute's text is not empty, bounded, and without control characters, as CloudEvents' strings are."""
    if not value:
        raise BadInput(f"{what}: must be text that is not empty")
    if len(value) > MAX_ATTRIBUTE:
        raise TooLarge(f"{what} is {len(value)} characters; {MAX_ATTRIBUTE} is the bound")
    if _CONTROL.search(value):
        raise BadInput(f"{what} holds a control character")


def dump_extensions(extensions: Mapping[str, Extension]) -> str:
    """As they lie in a mailbox: one JSON object, its names in order."""
    return strict_json.dumps(
        dict(sorted(extensions.items())), max_bytes=MAX_EXTENSIONS_BYTES, what="the extension attributes"
    )


def load_extensions(text: str) -> Mapping[str, Extension]:
    """What ``dump_extensions`` wrote; ``BadInput`` for what nobody of ours wrote."""
    found: object = strict_json.loads(text, max_bytes=MAX_EXTENSIONS_BYTES, what="field extensions")
    if not isinstance(found, dict):
        raise BadInput("field extensions is no JSON object")
    return check_extensions(cast("dict[str, Any]", found), frozenset())
