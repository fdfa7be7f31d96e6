"""The environment of a child process: ours, and what the child must be told. Nothing is read from it here."""

from __future__ import annotations

import os
from collections.abc import Mapping

from regrow.settings import variable_of

__all__ = ["child_environment"]


def child_environment(url: str, namespace: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The server's URL goes this way and not by arguments: ``ps`` shows argument lists to everybody."""
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        **extra,
        variable_of("redis_url"): url,
        variable_of("namespace"): namespace,
    }
