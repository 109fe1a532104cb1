"""Check events about jobs. A range of processes is checked as a whole, and one by one only if it is wrong."""

from __future__ import annotations

import re

from msgspec.structs import replace

from ...domain import events as e
from ...domain.schedd.factories import LIMIT_ATTRIBUTE, MAX_IDLE
from ...domain.schedd.job_commands import HELD_BY_USER, is_protected_hold
from ...domain.schedd.job_edits import IDENTITY, IMMUTABLE, POOL_ATTRIBUTES, protection_of
from ...domain.schedd.periodic_policy import BY_CAUSE
from ...domain.schedd.queue_limits import max_new_jobs
from ...domain.state.cluster import Cluster
from ...domain.state.job_ad import SET_ID, TERMINAL, parse_int, unquoted
from ...domain.state.proc_ads import CHUNK
from ...domain.state.records import RUNS, Activation
from ...domain.state_machines import LEFT, UNSUBMITTED
from .accounting_checks import check_initial_factor
from .evidence_checks import check_job_evidence
from .job_policy_checks import check_chirp_write, check_job_transform, check_policy_cause, first_proc
from .judged_pool import KEPT_OF_CLUSTER, MOST_JOBS, NAMES, NUMBERS, JudgedPool, rule, rule_of
from .submission_checks import check_number, judge_submission

IDLE = NUMBERS["Idle"]
_NONE = 255


@rule(e.ClusterSubmitted)
def check_submitted(pool: JudgedPool, event: e.ClusterSubmitted) -> None:
    name = f"cluster {event.cluster}"
    check_number(pool, event)
    count = event.count
    if not 0 < count <= MOST_JOBS:
        pool.report(name, "value", f"{count} is not a number of jobs")
        pool.folds = None
    elif event.columns and len(event.columns) != -(-count // CHUNK):
        pool.report(name, "value", f"{len(event.columns)} chunks cannot hold the values of {count} jobs")
    check_initial_factor(pool, event.submitter, event.factor)
    if 0 < count <= MOST_JOBS:
        judge_submission(pool, event)
    if event.submitter not in _possible_submitters(event):
        words = f"its submitter is {event.submitter}, which is neither its User nor its AccountingGroup"
        pool.report(name, "value", words)
    expected_values = {"ClusterId": str(event.cluster), "TotalSubmitProcs": str(event.count)}
    for attribute, text in expected_values.items():
        if event.ad.get(attribute, text) != text:
            pool.report(name, "value", f"its ad has {attribute} = {event.ad[attribute]}, and the event {text}")
    if event.job_set and SET_ID not in event.ad:
        pool.report(name, "value", f"it gives attributes to a job set, and its ad has no {SET_ID}")
    rows = [row for row, targets in pool.job_table.targets_by_row(UNSUBMITTED).items() if event.status in targets]
    if not rows:
        pool.report(name, "row", f"no row of {pool.job_table.name} leads from {UNSUBMITTED} to {event.status}")
        pool.folds = replace(event, status="Idle") if pool.folds is not None else None
    pool.begin_story(event.cluster, KEPT_OF_CLUSTER)
    if not event.factory:
        pool.job_moves[rows[0] if rows else "submit", UNSUBMITTED, event.status] += count


def _possible_submitters(event: e.ClusterSubmitted) -> tuple[str, ...]:
    """Return the submitters that a cluster may have, which are its user and its AccountingGroup (any group if that is
    an expression). In old logs, it is always the user."""
    user = unquoted(event.ad.get("User", "")) or event.submitter
    text = next((text for name, text in event.ad.items() if name.lower() == "accountinggroup"), "")
    domain = user.rpartition("@")[2]
    return (user, f"{unquoted(text)}@{domain}" if _STRING.fullmatch(text) else event.submitter if text else user)


_STRING = re.compile(r"\"[^\"\\]*\"")


def known_cluster(pool: JudgedPool, number: int, proc: int) -> Cluster | None:
    cluster = pool.state.clusters.get(number)
    if cluster is None:
        pool.report((number, proc), "reference", f"cluster {number} has no jobs left")
    return cluster


_OfJobs = e.JobsTransitioned | e.JobsEdited | e.JobsDeferred | e.JobsMaterialized


def _cluster_of(pool: JudgedPool, event: _OfJobs) -> Cluster | None:
    return known_cluster(pool, event.cluster, first_proc(event))


def _proc_ranges(pool: JudgedPool, cluster: Cluster, event: _OfJobs) -> list[tuple[int, int]]:
    """Return an event's ranges of existing processes, each as its first process and the process after its last."""
    ranges, previous_last = [], -1
    if not event.procs:
        pool.report(f"cluster {cluster.id}", "reference", "the event names no jobs")
    for first, last in event.procs:
        if first <= previous_last or last < first or last >= cluster.count:
            pool.report((cluster.id, first), "reference", f"{first} to {last} is not a range of its cluster's jobs")
            first, last = max(first, previous_last + 1), min(last, cluster.count - 1)
        if first <= last:
            previous_last = last
            ranges.append((first, last + 1))
    procs = tuple((first, behind - 1) for first, behind in ranges)
    if procs != event.procs:
        pool.folds = replace(event, procs=procs)
    return ranges


def _runs_in_range(pool: JudgedPool, cluster: int, first: int, behind: int) -> list[tuple[int, Activation]]:
    runs_by_job = pool.state.by_job
    if behind - first < len(runs_by_job):
        procs = list(range(first, behind))
    else:
        procs = sorted(proc for number, proc in runs_by_job if number == cluster and first <= proc < behind)
    return [(proc, runs_by_job[cluster, proc]) for proc in procs if (cluster, proc) in runs_by_job]


@rule_of(e.JobsTransitioned, _cluster_of)
def check_jobs_transition(pool: JudgedPool, cluster: Cluster, event: e.JobsTransitioned) -> None:
    lead = first_proc(event)
    if not pool.job_table.allows(event.source, event.row, event.target):
        text = f"row {event.row} of {pool.job_table.name} does not lead from {event.source} to {event.target}"
        pool.report((cluster.id, lead), "row", text)
    source = NUMBERS.get(event.source, _NONE)
    for first, behind in _proc_ranges(pool, cluster, event):
        part = cluster.status[first:behind]
        if part.count(source) != behind - first:
            _report_wrong_source(pool, cluster, event, first, part, source)
        runs = _runs_in_range(pool, cluster.id, first, behind)
        _touch_slots(pool, cluster, first, behind, runs)
        if event.target in RUNS and len(runs) < behind - first:
            idle_proc = min(set(range(first, behind)).difference(proc for proc, _ in runs))
            pool.report((cluster.id, idle_proc), "activation", f"it becomes {event.target}, but it does not run")
        if event.target == LEFT and runs:
            proc, run = runs[0]
            pool.report((cluster.id, proc), "queue", f"it leaves the queue, but still runs on {run.slot}")
        pool.job_moves[event.row, event.source, event.target] += behind - first
        if event.left and event.target in TERMINAL:
            pool.job_moves["leave", event.target, LEFT] += behind - first - part.count(0) - len(runs)
        if event.row == "hold_again":
            _check_repeated_hold(pool, cluster, event, first, behind)
    pool.add_to_story(cluster.id)
    check_policy_cause(pool, cluster, lead, event)
    if (event.evidence and event.cause not in BY_CAUSE) or event.row == "leave":
        check_job_evidence(pool, cluster, lead, event)
    note_ended_jobs(pool, cluster, event.target, event.left)


def _check_repeated_hold(
    pool: JudgedPool, cluster: Cluster, event: e.JobsTransitioned, first: int, behind: int
) -> None:
    """Check that a second hold is by a user, and that the first one was not."""
    if event.cause != "user_hold" or event.changes.get("HoldReasonCode") != str(HELD_BY_USER):
        pool.report((cluster.id, first), "cause", "it is held again, but not by a user")
    firm = next((proc for proc in range(first, behind) if proc in cluster and is_protected_hold(cluster, proc)), None)
    if firm is not None:
        pool.report((cluster.id, firm), "source", "it is held again, but was held by a user or for spooling")


def note_ended_jobs(pool: JudgedPool, cluster: Cluster, status: str, has_left: bool) -> None:
    """Note jobs that have ended but not left the queue, for ``settle_queue``."""
    if status in TERMINAL and not has_left:
        pool.unsettled_clusters[cluster.id] = None


def settle_queue(pool: JudgedPool) -> None:
    """Check at the end of an append that ended jobs have left the queue, unless LeaveJobInQueue may keep them."""
    for number in pool.unsettled_clusters:
        cluster = pool.state.clusters.get(number)
        if (
            cluster is None
            or not cluster.is_uniform(KEEPS)
            or (cluster.requested_value(0, KEEPS) or "false") != "false"
        ):
            continue
        for name in sorted(TERMINAL):
            proc = cluster.status.find(NUMBERS[name])
            while proc >= 0 and (number, proc) in pool.state.by_job:
                proc = cluster.status.find(NUMBERS[name], proc + 1)
            if proc >= 0:
                text = f"it is {name}, does not run and has no reason to stay, but does not leave the queue"
                pool.report((number, proc), "queue", text)
    pool.unsettled_clusters = {}


KEEPS = "LeaveJobInQueue"


def _touch_slots(
    pool: JudgedPool, cluster: Cluster, first: int, behind: int, runs: list[tuple[int, Activation]]
) -> None:
    """Note the slots of jobs in a range, running or matched, so that ``settle_slot`` checks them."""
    pool.touched_slots.update((run.slot, None) for _, run in runs)
    reserved = pool.state.assigned_slots
    if behind - first < len(reserved):
        jobs = [(cluster.id, proc) for proc in range(first, behind) if (cluster.id, proc) in reserved]
    else:
        jobs = [job for job in reserved if job[0] == cluster.id and first <= job[1] < behind]
    pool.touched_slots.update((reserved[job], None) for job in jobs)


def _report_wrong_source(
    pool: JudgedPool, cluster: Cluster, event: e.JobsTransitioned, first: int, part: bytearray, source: int
) -> None:
    index = next(index for index, status in enumerate(part) if status != source)
    more_count = len(part) - part.count(source) - 1
    more_text = f" (and {more_count} more are not either)" if more_count else ""
    text = f"{event.row} begins in {event.source}, but it is {status_name(part[index])}{more_text}"
    pool.report((cluster.id, first + index), "source" if part[index] else "reference", text)


def status_name(number: int) -> str:
    return NAMES.get(number, "in no status" if number else "not in the queue")


@rule_of(e.JobsMaterialized, _cluster_of)
def check_materialized(pool: JudgedPool, cluster: Cluster, event: e.JobsMaterialized) -> None:
    factory = cluster.factory
    if factory is None or factory.mode != "Running":
        mode = "has no factory" if factory is None else f"has a factory that is {factory.mode}"
        pool.report(f"cluster {cluster.id}", "factory", f"its jobs are materialized, but it {mode}")
        pool.folds = None
        return
    for first, behind in _proc_ranges(pool, cluster, event):
        if first != factory.materialized:
            text = f"it is materialized, but the next job of its cluster is {factory.materialized}"
            pool.report((cluster.id, first), "factory", text)
            pool.folds = None
        row = "submit_on_hold" if event.status == "Held" else "submit"
        pool.job_moves[row, UNSUBMITTED, event.status] += behind - first
        if event.status != cluster.initial_status:
            pool.report((cluster.id, first), "source", f"it begins as {event.status}, but others of its cluster do not")
        _check_factory_limits(pool, cluster, behind - first)
    pool.add_to_story(cluster.id)


def _check_factory_limits(pool: JudgedPool, cluster: Cluster, count: int) -> None:
    assert cluster.factory is not None
    ad = {**cluster.ad, **cluster.factory.changes}
    limit, max_idle = parse_int(ad.get(LIMIT_ATTRIBUTE, "")), ad.get(MAX_IDLE, "")
    if limit and cluster.live + count > limit:
        text = f"{cluster.live + count} of its jobs are in the queue, more than its {LIMIT_ATTRIBUTE} {limit}"
        pool.report(f"cluster {cluster.id}", "factory", text)
    idle_count = cluster.status_counts[IDLE] + cluster.status_counts[NUMBERS["Held"]] + count
    if max_idle.isdecimal() and idle_count > int(max_idle):
        text = f"{idle_count} of its jobs do not run, more than its {MAX_IDLE} {max_idle}"
        pool.report(f"cluster {cluster.id}", "factory", text)
    most = max_new_jobs(pool.state, cluster)
    if most is not None and count > most:
        pool.report(
            f"cluster {cluster.id}", "factory", f"{count} jobs are materialized, but the queue has room for {most}"
        )


@rule_of(e.FactoryTransitioned, lambda pool, event: known_cluster(pool, event.cluster, 0))
def check_factory_transition(pool: JudgedPool, cluster: Cluster, event: e.FactoryTransitioned) -> None:
    factory = cluster.factory
    if factory is None:
        pool.report(f"cluster {cluster.id}", "factory", f"its factory becomes {event.target}, but it has no factory")
        pool.folds = None
    elif factory.mode != event.source or event.target not in MODES - {event.source}:
        text = f"its factory goes from {event.source} to {event.target}, but it is {factory.mode}"
        pool.report(f"cluster {cluster.id}", "factory", text)
    pool.add_to_story(cluster.id)


MODES = frozenset({"Running", "Paused", "Removed"})


@rule_of(e.JobsEdited, _cluster_of)
def check_edited(pool: JudgedPool, cluster: Cluster, event: e.JobsEdited) -> None:
    for first, behind in _proc_ranges(pool, cluster, event):
        behind = behind if cluster.factory is None else min(behind, cluster.factory.materialized)
        gone_proc = cluster.status.find(0, first, behind)
        if gone_proc >= 0:
            pool.report((cluster.id, gone_proc), "reference", "it is edited, but not in the queue")
    if event.cause == "chirp" or event.number or event.notes or event.delayed:
        check_chirp_write(pool, cluster, event)
    elif event.transform or event.before or event.noted or event.skipped:
        check_job_transform(pool, cluster, event)
    for name in event.changes:
        if name.lower() in IDENTITY | POOL_ATTRIBUTES or protection_of(name, pool.state.settings) == IMMUTABLE:
            pool.report(f"cluster {cluster.id}", "immutable", f"{name} is edited")
    pool.add_to_story(cluster.id)


@rule_of(e.JobsDeferred, _cluster_of)
def check_deferred(pool: JudgedPool, cluster: Cluster, event: e.JobsDeferred) -> None:
    for first, behind in _proc_ranges(pool, cluster, event):
        part = cluster.status[first:behind]
        if part.count(IDLE) != len(part):
            index = next(index for index, status in enumerate(part) if status != IDLE)
            text = f"its start is deferred, but it is {status_name(part[index])}"
            pool.report((cluster.id, first + index), "source" if part[index] else "reference", text)
    if event.until <= event.at:
        pool.report(f"cluster {cluster.id}", "value", "a deferral time must be in the future")
    pool.add_to_story(cluster.id)
