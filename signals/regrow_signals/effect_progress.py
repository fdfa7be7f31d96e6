"""How far effects in executors' hands are: told by the executor, kept in the record, published for whoever listens."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from regrow_signals.answers import answer, cut
from regrow_signals.calls import Call
from regrow_signals.effect_store import EffectClaimed
from regrow_signals.errors import BadInput, StoreUnavailable
from regrow_signals.ids import check_id
from regrow_signals.keys import Keys
from regrow_signals.scripts import declare
from regrow_signals.server_url import connection_options, mask_url
from regrow_signals.strict_json import dumps, loads

__all__ = [
    "MAX_PROGRESS_BYTES",
    "Progress",
    "progress_text",
    "report_progress",
    "stored_progress",
    "watch",
    "watch_async",
]

PROGRESS: Final = declare(
    "effect_progress", keys=["effect"], args=["channel", "effect_id", "token", "progress"]
)

MAX_PROGRESS_BYTES: Final = 4_096

_WAIT: Final = 1.0
"""Seconds of one wait for a message: a connection that was lost without a word is noticed by a ping after it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an effect was at ``at_ms`` (the clock of Redis), in this ``attempt``.

    ``value``: a number from 0 to 1, or a JSON object.
    """

    effect: str
    agent: str
    name: str
    attempt: int
    value: float | dict[str, Any]
    at_ms: int
    tag: str = ""


def progress_text(value: float | Mapping[str, Any]) -> str:
    """Strict JSON of a progress; ``BadInput`` for a number that is not from 0 to 1, or more than 4 KiB of JSON."""
    if isinstance(value, Mapping):
        return dumps(dict(value), max_bytes=MAX_PROGRESS_BYTES, what="progress")
    given = cast("object", value)  # not what the annotation says, where nobody checks it
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise BadInput(f"progress {given!r:.80}: give a number from 0 to 1, or a dict that says more")
    return json.dumps(given)


def report_progress(keys: Keys, effect_id: str, token: str, text: str) -> Call[bool]:
    """Say how far the effect is. True: it was cancelled, and is to stop. Raises ``EffectClaimed``: it is not ours."""

    def parse(reply: Any) -> bool:
        if reply[:2] == ["refused", "effect_claimed"]:
            raise EffectClaimed(
                f"effect {effect_id} is not ours: {cut(str(reply[3] or 'nobody'), 200)} holds it"
            )
        return bool(answer(reply, effect_id)[1] == "1")

    args = (_channel(keys, ""), effect_id, token, text)
    return Call(PROGRESS, (keys.effect(effect_id),), args, parse, repeatable=True, hint=effect_id)


def stored_progress(effect_id: str, record: Mapping[str, str]) -> Progress | None:
    """The last progress in an effect's record (``views.effect_record``); None: nothing was reported, or it is over."""
    if "progress_attempt" not in record:
        return None
    # Of the try that said so: `attempts` may count a later one by now, or that one no more.
    return _progress({**record, "effect": effect_id, "attempt": record["progress_attempt"]}, "progress_ms")


def watch(url: str, keys: Keys, agent: str, timeout: float | None) -> Generator[Progress]:
    """Progress of this agent's effects as it is reported; ends when none came for ``timeout`` seconds (None: never).

    What is reported while nobody listens is not sent later. Raises ``StoreUnavailable`` when the connection is lost.
    """
    from redis import Redis  # large: nobody else needs it
    from redis.exceptions import RedisError

    channel, options = _channel(keys, check_id(agent, "agent")), _options(url)
    untyped: Any = Redis
    try:
        with (
            untyped.from_url(url, **options) as client,
            client.pubsub(ignore_subscribe_messages=True) as hearing,
        ):
            hearing.subscribe(channel)
            left = _Left(timeout)
            while not left.over:
                found = _read(hearing.get_message(timeout=left.step()))
                if found is not None:
                    left = _Left(timeout)
                    yield found
    except RedisError as error:
        raise _away(url, error) from None


async def watch_async(url: str, keys: Keys, agent: str, timeout: float | None) -> AsyncGenerator[Progress]:
    """As ``watch``, awaited."""
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    channel, options = _channel(keys, check_id(agent, "agent")), _options(url)
    untyped: Any = Redis
    try:
        async with (
            untyped.from_url(url, **options) as client,
            client.pubsub(ignore_subscribe_messages=True) as hearing,
        ):
            await hearing.subscribe(channel)
            left = _Left(timeout)
            while not left.over:
                found = _read(await hearing.get_message(timeout=left.step()))
                if found is not None:
                    left = _Left(timeout)
                    yield found
    except RedisError as error:
        raise _away(url, error) from None


class _Left:
    """What is left of a time-out, in steps of a wait. A wait may end at once: with the answer to the subscription."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    @property
    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def step(self) -> float:
        return _WAIT if self._end is None else max(0.0, min(self._end - time.monotonic(), _WAIT))


def _channel(keys: Keys, agent: str) -> str:
    return f"{keys.tag}:progress:{agent}"


def _options(url: str) -> dict[str, Any]:
    connection_options(url)  # refuses what is no Redis URL, in our words
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return {
        "retry": Retry(NoBackoff(), 0), "decode_responses": True, "client_name": "regrow:progress",
        "socket_connect_timeout": 5.0, "socket_timeout": 5.0, "health_check_interval": 5,
    }  # fmt: skip


def _away(url: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"Redis at {mask_url(url)}: {type(error).__name__}: {error}"[:300])


def _read(message: Any) -> Progress | None:
    """A message's progress; None for what is none: anybody may publish there."""
    if not message or message.get("type") != "message":
        return None
    try:
        read: Any = json.loads(message["data"])
        return _progress({**read, "progress": json.dumps(read["progress"])}, "at_ms")
    except (ValueError, KeyError, TypeError, BadInput):
        return None


def _progress(fields: Mapping[str, Any], at: str) -> Progress:
    return Progress(
        effect=str(fields["effect"]),
        agent=str(fields["agent"]),
        name=str(fields["name"]),
        attempt=int(fields["attempt"]),
        value=loads(fields["progress"], what="progress"),
        at_ms=int(fields[at]),
        tag=str(fields.get("tag", "")),
    )
