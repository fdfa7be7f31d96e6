"""``python -m examples.reporter``: an every-second schedule, and the watchdog and all workers are killed.

Then a report is asked for by hand, without waiting for 02:30 in Berlin. Exit code 1 unless each second has one sale and
the report has all of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from examples.running import Finding, Killer, conclude, running, until

from .app import MAILBOX, Day, ReportDue, Reporter, Sales, Till

SECONDS = 7


def run(*, seconds: int = SECONDS) -> list[Finding]:
    with (
        tempfile.TemporaryDirectory(prefix="regrow-mailbox-") as mailbox,
        running("examples.reporter.app:tree", environment={MAILBOX: mailbox}) as system,
    ):
        client = system.client

        def sales() -> int:
            return len(client.state("till", Till).due)

        until(lambda: sales() >= 2, "the till sells")
        killed = Killer(system, seed=1).kill_all("watchdog", "worker")
        print(f"{sales()} sales; killed {killed} processes: the watchdog, which fires timers, and the agents")
        until(lambda: sales() >= seconds, f"{seconds} sales")
        client.send("reporter", ReportDue())
        until(lambda: client.state("reporter", Reporter).mailed, "the report is mailed")
        mails = [file.read_text(encoding="utf-8") for file in Path(mailbox).iterdir()]
        print("mailed:", *mails)
        return judge(
            client.state("till", Till), client.state("reporter", Reporter), mails, system.dead_letters()
        )


def judge(till: Sales, day: Day, mails: Sequence[str], dead: Sequence[str]) -> list[Finding]:
    """Pure."""
    due = [datetime.fromisoformat(each) for each in till.due]
    steps = {after - before for before, after in pairwise(due)}
    reported = sum(int(mail.split()[0]) for mail in mails)
    return [
        Finding(steps == {timedelta(seconds=1)}, f"{len(due)} sales, each one second after the one before"),
        Finding(tuple(mails) == day.mailed, f"{len(mails)} report was mailed, and the reporter knows it"),
        Finding(0 < reported + day.sales <= len(due), f"it has {reported} sales, {day.sales} came after it"),
        Finding(not dead, f"{len(dead)} dead letters"),
    ]


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    return conclude(run())


if __name__ == "__main__":
    sys.exit(main())
