"""The sentences of an overview."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...domain.events import Clause, Denied, Unmatched
from ...domain.state.job_ad import unquoted
from ...domain.units import SECOND
from ...projections.activity_view import EVICTION, HOLD, PREEMPTION
from ...replay.narration.formatting import counted, interval, shorten_text
from ...replay.narration.rejection_words import obstacle_kind, short_reason
from ...replay.narration.sentence_tables import cause_words
from .records import Finding, WaitingReason

if TYPE_CHECKING:
    from ...projections.overview import FindingRow, MachineSummary
    from ...projections.views import RejectionRow

_RESOURCES = {"cpus": "cores", "memory": "memory", "disk": "disk space"}
_WAITS_FOR = {
    "nothing": "a slot that meets their requirements",
    "refused": "a slot whose START accepts them",
    "share": "their fair share",
    "ceiling": "their ceiling",
    "quota": "their group's quota",
    "concurrency": "a concurrency limit",
    "running": "MAX_JOBS_RUNNING",
    "matches": "the next negotiation cycle",
}
"""The kind of an obstacle -> what the jobs wait for; a free slot for other kinds."""
_REQUEST = re.compile(r"\bRequest(\w+)")


def waiting_reasons(rejections: Iterable[RejectionRow]) -> list[WaitingReason]:
    """Return why jobs wait, the reason with the most jobs first."""
    reasons = [_waiting_reason(row) for row in rejections]
    return sorted(reasons, key=lambda reason: (-reason.jobs, reason.job))


def _waiting_reason(row: RejectionRow) -> WaitingReason:
    reason = Unmatched(
        row.job, row.jobs, row.slots, tuple(Clause(*clause) for clause in row.clauses), row.refused_by_slot, row.taken,
        row.submitter, Denied(**row.denied) if row.denied else None, row.limit, row.allowed, row.used, (), row.group,
    )  # fmt: skip
    if row.limit == "concurrency":
        return WaitingReason(row.job, row.jobs, row.submitter, "a concurrency limit is reached", _WAITS_FOR[row.limit])
    kind = obstacle_kind(reason)
    resource = _missing_resource(reason) if kind == "nothing" else ""
    what = resource or _WAITS_FOR.get(kind, "a free slot")
    text = f"no slot has the {resource} that it requests" if resource else short_reason(reason, ())
    return WaitingReason(row.job, row.jobs, row.submitter, text, what)


def _missing_resource(reason: Unmatched) -> str:
    """Return the resource that the first condition names which no remaining slot meets; empty: it names none."""
    clause = next((clause for clause in reason.clauses if not clause.left), None)
    request = None if clause is None else _REQUEST.search(clause.text)
    return "" if request is None else _RESOURCES.get(request[1].lower(), request[1])


def pool_sentence(
    busy: int, slots: int, jobs: dict[str, int], waiting: Sequence[WaitingReason], unit: str = "slot"
) -> str:
    """Return a summary: "312 of 400 slots are busy; 1,204 jobs wait, most of them for memory."

    :param unit: slot, or core for a pool with partitionable slots
    """
    idle, held = jobs.get("idle", 0), jobs.get("held", 0)
    if not slots and not any(jobs.values()):
        return "The pool has no slots and no jobs."
    if slots < 2:
        state = f"The only {unit} is {'busy' if busy else 'free'}" if slots else "The pool has no slots"
    else:
        share = "All" if busy == slots else f"{busy:,} of" if busy else "None of"
        state = f"{share} {slots:,} {unit}s {'are' if busy > 1 else 'is'} busy"
    parts = [state, _waiting_clause(idle, waiting)]
    if held:
        parts.append(f"{counted(held, 'job')} {'is' if held == 1 else 'are'} held")
    return f"{'; '.join(parts)}."


def _waiting_clause(idle: int, waiting: Sequence[WaitingReason]) -> str:
    if not idle:
        return "no jobs wait"
    text = f"{counted(idle, 'job')} {'waits' if idle == 1 else 'wait'}"
    causes: Counter[str] = Counter()
    for reason in waiting:
        causes[reason.what] += reason.jobs
    if not causes:
        return text
    what, jobs = causes.most_common(1)[0]
    if idle == 1:
        return f"{text} for {what.replace('their', 'its')}"
    extent = f"all for {what}" if jobs >= idle else f"most of them for {what}" if 2 * jobs > idle else ""
    return f"{text}, {extent}" if extent else text


_MACHINES = {"left": "The machine {} left the pool.", "expired": "The machine {} has stopped responding."}


def finding(row: FindingRow) -> Finding:
    """Return a finding with its sentence."""
    user, reason = row.owner or row.user, shorten_text(row.text.rstrip("."), 200)
    verb = "was" if row.jobs == 1 else "were"
    subject = row.subject if row.jobs < 2 else str(row.cluster)
    if row.kind in (HOLD, EVICTION):
        jobs = f"Job {row.subject}" if row.jobs == 1 else f"{counted(row.jobs, 'job')} of cluster {row.cluster}"
        done = "held" if row.kind == HOLD else "evicted"
        text = f"{jobs} of {user} {verb} {done}: {reason or cause_words(row.cause)}."
    elif row.kind == PREEMPTION:
        why = "the slot's RANK prefers it" if row.text == "rank" else "its submitter has a better priority"
        text = f"A job of cluster {row.cluster} of {user} was matched with {row.subject}, which {row.user} uses: {why}."
    elif row.text in _MACHINES and not row.user:
        text = _MACHINES[row.text].format(row.subject)
    else:
        sender = " of ".join(filter(None, (row.subject, row.user)))
        text = f"A request{f' from {sender}' if sender else ''} was rejected: {reason}."
    return Finding(row.position, row.at, row.kind, subject, row.jobs, user, text)


def hold_clause(reason: str, jobs: int, reasons: int) -> str:
    """Return why jobs of a cluster are held.

    :param reason: the expression of the most common HoldReason
    :param jobs: the number of jobs with this reason
    :param reasons: the number of different reasons
    """
    others = f"; {counted(reasons - 1, 'other reason')}" if reasons > 1 else ""
    return (
        f"{counted(jobs, 'job')} held: {shorten_text(unquoted(reason).rstrip('.'), 200) or 'no reason given'}{others}"
    )


def waits_sentence(quantiles: dict[str, int], jobs: int) -> str:
    if not jobs:
        return "No job has started yet."
    half, most = (interval(quantiles[name] * SECOND) for name in ("median", "p90"))
    return f"Half of {counted(jobs, 'job')} started within {half}, and nine of ten within {most}."


_VERBS = {"running": ("runs", "run"), "idle": ("waits", "wait"), "held": ("is held", "are held")}


def jobs_sentence(jobs: Mapping[str, int], owner: str = "") -> str:
    """Return a summary of the jobs in the queue: "40 jobs of alice: 16 run, 23 wait, 1 is held."

    :param jobs: the number of jobs by status
    :param owner: the owner of the jobs; empty: they are all jobs
    """
    total, whose = sum(jobs.values()), f" of {owner}" if owner else ""
    if not total:
        return f"No jobs{whose} are in the queue."
    parts = []
    for status, count in sorted(jobs.items(), key=lambda pair: [*_VERBS, pair[0]].index(pair[0])):
        singular, plural = _VERBS.get(status, (f"is {status}", f"are {status}"))
        if count:
            parts.append(f"{count:,} {singular if count == 1 else plural}")
    return f"{counted(total, 'job')}{whose}: {', '.join(parts)}."


def machines_sentence(machines: Sequence[MachineSummary]) -> str:
    """Return a summary: "4 machines; 16 of their 20 slots are busy, and 1 machine is drained."""
    if not machines:
        return "The pool has no machines."
    slots, busy = sum(machine.slots for machine in machines), sum(machine.busy for machine in machines)
    drained = sum(machine.draining > 0 for machine in machines)
    draining = (
        f", and {counted(drained, 'machine')} {'has' if drained == 1 else 'have'} drained slots" if drained else ""
    )
    whose = "its" if len(machines) == 1 else "their"
    if slots < 2:
        use = f"{whose} only slot is {'busy' if busy else 'free'}" if slots else "they have no slots"
    else:
        share = "all" if busy == slots else f"{busy:,}" if busy else "none"
        use = f"{share} of {whose} {slots:,} slots {'are' if busy > 1 else 'is'} busy"
    return f"{counted(len(machines), 'machine')}; {use}{draining}."
