"""Fan-out and join: a hundred outcomes in any order, the agent killed among them, and one sum."""

from __future__ import annotations

import random

from examples.fanout.__main__ import PAGES, judge
from examples.fanout.app import Book, Count, Counted, CountWords, ask_counter, count, tree
from regrow import Context, EffectContext, Reply, Signal
from regrow.testing import Harness


def test_one_signal_asks_for_all_and_the_last_outcome_joins() -> None:
    wanted = CountWords(pages=("a b", "c"))
    ctx = Context.example(Signal.of(wanted), reply_to="somebody")

    state, directives = Book.cmd(Count(), wanted, ctx=ctx)
    assert directives == [count.run(0, "a b"), ask_counter.run(1, "c")]
    state, directives = Book.cmd(state, ask_counter.done(effect="e-2", result=Counted(page=1, words=1)))
    assert (directives, state.joined) == ([], 0)
    state, directives = Book.cmd(state, count.done(effect="e-1", result=Counted(page=0, words=2)))
    assert (directives, state.joined) == ([Reply(3, to="somebody")], 1)


def test_a_page_that_cannot_be_counted_is_told() -> None:
    asked = Count(words={0: None}, asked_by="somebody")

    _, directives = Book.cmd(asked, count.failed(effect="e-1", error="torn", attempts=11))

    assert directives == [Reply("cannot be counted: torn", to="somebody")]


def test_hundred_outcomes_in_any_order_are_joined_once_though_the_agent_is_killed(
    harness: type[Harness],
) -> None:
    library = harness(tree)
    library.send("book", CountWords(pages=PAGES))
    library.run()
    runs = library.effects("book")
    random.Random(1).shuffle(runs)

    for place, run in enumerate(runs):
        if place % 40 == 20:
            library.kill("book", at="before_commit")
        page, text = run.args["page"], run.args["text"]
        library.complete(run, count(EffectContext(id=run.id), page, text) if place < 3 else
                         Counted(page=page, words=len(text.split())))  # fmt: skip
        library.run()

    state = library.state("book", Book)
    version = int(library.record("book")["version"])
    findings = judge(state, sum(len(page.split()) for page in PAGES), version, [])
    assert [finding.text for finding in findings if not finding.holds] == []
    assert library.incarnation("book") > 1


def test_verdict_sees_a_sum_that_is_wrong_or_was_made_twice() -> None:
    findings = judge(Count(words={0: 1}, joined=2), 1, 103, ["x"])

    assert [finding.holds for finding in findings] == [False] * 5
