"""Which threads a process has, by name: what an application's imports started, which makes a fork unsafe."""

from __future__ import annotations

import threading
from pathlib import Path

__all__ = ["threads_running"]


def threads_running() -> list[str]:
    """Names of threads besides the main one, with the module that they run; native ones by the kernel's name."""
    main = threading.main_thread()
    python = [thread for thread in threading.enumerate() if thread is not main]
    named = [f"{thread.name} ({_module_of(thread)})" for thread in python]
    known = {thread.native_id for thread in python} | {main.native_id}
    tasks = list(Path("/proc/self/task").glob("*"))
    if len(tasks) <= len(known):
        # In a container /proc may be the host's, with other numbers: the count is right in any case.
        return named
    tasks = [task for task in tasks if int(task.name) not in known]
    return named + [f"native thread {(task / 'comm').read_text().strip()}" for task in tasks]


def _module_of(thread: threading.Thread) -> str:
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", None) or type(thread).__module__)
