"""The processes of jobs: their start, resource usage and end.

The end of an activation determines the job's next transition, by the table in ``_run_outcome``; ``continue_job`` may
change that transition. A job that was held or removed while it ran keeps that status.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..classad import ClassAdSyntaxError, parse
from ..decision.draft import Draft
from ..events import (
    Ad,
    CheckpointsDeleted,
    JobExecuting,
    JobExited,
    JobMeasured,
    JobsEdited,
    JobTransferBegan,
    JobTransferEnded,
)
from ..ports.messages import EndJob
from ..ports.stimuli import (
    ActivationChirped,
    ActivationEnded,
    ActivationMeasured,
    ActivationStarted,
    CheckpointsCleaned,
    Transferred,
)
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import HOLD_ATTRIBUTES, SKIPPED, hold_reason, parse_int, quoted, unquoted, vacate_reason
from ..state.measurements import is_notable
from ..state.records import RUNS, TRANSFER_STEPS, Activation
from ..state.state import AccessPoint
from ..state_machines.hold_codes import (
    ACCESS_POINT_CODES,
    CLAIM_DEACTIVATED,
    EVICTION_REASONS,
    FIRST_VACATE_CODE,
    HELD_BY_STARTD,
    JOB_NOT_FOUND,
    REMOVED_CODE,
    TRANSFER_CODES,
    UNSPECIFIED_INTERRUPTION,
    StopReason,
    goes_on_hold,
)
from ..units import SECOND
from .claims import job_ended
from .cool_down import cool_down
from .evict_transforms import apply_evict_transforms
from .job_deferral import schedule_runs
from .job_edits import attributes_not_settable
from .job_policy import exit_decision
from .rounding import exact_sizes, rounded_sizes, rounding_rules, with_rounding

# How a job continues after a run. Only this module returns a job to Idle after a run.
#
# A job's own transform (``evict_transforms``) may replace a hold. A cool-down (``cool_down``) follows each run after
# which the job becomes idle, and replaces a hold whose reason code came from the execution point or the shadow. Other
# holds are *final*: holds by a policy at the end of the run, holds for a reason of the access point, and holds by a
# local job's starter (JOB_SHOULD_HOLD).
#
# Source: Scheduler::shadowExitCode (schedd.cpp) of HTCondor.

RERUN_ROWS = frozenset({"evict", "requeue"})
"""The transitions (rows) after which a job runs again."""


def continue_job(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited, row: str) -> JobExited:
    """Return the end of a run with the job's transition and the changes to its ad.

    :param exited: the end of the run, without a row
    :param row: the transition that applies unless the job's policy, transforms or cool-down change it; empty if the job
        was already held or removed
    """
    if row == "complete":
        decision = exit_decision(draft, cluster, exited)
        exited = replace(exited, row=decision.row, changes=decision.changes, evidence=decision.evidence)
    else:
        exited = replace(exited, row=row)
    is_held, is_scheduler = exited.row == "hold", cluster.universe == SCHEDULER_UNIVERSE
    if is_held and cluster.has_evict_transforms(exited.proc) and apply_evict_transforms(draft, cluster, exited):
        exited = _evict_instead(replace(exited, evidence=0))
    elif is_scheduler or exited.row in RERUN_ROWS or (is_held and not _is_final(cluster, exited)):
        with_cool_down = cool_down(draft, cluster, exited)
        if with_cool_down is not None:
            exited = _evict_instead(with_cool_down) if is_held and not is_scheduler else with_cool_down
    if not exited.row:
        return exited
    status = cluster.status_of(exited.proc)
    target = draft.fire("job", status, exited.row)
    return replace(exited, source=status, target=target, reasons_kept=target == "Held")


def _is_final(cluster: Cluster, exited: JobExited) -> bool:
    by_access_point = parse_int(exited.changes.get("HoldReasonCode", "")) in ACCESS_POINT_CODES
    return exited.outcome == "exited" or cluster.is_local or by_access_point or exited.cause == "deferral_missed"


def _evict_instead(exited: JobExited) -> JobExited:
    changes = {name: text for name, text in exited.changes.items() if name not in HOLD_ATTRIBUTES}
    return replace(exited, row="evict", changes=changes)


VACATES_BY_SHADOW = 2
"""How often a shadow records the eviction in the ad of a job that is held by a policy."""


def log_transfer(draft: Draft[AccessPoint], stimulus: Transferred) -> None:
    """Log the progress of a job's file transfer. After a restart, a report may repeat what is already logged."""
    activation = draft.state.activations.get(stimulus.key)
    if activation is None:
        return
    job = activation.cluster, activation.proc
    cause = "activated" if stimulus.way == "input" else "exited"
    step, logged_step = TRANSFER_STEPS.index(stimulus.way), TRANSFER_STEPS.index(activation.transfer)
    if stimulus.number > activation.checkpoints and logged_step == step + 1:
        logged_step = step - 1  # the next checkpoint, if there are several
    if logged_step < step:
        draft.emit(JobTransferBegan(*draft.header(cause), *job, stimulus.way, min(stimulus.began, draft.now)))
    if stimulus.ended and logged_step <= step:
        ended_at = min(stimulus.ended, draft.now)
        event = JobTransferEnded(*draft.header(cause), *job, stimulus.way, stimulus.files, stimulus.size)
        event = replace(event, number=stimulus.number, kept=stimulus.spooled)
        draft.emit(replace(event, listed=stimulus.listed, failed=stimulus.failed, urls=stimulus.urls, ended=ended_at))


def log_cleanup(draft: Draft[AccessPoint], stimulus: CheckpointsCleaned) -> None:
    """Log that checkpoints of a job, which may have left the queue, were deleted or could not be."""
    job = stimulus.cluster, stimulus.proc
    draft.emit(CheckpointsDeleted(*draft.header("checkpoint_cleanup"), *job, stimulus.numbers, stimulus.failure))


def log_start(draft: Draft[AccessPoint], stimulus: ActivationStarted) -> None:
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or activation.executing:
        return  # reported twice
    job, began = (activation.cluster, activation.proc), min(stimulus.at, draft.now)
    draft.emit(JobExecuting(*draft.header("activated"), *job, stimulus.pid, stimulus.scratch, began))


def log_measurement(draft: Draft[AccessPoint], stimulus: ActivationMeasured) -> None:
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or not _is_notable(draft, activation, stimulus):
        return
    draft.emit(
        JobMeasured(
            *draft.header("measured"), activation.cluster, activation.proc, stimulus.image, stimulus.resident,
            stimulus.disk, stimulus.user_cpu, stimulus.system_cpu,
            stimulus.usage | exact_sizes(rounding_rules(draft.state), stimulus),
        )
    )  # fmt: skip


def log_chirp(draft: Draft[AccessPoint], stimulus: ActivationChirped) -> None:
    """Log the attributes that a running job set, and its log notes. A job may set only what its owner may edit."""
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or activation.cluster not in draft.state.clusters:
        return
    new_writes = [write for write in stimulus.writes if write[0] > activation.chirped]
    if not new_writes:
        return  # reported again
    forbidden = attributes_not_settable(draft.state.settings)
    proc, cluster = activation.proc, draft.state.clusters[activation.cluster]
    spellings = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names, *cluster.changes(proc))}
    values: dict[str, tuple[str, str]] = {}
    for _, kind, name, text in new_writes:
        if kind != "note":
            values[spellings.setdefault(name.lower(), name)] = kind, text
    skipped = {name: _chirp_refusal(name.lower() in forbidden, text) for name, (_, text) in values.items()}
    allowed = {name: text for name, (_, text) in values.items() if not skipped[name]}
    changes = with_rounding(rounding_rules(draft.state), allowed)
    edited = JobsEdited(*draft.header("chirp"), activation.cluster, ((proc, proc),), changes)
    draft.emit(
        replace(
            edited,
            before={name: cluster.value(proc, name) for name in changes},
            skipped=tuple(f"{name} = {values[name][1]}: {reason}" for name, reason in skipped.items() if reason),
            number=new_writes[-1][0],
            delayed=tuple(name for name in allowed if values[name][0] == "delayed"),
            notes=tuple(text for _, kind, _, text in new_writes if kind == "note"),
        )
    )


def _chirp_refusal(is_forbidden: bool, text: str) -> str:
    """Return why a job's value for an attribute is not used, or an empty string if it is."""
    if is_forbidden:
        return "no job may set it"
    try:
        parse(text)
    except ClassAdSyntaxError as error:
        return str(error)
    return ""


def _is_notable(draft: Draft[AccessPoint], activation: Activation, new: ActivationMeasured) -> bool:
    """Check whether to log a measurement: the first one, a changed size, or one after a long interval."""
    cluster = draft.state.clusters[activation.cluster]
    texts = (cluster.value(activation.proc, name, "0") for name in ("ImageSize", "ResidentSetSize", "DiskUsage"))
    previous = [int(text) if text.isdecimal() else 0 for text in texts]
    sizes = new.image, new.resident, new.disk
    if not activation.measured:
        return draft.now - activation.began >= new.first * SECOND
    return is_notable(previous, sizes, draft.now - activation.measured, new.every)


def end_run(draft: Draft[AccessPoint], stimulus: ActivationEnded) -> None:
    """Change the job's status after an activation's last process has ended, then free or reuse the slot."""
    state = draft.state
    activation = state.activations.get(stimulus.key)
    if activation is None:
        return
    cluster = state.clusters[activation.cluster]
    status = cluster.status_of(activation.proc)
    outcome, cause, row, changes = _run_outcome(draft, activation, stimulus, status)
    unreported_start = not (
        activation.executing or activation.deferred or activation.transfer or SKIPPED in stimulus.usage
    )
    if unreported_start and outcome in ("exited", "evicted"):
        # The start was never reported, because the pool was down during the run.
        draft.emit(JobExecuting(*draft.header("activated"), activation.cluster, activation.proc, 0, ""))
    ending = "" if cluster.is_local else draft.send(EndJob(activation.slot))
    exited = JobExited(
        *draft.header(cause), activation.cluster, activation.proc, activation.slot, activation.key,
        outcome, "", "", changes,
        stimulus.code, stimulus.signal, stimulus.user_cpu, stimulus.system_cpu, stimulus.resident, stimulus.disk,
        min(stimulus.at, draft.now), protocol=stimulus.protocol,
    )  # fmt: skip
    if outcome != "exited":
        vacated = activation.vacate_reason if outcome == "evicted" else {}
        vacated = vacated or vacate_reason(_vacate_reason(draft, activation, stimulus, exited, ending))
        exited = replace(exited, changes=exited.changes | vacated)
    exited = continue_job(draft, cluster, exited, row)
    vacate_code = activation.vacate_reason.get("VacateReasonCode")
    if not row and status != "Removed" and vacate_code == str(CLAIM_DEACTIVATED.code):
        exited = replace(exited, vacates=VACATES_BY_SHADOW)
    if stimulus.core and outcome == "exited":
        core = {"JobCoreDumped": "true", "JobCoreFileName": quoted(stimulus.core)}
        exited = replace(exited, changes={**exited.changes, **core})
    rules = rounding_rules(draft.state)
    usage = with_rounding(rules, stimulus.usage) | rounded_sizes(rules, cluster, activation, stimulus)
    if usage:
        exited = replace(exited, changes={**usage, **exited.changes})
    draft.emit(exited)
    if exited.target == "Idle":
        schedule_runs(draft, cluster, [activation.proc])  # before the claim looks for its next job
    if not cluster.is_local:
        job_ended(draft, activation.slot, activation.cluster, reuses=not _is_machine_fault(stimulus))


def _is_machine_fault(end: ActivationEnded) -> bool:
    """Check whether the machine prevented the job's start or file transfer; another job would fail there, too."""
    if end.hold_code in TRANSFER_CODES:
        return not goes_on_hold(end.hold_code, end.hold_subcode)
    return end.failed and end.hold_code >= FIRST_VACATE_CODE


_FAILURES = ("execution_failed", "transfer_failed")


def _vacate_reason(
    draft: Draft[AccessPoint], activation: Activation, end: ActivationEnded, exited: JobExited, ending: str
) -> StopReason:
    if exited.cause == "lease_over":
        lease = draft.state.clusters[activation.cluster].requested_value(activation.proc, "JobLeaseDuration") or ""
        lease_text = f"JobLeaseDuration ({lease} seconds)" if lease.isdecimal() else "the claim's lease"
        return StopReason(JOB_NOT_FOUND.code, 0, f"Job disconnected too long: {lease_text} expired")
    if exited.outcome == "lost":
        return JOB_NOT_FOUND
    if (exited.cause in _FAILURES and _is_machine_fault(end)) or "HoldReason" in exited.changes:
        return StopReason(end.hold_code, end.hold_subcode, end.hold_reason)
    cluster = draft.state.clusters[activation.cluster]
    status, ad = cluster.status_of(activation.proc), cluster.changes(activation.proc)
    cause = draft.state.ending.get(activation.key, "")
    if status in RUNS or cause:  # the job was evicted before its status changed
        return EVICTION_REASONS.get(cause) or EVICTION_REASONS.get(ending) or UNSPECIFIED_INTERRUPTION
    if status == "Removed":
        return StopReason(REMOVED_CODE, 0, unquoted(ad.get("RemoveReason", "")))
    prefix = "" if status == "Held" else "Last"  # otherwise the job has been released since
    code, subcode = (parse_int(ad.get(f"{prefix}HoldReason{part}", "")) for part in ("Code", "SubCode"))
    return StopReason(code, subcode, unquoted(ad.get(f"{prefix}HoldReason", "")))


def _run_outcome(
    draft: Draft[AccessPoint], activation: Activation, end: ActivationEnded, status: str
) -> tuple[str, str, str, Ad]:
    """Return the outcome, the cause, the row of the job state table, and the changes to the job's ad."""
    already_changed = status not in RUNS  # held or removed, and perhaps released, during the run
    hold = hold_reason(StopReason(end.hold_code, end.hold_subcode, end.hold_reason))
    transfer_outcome = "evicted" if end.undelivered else "failed"
    was_signalled = activation.first_signalled <= end.at
    is_machine_hold = activation.vacate_reason.get("VacateReasonCode") == str(HELD_BY_STARTD)
    machine_hold = {name.replace("Vacate", "Hold"): text for name, text in activation.vacate_reason.items()}
    cases: tuple[tuple[bool, str, str, str, Ad], ...] = (
        # if                          outcome    cause               row         changes
        (end.expired, "lost", "lost", "evict", {}),
        (end.undelivered and not end.hold_reason, "evicted", "evicted", "evict", {}),
        (end.hold_code in TRANSFER_CODES and _is_machine_fault(end), transfer_outcome, "transfer_failed", "evict", {}),
        (end.hold_code in TRANSFER_CODES, transfer_outcome, "transfer_failed", "hold", hold),
        (_is_machine_fault(end), "failed", "execution_failed", "evict", {}),
        (end.failed, "failed", "execution_failed", "hold", hold),
        (bool(end.hold_reason), "evicted", "limit_exceeded", "hold", hold),
        (end.lost and activation.key in draft.state.disconnected, "lost", "lease_over", "evict", {}),
        (end.lost, "lost", "lost", "evict", {}),
        (was_signalled and is_machine_hold, "evicted", "held_by_machine", "hold", machine_hold),
        (already_changed or (was_signalled and activation.first_signalled > 0), "evicted", "evicted", "evict", {}),
        (True, "exited", "exited", "complete", {}),
    )
    outcome, cause, row, changes = next(case[1:] for case in cases if case[0])
    return (outcome, cause, "", {}) if already_changed else (outcome, cause, row, changes)
