"""``regrow redis`` prints what redis-cli prints, and gives its caller a true exit code."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from regrow.redis_shell import RedisShell, run_redis_shell, split_words
from regrow_signals.errors import StoreError, StoreUnavailable


class Shell:
    def __init__(self, url: str, raw: bool) -> None:
        self.out = io.BytesIO()
        self.shell = RedisShell(url, raw=raw, out=self.out)
        self.code = 0

    def __call__(self, *words: str) -> bytes:
        self.out.seek(0)
        self.out.truncate()
        self.code = self.shell.once(words)
        return self.out.getvalue()


@pytest.fixture
def shown(redis_url: str) -> Iterator[Shell]:
    shell = Shell(redis_url, raw=False)
    yield shell
    shell.shell.close()


@pytest.fixture
def raw(redis_url: str) -> Iterator[Shell]:
    shell = Shell(redis_url, raw=True)
    yield shell
    shell.shell.close()


def test_on_a_terminal_answers_are_typed_and_quoted(shown: Shell) -> None:
    assert shown("SET", "k", 'café "x"\n\\') == b"OK\n"
    assert shown("GET", "k") == b'"caf\\xc3\\xa9 \\"x\\"\\n\\\\"\n'
    assert shown("GET", "none") == b"(nil)\n"
    assert shown("INCR", "n") == b"(integer) 1\n"
    assert shown("LRANGE", "none", "0", "-1") == b"(empty array)\n"
    assert shown("RPUSH", "l", "a", "b") == b"(integer) 2\n"
    assert shown("LRANGE", "l", "0", "-1") == b'1) "a"\n2) "b"\n'
    assert shown("INCR", "l").startswith(b"(error) WRONGTYPE ")
    assert shown.code == 1


def test_nested_answers_are_indented(shown: Shell) -> None:
    shown("XADD", "s", "1-1", "type", "a", "data", "{}")
    shown("XADD", "s", "2-1", "type", "b")

    assert shown("XRANGE", "s", "-", "+").decode().splitlines() == [
        '1) 1) "1-1"',
        '   2) 1) "type"',
        '      2) "a"',
        '      3) "data"',
        '      4) "{}"',
        '2) 1) "2-1"',
        '   2) 1) "type"',
        '      2) "b"',
    ]


def test_in_a_pipe_answers_are_bare(raw: Shell) -> None:
    assert raw("SET", "k", "café") == b"OK\n"
    assert raw("GET", "k") == "café\n".encode()
    assert raw("GET", "none") == b"\n"
    raw("HSET", "h", "a", "1", "b", "2")
    assert raw("HGETALL", "h") == b"a\n1\nb\n2\n"
    assert raw.code == 0
    assert raw("NO-SUCH-COMMAND").startswith(b"ERR unknown command")
    assert raw.code == 1


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed to compare with")
def test_answers_are_those_of_redis_cli(redis_url: str, shown: Shell, raw: Shell) -> None:
    for place in range(12):
        raw("XADD", "s", f"{place + 1}-0", "t", "é\x00'\"\\\t", "n", str(place))
    for words in (
        ["XRANGE", "s", "-", "+"],
        ["XREAD", "COUNT", "2", "STREAMS", "s", "0"],
        ["XINFO", "STREAM", "s"],
        ["COMMAND", "INFO", "get"],
        ["GET", "s"],
        ["EVAL", "return {1,{2,{},'x'},false}", "0"],
        ["EVAL", "return {{{1,2},3}}", "0"],
        ["EVAL", "local r={} for i=1,11 do r[i]={i,{'a'}} end return r", "0"],
        ["PING"],
    ):
        for flag, shell in (("--no-raw", shown), ("--raw", raw)):
            cli = subprocess.run(
                ["redis-cli", "-s", redis_url.removeprefix("unix://"), flag, *words],
                check=False,
                capture_output=True,
            ).stdout
            assert shell(*words).rstrip(b"\n") == cli.rstrip(b"\n"), (flag, words)


def test_bytes_that_are_no_text_pass_unharmed(raw: Shell) -> None:
    raw("SET", "k", b"\xff\xfe".decode("utf-8", "surrogateescape"))

    assert raw("GET", "k") == b"\xff\xfe\n"


def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    with pytest.raises(StoreError) as caught:
        run_redis_shell("redis://:s3cret@127.0.0.1:1/0", ["PING"])

    assert "s3cret" not in str(caught.value)


def test_a_connection_that_the_server_closes_is_told_and_made_again(shown: Shell, redis_url: str) -> None:
    identity = shown("CLIENT", "ID").split()[1].decode()
    other = Shell(redis_url, raw=True)
    other("CLIENT", "KILL", "ID", identity)
    other.shell.close()

    with pytest.raises(StoreUnavailable, match=r"closed the connection"):
        shown("PING")
    assert shown("PING") == b"PONG\n"


def test_the_prompt_obeys_lines_until_their_end(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = iter(['SET k "a b"', "GET k", "", 'GET "k', "exit", "GET never"])

    def typed(_prompt: str) -> str:
        return next(lines)

    monkeypatch.setattr("builtins.input", typed)

    assert run_redis_shell(redis_url, []) == 0

    assert capfdbinary.readouterr().out == b"OK\na b\nInvalid argument(s): a quote is not closed\n"
    assert list(lines) == ["GET never"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("GET k", ["GET", "k"]),
        ("  SET  k   'a b'  ", ["SET", "k", "a b"]),
        (r'SET k "a\n\x41\"\\"', ["SET", "k", 'a\nA"\\']),
        (r"SET k 'it\'s \n'", ["SET", "k", r"it's \n"]),
        ('SET k ""', ["SET", "k", ""]),
        ("HGETALL {regrow}:agent:a", ["HGETALL", "{regrow}:agent:a"]),
        ("", []),
    ],
)
def test_lines_are_split_as_redis_cli_splits_them(line: str, words: list[str]) -> None:
    assert split_words(line) == words


@pytest.mark.parametrize("line", ['"a', "'a", '"a"b', "'a'b"])
def test_quotes_that_do_not_close_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid argument"):
        split_words(line)
