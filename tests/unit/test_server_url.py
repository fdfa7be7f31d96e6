"""Redis URLs: secrets never show, wrong ones are refused in a line."""

from __future__ import annotations

import pytest

from regrow_signals.errors import BadSetting
from regrow_signals.server_url import connection_options, mask_url

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@host:6379/0",
        f"redis://user:{SECRET}@host",
        f"rediss://:p%40{SECRET}@h",
        f"rediss://:p@{SECRET}@h",
        f"redis://:{SECRET}/x@h:1/0",
        f"unix://user:{SECRET}@/run/redis.sock",
        f"unix:///run/redis.sock?password={SECRET}",
        f"redis://h?db=1&password={SECRET}&x=1",
        f"redis://h?ssl_password={SECRET}",
        f"redis:{SECRET}@h",
        f"{SECRET}",
        f"redis://:{SECRET}@h:notaport",
    ],
)
def test_no_shown_url_holds_a_secret(url: str) -> None:
    assert SECRET not in mask_url(url)
    try:
        connection_options(url)
    except BadSetting as error:
        assert SECRET not in str(error)


def test_harmless_urls_are_shown_as_they_are() -> None:
    assert mask_url("redis://127.0.0.1:6379/0") == "redis://127.0.0.1:6379/0"
    assert mask_url("unix:///run/a@b.sock") == "unix:///run/a@b.sock"


@pytest.mark.parametrize(
    "url",
    ["", "http://h", "localhost:6379", "redis://h:99999999", "unix://", "redis://h/zero", "redis://h:x"],
)
def test_urls_that_cannot_be_used_are_refused_by_name(url: str) -> None:
    with pytest.raises(BadSetting, match="Redis URL"):
        connection_options(url)


def test_retries_and_decoding_cannot_come_in_through_the_url() -> None:
    options = connection_options("redis://h/3?protocol=3&decode_responses=true&health_check_interval=5")
    assert options["db"] == 3
    assert options.keys().isdisjoint({"protocol", "decode_responses", "health_check_interval", "retry"})
