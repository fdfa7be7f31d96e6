"""One exchange with the server, without I/O: what to send, and what the answers mean.

``exchange`` is a generator of ``Batch``es that gets back the raw answers; the blocking and the awaited connection both
drive it, so there is one policy. Scripts go as EVALSHA; a script that this connection has not used yet is loaded in the
same round trip, and one that the server forgot meanwhile is loaded and sent again (it had not run).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import hiredis

from regrow_signals import replies
from regrow_signals.calls import Arg, Call, Command
from regrow_signals.errors import (
    CorruptKey,
    FateUnknown,
    NotStrictJSON,
    RegrowError,
    StoreError,
    StoreUnavailable,
)
from regrow_signals.scripts import Script, load
from regrow_signals.store_errors import store_error

__all__ = [
    "Batch",
    "Entries",
    "Item",
    "Lost",
    "exchange",
    "lost_error",
    "may_repeat",
    "new_reader",
    "wait_of",
]

Item = Call[Any] | Command[Any]
Entries = list[tuple[str, dict[str, str | bytes]]]

# hiredis takes a tuple of any length; its stub says one.
_pack_command = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]

# Errors of a parser that met a field which nobody of ours has written so.
_UNREADABLE: Final = (ValueError, KeyError, IndexError, TypeError, AttributeError)


class Lost(Exception):
    """The socket failed or was silent too long. ``sent``: the server may have got the command."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Batch:
    """Bytes to send, and how many answers to wait for."""

    data: bytes
    answers: int


def exchange(
    items: Sequence[Item], loaded: set[str], where: str, prelude: Sequence[tuple[Arg, ...]] = ()
) -> Generator[Batch, list[Any], list[Any]]:
    """Send ``items``; the value is their parsed answers in order, a failed one's being its exception.

    ``prelude`` are commands whose answers do not matter. ``loaded`` are the scripts known to be in the server.
    """
    scripts = _new_scripts(items, loaded)
    before = [*prelude, *(("SCRIPT", "LOAD", script.source) for script in scripts)]
    answers = yield _batch([*before, *(_words(item) for item in items)])
    loaded.update(script.name for script in scripts)
    answers = answers[len(before) :]
    forgotten = [place for place, answer in enumerate(answers) if _is_noscript(answer)]
    if forgotten:
        again = [items[place] for place in forgotten]
        sources = _new_scripts(again, set())
        got = yield _batch(
            [*(("SCRIPT", "LOAD", s.source) for s in sources), *(_words(item) for item in again)]
        )
        for place, answer in zip(forgotten, got[len(sources) :], strict=True):
            answers[place] = answer
    results = [_result(item, answer, where) for item, answer in zip(items, answers, strict=True)]
    for place, result in enumerate(results):
        item = items[place]
        if type(result) is CorruptKey and isinstance(item, Call) and _is_wrongtype(answers[place]):
            types = yield _batch([("TYPE", key) for key in item.keys])
            results[place] = _name_wrong_key(item, types) or result
    return results


def may_repeat(items: Sequence[Item]) -> bool:
    """Is sending all of it again harmless, also if it ran?"""
    return all(item.repeatable for item in items)


def wait_of(item: Item) -> float:
    """How many seconds the item itself may block in the server."""
    return item.wait if isinstance(item, Command) else 0.0


def lost_error(items: Sequence[Item], where: str, reason: str, *, sent: bool) -> StoreError:
    """``FateUnknown`` when something that changes data may have run, else ``StoreUnavailable``."""
    what = _what(items[0]) if len(items) == 1 else f"{len(items)} commands"
    if sent and not all(isinstance(item, Command) and item.repeatable for item in items):
        return FateUnknown(
            f"Redis at {where}: {what} was sent and not answered ({reason}): it may have run or not"
        )
    return StoreUnavailable(f"Redis at {where}: {reason}; {what} did not run")


def new_reader() -> hiredis.Reader:
    """A parser of answers: text is decoded in C, and no byte can make it fail."""
    return hiredis.Reader(encoding="utf-8", errors="surrogateescape")


def stream_command(key: str, after: str, count: int, block_ms: int | None) -> Command[Entries]:
    """XREAD of one stream after one id."""
    block: tuple[Arg, ...] = () if block_ms is None else ("BLOCK", block_ms)
    return Command(("XREAD", "COUNT", count, *block, "STREAMS", key, after), _streams, hint=key)


def range_command(key: str, after: str, last: str, count: int) -> Command[Entries]:
    """XRANGE of one stream after one id, up to and including another."""
    return Command(("XRANGE", key, f"({after}", last, "COUNT", count), _range, hint=key)


def entry_fields(flat: Sequence[str]) -> dict[str, str | bytes]:
    """An entry's flat fields as a dict; a value that is not UTF-8 is given as its bytes."""
    if "".join(flat).isascii():
        # One look for all, in C: this is done for every signal.
        words = iter(flat)
        return dict(zip(words, words, strict=True))
    return {
        name: value if value.isascii() or replies.is_text(value) else replies.raw(value)
        for name, value in zip(flat[::2], flat[1::2], strict=True)
    }


def _streams(reply: Any) -> Entries:
    if not reply:
        return []
    return [(entry, entry_fields(flat)) for entry, flat in reply[0][1]]


def _range(reply: Any) -> Entries:
    return [(entry, entry_fields(flat)) for entry, flat in reply]


def _new_scripts(items: Sequence[Item], loaded: set[str]) -> list[Script]:
    wanted = {item.script: None for item in items if isinstance(item, Call) and item.script not in loaded}
    return [load(name) for name in wanted]


def _words(item: Item) -> tuple[Arg, ...]:
    if isinstance(item, Call):
        return ("EVALSHA", load(item.script).sha, len(item.keys), *item.keys, *item.args)
    return tuple(item.words)


def _batch(commands: Sequence[tuple[Arg, ...]]) -> Batch:
    return Batch(b"".join(map(_pack, commands)), len(commands))


def _pack(words: tuple[Arg, ...]) -> bytes:
    try:
        return _pack_command(words)
    except UnicodeEncodeError:
        return _pack_command(tuple(map(_encoded, words)))


def _encoded(word: Arg) -> Arg:
    """Escaped bytes go back as the bytes they were; a surrogate of another kind is no text at all."""
    if not isinstance(word, str):
        return word
    try:
        return replies.raw(word)
    except UnicodeEncodeError:
        raise NotStrictJSON("text holds a lone surrogate and cannot be written as UTF-8") from None


def _result(item: Item, answer: Any, where: str) -> Any:
    if isinstance(answer, hiredis.ReplyError):
        return store_error(str(answer), _what(item), where)
    try:
        return item.parse(answer)
    except RegrowError as error:
        return error
    except _UNREADABLE as error:
        found = f"{type(error).__name__}: {error}"
        return CorruptKey(f"{_what(item)}: what lies in Redis cannot be read ({found:.200})")


def _name_wrong_key(call: Call[Any], types: list[Any]) -> CorruptKey | None:
    header = load(call.script).header
    wanted = header.key_types[: len(header.keys)]
    for key, found, kind in zip(call.keys, types, wanted, strict=False):
        if found not in (kind, "none"):
            return CorruptKey(
                f"{_what(call)}: {key} is a {found}, not a {kind}; nothing was changed. Look at it, then rename it away"
            )
    odd = [f"{key} is a {found}" for key, found in zip(call.keys, types, strict=True) if found == "string"]
    return CorruptKey(f"{_what(call)}: a key has the wrong type ({'; '.join(odd)})") if odd else None


def _what(item: Item) -> str:
    name = item.script if isinstance(item, Call) else str(item.words[0])
    return f"{name} ({item.hint})" if item.hint else name


def _is_noscript(answer: Any) -> bool:
    return isinstance(answer, hiredis.ReplyError) and str(answer).startswith("NOSCRIPT")


def _is_wrongtype(answer: Any) -> bool:
    return isinstance(answer, hiredis.ReplyError) and str(answer).startswith("WRONGTYPE")
