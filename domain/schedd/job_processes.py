"""Jobs' processes: their start, use of resources, and end.

The end of an activation decides the job's next transition: see the table in ``_verdict``, and ``continue_job`` for what
may change it. A job that was held or removed while it ran keeps that status.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..decision.draft import Draft
from ..events import Ad, JobExecuting, JobExited, JobMeasured, JobsEdited, JobTransferBegan, JobTransferEnded
from ..ports.messages import EndJob
from ..ports.stimuli import (
    ActivationChirped,
    ActivationEnded,
    ActivationMeasured,
    ActivationStarted,
    Transferred,
)
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import HOLD_ATTRIBUTES, parse_int, quoted, unquoted, vacate_reason
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
from .claims import job_ended
from .cool_down import cool_down
from .evict_transforms import requests_otherwise
from .job_deferral import schedule
from .job_edits import unsettable
from .job_policy import at_end

# How a job continues after a run: only here does a job that ran become idle again.
#
# Every end of a run is handled here, whatever its cause. The job's own transform (``evict_transforms``) may replace a
# hold. A cool-down (``cool_down``) comes after each run that another run is to follow, and replaces a hold whose reason
# the execution point or the shadow reported with a code. Other holds are *final*: holds by a policy at the end of the
# run, holds for a reason that the access point itself found, and holds by a local job's starter (JOB_SHOULD_HOLD).
#
# Source: Scheduler::shadowExitCode (schedd.cpp) of HTCondor.

AGAIN = frozenset({"evict", "requeue"})
"""The rows after which a job runs again."""


def continue_job(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited, row: str) -> JobExited:
    """Return the end of a run with its job's transition and the changes of its ad.

    :param exited: the end, without a row
    :param row: the transition unless the job's policy, its transforms or a cool-down change it; empty if the job was
        held or removed before
    """
    if row == "complete":
        ending = at_end(draft, cluster, exited)
        exited = replace(exited, row=ending.row, changes=ending.changes, evidence=ending.evidence)
    else:
        exited = replace(exited, row=row)
    held, by_code = exited.row == "hold", cluster.universe == SCHEDULER_UNIVERSE
    if held and cluster.has_evict_transforms(exited.proc) and requests_otherwise(draft, cluster, exited):
        exited = _spared(replace(exited, evidence=0))
    elif by_code or exited.row in AGAIN or (held and not _is_final(cluster, exited)):
        cooled = cool_down(draft, cluster, exited)
        if cooled is not None:
            exited = _spared(cooled) if held and not by_code else cooled
    if not exited.row:
        return exited
    status = cluster.status_of(exited.proc)
    target = draft.fire("job", status, exited.row)
    return replace(exited, source=status, target=target, reasons_kept=target == "Held")


def _is_final(cluster: Cluster, exited: JobExited) -> bool:
    """Check whether a hold is one that no cool-down replaces."""
    by_access_point = parse_int(exited.changes.get("HoldReasonCode", "")) in ACCESS_POINT_CODES
    return exited.outcome == "exited" or cluster.is_local or by_access_point or exited.cause == "deferral_missed"


def _spared(exited: JobExited) -> JobExited:
    """Return the end of a run whose job waits again instead of being held."""
    changes = {name: text for name, text in exited.changes.items() if name not in HOLD_ATTRIBUTES}
    return replace(exited, row="evict", changes=changes)


VACATES_BY_SHADOW = 2
"""How many times a shadow records the eviction in the ad of a job that a policy holds."""


def transferred(draft: Draft[AccessPoint], stimulus: Transferred) -> None:
    """Log the progress of a job's file transfer. After a restart, the report may repeat what the log has."""
    activation = draft.state.activations.get(stimulus.key)
    if activation is None:
        return
    job = activation.cluster, activation.proc
    cause = "activated" if stimulus.way == "input" else "exited"
    step, before = TRANSFER_STEPS.index(stimulus.way), TRANSFER_STEPS.index(activation.transfer)
    if stimulus.number > activation.checkpoints and before == step + 1:
        before = step - 1  # the next of several checkpoints
    if before < step:
        draft.emit(JobTransferBegan(*draft.why(cause), *job, stimulus.way, min(stimulus.began, draft.now)))
    if stimulus.ended and before <= step:
        ended = min(stimulus.ended, draft.now)
        moved = JobTransferEnded(*draft.why(cause), *job, stimulus.way, stimulus.files, stimulus.size)
        moved = replace(moved, number=stimulus.number, kept=stimulus.spooled)
        draft.emit(replace(moved, listed=stimulus.listed, failed=stimulus.failed, urls=stimulus.urls, ended=ended))


def started(draft: Draft[AccessPoint], stimulus: ActivationStarted) -> None:
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or activation.executing:
        return  # reported twice: the log has it
    draft.emit(
        JobExecuting(
            *draft.why("activated"),
            activation.cluster,
            activation.proc,
            stimulus.pid,
            stimulus.scratch,
            min(stimulus.at, draft.now),
        )
    )


def measured(draft: Draft[AccessPoint], stimulus: ActivationMeasured) -> None:
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or not _notable(draft, activation, stimulus):
        return
    draft.emit(
        JobMeasured(
            *draft.why("measured"), activation.cluster, activation.proc, stimulus.image, stimulus.resident,
            stimulus.disk, stimulus.user_cpu, stimulus.system_cpu,
        )
    )  # fmt: skip


def chirped(draft: Draft[AccessPoint], stimulus: ActivationChirped) -> None:
    """Log the attributes that a job set, and its log notes. A job may only set what its owner may edit."""
    activation = draft.state.activations.get(stimulus.key)
    if activation is None or activation.cluster not in draft.state.clusters:
        return
    new = [write for write in stimulus.writes if write[0] > activation.chirped]
    if not new:
        return  # reported again: the log has it
    refused = unsettable(draft.state.settings)
    proc, cluster = activation.proc, draft.state.clusters[activation.cluster]
    spelled = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names, *cluster.changes(proc))}
    sets: dict[str, tuple[str, str]] = {}
    for _, kind, name, text in new:
        if kind != "note":
            sets[spelled.setdefault(name.lower(), name)] = kind, text
    done = {name: text for name, (_, text) in sets.items() if name.lower() not in refused}
    edited = JobsEdited(*draft.why("chirp"), activation.cluster, ((proc, proc),), done)
    draft.emit(
        replace(
            edited,
            before={name: cluster.value(proc, name) for name in done},
            skipped=tuple(f"{name} = {sets[name][1]}: no job may set it" for name in sets if name not in done),
            number=new[-1][0],
            delayed=tuple(name for name in done if sets[name][0] == "delayed"),
            notes=tuple(text for _, kind, _, text in new if kind == "note"),
        )
    )


MEASURED_EVERY = 300_000_000
"""Microseconds after which a measurement is logged even if only CPU time changed: HTCondor updates its queue every five
minutes."""
NOTABLE_SHARE, NOTABLE_KIB = 10, 1024
"""A size counts as changed by more than a tenth, and more than a MiB."""


def _notable(draft: Draft[AccessPoint], activation: Activation, new: ActivationMeasured) -> bool:
    """Check whether to log a measurement: the first one, one with a changed size, or one after a long time."""
    if not activation.measured or draft.now - activation.measured >= MEASURED_EVERY:
        return True
    cluster = draft.state.clusters[activation.cluster]
    for name, size in (("ImageSize", new.image), ("ResidentSetSize", new.resident), ("DiskUsage", new.disk)):
        text = cluster.value(activation.proc, name, "0")
        before = int(text) if text.isdecimal() else 0
        if abs(size - before) > max(before // NOTABLE_SHARE, NOTABLE_KIB):
            return True
    return False


def ended(draft: Draft[AccessPoint], stimulus: ActivationEnded) -> None:
    """Change the job's status after the last process of an activation has ended, then let the slot continue."""
    state = draft.state
    activation = state.activations.get(stimulus.key)
    if activation is None:
        return
    cluster = state.clusters[activation.cluster]
    status = cluster.status_of(activation.proc)
    outcome, cause, row, changes = _verdict(draft, activation, stimulus, status)
    begins_unseen = not (activation.executing or activation.deferred or activation.transfer)
    if begins_unseen and outcome in ("exited", "evicted"):
        # Its start was never reported: the pool was down while it began and ended.
        draft.emit(JobExecuting(*draft.why("activated"), activation.cluster, activation.proc, 0, ""))
    leaving = "" if cluster.is_local else draft.send(EndJob(activation.slot))
    exited = JobExited(
        *draft.why(cause), activation.cluster, activation.proc, activation.slot, activation.key,
        outcome, "", "", changes,
        stimulus.code, stimulus.signal, stimulus.user_cpu, stimulus.system_cpu, stimulus.resident, stimulus.disk,
        min(stimulus.at, draft.now), protocol=stimulus.protocol,
    )  # fmt: skip
    if outcome != "exited":
        exited = replace(exited, changes=exited.changes | _vacated(draft, activation, stimulus, exited, leaving))
    exited = continue_job(draft, cluster, exited, row)
    if (
        not row
        and status != "Removed"
        and activation.vacate_reason.get("VacateReasonCode") == str(CLAIM_DEACTIVATED.code)
    ):
        exited = replace(exited, vacates=VACATES_BY_SHADOW)
    if stimulus.core and outcome == "exited":
        core = {"JobCoreDumped": "true", "JobCoreFileName": quoted(stimulus.core)}
        exited = replace(exited, changes={**exited.changes, **core})
    draft.emit(exited)
    if exited.target == "Idle":
        schedule(draft, cluster, [activation.proc])  # before its claim looks for the next job
    if not cluster.is_local:
        job_ended(draft, activation.slot, activation.cluster, reuses=not _machines_fault(stimulus))


def _machines_fault(end: ActivationEnded) -> bool:
    """Check whether the machine is the reason why the job did not start, or why its files were not transferred:
    another job would fail there too."""
    if end.hold_code in TRANSFER_CODES:
        return not goes_on_hold(end.hold_code, end.hold_subcode)
    return end.failed and end.hold_code >= FIRST_VACATE_CODE


def _held_at_its_end(activation: Activation, end: ActivationEnded) -> bool:
    """Check whether a run ends because the machine's policy holds the job at the end of the run."""
    by_machine = activation.vacate_reason.get("VacateReasonCode") == str(HELD_BY_STARTD)
    return by_machine and activation.first_signalled <= end.at


def _hold_in(vacated: Ad) -> Ad:
    """Return the hold for an eviction by the machine."""
    return {name.replace("Vacate", "Hold"): text for name, text in vacated.items()}


def _vacated(
    draft: Draft[AccessPoint], activation: Activation, end: ActivationEnded, exited: JobExited, leaving: str
) -> Ad:
    """Return the vacate reason for the job's ad. ``leaving``: the cause for which its claim was about to end."""
    if activation.vacate_reason and exited.outcome == "evicted":
        return activation.vacate_reason
    return vacate_reason(_why(draft, activation, end, exited, leaving))


_FAILURES = ("execution_failed", "transfer_failed")


def _why(
    draft: Draft[AccessPoint], activation: Activation, end: ActivationEnded, exited: JobExited, leaving: str
) -> StopReason:
    if exited.outcome == "lost":
        return JOB_NOT_FOUND
    if (exited.cause in _FAILURES and _machines_fault(end)) or "HoldReason" in exited.changes:
        return StopReason(end.hold_code, end.hold_subcode, end.hold_reason)
    cluster = draft.state.clusters[activation.cluster]
    status, ad = cluster.status_of(activation.proc), cluster.changes(activation.proc)
    cause = draft.state.ending.get(activation.key, "")
    if status in RUNS or cause:  # the eviction came first, whatever the job's status is now
        return EVICTION_REASONS.get(cause) or EVICTION_REASONS.get(leaving) or UNSPECIFIED_INTERRUPTION
    if status == "Removed":
        return StopReason(REMOVED_CODE, 0, unquoted(ad.get("RemoveReason", "")))
    of = "" if status == "Held" else "Last"  # else it was released since
    code, subcode = (parse_int(ad.get(f"{of}HoldReason{part}", "")) for part in ("Code", "SubCode"))
    return StopReason(code, subcode, unquoted(ad.get(f"{of}HoldReason", "")))


def _verdict(
    draft: Draft[AccessPoint], activation: Activation, end: ActivationEnded, status: str
) -> tuple[str, str, str, Ad]:
    """Return outcome, cause, the row of the job's table and the changes of its ad."""
    overtaken = status not in RUNS  # a user acted first: held, removed, or held and released the job
    held = {
        "HoldReason": quoted(end.hold_reason),
        "HoldReasonCode": str(end.hold_code),
        "HoldReasonSubCode": str(end.hold_subcode),
    }
    unmoved = "evicted" if end.undelivered else "failed"
    cases: tuple[tuple[bool, str, str, str, Ad], ...] = (
        # if                          outcome    cause               row         changes
        (end.undelivered and not end.hold_reason, "evicted", "evicted", "evict", {}),
        (end.hold_code in TRANSFER_CODES and _machines_fault(end), unmoved, "transfer_failed", "evict", {}),
        (end.hold_code in TRANSFER_CODES, unmoved, "transfer_failed", "hold", held),
        (_machines_fault(end), "failed", "execution_failed", "evict", {}),
        (end.failed, "failed", "execution_failed", "hold", held),
        (bool(end.hold_reason), "evicted", "limit_exceeded", "hold", held),
        (end.lost, "lost", "lost", "evict", {}),
        (_held_at_its_end(activation, end), "evicted", "held_by_machine", "hold", _hold_in(activation.vacate_reason)),
        (overtaken or 0 < activation.first_signalled <= end.at, "evicted", "evicted", "evict", {}),
        (True, "exited", "exited", "complete", {}),
    )
    outcome, cause, row, changes = next(case[1:] for case in cases if case[0])
    return (outcome, cause, "", {}) if overtaken else (outcome, cause, row, changes)
