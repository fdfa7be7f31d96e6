"""The tree of errors (drawn at the top of ``regrow_signals.errors``), where users look for it."""

from __future__ import annotations

from regrow_signals import errors
from regrow_signals.errors import *  # noqa: F403  the whole tree: a second list of it would only go stale

__all__: list[str] = []
__all__ += errors.__all__
