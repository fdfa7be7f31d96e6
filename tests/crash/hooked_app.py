"""The recorder, with a hook that writes down each process that ran it, and fails or hangs while a file says so."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from regrow_workers.application import on_worker_start
from tests.crash.recorder_app import tree

__all__ = ["tree"]

FOLDER = Path(os.environ["REGROW_TEST_HOOKS"])


@on_worker_start
def note() -> None:
    if (FOLDER / "fail").exists():
        raise ValueError("told to fail")
    while (FOLDER / "hang").exists():
        time.sleep(0.01)
    (FOLDER / f"ran-{os.getpid()}").write_text(str(random.random()))
