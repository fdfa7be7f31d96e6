"""Redis URLs: secrets never show, wrong ones are refused in a line."""

from __future__ import annotations

import pytest

from regrow_signals.errors import BadSetting
from regrow_signals.server_url import Address, address_of, check_url, connection_options, mask_url

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


def test_plain_urls_are_read_as_redis_py_reads_them() -> None:
    urls = [
        "redis://",
        "redis://h",
        "redis://h:1/2",
        "redis://[::1]:7/3",
        "redis://us%40er:p%3Aw@h:6380",
        "redis://:pw@h/0",
        "unix:///run/a%20b.sock",
        "unix://:pw@/run/redis.sock",
        "unix://me:pw@/run/redis.sock",
    ]
    for url in urls:
        address, options = address_of(url), connection_options(url)
        options.pop("connection_class", None)
        assert address is not None
        if address.path:
            options |= {"host": "localhost"}
        assert address == Address(**options), url


@pytest.mark.parametrize("url", ["rediss://h", "redis://h?db=1", "unix:///s?db=1", "redis://h#x"])
def test_urls_with_options_or_tls_are_left_to_redis_py(url: str) -> None:
    assert address_of(url) is None


@pytest.mark.parametrize("url", ["redis://h?socket_timeout=long", "redis://h/zero", "unix://"])
def test_a_url_is_checked_without_a_connection(url: str) -> None:
    with pytest.raises(BadSetting, match="Redis URL"):
        check_url(url)
