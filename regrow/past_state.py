"""An agent's state as it was after one of its last transitions, read from its journal. Pure.

The journal holds the whole state at the last transition of each commit, and a digest of it at every one. So a version
inside a commit is known where the state did not change up to one that was kept, and else its nearest neighbours are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from regrow_signals.errors import BadInput

__all__ = ["PastState", "past_state"]

Line = Mapping[str, str]
_NO_LINE: Final[Line] = {}


@dataclass(frozen=True, slots=True)
class PastState:
    """``line`` is the transition that led to it; empty for the state that an agent begins with."""

    version: int
    state: str
    line: Line


def past_state(agent: str, record: Line, lines: Sequence[Line], version: int) -> PastState:
    """The state at ``version``. ``BadInput`` says which versions are kept where this one is not.

    ``record`` is the agent's hash, ``lines`` its journal, the oldest first.
    """
    current = _number(record.get("version"))
    if version > current or version < 0:
        raise BadInput(f"agent {agent} has no version {version}: it is at version {current}")
    line = next((line for line in reversed(lines) if _number(line.get("version")) == version), _NO_LINE)
    if version == current and record.get("state"):
        return PastState(version, record["state"], line)
    if version == 0:
        return PastState(0, record.get("init") or "{}", line)
    if not line:
        kept = [_number(line.get("version")) for line in lines]
        reach = f"it reaches back to version {min(kept)}" if kept else "it is empty"
        raise BadInput(f"agent {agent}: version {version} is not in its journal any more; {reach}")
    state = _with_digest(lines, line.get("digest", ""))
    if state is None:
        raise BadInput(
            f"agent {agent}: version {version} lies inside a commit, and states are kept at the end of each; "
            f"the nearest are {_nearest(lines, version)}"
        )
    return PastState(version, state, line)


def _with_digest(lines: Sequence[Line], digest: str) -> str | None:
    return next(
        (line["state"] for line in lines if digest and "state" in line and line.get("digest") == digest), None
    )


def _nearest(lines: Sequence[Line], version: int) -> str:
    kept = sorted({_number(line.get("version")) for line in lines if "state" in line})
    before = [each for each in kept if each < version][-1:]
    after = [each for each in kept if each > version][:1]
    return " and ".join(map(str, before + after)) or "none"


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
