"""Extract the facts of jobs from ads: history, epochs, startd history, queue. Only the attributes in ``ATTRIBUTES`` are
read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from ....domain.imported.packed_ads import unquoted
from ....domain.package_data import get_data
from ....domain.units import SECOND
from ...narration.sentence_tables import tables
from .audit_statements import JobAccount, RecordedRun, Statement, StatementSource
from .tolerances import ANY, LINGERING, NEAR, ROUNDED

READ: Final = {
    kind: tuple(names.split())
    for kind, names in tables(get_data(__package__, "read_attributes.txt"))["attributes"].items()
}
ATTRIBUTES: Final = READ["checkpointing"] + READ["jobs"]  #: all attributes of a job's ad that are read

REMOVED, COMPLETED, HELD = 3, 4, 5
STATUSES: Final = {
    1: "idle", 2: "running", REMOVED: "removed", COMPLETED: "completed", HELD: "held", 6: "transferring output",
    7: "suspended",
}  # fmt: skip
"""The names of JobStatus values. A job leaves the queue only as removed or completed."""
ON_SLOTS: Final = frozenset({5, 10, 13})
"""The universes whose jobs use one slot at a time: vanilla, java, vm. HTCondor counts usage and starts of the others
differently."""
ON_A_SLOT: Final = frozenset({2, 6, 7})
"""The JobStatus of a job that has a slot: running, transferring output, suspended."""

_NUMBER: Final = re.compile(r"#(\d+\.\d+)#\d+$")
_HOLDS: Final = re.compile(r"\b(\w+) = (\d{1,9})\b")
COUNTED_ONCE: Final = frozenset({"UserRequest"})
"""The hold codes that the schedd itself sets, and so counts once. A shadow that puts its job on hold may count the hold
again at each policy evaluation until it exits."""

Ad = Mapping[str, str]


def int_of(ad: Ad, name: str) -> int | None:
    """Return an integer attribute of an ad, or None if it has no such value."""
    text = ad.get(name, "")
    try:
        return int(text)
    except ValueError:
        return None


def text_of(ad: Ad, name: str) -> str:
    """Return a string attribute of an ad, or an empty string if it is missing or an expression."""
    text = ad.get(name, "")
    return unquoted(text) if text.startswith('"') else ""


def seconds(ad: Ad, name: str, unit: int = SECOND) -> int | None:
    """Return a duration in an ad (in seconds) as microseconds, or another amount as multiples of 1/`unit`, rounded."""
    try:
        value = round(float(ad.get(name, "")) * unit)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) < ANY else None


def date(ad: Ad, name: str) -> int | None:
    """Return an instant in an ad, in microseconds, or None if it is not positive."""
    microseconds = seconds(ad, name)
    return microseconds if microseconds is not None and microseconds > 0 else None


def _hold_count(ad: Ad) -> tuple[int, bool] | None:
    """Return how many times a job was put on hold, and True if this is exact or False if it is an upper bound. HTCondor
    counts a submission on hold, which has no log entry."""
    holds = int_of(ad, "NumHolds") if "NumHolds" in ad else 0
    if not holds:
        return None if holds is None else (0, True)
    text = ad.get("NumHoldsByReason")
    if text is None:
        return None
    reasons = {name: int(count) for name, count in _HOLDS.findall(text)}
    holds -= reasons.pop("SubmittedOnHold", 0)
    return holds, reasons.keys() <= COUNTED_ONCE


def account_of_ad(origin: StatementSource, ad: Ad, final: bool) -> JobAccount | None:
    """Return the job according to one of its ads, or None if the ad has no submission time. `final`: the ad is from
    when the job left the queue."""
    submitted = date(ad, "JobMaterializeDate") or date(ad, "QDate")
    if submitted is None:
        return None
    ended = _departure(origin, ad) if final else None
    last = max(_sample_time(origin, ad) if not final else 0, ended or 0, submitted)
    account = JobAccount(submitted, submitted, last, text_of(ad, "GlobalJobId"))
    account.reconnected = any(int_of(ad, name) for name in ("NumJobReconnects", "TotalJobReconnectAttempts"))
    account.statements += _owner_statements(origin, ad)
    account.statements += [origin.value_statement("submitted", submitted), *origin.known_value("ended", ended)]
    if final:
        account.statements += _outcome_statements(origin, ad)
    completed = int_of(ad, "JobStatus") == COMPLETED
    if int_of(ad, "JobUniverse") in ON_SLOTS:
        account.statements += _amount_statements(origin, ad, final, completed)
    account.runs += _runs_of_ad(origin, ad, completed)
    account.last = max([last, *(run.span[1] for run in account.runs if run.span is not None)])
    return account


def _departure(origin: StatementSource, ad: Ad) -> int | None:
    """Return when a job left the queue, or None if it was removed after it completed, because two records show this."""
    status, completion_time = int_of(ad, "JobStatus"), date(ad, "CompletionDate")
    if origin.letter not in "HQ" or status not in (COMPLETED, REMOVED):
        return None
    if status == COMPLETED:
        return completion_time
    return date(ad, "EnteredCurrentStatus") if completion_time is None else None


def _outcome_statements(origin: StatementSource, ad: Ad) -> list[Statement]:
    """Return the outcome of a job that left the queue, or both outcomes if it was removed after it completed."""
    status, completed = int_of(ad, "JobStatus"), date(ad, "CompletionDate") is not None
    if status not in STATUSES or (status not in (COMPLETED, REMOVED) and origin.letter != "H"):
        return []
    if status == REMOVED and completed and int_of(ad, "LastJobStatus") in (None, COMPLETED):
        return []
    statements = [origin.text_statement("became", STATUSES[status])]
    if completed and status != COMPLETED:
        statements.append(origin.text_statement("became", STATUSES[COMPLETED]))
    return statements


def _sample_time(origin: StatementSource, ad: Ad) -> int:
    """Return when an ad of the queue was valid: the job was in the queue at least until then."""
    sample_time = origin.at if origin.letter == "Q" else date(ad, "ServerTime") if origin.letter == "A" else None
    return sample_time or date(ad, "EnteredCurrentStatus") or 0


def _owner_statements(origin: StatementSource, ad: Ad) -> list[Statement]:
    user = text_of(ad, "User")
    if not user:
        return []
    group = text_of(ad, "AccountingGroup")
    domain = user.partition("@")[2]
    submitter = user if not group else group if "@" in group or not domain else f"{group}@{domain}"
    statements = [origin.text_statement("user", user), origin.text_statement("submitter", submitter)]
    if (owner := text_of(ad, "Owner")) and owner != user.partition("@")[0]:
        statements.append(origin.text_statement("user", owner))
    number = f"{ad.get('ClusterId')}.{ad.get('ProcId')}"
    statements.append(origin.text_statement("number", number))
    if (global_id_match := _NUMBER.search(text_of(ad, "GlobalJobId"))) and global_id_match[1] != number:
        statements.append(origin.text_statement("number", global_id_match[1]))
    return statements


def _amount_statements(origin: StatementSource, ad: Ad, final: bool, completed: bool) -> list[Statement]:
    above = None if final else ANY
    statements = [] if origin.letter == "S" else origin.known_value("starts", int_of(ad, "NumJobStarts"), above=above)
    holds, is_exact = _hold_count(ad) or (None, False)
    wall = seconds(ad, "RemoteWallClockTime")
    if origin.letter != "S" and (is_exact or final):
        statements += origin.known_value("holds", holds, below=None if is_exact else ANY, above=above)
    if origin.letter in "HQA":
        statements += origin.known_value("wall", wall, above=above)
    if origin.letter in "PA" or (origin.letter in "HQ" and (completed or not final)):
        for fact, (name, unit) in _TOTALS.items():
            statements += origin.known_value(fact, seconds(ad, name, unit), above=above)
    if origin.letter == "P" and (earlier_runs := (int_of(ad, "NumShadowStarts") or 0) - 1) > 0:
        basis = "RemoteWallClockTime of the next run"
        statements += origin.known_value("wall_runs", wall, below=0, above=0, number=earlier_runs, basis=basis)
    if origin.letter in "HQ" and final:
        statements += _time_statements(origin, ad, completed)
    if origin.letter in "HQA" and holds and is_exact:
        name = "HoldReasonCode" if int_of(ad, "JobStatus") == HELD else "LastHoldReasonCode"
        if (code := int_of(ad, name)) is not None:
            statements.append(origin.text_statement("hold", str(code), holds))
    return statements


_TOTALS: Final = {
    "user_cpu": ("CumulativeRemoteUserCpu", SECOND), "system_cpu": ("CumulativeRemoteSysCpu", SECOND),
    "sent": ("BytesSent", 1), "received": ("BytesRecvd", 1),
}  # fmt: skip
"""The attributes for the total usage of all runs, and their units."""


def _time_statements(origin: StatementSource, ad: Ad, completed: bool) -> list[Statement]:
    """Return the time on slots of all of a job's shadows. For a single shadow, include every attribute that states it,
    and the CPU time."""
    shadows, wall = int_of(ad, "NumShadowStarts"), seconds(ad, "RemoteWallClockTime")
    if shadows is None or wall is None:
        return []
    statements = list[Statement]()

    def ran(value: int | None, basis: str, number: int = shadows, below: int | None = 0, above: int | None = 0) -> None:
        statements.extend(origin.known_value("wall_runs", value, below=below, above=above, number=number, basis=basis))

    ran(wall, "RemoteWallClockTime")
    if not _writes_checkpoints(ad):
        ran(seconds(ad, "CommittedTime"), "CommittedTime", below=None, above=ANY)
    last_wall_time = seconds(ad, "LastRemoteWallClockTime")
    if shadows > 1 and last_wall_time is not None:
        ran(wall - last_wall_time, "RemoteWallClockTime less LastRemoteWallClockTime", shadows - 1)
    if shadows != 1:
        return statements
    ran(last_wall_time, "LastRemoteWallClockTime")
    weighted_time, weight = seconds(ad, "CumulativeSlotTime"), seconds(ad, "MachineAttrSlotWeight0")
    if weighted_time is not None and weight:
        value = round(weighted_time * SECOND / weight)
        ran(value, "CumulativeSlotTime by MachineAttrSlotWeight0", below=ROUNDED, above=ROUNDED)
    placed = date(ad, "JobCurrentStartDate")
    ended = date(ad, "CompletionDate" if completed else "EnteredCurrentStatus")
    if placed is not None and ended is not None:
        ran(ended - placed, "JobCurrentStartDate to its end", below=None if completed else ANY, above=None)
    for fact, name in (("user_cpu", "RemoteUserCpu"), ("system_cpu", "RemoteSysCpu")) if completed else ():
        statements += origin.known_value(fact, seconds(ad, name), basis=name)
    return statements


def _runs_of_ad(origin: StatementSource, ad: Ad, completed: bool) -> list[RecordedRun]:
    placed = date(ad, "JobCurrentStartDate")
    if placed is None:
        return []
    run = RecordedRun(placed, shadow=int_of(ad, "NumShadowStarts") or 0)
    if int_of(ad, "JobUniverse") in ON_SLOTS:
        _add_place(origin, ad, run, placed)
    run.stopped_at = _add_stop(origin, ad, completed)
    if origin.letter in "PS":
        run.statements += origin.known_value("stopped", run.stopped_at)
    if run.stopped_at is None and origin.letter in "AQ" and int_of(ad, "JobStatus") in ON_A_SLOT:
        run.stopped_at = max(_sample_time(origin, ad), placed)  # the run lasted at least until then
        return [run]
    if origin.letter in "PS" or completed:
        run.statements += _exit_statements(origin, ad)
        if int_of(ad, "JobUniverse") in ON_SLOTS:
            run.statements += _duration_statements(origin, ad, run, placed) + _size_statements(origin, ad)
    return [run]


def _writes_checkpoints(ad: Ad) -> bool:
    """Return True if the job writes its own checkpoints; its CommittedTime then starts when its program starts."""
    return any(name in ad for name in READ["checkpointing"])


def _add_place(origin: StatementSource, ad: Ad, run: RecordedRun, placed: int) -> None:
    # A job removed while it runs keeps these attributes; the ones that begin with Last describe the previous run.
    now = (
        origin.letter in "PS" or "RemoteHost" in ad or (origin.letter in "AQ" and int_of(ad, "JobStatus") in ON_A_SLOT)
    )
    slot, claim = ("RemoteHost", "PublicClaimId") if now else ("LastRemoteHost", "LastPublicClaimId")
    run.statements.append(origin.value_statement("placed", placed))
    for fact, name in (("slot", slot), ("claim", claim)):
        run.statements += origin.named_text(fact, text_of(ad, name).removesuffix("#..."))
    if origin.letter == "S":
        run.statements += origin.known_value("began", date(ad, "JobStartDate"))
    executing_time = date(ad, "JobCurrentStartExecutingDate")
    # A starter's ad contains the previous run's value, and so does the job's until the program runs.
    earliest_time = placed + 1 if now and origin.letter != "P" else placed
    if origin.letter != "S" and executing_time is not None and executing_time >= earliest_time:
        run.began_at = executing_time
        run.statements.append(origin.value_statement("began", executing_time))


def _add_stop(origin: StatementSource, ad: Ad, is_over: bool) -> int | None:
    if origin.letter == "P":
        return date(ad, "EpochWriteDate")
    if origin.letter == "S":  # without a duration the program never ran, and the cleanup was much later
        return date(ad, "CompletionDate") if "JobDuration" in ad else None
    return date(ad, "CompletionDate") if is_over else None


def _exit_statements(origin: StatementSource, ad: Ad) -> list[Statement]:
    statements = []
    exited_by_signal = ad.get("ExitBySignal", "").lower() == "true"
    name, word = ("ExitSignal", "signal") if exited_by_signal else ("ExitCode", "code")
    # A starter that shuts down fast sends no final update: the values of a vacated run are from before.
    is_stale = origin.letter == "P" and "VacateReasonCode" in ad and (int_of(ad, "NumShadowStarts") or 0) > 1
    if "ExitBySignal" in ad and (value := int_of(ad, name)) is not None and not is_stale:
        statements.append(origin.text_statement("exit", f"{word} {value}"))
    # A starter that shuts down fast kills its job, and its last measurement may not reach the shadow.
    below = ANY if origin.letter == "S" and exited_by_signal else None
    if int_of(ad, "JobUniverse") in ON_SLOTS:
        statements += origin.known_value("run_user_cpu", seconds(ad, "RemoteUserCpu"), below=below)
        statements += origin.known_value("run_system_cpu", seconds(ad, "RemoteSysCpu"), below=below)
    return statements


def _cumulative_times(runs: list[RecordedRun]) -> Iterator[Statement]:
    """Yield the total time on slots of a job's first run, its first two runs, and so on, up to the first missing
    run."""
    runs_by_shadow = {run.shadow: run for run in runs}
    total, number = 0, 1
    while len(runs_by_shadow) == len(runs) and (run := runs_by_shadow.get(number)) is not None:
        if run.placed_at is None or run.stopped_at is None or not run.statements:
            return
        total += max(0, run.stopped_at - run.placed_at)
        statement = run.statements[0]
        origin = StatementSource(statement.letter, statement.source, statement.line, statement.at)
        below, above = NEAR * number, LINGERING * number
        yield origin.value_statement(
            "wall_runs", total, below=below, above=above, number=number, basis="EpochWriteDate"
        )
        number += 1


def _duration_statements(origin: StatementSource, ad: Ad, run: RecordedRun, placed: int) -> list[Statement]:
    statements = list[Statement]()

    def say(fact: str, name: str, below: int | None = None, above: int | None = None) -> None:
        statements.extend(origin.known_value(fact, seconds(ad, name), below=below, above=above, basis=name))

    if origin.letter == "S":
        if "JobDuration" in ad:
            say("run_wall", "RemoteWallClockTime")
            say("run_wall", "JobDuration", NEAR, ANY)
        return statements
    if run.stopped_at is not None:
        basis = f"JobCurrentStartDate to {'EpochWriteDate' if origin.letter == 'P' else 'CompletionDate'}"
        statements.append(origin.value_statement("run_wall", run.stopped_at - placed, basis=basis))
    if origin.letter != "P":
        say("run_wall", "LastRemoteWallClockTime", 0, 0)
        if run.shadow == 1 and not _writes_checkpoints(ad):
            say("run_wall", "CommittedTime")
    if run.began_at is not None:  # otherwise these values are from the previous run
        say("run_wall", "ActivationDuration", NEAR, ANY)
        say("busy", "ActivationDuration")
        say("executed", "ActivationExecutionDuration")
    return statements


def _size_statements(origin: StatementSource, ad: Ad) -> list[Statement]:
    statements = []
    if origin.letter in "HQA":
        resident = int_of(ad, "ResidentSetSize_RAW")
        if resident is not None and "ResidentSetSize" in ad.get("MemoryUsage", ""):
            statements.append(origin.value_statement("memory", -(-resident // 1024), above=-(-resident // 1024) + 1))
        if (resident := int_of(ad, "DiskUsage_RAW")) is not None:
            statements.append(origin.value_statement("disk", resident, above=resident + 1))
    return statements


def accounts_of_epochs(accounts: Iterable[tuple[StatementSource, JobAccount]]) -> list[JobAccount]:
    """Return the jobs according to the epoch ads of one job number, joined by submission. A run may be in two ads."""
    accounts_by_job: dict[str, JobAccount] = {}
    spans: dict[str, list[tuple[int, int, StatementSource]]] = {}
    for origin, account in accounts:
        key = account.job or str(account.submitted)
        job = accounts_by_job.setdefault(
            key, JobAccount(account.submitted, account.first, account.last, account.job, log="P")
        )
        for run in account.runs:
            if not any((run.placed_at, run.stopped_at) == (other.placed_at, other.stopped_at) for other in job.runs):
                job.runs.append(run)
            if run.placed_at is not None and run.stopped_at is not None:
                job.last = max(job.last, run.stopped_at)
                spans.setdefault(key, []).append((run.placed_at, run.stopped_at, origin))
        job.statements += account.statements
    for key, epochs in spans.items():
        epochs.sort(key=lambda span: span[:2])
        total = sum(end - begin for begin, end, _ in epochs)
        total -= sum(max(0, epoch[1] - other[0]) for epoch, other in pairwise(epochs))
        wall = epochs[-1][2].value_statement("wall", max(total, 0), below=NEAR * len(epochs))
        accounts_by_job[key].statements += [wall, *_cumulative_times(accounts_by_job[key].runs)]
    return list(accounts_by_job.values())
