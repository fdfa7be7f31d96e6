"""What Redis says at the end, held against what was sent: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .app import Twin
from .load import Due

__all__ = ["Report", "faults", "summary"]


@dataclass(frozen=True)
class Report:
    """Of one run."""

    due: Mapping[str, Due]
    twins: Mapping[str, Twin]
    letters: Mapping[str, int]
    """Dead letters of who has any."""
    statuses: Mapping[str, int]
    """How many devices are ``idle`` and so on."""
    alarms_heard: int
    signals: int
    """Sent to devices."""
    seconds: float
    kills: int
    restarts: int
    """Lives of devices that ended with a slot."""


def faults(report: Report) -> list[str]:
    """Empty: nothing was lost, doubled or out of order, and whoever was killed goes on."""
    found: list[str] = []
    for device, due in report.due.items():
        twin = report.twins.get(device)
        if twin is None:
            found.append(f"{device}: is not there")
            continue
        seen = Due(twin.readings, twin.celsius, twin.limit, twin.alarms, twin.commands)
        if seen != due or twin.misplaced or twin.last != due.readings:
            found.append(f"{device}: is {twin!r}, not {due!r}")
    found += [f"{device}: {count} dead letters" for device, count in report.letters.items() if count]
    found += [
        f"{count} devices are {status}" for status, count in report.statuses.items() if status != "idle"
    ]
    made = sum(due.alarms for due in report.due.values())
    if report.alarms_heard != made:
        found.append(f"operations heard {report.alarms_heard} alarms, {made} were raised")
    if report.restarts > report.kills:
        found.append(
            f"{report.restarts} devices were restarted by {report.kills} kills: each costs one at most"
        )
    return found


def summary(report: Report) -> list[str]:
    """For people."""
    made = sum(due.alarms for due in report.due.values())
    return [
        f"{report.signals:,} signals to {len(report.due):,} devices in {report.seconds:.1f} s",
        f"{report.signals / report.seconds:,.0f} signals a second",
        f"{report.kills} slots killed, each with up to 32 devices in hand: {report.restarts} devices restarted",
        f"{made:,} alarms raised, {report.alarms_heard:,} heard",
    ]
