"""Golden: which daemon's death ended a run, or kept a job waiting, from logs as real daemons write them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.audit.examine import examine
from poolbook.replay.why.answer import why

from ..importing.folders import TRACES, imported, recorded, write
from ..together import together

DATA = TRACES.parent
HOST = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=localhost&noUDP&sock={}_83932_f306>"
LOST_CONNECTION = (
    "Job disconnected, attempting to reconnect\n    {}\n    Trying to reconnect to slot1@localhost " + HOST
)
FAILED_RECONNECTION = (
    "Job reconnection failed\n    Job not found at execution machine\n"
    "    Can not reconnect to slot1@localhost, rescheduling job"
)
EVICTED = "Job was evicted. Code 1008 Subcode 0\n\t(0) CPU times\n\tReason: Job not found at execution machine"
SOCKET = "Socket between submit and execute hosts closed unexpectedly"
SCHEDD_AGAIN = "Local schedd and job shadow died, schedd now running again"


def of_job(number: int, second: str, text: str, job: str = "002.000") -> str:
    return f"{number:03d} ({job}.000) 2026-11-20 {second} {text}\n...\n"


def event_log(*entries: tuple[int, str, str]) -> str:
    starts = [
        (0, "22:46:40", f"Job submitted from host: {HOST.format('schedd')}"),
        (1, "22:46:45", f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1@localhost"),
    ]
    return "".join(of_job(*entry) for entry in (*starts, *entries))


def daemon_log(daemon: str, *lines: tuple[str, str], pid: bool = False) -> str:
    """Return lines as a daemon writes them; BEGAN and ENDED stand in for its banners at the start and end."""
    lines_written = []
    for second, text in lines:
        messages = [text]
        if text == "BEGAN":
            messages = [
                "******************************************************",
                f"** condor_{daemon} (CONDOR_{daemon.upper()}) STARTING UP",
                "** $CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
                "** PID = 4711",
                f"DaemonCore: command socket at {HOST.format(daemon)}",
            ]
        elif text == "ENDED":
            messages = [f"**** condor_{daemon} (condor_{daemon.upper()}) pid 4711 EXITING WITH STATUS 0"]
        lines_written += [f"11/20/26 {second} {'(pid:4711) ' * pid}{message}\n" for message in messages]
    return "".join(lines_written)


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
RESTARTED = (("22:47:05", "BEGAN"), ("22:47:05", "slot1: New machine resource allocated"))
GRACEFUL = (("22:47:03", "Got SIGTERM. Performing graceful shutdown."), ("22:47:04", "ENDED"), *RESTARTED)
SHADOW = (
    "22:46:44",
    f"Started shadow for job 2.0 on slot1@localhost {HOST.format('startd')}#1#2#... for alice, (shadow pid = 55)",
)
LATER_RECORDS = ("22:47:01", "Shadow pid 55 died with signal 9 (Killed)")
SCHEDD = (("22:46:30", "BEGAN"), SHADOW)
SCHEDD_RESTARTED = (*SCHEDD, ("22:47:05", "BEGAN"))
BY_STARTD = "the startd of localhost died between 2026-11-20 22:46:45 and 2026-11-20 22:47:05, when it started again"
BY_SCHEDD = "the schedd of localhost died between 2026-11-20 22:46:44 and 2026-11-20 22:47:05, when it started again"
BY_SHADOW = "the shadow died at 2026-11-20 22:47:01 (signal 9 (Killed))"

# What died -> the startd's log, the schedd's, and the explanation.
DEATHS: dict[str, tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]], str, str]] = {
    "startd": ((*RUN, *RESTARTED), SCHEDD, BY_STARTD, "StartLog:17"),
    "schedd": (RUN, SCHEDD_RESTARTED, BY_SCHEDD, "SchedLog:8"),
    "shadow": (RUN, (*SCHEDD, LATER_RECORDS), BY_SHADOW, "SchedLog:7"),
    "no daemon: the startd was shut down": ((*RUN, *GRACEFUL), SCHEDD, "", ""),
    "no daemon": (RUN, SCHEDD, "", ""),
}


def pool(folder: Path, startd: Sequence[tuple[str, str]], schedd: Sequence[tuple[str, str]], events: str) -> EventStore:
    write(folder / "EventLog", events)
    write(folder / "StartLog", daemon_log("startd", *startd))
    write(folder / "SchedLog", daemon_log("schedd", *schedd, pid=True))
    return imported(folder)[0]


def texts_of(log: EventStore, job: str = "2.0", at: int | None = None) -> list[str]:
    """Return the answer's lines as one text, followed by the life."""
    answer = why(log, job, at, UTC)
    return [" ".join(line.full for line in answer.lines), *(sentence.full for sentence in answer.life)]


@pytest.mark.parametrize("died", DEATHS)
def test_the_answer_for_an_evicted_job_names_the_daemon_that_died_with_time_and_place(
    died: str, tmp_path: Path
) -> None:
    startd, schedd, explanation, place = DEATHS[died]
    second, reason = ("22:47:05", SCHEDD_AGAIN) if died == "schedd" else ("22:47:02", SOCKET)
    ends = event_log(
        (22, second, LOST_CONNECTION.format(reason, "startd").format("startd")),
        (24, "22:47:08", FAILED_RECONNECTION),
        (4, "22:47:08", EVICTED),
    )
    answer, *life = texts_of(pool(tmp_path, startd, schedd, ends))
    assert answer.startswith(
        "Job 2.0 has been waiting (Idle) since 2026-11-20 22:47:08. Job 2.0 was evicted from slot1@localhost"
    )
    assert (f": {explanation}; its log says: Job not found at execution machine (code 1008" in answer) == bool(
        explanation
    )
    assert ("died" in answer) == bool(explanation)
    assert place in answer
    assert explanation[1:] in " ".join(life)  # the death may be known later than the lost connection


def test_a_shadow_that_reports_a_lost_connection_has_a_schedd_that_dies_later(tmp_path: Path) -> None:
    ends = event_log((22, "22:46:59", LOST_CONNECTION.format(SOCKET, "startd").format("startd")))
    answer, *life = texts_of(pool(tmp_path, RUN, SCHEDD_RESTARTED, ends))
    assert "died" not in answer
    assert life[-1].startswith(f"Its shadow lost the connection to slot1@localhost: {SOCKET}. [")


def test_a_dead_daemon_explains_a_run_without_an_end(tmp_path: Path) -> None:
    later_start = event_log(
        (1, "22:47:20", f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1@localhost")
    )
    texts = texts_of(pool(tmp_path, RUN, SCHEDD_RESTARTED, later_start))
    assert (
        f"No record shows the end of its run on slot1@localhost: {BY_SCHEDD}. [EventLog:6, SchedLog:6, SchedLog:8]"
        in texts
    )


def test_a_transition_by_the_slots_policy_is_not_blamed_on_a_death(tmp_path: Path) -> None:
    policy = (
        ("22:46:59", "slot1: State change: PREEMPT is TRUE"),
        ("22:46:59", "slot1: State change: WANT_VACATE is TRUE"),
        ("22:46:59", "slot1: Changing state and activity: Claimed/Busy -> Preempting/Vacating"),
    )
    ends = event_log(
        (4, "22:47:00", "Job was evicted. Code 1011 Subcode 0\n\tReason: PREEMPT expression evaluated to True")
    )
    answer, *_ = texts_of(pool(tmp_path, (*RUN, *policy, *RESTARTED), SCHEDD_RESTARTED, ends))
    assert "the slot went to Preempting/Vacating" in answer
    assert "died" not in answer


def test_no_death_is_reported_after_a_gap_or_after_the_requested_instant(tmp_path: Path) -> None:
    ends = event_log((22, "22:47:02", LOST_CONNECTION.format(SOCKET, "startd").format("startd")))
    log = pool(tmp_path / "a", (*RUN, *RESTARTED), SCHEDD, ends)
    instant = 1_795_214_823 * 1_000_000  # 22:47:03
    assert BY_STARTD[1:] in texts_of(log)[-1]
    assert "died" not in texts_of(log, at=instant)[-1]
    write(tmp_path / "b" / "EventLog", ends)
    log_with_gap = (
        daemon_log("startd", *RUN) + "...... trimmed: 9 bytes in all ......\n" + daemon_log("startd", *RESTARTED)
    )
    write(tmp_path / "b" / "StartLog", log_with_gap)
    assert "died" not in texts_of(imported(tmp_path / "b")[0])[-1]


HELD = (12, "22:46:58", "Job was held.\n\tvia condor_hold (by user alice)\n\tCode 1 Subcode 0")
REMOVED = (9, "22:46:58", "Job was aborted.\n\tvia condor_rm (by user alice)")
ENDED_ENTRY = (5, "22:46:58", "Job terminated.\n\t(1) Normal termination (return value 0)")
BEGUN = (1, "22:46:58", f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1@localhost")
RELEASED = (13, "22:46:59", "Job was released.\n\tvia condor_release (by user alice)")

# The job's log, its lines after the schedd restarted at 22:47:05, and what the schedd had forgotten.
FORGOTTEN_CASES = [
    ((HELD,), HELD, "held"),
    ((HELD,), BEGUN, "held"),
    ((HELD, RELEASED), RELEASED, ""),  # not explained: a waiting job may have been released
    ((HELD, RELEASED), BEGUN, ""),
    ((REMOVED,), REMOVED, "removed"),
    ((REMOVED,), BEGUN, "removed"),
    ((REMOVED,), ENDED_ENTRY, "removed"),
    ((ENDED_ENTRY,), ENDED_ENTRY, "completed"),
    ((ENDED_ENTRY,), HELD, "completed"),
]


@together(("known_entries", "repeated_entry", "status"), FORGOTTEN_CASES)
def test_why_explains_what_a_schedd_repeats_after_losing_the_end_of_its_table(
    known_entries: Sequence[tuple[int, str, str]], repeated_entry: tuple[int, str, str], status: str, tmp_path: Path
) -> None:
    number, _, text = repeated_entry
    lost = "and lost the end of its job_queue.log."
    explanation = f"The access point lost the record that the job was {status}: {BY_SCHEDD}, {lost}"
    for second, schedd, is_explained in (
        ("22:47:06", SCHEDD_RESTARTED, bool(status)),
        ("22:47:06", SCHEDD, False),  # no daemon died
        ("22:59:06", SCHEDD_RESTARTED, False),  # too late to be the consequence
    ):
        folder = tmp_path / f"{second}-{len(schedd)}"
        _, *life = texts_of(pool(folder, RUN, schedd, event_log(*known_entries, (number, second, text))))
        assert [sentence for sentence in life if "lost the record" in sentence] == [
            f"{explanation} [EventLog:{last_entry_line(folder)}, SchedLog:6, SchedLog:8]"
        ] * is_explained


def last_entry_line(folder: Path) -> int:
    """Return the line of the last entry of a folder's EventLog."""
    lines = (folder / "EventLog").read_text(encoding="utf-8").split("...\n")
    return "...\n".join(lines[:-2]).count("\n") + 2


def test_why_of_a_waiting_job_reports_that_the_negotiator_died(tmp_path: Path) -> None:
    write(tmp_path / "EventLog", of_job(0, "22:46:40", f"Job submitted from host: {HOST.format('schedd')}"))
    cycle = ("22:46:41", "---------- Started Negotiation Cycle ----------")
    cycle_end = ("22:46:42", "---------- Finished Negotiation Cycle ----------")
    negotiator = daemon_log("negotiator", ("22:46:30", "BEGAN"), cycle, cycle_end, ("22:47:30", "BEGAN"))
    write(tmp_path / "NegotiatorLog", negotiator)
    answer, *_ = texts_of(imported(tmp_path)[0])
    assert answer.endswith(
        "The negotiator of localhost died between 2026-11-20 22:46:42 and 2026-11-20 22:47:30, when it started again. "
        "[NegotiatorLog:9] In that pool, `condor_q -better-analyze 2.0` shows which slots match. Its records end at "
        "2026-11-20 22:46:40."
    )


def test_a_real_startds_starter_that_was_killed_is_named(tmp_path: Path) -> None:
    """The StartLog is from HTCondor (``data/points/deaths``); the schedd's records are synthetic."""
    write(tmp_path / "StartLog", gzip.decompress((DATA / "points" / "deaths" / "StartLog.gz").read_bytes()))
    start = f"Job executing on host: {HOST.format('startd')}\n\tSlotName: slot1_1@localhost"
    entries = [
        (0, "17:41:57", f"Job submitted from host: {HOST.format('schedd')}"),
        (1, "17:42:01", start),
        (22, "17:42:08", LOST_CONNECTION.format(SOCKET, "startd").format("startd").replace("slot1@", "slot1_1@")),
        (24, "17:42:09", FAILED_RECONNECTION.replace("slot1@", "slot1_1@")),
        (4, "17:42:09", EVICTED),
    ]
    text = "".join(of_job(*entry) for entry in entries).replace("2026-11-20", "2026-11-21")
    write(tmp_path / "EventLog", text)
    answer, *_ = texts_of(imported(tmp_path)[0], at=1_795_282_932 * 1_000_000)  # 17:42:12: the StartLog continues
    assert (
        "evicted from slot1_1@localhost: the starter of slot1_1@localhost died at 2026-11-21 17:42:07 (signal 9)"
        in answer
    )
    assert "StartLog:97" in answer


# Records of such deaths from HTCondor (``data/runs``)

STATIC, DYNAMIC, MASTERS = "deaths", "deaths-of-dynamic-slots", "killed-daemons"
DIED = {STATIC: "the startd of localhost died between {} and 13:27:16, when it started again",
        DYNAMIC: "the startd of localhost died between {} and 13:31:52, when it started again"}  # fmt: skip


def real_answer(run: str, job: str, clock: str = "") -> list[str]:
    """Return the answer as of a time of that day, without the date and with the logs' own names."""
    log, _ = recorded(DATA / "runs" / run)
    at = round(datetime.fromisoformat(f"2026-11-22T{clock}Z").timestamp() * 1_000_000) if clock else None
    return [text.replace("2026-11-22 ", "").replace(".gz:", ":") for text in texts_of(log, job, at)]


# Run, job, the instant, what was killed, and the answer's words about it with the place.
REAL_CASES = [
    (STATIC, "1.0", "13:26:30", "evicted from slot2@localhost: the starter of slot2@localhost died at 13:26:27 (sig",
     "StartLog:91"),
    (STATIC, "1.1", "13:26:42", "has been waiting (Idle) since 13:26:41. Its shadow died after 21 s: signal 9 (Killed)"
     "; the job left slot3", "SchedLog:154"),
    (STATIC, "3.0", "13:27:06", "The negotiator of localhost died between 13:26:54 and 13:27:02, when it started "
     "again.", "NegotiatorLog:629"),
    (STATIC, "1.0", "13:27:59", f"from slot2@localhost: {DIED[STATIC].format('13:26:32')}; its log says: Job disco",
     "StartLog:137"),
    (STATIC, "2.0", "13:27:30", f"No shadow has been connected to it since 13:27:10. Its shadow lost the connection to "
     f"slot1@localhost: {DIED[STATIC].format('13:26:20')}", "StartLog:137"),
    (STATIC, "3.0", "", "The negotiator of localhost died between 13:30:06 and 13:30:14, when it started again.",
     "NegotiatorLog:3178"),
    (DYNAMIC, "1.0", "13:30:42", "from slot1_2@localhost: the starter of slot1_2@localhost died at 13:30:39 (signal 9)",
     "StartLog:86"),
    (DYNAMIC, "1.1", "13:30:54", "has been waiting (Idle) since 13:30:53. Its shadow died after 20 s: signal 9 "
     "(Killed)", "SchedLog:158"),
    (DYNAMIC, "3.0", "13:31:40", "The negotiator of localhost died between 13:31:32 and 13:31:38, when it started "
     "again.", "NegotiatorLog:1138"),
    (DYNAMIC, "1.1", "13:32:33", f"from slot1_3@localhost: {DIED[DYNAMIC].format('13:31:25')}", "StartLog:142"),
    (DYNAMIC, "1.1", "13:32:53", "lost the connection to slot1_2@localhost: the schedd of localhost died between "
     "13:32:36 and 13:32:53, when it started again: Local schedd and job shadow died", "SchedLog:603"),
    # if there is a MasterLog, it has the time
    (MASTERS, "3.0", "22:13:10", "The collector of localhost died at 22:13:06 (signal 9 (Killed)).", "MasterLog:39"),
    (MASTERS, "3.0", "22:13:24", "The negotiator of localhost died at 22:13:20 (signal 9 (Killed)).", "MasterLog:48"),
    (MASTERS, "1.0", "22:13:50", "slot2@localhost: the startd of localhost died at 22:13:34 (signal 9 (Killed)): Sock",
     "MasterLog:51"),
    (MASTERS, "3.0", "", "The master of localhost died between 22:13:50 and 22:16:20, when it started again.",
     "MasterLog:59"),
    (MASTERS, "slot1@localhost", "22:13:36", "The startd died (pid 22740, signal 9 (Killed)).", "MasterLog:51"),
    (MASTERS, "slot1@localhost", "22:16:00", "The startd ended: its master (pid 22684) had died (fast, status 0, pid "
     "23371).", "StartLog:182"),
]  # fmt: skip


@together(("run", "job", "clock", "explanation", "place"), REAL_CASES)
def test_the_answer_about_a_real_pool_names_the_killed_daemon(
    run: str, job: str, clock: str, explanation: str, place: str
) -> None:
    answer, *life = real_answer(run, job, clock)
    assert explanation in answer
    assert place in " ".join([answer, *life])


# Run -> a job that outlived its schedd's first death but not the second: its slot, the schedd's last report before it,
# when each schedd restarted, and the SchedLog's lines of both restarts.
OUTLIVED_SCHEDDS = {
    STATIC: ("slot1@localhost", "13:28:01", "13:28:17", "13:29:44", 422, 508),
    DYNAMIC: ("slot1_1@localhost", "13:32:36", "13:32:53", "13:34:20", 603, 689),
}


@pytest.mark.parametrize("run", OUTLIVED_SCHEDDS)
def test_each_death_of_a_schedd_is_named_for_its_consequences(run: str) -> None:
    slot, started_at, first, second, line, other_line = OUTLIVED_SCHEDDS[run]
    died = "the schedd of localhost died between {} and {}, when it started again"
    _, *life = real_answer(run, "1.0")
    lost, ended = [text for text in life if "chedd of" in text]
    assert lost.startswith(
        f"Its shadow lost the connection to {slot}: {died.format(started_at, first)}: Local schedd and"
    )
    assert lost.endswith(f"SchedLog:{line}]")
    assert ended.startswith(f"T{died.format(first, second)[1:]}. [SchedLog:{other_line}, SchedLog:")


def test_a_real_schedd_that_was_killed_had_forgotten_a_removal_and_an_end() -> None:
    """The schedd also died in the second in which 13.0 began."""
    log, _ = recorded(DATA / "recordings" / "kill-schedd-again")
    killed = "the schedd of localhost died at {} (signal 9 (Killed))"
    had_forgotten = (
        f"The access point lost the record that the job was {{}}: {killed}, "
        "and lost the end of its job_queue.log. [bob-job"
    )
    lost = f"Its shadow lost the connection to slot2@localhost: {killed}: Local schedd and job shadow died, schedd now"
    expected = {
        "13.0": [
            lost.format("23:34:15"),
            lost.format("23:34:25"),
            lost.format("23:34:40"),
            had_forgotten.format("completed", "23:34:40"),
        ],
        "15.0": [had_forgotten.format("removed", "23:34:25")],
    }
    for job, sentences in expected.items():
        _, *life = [text.replace("2026-11-22 ", "") for text in texts_of(log, job)]
        schedd_texts = [text for text in life if "the schedd of" in text]
        assert len(schedd_texts) == len(sentences)
        assert all(text.startswith(beginning) for text, beginning in zip(schedd_texts, sentences, strict=True)), (
            schedd_texts
        )


def test_a_new_shadow_is_reported_before_it_finds_its_job() -> None:
    texts = real_answer(STATIC, "1.0")
    reconnection = texts.index("Its shadow reconnected to it on slot1@localhost. [alice-job.log:142]")
    assert texts[reconnection - 1] == "The access point started a shadow for it (pid 34590). [SchedLog:464]"


def test_a_match_is_reported_with_its_run_and_not_for_an_earlier_slot() -> None:
    texts = real_answer(DYNAMIC, "1.1")
    matches = [number for number, text in enumerate(texts) if text.startswith("The negotiator matched")]
    shadows = [texts[number + 1].partition("(")[0] for number in matches]
    assert shadows == ["The access point started a shadow for it "] * len(matches)
    places = [texts[number].rpartition("[")[2] for number in matches]
    assert places == ["MatchLog:4]", "MatchLog:62]", "MatchLog:96]", "MatchLog:112]"]


def test_each_death_that_broke_a_connection_is_reported_once_in_order() -> None:
    losses = [text for text in real_answer(MASTERS, "1.0") if text.startswith("Its shadow lost the connection")]
    deaths = [text.partition("slot2@localhost: ")[2].rpartition(": ")[0] for text in losses]
    assert deaths == [
        "the startd of localhost died at 22:13:34 (signal 9 (Killed))",
        "the schedd of localhost died at 22:13:50 (signal 9 (Killed))",
        "the master of localhost died between 22:13:50 and 22:16:11, when its schedd found it gone",
    ]


@pytest.mark.parametrize("run", [STATIC, DYNAMIC, MASTERS, "alike"])
def test_a_pool_whose_daemons_were_killed_is_not_accused(run: str) -> None:
    audit = examine(recorded(DATA / "runs" / run)[0])
    assert audit.sound
    assert audit.contradictions == []


def test_a_match_whose_slot_went_to_another_user_names_the_job_that_ran_there() -> None:
    (text,) = [text for text in real_answer("alike", "1.1") if "slot3@localhost" in text]
    expected = "The negotiator matched it with slot3@localhost, where job 4.1 of bob@localhost ran."
    assert text == f"{expected} [MatchLog:7, StartLog:88]"
