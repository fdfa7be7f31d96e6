"""A Redis inside this process: fakeredis's commands, regrow's own Lua scripts, and a clock that the test moves.

Bytes in, answers out: it is spoken to in Redis's protocol, so everything above it is regrow's real code. fakeredis's
commands are called directly and scripts stay compiled, which makes a script some fifty times faster than through its
client. Single thread; nothing ever waits in here.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import hiredis

from regrow.testing.quick_commands import NOT_QUICK, QuickCommands
from regrow.testing.script_engine import ScriptEngine, ScriptFailed, StatusReply
from regrow_signals.errors import BadSetting

__all__ = ["MemoryServer"]

_INFO: Final = (
    "# Server\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\nrun_id:in-memory\r\n# Memory\r\nmaxmemory:0\r\n"
    "maxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n"
)


_VERSION: Final = (7, 2)
_PLAIN: Final = (bytes, int, type(None))
_USED: Final = {
    "fakeredis": ["FakeServer", "FakeStrictRedis"],
    "fakeredis._socket": ["FakeSocket"],
    "fakeredis._socket._resp": ["convert_to_resp2"],
    "fakeredis._helpers": ["SimpleError", "SimpleString"],
    "fakeredis._commands": ["Key"],
    "fakeredis.model": ["Hash", "XStream"],
    "fakeredis._core": ["CommandItem"],
    "fakeredis._msgs": ["FLAG_DO_NOT_CREATE", "FLAG_LEAVE_EMPTY_VAL", "WRONGTYPE_MSG"],
}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a command of so many words is called: which of them are keys, which are to be decoded."""

    function: Callable[..., Any]
    keys: list[tuple[int, Any]]
    decoders: list[tuple[int, Callable[[bytes], Any]]]
    creates: bool
    drops_empty: bool


_PLANS: Final[dict[tuple[str, int], _Plan]] = {}
"""By command and number of its words; the same for every server."""


class MemoryServer:
    """One empty database. ``seconds`` tells the server's time, as seconds since 1970."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._names = names = _fakeredis()
        self._engine = ScriptEngine(self._call)
        self._scripts: dict[bytes, Any] = {}
        server = names.FakeServer(version=_VERSION, server_type="redis")
        self._socket: Any = names.FakeSocket(server, 0, client_class=names.FakeStrictRedis)
        self._database: Any = server.dbs[0]
        # Its commands expect the lock to be held: it is, for good, for nobody else comes here.
        server.lock.acquire()
        self._database.notify_watch = _nobody_watches
        self._quick = QuickCommands(self._database, names)
        self.known_scripts: set[str] = set()
        """Names of the scripts that are loaded, for all connections."""

    def execute(self, data: bytes) -> list[Any]:
        """Run all commands in ``data``, in order; answers as a client would parse them, an error as ``ReplyError``."""
        reader = hiredis.Reader()
        reader.feed(data)
        self._database.time = self._seconds()
        answers: list[Any] = []
        while (words := reader.gets()) is not False:
            answers.append(_parsed(self._answer(words)))
        return answers

    def _answer(self, words: list[bytes]) -> Any:
        name = words[0].upper()
        if name == b"EVALSHA":
            return self._run_script(words)
        if name == b"SCRIPT" and words[1].upper() == b"LOAD":
            sha, script = self._engine.load(words[2])
            self._scripts[sha] = script
            return sha
        if name == b"INFO":
            return _INFO.encode()
        if name == b"CLIENT":
            return b"OK"
        try:
            if name == b"BLPOP":
                popped = self._call([b"LPOP", words[1]])
                return None if popped is None else [words[1], popped]
            if name == b"BLMOVE":
                # Asked of one list onto itself (asks.py): a look at its first element that waits for there to be one.
                return self._call([b"LINDEX", words[1], b"0"])
            if name == b"XREAD":
                words = _without_wait(words)
                at = words.index(b"STREAMS")
                if len(words) == at + 3 and self._quick.nothing_after(words[at + 1], words[at + 2]):
                    return None
                self._call([b"XLEN", words[words.index(b"STREAMS") + 1]])  # tells a key of another type
            return self._call(words)
        except ScriptFailed as error:
            return hiredis.ReplyError(str(error))

    def _run_script(self, words: list[bytes]) -> Any:
        script = self._scripts.get(words[1])
        if script is None:
            return hiredis.ReplyError("NOSCRIPT No matching script. Please use EVAL.")
        keys = 3 + int(words[2])
        try:
            return self._engine.run(script, words[3:keys], words[keys:])
        except ScriptFailed as error:
            return hiredis.ReplyError(str(error))

    def _call(self, words: Sequence[bytes]) -> Any:
        """One command; raises ``ScriptFailed`` with the server's error."""
        name = words[0].decode("ascii", "replace").lower()
        if name == "time":
            micros = round(self._seconds() * 1_000_000)
            return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]
        rest = list(words[1:])
        quick = self._quick.by_name.get(name)
        if quick is not None and (answer := quick(rest)) is not NOT_QUICK:
            return answer
        if name == "xadd":
            return self._add_entry(rest)
        if name == "xinfo":
            name, rest = f"{name} {rest[0].decode().lower()}", rest[1:]
        return self._run(name, rest)

    def _run(self, name: str, rest: list[bytes]) -> Any:
        """What a fake socket does for a command, without its notices to other clients, of which there are none."""
        plan = _PLANS.get((name, len(rest)))
        items: list[Any] = []
        try:
            if plan is None:
                plan = _PLANS[name, len(rest)] = self._planned(name, rest)
            for at, decode in plan.decoders:
                rest[at] = decode(rest[at])
            arguments: list[Any] = rest
            for at, key in plan.keys:
                found = self._database.get(rest[at])
                if found is None and key.missing_return is not key.UNSPECIFIED:
                    return self._plain(key.missing_return)
                arguments[at] = self._item(rest[at], found, key, create=plan.creates)
                items.append(arguments[at])
            answer = plan.function(self._socket, *arguments)
        except self._names.SimpleError as error:
            raise ScriptFailed(error.value) from None
        finally:
            for item in items:
                item.writeback(remove_empty_val=plan is None or plan.drops_empty)
        return self._plain(answer)

    def _planned(self, name: str, rest: list[bytes]) -> _Plan:
        function, signature = self._socket._name_to_func(name)
        signature.check_arity(rest, _VERSION)
        kinds = list(signature.fixed)
        more = itertools.cycle(signature.repeat)
        kinds += [next(more) for _ in range(len(rest) - len(kinds))]
        keys = [(at, kind) for at, kind in enumerate(kinds) if isinstance(kind, self._names.Key)]
        places = {at for at, _ in keys}
        decoders = [
            (at, kind.decode) for at, kind in enumerate(kinds) if at not in places and kind is not bytes
        ]
        flags = signature.flags
        creates = self._names.FLAG_DO_NOT_CREATE not in flags
        return _Plan(
            function.__func__, keys, decoders, creates, self._names.FLAG_LEAVE_EMPTY_VAL not in flags
        )

    def _item(self, name: bytes, found: Any, key: Any, *, create: bool) -> Any:
        wanted = key.type_
        if wanted is not None and found is not None and type(found.value) is not wanted:
            raise ScriptFailed(self._names.WRONGTYPE_MSG)
        default = wanted() if create and found is None and wanted not in (None, bytes) else None
        return self._names.CommandItem(name, self._database, found, default=default)

    def _plain(self, answer: Any) -> Any:
        if type(answer) in _PLAIN:
            return answer
        if isinstance(answer, self._names.SimpleString):
            return StatusReply(answer.value)
        if isinstance(answer, self._names.SimpleError):
            raise ScriptFailed(answer.value)
        return self._names.convert_to_resp2(answer, "redis")

    def _add_entry(self, rest: list[bytes]) -> Any:
        """fakeredis takes the wall clock for ``*``; a partial id keeps its numbering and takes our milliseconds."""
        place = next((at for at, word in enumerate(rest) if at > 0 and word == b"*"), None)
        if place is None:
            return self._run("xadd", rest)
        before, after = rest[:place], rest[place + 1 :]
        try:
            return self._run("xadd", [*before, b"%d-*" % int(self._seconds() * 1000), *after])
        except ScriptFailed as error:
            if "equal or smaller" not in str(error):
                raise
        # An entry with an id from the future is in it: `*` counts on from there.
        info: list[Any] = self._run("xinfo stream", [rest[0]])
        last: bytes = info[info.index(b"last-generated-id") + 1]
        return self._run("xadd", [*before, last.partition(b"-")[0] + b"-*", *after])


def _nobody_watches(key: bytes) -> None:
    del key


def _parsed(answer: Any) -> Any:
    """As hiredis gives it: text decoded, bytes that are no UTF-8 escaped."""
    if isinstance(answer, bytes):
        return answer.decode("utf-8", "surrogateescape")
    if isinstance(answer, list):
        items: list[Any] = answer  # pyright: ignore[reportUnknownVariableType]
        return [_parsed(each) for each in items]
    return answer


def _without_wait(words: list[bytes]) -> list[bytes]:
    """Nothing waits in here: who waits lets the others go on, and asks again."""
    upper = [word.upper() for word in words[: words.index(b"STREAMS")]]
    if b"BLOCK" not in upper:
        return words
    at = upper.index(b"BLOCK")
    return [*words[:at], *words[at + 2 :]]


@cache
def _fakeredis() -> SimpleNamespace:
    """What is used of fakeredis, by name: it is an optional dependency, and its command classes are used directly."""
    found: dict[str, Any] = {}
    try:
        for module, names in _USED.items():
            loaded = importlib.import_module(module)
            found.update({name: getattr(loaded, name) for name in names})
        importlib.import_module("lupa.lua51")
    except (ImportError, AttributeError) as error:
        raise BadSetting(
            f"regrow.testing's Harness needs fakeredis with Lua ({error}): pip install 'regrow[testing]'"
        ) from error
    return SimpleNamespace(**found)
