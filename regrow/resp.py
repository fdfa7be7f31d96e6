"""Redis answers as they are: the kinds that redis-cli shows apart (status, error, integer, bulk, nil, array)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Reply", "ServerError", "Status", "pack", "raw_lines", "read_reply", "shown_lines"]

_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}


@dataclass(frozen=True, slots=True)
class Status:
    """A simple string, e.g. OK."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerError:
    """The server's error line."""

    text: str


Reply = Status | ServerError | int | bytes | None | list["Reply"]


def pack(words: Sequence[str]) -> bytes:
    """One command. Arguments that are not UTF-8 (as the system hands them over) go as the bytes they were."""
    encoded = [word.encode("utf-8", "surrogateescape") for word in words]
    parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)]
    return b"".join(parts)


def read_reply(read_line: Callable[[], bytes], read_exactly: Callable[[int], bytes]) -> Reply:
    """One answer in RESP2. ``read_line`` gives a line with its end, ``read_exactly`` so many bytes."""
    line = read_line()
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return Status(rest.decode("utf-8", "replace"))
    if kind == b"-":
        return ServerError(rest.decode("utf-8", "replace"))
    if kind == b":":
        return int(rest)
    if kind == b"$":
        size = int(rest)
        return None if size < 0 else read_exactly(size + 2)[:-2]
    if kind == b"*":
        count = int(rest)
        return None if count < 0 else [read_reply(read_line, read_exactly) for _ in range(count)]
    raise ValueError(f"not an answer of Redis: {line[:40]!r}")


def shown_lines(reply: Reply, indent: str = "") -> Iterator[str]:
    """For a terminal, as redis-cli prints it there: numbered, typed, with every byte that is not ASCII escaped."""
    if not isinstance(reply, list):
        yield _shown(reply)
        return
    if not reply:
        yield "(empty array)"
        return
    width = len(str(len(reply)))
    for place, item in enumerate(reply, start=1):
        below = indent + " " * (width + 2)
        head = f"{place:>{width}}) "
        for number, line in enumerate(shown_lines(item, below)):
            lead = ("" if place == 1 else indent) + head if number == 0 else ""
            yield lead + line


def _shown(reply: Status | ServerError | int | bytes | None) -> str:
    if reply is None:
        return "(nil)"
    if isinstance(reply, Status):
        return reply.text
    if isinstance(reply, ServerError):
        return f"(error) {reply.text}"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    return '"' + "".join(_escaped(byte) for byte in reply) + '"'


def _escaped(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")


def raw_lines(reply: Reply) -> Iterator[bytes]:
    """For a pipe: the bytes themselves, one element a line, as redis-cli does when its output is no terminal."""
    if isinstance(reply, list):
        for item in reply:
            yield from raw_lines(item)
        if not reply:
            yield b""
    elif reply is None:
        yield b""
    elif isinstance(reply, bytes):
        yield reply
    else:
        yield str(reply.text if isinstance(reply, Status | ServerError) else reply).encode()
