"""``regrow redis``: redis-cli for those who have none. One command with its words, or a prompt without."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Protocol

from redis.backoff import NoBackoff
from redis.connection import Connection as RedisTCP
from redis.exceptions import RedisError
from redis.retry import Retry

from regrow.resp import Reply, ServerError, pack, raw_lines, read_reply, shown_lines
from regrow_signals.errors import StoreError, StoreUnavailable
from regrow_signals.redis_py_links import connect_error
from regrow_signals.server_url import connection_options, mask_url

__all__ = ["RedisShell", "run_redis_shell", "split_words"]

_HEX = re.compile(r"\\x([0-9a-fA-F]{2})")
_ENDLESS = {"MONITOR", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}


class _Link(Protocol):
    """What is used of redis-py's connections: they connect (addresses, TLS, AUTH, SELECT); the rest is ours."""

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...


def run_redis_shell(url: str, words: Sequence[str], *, raw: bool | None = None) -> int:
    """The exit code: 0, or 1 when the server answered a given command with an error. ``raw``: None asks the terminal.

    Raises StoreError when the server cannot be reached.
    """
    shell = RedisShell(url, raw=not sys.stdout.isatty() if raw is None else raw)
    try:
        return shell.once(words) if words else shell.prompt()
    except KeyboardInterrupt:
        return 130
    finally:
        shell.close()


class RedisShell:
    """A link to the server that shows what it says, whatever it is asked. Nothing is ever repeated."""

    def __init__(self, url: str, *, raw: bool, out: IO[bytes] | None = None) -> None:
        self._url = url
        self._raw = raw
        self._out = out or sys.stdout.buffer
        self._link: _Link | None = None
        self._reader: IO[bytes] | None = None

    def once(self, words: Sequence[str]) -> int:
        """Send one command and print its answer; a command that never ends prints until the link does."""
        link = self._socket()
        try:
            link.sendall(pack(words))
        except OSError:
            raise self._lost() from None
        failed = False
        while True:
            reply = self._read()
            failed = failed or isinstance(reply, ServerError)
            self._print(reply)
            if failed or words[0].upper() not in _ENDLESS:
                return int(failed)

    def prompt(self) -> int:
        """Read commands until ``exit`` or the end of input; a lost link is made again for the next one."""
        if sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")  # importing it gives input() its line editing
        where = mask_url(self._url)
        self._socket()
        while True:
            try:
                line = input(f"{where}> " if sys.stdin.isatty() else "")
            except EOFError:
                return 0
            except KeyboardInterrupt:
                self._out.write(b"\n")
                continue
            self._obey(line)
            if line.strip().lower() in ("exit", "quit"):
                return 0

    def _obey(self, line: str) -> None:
        try:
            words = split_words(line)
            if words and words[0].lower() not in ("exit", "quit"):
                self.once(words)
        except ValueError as error:
            self._out.write(f"{error}\n".encode())
        except StoreError as error:
            self._out.write(f"{error}\n".encode())
        except KeyboardInterrupt:
            self.close()  # its answer may still come: the next command must not get it

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._link is not None:
            self._link.disconnect()
        self._link = self._reader = None

    def _socket(self) -> socket.socket:
        if self._link is None:
            options = connection_options(self._url)
            kind: Callable[..., _Link] = options.pop("connection_class", RedisTCP)
            link = kind(**options, protocol=2, retry=Retry(NoBackoff(), 0), socket_connect_timeout=5)
            try:
                link.connect()
            except (RedisError, OSError) as error:
                raise connect_error(error, mask_url(self._url)) from None
            self._link = link
        found: socket.socket = vars(self._link)["_sock"]
        if self._reader is None:
            found.settimeout(None)  # a blocking command may take its time
            self._reader = found.makefile("rb")
        return found

    def _read(self) -> Reply:
        reader = self._reader
        assert reader is not None

        def line() -> bytes:
            got = reader.readline()
            if not got.endswith(b"\r\n"):
                raise EOFError
            return got

        def exactly(count: int) -> bytes:
            got = reader.read(count)
            if len(got) < count:
                raise EOFError
            return got

        try:
            return read_reply(line, exactly)
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> StoreUnavailable:
        self.close()
        return StoreUnavailable(f"Redis at {mask_url(self._url)} closed the connection")

    def _print(self, reply: Reply) -> None:
        if self._raw:
            lines: Iterator[bytes] = raw_lines(reply)
        else:
            lines = (line.encode() for line in shown_lines(reply))
        for line in lines:
            self._out.write(line + os.linesep.encode())
        self._out.flush()


def split_words(line: str) -> list[str]:
    """As redis-cli splits: ``"..."`` with escapes (``\\n``, ``\\x41``), ``'...'`` as it is. Raises ValueError."""
    words: list[str] = []
    rest = line.strip()
    while rest:
        word, rest = _next_word(rest)
        words.append(word)
        if rest and not rest[0].isspace():
            raise ValueError("Invalid argument(s): a closing quote must be followed by a space")
        rest = rest.lstrip()
    return words


def _next_word(text: str) -> tuple[str, str]:
    if text[0] not in "\"'":
        end = next((place for place, letter in enumerate(text) if letter.isspace()), len(text))
        return text[:end], text[end:]
    quote, word, place = text[0], bytearray(), 1
    while place < len(text):
        letter = text[place]
        if letter == quote:
            return word.decode("utf-8", "surrogateescape"), text[place + 1 :]
        if letter == "\\" and quote == '"' and place + 1 < len(text):
            if found := _HEX.match(text, place):
                word.append(int(found.group(1), 16))
                place += 4
                continue
            letter = _ESCAPES.get(text[place + 1], text[place + 1])
            place += 1
        elif letter == "\\" and text[place + 1 : place + 2] == "'":
            letter = "'"
            place += 1
        word += letter.encode("utf-8", "surrogateescape")
        place += 1
    raise ValueError("Invalid argument(s): a quote is not closed")
