"""The planner of agents whose modes postpone signals: what a mode does not handle stays in the mailbox. Pure.

A change of mode ends the batch and goes back to the first postponed signal: they are looked at in their order, before
whatever came after them, and those that still do not fit stay. A change among them goes back once more.

So it is with the first signal after a deploy whose code postpones nothing any more: what waited is not left behind.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, Final

from regrow_signals.agents import FIRST, Loaded
from regrow_signals.commits import Owner, Postpone
from regrow_signals.limits import Limits
from regrow_workers.agent import Agent
from regrow_workers.batch import Batch, CommitPlan
from regrow_workers.delivery import Delivery
from regrow_workers.directive_appends import Appends
from regrow_workers.outcomes import Outcome, Unstorable, WrongMode

__all__ = ["PostponingBatch"]

_LARGEST: Final = 500
"""Fields of a signal that is postponed; a stranger's with more is a dead letter at once."""


class PostponingBatch(Batch):
    """Of postponed signals where ``loaded.rewound`` says so, else of those after the cursor."""

    def __init__(
        self,
        agent_type: type[Agent[Any]],
        loaded: Loaded,
        limits: Limits,
        owner: Owner,
        refused: Mapping[str, tuple[str, str]],
    ) -> None:
        super().__init__(agent_type, loaded, limits, owner, refused)
        modes = self.definition.modes
        self.modes = modes if modes is not None and modes.postponing else None
        """None: earlier code postponed what waits."""
        self.back = bool(loaded.rewound)
        self.rewound = loaded.rewound
        self.left = loaded.postponed
        self.done: list[str] = []
        self.passed = 0
        self.changed = False

    def take(
        self,
        entry: str,
        fields: Mapping[str, str | bytes],
        checked: bool,
        nowhere: Container[str] | None,
    ) -> bool:
        if self.changed and self.left:
            return False  # those that wait come first
        mode = self._mode()
        left = self.left
        self._kept = False
        if not super().take(entry, fields, checked, nowhere):
            return False
        if not self._kept:
            self.done.append(entry)
            self.left = left - self.back
        if self.back:
            self.cursor, self.rewound = self.loaded.cursor, entry
        else:
            self.passed += 1
        left_behind = self.modes is None and not self.back
        self.changed = self.changed or left_behind or self._mode() != mode
        return True

    def _mode(self) -> str:
        return "" if self.modes is None else self.modes.of(self.state)

    def planned(self) -> CommitPlan:
        found = super().planned()
        rewound = FIRST if self.changed and self.left else self.rewound
        if not (self.left or self.loaded.postponed or self.back):
            return found
        postpone = Postpone(
            rewound=rewound,
            back=self.back,
            careful=self.loaded.careful_until if self.back else "",
            moved=self.version != self.loaded.version,
            left=self.left,
            done=self.done,
        )
        return replace(found, commit=replace(found.commit, postpone=postpone, passed=self.passed))

    def _write(self, outcome: Outcome, appends: Appends, delivery: Delivery) -> bool:
        if type(outcome) is not WrongMode or not outcome.postponed:
            return super()._write(outcome, appends, delivery)
        bound = self.loaded.max_mailbox // 2
        if not self.back and self.left >= bound:
            full = Unstorable(
                "too_many_postponed",
                f"{outcome.why}; {self.left:,} signals wait for another mode, half of the mailbox",
            )
            return super()._write(full, appends, delivery)
        if len(delivery.fields) > _LARGEST:
            return super()._write(outcome, appends, delivery)
        self._kept = True
        self.left += not self.back
        self.cursor = delivery.entry
        self.taken += 1
        return True
