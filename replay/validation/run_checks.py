"""Check the starts, file transfers and ends of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, timedelta, timezone

from msgspec.structs import replace

from ...domain import events as e
from ...domain.schedd.claims import recorded_attributes
from ...domain.schedd.job_deferral import deferred_start_at
from ...domain.state.cluster import Cluster
from ...domain.state.deferrals import transfers_files
from ...domain.state.job_ad import EXPIRATION, TERMINAL
from ...domain.state.peers import EXECUTION_POINT
from ...domain.state.records import RUNS, Activation, Slot, Starter, provided_attributes
from ...domain.state_machines import LEFT
from ...domain.state_machines.hold_codes import CLAIM_DEACTIVATED
from .evidence_checks import check_job_evidence
from .job_checks import IDLE, known_cluster, note_ended_jobs, status_name
from .job_policy_checks import check_cool_down, check_policy_cause, check_start_evidence
from .judged_pool import NUMBERS, JudgedPool, job_name, rule, rule_of
from .transition_rules import NEEDS, OUTCOMES

_RUNNING_NUMBERS = frozenset(NUMBERS[name] for name in RUNS)
LOST = "lost"  #: the outcome of a job whose process vanished without a record
READY = ("Claimed/Idle", "Claimed/Busy")  #: a slot's state and activity when a job starts, together with row 11


def check_drain_counted(pool: JudgedPool, slot: Slot) -> None:
    """Check that a drain was charged for the slot's job if it ended the job."""
    run, claim = slot.activation, slot.claim
    if run is not None and claim is not None and "drained" in claim.flags and run.key not in pool.charged:
        pool.report(slot, "drain", f"job {job_name(run)} ended because of a drain, which was not charged for it")
    pool.charged.discard("" if run is None else run.key)


@rule(e.JobActivated)
def check_activated(pool: JudgedPool, event: e.JobActivated) -> None:
    number, proc = event.cluster, event.proc
    cluster = known_cluster(pool, number, proc)
    slot = pool.state.slots.get(event.slot)
    if cluster is None:
        return
    if (number, proc) in pool.state.cool_downs:
        pool.report((number, proc), "order", "it is started during its cool-down")
    if slot is None and not (cluster.is_local and event.slot.startswith("local@")):
        pool.report((number, proc), "reference", f"the pool has no slot {event.slot}")
    if proc not in cluster:
        pool.report((number, proc), "reference", "it is activated, but not in the queue")
        pool.folds = None
        return
    status = cluster.status[proc]
    if status != IDLE:
        pool.report((number, proc), "source", f"activate begins in Idle, but it is {status_name(status)}")
    elif not pool.job_table.allows("Idle", "activate", "Running"):
        pool.report((number, proc), "row", f"{pool.job_table.name} has no row that activates a job")
    run = pool.state.by_job.get((number, proc))
    if run is not None:
        pool.report((number, proc), "activation", f"it already runs on {run.slot}")
    if _is_deferred_wrongly(cluster, {} if slot is None else slot.ad, event):
        pool.report((number, proc), "value", "its start is not deferred to its DeferralTime")
    if event.files_first:
        may_wait = event.deferred and EXECUTION_POINT in pool.state.roles
        if slot is None or not (may_wait and transfers_files(cluster.attributes(proc), slot.ad)):
            pool.report((number, proc), "transfer", "it has no files to transfer before a deferred start")
    if event.evidence:
        check_start_evidence(pool, cluster, event)
    pool.begin_story((number, proc))
    pool.job_moves["activate", "Idle", "Running"] += 1
    if slot is not None:
        pool.touched_slots[event.slot] = None
        _check_slot_ready(pool, slot, cluster, event)
    if event.flocked != (pool.state.peers.flocked.get(slot.machine, "") if slot is not None else ""):
        pool.report((number, proc), "peers", f"{event.slot} is not in the pool of {event.flocked or 'this manager'}")


def _is_deferred_wrongly(cluster: Cluster, slot: Mapping[str, str], event: e.JobActivated) -> bool:
    """Return True if a start is deferred to a time other than the job's DeferralTime, unless that depends on the time
    zone. Older logs do not record deferrals."""
    expected = {deferred_start_at(cluster, event.proc, slot, event.at, zone) for zone in (UTC, _ELSEWHERE)}
    return bool(event.deferred) and len(expected) == 1 and event.deferred not in expected


_ELSEWHERE = timezone(timedelta(hours=5))


def _check_slot_ready(pool: JudgedPool, slot: Slot, cluster: Cluster, event: e.JobActivated) -> None:
    job = event.cluster, event.proc
    check_slot_free(pool, slot)
    claim = slot.claim
    if claim is None or claim.id != event.claim:
        pool.report(job, "activation", f"{event.claim} is not the claim of {event.slot}")
        return
    if claim.submitter != cluster.submitter:
        text = f"{claim.submitter} holds {event.slot}, but the job is one of {cluster.submitter}"
        pool.report(job, "activation", text)
    recorded, runs = recorded_attributes(pool.state.settings, cluster, event.proc)
    provided = provided_attributes(slot, recorded)
    if (event.recorded, event.recorded_runs) != (recorded if runs else (), runs):
        pool.report(job, "value", f"it records other attributes of {event.slot} than SYSTEM_JOB_MACHINE_ATTRS")
    if "AssignedGPUs" not in event.provides:
        provided.pop("AssignedGPUs", None)  # an older log
    if event.provides and event.provides != provided:
        pool.report(job, "value", f"the resources of {event.slot} differ from its ad and its claim")
    if pool.state.is_reserved(slot.name):
        pool.report(job, "reservation", f"it starts on {slot.name}, whose claim is reserved for another job")
    expected = pool.expected.pop(slot.name, None)
    if expected is not None and expected != job:
        if is_waiting_for_slot(pool, *expected) and expected not in pool.state.cool_downs:
            pool.report(job, "match", f"{event.slot} was claimed for another job, which must run first")
        if job in pool.state.assigned_slots:
            pool.report(job, "match", f"it starts on {event.slot}, but was matched with another slot")


def check_slot_free(pool: JudgedPool, slot: Slot) -> None:
    """Check that a slot on which a job starts has no other job, and is Claimed/Idle or Claimed/Busy."""
    if slot.activation is not None:
        pool.report(slot, "activation", f"it already runs job {job_name(slot.activation)}")
    if slot.state_activity not in READY:
        pool.report(slot, "activation", f"a job is activated in {' or '.join(READY)}, but it is {slot.state_activity}")


def is_waiting_for_slot(pool: JudgedPool, number: int, proc: int) -> bool:
    """Return True if a job is Idle and its previous run has ended."""
    cluster = pool.state.clusters.get(number)
    is_idle = cluster is not None and 0 <= proc < cluster.count and cluster.status[proc] == IDLE
    return is_idle and (number, proc) not in pool.state.by_job


_Transfer = e.JobTransferBegan | e.JobTransferEnded
_OfARun = (
    e.JobDue | _Transfer | e.JobExecuting | e.JobMeasured | e.JobDisconnected | e.JobReconnected | e.JobSignalled
    | e.JobExited
)  # fmt: skip


def run_of(pool: JudgedPool, event: _OfARun) -> Activation | None:
    """Return the run of an event's job. If it does not run, report the event and do not fold it."""
    run = pool.state.by_job.get((event.cluster, event.proc))
    if known_cluster(pool, event.cluster, event.proc) is not None and run is None:
        pool.report(event, "activation", "it does not run")
    if run is None:
        pool.folds = None
    elif not isinstance(event, e.JobExited):
        pool.add_to_story((event.cluster, event.proc))
    return run


@rule_of(e.JobTransferBegan, run_of)
def check_transfer_began(pool: JudgedPool, run: Activation, event: e.JobTransferBegan) -> None:
    if event.way not in _WAYS:
        pool.report(event, "transfer", f"{event.way!r} is not a direction of files: input, checkpoint or output")
        pool.folds = None
    elif run.deferred and not run.files_first and EXECUTION_POINT in pool.state.roles:
        pool.report(event, "transfer", "its input is transferred before its deferral time")
    elif run.executing is not (event.way != "input"):
        text = f"its {event.way} is transferred {'after' if event.way == 'input' else 'before'} its process began"
        pool.report(event, "transfer", text)
    elif run.transfer not in _WAYS[event.way]:
        text = f"its {event.way} transfer begins, but it is at {run.transfer or 'nothing'}"
        pool.report(event, "transfer", text)
    if event.began > event.at:
        pool.report(event, "order", "its transfer began after its event")


_WAYS = {"input": ("",), "checkpoint": ("input done", "checkpoint done"), "output": ("input done", "checkpoint done")}
"""The states in which a job's file transfer may be when a transfer of this type begins."""


@rule_of(e.JobTransferEnded, run_of)
def check_transfer_ended(pool: JudgedPool, run: Activation, event: e.JobTransferEnded) -> None:
    if run.transfer != event.way or event.way not in _WAYS:
        pool.report(event, "transfer", f"its {event.way} transfer ended, but it is at {run.transfer or 'nothing'}")
        pool.folds = None
    if min(event.files, event.size) < 0:
        pool.report(event, "value", "an amount of its transfer is below 0")
    if not (event.number > run.checkpoints if event.way == "checkpoint" else event.number == 0):
        text = f"its {event.way} has the number {event.number}, after {run.checkpoints} checkpoints"
        pool.report(event, "value", text)
    if event.kept and not (event.way == "output" and run.stop_signal):
        pool.report(event, "value", f"its {event.way} was kept, but only outputs are, after a signal to end")
    if event.ended > event.at:
        pool.report(event, "order", "its transfer ended after its event")


@rule_of(e.JobExecuting, run_of)
def check_executing(pool: JudgedPool, run: Activation, event: e.JobExecuting) -> None:
    if run.transfer not in ("", "input done"):
        pool.report(event, "transfer", "its process began before its files arrived")
    if run.executing:
        pool.report(event, "activation", "its process already began")
    if run.deferred and event.cause != "deferral_missed":
        pool.report(event, "activation", "its process began before its deferral time")


@rule_of(e.JobDue, run_of)
def check_start_due(pool: JudgedPool, run: Activation, event: e.JobDue) -> None:
    if not run.deferred:
        pool.report(event, "activation", "its process has no deferral time")
    elif event.at < run.deferred:
        pool.report(event, "activation", "its process is started before its deferral time")
    elif not run.ready:
        pool.report(event, "transfer", "its process is started before its files arrived")
    elif run.stop_signal:
        pool.report(event, "end", "its process is started after its signal to end")


_MEASURES = ("image", "resident", "disk", "user_cpu", "system_cpu")


@rule_of(e.JobMeasured, run_of)
def check_measured(pool: JudgedPool, run: Activation, event: e.JobMeasured) -> None:
    for name in _MEASURES:
        if getattr(event, name) < 0:
            pool.report(event, "value", f"{name} is {getattr(event, name)}, below 0")


@rule_of(e.JobSignalled, run_of)
def check_job_signalled(pool: JudgedPool, run: Activation, event: e.JobSignalled) -> None:
    for text in signal_order_errors(run, event):
        pool.report(event, "end", text)
    cluster = pool.state.clusters.get(event.cluster)
    if cluster is not None:
        check_policy_cause(pool, cluster, event.proc, event)


def signal_order_errors(run: Activation | Starter, event: e.JobSignalled | e.StarterSignalled) -> Iterator[str]:
    """Yield what is wrong with a signal to end a run, given the earlier signals."""
    if event.how not in ("soft", "hard"):
        yield f"{event.how!r} is not a signal to end a job: soft or hard"
    elif event.how == "soft" and run.stop_signal:
        yield "it is ended softly a second time"
    if event.cause == "kill_timeout" and (not run.stop_signal or event.at < run.next_signal):
        yield f"its vacate time is over, but it {'has more' if run.stop_signal else 'got no signal'}"
    if 0 != event.until < event.at:
        yield "the time that it is given to end is over already"


@rule_of(e.JobExited, run_of)
def check_job_exited(pool: JudgedPool, run: Activation, event: e.JobExited) -> None:
    number, proc = event.cluster, event.proc
    cluster = pool.state.clusters.get(number)
    if cluster is None:
        return
    if run.key != event.key:
        pool.report((number, proc), "activation", f"activation {event.key} ends, but it runs as {run.key}")
    if run.slot != event.slot:
        pool.report((number, proc), "activation", f"it ends on {event.slot}, but runs on {run.slot}")
        pool.folds = replace(event, slot=run.slot)
    status = cluster.status[proc]
    _check_end_row(pool, event, status)
    _check_outcome(pool, event, run, status)
    slot = pool.state.slots.get(run.slot)
    if slot is not None and EXECUTION_POINT in pool.state.roles:
        if slot.state_activity in NEEDS and NEEDS[slot.state_activity].job is False:
            pool.report(slot, "activation", f"its job ends after the slot became {slot.state_activity}")
        check_drain_counted(pool, slot)
        pool.touched_slots[run.slot] = None
    pool.end_run(number, proc)
    if event.row:
        pool.job_moves[event.row, event.source, event.target] += 1
    if event.outcome == LOST:
        pool.lost.append((pool.position, event))
    if EXPIRATION in event.changes:
        check_cool_down(pool, event)
    if event.cooled and (event.row != "requeue" or EXPIRATION not in event.changes):
        pool.report((number, proc), "evidence", "it has evidence of a cool-down, but is not requeued with one")
    if event.vacates != 1 and (event.row or run.vacate_reason.get("VacateReasonCode") != str(CLAIM_DEACTIVATED.code)):
        pool.report((number, proc), "value", f"its ad counts {event.vacates} evictions, but there was one")
    if event.outcome == "exited" or (event.evidence and EXPIRATION not in event.changes):
        check_job_evidence(pool, cluster, proc, event)
    new_status = event.target or status_name(status)
    if event.left and new_status in TERMINAL:
        pool.job_moves["leave", new_status, LEFT] += 1
    note_ended_jobs(pool, cluster, new_status, event.left)


def _check_end_row(pool: JudgedPool, event: e.JobExited, number: int) -> None:
    status = status_name(number)
    if event.source != (status if event.row else ""):
        pool.report(event, "source", f"its end begins in {event.source or 'nothing'}, but it is {status}")
    if bool(event.row) != bool(event.target):
        pool.report(event, "row", "a row needs a target, and a target a row")
    elif event.row and not pool.job_table.allows(status, event.row, event.target):
        text = f"row {event.row} of {pool.job_table.name} does not lead from {status} to {event.target}"
        pool.report(event, "row", text)
    elif not event.row and number in _RUNNING_NUMBERS:
        pool.report(event, "row", f"it is {status}, but no row gives its next status")


def _check_outcome(pool: JudgedPool, event: e.JobExited, run: Activation, status: int) -> None:
    job = event.cluster, event.proc
    outcome = OUTCOMES.get((event.outcome, event.cause))
    if outcome is None:
        pool.report(job, "end", f"outcome {event.outcome} does not go with the cause {event.cause}")
        return
    if event.row and event.row not in outcome.rows:
        pool.report(job, "end", f"outcome {event.outcome} is not followed by {event.row}")
    in_time = event.outcome == "exited" and bool(event.ended) and event.ended < run.first_signalled
    if outcome.signalled is not None and outcome.signalled != bool(run.stop_signal) and not in_time:
        ending_text = "had been signalled to end" if run.stop_signal else "had not been signalled to end"
        pool.report(job, "end", f"outcome {event.outcome}, but it {ending_text}")
    if event.outcome == "exited" and run.transfer not in ("", "output done"):
        pool.report(job, "transfer", f"it exited, but the transfer of its files is at {run.transfer}")
    if event.outcome == "exited" and (event.code is None) == (event.signal is None):
        pool.report(job, "end", "it exited: it needs either a code or a signal")
    if event.ended > event.at:
        pool.report(job, "order", "it ended after its event")
    if min(event.user_cpu, event.system_cpu, event.resident, event.disk, event.ended) < 0:
        pool.report(job, "value", "its usage is below 0")
