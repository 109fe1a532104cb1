"""When periodic policies are asked: in passes that are PERIODIC_EXPR_INTERVAL apart, and not before anything may have
changed what they say.

The access point's passes, over jobs that do not run, are at whole multiples of the interval since the epoch; those over
a job that runs are at whole multiples since its process began. So when they are does not depend on when the pool was
started. A pass looks only at those of whose ads something has changed since, or for which the time alone may change an
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..classad import Context, Expression
from ..classad.next_change import POLL, next_change
from ..classad.time_functions import Moving
from ..state.caches import ad_of, expression
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, whole
from ..state.settings import number_of
from ..state.state import RUNS, State
from .periodic_policy import EVICT, Question, questions
from .policy_kinds import attributes_read, kinds

SECOND: Final = 1_000_000
KINDS_MOST: Final = 64
"""Jobs of a cluster that differ in what is asked, at most, of each of which it is found out when the time may change
the answer. Where there are more, all are asked in each pass: by columns that costs less."""


def interval(state: State) -> int:
    """How far apart two passes are, in microseconds; 0: there are none."""
    return round(number_of(state.settings, "PERIODIC_EXPR_INTERVAL")) * SECOND


def next_pass(state: State, after: int, since: int = 0) -> int | None:
    """The first pass behind an instant, of those that are counted from ``since``; None: there are none."""
    apart = interval(state)
    return since + ((after - since) // apart + 1) * apart if apart else None


def began(cluster: Cluster, proc: int) -> int:
    """When the process of a job began that runs, as its ad has it."""
    return whole(cluster.value(proc, "JobCurrentStartExecutingDate")) * SECOND


def waiting_change(state: State, cluster: Cluster, now: int, context: Context) -> int | None:
    """The first instant at which the time may change what the policies say of those jobs of a cluster that do not run;
    now if it cannot be foreseen, None if none does."""
    found: list[int] = []
    for status, byte in STATUS_NUMBERS.items():
        if not cluster.counts[byte] or status == "Removed" or (status in RUNS and not cluster.local):
            continue
        procs = [proc for proc in cluster.procs(byte.__eq__) if cluster.local or (cluster.id, proc) not in state.by_job]
        change = _change(state, cluster, procs, status, now, context) if procs else None
        if change is not None:
            found.append(change)
    return min(found, default=None)


def running_change(state: State, cluster: Cluster, proc: int, now: int, context: Context) -> int | None:
    """The same of a job that runs."""
    return _change(state, cluster, [proc], cluster.status_of(proc), now, context)


def _change(
    state: State, cluster: Cluster, procs: Sequence[int], status: str, now: int, context: Context
) -> int | None:
    asked = [question for question in questions(state) if status in question.policy.statuses]
    texts = {text for question in asked for text in _texts(cluster, question)}
    expressions = [one for one in map(expression, texts) if one is not None]
    if not expressions:
        return None
    together = kinds(cluster, procs, attributes_read(expressions, cluster, procs[0]))
    if len(together) > KINDS_MOST:
        return now
    found = []
    for one in together:
        for question in asked:
            if question.policy.row == EVICT and status not in RUNS:
                continue
            change = _change_of(cluster, one[0], question, context)
            if change is not None:
                found.append(now if change is POLL else int(change) * SECOND)  # type: ignore[call-overload]
    return min(found, default=None)


def _texts(cluster: Cluster, question: Question) -> Iterable[str]:
    """The texts by which jobs of a cluster may be asked."""
    attribute = question.policy.attribute
    if not attribute:
        return (question.text,)
    if cluster.agree(attribute):
        own = cluster.wish(0, attribute)
        return (question.text or own,) if own else ()
    return {question.text or own for own in (cluster.wish(proc, attribute) for proc in cluster.procs()) if own}


def _change_of(cluster: Cluster, proc: int, question: Question, context: Context) -> object:
    attribute = question.policy.attribute
    own = cluster.wish(proc, attribute) if attribute else ""
    text = question.text if not attribute else own and (question.text or own)
    asked: Expression | None = expression(text) if text else None
    if asked is None:
        return None
    ad = cluster.attributes(proc)
    since = whole(ad.get("ShadowBday", ""))
    moving = {}
    if since:  # the run that goes on counts (``periodic_policy.with_run_time``)
        before = ad.get("RemoteWallClockTime", "0")
        moving = {"remotewallclocktime": Moving(since - _seconds(before))}
    return next_change(asked, ad_of(ad), None, context, moving)


def _seconds(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return 0
