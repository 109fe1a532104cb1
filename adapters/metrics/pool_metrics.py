"""Poolbook's own metrics, which describe the pool and its log. Their names begin with ``poolbook_``.

No label has a value per user, job or machine, so the number of samples is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.state.job_ad import STATUS_NAMES
from ...projections.views import Views
from ..machine.host import VERSION
from .exposition import Family
from .schedd_statistics import ScheddStatistics


def pool_metrics(views: Views, statistics: ScheddStatistics, head: int) -> Iterator[Family]:
    """Yield the metrics of a pool.

    :param head: the position of the last event in the log
    """
    pool = views.pool()
    info = Family("poolbook_build_info", "info", "Version of Poolbook, and the pool's dialect")
    info.add(1, version=VERSION, dialect=pool.dialect)
    yield info
    yield _total("poolbook_log_events", "Events in the log", head)
    yield _gauge("poolbook_log_last_event_timestamp_seconds", "Time of the last event in the log", views.at / 1e6)

    jobs = Family("poolbook_jobs", "gauge", "Jobs in the queue, by status")
    counts = dict.fromkeys(STATUS_NAMES, 0)
    for *_, status, count in views.counts():
        counts[status] += count
    for status, count in counts.items():
        jobs.add(count, status=STATUS_NAMES[status])
    yield jobs

    slots = Family("poolbook_slots", "gauge", "Slots, by state and activity")
    for state, activity, count in views.slot_counts():
        slots.add(count, state=state, activity=activity)
    yield slots
    yield _gauge("poolbook_machines", "Machines in the pool", len(views.machines()))
    yield _gauge("poolbook_submitters", "Submitters that have used the pool", len(views.submitters()))

    ends = Family("poolbook_run_ends_total", "counter", "Runs of jobs that ended since the pool started, by outcome")
    for outcome in ("exited", "evicted", "failed", "lost"):
        ends.add(statistics.ends[outcome], outcome=outcome)
    yield ends
    yield _total("poolbook_run_starts", "Runs of jobs since the pool started", statistics.counts["ShadowsStarted"])
    yield _total("poolbook_jobs_submitted", "Jobs submitted since the pool started", statistics.counts["JobsSubmitted"])
    goodput, badput = (statistics.times[f"JobsAccum{kind}Time"] / 1e6 for kind in ("Running", "Badput"))
    yield _total("poolbook_goodput_seconds", "Duration of runs whose work was kept, since the pool started", goodput)
    yield _total("poolbook_badput_seconds", "Duration of runs that ended by removal or hold, since then", badput)
    transitions = Family(
        "poolbook_slot_transitions_total", "counter", "State transitions of slots since then, by the manual's row"
    )
    for row in sorted(statistics.transitions):
        transitions.add(statistics.transitions[row], row=row)
    yield transitions

    cycles = views.cycles()
    yield _total("poolbook_matches", "Matches since the pool started", statistics.matches)
    if cycles:
        duration = cycles[0].statistics.get("Duration", 0.0)
        yield _gauge("poolbook_cycle_duration_seconds", "Duration of the last negotiation cycle", duration)


def _gauge(name: str, text: str, value: float) -> Family:
    family = Family(name, "gauge", text)
    family.add(value)
    return family


def _total(name: str, text: str, value: float) -> Family:
    family = Family(f"{name}_total", "counter", text)
    family.add(value)
    return family
