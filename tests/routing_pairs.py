"""Pairs of pattern and type with what every matcher of ours says, the cases among them in which Jido's two disagree.

Jido routes signals to handlers by a trie and filters them for subscribers by a second matcher. Facts of 2.2, in our
words: the trie lets ``**`` stand for one segment at least, takes a pattern for fitted once it is used up, however much
of the type is left, and finds a target once for each way to read ``**``. The other matcher takes what stands before a
last ``**`` word for word, wildcards included.
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["PAIRS", "Disagreement"]

Disagreement = Literal["", "none", "longer", "literal"]
"""Why Jido's two matchers disagree: ``**`` for no segment at all (the trie says no), a type that is longer than the
pattern (the trie says yes), a wildcard before the last ``**`` (the other one says no)."""

PAIRS: Final[tuple[tuple[str, str, bool, Disagreement], ...]] = (
    # Names alone.
    ("ticket", "ticket", True, ""),
    ("ticket.opened", "ticket.opened", True, ""),
    ("ticket.opened", "ticket.closed", False, ""),
    ("ticket.opened", "ticket", False, ""),
    ("ticket", "ticket.opened", False, "longer"),
    ("ticket.opened", "ticket.opened.twice", False, "longer"),
    ("Ticket", "ticket", False, ""),
    ("order-1.x_y", "order-1.x_y", True, ""),
    # One segment.
    ("*", "ticket", True, ""),
    ("*", "ticket.opened", False, "longer"),
    ("ticket.*", "ticket.opened", True, ""),
    ("ticket.*", "ticket", False, ""),
    ("ticket.*", "tickets.opened", False, ""),
    ("ticket.*", "ticket.note.added", False, "longer"),
    ("*.opened", "ticket.opened", True, ""),
    ("*.opened", "opened", False, ""),
    ("*.opened", "ticket.opened.twice", False, "longer"),
    ("*.*", "ticket.opened", True, ""),
    ("*.*", "ticket", False, ""),
    ("*.*", "a.b.c", False, "longer"),
    ("a.*.c", "a.b.c", True, ""),
    ("a.*.c", "a.c", False, ""),
    ("a.*.c", "a.b.b.c", False, ""),
    ("a.*.c", "a.b.c.d", False, "longer"),
    ("*.b.*", "a.b.c", True, ""),
    ("*.b.*", "a.c.b", False, ""),
    # Any number at the end.
    ("**", "ticket", True, ""),
    ("**", "a.b.c.d", True, ""),
    ("ticket.**", "ticket.opened", True, ""),
    ("ticket.**", "ticket.note.added", True, ""),
    ("ticket.**", "ticket", True, "none"),
    ("ticket.**", "tickets", False, ""),
    ("ticket.**", "order.ticket", False, ""),
    ("a.b.**", "a.b", True, "none"),
    ("a.b.**", "a.b.c.d", True, ""),
    ("a.b.**", "a.c.b", False, ""),
    # Any number at the beginning or in the middle.
    ("**.failed", "payment.failed", True, ""),
    ("**.failed", "order.payment.failed", True, ""),
    ("**.failed", "failed", True, "none"),
    ("**.failed", "payment.done", False, ""),
    ("**.failed", "payment.failed.twice", False, "longer"),
    ("a.**.c", "a.b.c", True, ""),
    ("a.**.c", "a.b.b.c", True, ""),
    ("a.**.c", "a.c", True, "none"),
    ("a.**.c", "a.b", False, ""),
    ("a.**.c", "a.b.c.d", False, "longer"),
    # Wildcards of both kinds.
    ("*.**", "ticket", True, ""),
    ("*.**", "ticket.opened", True, "literal"),
    ("**.*", "ticket", True, "none"),
    ("**.*", "ticket.opened", True, ""),
    ("a.*.**", "a.b", True, ""),
    ("a.*.**", "a.b.c", True, "literal"),
    ("a.*.**", "a", False, ""),
    ("a.**.*", "a.b", True, "none"),
    ("a.**.*", "a", False, ""),
    ("**.b.**", "a.b.c", True, "literal"),
    ("**.b.**", "b", True, ""),
    ("**.b.**", "a.c", False, ""),
    ("**.a.**.a.**", "a.a", True, ""),
    ("**.a.**.a.**", "a", False, ""),
    ("*.**.*", "a.b", True, "none"),
    ("*.**.*", "a", False, ""),
    ("**.**", "ticket", True, ""),
    ("**.**", "a.b.c", True, "literal"),
)
