"""2,000 starts of workers while their application logs, imports and uses Redis: does one hang, or share a socket?

``python -m benchmarks.fork_soak`` forks; ``--threads`` has the application's import start a thread that does all of
that as well, so that each worker is a fresh interpreter (slow: give fewer ``--starts``). Exit code 1 if anything is
wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conftest import PrivateServer
from tests.crash.fork_storm import ForkStorm
from tests.crash.node_harness import Decisions, NodeUnderTest


def main() -> int:
    """Run, print what it came to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--agents", type=int, default=20, help="started at the same time (20)")
    parser.add_argument("--threads", action="store_true", help="fresh interpreters instead of forks")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="regrow-soak-"))
    server = PrivateServer(folder)
    server.start()
    environment = {"REGROW_TEST_URL": server.url, "REGROW_TEST_THREADS": "1" if told.threads else ""}
    decisions = Decisions(server.url)
    node = NodeUnderTest(
        server.url,
        "tests.crash.busy_app:tree",
        environment,
        log_level="INFO",
        start_timeout=60.0,
        node_timeout=30.0,
    )
    try:
        verdict = ForkStorm(decisions, node, told.agents).rage(
            told.starts, lambda line: print(line, flush=True)
        )
    finally:
        decisions.close()
        node.kill()
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{verdict.starts} starts in {verdict.seconds:.0f} s, {verdict.in_spares} of them in a spare; the slowest "
        f"round of {told.agents} took {verdict.slowest_round:.1f} s; sockets looked at {verdict.looks_at_sockets} times"
    )
    well = "nothing is wrong: none hung, none shared a socket, every signal was applied once"
    print(*(verdict.wrong or [well]), sep="\n")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
