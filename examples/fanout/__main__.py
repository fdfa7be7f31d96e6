"""``python -m examples.fanout``: a hundred pages are counted at once; half-way all executors are killed.

Exit code 1 unless the sum is right, it was made once, and each result changed the state once.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from examples.running import Finding, Killer, Running, conclude, running, until
from regrow import Client

from .app import Book, Count, CountWords

PAGES = tuple("once upon a time " * (number % 7 + 1) for number in range(100))


def run() -> list[Finding]:
    with running("examples.fanout.app:tree") as system, ThreadPoolExecutor(1) as caller:
        asked = caller.submit(ask, system)

        def done() -> int:
            return sum(words is not None for words in system.client.state("book", Book).words.values())

        until(lambda: done() >= 10, "some pages are counted")
        print(f"{done()} of {len(PAGES)} pages are counted:", end=" ")
        print(f"killed {Killer(system, seed=1).kill_all('executor')} executors")
        answer = asked.result()
        until(system.is_idle, "nothing is under way")
        print(f"whoever asked hears: {answer}")
        return judge(
            system.client.state("book", Book),
            answer,
            int(system.record("book")["version"]),
            system.dead_letters(),
        )


def ask(system: Running) -> object:
    """From a thread of its own, so with a client of its own."""
    with Client(system.stack.url, namespace=system.client.keys.namespace) as client:
        answer: object = client.ask("book", CountWords(pages=PAGES), timeout=60)
        return answer


def judge(count: Count, answer: object, version: int, dead: list[str]) -> list[Finding]:
    """Pure. ``version`` counts the transitions: one that asked, and one for each outcome."""
    words = {number: len(page.split()) for number, page in enumerate(PAGES)}
    return [
        Finding(count.words == words, f"{len(count.words)} pages, each with its own number of words"),
        Finding(answer == sum(words.values()), f"the answer is their sum, {sum(words.values())}"),
        Finding(count.joined == 1, f"they were joined {count.joined} time"),
        Finding(version == len(PAGES) + 1, f"{version - 1} outcomes were applied, one for each effect"),
        Finding(not dead, f"{len(dead)} dead letters"),
    ]


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    return conclude(run())


if __name__ == "__main__":
    sys.exit(main())
