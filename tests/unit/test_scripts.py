"""Each Lua file's header, its code and the typed caller's declaration say the same."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import regrow_signals
from regrow_signals.scripts import DECLARED, LUA, load, names, read_header

for _module in pkgutil.iter_modules(regrow_signals.__path__, "regrow_signals."):
    importlib.import_module(_module.name)

TYPES = {"hash", "stream", "zset", "set", "list", "string", "mixed"}


def test_every_script_has_one_declared_caller() -> None:
    assert sorted(DECLARED) == names()


@pytest.mark.parametrize("name", names())
def test_header_and_declaration_agree(name: str) -> None:
    header, declared = load(name).header, DECLARED[name]
    assert header.keys == declared.keys
    assert header.args == declared.args
    assert (bool(header.key_tail), bool(header.arg_tail)) == (
        bool(declared.key_tail),
        bool(declared.arg_tail),
    )
    assert set(header.key_types) <= TYPES


@pytest.mark.parametrize("name", names())
def test_code_uses_the_headers_names_and_numbers(name: str) -> None:
    script = load(name)
    for kind, known in (("KEYS", script.header.keys), ("ARGV", script.header.args)):
        for number in map(int, re.findall(rf"{kind}\[(\d+)\]", script.source)):
            assert number <= len(known) + 1, f"{kind}[{number}] is not in the header"
        for listed, values in re.findall(
            rf"^local ([\w, ]+?) = ({kind}\[\d+\](?:, {kind}\[\d+\])*)$", script.source, re.M
        ):
            numbers = [int(found) for found in re.findall(r"\[(\d+)\]", values)]
            for used, number in zip(listed.split(", "), numbers, strict=True):
                assert used == known[number - 1]


@pytest.mark.parametrize("name", names())
def test_script_says_what_it_does_and_what_it_replies(name: str) -> None:
    text = (LUA / f"{name}.lua").read_text()
    assert text.startswith(f"-- {name}: ")
    assert "-- REPLY " in text
    assert "INCLUDE" not in load(name).source


@pytest.mark.parametrize("name", names())
def test_script_takes_no_time_but_the_servers_and_scans_nothing(name: str) -> None:
    source = load(name).source
    assert not re.search(r"'(KEYS|SCAN|FLUSHALL|FLUSHDB)'", source)
    assert "os.time" not in source and "math.random" not in source


@pytest.mark.parametrize(
    "text", ["-- KEYS 2 a hash x", "-- KEYS ... a hash x\n-- KEYS 1 b hash x", "-- ARGV 1 a\n-- ARGV 1 b"]
)
def test_header_out_of_order_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"lua/x\.lua"):
        read_header("x", text)


WORDS = {
    "and", "elseif", "error", "function", "if", "in", "ipairs", "not", "or", "pairs", "pcall", "return", "tonumber",
    "tostring", "type", "unpack", "until", "while",
}  # fmt: skip
"""What stands before a parenthesis and is no function of ours."""


def calls(line: str) -> set[str]:
    return set(re.findall(r"(?<![\w.:])([a-z_]\w*)\(", line)) - WORDS


def bodies(source: str) -> list[tuple[str, list[str]]]:
    """The functions at the top of a script and what stands between them, which has no name, in order."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in source.splitlines():
        if start := re.match(r"local function (\w+)", line):
            found.append((start[1], []))
        found[-1][1].append(line)
        if line == "end" and found[-1][0]:
            found.append(("", []))
    return found


@pytest.mark.parametrize("name", names())
def test_every_function_that_is_called_is_defined_above(name: str) -> None:
    """A part that needs another one, which a script does not include, would fail in use only."""
    parts = bodies(re.sub(r"--.*|'[^']*'|\"[^\"]*\"", "", load(name).source))
    lines_of = {part: lines for part, lines in parts if part}
    reached = {"", *(call for part, lines in parts if not part for line in lines for call in calls(line))}
    while (
        new := {call for part in reached for line in lines_of.get(part, []) for call in calls(line)} - reached
    ):
        reached |= new
    defined: set[str] = set()
    for part, lines in parts:
        for line in lines:
            defined |= set(re.findall(r"function (\w+)\(", line))
            for listed in re.findall(r"local ([\w, ]+)", line) + re.findall(
                r"function[ \w]*\(([\w, ]*)\)", line
            ):
                defined |= set(re.findall(r"\w+", listed))
            if part in reached:
                assert calls(line) <= defined, line
