"""RQ as a doorbell: a job says "look at effect X", nothing else. All that RQ's keys hold is data.

Who can write to RQ's keys could name any function, callback, webhook or class in a job, and RQ would import it. Here a
job is read by ``DoorbellJob`` alone: one fixed word for the function, one effect's id as argument, or it is thrown
away. A doorbell that is lost, doubled or late does no harm: the ringer rings again, the claim decides.

RQ's keys stay few: a job's record goes when it is popped, and expires after ``BELL_TTL`` if nobody pops it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import zlib
from collections.abc import Sequence
from typing import Any, Final, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import worker_registration
from rq.exceptions import DequeueTimeout
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.utils import now as rq_now
from rq.worker import SimpleWorker

from regrow_signals.effect_store import Ring
from regrow_signals.errors import BadInput, StoreUnavailable
from regrow_signals.ids import check_id
from regrow_signals.server_url import connection_options, mask_url
from regrow_workers import log

__all__ = ["Bells", "EffectWorker", "NotOurJob", "effect_of"]

_LOG = logging.getLogger(__name__)

FUNCTION: Final = "regrow.effect"
"""What our jobs name as their function: a word, compared, never imported."""

BELL_TTL: Final = 600
WORKER_TTL: Final = 20
ANNOUNCE_SECONDS: Final = 15
SOCKET_SECONDS: Final = 5.0
MAX_DATA: Final = 4096

for _noisy in ("rq", "rq.worker", "rq.job", "rq.queue"):
    # RQ tells every job at INFO; what an operator needs of an effect, the executor says itself.
    logging.getLogger(_noisy).setLevel(logging.WARNING)


class NotOurJob(Exception):
    """A job in our queue that is no doorbell of ours."""


def effect_of(data: bytes) -> str:
    """The effect's id in a job's stored data; ``NotOurJob`` says what else it is. Reads a few kilobytes at most."""
    text = _unzipped(data)
    if len(text) > MAX_DATA:
        raise NotOurJob(f"its data is longer than {MAX_DATA} bytes")
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        raise NotOurJob("its data is not JSON") from None
    if not isinstance(read, list):
        raise NotOurJob("its data is no list")
    match cast("list[object]", read):
        case [str() as function, None, [str() as effect_id], kwargs] if function == FUNCTION and not kwargs:
            pass
        case _:
            raise NotOurJob("it is no call of our one function with one effect's id")
    try:
        return check_id(effect_id, "effect id")
    except BadInput:
        raise NotOurJob("its argument is no effect's id") from None


def _unzipped(data: bytes) -> bytes:
    """RQ compresses what it stores; one byte over the bound at most is ever unpacked."""
    try:
        return zlib.decompressobj().decompress(data, MAX_DATA + 1)
    except zlib.error:
        return data


class DoorbellJob(Job):
    """Reads of a stored job its data alone. RQ's own would take over callbacks, webhooks and repeats as well."""

    effect_id: str = ""

    def restore(self, raw_data: Any) -> None:
        self.effect_id = effect_of(cast("dict[bytes, bytes]", raw_data).get(b"data", b""))

    def perform(self) -> Any:
        raise NotOurJob("jobs of this queue are doorbells; there is nothing in them to perform")


class DoorbellQueue(Queue):
    """Popped at once, without RQ's intermediate list: what is lost between pop and claim is rung again."""

    job_class = DoorbellJob

    @classmethod
    def lmove(cls, connection: Any, queue_key: str, timeout: int | None) -> Any:
        return cls.lpop([queue_key], timeout, connection=connection)


def _connect(url: str, name: str) -> Any:
    """RQ's connection under our policy: nothing is repeated by the client, nothing waits for ever."""
    connection_options(url)  # refuses what is no Redis URL, in our words
    redis: Any = Redis  # parts of redis-py, and of RQ below, have no types
    return redis.from_url(
        url, retry=Retry(NoBackoff(), 0), client_name=name,
        socket_connect_timeout=SOCKET_SECONDS, socket_timeout=WORKER_TTL,
    )  # fmt: skip


def _queue(url: str, namespace: str, name: str) -> Any:
    queue: Any = DoorbellQueue
    return queue(f"regrow:{namespace}", connection=_connect(url, name), serializer=JSONSerializer)


class Bells:
    """The ringer's side. Raises ``StoreUnavailable`` for whatever RQ's Redis refuses."""

    def __init__(self, url: str, namespace: str) -> None:
        self._where = mask_url(url)
        self._queue = _queue(url, namespace, "regrow:node:bells")

    def waiting(self) -> int:
        """How many doorbells nobody has answered yet."""
        try:
            return int(self._queue.count)
        except RedisError as error:
            raise self._away(error) from None

    def ring(self, rings: Sequence[Ring]) -> None:
        """One job each, in one round trip."""
        try:
            with self._queue.connection.pipeline(transaction=False) as pipeline:
                for one in rings:
                    self._queue.enqueue_job(self._job(one), pipeline=pipeline)
                pipeline.execute()
        except RedisError as error:
            raise self._away(error) from None

    def forget_the_dead(self) -> None:
        """RQ keeps the names of workers that were killed until somebody looks."""
        try:
            worker_registration.clean_worker_registry(self._queue)
        except RedisError as error:
            raise self._away(error) from None

    def close(self) -> None:
        self._queue.connection.close()

    def _job(self, one: Ring) -> Job:
        # The id is the effect's and its try's: rung twice while it waits it is one record, the second pop finds none.
        job_id = "".join(c if c.isalnum() and c.isascii() else "_" for c in one.effect_id)
        job: Any = DoorbellJob
        made: Job = job.create(
            FUNCTION,
            args=[one.effect_id],
            id=f"{job_id}-{one.attempts + 1}",
            connection=self._queue.connection,
            serializer=JSONSerializer,
            timeout=max(1, -(-one.timeout_ms // 1000)),
            result_ttl=0,
            failure_ttl=60,
            ttl=BELL_TTL,
            description=f"{one.name} for {one.agent}",
        )
        return made

    def _away(self, error: RedisError) -> StoreUnavailable:
        return StoreUnavailable(f"RQ's Redis at {self._where}: {type(error).__name__}: {error}"[:300])


class EffectWorker(SimpleWorker):
    """RQ's worker as an executor uses it: ``rq info`` shows it, it pops doorbells, it runs no job itself."""

    job_class = DoorbellJob
    queue_class = DoorbellQueue

    def __init__(self, url: str, namespace: str, name: str) -> None:
        self._where = mask_url(url)
        self._announce_at = 0.0
        queue = _queue(url, namespace, f"regrow:{name}"[:200])
        untyped: Any = super()
        untyped.__init__(
            [queue], name=name, connection=queue.connection, serializer=JSONSerializer, worker_ttl=WORKER_TTL,
            prepare_for_work=False,
        )  # fmt: skip
        self._redis: Any = queue.connection
        # Without asking Redis, which RQ would do here: it may be away just now.
        self.hostname, self.pid = socket.gethostname(), os.getpid()

    def execute_job(self, job: Job, queue: Queue) -> None:
        del job, queue
        raise NotOurJob("an executor asks for doorbells by next_effect")

    def next_effect(self, clock: float, wait: int = 5) -> str | None:
        """The effect that a doorbell names; None if none came in ``wait`` seconds, or one that is not ours.

        Raises ``StoreUnavailable``. Nothing is kept of the doorbell: ending now costs one interval of the ringer.
        """
        try:
            if clock >= self._announce_at:
                self._announce()
                self._announce_at = clock + ANNOUNCE_SECONDS
            return self._pop(wait)
        except RedisError as error:
            reason = f"RQ's Redis at {self._where}: {type(error).__name__}: {error}"
            raise StoreUnavailable(reason[:300]) from None

    def leave(self) -> None:
        """Take the name off RQ's lists; if that fails, the ringer's next round does it."""
        try:
            with self._redis.pipeline(transaction=False) as pipeline:
                worker_registration.unregister(self, pipeline)
                pipeline.delete(self.key)
                pipeline.execute()
        except RedisError:
            return

    def _pop(self, wait: int) -> str | None:
        try:
            found: Any = DoorbellQueue.dequeue_any(
                self.queues,
                wait,
                connection=self.connection,
                job_class=DoorbellJob,
                serializer=JSONSerializer,
            )
        except DequeueTimeout:
            return None
        except RedisError:
            raise
        except Exception as error:  # noqa: BLE001  what strangers put there must cost one line, not an executor
            self._throw_away(error)
            return None
        if found is None:
            return None
        job: DoorbellJob = found[0]
        self._redis.delete(job.key)
        return job.effect_id

    def _throw_away(self, error: Exception) -> None:
        job_id = getattr(error, "job_id", None)
        reason = f"{type(error).__name__}: {error}"[:200]
        log.event(_LOG, "rq_job_refused", level=logging.WARNING, job=job_id, reason=reason)
        if isinstance(job_id, str):
            self._redis.delete(DoorbellJob.key_for(job_id))

    def _announce(self) -> None:
        """Birth and heartbeat in one: whatever Redis has lost of us is there again."""
        self.birth_date = self.birth_date or rq_now()
        self.last_heartbeat = rq_now()
        untyped: Any = self
        with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hset(self.key, mapping={**untyped.serialize(), "state": "idle"})
            pipeline.expire(self.key, WORKER_TTL + 60)
            worker_registration.register(self, pipeline)
            pipeline.execute()
