"""Redis URLs: read strictly, shown without their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import urlsplit

from redis import connection as redis_connection

from regrow_signals.errors import BadSetting

__all__ = ["connection_options", "mask_url"]

_parse_url = cast(
    "Callable[[str], dict[str, Any]]", vars(redis_connection)["parse_url"]
)  # its source is untyped

SCHEMES: Final = ("redis://", "rediss://", "unix://")
_SECRET_OPTION = re.compile(r"((?:^|[?&])[^=&]*(?:password|username)[^=&]*=)[^&#]*", re.IGNORECASE)


def mask_url(url: str) -> str:
    """The URL with user and password hidden, also where the URL is odd (``rediss://:p%40ss@h``, ``?password=``)."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return "***"
    at = -1 if scheme == "unix" and rest.startswith("/") else rest.rfind("@", 0, _before_query(rest))
    if at >= 0:
        rest = f"***@{rest[at + 1 :]}"
    shown = _SECRET_OPTION.sub(r"\1***", rest)
    return f"{scheme}://{shown}"


def _before_query(rest: str) -> int:
    """Where the query begins. Not at the first ``/``: a password with a raw one is an error, but must not leak."""
    query = rest.find("?")
    return query if query >= 0 else len(rest)


def connection_options(url: str) -> dict[str, Any]:
    """Options for redis-py's connection classes; ``connection_class`` is among them. Else ``BadSetting``."""
    if not url.startswith(SCHEMES):
        raise BadSetting(f"Redis URL {mask_url(url)}: must begin with redis://, rediss:// or unix://")
    try:
        options: dict[str, Any] = dict(_parse_url(url))
        _check_path(url)
    except ValueError as error:
        raise BadSetting(f"Redis URL {mask_url(url)}: {_harmless(error)}") from None
    for name in ("retry", "protocol", "decode_responses", "encoding", "health_check_interval"):
        options.pop(name, None)
    return options


def _check_path(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("no path of a socket")
    elif parts.path not in ("", "/") and not parts.path[1:].isdigit():
        raise ValueError("what follows the host must be a database number")


def _harmless(error: ValueError) -> str:
    """The reason, unless it quotes a part of the URL (urllib does so with a bad port)."""
    text = str(error)
    return (
        text if text.startswith(("no path", "what follows", "Invalid value for")) else "not a well-formed URL"
    )
