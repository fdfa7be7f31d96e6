"""An application whose import starts a thread, so that forking it would not be safe."""

from __future__ import annotations

import threading

from tests.crash.recorder_app import tree

__all__ = ["tree"]


def tick() -> None:
    threading.Event().wait()


threading.Thread(target=tick, name="ticker", daemon=True).start()
