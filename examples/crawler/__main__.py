"""``python -m examples.crawler``: a small site is crawled while executors and the crawler's process are killed.

Exit code 1 unless every page is known that can be reached, nothing that robots.txt forbids was asked for, and the site
was never asked more often than the rate allows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from urllib.parse import urlsplit

from examples.running import Finding, Killer, conclude, running, serving, until

from .app import AT_ONCE, RATE, Crawler, Start
from .site import Request, Site, expected

DEPTH = 4


def run(*, depth: int = DEPTH) -> list[Finding]:
    site = Site()
    with serving(site.handler) as address, running("examples.crawler.app:tree") as system:
        client = system.client
        client.send("crawler", Start(url=f"{address}/page/0", depth=depth))
        until(lambda: len(site.requests) >= 10, "some pages are asked for")
        killed = Killer(system, seed=1).kill_all("executor", "worker")
        print(
            f"{len(site.requests)} requests; killed {killed} processes: all executors, and the crawler's own"
        )
        until(system.is_idle, "the crawl is over", 60)
        pages = {urlsplit(url).path: status for url, status in client.state("crawler", Crawler).pages.items()}
        seconds = site.requests[-1].at - site.requests[0].at
        print(f"{len(site.requests)} requests for {len(pages)} pages in {seconds:.1f} s")
        return judge(pages, expected(depth), site.requests, system.dead_letters())


def judge(
    pages: Mapping[str, int], wanted: Mapping[str, int], requests: Sequence[Request], dead: Sequence[str]
) -> list[Finding]:
    """Pure. The rate is a bucket: so many at once, and as many more a second. What is on its way may come together."""
    excess = [
        (first, last)
        for (first, begun), (last, ended) in combinations(enumerate(requests), 2)
        if last - first + 1 > RATE + RATE * (ended.at - begun.at) + AT_ONCE
    ]
    at_once = max((request.others + 1 for request in requests), default=0)
    forbidden = [request.path for request in requests if request.path.startswith("/private")]
    missing = sum(status == 0 for status in pages.values())
    return [
        Finding(
            pages == wanted,
            f"{len(pages)} pages are known, as the links of the site say; {missing} of them never came",
        ),
        Finding(not forbidden, "nothing was asked for that robots.txt forbids"),
        Finding(
            not excess,
            f"never more requests than a bucket of {RATE}, filled at {RATE} a second, has for them",
        ),
        # The site hears of a kill a moment after the place is free again.
        Finding(at_once <= 2 * AT_ONCE, f"{at_once} at once at most, those of killed executors counted in"),
        Finding(not dead, f"{len(dead)} dead letters"),
    ]


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    return conclude(run())


if __name__ == "__main__":
    sys.exit(main())
