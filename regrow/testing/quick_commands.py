"""The commands that regrow uses most, asked of fakeredis's values directly: its way to a command takes longer than
the command. Whatever is not plain (a key of another type, a key to be made, a wrong number of words) is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from regrow.testing.script_engine import StatusReply

__all__ = ["NOT_QUICK", "QuickCommands"]

NOT_QUICK: Final = object()
"""The answer is fakeredis's to give."""

_NONE: Final = StatusReply(b"none")


class QuickCommands:
    """Of one database. ``names`` are fakeredis's ``Hash`` and ``XStream``."""

    def __init__(self, database: Any, names: SimpleNamespace) -> None:
        self._database = database
        self._hash: Any = names.Hash
        self._stream: Any = names.XStream
        self.by_name: Final[Mapping[str, Callable[[list[bytes]], Any]]] = {
            "type": self._type,
            "exists": self._exists,
            "hset": self._hset,
            "hget": self._hget,
            "hmget": self._hmget,
            "hlen": self._hlen,
            "xlen": self._xlen,
        }
        self._kinds: dict[Any, StatusReply] = {}

    def nothing_after(self, name: bytes, after: bytes) -> bool:
        """Whether the stream surely has no entry behind this one: there is no need to read it."""
        found = self._database.get(name)
        if found is None:
            return True
        if type(found.value) is not self._stream:
            return False
        ms, _, sequence = after.partition(b"-")
        if not (ms.isdigit() and sequence.isdigit()):
            return False
        return bool(found.value.last_id <= (int(ms), int(sequence)))

    def _type(self, rest: list[bytes]) -> Any:
        if len(rest) != 1:
            return NOT_QUICK
        found = self._database.get(rest[0])
        if found is None:
            return _NONE
        kind: Any = type(found.value)
        if kind not in self._kinds:
            if kind not in (self._hash, self._stream):
                return NOT_QUICK
            self._kinds[kind] = StatusReply(found.value.model_type())
        return self._kinds[kind]

    def _exists(self, rest: list[bytes]) -> Any:
        return int(rest[0] in self._database) if len(rest) == 1 else NOT_QUICK

    def _hset(self, rest: list[bytes]) -> Any:
        found = self._database.get(rest[0]) if len(rest) > 2 and len(rest) % 2 else None
        if found is None or type(found.value) is not self._hash:
            return NOT_QUICK
        fields = found.value
        before = len(fields)
        fields.update(dict(zip(rest[1::2], rest[2::2], strict=True)), clear_expiration=True)
        return len(fields) - before

    def _hget(self, rest: list[bytes]) -> Any:
        if len(rest) != 2:
            return NOT_QUICK
        answer = self._hmget(rest)
        return answer if answer is NOT_QUICK else answer[0]

    def _hmget(self, rest: list[bytes]) -> Any:
        if len(rest) < 2:
            return NOT_QUICK
        found = self._database.get(rest[0])
        if found is None:
            return [None] * (len(rest) - 1)
        if type(found.value) is not self._hash:
            return NOT_QUICK
        return [found.value.get(field) for field in rest[1:]]

    def _hlen(self, rest: list[bytes]) -> Any:
        return self._length(rest, self._hash)

    def _xlen(self, rest: list[bytes]) -> Any:
        return self._length(rest, self._stream)

    def _length(self, rest: list[bytes], kind: Any) -> Any:
        if len(rest) != 1:
            return NOT_QUICK
        found = self._database.get(rest[0])
        if found is None:
            return 0
        return len(found.value) if type(found.value) is kind else NOT_QUICK
