"""A tiny pool that tells the truth in every file that a real one leaves behind, and a way to have single files lie.

``Truth`` is what happened: one job, put on hold and released before it ran, evicted once, then done. ``FILES`` renders
the files of it in the real daemons' formats; ``CHANGES`` says for each fact how another truth would differ in that fact
alone; ``examine`` reads files and asks the judge of facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from attrs import evolve, frozen

from poolbook.adapters.condor_files.ads import AdsReader
from poolbook.adapters.condor_files.daemon_tables import TableReader
from poolbook.adapters.condor_files.job_event_log import JobEventLogReader
from poolbook.adapters.condor_files.matchlog import MatchLogReader
from poolbook.adapters.condor_files.negotiatorlog import NegotiatorLogReader
from poolbook.adapters.condor_files.reader import SourceFile
from poolbook.adapters.condor_files.schedlog import SchedLogReader
from poolbook.adapters.condor_files.startlog import StartLogReader
from poolbook.domain import events as e
from poolbook.replay.audit_result import Audit
from poolbook.replay.forensics.audit.compared_facts import FACTS
from poolbook.replay.forensics.audit.contradictions import FactAuditor
from poolbook.replay.forensics.imported_log import single_entries
from poolbook.replay.forensics.sources import Sources

BEGIN: Final = 1_795_176_000
"""2026-11-20 12:00:00 UTC, in seconds: the pool's beginning, from which the times of a ``Truth`` are counted."""
_STARTD = "<10.0.0.7:9618?addrs=10.0.0.7-9618&alias=node&noUDP&sock=startd_1>"
_SCHEDD = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=submit&noUDP&sock=schedd_1>"


@frozen
class Truth:
    """Instants and times in seconds. What ends in ``1`` is of the first run, the rest of the second or of the job.
    ``born`` is what the job's global id has."""

    user: str = "alice@pool"
    group: str = "physics.alice"
    born: int = 0
    submitted: int = 0
    holds: int = 1
    hold_code: int = 1
    starts: int = 2
    placed1: int = 100
    began1: int = 110
    stopped1: int = 500
    slot: str = "slot2@node"
    claim: str = "2"
    placed: int = 2000
    began: int = 2120
    ended: int = 3000
    became: str = "completed"
    exit: str = "code 0"
    user_cpu: int = 350
    system_cpu: int = 25
    run_user_cpu: int = 300
    run_system_cpu: int = 20
    wall: int = 1400
    over: int = 0
    busy: int = 990
    executed: int = 880
    memory: int = 40
    disk: int = 150
    sent: int = 5000
    received: int = 7000
    local: int = 0
    number: str = "7.0"
    state: str = "Claimed/Busy"
    runs: str = "7.0"
    matched: str = "physics.alice@pool"
    matched_job: str = "7.0"
    matched_slot: str = "slot2@node"
    factor: float = 1000.0
    usage: float = 700.0
    unweighted: float = 350.0
    used_since: int = 200
    used_last: int = 2000
    priority: float = 0.75

    @property
    def submitter(self) -> str:
        return f"{self.group}@pool"

    @property
    def evicted(self) -> int:
        """The end of the first run. Where the job's time on slots is what differs, it differs by that."""
        return self.stopped1 + self.wall - 1400


SAMPLED: Final = 2500
"""When condor_status was asked: while the second run goes on."""

# Fact -> what differs in a truth in which it alone is another, in several ways: who only bounds a value is not
# contradicted by what lies on the other side of the bound.
CHANGES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "user": ({"user": "mallory@pool"},),
    "submitter": ({"group": "physics.mallory", "matched": "physics.mallory@pool"},),
    "submitted": ({"submitted": -900}, {"submitted": 900}),
    "became": ({"became": "removed"},),
    "ended": ({"ended": 3100}, {"ended": 2900}),
    "user_cpu": ({"user_cpu": 400}, {"user_cpu": 300}),
    "system_cpu": ({"system_cpu": 75}, {"system_cpu": 5}),
    "starts": ({"starts": 3}, {"starts": 1}),
    "holds": ({"holds": 2}, {"holds": 0}),
    "hold": ({"hold_code": 3},),
    "wall": ({"wall": 1600}, {"wall": 1200}),
    "wall_runs": ({"wall": 2600}, {"wall": 1200}),
    "run_wall": ({"over": 2700}, {"over": -600}),
    "busy": ({"busy": 900},),
    "executed": ({"executed": 800},),
    "memory": ({"memory": 90}, {"memory": 10}),
    "disk": ({"disk": 500}, {"disk": 50}),
    "sent": ({"sent": 9000}, {"sent": 1000}),
    "received": ({"received": 9000}, {"received": 1000}),
    "number": ({"number": "7.1"},),
    "entry": ({"local": 3600},),
    "slot": ({"slot": "slot9@node"},),
    "claim": ({"claim": "9"},),
    "placed": ({"placed": 2060}, {"placed": 1940}),
    "began": ({"began": 2160}, {"began": 2080}),
    "stopped": ({"stopped1": 560}, {"stopped1": 440}),
    "exit": ({"exit": "code 3"}, {"exit": "signal 9"}),
    "run_user_cpu": ({"run_user_cpu": 350}, {"run_user_cpu": 250}),
    "run_system_cpu": ({"run_system_cpu": 70}, {"run_system_cpu": 0}),
    "state": ({"state": "Claimed/Suspended"},),
    "holder": ({"user": "mallory@pool"},),
    "job": ({"runs": "9.0"},),
    "matched": ({"matched": "physics.mallory@pool"},),
    "matched_job": ({"matched_job": "9.0"},),
    "matched_slot": ({"matched_slot": "slot7@node"},),
    "factor": ({"factor": 2000.0},),
    "usage": ({"usage": 800.0},),
    "unweighted": ({"unweighted": 400.0},),
    "used_since": ({"used_since": 100},),
    "used_last": ({"used_last": 1900},),
    "priority": ({"priority": 1.5},),
}


def lies(fact: str) -> list[Truth]:
    """Truths that differ from the true one in one fact."""
    return [evolve(Truth(), **change) for change in CHANGES[fact]]


def follows(fact: str) -> set[str]:
    """The facts that are changed by a change of this one, because they are the same thing: its own among them."""
    fields = {name for change in CHANGES[fact] for name in change}
    alike = {other for other, changes in CHANGES.items() if any(fields & change.keys() for change in changes)}
    entries = {"entry"} if "U" in FACTS[fact].sayings else set()  # an entry at another time is another entry, too
    return alike | entries | _FOLLOW.get(fact, set())


_FOLLOW: Final = {
    "ended": {"stopped", "wall", "wall_runs", "run_wall"},  # the last run ends with its job
    "became": {
        "exit",
        "ended",
        "user_cpu",
        "system_cpu",
        "sent",
        "received",
        "run_wall",
    },  # of a job that was removed nobody says these
    "starts": {"wall", "wall_runs"},
    "wall": {"stopped", "wall_runs", "run_wall"},  # the first run is as much longer or shorter
    "wall_runs": {"stopped", "run_wall"},
    "run_wall": {"stopped", "ended", "wall", "wall_runs"},
    "stopped": {"wall", "wall_runs", "run_wall"},
    "placed": {"wall", "wall_runs", "run_wall"},
    "began": {"wall", "run_wall"},
}

# -- Times and ads -----------------------------------------------------------------------------------------------------


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(BEGIN, UTC) + timedelta(seconds=at)


def _iso(at: int) -> str:
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S")


def _daemon(at: int) -> str:
    return _moment(at).strftime("%m/%d/%y %H:%M:%S")


def _claim(number: str) -> str:
    return f"{_STARTD}#{BEGIN}#{number}#..."


def _text(ad: Mapping[str, object]) -> str:
    """An ad in the old form: names are sorted, texts in quotation marks."""
    shown = {
        name: f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
        for name, value in ad.items()
    }
    return "".join(f"{name} = {shown[name]}\n" for name in sorted(shown, key=str.lower))


class _Raw(int):
    """Something that is written as it is."""

    text: str

    def __new__(cls, text: str) -> _Raw:
        made = super().__new__(cls, 0)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def _job(t: Truth) -> dict[str, object]:
    """What every ad of the job says."""
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
    } | _held(t)


def _held(t: Truth) -> dict[str, object]:
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


def _after(t: Truth) -> dict[str, object]:
    """The job's ad when all is over."""
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
        "LastPublicClaimId": _claim(t.claim),
        **({"CompletionDate": BEGIN + t.ended, **_exit(t)} if completed else {"ExitBySignal": False}),
    }


def history(t: Truth) -> str:
    ended = BEGIN + t.ended
    return _text(_after(t)) + (
        f'*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "alice" CompletionDate = {ended} CurrentTime = {ended}\n'
    )


def queue_ads(t: Truth) -> str:
    """condor_q, of a job that is completed and still there."""
    return _text(_after(evolve(t, became="completed")) | {"ServerTime": BEGIN + t.ended + 50}) + "\n"


def _first_run(t: Truth) -> dict[str, object]:
    return _job(t) | {
        "JobStatus": 2,
        "NumJobStarts": min(1, t.starts),
        "NumShadowStarts": 1,
        "RemoteHost": "slot1@node",
        "PublicClaimId": _claim("1"),
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
    gone = (
        "LastRemoteHost",
        "LastPublicClaimId",
        "CompletionDate",
        "ExitCode",
        "ExitSignal",
        "LastRemoteWallClockTime",
    )
    return {name: value for name, value in _after(t).items() if name not in gone} | {
        "JobStatus": 2,
        "RemoteWallClockTime": float(t.evicted - t.placed1),
        "RemoteHost": t.slot,
        "PublicClaimId": _claim(t.claim),
        "ShadowBday": BEGIN + t.placed,
        **_exit(t),
    }


def epochs(t: Truth) -> str:
    found = ""
    for number, (ad, ended) in enumerate(((_first_run(t), t.evicted), (_second_run(t), t.ended + t.over))):
        begun = {"ClusterId": 7, "ProcId": 0, "EpochAdType": "SPAWN", "RunInstanceID": number, "Owner": "alice"}
        told = f'ClusterId=7 ProcId=0 RunInstanceId={number} Owner="alice" CurrentTime='
        over = {"EpochAdType": "EPOCH", "RunInstanceID": number, "EpochWriteDate": BEGIN + ended}
        found += _text(begun) + f"*** SPAWN {told}{ad['ShadowBday']}\n"
        found += _text(ad | over) + f"*** EPOCH {told}{BEGIN + ended}\n"
    return found


def startd_history(t: Truth) -> str:
    found = ""
    for ad, placed, ended in ((_first_run(t), t.placed1, t.evicted), (_second_run(t), t.placed, t.ended + t.over)):
        at, wall = BEGIN + ended, float(ended - placed)
        over = {
            "JobState": "Exited",
            "JobDuration": wall,
            "RemoteWallClockTime": wall,
            "CompletionDate": at,
            "JobStatus": 4,
        }
        stale = {"JobCurrentStartExecutingDate": BEGIN + t.began1}
        found += _text(ad | over | stale) + (
            f'*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "alice" CompletionDate = {at} CurrentTime = {at}\n'
        )
    return found


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
    cluster, job = _job(t), _after(t)
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


# -- Job event logs ----------------------------------------------------------------------------------------------------


def _cpu(seconds: int) -> str:
    return f"{seconds // 86400} {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _usage(name: str, user: int, system: int) -> str:
    return f"\n\t\tUsr {_cpu(user)}, Sys {_cpu(system)}  -  {name} Usage"


def _entries(t: Truth) -> list[tuple[int, int, str]]:
    """Number, instant, text."""
    found = [(0, t.submitted, f"Job submitted from host: {_SCHEDD}")]
    for number in range(t.holds):
        at = 30 + 10 * number
        found.append((12, at, f"Job was held.\n\twait a little (by user alice)\n\tCode {t.hold_code} Subcode 0"))
        found.append((13, at + 5, "Job was released.\n\tvia condor_release (by user alice)"))
    if t.starts > 1:
        found.append((1, t.began1, f"Job executing on host: {_STARTD}\n\tSlotName: slot1@node"))
        run = "\n\t(0) CPU times" + _usage("Run Remote", 50, 5) + _usage("Run Local", 0, 0)
        found.append((4, t.evicted, f"Job was evicted. Code 1006 Subcode 0{run}"))
    for number in range(t.starts - 2):
        found.append((1, 1200 + 10 * number, f"Job executing on host: {_STARTD}\n\tSlotName: slot1@node"))
    found.append((1, t.began, f"Job executing on host: {_STARTD}\n\tSlotName: {t.slot}"))
    run = _usage("Run Remote", t.run_user_cpu, t.run_system_cpu) + _usage("Run Local", 0, 0)
    if t.became == "removed":
        found.append((4, t.ended, f"Job was evicted. Code 1023 Subcode 0\n\t(0) CPU times{run}"))
        found.append((9, t.ended, "Job was aborted.\n\tvia condor_rm (by user alice)"))
        return found
    word, _, value = t.exit.partition(" ")
    how = f"(1) Normal termination (return value {value})"
    if word == "signal":
        how = f"(0) Abnormal termination (signal {value})\n\t(0) No core file"
    total = _usage("Total Remote", t.user_cpu, t.system_cpu) + _usage("Total Local", t.local, 0)
    moved = f"\n\t{t.sent}  -  Total Bytes Sent By Job\n\t{t.received}  -  Total Bytes Received By Job"
    rows = {"Disk (KB)": t.disk, "Memory (MB)": t.memory, "TimeExecute (s)": t.executed, "TimeSlotBusy (s)": t.busy}
    width = max(8, *(len(str(value)) for value in rows.values()))  # a column is as wide as its widest value
    table = f"\n\tPartitionable Resources : {'Usage':>{width}}  Request Allocated"
    table += "".join(f"\n\t   {name:<20} : {value:{width}}" for name, value in rows.items())
    found.append((5, t.ended + t.over, f"Job terminated.\n\t{how}{run}{total}{moved}{table}"))
    return found


def user_log(t: Truth) -> str:
    return "".join(f"{number:03} (007.000.000) {_iso(at)} {text}\n...\n" for number, at, text in _entries(t))


def event_log(t: Truth) -> str:
    head = f"008 (-01.-01.-01) {_iso(-100)} Global JobLog: ctime={BEGIN - 100} id=0.1.1 sequence=1 size=0\n...\n"
    return head + user_log(t)


# -- Daemons' logs -----------------------------------------------------------------------------------------------------


def _lines(rows: Iterable[tuple[int, str]], flag: str = "") -> str:
    return "".join(f"{_daemon(at)} {flag}{text}\n" for at, text in sorted(rows, key=lambda row: row[0]))


def start_log(t: Truth) -> str:
    rows = [
        (-90, "** condor_startd (CONDOR_STARTD) STARTING UP"),
        (-90, "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $"),
        (-90, "** PID = 100 RealUID = 0"),
        (-90, f"DaemonCore: command socket at {_STARTD}"),
    ]
    for slot in ("slot1", "slot2", "slot9"):
        rows += [
            (-90, f"{slot}: New Slot of type 1 allocated"),
            (-90, f"{slot}: \tCpus: 1.00, Memory: 8035, Swap: 8228030, Disk: 25404293, GPUs: 0"),
            (-89, f"{slot}: State change: IS_OWNER is false."),
            (-89, f"{slot}: Changing state: Owner -> Unclaimed"),
        ]
    rows += _run_on("slot1", t.user, "7.0", t.placed1 - 5, t.placed1, t.evicted)
    slot = t.slot.partition("@")[0]
    rows += _run_on(slot, t.user, t.runs, min(1990, t.placed - 5), t.placed, t.ended)
    if t.state == "Claimed/Suspended":
        rows += [
            (SAMPLED - 50, f"{slot}: State change: SUSPEND is TRUE"),
            (SAMPLED - 50, f"{slot}: Changing activity: Busy -> Suspended"),
            (SAMPLED + 50, f"{slot}: State change: CONTINUE is TRUE"),
            (SAMPLED + 50, f"{slot}: Changing activity: Suspended -> Busy"),
        ]
    return _lines(rows)


def _run_on(slot: str, user: str, job: str, claimed: int, placed: int, ended: int) -> list[tuple[int, str]]:
    return [
        (claimed, f"{slot}: Request accepted."),
        (claimed, f"{slot}: Remote owner is {user}"),
        (claimed, f"{slot}: State change: claiming protocol successful"),
        (claimed, f"{slot}: Changing state: Unclaimed -> Claimed"),
        (placed, f"{slot}: Got activate_claim request from shadow (10.0.0.1)"),
        (placed, f"{slot}: Remote job ID is {job}"),
        (placed, f"{slot}: State change: claim-activation protocol successful, Starter 200"),
        (placed, f"{slot}: Changing activity: Idle -> Busy"),
        (ended, "Starter pid 200 exited with status 0"),
        (ended, f"{slot}: State change: starter exited"),
        (ended, f"{slot}: Changing activity: Busy -> Idle"),
        (ended + 5, f"{slot}: State change: received RELEASE_CLAIM command"),
        (ended + 5, f"{slot}: Changing state and activity: Claimed/Idle -> Preempting/Vacating"),
        (ended + 5, f"{slot}: State change: No preempting claim, returning to owner"),
        (ended + 5, f"{slot}: Changing state and activity: Preempting/Vacating -> Owner/Idle"),
        (ended + 6, f"{slot}: State change: IS_OWNER is false"),
        (ended + 6, f"{slot}: Changing state: Owner -> Unclaimed"),
    ]


def sched_log(t: Truth) -> str:
    rows = []
    runs = (("slot1@node", 300, t.placed1, t.evicted), (t.slot, 301, t.placed, t.ended))
    for slot, shadow, placed, ended in runs:
        rows += [
            (placed, "Starting add_shadow_birthdate(7.0)"),
            (placed, f"Started shadow for job 7.0 on {slot} {_STARTD} for {t.group}, (shadow pid = {shadow})"),
            (ended, f"Shadow pid {shadow} for job 7.0 reports job exit reason 100."),
            (ended, f"Match record ({slot} {_STARTD} for {t.group}, 7.0) deleted"),
        ]
    return _lines(rows, "(pid:50) ")


def _matches(t: Truth) -> list[tuple[int, str]]:
    found = [(t.submitted + 10, f"      Rejected 7.0 {t.matched} {_SCHEDD}: no match found")]
    for at, slot in ((t.placed1 - 5, "slot1@node"), (t.placed - 100, t.matched_slot)):
        found.append((at, f"      Matched {t.matched_job} {t.matched} {_SCHEDD} preempting none {_STARTD} {slot}"))
    return found


def match_log(t: Truth) -> str:
    return _lines(_matches(t))


def negotiator_log(t: Truth) -> str:
    cycles = [
        (at, f"---------- {what} Negotiation Cycle ----------") for at, what in ((9, "Started"), (11, "Finished"))
    ]
    return _lines([(-90, "** condor_negotiator (CONDOR_NEGOTIATOR) STARTING UP"), *cycles, *_matches(t)])


# -- Reading -----------------------------------------------------------------------------------------------------------

FILES: Final[dict[str, tuple[str, Callable[[Truth], str]]]] = {
    "startlog": ("StartLog", start_log),
    "schedlog": ("SchedLog", sched_log),
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
"""Kind of source -> the file's name, and what writes it."""

_READERS: Final[dict[str, Callable[..., Any]]] = {
    "startlog": StartLogReader,
    "schedlog": SchedLogReader,
    "negotiatorlog": NegotiatorLogReader,
    "matchlog": MatchLogReader,
    "userlog": JobEventLogReader,
    "eventlog": JobEventLogReader,
    "queue": TableReader,
    "accountant": TableReader,
}


class File(NamedTuple):
    """A file to be read, and the kind of source that it is."""

    path: str
    kind: str
    data: bytes


def file(kind: str, truth: Truth) -> File:
    """The file of one kind that tells this truth."""
    name, write = FILES[kind]
    return File(name, kind, write(truth).encode())


class Examined(NamedTuple):
    """What the judge found, what could not be read, and how many bytes were left."""

    audit: Audit
    refused: list[e.SourceRefused]
    left: int


def examine(files: Iterable[File]) -> Examined:
    """Read files whole, one after the other, and ask the judge of facts."""
    sources, audit = Sources(), Audit()
    judge = FactAuditor(sources, audit)
    refused: list[e.SourceRefused] = []
    log: list[e.Event] = []
    left = 0
    for number, one in enumerate(files, 1):
        found = e.SourceFound(0, "found", f"{number}:0", number, one.path, one.kind, "node", "UTC")
        source = SourceFile(number, one.path, one.kind, "node", UTC, BEGIN + 86_400.0, (BEGIN + 86_400) * 1_000_000)
        events, used = _READERS.get(one.kind, AdsReader)(source, None, 0).read(one.data)
        left += len(one.data) - used
        log += [found, *events]
    for position, event in single_entries(enumerate(log, 1)):
        sources.take(event)
        judge.take(position, event)
        if isinstance(event, e.SourceRefused):
            refused.append(event)
    judge.finish()
    return Examined(audit, refused, left)
