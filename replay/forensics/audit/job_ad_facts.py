"""Read the facts of jobs out of ads: history, epochs, startd history, queue. Only the attributes in ``ATTRIBUTES`` are
read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pkgutil import get_data
from typing import Final

from ....domain.imported.packed_ads import plain
from ....domain.units import SECOND
from ...narration.sentence_tables import tables
from .audit_statements import JobAccount, RecordedRun, Statement, StatementSource
from .tolerances import ANY, LINGERING, NEAR, ROUNDED

READ: Final = {
    kind: tuple(names.split())
    for kind, names in tables(get_data(__package__, "read_attributes.txt"))["attributes"].items()
}
ATTRIBUTES: Final = READ["checkpointing"] + READ["jobs"]
"""All attributes that are read of a job's ad."""

REMOVED, COMPLETED, HELD = 3, 4, 5
STATUSES: Final = {
    1: "idle", 2: "running", REMOVED: "removed", COMPLETED: "completed", HELD: "held", 6: "transferring output",
    7: "suspended",
}  # fmt: skip
"""The words of JobStatus. A job leaves the queue only with the third or the fourth."""
ON_SLOTS: Final = frozenset({5, 10, 13})
"""The universes with one slot at a time: vanilla, java, vm. Others' usage and starts are counted in other ways."""
ON_A_SLOT: Final = frozenset({2, 6, 7})
"""The JobStatus of a job that has a slot: running, transferring output, suspended."""

_NUMBER: Final = re.compile(r"#(\d+\.\d+)#\d+$")
_HOLDS: Final = re.compile(r"\b(\w+) = (\d{1,9})\b")
COUNTED_ONCE: Final = frozenset({"UserRequest"})
"""The hold codes that the schedd sets itself, and so counts once. A shadow that puts its job on hold may count that at
each evaluation of its policy until it exits."""

Ad = Mapping[str, str]


def whole(ad: Ad, name: str) -> int | None:
    """Return a whole number of an ad."""
    text = ad.get(name, "")
    try:
        return int(text)
    except ValueError:
        return None


def text_of(ad: Ad, name: str) -> str:
    """Return a text of an ad; empty if it has none, or an expression."""
    text = ad.get(name, "")
    return plain(text) if text.startswith('"') else ""


def seconds(ad: Ad, name: str, unit: int = SECOND) -> int | None:
    """Return seconds of an ad, in microseconds; or another amount, rounded to its `unit`."""
    try:
        value = round(float(ad.get(name, "")) * unit)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < ANY else None


def date(ad: Ad, name: str) -> int | None:
    """Return an instant of an ad in microseconds; None for 0 or less."""
    micros = seconds(ad, name)
    return micros if micros is not None and micros > 0 else None


def _holds(ad: Ad) -> tuple[int, bool] | None:
    """Return how many times a job was put on hold, and whether that is exact; else it is an upper bound. HTCondor
    counts a submission on hold, which no entry tells."""
    holds = whole(ad, "NumHolds") if "NumHolds" in ad else 0
    if not holds:
        return None if holds is None else (0, True)
    text = ad.get("NumHoldsByReason")
    if text is None:
        return None
    reasons = {name: int(count) for name, count in _HOLDS.findall(text)}
    holds -= reasons.pop("SubmittedOnHold", 0)
    return holds, reasons.keys() <= COUNTED_ONCE


def ad_told(place: StatementSource, ad: Ad, final: bool) -> JobAccount | None:
    """Return what an ad of a job states; None if it lacks the submission time. `final`: of when the job left the
    queue."""
    submitted = date(ad, "JobMaterializeDate") or date(ad, "QDate")
    if submitted is None:
        return None
    ended = _end(place, ad) if final else None
    last = max(_sampled(place, ad) if not final else 0, ended or 0, submitted)
    account = JobAccount(submitted, submitted, last, text_of(ad, "GlobalJobId"))
    account.reconnected = any(whole(ad, name) for name in ("NumJobReconnects", "TotalJobReconnectAttempts"))
    account.said += _who(place, ad)
    account.said += [place.measures("submitted", submitted), *place.known("ended", ended)]
    if final:
        account.said += _became(place, ad)
    completed = whole(ad, "JobStatus") == COMPLETED
    if whole(ad, "JobUniverse") in ON_SLOTS:
        account.said += _amounts(place, ad, final, completed)
    account.runs += _run(place, ad, completed)
    account.last = max([last, *(run.span[1] for run in account.runs if run.span is not None)])
    return account


def _end(place: StatementSource, ad: Ad) -> int | None:
    """Return when a job left the queue; None if it was removed after it completed, since two records show that."""
    status, completed = whole(ad, "JobStatus"), date(ad, "CompletionDate")
    if place.letter not in "HQ" or status not in (COMPLETED, REMOVED):
        return None
    if status == COMPLETED:
        return completed
    return date(ad, "EnteredCurrentStatus") if completed is None else None


def _became(place: StatementSource, ad: Ad) -> list[Statement]:
    """Return the outcome of a job that left the queue: both, for one that was removed after it was completed."""
    status, completed = whole(ad, "JobStatus"), date(ad, "CompletionDate") is not None
    if status not in STATUSES or (status not in (COMPLETED, REMOVED) and place.letter != "H"):
        return []
    if status == REMOVED and completed and whole(ad, "LastJobStatus") in (None, COMPLETED):
        return []
    statements = [place.says("became", STATUSES[status])]
    if completed and status != COMPLETED:
        statements.append(place.says("became", STATUSES[COMPLETED]))
    return statements


def _sampled(place: StatementSource, ad: Ad) -> int:
    """Return when an ad of the queue was valid: its job was there at least until then."""
    sampled = place.at if place.letter == "Q" else date(ad, "ServerTime") if place.letter == "A" else None
    return sampled or date(ad, "EnteredCurrentStatus") or 0


def _who(place: StatementSource, ad: Ad) -> list[Statement]:
    user = text_of(ad, "User")
    if not user:
        return []
    group = text_of(ad, "AccountingGroup")
    domain = user.partition("@")[2]
    submitter = user if not group else group if "@" in group or not domain else f"{group}@{domain}"
    statements = [place.says("user", user), place.says("submitter", submitter)]
    if (owner := text_of(ad, "Owner")) and owner != user.partition("@")[0]:
        statements.append(place.says("user", owner))
    number = f"{ad.get('ClusterId')}.{ad.get('ProcId')}"
    statements.append(place.says("number", number))
    if (named := _NUMBER.search(text_of(ad, "GlobalJobId"))) and named[1] != number:
        statements.append(place.says("number", named[1]))
    return statements


def _amounts(place: StatementSource, ad: Ad, final: bool, completed: bool) -> list[Statement]:
    more = None if final else ANY
    statements = [] if place.letter == "S" else place.known("starts", whole(ad, "NumJobStarts"), more=more)
    holds, exact = _holds(ad) or (None, False)
    wall = seconds(ad, "RemoteWallClockTime")
    if place.letter != "S" and (exact or final):
        statements += place.known("holds", holds, less=None if exact else ANY, more=more)
    if place.letter in "HQA":
        statements += place.known("wall", wall, more=more)
    if place.letter in "PA" or (place.letter in "HQ" and (completed or not final)):
        for fact, (name, unit) in _TOTALS.items():
            statements += place.known(fact, seconds(ad, name, unit), more=more)
    if place.letter == "P" and (before := (whole(ad, "NumShadowStarts") or 0) - 1) > 0:
        by = "RemoteWallClockTime of the next run"
        statements += place.known("wall_runs", wall, less=0, more=0, number=before, by=by)
    if place.letter in "HQ" and final:
        statements += _of_one_shadow(place, ad, completed)
    if place.letter in "HQA" and holds and exact:
        name = "HoldReasonCode" if whole(ad, "JobStatus") == HELD else "LastHoldReasonCode"
        if (code := whole(ad, name)) is not None:
            statements.append(place.says("hold", str(code), holds))
    return statements


_TOTALS: Final = {
    "user_cpu": ("CumulativeRemoteUserCpu", SECOND), "system_cpu": ("CumulativeRemoteSysCpu", SECOND),
    "sent": ("BytesSent", 1), "received": ("BytesRecvd", 1),
}  # fmt: skip
"""What all runs used: the attributes, and their units."""


def _of_one_shadow(place: StatementSource, ad: Ad, completed: bool) -> list[Statement]:
    """Return the time on slots of all of a job's shadows; of a single shadow in all the ad's ways, with the CPU
    time."""
    shadows, wall = whole(ad, "NumShadowStarts"), seconds(ad, "RemoteWallClockTime")
    if shadows is None or wall is None:
        return []
    statements = list[Statement]()

    def ran(value: int | None, by: str, number: int = shadows, less: int | None = 0, more: int | None = 0) -> None:
        statements.extend(place.known("wall_runs", value, less=less, more=more, number=number, by=by))

    ran(wall, "RemoteWallClockTime")
    if not _checkpoints(ad):
        ran(seconds(ad, "CommittedTime"), "CommittedTime", less=None, more=ANY)
    last = seconds(ad, "LastRemoteWallClockTime")
    if shadows > 1 and last is not None:
        ran(wall - last, "RemoteWallClockTime less LastRemoteWallClockTime", shadows - 1)
    if shadows != 1:
        return statements
    ran(last, "LastRemoteWallClockTime")
    weighted, weight = seconds(ad, "CumulativeSlotTime"), seconds(ad, "MachineAttrSlotWeight0")
    if weighted is not None and weight:
        value = round(weighted * SECOND / weight)
        ran(value, "CumulativeSlotTime by MachineAttrSlotWeight0", less=ROUNDED, more=ROUNDED)
    placed, ended = date(ad, "JobCurrentStartDate"), date(ad, "CompletionDate" if completed else "EnteredCurrentStatus")
    if placed is not None and ended is not None:
        ran(ended - placed, "JobCurrentStartDate to its end", less=None if completed else ANY, more=None)
    for fact, name in (("user_cpu", "RemoteUserCpu"), ("system_cpu", "RemoteSysCpu")) if completed else ():
        statements += place.known(fact, seconds(ad, name), by=name)
    return statements


def _run(place: StatementSource, ad: Ad, completed: bool) -> list[RecordedRun]:
    placed = date(ad, "JobCurrentStartDate")
    if placed is None:
        return []
    run = RecordedRun(placed, shadow=whole(ad, "NumShadowStarts") or 0)
    if whole(ad, "JobUniverse") in ON_SLOTS:
        _where(place, ad, run, placed)
    run.stopped = _stop(place, ad, completed)
    if place.letter in "PS":
        run.said += place.known("stopped", run.stopped)
    if run.stopped is None and place.letter in "AQ" and whole(ad, "JobStatus") in ON_A_SLOT:
        run.stopped = max(_sampled(place, ad), placed)  # the run continues at least until then
        return [run]
    if place.letter in "PS" or completed:
        run.said += _outcome(place, ad)
        if whole(ad, "JobUniverse") in ON_SLOTS:
            run.said += _times(place, ad, run, placed) + _sizes(place, ad)
    return [run]


def _checkpoints(ad: Ad) -> bool:
    """Return True if the job writes checkpoints itself: its CommittedTime counts from when its program began."""
    return any(name in ad for name in READ["checkpointing"])


def _where(place: StatementSource, ad: Ad, run: RecordedRun, placed: int) -> None:
    """Add the slot, the claim and the beginning of a run."""
    # A job removed while it runs keeps its attributes, and the names with Last are of the run before.
    now = place.letter in "PS" or "RemoteHost" in ad or (place.letter in "AQ" and whole(ad, "JobStatus") in ON_A_SLOT)
    slot, claim = ("RemoteHost", "PublicClaimId") if now else ("LastRemoteHost", "LastPublicClaimId")
    run.said.append(place.measures("placed", placed))
    for fact, name in (("slot", slot), ("claim", claim)):
        run.said += place.named(fact, text_of(ad, name).removesuffix("#..."))
    if place.letter == "S":
        run.said += place.known("began", date(ad, "JobStartDate"))
    began = date(ad, "JobCurrentStartExecutingDate")
    # A starter's ad has the value of the run before, and so has the job's until the program runs.
    soonest = placed + 1 if now and place.letter != "P" else placed
    if place.letter != "S" and began is not None and began >= soonest:
        run.began = began
        run.said.append(place.measures("began", began))


def _stop(place: StatementSource, ad: Ad, over: bool) -> int | None:
    if place.letter == "P":
        return date(ad, "EpochWriteDate")
    if place.letter == "S":  # without a duration the program never ran, and cleanup was much later
        return date(ad, "CompletionDate") if "JobDuration" in ad else None
    return date(ad, "CompletionDate") if over else None


def _outcome(place: StatementSource, ad: Ad) -> list[Statement]:
    statements = []
    by_signal = ad.get("ExitBySignal", "").lower() == "true"
    name, word = ("ExitSignal", "signal") if by_signal else ("ExitCode", "code")
    # A starter that must be quick sends no final update: a vacated run keeps the values from before.
    stale = place.letter == "P" and "VacateReasonCode" in ad and (whole(ad, "NumShadowStarts") or 0) > 1
    if "ExitBySignal" in ad and (value := whole(ad, name)) is not None and not stale:
        statements.append(place.says("exit", f"{word} {value}"))
    # A starter that must be quick kills its job, and its last measurement may not reach the shadow.
    less = ANY if place.letter == "S" and by_signal else None
    if whole(ad, "JobUniverse") in ON_SLOTS:
        statements += place.known("run_user_cpu", seconds(ad, "RemoteUserCpu"), less=less)
        statements += place.known("run_system_cpu", seconds(ad, "RemoteSysCpu"), less=less)
    return statements


def _added(runs: list[RecordedRun]) -> Iterator[Statement]:
    """Yield the time on slots of a job's first run, of its first two, and so on, up to the first gap."""
    by_shadow = {run.shadow: run for run in runs}
    total, number = 0, 1
    while len(by_shadow) == len(runs) and (run := by_shadow.get(number)) is not None:
        if run.placed is None or run.stopped is None or not run.said:
            return
        total += max(0, run.stopped - run.placed)
        statement = run.said[0]
        place = StatementSource(statement.letter, statement.source, statement.line, statement.at)
        less, more = NEAR * number, LINGERING * number
        yield place.measures("wall_runs", total, less=less, more=more, number=number, by="EpochWriteDate")
        number += 1


def _times(place: StatementSource, ad: Ad, run: RecordedRun, placed: int) -> list[Statement]:
    """Return the duration of a run, in every way in which the ad states it."""
    statements = list[Statement]()

    def say(fact: str, name: str, less: int | None = None, more: int | None = None) -> None:
        statements.extend(place.known(fact, seconds(ad, name), less=less, more=more, by=name))

    if place.letter == "S":
        if "JobDuration" in ad:
            say("run_wall", "RemoteWallClockTime")
            say("run_wall", "JobDuration", NEAR, ANY)
        return statements
    if run.stopped is not None:
        by = f"JobCurrentStartDate to {'EpochWriteDate' if place.letter == 'P' else 'CompletionDate'}"
        statements.append(place.measures("run_wall", run.stopped - placed, by=by))
    if place.letter != "P":
        say("run_wall", "LastRemoteWallClockTime", 0, 0)
        if run.shadow == 1 and not _checkpoints(ad):
            say("run_wall", "CommittedTime")
    if run.began is not None:  # else these are of the run before
        say("run_wall", "ActivationDuration", NEAR, ANY)
        say("busy", "ActivationDuration")
        say("executed", "ActivationExecutionDuration")
    return statements


def _sizes(place: StatementSource, ad: Ad) -> list[Statement]:
    """Return what a run needed. An event log has it rounded for matchmaking, or as measured."""
    statements = []
    if place.letter in "HQA":
        used = whole(ad, "ResidentSetSize_RAW")
        if used is not None and "ResidentSetSize" in ad.get("MemoryUsage", ""):
            statements.append(place.measures("memory", -(-used // 1024), more=-(-used // 1024) + 1))
        if (used := whole(ad, "DiskUsage_RAW")) is not None:
            statements.append(place.measures("disk", used, more=used + 1))
    return statements


def epochs_told(accounts: Iterable[tuple[StatementSource, JobAccount]]) -> list[JobAccount]:
    """Return what the epoch ads of one job number tell, joined by submission; one run may be in two ads."""
    jobs: dict[str, JobAccount] = {}
    spans: dict[str, list[tuple[int, int, StatementSource]]] = {}
    for place, account in accounts:
        key = account.job or str(account.submitted)
        job = jobs.setdefault(key, JobAccount(account.submitted, account.first, account.last, account.job, log="P"))
        for run in account.runs:
            if not any((run.placed, run.stopped) == (other.placed, other.stopped) for other in job.runs):
                job.runs.append(run)
            if run.placed is not None and run.stopped is not None:
                job.last = max(job.last, run.stopped)
                spans.setdefault(key, []).append((run.placed, run.stopped, place))
        job.said += account.said
    for key, epochs in spans.items():
        epochs.sort(key=lambda span: span[:2])
        total = sum(end - begin for begin, end, _ in epochs)
        total -= sum(max(0, one[1] - other[0]) for one, other in pairwise(epochs))
        wall = epochs[-1][2].measures("wall", max(total, 0), less=NEAR * len(epochs))
        jobs[key].said += [wall, *_added(jobs[key].runs)]
    return list(jobs.values())
