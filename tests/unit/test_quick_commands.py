"""The in-memory server's short ways answer what the long ones do: in order, on keys of each kind and of none."""

from __future__ import annotations

from regrow.testing.memory_server import MemoryServer

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("HSET", "hash", "a", "1", "b", "2"),
    ("HSET", "hash", "a", "3", "c", "4", "a", "5"),
    ("HSET", "hash", "a"),
    ("HSET", "hash", "a", "1", "b"),
    ("XADD", "stream", "5-1", "f", "v"),
    ("XADD", "stream", "5-2", "f", "w"),
    ("XDEL", "stream", "5-2"),
    ("SET", "text", "x"),
    ("RPUSH", "list", "x"),
    ("ZADD", "zset", "1", "x"),
    *((command, key) for key in ("hash", "stream", "text", "list", "zset", "none")
      for command in ("TYPE", "EXISTS", "HLEN", "XLEN")),
    *((command, key, *fields) for key in ("hash", "stream", "text", "none")
      for command in ("HGET", "HMGET") for fields in (("a",), ("a", "z", "b"), ())),
    *(("XREAD", "COUNT", "10", "STREAMS", key, after) for key in ("stream", "none", "text")
      for after in ("0", "5-0", "5-1", "5-2", "5", "9-9")),
    ("HSET", "text", "a", "1"),
    ("HSET", "new", "a", "1"),
    ("DEL", "hash"),
    ("HGET", "hash", "a"),
    ("TYPE", "hash"),
)  # fmt: skip


def answers(server: MemoryServer) -> list[str]:
    # Where nothing is read Redis answers nil, and so does the short way; fakeredis answers an empty array.
    return [str(server.execute(_packed(words))[0] or None) if words[0] == "XREAD" else
            str(server.execute(_packed(words))[0]) for words in COMMANDS]  # fmt: skip


def test_every_short_way_ends_where_the_long_one_does() -> None:
    quick, plain = MemoryServer(lambda: 1_600_000_000.0), MemoryServer(lambda: 1_600_000_000.0)
    plain._quick.by_name = {}  # type: ignore[misc]
    plain._quick.nothing_after = lambda name, after: False  # type: ignore[method-assign]

    assert dict(zip(COMMANDS, answers(quick), strict=True)) == dict(
        zip(COMMANDS, answers(plain), strict=True)
    )


def _packed(words: tuple[str, ...]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
