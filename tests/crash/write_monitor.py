"""Every write that a server carries out, those of its scripts too: what a scan at one moment would miss."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import redis

__all__ = ["Writes"]

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TYPES = {
    "XADD": "stream",
    "HSET": "hash",
    "HINCRBY": "hash",
    "ZADD": "zset",
    "SADD": "set",
    "RPUSH": "list",
    "LPUSH": "list",
    "SET": "string",
}


class Writes:
    """``with Writes(url) as writes``: afterwards the keys, entries and hash fields that were written."""

    def __init__(self, url: str) -> None:
        self.types: dict[str, set[str]] = {}
        self.entries: list[tuple[str, dict[str, str]]] = []
        self.fields: dict[str, dict[str, str]] = {}
        self._client: Any = redis.Redis.from_url(url)
        self._mark = f"end-{uuid.uuid4().hex}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Writes:
        self._thread.start()
        assert self._ready.wait(10), "the server takes MONITOR"
        return self

    def __exit__(self, *_: object) -> None:
        self._client.echo(self._mark)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the monitor has seen the mark"
        self._client.close()

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._ready.set()
            while True:
                line: bytes = monitor.connection.read_response()
                text = line.decode("utf-8", "replace").partition("] ")[2]
                words = [re.sub(r"\\(.)", r"\1", word) for word in _WORD.findall(text)]
                if words[1:] == [self._mark]:
                    return
                self._take(words)

    def _take(self, words: Sequence[str]) -> None:
        name = words[0].upper()
        if name == "RENAME":
            self.types.setdefault(words[2], set()).update(self.types[words[1]])
            self.fields.setdefault(words[2], {}).update(self.fields.pop(words[1]))
        if name not in _TYPES:
            return
        key = words[1]
        self.types.setdefault(key, set()).add(_TYPES[name])
        if name == "XADD":
            rest = words[5:] if words[2].upper() == "MAXLEN" else words[2:]
            self.entries.append((key, dict(zip(rest[1::2], rest[2::2], strict=True))))
        elif name == "HSET":
            self.fields.setdefault(key, {}).update(zip(words[2::2], words[3::2], strict=True))
        elif name == "HINCRBY":
            self.fields.setdefault(key, {})[words[2]] = words[3]
