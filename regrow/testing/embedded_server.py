"""``server()``: a real Redis for a test run, on a folder of its own, so that parallel runs never meet."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from regrow.embedded_redis import EmbeddedRedis, ServerInfo

__all__ = ["server"]


@contextmanager
def server(*, program: str = "") -> Generator[ServerInfo]:
    """A running server; ``.url`` is for ``Client(url)`` and ``REDIS_URL``. Ends with the block, or with this process.

    Each has its own temporary folder, unix socket, port and password: any number may run side by side, one for each
    worker of pytest-xdist, say. ``program`` names another server than the embedded one.
    """
    folder = Path(tempfile.mkdtemp(prefix="regrow-test-"))
    redis = EmbeddedRedis(folder, program=program)
    try:
        yield redis.start()
    finally:
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)
