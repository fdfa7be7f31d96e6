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


@pytest.mark.parametrize("name", names())
def test_every_function_that_is_called_is_defined_above(name: str) -> None:
    """A part that needs another one, which a script does not include, would fail in use only."""
    source = re.sub(r"--.*|'[^']*'|\"[^\"]*\"", "", load(name).source)
    defined: set[str] = {"function", "tonumber", "tostring", "type", "ipairs", "pairs", "unpack", "pcall", "and", "or",
                         "not", "if", "elseif", "while", "return", "in", "error", "until"}  # fmt: skip
    for line in source.splitlines():
        defined |= set(re.findall(r"function ([a-z_]\w*)\(", line))
        defined |= {
            word for listed in re.findall(r"local ([\w, ]+)", line) for word in re.findall(r"\w+", listed)
        }
        called = set(re.findall(r"(?<![\w.:])([a-z_]\w*)\(", line))
        assert called <= defined, line
