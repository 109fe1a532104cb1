"""The logs of the honest pool: job event logs, and the daemons' logs."""

from __future__ import annotations

from collections.abc import Iterable

from .truth import BEGIN, SAMPLED, SCHEDD, STARTD, Truth, claim_id, daemon_time, iso_time


def _cpu(seconds: int) -> str:
    return f"{seconds // 86400} {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _usage(name: str, user: int, system: int) -> str:
    return f"\n\t\tUsr {_cpu(user)}, Sys {_cpu(system)}  -  {name} Usage"


def _entries(t: Truth) -> list[tuple[int, int, str]]:
    """Return the entries: number, instant, text."""
    entries = [(0, t.submitted, f"Job submitted from host: {SCHEDD}")]
    for number in range(t.holds):
        at = 30 + 10 * number
        entries.append((12, at, f"Job was held.\n\twait a little (by user alice)\n\tCode {t.hold_code} Subcode 0"))
        entries.append((13, at + 5, "Job was released.\n\tvia condor_release (by user alice)"))
    if t.starts > 1:
        entries.append((1, t.began1, f"Job executing on host: {STARTD}\n\tSlotName: slot1@node"))
        run = "\n\t(0) CPU times" + _usage("Run Remote", 50, 5) + _usage("Run Local", 0, 0)
        entries.append((4, t.evicted, f"Job was evicted. Code 1006 Subcode 0{run}"))
    for number in range(t.starts - 2):
        entries.append((1, 1200 + 10 * number, f"Job executing on host: {STARTD}\n\tSlotName: slot1@node"))
    entries.append((1, t.began, f"Job executing on host: {STARTD}\n\tSlotName: {t.slot}"))
    run = _usage("Run Remote", t.run_user_cpu, t.run_system_cpu) + _usage("Run Local", 0, 0)
    if t.became == "removed":
        entries.append((4, t.ended, f"Job was evicted. Code 1023 Subcode 0\n\t(0) CPU times{run}"))
        entries.append((9, t.ended, "Job was aborted.\n\tvia condor_rm (by user alice)"))
        return entries
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
    entries.append((5, t.ended + t.over, f"Job terminated.\n\t{how}{run}{total}{moved}{table}"))
    return entries


def user_log(t: Truth) -> str:
    return "".join(f"{number:03} (007.000.000) {iso_time(at)} {text}\n...\n" for number, at, text in _entries(t))


def event_log(t: Truth) -> str:
    head = f"008 (-01.-01.-01) {iso_time(-100)} Global JobLog: ctime={BEGIN - 100} id=0.1.1 sequence=1 size=0\n...\n"
    return head + user_log(t)


def _lines(rows: Iterable[tuple[int, str]], flag: str = "") -> str:
    return "".join(f"{daemon_time(at)} {flag}{text}\n" for at, text in sorted(rows, key=lambda row: row[0]))


def start_log(t: Truth) -> str:
    rows = [
        (-90, "** condor_startd (CONDOR_STARTD) STARTING UP"),
        (-90, "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $"),
        (-90, "** PID = 100 RealUID = 0"),
        (-90, f"DaemonCore: command socket at {STARTD}"),
    ]
    for slot in ("slot1", "slot2", "slot9"):
        rows += [
            (-90, f"{slot}: New Slot of type 1 allocated"),
            (-90, f"{slot}: \tCpus: 1.00, Memory: 8035, Swap: 8228030, Disk: 25404293, GPUs: 0"),
            (-89, f"{slot}: State change: IS_OWNER is false."),
            (-89, f"{slot}: Changing state: Owner -> Unclaimed"),
        ]
    rows += _run_on("slot1", t.user, "1", "7.0", t.placed1 - 5, t.placed1, t.evicted)
    slot = t.slot.partition("@")[0]
    rows += _run_on(slot, t.user, t.claim, t.runs, min(1990, t.placed - 5), t.placed, t.ended)
    if t.state == "Claimed/Suspended":
        rows += [
            (SAMPLED - 50, f"{slot}: State change: SUSPEND is TRUE"),
            (SAMPLED - 50, f"{slot}: Changing activity: Busy -> Suspended"),
            (SAMPLED + 50, f"{slot}: State change: CONTINUE is TRUE"),
            (SAMPLED + 50, f"{slot}: Changing activity: Suspended -> Busy"),
        ]
    return _lines(rows)


def _run_on(slot: str, user: str, claim: str, job: str, claimed: int, placed: int, ended: int) -> list[tuple[int, str]]:
    return [
        (claimed, f"{slot}: Received ClaimId from schedd ({claim_id(claim)})"),
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
    runs = (("slot1@node", "1", 300, t.placed1, t.evicted), (t.slot, t.claim, 301, t.placed, t.ended))
    for slot, claim, shadow, placed, ended in runs:
        rows += [
            (placed, "Starting add_shadow_birthdate(7.0)"),
            (placed, f"Started shadow for job 7.0 on {slot} {claim_id(claim)} for {t.group}, (shadow pid = {shadow})"),
            (ended, f"Shadow pid {shadow} for job 7.0 reports job exit reason 100."),
            (ended, f"Match record ({slot} {claim_id(claim)} for {t.group}, 7.0) deleted"),
        ]
    return _lines(rows, "(pid:50) ")


def _matches(t: Truth) -> list[tuple[int, str]]:
    lines = [(t.submitted + 10, f"      Rejected 7.0 {t.matched} {SCHEDD}: no match found")]
    for at, slot in ((t.placed1 - 5, "slot1@node"), (t.placed - 100, t.matched_slot)):
        lines.append((at, f"      Matched {t.matched_job} {t.matched} {SCHEDD} preempting none {STARTD} {slot}"))
    return lines


def match_log(t: Truth) -> str:
    return _lines(_matches(t))


def negotiator_log(t: Truth) -> str:
    cycles = [
        (at, f"---------- {verb} Negotiation Cycle ----------") for at, verb in ((9, "Started"), (11, "Finished"))
    ]
    return _lines([(-90, "** condor_negotiator (CONDOR_NEGOTIATOR) STARTING UP"), *cycles, *_matches(t)])


def starter_log(t: Truth) -> str:
    """Return the log of both runs' starters, as if their slots wrote to one file. The first got a request to end."""
    word, _, value = t.exit.partition(" ")
    ended = f"{'status' if word == 'code' else word}={value}"
    rows: list[tuple[int, str]] = []
    for pid, began, ended_at, was_told, how in (
        (71, t.began1, t.evicted, True, "signal=15"),
        (72, t.began, t.ended, t.became != "completed", ended),
    ):
        rows += [
            (began, "** condor_starter (CONDOR_STARTER) STARTING UP"),
            (began, "Starting a VANILLA universe job with ID: 7.0"),
            (began, "About to exec /bin/sleep 880"),
            (began, f"Create_Process succeeded, pid={pid}"),
            *([(ended_at, "ShutdownGraceful all jobs.")] if was_told else []),
            (ended_at, f"Process exited, pid={pid}, {how}"),
            (ended_at, "All jobs have exited... starter exiting"),
        ]
    return _lines(rows)


def shadow_log(t: Truth) -> str:
    word, _, value = t.exit.partition(" ")
    ended = f"{'exited with status' if word == 'code' else 'killed by signal'} {value}"
    rows = [(t.evicted, "(7.0) (300): Job 7.0 is being evicted from slot1@node")]
    if t.became == "completed":
        rows.append((t.ended, f"(7.0) (301): Job 7.0 terminated: {ended}"))
    return _lines([(t.placed1, "** condor_shadow (CONDOR_SHADOW) STARTING UP"), *rows])


def master_log(t: Truth) -> str:
    return _daemon_log("master")


def collector_log(t: Truth) -> str:
    return _daemon_log("collector")


def _daemon_log(daemon: str) -> str:
    return _lines([(-90, f"** condor_{daemon} (CONDOR_{daemon.upper()}) STARTING UP"), (-90, "** PID = 4 RealUID = 0")])
