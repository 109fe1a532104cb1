"""Check concurrency limits: that no match exceeds one, and that a claim holds what its match was given."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain import events as e
from ...domain.classad.tree import Literal
from ...domain.concurrency_limits import LIMITS, Amount, asked, most, shown
from ...domain.state.caches import expression
from .judged_pool import JudgedPool


def exceed_no_limit(pool: JudgedPool, matches: Sequence[e.Match]) -> None:
    """Check a cycle's matches one after the other."""
    if not any(match.limits for match in matches):
        return
    held: dict[str, Amount] = {}
    for text, count in pool.state.limits_in_use.items():
        for one in asked(text):
            held[one.name] = held.get(one.name, 0) + one.units * count
    for match in matches:
        for name, units in asked(match.limits):
            used, there = held.get(name, 0), most(pool.state.settings, name)
            if used + units > there:
                words = f"of which {shown(used)} of {shown(there)} are held"
                pool.report(match.job, "limit", f"its match takes {shown(units)} of {name.upper()}, {words}")
            held[name] = used + units


def as_its_ad_says(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued, ad: e.Ad) -> None:
    """Check that a claim that was made without a match holds what the job's ad says, if that is a plain text."""
    meaning = expression(ad.get(LIMITS, '""'))
    says = meaning.value if isinstance(meaning, Literal) else event.limits
    if event.limits != (says if isinstance(says, str) else ""):
        words = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but the job's ad says {says}"
        pool.report_slot(event.slot, "limit", words)


def keeps_limits(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued) -> None:
    """Check that a claim of the pool's own schedd holds what its match was given."""
    given = pool.state.matched_limits.get(event.slot, "")
    if event.limits != given:
        words = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but its match {given or 'nothing'}"
        pool.report_slot(event.slot, "limit", words)
