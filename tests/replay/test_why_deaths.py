"""Golden: which daemon's death ended a run, or kept a job waiting, from logs as real daemons write them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import pytest

from poolbook.domain.log import Log
from poolbook.replay.why.answer import why

from ..importing.folders import TRACES, imported, write

DATA = TRACES.parent
HOST = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=localhost&noUDP&sock={}_83932_f306>"
LOST = "Job disconnected, attempting to reconnect\n    {}\n    Trying to reconnect to slot1@localhost " + HOST
FAILED = (
    "Job reconnection failed\n    Job not found at execution machine\n"
    "    Can not reconnect to slot1@localhost, rescheduling job"
)
EVICTED = "Job was evicted. Code 1008 Subcode 0\n\t(0) CPU times\n\tReason: Job not found at execution machine"
SOCKET = "Socket between submit and execute hosts closed unexpectedly"


def of_job(number: int, second: str, text: str, job: str = "002.000") -> str:
    return f"{number:03d} ({job}.000) 2026-11-20 {second} {text}\n...\n"


def event_log(*entries: tuple[int, str, str]) -> str:
    begun = [
        (0, "22:46:40", f"Job submitted from host: {HOST.format('schedd')}"),
        (1, "22:46:45", f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1@localhost"),
    ]
    return "".join(of_job(*entry) for entry in (*begun, *entries))


def daemon_log(daemon: str, *lines: tuple[str, str], pid: bool = False) -> str:
    """Lines as a daemon writes them; BEGAN and ENDED stand for what it says when it begins and ends."""
    found = []
    for second, text in lines:
        texts = [text]
        if text == "BEGAN":
            texts = [
                "******************************************************",
                f"** condor_{daemon} (CONDOR_{daemon.upper()}) STARTING UP",
                "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
                "** PID = 4711",
                f"DaemonCore: command socket at {HOST.format(daemon)}",
            ]
        elif text == "ENDED":
            texts = [f"**** condor_{daemon} (condor_{daemon.upper()}) pid 4711 EXITING WITH STATUS 0"]
        found += [f"11/20/26 {second} {'(pid:4711) ' * pid}{one}\n" for one in texts]
    return "".join(found)


RUN = (
    ("22:46:30", "BEGAN"),
    ("22:46:30", "slot1: New machine resource allocated"),
    ("22:46:31", "slot1: State change: IS_OWNER is false"),
    ("22:46:31", "slot1: Changing state: Owner -> Unclaimed"),
    ("22:46:44", "slot1: Request accepted."),
    ("22:46:44", "slot1: Remote owner is alice@localhost"),
    ("22:46:44", "slot1: State change: claiming protocol successful"),
    ("22:46:44", "slot1: Changing state: Unclaimed -> Claimed"),
    ("22:46:44", "slot1: Got activate_claim request from shadow (10.0.0.1)"),
    ("22:46:44", "slot1: Remote job ID is 2.0"),
    ("22:46:45", "slot1: Changing activity: Idle -> Busy"),
)
ANEW = (("22:47:05", "BEGAN"), ("22:47:05", "slot1: New machine resource allocated"))
GRACEFUL = (("22:47:03", "Got SIGTERM. Performing graceful shutdown."), ("22:47:04", "ENDED"), *ANEW)
SHADOW = (
    "22:46:44",
    f"Started shadow for job 2.0 on slot1@localhost {HOST.format('startd')}#1#2#... for alice, (shadow pid = 55)",
)
LATER = ("22:47:01", "Shadow pid 55 died with signal 9 (Killed)")
SCHEDD = (("22:46:30", "BEGAN"), SHADOW)
SCHEDD_ANEW = (*SCHEDD, ("22:47:05", "BEGAN"))
BY_STARTD = "the startd of localhost died between 2026-11-20 22:46:45 and 2026-11-20 22:47:05, when it began anew"
BY_SCHEDD = "the schedd of localhost died between 2026-11-20 22:46:44 and 2026-11-20 22:47:05, when it began anew"
BY_SHADOW = "the shadow died at 2026-11-20 22:47:01 (signal 9 (Killed))"

# What died -> the startd's log, the schedd's, and what is said of it.
DEATHS: dict[str, tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]], str, str]] = {
    "startd": ((*RUN, *ANEW), SCHEDD, BY_STARTD, "StartLog:17"),
    "schedd": (RUN, SCHEDD_ANEW, BY_SCHEDD, "SchedLog:8"),
    "shadow": (RUN, (*SCHEDD, LATER), BY_SHADOW, "SchedLog:7"),
    "nobody: the startd was ended": ((*RUN, *GRACEFUL), SCHEDD, "", ""),
    "nobody": (RUN, SCHEDD, "", ""),
}


def pool(folder: Path, startd: Sequence[tuple[str, str]], schedd: Sequence[tuple[str, str]], events: str) -> Log:
    write(folder / "EventLog", events)
    write(folder / "StartLog", daemon_log("startd", *startd))
    write(folder / "SchedLog", daemon_log("schedd", *schedd, pid=True))
    return imported(folder)[0]


@pytest.mark.parametrize("died", DEATHS)
def test_an_evicted_jobs_answer_names_the_daemon_that_died_with_its_time_and_place(died: str, tmp_path: Path) -> None:
    startd, schedd, words, place = DEATHS[died]
    ends = event_log(
        (22, "22:47:02", LOST.format(SOCKET, "startd").format("startd")),
        (24, "22:47:08", FAILED),
        (4, "22:47:08", EVICTED),
    )
    answer, *life = [sentence.text for sentence in why(pool(tmp_path, startd, schedd, ends), "2.0", None, UTC)]
    assert answer.startswith("Job 2.0 is idle since 2026-11-20 22:47:08: it was evicted from slot1@localhost")
    assert (f": {words}; its log says: Job not found at execution machine (code 1008" in answer) == bool(words)
    assert ("died" in answer) == bool(words)
    assert place in answer
    (lost,) = [text for text in life if text.startswith("Its shadow lost the connection to slot1@localhost")]
    assert words in lost


def test_a_run_without_an_end_is_ended_by_the_daemon_that_died(tmp_path: Path) -> None:
    again = event_log((1, "22:47:20", f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1@localhost"))
    texts = [sentence.text for sentence in why(pool(tmp_path, RUN, SCHEDD_ANEW, again), "2.0", None, UTC)]
    assert f"No record tells of the end of its run on slot1@localhost: {BY_SCHEDD}. [EventLog:6, SchedLog:8]" in texts


def test_what_the_slot_did_by_its_policy_is_no_deaths_doing(tmp_path: Path) -> None:
    policy = (
        ("22:46:59", "slot1: State change: PREEMPT is TRUE"),
        ("22:46:59", "slot1: State change: WANT_VACATE is TRUE"),
        ("22:46:59", "slot1: Changing state and activity: Claimed/Busy -> Preempting/Vacating"),
    )
    ends = event_log(
        (4, "22:47:00", "Job was evicted. Code 1011 Subcode 0\n\tReason: PREEMPT expression evaluated to True")
    )
    answer, *_ = why(pool(tmp_path, (*RUN, *policy, *ANEW), SCHEDD_ANEW, ends), "2.0", None, UTC)
    assert "the slot went to Preempting/Vacating" in answer.text
    assert "died" not in answer.text


def test_nothing_is_told_of_a_death_behind_a_gap_or_before_the_instant_that_is_asked_for(tmp_path: Path) -> None:
    ends = event_log((22, "22:47:02", LOST.format(SOCKET, "startd").format("startd")))
    log = pool(tmp_path / "a", (*RUN, *ANEW), SCHEDD, ends)
    then = 1_795_214_823 * 1_000_000  # 22:47:03
    assert BY_STARTD in why(log, "2.0", None, UTC)[-1].text
    assert "died" not in why(log, "2.0", then, UTC)[-1].text
    write(tmp_path / "b" / "EventLog", ends)
    cut = daemon_log("startd", *RUN) + "...... trimmed: 9 bytes in all ......\n" + daemon_log("startd", *ANEW)
    write(tmp_path / "b" / "StartLog", cut)
    assert "died" not in why(imported(tmp_path / "b")[0], "2.0", None, UTC)[-1].text


def test_a_job_that_waits_is_told_that_the_negotiator_died(tmp_path: Path) -> None:
    write(tmp_path / "EventLog", of_job(0, "22:46:40", f"Job submitted from host: {HOST.format('schedd')}"))
    cycle = ("22:46:41", "---------- Started Negotiation Cycle ----------")
    done = ("22:46:42", "---------- Finished Negotiation Cycle ----------")
    negotiator = daemon_log("negotiator", ("22:46:30", "BEGAN"), cycle, done, ("22:47:30", "BEGAN"))
    write(tmp_path / "NegotiatorLog", negotiator)
    answer, *_ = why(imported(tmp_path)[0], "2.0", None, UTC)
    assert answer.text.endswith(
        "The negotiator of localhost died between 2026-11-20 22:46:42 and 2026-11-20 22:47:30, when it began anew. "
        "[NegotiatorLog:9] Its records end at 2026-11-20 22:46:40."
    )


def test_a_real_startds_starter_that_was_killed_is_named(tmp_path: Path) -> None:
    """The StartLog is a real one (``data/points/deaths``); the schedd's side of it is written as a schedd does."""
    write(tmp_path / "StartLog", gzip.decompress((DATA / "points" / "deaths" / "StartLog.gz").read_bytes()))
    begun = f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1_1@localhost"
    entries = [
        (0, "17:41:57", f"Job submitted from host: {HOST.format('schedd')}"),
        (1, "17:42:01", begun),
        (22, "17:42:08", LOST.format(SOCKET, "startd").format("startd").replace("slot1@", "slot1_1@")),
        (24, "17:42:09", FAILED.replace("slot1@", "slot1_1@")),
        (4, "17:42:09", EVICTED),
    ]
    text = "".join(of_job(*entry) for entry in entries).replace("2026-11-20", "2026-11-21")
    write(tmp_path / "EventLog", text)
    answer, *_ = why(imported(tmp_path)[0], "2.0", None, UTC)
    assert (
        "evicted from slot1_1@localhost: the starter of slot1_1@localhost died at 2026-11-21 17:42:07 (signal 9)"
        in answer.text
    )
    assert "StartLog:97" in answer.text
