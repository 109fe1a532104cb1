"""Fold events into a job's ad: which attributes each event sets, with HTCondor's names and units.

The live state and all views use this fold, so they cannot differ. A job's ad is its cluster's ad, overridden by the
attributes that the submission gave this job alone (``variants``), overridden by ``changes`` (attribute -> expression
text; empty: removed), which these functions maintain. Instants in ads are whole seconds, as in HTCondor; intervals are
real numbers.

Source: the manual's "Job ClassAd Attributes"; for attributes that it omits, ads from an HTCondor queue and history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import get_args

from ..events import (
    Event,
    JobActivated,
    JobExecuting,
    JobExited,
    JobMeasured,
    JobsDeferred,
    JobsEdited,
    JobsMaterialized,
    JobsTransitioned,
    JobTransferBegan,
    JobTransferEnded,
)
from ..names import global_id
from ..state_machines import HTCONDOR_25, LEFT
from ..state_machines.hold_codes import StopReason, code_name
from ..state_machines.job_rows import JobStatus

STATUS_NUMBERS = HTCONDOR_25.job_status_numbers
STATUS_NAMES: dict[int, JobStatus] = dict(enumerate(get_args(JobStatus), 1))
TERMINAL = frozenset({"Removed", "Completed"})
"""The statuses of an ended job before it leaves the queue."""
HOLD_ATTRIBUTES = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")

Changes = dict[str, str]

COOL_DOWNS = "NumJobCoolDowns"
EXPIRATION = "JobCoolDownExpiration"
"""The last second of a job's cool-down."""


def quoted(text: str) -> str:
    """Return ``text`` as a ClassAd string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """Return the value of a literal created by ``quoted``; return any other text unchanged."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    if "\\" not in text:
        return text[1:-1]
    escapes = {"n": "\n", "t": "\t"}
    unescaped, letters = [], iter(text[1:-1])
    for letter in letters:
        if letter == "\\":
            letter = next(letters, "")
            letter = escapes.get(letter, letter)
        unescaped.append(letter)
    return "".join(unescaped)


def hold_reason(stop: StopReason) -> Changes:
    """Return HoldReason and its codes for a job's ad."""
    return _reason("HoldReason", stop)


def vacate_reason(stop: StopReason) -> Changes:
    """Return VacateReason and its codes for a job's ad."""
    return _reason("VacateReason", stop)


def _reason(name: str, stop: StopReason) -> Changes:
    return {name: quoted(stop.reason), f"{name}Code": str(stop.code), f"{name}SubCode": str(stop.subcode)}


@lru_cache(100)
def seconds(at: int) -> str:
    """Format a time, given in microseconds, as whole seconds."""
    return str(at // 1_000_000)


def format_real_seconds(microseconds: int) -> str:
    """Format an interval in seconds, as a real number."""
    return repr(microseconds / 1_000_000)


def parse_int(text: str) -> int:
    """Parse a whole number; return 0 if the text is not one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


_BY_REASON = {
    "NumHolds": "NumHoldsByReason",
    "NumVacates": "NumVacatesByReason",
    "NumVacatesPreExecution": "NumVacatesByReasonPreExecution",
}
_COUNT = r"(?a)(\w+) = (\d{1,18})"


class _Attributes:
    """A job's attributes: ``changes``, then the ad of its cluster."""

    __slots__ = ("base", "changes")

    def __init__(self, changes: Changes, base: Mapping[str, str]) -> None:
        self.changes, self.base = changes, base

    def text(self, name: str, default: str = "") -> str:
        changed = self.changes.get(name)
        return changed if changed is not None else self.base.get(name, default)

    def integer(self, name: str) -> int:
        """Return an attribute as an integer, or 0 if a user has set it to something else."""
        return parse_int(self.text(name))

    def has_provisioned(self) -> bool:
        """Return True if the log records the slot's resources. Older logs do not, and their jobs' ads must not
        change."""
        return bool(self.text("CpusProvisioned"))

    def increase(self, name: str, amount: int = 1) -> None:
        self.changes[name] = str(self.integer(name) + amount)

    def count_by_reason(self, name: str, code: str, protocol: str = "", times: int = 1) -> None:
        """Count a hold or eviction in ``name``, by reason in the related ad (NumHoldsByReason), and by transfer
        protocol."""
        self.increase(name, times)
        by_reason = _BY_REASON[name]
        counts = {key: int(number) for key, number in re.findall(_COUNT, self.text(by_reason))}
        reason = code_name(parse_int(code))
        for key in (reason, f"{reason}{protocol}") if protocol else (reason,):
            counts[key] = counts.get(key, 0) + times
        pairs = "; ".join(f"{key} = {counts[key]}" for key in sorted(counts))
        self.changes[by_reason] = f"[ {pairs} ]"

    def move_to_last(self, name: str) -> None:
        """Move the value of an attribute to its Last attribute, if it is defined."""
        text = self.text(name)
        if text and text != "undefined":
            self.changes[f"Last{name}"], self.changes[name] = text, ""

    def weighted_microseconds(self, seconds: int) -> int:
        """Return seconds times the slot's weight, in microseconds."""
        try:
            weight = float(self.text("MachineAttrSlotWeight0") or 1)
        except ValueError:
            weight = 1.0
        return round(seconds * weight * 1_000_000)

    def add_real(self, name: str, microseconds: int) -> None:
        try:
            before = round(float(self.text(name, "0") or 0) * 1_000_000)
        except (ValueError, OverflowError):
            before = 0
        self.changes[name] = format_real_seconds(before + microseconds)


def _set_status(changes: Changes, target: str, source: str, at: int) -> None:
    if target != source:
        changes["LastJobStatus"] = str(STATUS_NUMBERS[source])
    changes["JobStatus"] = str(STATUS_NUMBERS[target])
    changes["EnteredCurrentStatus"] = seconds(at)


def _fold_transition(job: _Attributes, event: JobsTransitioned) -> None:
    if event.target != LEFT:  # a job in the history keeps its last status
        _set_status(job.changes, event.target, event.source, event.at)
    if event.target == "Suspended" and job.has_provisioned():
        job.increase("TotalSuspensions")
        job.changes["LastSuspensionTime"] = seconds(event.at)
    elif event.source == "Suspended":
        _fold_continuation(job, event.at)
    if event.reasons_kept:
        for name in MOVED_REASONS.get(event.target, ()):
            job.move_to_last(name)
    job.changes.update(event.changes)
    if event.reasons_kept and event.target == "Held":
        job.count_by_reason("NumHolds", event.changes.get("HoldReasonCode", "0"), times=event.holds)


def _fold_continuation(job: _Attributes, at: int) -> None:
    since = job.integer("LastSuspensionTime")
    if since:
        job.increase("CumulativeSuspensionTime", max(0, at // 1_000_000 - since))
        job.changes["LastSuspensionTime"] = "0"


MOVED_REASONS = {"Held": ("ReleaseReason",), "Removed": HOLD_ATTRIBUTES}
"""By new status: the attributes whose values are moved to Last attributes."""
KEEPS_REASONS = frozenset(MOVED_REASONS)
"""The statuses for which ``JobsTransitioned.reasons_kept`` is set."""


DEFERRAL_TIME = "DeferralTime"
SET_NAME = "JobSetName"
SET_ID = "JobSetId"


def set_of(ad: Mapping[str, str], owner: str) -> tuple[str, str]:
    """Return the owner and the lower-case name of a cluster's job set; the name is empty if it has none."""
    names = (unquoted(text).lower() for name, text in ad.items() if name.lower() == SET_NAME.lower())
    return owner, next(names, "")


def _fold_activation(job: _Attributes, event: JobActivated) -> None:
    changes, now = job.changes, seconds(event.at)
    before = job.text("JobCurrentStartDate")
    _set_status(changes, "Running", "Idle", event.at)
    changes["RemoteHost"] = quoted(event.slot)
    changes["PublicClaimId"] = quoted(event.claim)
    if event.flocked:
        changes["RemotePool"] = quoted(event.flocked)
    changes["LastMatchTime"] = changes["JobCurrentStartDate"] = changes["ShadowBday"] = now
    changes["CurrentHosts"] = "1"
    for name in ("NumJobMatches", "NumShadowStarts", "JobRunCount"):
        job.increase(name)
    if event.provides:
        if before:
            changes["JobLastStartDate"] = before
        _fold_provided(job, event)
    changes.update(event.expanded)
    for name in _VACATE_ATTRIBUTES:
        if changes.get(name):
            changes[name] = ""
    if not job.text("JobStartDate"):
        changes["JobStartDate"] = changes["FirstJobMatchDate"] = now
        changes["InitialWaitDuration"] = str(int(now) - (job.integer("QDate") or int(now)))


_VACATE_ATTRIBUTES = ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")
_PROVISIONED_RESOURCES = ("Cpus", "Disk", "GPUs", "Memory")
SYSTEM_MACHINE_ATTRIBUTES = ("Cpus", "SlotWeight")
"""The default of SYSTEM_JOB_MACHINE_ATTRS."""


def _fold_provided(job: _Attributes, event: JobActivated) -> None:
    changes, slot = job.changes, event.provides
    changes.update({f"{name}Provisioned": slot[name] for name in _PROVISIONED_RESOURCES if name in slot})
    if "AssignedGPUs" in slot:
        changes["AssignedGPUs"] = slot["AssignedGPUs"]
    names, runs = event.recorded, event.recorded_runs
    if not runs:
        requested = job.text("JobMachineAttrs")
        if not requested:
            changes.update({f"MachineAttr{name}0": slot[name] for name in SYSTEM_MACHINE_ATTRIBUTES if name in slot})
            return
        names = (*machine_attributes(requested), *SYSTEM_MACHINE_ATTRIBUTES)
        runs = max(1, job.integer("JobMachineAttrsHistoryLength"))
    for name in dict.fromkeys(names):
        for run in range(min(runs, _MAX_HISTORY_LENGTH) - 1, 0, -1):
            before = job.text(f"MachineAttr{name}{run - 1}")
            if before:
                changes[f"MachineAttr{name}{run}"] = before
        changes[f"MachineAttr{name}0"] = slot.get(name, "undefined")


_MAX_HISTORY_LENGTH = 1000  #: the maximum number of runs whose machine attributes an ad contains


def machine_attributes(text: str) -> list[str]:
    """Return the names in a JobMachineAttrs."""
    return unquoted(text).replace(",", " ").split()


_TRANSFER_ATTRIBUTES = {
    "input": ("In", "Input", "BytesRecvd"),
    "output": ("Out", "Output", "BytesSent"),
    "checkpoint": ("Out", "Output", "BytesSent"),
}
"""For each direction: the short and long forms in attribute names, and the attribute that counts its bytes."""


def _fold_transfer_start(job: _Attributes, event: JobTransferBegan) -> None:
    short, long, _ = _TRANSFER_ATTRIBUTES[event.way]
    changes, now = job.changes, seconds(event.began or event.at)
    changes[f"Transferring{long}"] = "true"
    changes[f"Transfer{short}Started"] = changes[f"JobCurrentStartTransfer{long}Date"] = now
    changes[f"JobCurrentFinishTransfer{long}Date"] = "-1"
    job.increase(f"Num{long}TransferStarts")


def _fold_transfer_end(job: _Attributes, event: JobTransferEnded) -> None:
    short, long, total = _TRANSFER_ATTRIBUTES[event.way]
    changes, now = job.changes, seconds(event.ended or event.at)
    changes[f"Transferring{long}"] = ""
    changes[f"Transfer{short}Finished"] = now
    if event.way == "input":  # HTCondor's shadow does not set these attributes at the end of an output transfer
        counts_listed = [(_name_part(protocol), count) for protocol, count, _, _ in event.urls]
        changes["TransferInputFileCounts"] = _counts_ad([*counts_listed, ("CEDAR", event.listed)])
        for name, zero in (("TransferOutputStats", "[  ]"), ("BytesSent", "0.0")):
            if not job.text(name):
                changes[name] = zero
        if not event.failed:
            changes["JobCurrentFinishTransferInputDate"] = now
    if event.way == "checkpoint":  # HTCondor does not count its bytes
        if not event.failed or job.text("CheckpointDestination"):  # part of a failed one may be at its destination
            changes["CheckpointNumber"] = str(int(job.text("CheckpointNumber", "-1") or -1) + 1)
        return
    before = dict(re.findall(_COUNT, job.text(f"Transfer{long}Stats")))
    transfers = [(_name_part(protocol), size, files) for protocol, _, files, size in event.urls]
    transfers.append(("Cedar", event.size, event.files))
    counts = {f"{protocol}SizeBytes": size for protocol, size, _ in transfers}
    counts |= {f"{protocol}FilesCount": files for protocol, _, files in transfers}
    sums = {name.removesuffix("Total"): int(count) for name, count in before.items() if name.endswith("Total")}
    totals = [(f"{name}Total", sums.get(name, 0) + counts.get(name, 0)) for name in {**counts, **sums}]
    last_run = [(f"{name}LastRun", count) for name, count in counts.items()]
    changes[f"Transfer{long}Stats"] = _counts_ad([*totals, *last_run])
    job.add_real(total, 0 if event.failed else sum(size for _, size, _ in transfers) * 1_000_000)


def _name_part(protocol: str) -> str:
    """Return a protocol in the format in which it starts an attribute's name."""
    part = re.sub(_NOT_IN_NAMES, "_", protocol.upper())
    return part if part[:1].isalpha() else f"_{part}"


_NOT_IN_NAMES = r"(?a)\W"


def _counts_ad(counts: list[tuple[str, int]]) -> str:
    return f"[ {'; '.join(f'{name} = {count}' for name, count in counts if count)} ]"


def _fold_execution(job: _Attributes, event: JobExecuting) -> None:
    job.changes["JobCurrentStartExecutingDate"] = seconds(event.began or event.at)
    job.increase("NumJobStarts")


def _fold_measurement(job: _Attributes, event: JobMeasured) -> None:
    changes = job.changes
    changes["ImageSize"] = str(event.image)
    changes["ResidentSetSize"] = str(event.resident)
    changes["MemoryUsage"] = "((ResidentSetSize + 1023) / 1024)"
    changes["DiskUsage"] = str(event.disk)
    changes["RemoteUserCpu"] = format_real_seconds(event.user_cpu)
    changes["RemoteSysCpu"] = format_real_seconds(event.system_cpu)
    changes.update(event.usage)


SPOOLED_OUTPUT_FILES = "SpooledOutputFiles"
"""The names of a completed job's transferred outputs."""
SKIPPED = "DataflowJobSkipped"
"""True in the ad of a job that was not run because its outputs were newer than its inputs (skip_if_dataflow)."""


def _fold_exit_report(job: _Attributes, event: JobExited) -> None:
    changes = job.changes
    changes["RemoteUserCpu"] = format_real_seconds(event.user_cpu)
    changes["RemoteSysCpu"] = format_real_seconds(event.system_cpu)
    # HTCondor 25 never sets ExitStatus, and keeps the ExitSignal of an earlier run next to a later run's ExitCode.
    # In older logs ExitStatus is the exit code, and only the last run's end is in the ad.
    is_recent = job.has_provisioned()
    if event.resident > job.integer("ResidentSetSize"):
        changes["ResidentSetSize"] = str(event.resident)
        changes["MemoryUsage"] = "((ResidentSetSize + 1023) / 1024)"
    if event.disk:
        changes["DiskUsage"] = str(event.disk)
    if event.signal is not None and is_recent:
        description = _SIGNALS.get(event.signal, f"Unknown signal {event.signal}")
        changes["ExitReason"] = quoted(f"died on signal {event.signal} ({description})")
    has_exit = event.code is not None or event.signal is not None  # older logs lack it for evicted jobs
    if event.outcome == "exited" or ("VacateReasonCode" in event.changes and has_exit):
        changes["ExitBySignal"] = "true" if event.signal is not None else "false"
        for name, number in (("ExitCode", event.code), ("ExitSignal", event.signal)):
            if number is not None:
                changes[name] = str(number)
            elif not is_recent:
                changes[name] = ""
    if event.outcome == "exited":
        changes["ExitStatus"] = "0" if is_recent or event.code is None else str(event.code)
        if SKIPPED not in event.changes:
            job.increase("NumJobCompletions")


_SIGNALS = dict(
    enumerate(
        (
            "Hangup", "Interrupt", "Quit", "Illegal instruction", "Trace/breakpoint trap", "Aborted", "Bus error",
            "Floating point exception", "Killed", "User defined signal 1", "Segmentation fault",
            "User defined signal 2", "Broken pipe", "Alarm clock", "Terminated", "Stack fault", "Child exited",
            "Continued", "Stopped (signal)", "Stopped", "Stopped (tty input)", "Stopped (tty output)",
            "Urgent I/O condition", "CPU time limit exceeded", "File size limit exceeded", "Virtual timer expired",
            "Profiling timer expired", "Window changed", "I/O possible", "Power failure", "Bad system call",
        ),
        start=1,
    )
)  # fmt: skip
"""Linux's descriptions of its signals, for ExitReason."""


def failed_to_start(event: JobExited) -> bool:
    """Return True if the process of a run could not be started. HTCondor counts such a process as started, because the
    starter reports the start before attempting it (in older logs, it is not counted)."""
    code = event.changes.get("HoldReasonCode")
    return event.outcome == "failed" and code == FAILED_TO_CREATE_PROCESS and event.reasons_kept


FAILED_TO_CREATE_PROCESS = "6"


def _fold_exit(job: _Attributes, event: JobExited) -> None:
    changes = job.changes
    began = job.integer("JobCurrentStartDate")
    ended = event.ended or event.at
    wall = max(0, ended // 1_000_000 - began) if began else 0
    job.add_real("RemoteWallClockTime", wall * 1_000_000)
    job.add_real("CumulativeSlotTime", job.weighted_microseconds(wall))
    changes["LastRemoteWallClockTime"] = format_real_seconds(wall * 1_000_000)
    job.add_real("CumulativeRemoteUserCpu", event.user_cpu)
    job.add_real("CumulativeRemoteSysCpu", event.system_cpu)
    changes["LastRemoteHost"] = job.text("RemoteHost")
    changes["LastPublicClaimId"] = job.text("PublicClaimId")
    changes["CurrentHosts"] = "0"
    if not job.has_provisioned():
        changes["JobLastStartDate"] = str(began) if began else ""
    if pool := job.text("RemotePool"):
        changes["LastRemotePool"], changes["RemotePool"] = pool, ""
    for name in ("RemoteHost", "PublicClaimId", "ShadowBday"):
        changes[name] = ""
    for name in ("TransferringInput", "TransferringOutput"):
        if job.text(name):
            changes[name] = ""
    _fold_continuation(job, ended)
    if failed_to_start(event):
        changes["JobCurrentStartExecutingDate"] = seconds(ended)
        job.increase("NumJobStarts")
    _fold_exit_report(job, event)
    _fold_eviction(job, event)
    if event.target == "Completed":
        changes["CompletionDate"] = seconds(ended)
        job.add_real("CommittedSlotTime", job.weighted_microseconds(wall))
        job.increase("CommittedTime", wall)
    if event.row:
        source = event.source or STATUS_NAMES.get(job.integer("JobStatus"), "Running")
        _set_status(changes, event.target, source, event.at)
    changes.update(event.changes)
    if event.reasons_kept:
        job.count_by_reason("NumHolds", event.changes.get("HoldReasonCode", "0"))


def _fold_eviction(job: _Attributes, event: JobExited) -> None:
    """Count an eviction. If the job has exited on its own, a periodic policy had already started to evict it."""
    if event.outcome == "exited" and "VacateReasonCode" not in event.changes:
        return
    job.changes["LastVacateTime"] = seconds(event.ended or event.at)
    code = event.changes.get("VacateReasonCode")
    if code is None:  # an older log
        job.increase("NumVacates")
        return
    transfer_failed = event.cause == "transfer_failed" and code in _TRANSFER_ERRORS
    protocol = (event.protocol.capitalize() or "Cedar") if transfer_failed else ""
    job.count_by_reason("NumVacates", code, protocol, event.vacates)
    if job.integer("JobCurrentStartExecutingDate") < job.integer("JobCurrentStartDate"):
        job.count_by_reason("NumVacatesPreExecution", code, protocol)


_TRANSFER_ERRORS = ("12", "13")


_FOLDS: dict[type[Event], Callable[..., None]] = {
    JobsTransitioned: _fold_transition,
    JobsEdited: lambda job, event: job.changes.update(event.changes),
    JobsMaterialized: lambda job, event: job.changes.update(JobMaterializeDate=seconds(event.at)),
    JobsDeferred: lambda job, event: job.changes.update({DEFERRAL_TIME: seconds(event.until)}),
    JobActivated: _fold_activation,
    JobTransferBegan: _fold_transfer_start,
    JobTransferEnded: _fold_transfer_end,
    JobExecuting: _fold_execution,
    JobMeasured: _fold_measurement,
    JobExited: _fold_exit,
}


def fold_job(changes: Changes, base: Mapping[str, str], event: Event) -> None:
    """Fold an event about a job into its ``changes``. ``base`` is the ad of its cluster."""
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(_Attributes(changes, base), event)


def count_hold(changes: Changes, base: Mapping[str, str], code: str) -> None:
    """Count a hold with this reason code."""
    _Attributes(changes, base).count_by_reason("NumHolds", code)


def ad_at_exit(attributes: Mapping[str, str], exited: JobExited) -> Changes:
    """Return the ad in which the policy of a job that has just exited is evaluated. It contains the exit code, but
    still the run's status and slot, like the shadow's copy of the ad in HTCondor."""
    changes: Changes = {}
    job = _Attributes(changes, attributes)
    _fold_exit_report(job, exited)
    _fold_eviction(job, exited)
    return {**attributes, **changes}


EXPANDED = "MATCH_EXP_"
"""The prefix of an attribute with the value that ``$$(...)`` expanded to."""


def launch_ad(ad: Mapping[str, str], queue: str, job: tuple[int, int]) -> dict[str, str]:
    """Return the ad for a job's processes: with its GlobalJobId in this queue, and with the expanded value of each
    attribute with ``$$(...)``."""
    names = [name for name in ad if EXPANDED in name and name.startswith(EXPANDED)]
    global_job_id = quoted(global_id(queue, *job, parse_int(ad.get("QDate", ""))))
    return {**ad, "GlobalJobId": global_job_id, **{name.removeprefix(EXPANDED): ad[name] for name in names}}
