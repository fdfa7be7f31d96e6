"""How the effects call the model and its tools: HTTP from an event loop, with what Python brings along."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

__all__ = ["ADDRESS", "ProviderError", "post", "stream"]

ADDRESS = "CHAT_PROVIDER_URL"


class ProviderError(Exception):
    """It did not answer, or not to the end."""


async def post(path: str, body: Mapping[str, Any], *, key: str = "") -> dict[str, Any]:
    """One question, one answer."""
    [answer] = [piece async for piece in stream(path, body, key=key)]
    return answer


async def stream(path: str, body: Mapping[str, Any], *, key: str = "") -> AsyncIterator[dict[str, Any]]:
    """The answer piece by piece, as it comes. A last piece ``{}`` says that it is complete."""
    address = urlsplit(os.environ[ADDRESS])
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        text = json.dumps(body).encode()
        head = f"POST /{path} HTTP/1.0\r\nContent-Length: {len(text)}\r\nIdempotency-Key: {key}\r\n\r\n"
        writer.write(head.encode() + text)
        status = await reader.readline()
        if b" 200 " not in status:
            raise ProviderError(f"{path}: {status.decode().strip() or 'no answer'}")
        while (await reader.readline()).strip():
            """A header."""
        while line := await reader.readline():
            piece: dict[str, Any] = json.loads(line)
            if not piece:
                return
            yield piece
        raise ProviderError(f"{path}: the answer broke off")
    finally:
        writer.close()
