"""Redis URLs: read strictly, shown without their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

from regrow_signals.errors import BadSetting

__all__ = ["Address", "address_of", "check_url", "checked_address", "connection_options", "mask_url"]

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


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL without options says. ``path`` is a unix socket's; empty: ``host`` and ``port`` count."""

    path: str = ""
    host: str = "localhost"
    port: int = 6379
    username: str = ""
    password: str = ""
    db: int = 0


def check_url(url: str) -> None:
    """``BadSetting`` for what is no URL of a Redis server."""
    checked_address(url)


def checked_address(url: str) -> Address | None:
    """As ``address_of``; a URL that is left to redis-py is checked, too."""
    address = address_of(url)
    if address is None:
        connection_options(url)
    return address


def address_of(url: str) -> Address | None:
    """None where the URL has options or asks for TLS: those are for redis-py to read. Else ``BadSetting``."""
    _check_scheme(url)
    if url.startswith("rediss://") or "?" in url or "#" in url:
        return None
    try:
        parts = _checked_parts(url)
        path = unquote(parts.path) if parts.scheme == "unix" else ""
        return Address(
            path=path,
            host=unquote(parts.hostname or "localhost"),
            port=parts.port or 6379,
            username=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            db=0 if path else int(parts.path[1:] or 0),
        )
    except ValueError as error:
        raise BadSetting(f"Redis URL {mask_url(url)}: {_harmless(error)}") from None


def connection_options(url: str) -> dict[str, Any]:
    """Options for redis-py's connection classes; ``connection_class`` is among them. Else ``BadSetting``."""
    from redis import connection as redis_connection  # slow and large: only for who needs redis-py anyway

    # Its source is untyped.
    parse = cast("Callable[[str], dict[str, Any]]", vars(redis_connection)["parse_url"])
    _check_scheme(url)
    try:
        options: dict[str, Any] = dict(parse(url))
        _checked_parts(url)
    except ValueError as error:
        raise BadSetting(f"Redis URL {mask_url(url)}: {_harmless(error)}") from None
    for name in ("retry", "protocol", "decode_responses", "encoding", "health_check_interval"):
        options.pop(name, None)
    return options


def _check_scheme(url: str) -> None:
    if not url.startswith(SCHEMES):
        raise BadSetting(f"Redis URL {mask_url(url)}: must begin with redis://, rediss:// or unix://")


def _checked_parts(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("no path of a socket")
    elif parts.path not in ("", "/") and not parts.path[1:].isdigit():
        raise ValueError("what follows the host must be a database number")
    return parts


def _harmless(error: ValueError) -> str:
    """The reason, unless it quotes a part of the URL (urllib does so with a bad port)."""
    text = str(error)
    return (
        text if text.startswith(("no path", "what follows", "Invalid value for")) else "not a well-formed URL"
    )
