"""The crawler: its levels, what it leaves out, and who judges how often a site was asked."""

from __future__ import annotations

import pytest

from examples.crawler.__main__ import judge
from examples.crawler.app import AT_ONCE, RATE, Crawl, Crawler, Page, Start, fetch_page, read_robots, tree
from examples.crawler.site import BROKEN, Request, Site, expected, links
from examples.running import serving
from regrow import EffectContext
from regrow.testing import Harness

ROOT = "http://site.test/page/0"
RUN = EffectContext(id="e-1")


def test_robots_come_first() -> None:
    crawl, directives = Crawler.cmd(Crawl(), Start(url=ROOT, depth=1))
    assert directives == [read_robots.run(ROOT)]

    crawl, directives = Crawler.cmd(crawl, read_robots.done(effect="e-1", result=("/private",)))
    assert directives == [fetch_page.run(ROOT)]
    assert (crawl.levels, crawl.under_way, crawl.pages) == (1, 1, {ROOT: 0})


def test_nothing_is_fetched_where_robots_cannot_be_read() -> None:
    crawl, _ = Crawler.cmd(Crawl(), Start(url=ROOT, depth=1))

    crawl, directives = Crawler.cmd(crawl, read_robots.failed(effect="e-1", error="down", attempts=4))

    assert (directives, crawl.pages) == ([], {})


def test_next_level_begins_when_this_one_is_over_and_leaves_out_what_is_known_forbidden_or_elsewhere() -> (
    None
):
    other, below = "http://site.test/page/9", "http://site.test/page/2"
    crawl = Crawl(pages={ROOT: 200, other: 0, below: 0}, forbidden=("/private",), levels=1, under_way=2)
    found = (ROOT, "http://site.test/private/1", "http://elsewhere.test/", "http://site.test/page/3")

    crawl, directives = Crawler.cmd(
        crawl, fetch_page.done(effect="e-1", result=Page(url=other, status=200, links=found))
    )
    assert directives == []
    crawl, directives = Crawler.cmd(crawl, fetch_page.failed(effect="e-2", error="500", attempts=4))

    assert directives == [fetch_page.run("http://site.test/page/3")]
    assert crawl.pages == {ROOT: 200, other: 200, below: 0, "http://site.test/page/3": 0}
    assert (crawl.levels, crawl.under_way, crawl.found) == (0, 1, ())


def test_last_level_is_not_followed() -> None:
    crawl = Crawl(pages={ROOT: 0}, levels=0, under_way=1)

    crawl, directives = Crawler.cmd(
        crawl, fetch_page.done(effect="e-1", result=Page(url=ROOT, status=200, links=(f"{ROOT}0",)))
    )

    assert (directives, crawl.pages) == ([], {ROOT: 200})


def test_whole_site_is_known_in_the_end_though_the_crawler_and_executors_die(harness: type[Harness]) -> None:
    site = Site()
    with serving(site.handler) as address:
        crawlers = harness(tree)
        crawlers.send("crawler", Start(url=f"{address}/page/0", depth=2))
        crawlers.run()
        crashed: set[str] = set()
        while effects := crawlers.effects("crawler"):
            if effects[0].id not in crashed:
                crawlers.kill("crawler", at="before_commit")
                crawlers.crash(effects[0])
                crashed.add(effects[0].id)
            crawlers.run_effects()
            crawlers.advance(1)

        pages = crawlers.state("crawler", Crawler).pages
    assert {url.removeprefix(address): status for url, status in pages.items()} == expected(2)
    assert site.fetched["/page/0"] == 1


def test_what_the_functions_make_of_the_site() -> None:
    with serving(Site().handler) as address:
        assert read_robots(RUN, f"{address}/page/0") == ("/private",)
        assert fetch_page(RUN, f"{address}/gone/0").status == 404
        page = fetch_page(RUN, f"{address}/page/0")
        with pytest.raises(Exception, match="500"):
            fetch_page(RUN, f"{address}/page/{BROKEN}")

    assert page.status == 200
    assert page.links == tuple(link if "://" in link else f"{address}{link}" for link in links(0))


GOOD = [Request("/page/0", float(place), 0) for place in range(4)]


@pytest.mark.parametrize(
    ("pages", "requests", "dead", "holds"),
    [
        ({"/page/0": 200}, GOOD, [], [True, True, True, True, True]),
        ({"/page/0": 0}, GOOD, [], [False, True, True, True, True]),
        ({"/page/0": 200}, [*GOOD, Request("/private/1", 5.0, 0)], [], [True, False, True, True, True]),
        ({"/page/0": 200}, [Request("/page/0", 0.0, 0)] * (RATE + AT_ONCE), [], [True] * 5),
        ({"/page/0": 200}, [Request("/page/0", 0.0, 0)] * (RATE + AT_ONCE + 1), [], [True, True, False, True, True]),
        ({"/page/0": 200}, [Request("/page/0", 0.0, 2 * AT_ONCE)], [], [True, True, True, False, True]),
        ({"/page/0": 200}, GOOD, ["crawler: crawl.start: rejected"], [True, True, True, True, False]),
    ],
)  # fmt: skip
def test_verdict(pages: dict[str, int], requests: list[Request], dead: list[str], holds: list[bool]) -> None:
    findings = judge(pages, {"/page/0": 200}, requests, dead)

    assert [finding.holds for finding in findings] == holds
