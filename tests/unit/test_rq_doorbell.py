"""A job in RQ's keys is data: one word and one effect's id, or it is thrown away."""

from __future__ import annotations

import json
import pickle
import zlib

import pytest
import redis

from regrow_workers.effects.ringer import room_for_bells
from regrow_workers.effects.rq_doorbell import FUNCTION, DoorbellJob, NotOurJob, effect_of


def data(function: object, instance: object, args: object, kwargs: object) -> bytes:
    return json.dumps([function, instance, args, kwargs]).encode()


OURS = data(FUNCTION, None, ["b:1-1:0"], {})


def test_our_job_names_an_effect() -> None:
    assert effect_of(OURS) == effect_of(zlib.compress(OURS)) == "b:1-1:0"


@pytest.mark.parametrize(
    "stored",
    [
        data("os.system", None, ["true"], {}),
        data("os:system", None, ["b:1-1:0"], {}),
        data("regrow_workers.effects.executor.run_executor", None, ["b:1-1:0"], {}),
        data(FUNCTION, "os", ["b:1-1:0"], {}),
        data(FUNCTION, None, ["b:1-1:0", 2], {}),
        data(FUNCTION, None, "b:1-1:0", {}),
        data(FUNCTION, None, [["b"]], {}),
        data(FUNCTION, None, ["-bad id"], {}),
        data(FUNCTION, None, ["b:1-1:0"], {"x": 1}),
        data([FUNCTION], None, ["b:1-1:0"], {}),
        pickle.dumps((FUNCTION, None, ["b:1-1:0"], {})),
        b"",
        b"null",
        b"7",
        b"[" * 4_000,
        b'"' + b"x" * 5_000 + b'"',
        zlib.compress(b" " * 50_000_000),
        zlib.compress(OURS)[:-6],
    ],
    ids=lambda stored: f"{len(stored)}-{stored[:24]!r}",
)
def test_any_other_job_is_refused_without_importing_or_unpacking_it(stored: bytes) -> None:
    with pytest.raises(NotOurJob):
        effect_of(stored)


def test_stored_job_gives_its_data_and_nothing_else() -> None:
    job = DoorbellJob("some-id", connection=redis.Redis())

    job.restore(
        {
            b"data": OURS,
            b"success_callback_name": b"os.abort",
            b"webhooks": b"[{}]",
            b"timeout": b"soon",
            b"created_at": b"yesterday",
        }
    )

    assert job.effect_id == "b:1-1:0"
    assert job.success_callback is None
    assert job.webhooks == []
    with pytest.raises(NotOurJob):
        job.perform()


@pytest.mark.parametrize(("waiting", "room"), [(0, 64), (10, 54), (32, 32), (33, 0), (64, 0), (1_000, 0)])
def test_queue_is_filled_in_bundles_and_never_over_its_bound(waiting: int, room: int) -> None:
    assert room_for_bells(waiting, 64) == room
