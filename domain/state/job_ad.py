"""What each event means for a job's ad: which attributes it sets, under HTCondor's names and units.

One fold, used by the live state and by every view, so that no two of them can differ. A job's ad is its cluster's ad,
then what its submission gave to it alone (``variants``), then ``changes``: attribute -> expression text as these
functions leave it. The empty text stands for an attribute that is gone. Instants in ads are whole seconds, as the
reference has them; intervals are real numbers.

Source: the manual's "Job ClassAd Attributes"; where it is silent, the ads of a real queue and history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
from ..state_machines import HTCONDOR_25, LEFT
from ..state_machines.hold_codes import Why, code_name
from ..state_machines.job_rows import JobStatus

STATUS_NUMBERS = HTCONDOR_25.job_status_numbers
STATUS_NAMES: dict[int, JobStatus] = dict(enumerate(get_args(JobStatus), 1))
TERMINAL = frozenset({"Removed", "Completed"})
"""Where a job is at the end of its life, until it leaves the queue."""
OF_A_HOLD = ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")

Changes = dict[str, str]

COOL_DOWNS = "NumJobCoolDowns"
EXPIRATION = "JobCoolDownExpiration"
"""The last second of a job's cool-down."""


def quoted(text: str) -> str:
    """`text` as a ClassAd string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """The string that a literal made by `quoted` stands for; any other text as it is."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    if "\\" not in text:
        return text[1:-1]
    escapes = {"n": "\n", "t": "\t"}
    out, letters = [], iter(text[1:-1])
    for letter in letters:
        if letter == "\\":
            letter = next(letters, "")
            letter = escapes.get(letter, letter)
        out.append(letter)
    return "".join(out)


def hold_reason(why: Why) -> Changes:
    """What an ad says of why its job is held."""
    return _reason("HoldReason", why)


def vacate_reason(why: Why) -> Changes:
    """What an ad says of why its job's last run ended before it was done."""
    return _reason("VacateReason", why)


def _reason(name: str, why: Why) -> Changes:
    return {name: quoted(why.reason), f"{name}Code": str(why.code), f"{name}SubCode": str(why.subcode)}


def seconds(at: int) -> str:
    """An instant in microseconds as an ad has it: whole seconds."""
    return str(at // 1_000_000)


def real(microseconds: int) -> str:
    """An interval in microseconds as seconds, a real number."""
    return repr(microseconds / 1_000_000)


def parse_whole(text: str) -> int:
    """A whole number; 0 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


_BY_REASON = {
    "NumHolds": "NumHoldsByReason",
    "NumVacates": "NumVacatesByReason",
    "NumVacatesPreExecution": "NumVacatesByReasonPreExecution",
}
_COUNT = re.compile(r"(\w+) = (\d{1,18})", re.ASCII)


class _Attributes:
    """`changes` over the ad of the cluster: to read what an event adds to."""

    __slots__ = ("base", "changes")

    def __init__(self, changes: Changes, base: Mapping[str, str]) -> None:
        self.changes, self.base = changes, base

    def text(self, name: str, default: str = "") -> str:
        found = self.changes.get(name)
        return found if found is not None else self.base.get(name, default)

    def whole(self, name: str) -> int:
        """A whole number; 0 for what a user has put there instead of one."""
        return parse_whole(self.text(name))

    def is_recent(self) -> bool:
        """Whether the log says what the job's slot provides; older ones do not, and their ads stay as they were."""
        return bool(self.text("CpusProvisioned"))

    def add(self, name: str, amount: int = 1) -> None:
        self.changes[name] = str(self.whole(name) + amount)

    def count(self, name: str, code: str, protocol: str = "", times: int = 1) -> None:
        """Count a hold or vacate in ``name``, and in the ad beside it by the name of its code; of a transfer by what
        its files moved, too."""
        self.add(name, times)
        by_reason = _BY_REASON[name]
        counts = {each: int(number) for each, number in _COUNT.findall(self.text(by_reason))}
        reason = code_name(parse_whole(code))
        for each in (reason, f"{reason}{protocol}") if protocol else (reason,):
            counts[each] = counts.get(each, 0) + times
        pairs = "; ".join(f"{each} = {counts[each]}" for each in sorted(counts))
        self.changes[by_reason] = f"[ {pairs} ]"

    def move(self, name: str) -> None:
        """Keep what an attribute says as its former value, if it says anything."""
        text = self.text(name)
        if text and text != "undefined":
            self.changes[f"Last{name}"], self.changes[name] = text, ""

    def weighted(self, seconds: int) -> int:
        """So many seconds times the slot's weight, in microseconds."""
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
        self.changes[name] = real(before + microseconds)


def _status(changes: Changes, target: str, source: str, at: int) -> None:
    if target != source:
        changes["LastJobStatus"] = str(STATUS_NUMBERS[source])
    changes["JobStatus"] = str(STATUS_NUMBERS[target])
    changes["EnteredCurrentStatus"] = seconds(at)


def _moved(job: _Attributes, event: JobsTransitioned) -> None:
    if event.target != LEFT:  # which is no status: the history has the last that the job had
        _status(job.changes, event.target, event.source, event.at)
    if event.target == "Suspended" and job.is_recent():
        job.add("TotalSuspensions")
        job.changes["LastSuspensionTime"] = seconds(event.at)
    elif event.source == "Suspended":
        _continued(job, event.at)
    if event.reasons_kept:
        for name in FORMER.get(event.target, ()):
            job.move(name)
    job.changes.update(event.changes)
    if event.reasons_kept and event.target == "Held":
        job.count("NumHolds", event.changes.get("HoldReasonCode", "0"), times=event.holds)


def _continued(job: _Attributes, at: int) -> None:
    since = job.whole("LastSuspensionTime")
    if since:
        job.add("CumulativeSuspensionTime", max(0, at // 1_000_000 - since))
        job.changes["LastSuspensionTime"] = "0"


FORMER = {"Held": ("ReleaseReason",), "Removed": OF_A_HOLD}
"""What the ads of jobs keep as former reasons where they become this."""
REASONED = frozenset(FORMER)
"""The statuses for which ``JobsTransitioned`` says that reasons are kept."""


def _edited(job: _Attributes, event: JobsEdited) -> None:
    job.changes.update(event.changes)


def _materialized(job: _Attributes, event: JobsMaterialized) -> None:
    job.changes["JobMaterializeDate"] = seconds(event.at)


DEFERRAL_TIME = "DeferralTime"


def _deferred(job: _Attributes, event: JobsDeferred) -> None:
    job.changes[DEFERRAL_TIME] = seconds(event.until)


def _activated(job: _Attributes, event: JobActivated) -> None:
    changes, now = job.changes, seconds(event.at)
    before = job.text("JobCurrentStartDate")
    _status(changes, "Running", "Idle", event.at)
    changes["RemoteHost"] = quoted(event.slot)
    changes["PublicClaimId"] = quoted(event.claim)
    changes["LastMatchTime"] = changes["JobCurrentStartDate"] = changes["ShadowBday"] = now
    changes["CurrentHosts"] = "1"
    for name in ("NumJobMatches", "NumShadowStarts", "JobRunCount"):
        job.add(name)
    if event.provides:
        if before:
            changes["JobLastStartDate"] = before
        _provided(job, event.provides)
    changes.update(event.expanded)
    for name in _VACATED:
        if changes.get(name):
            changes[name] = ""
    if not job.text("JobStartDate"):
        changes["JobStartDate"] = changes["FirstJobMatchDate"] = now
        changes["InitialWaitDuration"] = str(int(now) - (job.whole("QDate") or int(now)))


_VACATED = ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")
_PROVISIONED = ("Cpus", "Disk", "GPUs", "Memory")
_OF_THE_MACHINE = ("Cpus", "SlotWeight")
"""SYSTEM_JOB_MACHINE_ATTRS."""


def _provided(job: _Attributes, slot: Mapping[str, str]) -> None:
    changes = job.changes
    changes.update({f"{name}Provisioned": slot[name] for name in _PROVISIONED if name in slot})
    wanted = job.text("JobMachineAttrs")
    if not wanted:
        changes.update({f"MachineAttr{name}0": slot[name] for name in _OF_THE_MACHINE if name in slot})
        return
    kept = max(1, min(job.whole("JobMachineAttrsHistoryLength"), _HISTORY_MOST))
    for name in dict.fromkeys((*machine_attributes(wanted), *_OF_THE_MACHINE)):
        for run in range(kept - 1, 0, -1):
            before = job.text(f"MachineAttr{name}{run - 1}")
            if before:
                changes[f"MachineAttr{name}{run}"] = before
        changes[f"MachineAttr{name}0"] = slot.get(name, "undefined")


_HISTORY_MOST = 1000  #: runs of which an ad keeps attributes of the slots


def machine_attributes(text: str) -> list[str]:
    """The names in a JobMachineAttrs."""
    return unquoted(text).replace(",", " ").split()


_WAYS = {
    "input": ("In", "Input", "BytesRecvd"),
    "output": ("Out", "Output", "BytesSent"),
    "checkpoint": ("Out", "Output", "BytesSent"),
}
"""What the names of a transfer's attributes have in them, and what it adds to: as the job sees it."""


def _transfer_began(job: _Attributes, event: JobTransferBegan) -> None:
    short, long, _ = _WAYS[event.way]
    changes, now = job.changes, seconds(event.began or event.at)
    changes[f"Transferring{long}"] = "true"
    changes[f"Transfer{short}Started"] = changes[f"JobCurrentStartTransfer{long}Date"] = now
    changes[f"JobCurrentFinishTransfer{long}Date"] = "-1"
    job.add(f"Num{long}TransferStarts")


def _transfer_ended(job: _Attributes, event: JobTransferEnded) -> None:
    short, long, total = _WAYS[event.way]
    changes, now = job.changes, seconds(event.ended or event.at)
    changes[f"Transferring{long}"] = ""
    changes[f"Transfer{short}Finished"] = now
    if event.way == "input":  # the shadow's last word on an output comes before that is over
        listed = [(_word(protocol), count) for protocol, count, _, _ in event.urls] + [("CEDAR", event.listed)]
        changes["TransferInputFileCounts"] = _record(listed)
        for name, nothing in (("TransferOutputStats", "[  ]"), ("BytesSent", "0.0")):
            if not job.text(name):
                changes[name] = nothing
        if not event.failed:
            changes["JobCurrentFinishTransferInputDate"] = now
    if event.way == "checkpoint":  # of which the reference counts no bytes
        if not event.failed:
            changes["CheckpointNumber"] = str(int(job.text("CheckpointNumber", "-1") or -1) + 1)
        return
    before = dict(_COUNT.findall(job.text(f"Transfer{long}Stats")))
    moved = [(_word(protocol), size, files) for protocol, _, files, size in event.urls]
    moved.append(("Cedar", event.size, event.files))
    counts = {f"{whose}SizeBytes": size for whose, size, _ in moved}
    counts |= {f"{whose}FilesCount": files for whose, _, files in moved}
    sums = {name.removesuffix("Total"): int(count) for name, count in before.items() if name.endswith("Total")}
    totals = [(f"{name}Total", sums.get(name, 0) + counts.get(name, 0)) for name in {**counts, **sums}]
    changes[f"Transfer{long}Stats"] = _record([*totals, *((f"{name}LastRun", count) for name, count in counts.items())])
    job.add_real(total, 0 if event.failed else sum(size for _, size, _ in moved) * 1_000_000)


def _word(protocol: str) -> str:
    """Return a protocol as the beginning of an attribute's name."""
    word = _NO_LETTER.sub("_", protocol.upper())
    return word if word[:1].isalpha() else f"_{word}"


_NO_LETTER = re.compile(r"\W", re.ASCII)


def _record(counts: list[tuple[str, int]]) -> str:
    """Return an ad of counts, without those that are 0."""
    return f"[ {'; '.join(f'{name} = {count}' for name, count in counts if count)} ]"


def _executing(job: _Attributes, event: JobExecuting) -> None:
    job.changes["JobCurrentStartExecutingDate"] = seconds(event.began or event.at)
    job.add("NumJobStarts")


def _measured(job: _Attributes, event: JobMeasured) -> None:
    changes = job.changes
    changes["ImageSize"] = str(event.image)
    changes["ResidentSetSize"] = str(event.resident)
    changes["MemoryUsage"] = "((ResidentSetSize + 1023) / 1024)"
    changes["DiskUsage"] = str(event.disk)
    changes["RemoteUserCpu"] = real(event.user_cpu)
    changes["RemoteSysCpu"] = real(event.system_cpu)


def _reported(job: _Attributes, event: JobExited) -> None:
    """What whoever watched the run tells of its end."""
    changes = job.changes
    changes["RemoteUserCpu"] = real(event.user_cpu)
    changes["RemoteSysCpu"] = real(event.system_cpu)
    # HTCondor 25 never sets ExitStatus, and keeps the ExitSignal of an earlier run beside a later one's ExitCode. By
    # older logs ExitStatus was the code, and the ad had the last run's end alone.
    recent = job.is_recent()
    if event.resident > job.whole("ResidentSetSize"):
        changes["ResidentSetSize"] = str(event.resident)
        changes["MemoryUsage"] = "((ResidentSetSize + 1023) / 1024)"
    if event.disk:
        changes["DiskUsage"] = str(event.disk)
    if event.signal is not None and recent:
        died = _SIGNALS.get(event.signal, f"Unknown signal {event.signal}")
        changes["ExitReason"] = quoted(f"died on signal {event.signal} ({died})")
    if event.outcome == "exited" or _told_of_its_end(event):
        changes["ExitBySignal"] = "true" if event.signal is not None else "false"
        for name, number in (("ExitCode", event.code), ("ExitSignal", event.signal)):
            if number is not None:
                changes[name] = str(number)
            elif not recent:
                changes[name] = ""
    if event.outcome == "exited":
        changes["ExitStatus"] = "0" if recent or event.code is None else str(event.code)
        job.add("NumJobCompletions")


def _told_of_its_end(event: JobExited) -> bool:
    """Whether the ad also says how the process of a job ended that was stopped (in older logs it does not)."""
    return "VacateReasonCode" in event.changes and (event.code is not None or event.signal is not None)


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
"""What Linux calls its signals, as an ExitReason has them."""


def began_in_vain(event: JobExited) -> bool:
    """Whether a run's process was to begin and could not. The reference counts it as begun: the starter says so before
    it tries (in older logs it does not count)."""
    code = event.changes.get("HoldReasonCode")
    return event.outcome == "failed" and code == FAILED_TO_CREATE_PROCESS and event.reasons_kept


FAILED_TO_CREATE_PROCESS = "6"


def _exited(job: _Attributes, event: JobExited) -> None:
    changes = job.changes
    began = job.whole("JobCurrentStartDate")
    ended = event.ended or event.at
    wall = max(0, ended // 1_000_000 - began) if began else 0
    job.add_real("RemoteWallClockTime", wall * 1_000_000)
    job.add_real("CumulativeSlotTime", job.weighted(wall))
    changes["LastRemoteWallClockTime"] = real(wall * 1_000_000)
    job.add_real("CumulativeRemoteUserCpu", event.user_cpu)
    job.add_real("CumulativeRemoteSysCpu", event.system_cpu)
    changes["LastRemoteHost"] = job.text("RemoteHost")
    changes["LastPublicClaimId"] = job.text("PublicClaimId")
    changes["CurrentHosts"] = "0"
    if not job.is_recent():
        changes["JobLastStartDate"] = str(began) if began else ""
    for name in ("RemoteHost", "PublicClaimId", "ShadowBday"):
        changes[name] = ""
    for name in ("TransferringInput", "TransferringOutput"):
        if job.text(name):
            changes[name] = ""
    _continued(job, ended)
    if began_in_vain(event):
        changes["JobCurrentStartExecutingDate"] = seconds(ended)
        job.add("NumJobStarts")
    _reported(job, event)
    _vacated(job, event)
    if event.target == "Completed":
        changes["CompletionDate"] = seconds(ended)
        job.add_real("CommittedSlotTime", job.weighted(wall))
        job.add("CommittedTime", wall)
    if event.row:
        source = event.source or STATUS_NAMES.get(job.whole("JobStatus"), "Running")
        _status(changes, event.target, source, event.at)
    changes.update(event.changes)
    if event.reasons_kept:
        job.count("NumHolds", event.changes.get("HoldReasonCode", "0"))


def _vacated(job: _Attributes, event: JobExited) -> None:
    """Count an eviction. That of a job that has ended by itself came before, from a periodic policy."""
    if event.outcome == "exited" and "VacateReasonCode" not in event.changes:
        return
    job.changes["LastVacateTime"] = seconds(event.ended or event.at)
    code = event.changes.get("VacateReasonCode")
    if code is None:  # an older log
        job.add("NumVacates")
        return
    by_files = event.cause == "transfer_failed" and code in _TRANSFER_ERRORS
    protocol = (event.protocol.capitalize() or "Cedar") if by_files else ""
    job.count("NumVacates", code, protocol, event.vacates)
    if job.whole("JobCurrentStartExecutingDate") < job.whole("JobCurrentStartDate"):
        job.count("NumVacatesPreExecution", code, protocol)


_TRANSFER_ERRORS = ("12", "13")


_FOLDS: dict[type[Event], Callable[..., None]] = {
    JobsTransitioned: _moved,
    JobsEdited: _edited,
    JobsMaterialized: _materialized,
    JobsDeferred: _deferred,
    JobActivated: _activated,
    JobTransferBegan: _transfer_began,
    JobTransferEnded: _transfer_ended,
    JobExecuting: _executing,
    JobMeasured: _measured,
    JobExited: _exited,
}


def fold_job(changes: Changes, base: Mapping[str, str], event: Event) -> None:
    """Fold `event`, which is about this job, into its `changes`; `base` is the ad of its cluster. An event that means
    nothing for the ad leaves it as it is."""
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(_Attributes(changes, base), event)


def count_hold(changes: Changes, base: Mapping[str, str], code: str) -> None:
    """Count a hold for the reason of this code."""
    _Attributes(changes, base).count("NumHolds", code)


def at_exit(attributes: Mapping[str, str], exited: JobExited) -> Changes:
    """The ad of a job that has just ended by itself, as its own policy sees it: what is known of the end is there, the
    job still is where it ran, and its status is what it was (the shadow's copy of the ad, in the reference)."""
    changes: Changes = {}
    job = _Attributes(changes, attributes)
    _reported(job, exited)
    _vacated(job, exited)
    return {**attributes, **changes}


EXPANDED = "MATCH_EXP_"
"""What an attribute's name has in front where the ad keeps it with all that the slot filled in."""


def initial_ad(ad: Mapping[str, str]) -> dict[str, str]:
    """The ad with which a job's processes begin: what was filled in stands where it was asked for."""
    return {**ad, **{name.removeprefix(EXPANDED): text for name, text in ad.items() if name.startswith(EXPANDED)}}
