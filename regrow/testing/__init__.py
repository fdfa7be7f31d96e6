"""For users' tests: a tree in one process, a real Redis for a test run, a check of transitions. See docs/testing.md.

``Harness`` needs the extra ``regrow[testing]``. pytest finds the fixtures ``harness`` and ``regrow_server`` by itself.
"""

from __future__ import annotations

from regrow.testing.embedded_server import server
from regrow.testing.harness import Harness, NeverIdle, Transition
from regrow.testing.pending_effects import PendingEffect
from regrow.testing.stepped_worker import KillStep
from regrow.testing.transition_check import Fault, TransitionFaults, check_transition

__all__ = [
    "Harness", "Transition", "PendingEffect", "KillStep", "NeverIdle",
    "server",
    "check_transition", "Fault", "TransitionFaults",
]  # fmt: skip
