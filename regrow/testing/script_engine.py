"""Runs regrow's Lua scripts in this process: the same files that Redis runs, in the same Lua (5.1).

``redis.call``, ``redis.pcall``, ``cjson.encode`` and ``cjson.decode`` are what Redis gives a script, as far as ours use
them. A script is compiled once for the process.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

__all__ = ["ScriptEngine", "ScriptFailed", "StatusReply"]

Caller = Callable[[Sequence[bytes]], Any]


class ScriptFailed(Exception):
    """A command's error, or a script's: its text is what the server answers."""


class StatusReply(bytes):
    """A reply such as ``OK``, or the answer of TYPE: to a script it is a table with ``ok``."""


class ScriptEngine:
    """Scripts of one server; ``call`` runs one of its commands and raises ``ScriptFailed``."""

    def __init__(self, call: Caller) -> None:
        self._call = call

    def load(self, source: bytes) -> tuple[bytes, Any]:
        """The script's SHA-1 and its compiled form."""
        return hashlib.sha1(source, usedforsecurity=False).hexdigest().encode(), _compiled(source)

    def run(self, script: Any, keys: Sequence[bytes], args: Sequence[bytes]) -> Any:
        """The reply; raises ``ScriptFailed``. No script calls another, so one caller is current at a time."""
        lua = _lua()
        before, lua.caller = lua.caller, self._call
        try:
            return lua.plain(script(lua.runtime.table_from(keys), lua.runtime.table_from(args)))
        except lua.error as error:
            raise ScriptFailed(f"ERR {error}") from error
        finally:
            lua.caller = before


class _Lua:
    """The process's one Lua runtime; ``caller`` runs the commands of the script that is running."""

    def __init__(self) -> None:
        # By name: an optional dependency. Redis's Lua is 5.1, so no other will do.
        module = importlib.import_module("lupa.lua51")
        self.error: type[Exception] = module.LuaError
        self._type: Callable[[object], str | None] = module.lua_type
        self.runtime: Any = module.LuaRuntime(encoding=None, unpack_returned_tuples=True)
        self.caller: Caller = _nobody
        set_up = self.runtime.eval(
            b"function(call, pcall, encode, decode) redis = {call = call, pcall = pcall}; "
            b"cjson = {encode = encode, decode = decode} end"
        )
        set_up(self._call, self._pcall, self._encode, self._decode)

    def plain(self, value: Any) -> Any:
        """A script's reply as Redis converts it: tables are arrays up to the first nil, numbers whole, true is 1."""
        if self._type(value) == "table":
            for key in (b"ok", b"err"):
                if value[key] is not None:
                    if key == b"ok":
                        return value[key]
                    raise ScriptFailed(value[key].decode("utf-8", "replace"))
            found: list[Any] = []
            while (item := value[len(found) + 1]) is not None:
                found.append(self.plain(item))
            return found
        if isinstance(value, bool):
            return 1 if value else None
        return int(value) if isinstance(value, float) else value

    def _call(self, *words: Any) -> Any:
        return self._given(self.caller([word if type(word) is bytes else _word(word) for word in words]))

    def _pcall(self, *words: Any) -> Any:
        try:
            return self._call(*words)
        except ScriptFailed as error:
            return self.runtime.table_from({b"err": str(error).encode()})

    def _given(self, reply: Any) -> Any:
        """A command's reply as a script sees it: nil is false."""
        if reply is None:
            return False
        if isinstance(reply, StatusReply):
            return self.runtime.table_from({b"ok": bytes(reply)})
        if isinstance(reply, list):
            replies: list[Any] = reply  # pyright: ignore[reportUnknownVariableType]
            return self.runtime.table_from([
                each if type(each) is bytes else False if each is None else self._given(each) for each in replies
            ])  # fmt: skip
        return reply

    def _encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise ScriptFailed("ERR cjson.encode of anything but text is not there in tests")
        text = json.dumps(value.decode("utf-8", "surrogateescape"), ensure_ascii=False)
        return text.replace("/", "\\/").encode("utf-8", "surrogateescape")

    def _decode(self, text: bytes) -> Any:
        try:
            return self._table(json.loads(text))
        except ValueError as error:
            raise ScriptFailed(f"ERR cjson.decode: {error}") from None

    def _table(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return self.runtime.table_from([self._table(each) for each in items])
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value).items()
            return self.runtime.table_from({key.encode(): self._table(each) for key, each in pairs})
        return value


@cache
def _lua() -> _Lua:
    return _Lua()


@cache
def _compiled(source: bytes) -> Any:
    return _lua().runtime.eval(b"function(KEYS, ARGV)\n" + source + b"\nend")


def _word(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) in (int, float):
        return f"{value:.17g}".encode()
    raise ScriptFailed("ERR Lua redis lib command arguments must be strings or integers")


def _nobody(words: Sequence[bytes]) -> Any:
    raise ScriptFailed(f"ERR {words[0]!r} outside of a script")
