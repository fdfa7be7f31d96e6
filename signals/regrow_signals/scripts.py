"""Lua scripts: one file each under ``lua/``, found by name, read once, known to the server by its SHA-1.

The header of each file is its contract, and is checked: one line for each key, argument and reply, at the top:

    -- send: what the script does, in a sentence.
    -- KEYS 1 agent hash        the agent's record
    -- KEYS 2 mailbox stream    its mailbox
    -- KEYS ... targets mixed   a tail of any length
    -- ARGV 1 token             text
    -- ARGV ... fields          a tail: names and values in turn
    -- REPLY ok <entry> <birth>
    -- REPLY refused no_such_agent

A key's line is: number (or ``...`` for the tail), name, Redis type, meaning. An argument's line: number or ``...``,
name, meaning. In the code ``local <name> = KEYS[n]`` must use the header's name. The typed caller declares the same
names with ``declare(...)``; a test compares header, code and declaration. A refusal writes nothing and is
``{'refused', code, ...}``.

A line ``-- INCLUDE name`` is replaced by the text of ``lua/parts/name.lua``: Lua functions that several scripts share.
A part may include others; each is put in once, where it is asked for first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["DECLARED", "Declaration", "Header", "Script", "declare", "load", "names"]

LUA: Final = Path(__file__).parent / "lua"

_INCLUDE = re.compile(r"^-- INCLUDE (\w+)$", re.MULTILINE)
_KEY = re.compile(r"^-- KEYS (\d+|\.\.\.) +(\S+) +(\S+)")
_ARG = re.compile(r"^-- ARGV (\d+|\.\.\.) +(\S+)")


@dataclass(frozen=True, slots=True)
class Header:
    """What a script's header says: names in order; ``key_types`` goes with ``keys``; a tail is '' if absent."""

    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    key_tail: str
    args: tuple[str, ...]
    arg_tail: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent: ``source`` with its parts included, ``sha`` as EVALSHA wants it."""

    name: str
    source: str
    sha: str
    header: Header


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a typed caller passes to the script ``name``; compared with the file's header by a test."""

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    key_tail: str = ""
    arg_tail: str = ""


DECLARED: Final[dict[str, Declaration]] = {}


def declare(
    name: str, *, keys: Sequence[str], args: Sequence[str], key_tail: str = "", arg_tail: str = ""
) -> str:
    """Say what the caller of ``lua/<name>.lua`` passes; returns the name. Called once, where the caller is defined."""
    DECLARED[name] = Declaration(name, tuple(keys), tuple(args), key_tail, arg_tail)
    return name


@cache
def load(name: str) -> Script:
    """The script of ``lua/<name>.lua``. Read once per process; a wrong header raises ``ValueError``."""
    text = (LUA / f"{name}.lua").read_text(encoding="utf-8")
    source = _with_parts(text, set())
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, sha, read_header(name, text))


def names() -> list[str]:
    """Names of all scripts that are shipped."""
    return sorted(path.stem for path in LUA.glob("*.lua"))


def read_header(name: str, text: str) -> Header:
    """Parse the comment lines above the code; numbers must run 1, 2, 3, with the tail last."""
    keys: list[tuple[str, str]] = []
    args: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if key := _KEY.match(line):
            _place(name, keys, key[1], (key[2], key[3]))
        elif arg := _ARG.match(line):
            _place(name, args, arg[1], (arg[2], ""))
    key_names, key_tail = _split(keys)
    arg_names, arg_tail = _split(args)
    types = tuple(kind for _, kind in keys)
    return Header(key_names, types, key_tail, arg_names, arg_tail)


def _with_parts(text: str, included: set[str]) -> str:
    def part(match: re.Match[str]) -> str:
        name = match[1]
        if name in included:
            return f"-- {name}: above"
        included.add(name)
        return _with_parts((LUA / "parts" / f"{name}.lua").read_text(encoding="utf-8").rstrip(), included)

    return _INCLUDE.sub(part, text)


_TAIL: Final = "... "


def _place(name: str, into: list[tuple[str, str]], number: str, what: tuple[str, str]) -> None:
    if into and into[-1][0].startswith(_TAIL):
        raise ValueError(f"lua/{name}.lua: {what[0]} stands after the tail {into[-1][0]}")
    if number == "...":
        into.append((_TAIL + what[0], what[1]))
    elif int(number) == len(into) + 1:
        into.append(what)
    else:
        raise ValueError(f"lua/{name}.lua: {what[0]} has number {number}, expected {len(into) + 1}")


def _split(listed: list[tuple[str, str]]) -> tuple[tuple[str, ...], str]:
    fixed = tuple(name for name, _ in listed if not name.startswith(_TAIL))
    tail = next((name.removeprefix(_TAIL) for name, _ in listed if name.startswith(_TAIL)), "")
    return fixed, tail
