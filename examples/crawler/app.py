"""One agent has the crawl as its state. Each page is an effect; when all of a level are there, the next one begins.

``rate`` and ``concurrency`` hold for all executors together: with more of them the site is not asked more often.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from regrow import (
    Agent,
    Directive,
    Done,
    EffectContext,
    Failed,
    Payload,
    State,
    Step,
    Supervisor,
    effect,
    handles,
)

RATE = 20
AT_ONCE = 3


class Start(Payload, type="crawl.start"):
    url: str
    depth: int
    """How many links away from it."""


class Page(Payload):
    url: str
    status: int
    links: tuple[str, ...] = ()


@effect(rate=f"{RATE}/s", concurrency=AT_ONCE, timeout=5, retries=3, backoff=0.1)
def fetch_page(_run: EffectContext, url: str) -> Page:
    """A page that is not there is an answer. A server in trouble is an exception: another try."""
    try:
        text = read(url)
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise
        return Page(url=url, status=error.code)
    links = tuple(urljoin(url, link) for link in re.findall(r'href="([^"]+)"', text))
    return Page(url=url, status=200, links=links)


@effect(timeout=5, retries=3, backoff=0.1)
def read_robots(_run: EffectContext, url: str) -> tuple[str, ...]:
    """What nobody may fetch, as beginnings of paths."""
    return tuple(re.findall(r"^Disallow: *(\S+)", read(urljoin(url, "/robots.txt")), re.MULTILINE))


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=4) as response:
        text: bytes = response.read()
        return text.decode()


class Crawl(State):
    pages: dict[str, int] = Field(default_factory=dict)
    """By URL: its HTTP status; 0 while it is under way, and if it never came."""
    forbidden: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    """The next level."""
    levels: int = 0
    """Still to come."""
    under_way: int = 0
    """Of this level."""


class Crawler(Agent[Crawl], name="crawler"):
    @handles(Start)
    def start(self, _crawl: Crawl, start: Start) -> Step[Crawl]:
        return Crawl(found=(start.url,), levels=start.depth + 1), read_robots.run(start.url)

    @handles(read_robots.done)
    def robots(self, crawl: Crawl, done: Done[tuple[str, ...]]) -> Step[Crawl]:
        return next_level(crawl.evolve(forbidden=done.result))

    @handles(fetch_page.done)
    def fetched(self, crawl: Crawl, done: Done[Page]) -> Step[Crawl]:
        page = done.result
        crawl = crawl.evolve(
            pages={**crawl.pages, page.url: page.status},
            found=(*crawl.found, *page.links),
            under_way=crawl.under_way - 1,
        )
        return crawl if crawl.under_way else next_level(crawl)

    @handles(fetch_page.failed)
    def lost(self, crawl: Crawl, _failed: Failed) -> Step[Crawl]:
        crawl = crawl.evolve(under_way=crawl.under_way - 1)
        return crawl if crawl.under_way else next_level(crawl)

    @handles(read_robots.failed)
    def no_robots(self, crawl: Crawl, _failed: Failed) -> Step[Crawl]:
        """Nobody knows what may be fetched, so nothing is."""
        return crawl.evolve(found=(), levels=0)


def next_level(crawl: Crawl) -> tuple[Crawl, list[Directive]]:
    """What was found, once each, and not what may not be fetched or is elsewhere. At most 1,000 pages a level."""
    if crawl.levels == 0:
        return crawl.evolve(found=()), []
    urls = [url for url in dict.fromkeys(crawl.found) if url not in crawl.pages and allowed(crawl, url)]
    after = crawl.evolve(
        pages={**crawl.pages, **dict.fromkeys(urls, 0)},
        found=(),
        levels=crawl.levels - 1,
        under_way=len(urls),
    )
    return after, [fetch_page.run(url) for url in urls]


def allowed(crawl: Crawl, url: str) -> bool:
    begun_at = next(iter(crawl.pages), url)
    path = urlsplit(url).path
    return urlsplit(url).netloc == urlsplit(begun_at).netloc and not path.startswith(crawl.forbidden)


tree = Supervisor("crawlers", [Crawler.child("crawler")], max_restarts=100)
