"""A tiny pool with the truth in every file that a real pool leaves behind, and a way to let single files lie. ``Truth``
(in ``truth``) is what happened: one job, put on hold and released before it ran, evicted once, then completed.
``FILES`` renders its files in the real daemons' formats; ``examine`` reads files and audits their facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from typing import Any, Final, NamedTuple

from attrs import evolve

from poolbook.adapters.condor_files.ads import AdsReader
from poolbook.adapters.condor_files.daemon_log import CollectorLogReader, MasterLogReader
from poolbook.adapters.condor_files.daemon_table_reader import TableReader
from poolbook.adapters.condor_files.job_daemon_logs import SchedLogReader, ShadowLogReader, StarterLogReader
from poolbook.adapters.condor_files.job_event_log_reader import JobEventLogReader
from poolbook.adapters.condor_files.negotiatorlog import MatchLogReader, NegotiatorLogReader
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain import events as e
from poolbook.replay.audit_result import Audit
from poolbook.replay.forensics.audit.contradictions import FactAuditor
from poolbook.replay.forensics.imported_log import Sources, single_entries

from .honest_logs import (
    collector_log,
    event_log,
    master_log,
    match_log,
    negotiator_log,
    sched_log,
    shadow_log,
    start_log,
    starter_log,
    user_log,
)
from .truth import BEGIN, SAMPLED, Truth, claim_id


def _text(ad: Mapping[str, object]) -> str:
    """Return an ad in the old format: names are sorted, texts in quotation marks."""
    texts = {
        name: f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
        for name, value in ad.items()
    }
    return "".join(f"{name} = {texts[name]}\n" for name in sorted(texts, key=str.lower))


class _Raw(int):
    """Text that is written unchanged."""

    text: str

    def __new__(cls, text: str) -> _Raw:
        raw = super().__new__(cls, 0)
        raw.text = text
        return raw

    def __str__(self) -> str:
        return self.text


def _job(t: Truth) -> dict[str, object]:
    """Return the attributes that every ad of the job has."""
    return {
        "MyType": "Job",
        "ClusterId": 7,
        "ProcId": 0,
        "User": t.user,
        "Owner": t.user.partition("@")[0],
        "AccountingGroup": t.group,
        "QDate": BEGIN + t.submitted,
        "GlobalJobId": f"submit#{t.number}#{BEGIN + t.born}",
        "JobUniverse": 5,
        "Cmd": "/bin/sleep",
        "Args": "880",
    } | _held_ad(t)


def _held_ad(t: Truth) -> dict[str, object]:
    if not t.holds:
        return {}
    return {
        "NumHolds": t.holds,
        "NumHoldsByReason": _Raw(f"[ UserRequest = {t.holds} ]"),
        "LastHoldReasonCode": t.hold_code,
        "LastHoldReasonSubCode": 0,
    }


def _exit(t: Truth) -> dict[str, object]:
    word, _, value = t.exit.partition(" ")
    by_signal = word == "signal"
    return {"ExitBySignal": by_signal, "ExitSignal" if by_signal else "ExitCode": int(value)}


def _final_ad(t: Truth) -> dict[str, object]:
    """Return the job's final ad."""
    completed = t.became == "completed"
    return _job(t) | {
        "JobStatus": 4 if completed else 3,
        "EnteredCurrentStatus": BEGIN + t.ended,
        "NumJobStarts": t.starts,
        "NumShadowStarts": 2,
        "RemoteWallClockTime": float(t.wall),
        "LastRemoteWallClockTime": float(t.ended - t.placed + t.over),
        "ActivationDuration": t.busy,
        "ActivationExecutionDuration": t.executed,
        "BytesSent": float(t.sent),
        "BytesRecvd": float(t.received),
        "MemoryUsage": _Raw("((ResidentSetSize + 1023) / 1024)"),
        "ResidentSetSize_RAW": 1024 * t.memory,
        "DiskUsage_RAW": t.disk,
        "RemoteUserCpu": float(t.run_user_cpu),
        "RemoteSysCpu": float(t.run_system_cpu),
        "CumulativeRemoteUserCpu": float(t.user_cpu),
        "CumulativeRemoteSysCpu": float(t.system_cpu),
        "JobCurrentStartDate": BEGIN + t.placed,
        "JobCurrentStartExecutingDate": BEGIN + t.began,
        "LastRemoteHost": t.slot,
        "LastPublicClaimId": claim_id(t.claim),
        **({"CompletionDate": BEGIN + t.ended, **_exit(t)} if completed else {"ExitBySignal": False}),
    }


def history(t: Truth) -> str:
    ended = BEGIN + t.ended
    return _text(_final_ad(t)) + (
        f'*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "alice" CompletionDate = {ended} CurrentTime = {ended}\n'
    )


def queue_ads(t: Truth) -> str:
    """Return condor_q's output for a completed job that is still in the queue."""
    return _text(_final_ad(evolve(t, became="completed")) | {"ServerTime": BEGIN + t.ended + 50}) + "\n"


def _first_run(t: Truth) -> dict[str, object]:
    return _job(t) | {
        "JobStatus": 2,
        "NumJobStarts": min(1, t.starts),
        "NumShadowStarts": 1,
        "RemoteHost": "slot1@node",
        "PublicClaimId": claim_id("1"),
        "JobCurrentStartDate": BEGIN + t.placed1,
        "JobCurrentStartExecutingDate": BEGIN + t.began1,
        "ShadowBday": BEGIN + t.placed1,
        "RemoteUserCpu": 50.0,
        "RemoteSysCpu": 5.0,
        "CumulativeRemoteUserCpu": 50.0,
        "CumulativeRemoteSysCpu": 5.0,
        "ExitBySignal": True,
        "ExitSignal": 15,
    }


def _second_run(t: Truth) -> dict[str, object]:
    absent = (
        "LastRemoteHost",
        "LastPublicClaimId",
        "CompletionDate",
        "ExitCode",
        "ExitSignal",
        "LastRemoteWallClockTime",
    )
    return {name: value for name, value in _final_ad(t).items() if name not in absent} | {
        "JobStatus": 2,
        "RemoteWallClockTime": float(t.evicted - t.placed1),
        "RemoteHost": t.slot,
        "PublicClaimId": claim_id(t.claim),
        "ShadowBday": BEGIN + t.placed,
        **_exit(t),
    }


def epochs(t: Truth) -> str:
    ads = ""
    for number, (ad, ended) in enumerate(((_first_run(t), t.evicted), (_second_run(t), t.ended + t.over))):
        begun = {"ClusterId": 7, "ProcId": 0, "EpochAdType": "SPAWN", "RunInstanceID": number, "Owner": "alice"}
        banner_text = f'ClusterId=7 ProcId=0 RunInstanceId={number} Owner="alice" CurrentTime='
        end_ad = {"EpochAdType": "EPOCH", "RunInstanceID": number, "EpochWriteDate": BEGIN + ended}
        ads += _text(begun) + f"*** SPAWN {banner_text}{ad['ShadowBday']}\n"
        ads += _text(ad | end_ad) + f"*** EPOCH {banner_text}{BEGIN + ended}\n"
    return ads


def startd_history(t: Truth) -> str:
    ads = ""
    runs = (
        (_first_run(t), t.placed1, t.began1, t.evicted),
        (_second_run(t), t.placed, t.began, t.ended + t.over),
    )
    for ad, placed, began, ended in runs:
        at, wall = BEGIN + ended, float(ended - placed)
        end_attributes = {
            "JobState": "Exited",
            "JobDuration": wall,
            "RemoteWallClockTime": wall,
            "CompletionDate": at,
            "JobStatus": 4,
            "JobStartDate": BEGIN + began,
        }
        stale_attributes = {"JobCurrentStartExecutingDate": BEGIN + t.began1}
        ads += _text(ad | end_attributes | stale_attributes) + (
            f'*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "alice" CompletionDate = {at} CurrentTime = {at}\n'
        )
    return ads


def machine_ads(t: Truth) -> str:
    state, _, activity = t.state.partition("/")
    ad = {
        "MyType": "Machine",
        "Name": "slot2@node",
        "Machine": "node",
        "State": state,
        "Activity": activity,
        "MyCurrentTime": BEGIN + SAMPLED,
        "RemoteUser": t.user,
        "JobId": t.runs,
    }
    return _text(ad) + "\n"


def submitter_ads(t: Truth) -> str:
    ad = {
        "MyType": "Accounting",
        "Name": "physics.alice@pool",
        "LastUpdate": BEGIN + 2000,
        "Priority": t.priority * t.factor,
        "PriorityFactor": t.factor,
        "WeightedAccumulatedUsage": t.usage,
        "AccumulatedUsage": t.unweighted,
        "BeginUsageTime": BEGIN + t.used_since,
        "LastUsageTime": BEGIN + t.used_last,
    }
    return _text(ad) + "\n"


# -- Tables ------------------------------------------------------------------------------------------------------------


def job_queue(t: Truth) -> str:
    cluster, job = _job(t), _final_ad(t)
    lines = [
        f"107 1 CreationTimestamp {BEGIN - 100}",
        "101 0.0 Job Machine",
        "103 0.0 NextClusterNum 7",
        "105 ",
        "101 07.-1 Job Machine",
        *(f"103 07.-1 {line}" for line in _text(cluster).replace(" = ", " ", 1).splitlines() if line),
        "101 7.0 Job Machine",
        "103 7.0 ProcId 0",
        "106 ",
        "105 ",
        *(f"103 7.0 {line}" for line in _text({k: v for k, v in job.items() if k not in cluster}).splitlines()),
        "106 ",
        "105 ",
        "102 7.0",
        "102 07.-1",
        "106 ",
    ]
    return "".join(f"{line.replace(' = ', ' ', 1)}\n" for line in lines)


def accountant(t: Truth) -> str:
    lines = [
        f"107 1 CreationTimestamp {BEGIN - 100}",
        "101 Customer.physics.alice@pool * *",
        f"103 Customer.physics.alice@pool PriorityFactor {t.factor:.6f}",
        "101 Accountant. * *",
        f"103 Accountant. LastUpdateTime {BEGIN + 1000}",
        "103 Customer.physics.alice@pool Priority 0.500000",
        f"103 Accountant. LastUpdateTime {BEGIN + 2000}",
        "105 ",
        f"103 Customer.physics.alice@pool Priority {t.priority:.6f}",
        f"103 Customer.physics.alice@pool WeightedAccumulatedUsage {t.usage:.6f}",
        f"103 Customer.physics.alice@pool AccumulatedUsage {t.unweighted:.6f}",
        f"103 Customer.physics.alice@pool BeginUsageTime {BEGIN + t.used_since}",
        f"103 Customer.physics.alice@pool LastUsageTime {BEGIN + t.used_last}",
        "106 ",
        f"103 Accountant. LastUpdateTime {BEGIN + 3000}",
    ]
    return "".join(f"{line}\n" for line in lines)


# -- Reading -----------------------------------------------------------------------------------------------------------

FILES: Final[dict[str, tuple[str, Callable[[Truth], str]]]] = {
    "startlog": ("StartLog", start_log),
    "schedlog": ("SchedLog", sched_log),
    "starterlog": ("StarterLog", starter_log),
    "shadowlog": ("ShadowLog", shadow_log),
    "masterlog": ("MasterLog", master_log),
    "collectorlog": ("CollectorLog", collector_log),
    "negotiatorlog": ("NegotiatorLog", negotiator_log),
    "matchlog": ("MatchLog", match_log),
    "userlog": ("alice-job.log", user_log),
    "eventlog": ("EventLog", event_log),
    "history": ("history", history),
    "epochs": ("epoch_history", epochs),
    "startd_history": ("startd_history", startd_history),
    "queue": ("job_queue.log", job_queue),
    "accountant": ("Accountantnew.log", accountant),
    "job_ads": ("q.ads", queue_ads),
    "machine_ads": ("machine.ads", machine_ads),
    "submitter_ads": ("userprio.ads", submitter_ads),
}
"""Kind of source -> the file's name, and the function that writes it."""

_READERS: Final[dict[str, Callable[..., Any]]] = {
    "startlog": StartLogReader,
    "schedlog": SchedLogReader,
    "starterlog": StarterLogReader,
    "shadowlog": ShadowLogReader,
    "masterlog": MasterLogReader,
    "collectorlog": CollectorLogReader,
    "negotiatorlog": NegotiatorLogReader,
    "matchlog": MatchLogReader,
    "userlog": JobEventLogReader,
    "eventlog": JobEventLogReader,
    "queue": TableReader,
    "accountant": TableReader,
}


class File(NamedTuple):
    """A file to be read, and its kind of source."""

    path: str
    kind: str
    data: bytes


def honest_file(kind: str, truth: Truth) -> File:
    """Return the file of one kind for this truth."""
    name, render = FILES[kind]
    return File(name, kind, render(truth).encode())


class Examination(NamedTuple):
    """The audit's result, what could not be read, and how many bytes were left."""

    audit: Audit
    refused: list[e.SourceRefused]
    left: int


def examine_files(files: Iterable[File]) -> Examination:
    """Read each file completely, one after the other, and audit their facts."""
    sources, audit = Sources(), Audit()
    judge = FactAuditor(sources, audit)
    refusals: list[e.SourceRefused] = []
    log: list[e.Event] = []
    bytes_left = 0
    for number, file in enumerate(files, 1):
        source_found = e.SourceFound(0, "found", f"{number}:0", number, file.path, file.kind, "node", "UTC")
        source = SourceFile(number, file.path, file.kind, "node", UTC, BEGIN + 86_400.0, (BEGIN + 86_400) * 1_000_000)
        events, bytes_read = _READERS.get(file.kind, AdsReader)(source, None, 0).read(file.data)
        bytes_left += len(file.data) - bytes_read
        log += [source_found, *events]
    for position, event in single_entries(enumerate(log, 1)):
        sources.fold_event(event)
        judge.process_event(position, event)
        if isinstance(event, e.SourceRefused):
            refusals.append(event)
    judge.finish()
    return Examination(audit, refusals, bytes_left)
