"""Check jobs. A range of processes is checked as a whole, by bytes, and one by one only if something is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, timedelta, timezone

import attrs

from ...domain import events as e
from ...domain.schedd.deferral import deferral_at
from ...domain.schedd.edit_rights import IDENTITY, IMMUTABLE, OWN, guard
from ...domain.schedd.factory_limits import LIMIT, MAX_IDLE
from ...domain.state.cluster import Cluster
from ...domain.state.job_ad import EXPIRATION, TERMINAL, unquoted, whole
from ...domain.state.proc_ads import CHUNK
from ...domain.state.state import RUNS, Activation, Slot, provides
from ...domain.state_machines import LEFT, UNSUBMITTED
from .accounting import begins
from .evidence import own_policy
from .job_policy import by_policy, changed_itself, cools_down, first_of, is_by_policy, wrote_itself
from .judged_pool import KEPT_OF_CLUSTER, MOST_JOBS, NAMES, NUMBERS, JudgedPool, job_name, rule, rule_of
from .rules import NEEDS, OUTCOMES
from .submissions import check_number, judge_submission

IDLE = NUMBERS["Idle"]
READY = ("Claimed/Idle", "Claimed/Busy")  #: the pairs in which a slot's job begins: row 11 comes with it
_RUNNING_NUMBERS = frozenset(NUMBERS[name] for name in RUNS)
_NONE = 255


def leaves(pool: JudgedPool, slot: Slot) -> None:
    """Check that a drain counted the slot's job, if it ended it."""
    run, claim = slot.activation, slot.claim
    if run is not None and claim is not None and "drained" in claim.marks and run.key not in pool.charged:
        words = f"job {job_name(run)} ended because of a drain, which was not charged for it"
        pool.report_slot(slot.name, "drain", words)
    pool.charged.discard("" if run is None else run.key)


@rule(e.ClusterSubmitted)
def submitted(pool: JudgedPool, event: e.ClusterSubmitted) -> None:
    name = f"cluster {event.cluster}"
    check_number(pool, event)
    count = event.count
    if not 0 < count <= MOST_JOBS:
        pool.report(name, "value", f"{count} is no number of jobs")
        pool.folds = None
    elif event.columns and len(event.columns) != -(-count // CHUNK):
        pool.report(name, "value", f"{len(event.columns)} chunks do not hold what differs between {count} jobs")
    begins(pool, event.submitter, event.factor)
    if 0 < count <= MOST_JOBS:
        judge_submission(pool, event)
    if event.submitter not in _submitters(event):
        words = f"it counts for {event.submitter}, which is neither its User nor its AccountingGroup"
        pool.report(name, "value", words)
    own = {"ClusterId": str(event.cluster), "TotalSubmitProcs": str(event.count)}
    for attribute, text in own.items():
        if event.ad.get(attribute, text) != text:
            pool.report(name, "value", f"its ad has {attribute} = {event.ad[attribute]}, and the event {text}")
    rows = [row for row, targets in pool.job_table.allowed(UNSUBMITTED).items() if event.status in targets]
    if not rows:
        pool.report(name, "row", f"no row of {pool.job_table.name} leads from {UNSUBMITTED} to {event.status}")
        pool.folds = attrs.evolve(event, status="Idle") if pool.folds is not None else None
    pool.begin_story(event.cluster, KEPT_OF_CLUSTER)
    if not event.factory:
        _count(pool, rows[0] if rows else "submit", count)


def _submitters(event: e.ClusterSubmitted) -> tuple[str, ...]:
    """Return the submitters that a cluster may have: its user (always, in logs from before AccountingGroup), or its
    AccountingGroup. If that is an expression, any."""
    user = unquoted(event.ad.get("User", "")) or event.submitter
    text = next((text for name, text in event.ad.items() if name.lower() == "accountinggroup"), "")
    domain = user.rpartition("@")[2]
    return (user, f"{unquoted(text)}@{domain}" if _STRING.fullmatch(text) else event.submitter if text else user)


_STRING = re.compile(r"\"[^\"\\]*\"")


def _count(pool: JudgedPool, row: str, count: int = 1) -> None:
    pool.job_moves[row] = pool.job_moves.get(row, 0) + count


def _cluster(pool: JudgedPool, number: int, proc: int) -> Cluster | None:
    cluster = pool.state.clusters.get(number)
    if cluster is None:
        pool.report_job(number, proc, "reference", f"there is no job of cluster {number} left")
    return cluster


_OfJobs = e.JobsTransitioned | e.JobsEdited | e.JobsDeferred | e.JobsMaterialized


def _cluster_of(pool: JudgedPool, event: _OfJobs) -> Cluster | None:
    return _cluster(pool, event.cluster, first_of(event))


def _ranges(pool: JudgedPool, cluster: Cluster, event: _OfJobs) -> list[tuple[int, int]]:
    """Return the ranges of an event as (first, behind the last), cut to the cluster's size."""
    found, before = [], -1
    if not event.procs:
        pool.report(f"cluster {cluster.id}", "reference", "the event is about no job")
    for first, last in event.procs:
        if first <= before or last < first or last >= cluster.count:
            pool.report_job(cluster.id, first, "reference", f"{first} to {last} is no range of its cluster's jobs")
            first, last = max(first, before + 1), min(last, cluster.count - 1)
        if first <= last:
            before = last
            found.append((first, last + 1))
    procs = tuple((first, behind - 1) for first, behind in found)
    if procs != event.procs:
        pool.folds = attrs.evolve(event, procs=procs)
    return found


def _runs(pool: JudgedPool, cluster: int, first: int, behind: int) -> list[tuple[int, Activation]]:
    by_job = pool.state.by_job
    if behind - first < len(by_job):
        procs = list(range(first, behind))
    else:
        procs = sorted(proc for number, proc in by_job if number == cluster and first <= proc < behind)
    return [(proc, by_job[cluster, proc]) for proc in procs if (cluster, proc) in by_job]


@rule_of(e.JobsTransitioned, _cluster_of)
def transitioned(pool: JudgedPool, cluster: Cluster, event: e.JobsTransitioned) -> None:
    lead = first_of(event)
    if event.target not in pool.job_table.lookup.get((event.source, event.row), ()):
        words = f"row {event.row} of {pool.job_table.name} does not lead from {event.source} to {event.target}"
        pool.report_job(cluster.id, lead, "row", words)
    source = NUMBERS.get(event.source, _NONE)
    for first, behind in _ranges(pool, cluster, event):
        part = cluster.status[first:behind]
        if part.count(source) != behind - first:
            _wrong_source(pool, cluster, event, first, part, source)
        runs = _runs(pool, cluster.id, first, behind)
        _touch(pool, cluster, first, behind, runs)
        if event.target in RUNS and len(runs) < behind - first:
            idle = min(set(range(first, behind)).difference(proc for proc, _ in runs))
            pool.report_job(cluster.id, idle, "activation", f"it becomes {event.target}, but nothing of it runs")
        if event.target == LEFT and runs:
            proc, run = runs[0]
            pool.report_job(cluster.id, proc, "queue", f"it leaves the queue, and runs on {run.slot}")
        _count(pool, event.row, behind - first)
        if event.left and event.target in TERMINAL:
            _count(pool, "leave", behind - first - part.count(0) - len(runs))
    pool.tell(cluster.id)
    by_policy(pool, cluster, lead, event)
    if (event.evidence and not is_by_policy(event)) or event.row == "leave":
        own_policy(pool, cluster, lead, event)
    _comes_to_its_end(pool, cluster, event.target, event.left)


def _comes_to_its_end(pool: JudgedPool, cluster: Cluster, status: str, left: bool) -> None:
    """Note jobs that have ended: they leave the queue in the same append, unless something keeps them."""
    if status in TERMINAL and not left:
        pool.over[cluster.id] = None


def settle_queue(pool: JudgedPool) -> None:
    """Check at the end of an append that ended jobs left the queue, unless their LeaveJobInQueue may keep them."""
    for number in pool.over:
        cluster = pool.state.clusters.get(number)
        if cluster is None or not cluster.agree(KEEPS) or (cluster.wish(0, KEEPS) or "false") != "false":
            continue
        for name in sorted(TERMINAL):
            proc = cluster.status.find(NUMBERS[name])
            while proc >= 0 and (number, proc) in pool.state.by_job:
                proc = cluster.status.find(NUMBERS[name], proc + 1)
            if proc >= 0:
                words = f"it is {name}, nothing of it runs and nothing keeps it, and it does not leave the queue"
                pool.report_job(number, proc, "queue", words)
    pool.over = {}


KEEPS = "LeaveJobInQueue"


def _touch(pool: JudgedPool, cluster: Cluster, first: int, behind: int, runs: list[tuple[int, Activation]]) -> None:
    """Note the slots that run jobs of a range, or that these wait for: they are checked at the end of the append."""
    pool.touched.update((run.slot, None) for _, run in runs)
    promised = pool.state.reserved
    if behind - first < len(promised):
        jobs = [(cluster.id, proc) for proc in range(first, behind) if (cluster.id, proc) in promised]
    else:
        jobs = [job for job in promised if job[0] == cluster.id and first <= job[1] < behind]
    pool.touched.update((promised[job], None) for job in jobs)


def _wrong_source(
    pool: JudgedPool, cluster: Cluster, event: e.JobsTransitioned, first: int, part: bytearray, source: int
) -> None:
    index = next(index for index, status in enumerate(part) if status != source)
    more = len(part) - part.count(source) - 1
    also = f" (and {more} more are not either)" if more else ""
    words = f"{event.row} begins in {event.source}, but it is {_status(part[index])}{also}"
    pool.report_job(cluster.id, first + index, "source" if part[index] else "reference", words)


def _status(number: int) -> str:
    return NAMES.get(number, "in no status" if number else "not in the queue")


@rule_of(e.JobsMaterialized, _cluster_of)
def materialized(pool: JudgedPool, cluster: Cluster, event: e.JobsMaterialized) -> None:
    factory = cluster.factory
    if factory is None or factory.mode != "Running":
        mode = "has no factory" if factory is None else f"has a factory that is {factory.mode}"
        pool.report(f"cluster {cluster.id}", "factory", f"its jobs come into the queue, but it {mode}")
        pool.folds = None
        return
    for first, behind in _ranges(pool, cluster, event):
        if first != factory.made:
            words = f"it comes into the queue, but the next of its cluster is {factory.made}"
            pool.report_job(cluster.id, first, "factory", words)
            pool.folds = None
        _count(pool, "submit_on_hold" if event.status == "Held" else "submit", behind - first)
        if event.status != cluster.begins:
            pool.report_job(
                cluster.id, first, "source", f"it begins in {event.status}, but those of its cluster do not"
            )
        _within_limits(pool, cluster, behind - first)
    pool.tell(cluster.id)


def _within_limits(pool: JudgedPool, cluster: Cluster, more: int) -> None:
    """Check that a factory makes no more jobs than its limits allow, where these are plain numbers."""
    assert cluster.factory is not None
    ad = {**cluster.ad, **cluster.factory.changes}
    limit, idle = whole(ad.get(LIMIT, "")), ad.get(MAX_IDLE, "")
    if limit and cluster.live + more > limit:
        words = f"{cluster.live + more} of its jobs are in the queue, more than its {LIMIT} {limit}"
        pool.report(f"cluster {cluster.id}", "factory", words)
    waiting = cluster.counts[IDLE] + cluster.counts[NUMBERS["Held"]] + more
    if idle.isdecimal() and waiting > int(idle):
        words = f"{waiting} of its jobs do not run, more than its {MAX_IDLE} {idle}"
        pool.report(f"cluster {cluster.id}", "factory", words)


@rule_of(e.FactoryTransitioned, lambda pool, event: _cluster(pool, event.cluster, 0))
def factory_moved(pool: JudgedPool, cluster: Cluster, event: e.FactoryTransitioned) -> None:
    factory = cluster.factory
    if factory is None:
        pool.report(f"cluster {cluster.id}", "factory", f"its factory becomes {event.target}, but it has none")
        pool.folds = None
    elif factory.mode != event.source or event.target not in MODES - {event.source}:
        words = f"its factory goes from {event.source} to {event.target}, but it is {factory.mode}"
        pool.report(f"cluster {cluster.id}", "factory", words)
    pool.tell(cluster.id)


MODES = frozenset({"Running", "Paused", "Removed"})


@rule_of(e.JobsEdited, _cluster_of)
def edited(pool: JudgedPool, cluster: Cluster, event: e.JobsEdited) -> None:
    for first, behind in _ranges(pool, cluster, event):
        behind = behind if cluster.factory is None else min(behind, cluster.factory.made)
        gone = cluster.status.find(0, first, behind)
        if gone >= 0:
            pool.report_job(cluster.id, gone, "reference", "it is edited, but not in the queue")
    if event.cause == "chirp" or event.number or event.notes or event.delayed:
        wrote_itself(pool, cluster, event)
    elif event.transform or event.before or event.noted or event.skipped:
        changed_itself(pool, cluster, event)
    for name in event.changes:
        if name.lower() in IDENTITY | OWN or guard(name, pool.state.settings) == IMMUTABLE:
            pool.report(f"cluster {cluster.id}", "immutable", f"{name} is edited")
    pool.tell(cluster.id)


@rule_of(e.JobsDeferred, _cluster_of)
def deferred(pool: JudgedPool, cluster: Cluster, event: e.JobsDeferred) -> None:
    for first, behind in _ranges(pool, cluster, event):
        part = cluster.status[first:behind]
        if part.count(IDLE) != len(part):
            index = next(index for index, status in enumerate(part) if status != IDLE)
            words = f"it is given a time to begin at, but it is {_status(part[index])}"
            pool.report_job(cluster.id, first + index, "source" if part[index] else "reference", words)
    if event.until <= event.at:
        pool.report(f"cluster {cluster.id}", "value", "what a schedule gives is still to come")
    pool.tell(cluster.id)


# Activations


@rule(e.JobActivated)
def activated(pool: JudgedPool, event: e.JobActivated) -> None:
    number, proc = event.cluster, event.proc
    cluster = _cluster(pool, number, proc)
    slot = pool.state.slots.get(event.slot)
    if cluster is None:
        return
    if (number, proc) in pool.state.cooling:
        pool.report_job(number, proc, "order", "it is started in its cool-down")
    if slot is None and not (cluster.local and event.slot.startswith("local@")):
        pool.report_job(number, proc, "reference", f"there is no slot {event.slot}")
    if proc not in cluster:
        pool.report_job(number, proc, "reference", "it is activated, but not in the queue")
        pool.folds = None
        return
    status = cluster.status[proc]
    if status != IDLE:
        pool.report_job(number, proc, "source", f"activate begins in Idle, but it is {_status(status)}")
    elif "Running" not in pool.job_table.lookup.get(("Idle", "activate"), ()):
        pool.report_job(number, proc, "row", f"{pool.job_table.name} has no row by which a job is activated")
    run = pool.state.by_job.get((number, proc))
    if run is not None:
        pool.report_job(number, proc, "activation", f"it runs already, on {run.slot}")
    if _deferred_wrongly(cluster, event):
        pool.report_job(number, proc, "value", "its start is not deferred to its DeferralTime")
    pool.begin_story((number, proc))
    _count(pool, "activate")
    if slot is not None:
        pool.touched[event.slot] = None
        _takes(pool, slot, cluster, event)


def _deferred_wrongly(cluster: Cluster, event: e.JobActivated) -> bool:
    """Tell whether the start of a job is deferred to another time than its DeferralTime, as far as that does not depend
    on the time zone. In older logs none is deferred."""
    expected = {deferral_at(cluster, event.proc, event.at, zone) for zone in (UTC, _ELSEWHERE)}
    return bool(event.deferred) and len(expected) == 1 and event.deferred not in expected


_ELSEWHERE = timezone(timedelta(hours=5))


def _takes(pool: JudgedPool, slot: Slot, cluster: Cluster, event: e.JobActivated) -> None:
    """Check that a job's slot is ready for it, claimed by its submitter, and for no job that goes first."""
    job = event.cluster, event.proc
    begins_on(pool, slot)
    claim = slot.claim
    if claim is None or claim.id != event.claim:
        pool.report_job(*job, "activation", f"{event.claim} is not the claim of {event.slot}")
        return
    if claim.submitter != cluster.submitter:
        words = f"{claim.submitter} holds {event.slot}, but the job is one of {cluster.submitter}"
        pool.report_job(*job, "activation", words)
    wanted = cluster.wish(event.proc, "JobMachineAttrs")
    if event.provides and event.provides != provides(slot, wanted):
        pool.report_job(*job, "value", f"what {event.slot} provides is not what its ad and its claim say")
    expected = pool.expected.pop(slot.name, None)
    if expected is not None and expected != job:
        if waits_for_a_slot(pool, *expected):
            pool.report_job(*job, "match", f"{event.slot} was claimed for another job, which is to run first")
        if job in pool.state.reserved:
            pool.report_job(*job, "match", f"it begins on {event.slot}, but was given another slot")


def begins_on(pool: JudgedPool, slot: Slot) -> None:
    """Check that a job begins on a slot without one, in a pair that allows it."""
    if slot.activation is not None:
        pool.report_slot(slot.name, "activation", f"it runs job {job_name(slot.activation)} already")
    if slot.state_activity not in READY:
        words = f"a job is activated in {' or '.join(READY)}, but it is {slot.state_activity}"
        pool.report_slot(slot.name, "activation", words)


def waits_for_a_slot(pool: JudgedPool, number: int, proc: int) -> bool:
    """Tell whether a job is Idle, with nothing left of an earlier run."""
    cluster = pool.state.clusters.get(number)
    idle = cluster is not None and 0 <= proc < cluster.count and cluster.status[proc] == IDLE
    return idle and (number, proc) not in pool.state.by_job


_Transfer = e.JobTransferBegan | e.JobTransferEnded
_OfARun = e.JobDue | _Transfer | e.JobExecuting | e.JobMeasured | e.JobSignalled | e.JobExited


def _run(pool: JudgedPool, event: _OfARun) -> Activation | None:
    """Return the activation of the job; without one, fold nothing."""
    run = pool.state.by_job.get((event.cluster, event.proc))
    if _cluster(pool, event.cluster, event.proc) is not None and run is None:
        pool.report_job(event.cluster, event.proc, "activation", "nothing of it runs")
    if run is None:
        pool.folds = None
    elif not isinstance(event, e.JobExited):
        pool.tell((event.cluster, event.proc))
    return run


@rule_of(e.JobTransferBegan, _run)
def transfer_began(pool: JudgedPool, run: Activation, event: e.JobTransferBegan) -> None:
    if event.way not in _WAYS:
        words = f"{event.way!r} is no way of files: input, checkpoint or output"
        pool.report_job(event.cluster, event.proc, "transfer", words)
        pool.folds = None
    elif run.executing is not (event.way != "input"):
        words = f"its {event.way} is transferred {'after' if event.way == 'input' else 'before'} its process began"
        pool.report_job(event.cluster, event.proc, "transfer", words)
    elif run.transfer not in _WAYS[event.way]:
        words = f"its {event.way} begins to move, but the transfer is at {run.transfer or 'nothing'}"
        pool.report_job(event.cluster, event.proc, "transfer", words)
    if event.began > event.at:
        pool.report_job(event.cluster, event.proc, "order", "its transfer began later than the log knew of it")


_WAYS = {
    "input": ("",),
    "checkpoint": ("input done", "checkpoint done"),
    "output": ("input done", "checkpoint done"),
}
"""How far a job's transfer is when its files begin to move."""


@rule_of(e.JobTransferEnded, _run)
def transfer_ended(pool: JudgedPool, run: Activation, event: e.JobTransferEnded) -> None:
    if run.transfer != event.way or event.way not in _WAYS:
        words = f"its {event.way} has moved, but the transfer is at {run.transfer or 'nothing'}"
        pool.report_job(event.cluster, event.proc, "transfer", words)
        pool.folds = None
    if min(event.files, event.size) < 0:
        pool.report_job(event.cluster, event.proc, "value", "what was transferred is below 0")
    if not (event.number > run.checkpoints if event.way == "checkpoint" else event.number == 0):
        words = f"its {event.way} has the number {event.number}, behind {run.checkpoints} checkpoints"
        pool.report_job(event.cluster, event.proc, "value", words)
    if event.kept and not (event.way == "output" and run.stop):
        words = f"its {event.way} was kept, but only outputs are, of a run that was told to end"
        pool.report_job(event.cluster, event.proc, "value", words)
    if event.ended > event.at:
        pool.report_job(event.cluster, event.proc, "order", "its transfer ended later than the log knew of it")


@rule_of(e.JobExecuting, _run)
def executing(pool: JudgedPool, run: Activation, event: e.JobExecuting) -> None:
    if run.transfer not in ("", "input done"):
        pool.report_job(event.cluster, event.proc, "transfer", "its process began, but its files were still to come")
    if run.executing:
        pool.report_job(event.cluster, event.proc, "activation", "its process began already")
    if run.deferred and event.cause != "deferral_missed":
        pool.report_job(event.cluster, event.proc, "activation", "its process began before its time came")


@rule_of(e.JobDue, _run)
def due(pool: JudgedPool, run: Activation, event: e.JobDue) -> None:
    if not run.deferred:
        pool.report_job(event.cluster, event.proc, "activation", "its process waits for no time")
    elif event.at < run.deferred:
        pool.report_job(event.cluster, event.proc, "activation", "its process is started before its time has come")
    elif run.stop:
        pool.report_job(event.cluster, event.proc, "end", "its process is started, but it was told to end")


_MEASURES = ("image", "resident", "disk", "user_cpu", "system_cpu")


@rule_of(e.JobMeasured, _run)
def measured(pool: JudgedPool, run: Activation, event: e.JobMeasured) -> None:
    for name in _MEASURES:
        if getattr(event, name) < 0:
            pool.report_job(event.cluster, event.proc, "value", f"{name} is {getattr(event, name)}, below 0")


@rule_of(e.JobSignalled, _run)
def signalled(pool: JudgedPool, run: Activation, event: e.JobSignalled) -> None:
    for words in wrong_order(run, event):
        pool.report_job(event.cluster, event.proc, "end", words)
    cluster = pool.state.clusters.get(event.cluster)
    if cluster is not None:
        by_policy(pool, cluster, event.proc, event)


def wrong_order(run: Activation, event: e.JobSignalled | e.StarterSignalled) -> Iterator[str]:
    """Yield the errors in the order in which processes are told to end."""
    if event.how not in ("soft", "hard"):
        yield f"{event.how!r} is no way to end a job: soft or hard"
    elif event.how == "soft" and run.stop:
        yield "it is told to end softly a second time"
    if event.cause == "kill_timeout" and (not run.stop or event.at < run.until):
        yield f"its time to end is said to be over, but it {'has more' if run.stop else 'was told nothing'}"
    if 0 != event.until < event.at:
        yield "the time that it is given to end is over already"


@rule_of(e.JobExited, _run)
def exited(pool: JudgedPool, run: Activation, event: e.JobExited) -> None:
    number, proc = event.cluster, event.proc
    cluster = pool.state.clusters.get(number)
    if cluster is None:
        return
    if run.key != event.key:
        words = f"the activation that ends is {event.key}, but it runs as {run.key}"
        pool.report_job(number, proc, "activation", words)
    if run.slot != event.slot:
        pool.report_job(number, proc, "activation", f"it ends on {event.slot}, but runs on {run.slot}")
        pool.folds = attrs.evolve(event, slot=run.slot)
    status = cluster.status[proc]
    _row_of_end(pool, event, status)
    _outcome(pool, event, run, status)
    slot = pool.state.slots.get(run.slot)
    if slot is not None:
        if slot.state_activity in NEEDS and NEEDS[slot.state_activity].job is False:
            pool.report_slot(
                slot.name, "activation", f"its job's end comes after it has moved on to {slot.state_activity}"
            )
        leaves(pool, slot)
        pool.touched[run.slot] = None
    pool.end_run(number, proc)
    if event.row:
        _count(pool, event.row)
    if EXPIRATION in event.changes:
        cools_down(pool, event)
    elif event.evidence or event.outcome == "exited":
        own_policy(pool, cluster, proc, event)
    after = event.target or _status(status)
    if event.left and after in TERMINAL:
        _count(pool, "leave")
    _comes_to_its_end(pool, cluster, after, event.left)


def _row_of_end(pool: JudgedPool, event: e.JobExited, number: int) -> None:
    status = _status(number)
    if event.source != (status if event.row else ""):
        words = f"its end begins in {event.source or 'nothing'}, but it is {status}"
        pool.report_job(event.cluster, event.proc, "source", words)
    if bool(event.row) != bool(event.target):
        pool.report_job(event.cluster, event.proc, "row", "a row and its target come together, or neither")
    elif event.row and event.target not in pool.job_table.lookup.get((status, event.row), ()):
        words = f"row {event.row} of {pool.job_table.name} does not lead from {status} to {event.target}"
        pool.report_job(event.cluster, event.proc, "row", words)
    elif not event.row and number in _RUNNING_NUMBERS:
        pool.report_job(event.cluster, event.proc, "row", f"it is {status}, and no row says what it is from here on")


def _outcome(pool: JudgedPool, event: e.JobExited, run: Activation, status: int) -> None:
    job = event.cluster, event.proc
    outcome = OUTCOMES.get((event.outcome, event.cause))
    if outcome is None:
        pool.report_job(*job, "end", f"outcome {event.outcome} does not go with the cause {event.cause}")
        return
    if event.row and event.row not in outcome.rows:
        pool.report_job(*job, "end", f"outcome {event.outcome} is not followed by {event.row}")
    in_time = event.outcome == "exited" and bool(event.ended) and event.ended < run.stopped  # it ended before that
    if outcome.told is not None and outcome.told != bool(run.stop) and not in_time:
        told = "had been told to end" if run.stop else "had not been told to end"
        pool.report_job(*job, "end", f"outcome {event.outcome}, but it {told}")
    if event.outcome == "exited" and run.transfer not in ("", "output done"):
        pool.report_job(*job, "transfer", f"it ended by itself, but the transfer of its files is at {run.transfer}")
    if event.outcome == "exited" and (event.code is None) == (event.signal is None):
        pool.report_job(*job, "end", "it ended by itself: with a code or by a signal, one of the two")
    if event.ended > event.at:
        pool.report_job(*job, "order", "it ended later than the log knew of it")
    if min(event.user_cpu, event.system_cpu, event.resident, event.disk, event.ended) < 0:
        pool.report_job(*job, "value", "what it used is below 0")
