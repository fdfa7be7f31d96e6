"""What the server's error lines become."""

from __future__ import annotations

import pytest

from regrow_signals.errors import CorruptKey, StoreError, StoreUnavailable, WrongServer
from regrow_signals.store_errors import store_error

UNAVAILABLE = [
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script.",
    "CLUSTERDOWN Hash slot not served",
    "MASTERDOWN Link with MASTER is down",
    "NOREPLICAS Not enough good replicas to write.",
    "ERR max number of clients reached",
]
WRONG = [
    "NOAUTH Authentication required.",
    "ERR Protocol error: unauthenticated multibulk length",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "MOVED 3999 10.0.0.1:6381",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "ERR unknown command 'EVALSHA', with args beginning with: 'hunter2'",
    "ERR AUTH <password> called without any password configured for the default user.",
]


@pytest.mark.parametrize("text", UNAVAILABLE)
def test_a_server_that_cannot_serve_now_is_unavailable(text: str) -> None:
    assert type(store_error(text, "send (support)", "redis://h")) is StoreUnavailable


@pytest.mark.parametrize("text", WRONG)
def test_a_server_that_never_will_is_wrong(text: str) -> None:
    error = store_error(text, "send (support)", "redis://h")
    assert type(error) is WrongServer
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("NOPERM User regrow has no permissions to run the 'evalsha' command", "EVALSHA"),
        ("NOPERM this user has no permissions to run the 'xread' command", "XREAD"),
        ("NOPERM No permissions to access a key", "keys of send (support)"),
        ("ERR ACL failure in script: User regrow has no permissions to run the 'xadd' command script: 1.", "XADD"),
    ],
)  # fmt: skip
def test_a_missing_right_names_the_command(text: str, named: str) -> None:
    error = store_error(text, "send (support)", "redis://h")
    assert type(error) is WrongServer and named in str(error)


def test_a_wrong_type_is_a_corrupt_key_and_the_rest_is_cut() -> None:
    assert type(store_error("WRONGTYPE Operation against a key", "x", "y")) is CorruptKey
    assert type(store_error("ERR something new", "x", "y")) is StoreError
