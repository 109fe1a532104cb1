"""Golden and property: how `why` explains jobs and slots of a real pool, from records as its daemons write them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.imported.packed_ads import KeptAd, pack
from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.imported_log import IMPORTED, PlaceNames, shortest_tails
from poolbook.replay.listing.members import entries, line, parse_filter
from poolbook.replay.narration.sentences import Sentence, UnknownThingError
from poolbook.replay.runs.slot_records import SlotRecords
from poolbook.replay.why.answer import why
from poolbook.replay.why.cluster import UNKNOWN_STATE, outcomes

from ..audit.test_honest_recordings import packed_log
from ..importing.folders import recorded
from ..sampling import some, spread
from ..together import together

SECOND = 1_000_000
BEGIN = 1_795_214_200 * SECOND  # 2026-11-20 22:36:40
USER, GLOBAL, STARTD, NEGOTIATOR, SCHEDD, HISTORY, QUEUE, SHADOW = range(1, 9)
SOURCES = {
    USER: ("/home/alice/job.log", "userlog"),
    GLOBAL: ("/var/log/condor/EventLog", "eventlog"),
    STARTD: ("/var/log/condor/StartLog", "startlog"),
    NEGOTIATOR: ("/var/log/condor/NegotiatorLog", "negotiatorlog"),
    SCHEDD: ("/var/log/condor/SchedLog", "schedlog"),
    HISTORY: ("/var/lib/condor/spool/history", "history"),
    QUEUE: ("/var/lib/condor/spool/job_queue.log", "queue"),
    SHADOW: ("/var/log/condor/ShadowLog", "shadowlog"),
}
SLOT = "slot1@node"


def log_of(events: Sequence[e.Event]) -> EventStore:
    log = open_log("memory:", create=True)
    founding = e.PoolFounded(BEGIN, "founded", "import", "node", "htcondor-25", "node", "0", {IMPORTED: "true"})
    sources_found = [
        e.SourceFound(BEGIN, "read", f"{number}:0", number, path, kind, "node", "UTC")
        for number, (path, kind) in SOURCES.items()
    ]
    log.append([founding, *sources_found])
    log.append([logged for event in map(stored, events) for logged in (event, source_read(event))])
    return log


def source_read(event: e.Event) -> e.Event:
    """Return how far the event's source was read with it."""
    number, line = map(int, event.stimulus.split(":"))
    return e.SourceRead(BEGIN, "read", f"{number}:0", number, SOURCES[number][0], line, line, 0, "", "", "", 0)


def stored(event: e.Event) -> e.Event:
    """Return an event as a log stores it."""
    if not isinstance(event, e.JobLogged):
        return event
    source, line = map(int, event.stimulus.split(":"))
    log_entry = (event.at, line, event.proc, event.subproc, event.number, event.text)
    return e.JobsLogged(event.at, event.cause, event.stimulus, event.cluster, source, (log_entry,))


def log_entry(seconds: int, line: int, number: int, text: str, *, source: int = USER, proc: int = 0) -> e.JobLogged:
    return e.JobLogged(BEGIN + seconds * SECOND, "reported", f"{source}:{line}", 1, proc, 0, number, text)


def daemon_report(
    seconds: int, line: int, kind: str, *, source: int, proc: int = 0, cluster: int = 1, **facts: str
) -> e.Event:
    at = BEGIN + seconds * SECOND
    return e.JobReported(at, "reported", f"{source}:{line}", cluster, proc, kind, facts)


def slot_transition(seconds: int, line: int, row: str, source: str, target: str, reason: str = "") -> e.Event:
    at = BEGIN + seconds * SECOND
    return e.SlotTransitioned(at, "reported", f"{STARTD}:{line}", SLOT, row, source, target, reason)


def slot_report(seconds: int, line: int, kind: str, slot: str = SLOT, **facts: str) -> e.Event:
    return e.SlotReported(BEGIN + seconds * SECOND, "reported", f"{STARTD}:{line}", slot, kind, facts)


SUBMIT = "Job submitted from host: <10.0.0.1:9618?addrs=10.0.0.1-9618&alias=access&noUDP>"
EXECUTE = f"Job executing on host: <10.0.0.2:9618?alias=node>\n\tSlotName: {SLOT}"
EVICTED = "Job was evicted. Code 1005 Subcode 0\n\t(0) CPU times\n\tReason: Unspecified job interruption"


def end_text(how: str) -> str:
    usage = "Usr 0 00:00:07, Sys 0 00:00:01  -  Run Remote Usage"
    return f"Job terminated.\n\t(1) Normal termination (return value {how})\n\t\t{usage}"


LOGGED = [
    log_entry(2, 1, 0, SUBMIT),
    log_entry(7, 3, 1, EXECUTE),
    log_entry(17, 9, 4, EVICTED),
    log_entry(27, 20, 1, EXECUTE),
    log_entry(
        33,
        24,
        6,
        "Image size of job updated: 2600\n\t2  -  MemoryUsage of job (MB)\n\t1680  -  ResidentSetSize of job (KB)",
    ),
    log_entry(47, 30, 5, end_text("3")),
]
REPORTED = [
    daemon_report(5, 4, "rejected", source=NEGOTIATOR, user="alice@pool", words="no match found"),
    daemon_report(6, 8, "rejected", source=NEGOTIATOR, user="alice@pool", words="no match found"),
    daemon_report(7, 10, "matched", source=NEGOTIATOR, user="alice@pool", slot=SLOT, preempting="none"),
    daemon_report(7, 40, "shadow_began", source=SCHEDD, slot=SLOT, user="alice", shadow="4711"),
    daemon_report(17, 50, "shadow_gone", source=SCHEDD, shadow="4711", status="107"),
    daemon_report(17, 20, "matched", source=NEGOTIATOR, cluster=2, user="bob@pool", slot=SLOT, preempting="alice@pool"),
    daemon_report(27, 30, "matched", source=NEGOTIATOR, user="alice@pool", slot=SLOT, preempting="bob@pool"),
]
OF_SLOT = [
    e.SlotCreated(BEGIN, "reported", f"{STARTD}:41", SLOT, "node", "static", "", {}),
    slot_transition(0, 53, "1", "Owner/Idle", "Unclaimed/Idle", "IS_OWNER is false."),
    slot_report(7, 62, "owner", user="alice@pool"),
    slot_transition(7, 64, "5", "Unclaimed/Idle", "Claimed/Idle"),
    slot_report(7, 74, "activated", job="1.0"),
    slot_transition(7, 78, "11", "Claimed/Idle", "Claimed/Busy", "claiming protocol successful"),
    slot_transition(17, 94, "13a", "Claimed/Busy", "Preempting/Vacating", "preempting claim based on user priority"),
    slot_report(17, 120, "owner", user="bob@pool"),
    slot_transition(17, 121, "23", "Preempting/Vacating", "Claimed/Idle", "preempting claim exists"),
    slot_report(17, 129, "activated", job="2.0"),
    slot_transition(17, 132, "11", "Claimed/Idle", "Claimed/Busy", "claiming protocol successful"),
]
EVERYTHING = [*LOGGED, *REPORTED, *OF_SLOT]


def answer_texts(log: EventStore, name: str, seconds: int | None = None) -> list[str]:
    """Return the answer's lines as one text, followed by the life."""
    answer = why(log, name, None if seconds is None else BEGIN + seconds * SECOND)
    return [" ".join(line.full for line in answer.lines), *(sentence.full for sentence in answer.life)]


def test_a_jobs_life_is_told_from_all_records_of_its_pool() -> None:
    assert answer_texts(log_of(EVERYTHING), "1.0") == [
        "Job 1.0 completed at 2026-11-20 22:37:27, with code 3. Job 1.0 ended after 20 s on slot1@node, with code 3 "
        "(CPU 8 s, memory 1.6 MiB). [job.log:30] Job 1.0 was evicted once at 2026-11-20 22:36:57, because "
        "the negotiator gave the slot to a user with a better priority. `poolbook why -verbose 1.0` shows the whole "
        "history, with the position of each record.",
        "alice@pool submitted job 1.0 to access. [job.log:1]",
        "The negotiator rejected job 1.0 2 times from 2026-11-20 22:36:45 until 2026-11-20 22:36:46, most recently: "
        "no match found. "
        "[NegotiatorLog:8, NegotiatorLog:4]",
        f"The negotiator matched job 1.0 with {SLOT}. [NegotiatorLog:10]",
        f"The access point started a shadow for it (pid 4711), for {SLOT}. [SchedLog:40]",
        f"Job 1.0 started on {SLOT}. [job.log:3]",
        "Job 1.0 was evicted from slot1@node after 10 s: the negotiator gave the slot to a user with a better priority "
        "(the slot went to Preempting/Vacating: preempting claim based on user priority); job 2.0 of bob@pool took its "
        "place. [job.log:9, StartLog:94, StartLog:129]",
        f"The negotiator matched job 1.0 with {SLOT}, preempting bob@pool. [NegotiatorLog:30]",
        f"Job 1.0 started on {SLOT}. [job.log:20]",
        f"Job 1.0 ended after 20 s on {SLOT}, with code 3 (CPU 8 s, memory 1.6 MiB). [job.log:30]",
    ]


# Instant -> how the answer begins.
ANSWER_BEGINNINGS = {
    3: "Job 1.0 has been waiting (Idle) since 2026-11-20 22:36:42. alice@pool submitted job 1.0",
    12: f"Job 1.0 has been running on {SLOT} since 2026-11-20 22:36:47. Job 1.0 started on {SLOT}. [job.log:3]",
    20: "Job 1.0 has been waiting (Idle) since 2026-11-20 22:36:57. Job 1.0 was evicted from",
    40: "Job 1.0 has been running on slot1@node since 2026-11-20 22:37:07. Job 1.0 started on slot1@node. [job.log:20] "
    "At 2026-11-20 22:37:13 it used 1.6 MiB of memory. [job.log:24]",
}


@pytest.mark.parametrize("seconds", ANSWER_BEGINNINGS)
def test_the_answer_is_that_of_the_instant(seconds: int) -> None:
    assert answer_texts(log_of(EVERYTHING), "1.0", seconds)[0].startswith(ANSWER_BEGINNINGS[seconds])


# How the slot's log ends the run, after its lines about the beginning -> the answer, and the cluster's count.
ENDS_OF_RUNS: dict[str, tuple[list[e.Event], str, str]] = {
    "its startd was shut down": (
        [
            slot_transition(17, 94, "13b", "Claimed/Busy", "Preempting/Killing", "shutdown fast"),
            slot_transition(17, 98, "25", "Preempting/Killing", "Owner/Idle", "starter exited"),
        ],
        "Job 1.0 has been waiting (Idle) since 2026-11-20 22:36:57. Its run on slot1@node was ended after 10 s: the "
        "startd was shut "
        "down (the slot went to Preempting/Killing: shutdown fast). [StartLog:94] No log shows",
        "1 idle",
    ),
    "no recorded reason": (
        [slot_transition(17, 94, "12", "Claimed/Busy", "Claimed/Idle", "Called deactivate_claim_job_done")],
        "Job 1.0 has no records after 2026-11-20 22:36:57, so its current state is unknown. "
        "Its run on slot1@node ended after 10 s. [StartLog:94] Its",
        f"1 {UNKNOWN_STATE}",
    ),
    "it still runs": ([], f"Job 1.0 has been running on {SLOT} since 2026-11-20 22:36:47.", "1 running"),
}


@pytest.mark.parametrize("how", ENDS_OF_RUNS)
def test_the_answer_uses_the_end_of_a_run_that_only_the_slots_log_has(how: str) -> None:
    ends, answer, count = ENDS_OF_RUNS[how]
    log = log_of([*LOGGED[:2], *OF_SLOT[:6], *ends])
    assert answer_texts(log, "1.0")[0].startswith(answer)
    assert answer_texts(log, "1.0", 12)[0].startswith(f"Job 1.0 has been running on {SLOT} since 2026-11-20 22:36:47.")
    assert why(log, "1").texts[0] == f"Cluster 1 has 1 job: {count}."
    assert answer_texts(log, "1", 12)[0] == "Cluster 1 has 1 job: 1 running."


def test_an_entry_of_two_logs_is_reported_once() -> None:
    copies = [
        e.JobLogged(original.at, original.cause, f"{GLOBAL}:{line_number}", 1, 0, 0, original.number, original.text)
        for line_number, original in enumerate(LOGGED, 1)
    ]
    assert answer_texts(log_of([*EVERYTHING, *copies]), "1.0") == answer_texts(log_of(EVERYTHING), "1.0")
    assert "[EventLog:6]" in answer_texts(log_of([*copies]), "1.0")[0]


def test_contradicting_sources_are_both_reported() -> None:
    other = log_entry(47, 120, 5, end_text("4"), source=GLOBAL)
    ad = "ClusterId = 1\nProcId = 0\nQDate = 1795214202\nJobStatus = 4\nExitBySignal = false\nExitCode = 5"
    (answer, *_) = answer_texts(log_of([*LOGGED, other, _history(1, ad)]), "1.0")
    assert (
        "with code 3 (CPU 8 s, memory 1.6 MiB); but EventLog:120 says code 4; but the job history says code 5" in answer
    )
    assert "(history:1)" in answer


def _history(line: int, *texts: str) -> e.AdsKept:
    ads, index = pack([KeptAd(line, text) for text in texts])
    return e.AdsKept(BEGIN + 100 * SECOND, "reported", f"{HISTORY}:{line}", "history", len(texts), ads, index)


def test_a_job_only_in_the_history_is_explained_from_its_ad() -> None:
    ad = (
        'ClusterId = 7\nProcId = 2\nQDate = 1795214202\nUser = "eve@pool"\nJobStatus = 3\n'
        'LastRemoteHost = "slot1@node"\nJobCurrentStartDate = 1795214210\nEnteredCurrentStatus = 1795214260\n'
        'RemoveReason = "via condor_rm (by user eve)"'
    )
    log = log_of([_history(11, ad)])
    assert answer_texts(log, "7.2") == [
        "Job 7.2 was removed at 2026-11-20 22:37:40. eve removed job 7.2 (condor_rm) after 1 run. "
        "[history:11] `poolbook why -verbose 7.2` shows the whole history, with the position of each record.",
        "eve@pool submitted job 7.2. [history:11]",
        f"Job 7.2 started on {SLOT}. [history:11]",
        "eve removed job 7.2 (condor_rm) after 1 run. [history:11]",
    ]
    assert answer_texts(log, "7.2", 20)[0].startswith(f"Job 7.2 has been running on {SLOT} since 2026-11-20 22:36:50.")


def test_a_job_only_in_the_schedds_table_is_explained_from_it() -> None:
    ad = {"ClusterId": "3", "ProcId": "1", "QDate": "1795214202", "User": '"eve@pool"', "JobStatus": "5"}
    ad |= {"HoldReason": '"no disk"'}
    operations = [(101, "3.1", "Job", "Machine"), *((103, "3.1", name, text) for name, text in ad.items())]
    header = ((107, "1", "CreationTimestamp", "1795214200"),)
    transactions = [
        e.TableWritten(BEGIN, "reported", f"{QUEUE}:1", "queue", 1, header),
        e.TableWritten(BEGIN + 9 * SECOND, "reported", f"{QUEUE}:2", "queue", 2, tuple(operations)),
    ]
    assert answer_texts(log_of(transactions), "3.1") == [
        "Job 3.1 has been held since 2026-11-20 22:36:49. It was on hold: no disk, by the schedd's table. "
        "[job_queue.log:2] In that pool, `condor_release 3.1` lets it wait for a slot again. Its records end at "
        "2026-11-20 22:36:49.",
        "eve@pool submitted job 3.1. [job_queue.log:2]",
        "It was on hold: no disk, by the schedd's table. [job_queue.log:2]",
    ]


def test_a_job_without_a_log_is_explained_from_the_daemons_reports() -> None:
    texts = answer_texts(log_of([*REPORTED, *OF_SLOT]), "1.0", 20)
    assert texts[0].startswith(
        "Job 1.0 has been waiting (Idle) since 2026-11-20 22:36:57. Its shadow ended after 10 s with status 107"
    )
    assert "the negotiator gave the slot to a user with a better priority" in texts[0]


def test_a_reused_number_means_the_last_job_unless_an_earlier_instant_is_requested() -> None:
    later_job = [
        log_entry(5000, 60, 0, SUBMIT),
        log_entry(5010, 63, 9, "Job was aborted.\n\tvia condor_rm (by user alice)"),
    ]
    log = log_of([*EVERYTHING, *later_job])
    assert answer_texts(log, "1.0") == [
        "Job 1.0 was removed at 2026-11-21 00:00:10. alice removed job 1.0 (condor_rm). "
        "[job.log:63] `poolbook why -verbose 1.0` shows the whole history, with the position of each record.",
        "alice@pool submitted job 1.0 to access. [job.log:60]",
        "alice removed job 1.0 (condor_rm). [job.log:63]",
    ]
    assert answer_texts(log, "1.0", 4000) == answer_texts(log_of(EVERYTHING), "1.0")


HELD = log_entry(60, 70, 12, "Job was held.\n\tplease stop (by user alice)\n\tCode 1 Subcode 0")
KILLED = "Job terminated.\n\t(0) Abnormal termination (signal 11)\n\t(0) No core file"
STARTED = log_entry(60, 70, 1, EXECUTE)
STOPPED = log_entry(61, 75, 10, "Job was suspended.")
# The log's last entries -> part of the answer.
ENDINGS = {
    "held": (
        [HELD],
        "has been held since 2026-11-20 22:37:40. alice put job 1.0 on hold: please stop (code 1,",
    ),
    "released": ([HELD, log_entry(70, 73, 13, "Job was released.\n\tnow")], "Job 1.0 was released: now"),
    "removed": (
        [log_entry(60, 70, 9, "Job was aborted.\n\tenough")],
        "was removed at 2026-11-20 22:37:40. Job 1.0 was removed: enough",
    ),
    "killed": ([log_entry(60, 70, 5, KILLED)], "with signal 11"),
    "gave up": ([log_entry(60, 70, 7, "Shadow exception!\n\tdisk full")], "Its shadow gave up: disk full"),
    "suspended": ([STARTED, STOPPED], f"has been suspended on {SLOT} since 2026-11-20 22:37:41"),
    "went on": ([STARTED, STOPPED, log_entry(65, 78, 11, "Job was unsuspended.")], "has been running on"),
    "twice": ([STARTED, log_entry(90, 75, 1, EXECUTE)], "has been running on"),
}


@together("name", ENDINGS)
def test_every_end_of_a_jobs_log_has_its_answer(name: str) -> None:
    entries, expected = ENDINGS[name]
    (answer, *life) = answer_texts(log_of([LOGGED[0], *entries]), "1.0")
    assert expected in answer
    assert len(life) == len(entries) + 1 + (name == "twice")
    assert (name == "twice") == any("No record shows the end of its run" in text for text in life)


def test_a_killed_shadow_is_not_explained_by_a_much_later_slot_transition() -> None:
    killed = daemon_report(11, 50, "shadow_gone", source=SCHEDD, shadow="4711", reason="signal 9 (Killed)")
    assert "Its shadow died after 4 s: signal 9 (Killed). [SchedLog:50]" in answer_texts(
        log_of([*LOGGED[:2], *REPORTED[2:4], killed, *OF_SLOT]), "1.0"
    )


@together(("seconds", "told_of_slot"), [(11, False), (14, False), (15, False), (17, True), (26, True), (28, False)])
def test_an_eviction_is_explained_by_a_transition_within_seconds_of_it(seconds: int, told_of_slot: bool) -> None:
    eviction = log_entry(seconds, 9, 4, EVICTED)
    (text,) = [
        line
        for line in answer_texts(log_of([*LOGGED[:2], eviction, *OF_SLOT]), "1.0")
        if line.startswith("Job 1.0 was evicted")
    ]
    assert ("StartLog:94" in text) == told_of_slot


def test_a_cancelled_retirement_does_not_explain_a_later_eviction() -> None:
    slot = [
        *OF_SLOT[:6],
        slot_transition(9, 80, "13", "Claimed/Busy", "Claimed/Retiring", "Initiating graceful draining"),
        slot_transition(
            11, 82, "17", "Claimed/Retiring", "Claimed/Busy", "unretiring because no preempting claim exists"
        ),
        slot_transition(17, 94, "12a", "Claimed/Busy", "Claimed/Cleaning"),
    ]
    assert not any("drain" in text for text in answer_texts(log_of([*LOGGED[:3], *slot]), "1.0"))


def test_a_shadow_of_one_second_ends_after_it_began_and_on_its_own_slot() -> None:
    other_slot = "slot9@node"
    shadow_reports = [
        daemon_report(30, 60, "shadow_began", source=SCHEDD, slot=other_slot, shadow="4712"),
        daemon_report(30, 61, "shadow_gone", source=SCHEDD, shadow="4712", status="108"),
    ]
    assert answer_texts(log_of([*LOGGED[:3], *REPORTED[3:5], *shadow_reports, *OF_SLOT]), "1.0")[-2:] == [
        f"The access point started a shadow for it (pid 4712), for {other_slot}. [SchedLog:60]",
        "Its shadow ended with status 108: the job could not be started. [SchedLog:61]",
    ]


def test_an_eviction_in_the_second_of_its_shadows_start_follows_that_start() -> None:
    events = [
        LOGGED[0],
        REPORTED[3],
        log_entry(7, 9, 4, EVICTED),
        daemon_report(7, 5, "evicting", source=SHADOW, slot=SLOT, shadow="4711"),
        daemon_report(7, 50, "shadow_gone", source=SCHEDD, shadow="4711", status="107"),
    ]
    assert [text.partition(";")[0] for text in answer_texts(log_of(events), "1.0")[-2:]] == [
        f"The access point started a shadow for it (pid 4711), for {SLOT}. [SchedLog:40]",
        f"Job 1.0 was evicted from {SLOT}",
    ]


def test_a_slots_records_of_another_job_belong_to_no_run() -> None:
    slots = SlotRecords(log_of(OF_SLOT))
    assert slots.run(SLOT, "1.0", BEGIN + 7 * SECOND)
    assert slots.run(SLOT, "1.7", BEGIN + 7 * SECOND) == []


def test_a_reconnected_job_stays_on_its_slot() -> None:
    logged = [
        log_entry(
            8, 10, 22, f"Job disconnected, attempting to reconnect\n    why\n    Trying to reconnect to {SLOT} <x>"
        ),
        log_entry(9, 12, 23, f"Job reconnected to {SLOT}\n    startd address: <x>"),
        log_entry(10, 14, 10, "Job was suspended."),
        log_entry(12, 16, 11, "Job was unsuspended."),
    ]
    new_shadow = daemon_report(9, 70, "shadow_began", source=SCHEDD, shadow="4712")
    for earlier in (LOGGED[:2], LOGGED[:1]):  # if its beginning is missing, the entry names the slot
        texts = answer_texts(log_of([*earlier, *logged, new_shadow]), "1.0")
        assert texts[0].startswith(
            f"Job 1.0 has been running on {SLOT} since 2026-11-20 22:36:52. Job 1.0 was continued on {SLOT}. ["
        )
        assert f"Its shadow reconnected to it on {SLOT}. [job.log:12]" in texts
        assert not [text for text in texts if " on ." in text or "on  " in text]


def test_an_eviction_names_the_slot_of_the_error_despite_another_match_in_that_second() -> None:
    logged = [
        LOGGED[0],
        log_entry(17, 9, 21, "Error from starter on slot3@node:\n\tFailed to transfer files\n\tCode 13 Subcode 2"),
        log_entry(17, 13, 4, "Job was evicted. Code 13 Subcode 2\n\t(0) CPU times\n\tReason: Transfer failed"),
        LOGGED[3],
    ]
    for shadow_second in (7, 17):  # its shadow may begin in that second, too
        shadows = [
            daemon_report(shadow_second, 40, "shadow_began", source=SCHEDD, slot="slot3@node", shadow="1"),
            daemon_report(17, 50, "shadow_began", source=SCHEDD, slot="slot2@node", shadow="2"),
        ]
        life = answer_texts(log_of([*logged, *shadows]), "1.0")
        assert [text.partition(";")[0] for text in life if "was evicted" in text][-1] == (
            "Job 1.0 was evicted from slot3@node"
        )


def recorded_log(name: str) -> EventStore:
    return packed_log(HONEST / f"{name}.tar.xz")


def test_a_checkpoint_exit_code_is_not_the_jobs_exit_code() -> None:
    answer, *life = answer_texts(recorded_log("one-25-l-transfer-checkpoint"), "4.1")
    assert "with code 0 (memory" in answer and "but" not in answer
    assert [text.partition(". [")[0] for text in life if "code 85" in text] == [
        f"It wrote a checkpoint on slot1@localhost after {run_time}, and exited with code 85 to be started again"
        for run_time in ("3 s", "6 s")
    ]


def test_a_cooling_job_is_reported_to_wait_until_its_cool_down_ends() -> None:
    log = recorded_log("fault-mixed-1")
    for job, until in (("2.0", "22:05:38"), ("3.0", "22:06:03")):
        answer, *life = answer_texts(log, job)
        expected = f"It is cooling down: no negotiation cycle considers it before 2026-11-26 {until}."
        assert expected in answer and "No record" not in answer
        assert any(text.startswith(expected) for text in life)
    assert (
        "cools down" not in answer_texts(log, "9.0")[0]
    )  # the cool-down is over, and the job was considered since then


def test_a_run_that_will_be_repeated_has_the_repetition_as_its_cause() -> None:
    answer, *_ = answer_texts(recorded(TRACES / "13-deferral-crontab")[0], "1.0")
    assert "3 times, last at 2026-11-20 22:46:00: at 22:44:00 because it ended, and was to run again; at" in answer


def test_why_explains_only_one_access_points_job_of_a_number() -> None:
    answer, *life = answer_texts(recorded_log("many-01-plain"), "2.0")
    assert "but" not in answer
    assert not [text for text in life if "ap2" in text]


def test_a_match_for_another_jobs_run_or_after_the_start_is_not_a_cause() -> None:
    matched = daemon_report(8, 10, "matched", source=NEGOTIATOR, proc=5, slot=SLOT)
    of_other = log_entry(9, 11, 1, EXECUTE, proc=5)
    later_start = log_entry(20, 12, 1, EXECUTE, proc=3)
    log = log_of([LOGGED[1], matched, of_other, later_start])
    assert [any("matched" in text for text in answer_texts(log, f"1.{proc}")) for proc in (0, 3, 5)] == [
        False,
        False,
        True,
    ]


def test_matches_used_by_similar_jobs_are_one_sentence_that_names_the_jobs() -> None:
    matched = [daemon_report(20 + index, 10 + index, "matched", source=NEGOTIATOR, slot=SLOT) for index in range(9)]
    activations = [slot_report(21 + index, 300 + index, "activated", job=f"{5 + index // 5}.0") for index in range(9)]
    rejected = daemon_report(24, 90, "rejected", source=NEGOTIATOR, user="alice@pool", words="no match found")
    texts = answer_texts(log_of([LOGGED[0], *matched, rejected, *OF_SLOT[:2], *activations]), "1.0")
    assert [text for text in texts if "gave" in text or "matched" in text] == [
        f"The negotiator matched {SLOT} with jobs like this one, 9 times until 2026-11-20 22:37:08; jobs 5.0, 6.0 ran "
        "there. [NegotiatorLog:18, NegotiatorLog:10, StartLog:300, StartLog:305]"
    ]


def test_a_match_used_by_a_similar_job_on_a_dynamic_slot_names_the_job() -> None:
    matched = daemon_report(20, 10, "matched", source=NEGOTIATOR, slot=SLOT)
    activations = [
        slot_report(second, second, "activated", SLOT.replace("@", f"_{number}@"), job=job)
        for number, second, job in ((1, 24, "6.0"), (2, 21, "5.0"))
    ]
    (text,) = [
        text for text in answer_texts(log_of([LOGGED[0], matched, *activations]), "1.0") if "like this one" in text
    ]
    assert (
        text
        == f"The negotiator matched {SLOT} with jobs like this one; job 5.0 ran there. [NegotiatorLog:10, StartLog:21]"
    )


def test_a_reused_shadow_takes_the_job_after_the_previous_one_ended() -> None:
    new_job = daemon_report(27, 60, "shadow_began", source=SCHEDD, slot=SLOT, user="alice", shadow="4711", before="5.0")
    texts = answer_texts(log_of([*LOGGED[:4], *REPORTED[2:5], new_job]), "1.0")
    assert texts[-2] == (
        f"The access point reused the shadow of job 5.0 (pid 4711), which had ended, for it on {SLOT}. [SchedLog:60]"
    )


MATCHES_OF_OTHERS: dict[str, tuple[str, list[e.Event], bool]] = {
    "by the slot's log": ("alice@pool", [*OF_SLOT[:6]], True),
    "where the slot has no log": ("alice", [], True),
    "but another user has it": ("bob@pool", [*OF_SLOT[:6]], False),
    "but another job ran on it first": (
        "alice@pool",
        [slot_report(7, 60, "activated", job="5.0"), *OF_SLOT[2:6]],
        False,
    ),
    "but the job that it names ran on it": (
        "alice@pool",
        [daemon_report(7, 41, "shadow_began", source=SCHEDD, cluster=5, slot=SLOT, user="alice", shadow="4712")],
        False,
    ),
}


@pytest.mark.parametrize("how", MATCHES_OF_OTHERS)
def test_a_run_by_a_match_of_another_cluster_of_the_autocluster_names_both_and_the_slot(how: str) -> None:
    user, other_events, expected = MATCHES_OF_OTHERS[how]
    matched = daemon_report(6, 10, "matched", source=NEGOTIATOR, cluster=5, user=user, slot=SLOT, preempting="none")
    shadow_began = daemon_report(7, 40, "shadow_began", source=SCHEDD, slot=SLOT, user="alice", shadow="4711")
    texts = answer_texts(log_of([*LOGGED[:2], matched, shadow_began, *other_events]), "1.0")
    sentence = f"The negotiator matched job 1.0, as one like job 5.0, with {SLOT}. [NegotiatorLog:10]"
    assert (sentence in texts) == expected


def test_a_claim_by_a_match_of_another_cluster_of_its_holder_is_reported() -> None:
    matched = daemon_report(
        6, 10, "matched", source=NEGOTIATOR, cluster=5, user="alice@pool", slot=SLOT, preempting="none"
    )
    texts = answer_texts(log_of([*LOGGED[:2], matched, *OF_SLOT[:6]]), SLOT)
    assert "The negotiator matched it with job 5.0 of alice@pool, or one like it. [NegotiatorLog:10]" in texts


LATER_RUN = [
    slot_report(50, 200, "owner", "slot2@node", user="alice@pool"),
    slot_report(50, 201, "activated", "slot2@node", job="1.0"),
]
RUN_ENDED = [
    e.SlotTransitioned(BEGIN + (50 + n) * SECOND, "reported", f"{STARTD}:{202 + n}", "slot2@node", *row)
    for n, row in enumerate([("11", "Claimed/Idle", "Claimed/Busy"), ("12", "Claimed/Busy", "Claimed/Idle")])
]
# What the slot's log says about a run after the end of the job's own log -> the answer.
BY_SLOT_ALONE: dict[str, tuple[list[e.Event], str]] = {
    "begun": (
        [*LATER_RUN],
        "has been running on slot2@node since 2026-11-20 22:37:30. The log of slot2@node shows that it started there.",
    ),
    "over": (
        [*LATER_RUN, *RUN_ENDED],
        "has no records after 2026-11-20 22:37:31, so its current state is unknown. "
        "The log of slot2@node shows that its run there ended",
    ),
    "of another access point's user": (
        [slot_report(50, 200, "owner", "slot2@node", user="eve@pool"), *LATER_RUN[1:]],
        "has been waiting (Idle) since 2026-11-20 22:36:57",
    ),
}


@pytest.mark.parametrize("how", BY_SLOT_ALONE)
def test_a_job_whose_last_run_is_only_in_the_slots_log_is_not_waiting(how: str) -> None:
    run_events, expected = BY_SLOT_ALONE[how]
    log = log_of([*LOGGED[:3], *REPORTED[2:3], *OF_SLOT, *run_events])
    assert answer_texts(log, "1.0")[0].startswith(f"Job 1.0 {expected}")


def test_an_end_names_the_slot_of_the_last_run() -> None:
    ends = log_entry(80, 40, 5, end_text("0"))
    ad = 'ClusterId = 1\nProcId = 0\nQDate = 1795214202\nJobStatus = 4\nExitCode = 0\nLastRemoteHost = "slot3@node"'
    by_slot = log_of([*LOGGED[:3], *OF_SLOT, *LATER_RUN, *RUN_ENDED[:1], ends])
    assert answer_texts(by_slot, "1.0")[-1].startswith("Job 1.0 ended after 30 s on slot2@node, with code 0")
    by_history = log_of([*LOGGED[:3], ends, _history(1, ad)])
    assert answer_texts(by_history, "1.0")[-1].startswith("Job 1.0 ended on slot3@node, with code 0")
    assert answer_texts(log_of([*LOGGED[:3], ends]), "1.0")[-1].startswith("Job 1.0 ended, with code 0")


@pytest.mark.parametrize(("times", "expected"), [(1, ""), (3, ", 3 times until 2026-11-20 22:37:02")])
def test_matches_without_a_recorded_run_are_one_sentence(times: int, expected: str) -> None:
    matched = [daemon_report(20 + index, 10 + index, "matched", source=NEGOTIATOR, slot=SLOT) for index in range(times)]
    (text,) = [text for text in answer_texts(log_of([LOGGED[0], *matched]), "1.0") if "matched" in text]
    assert text.startswith(f"The negotiator matched it with {SLOT}{expected}; no record shows a run after that. [")


def test_a_real_match_used_by_another_job_names_that_job(tmp_path: Path) -> None:
    log, _ = recorded(TRACES / "13-deferral-crontab")
    texts = answer_texts(log, "23.0")
    (text,) = [text for text in texts if "with jobs like this one" in text]
    assert text.startswith("The negotiator matched slot4@localhost with jobs like this one; job 24.0 ran there. [")


def test_a_match_in_two_logs_leads_to_one_run() -> None:
    matched = [
        daemon_report(6, 10 + source_number, "matched", source=source_number, slot=SLOT)
        for source_number in (NEGOTIATOR, SCHEDD)
    ]
    log = log_of([LOGGED[1], *matched, log_entry(20, 12, 1, EXECUTE, proc=3)])
    assert [any("matched" in text for text in answer_texts(log, f"1.{proc}")) for proc in (0, 3)] == [True, False]


@pytest.mark.parametrize(("start_second", "is_cause"), [(15, True), (60, False)])
def test_a_match_of_a_partitionable_slot_leads_to_runs_on_its_other_dynamic_slots_soon_after(
    start_second: int, is_cause: bool
) -> None:
    executions = [EXECUTE.replace(SLOT, f"slot1_{number}@node") for number in (1, 2)]
    matched = daemon_report(7, 10, "matched", source=NEGOTIATOR, slot=SLOT)
    log = log_of(
        [matched, log_entry(7, 3, 1, executions[0]), log_entry(7 + start_second, 12, 1, executions[1], proc=3)]
    )
    assert [any("matched" in text for text in answer_texts(log, f"1.{proc}")) for proc in (0, 3)] == [True, is_cause]


def test_a_slot_is_explained_since_its_last_claim() -> None:
    log = log_of(EVERYTHING)
    assert answer_texts(log, SLOT) == [
        "Slot slot1@node has been Claimed/Busy since 2026-11-20 22:36:57; job 2.0 of bob@pool runs on it. "
        "The slot became busy: the access point started a job on it; its log: claiming protocol successful "
        "(Claimed/Idle -> Claimed/Busy by "
        "transition 11). [StartLog:132] The negotiator matched it with job 2.0 of bob@pool, preempting alice@pool. "
        "[NegotiatorLog:20] Its records end at 2026-11-20 22:36:57; `poolbook import` reads what the daemons have "
        "written since.",
        "The negotiator matched it with job 2.0 of bob@pool, preempting alice@pool. [NegotiatorLog:20]",
        "bob@pool claimed it. [StartLog:120]",
        "The waiting preempting claim took over the slot; its log: preempting claim exists (Preempting/Vacating -> "
        "Claimed/Idle by transition 23 (I)). [StartLog:121]",
        "The access point started job 2.0 on it. [StartLog:129]",
        "The slot became busy: the access point started a job on it; its log: claiming protocol successful "
        "(Claimed/Idle -> Claimed/Busy by "
        "transition 11). [StartLog:132]",
    ]
    assert answer_texts(log, SLOT, 3) == [
        "Slot slot1@node has been Unclaimed/Idle since 2026-11-20 22:36:40. The slot became available for jobs: "
        "IS_OWNER is not true; its log: IS_OWNER is false (Owner/Idle -> Unclaimed/Idle by transition 1 (A)). "
        "[StartLog:53] `poolbook why -verbose slot1@node` shows the whole history, with the position of each record.",
        "The slot was created with machine node, as a static slot. [StartLog:41]",
        "The slot became available for jobs: IS_OWNER is not true; its log: IS_OWNER is false (Owner/Idle -> "
        "Unclaimed/Idle by transition 1 (A)). [StartLog:53]",
    ]


def test_a_long_claim_is_shortened_to_its_beginning_and_end() -> None:
    jobs: list[e.Event] = []
    for number in range(1, 101):
        jobs += [
            slot_report(20 + number, 200 + 3 * number, "activated", job=f"5.{number}"),
            slot_transition(20 + number, 201 + 3 * number, "11", "Claimed/Idle", "Claimed/Busy"),
            slot_transition(20 + number, 202 + 3 * number, "12", "Claimed/Busy", "Claimed/Idle"),
        ]
    _, *life = answer_texts(log_of([*OF_SLOT, *jobs]), SLOT)
    assert life.pop(6) == "The sentences between are omitted here; `poolbook log slot1@node` shows all events."
    assert len(life) == 60
    assert life[0] == "bob@pool claimed it. [StartLog:120]"
    assert life[-1].endswith("[StartLog:502]")


def test_a_slot_without_a_recorded_state_has_no_answer() -> None:
    with pytest.raises(UnknownThingError, match="no record of the state of slot"):
        why(log_of([slot_report(7, 62, "accepted")]), SLOT)


def test_a_slot_no_longer_exists_after_its_startd_ended() -> None:
    end = e.DaemonReported(
        BEGIN + 90 * SECOND, "reported", f"{STARTD}:200", "node", "startd", "ended", {"how": "fast", "pid": "7"}
    )
    (answer, *_) = answer_texts(log_of([*EVERYTHING, end]), SLOT)
    expected = "The startd ended (fast, pid 7). [StartLog:200]"
    assert answer.startswith(f"Slot {SLOT} has not existed since 2026-11-20 22:38:10. {expected}")


TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
HEADER = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\) \S+ (\d\d:\d\d:\d\d) ", re.MULTILINE)
# The last entry of a job's log that shows where the job is -> how the answer begins.
LAST_ENTRIES = {
    1: "has been running", 4: "has been waiting", 5: "completed", 9: "was removed", 12: "has been held",
    13: "has been waiting", 10: "has been suspended",
}  # fmt: skip


def log_entries(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the entries of each job in a folder's job event logs, from the headers alone: time of day and number."""
    entries_by_job: dict[str, set[tuple[str, int]]] = {}
    for path in [*folder.glob("EventLog*"), *folder.glob("*-job.log*")]:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for number, cluster, proc, time in HEADER.findall(data.decode()):
            entries_by_job.setdefault(f"{int(cluster)}.{int(proc)}", set()).add((time, int(number)))
    return {job: sorted(entries) for job, entries in entries_by_job.items()}


OUTCOME_TEXTS = {
    "completed": "completed",
    "failed": "completed",
    "removed": "was removed",
    "held": "has been held",
    "suspended": "has been suspended",
    "running": "has been running",
    "idle": "has been waiting",
    UNKNOWN_STATE: "has no records after",
}
"""How a job's own answer words the outcome that its cluster's summary counts."""
BY_SLOTS = {
    "05-prio-preempt": {"2.1": "was ended after 16 s: the startd was shut down"},
    "09a-quota-static-nosurplus": {f"3.{proc}": "was ended after 1" for proc in range(10)},
    "10-fairshare": {f"{job}": "ended after 5 s." for job in (1.7, 1.8, 2.7, 2.8, 3.7)},
}
"""Jobs whose logs end, or have a gap, while they run: what the StartLog says about the ends of their runs."""


@pytest.mark.parametrize("trace", some(sorted(path.name for path in TRACES.iterdir() if path.is_dir()), 9, BY_SLOTS))
def test_a_real_jobs_life_has_every_run_and_ends_where_its_log_ends(trace: str) -> None:
    log, _ = recorded(TRACES / trace)
    jobs = sorted(log_entries(TRACES / trace).items())
    outcomes_by_cluster = {
        cluster: outcomes(log, cluster) for cluster in {int(job.partition(".")[0]) for job, _ in jobs}
    }
    for job, logged in spread(jobs, 12):  # a few of hundreds of similar jobs are enough
        answer_of_job = why(log, job)
        answer, life = answer_of_job.texts[0], [sentence.text for sentence in answer_of_job.life]
        assert _is_in_order(answer_of_job.life)
        cluster, _, proc = job.partition(".")
        assert f"Job {job} {OUTCOME_TEXTS[outcomes_by_cluster[int(cluster)].status[int(proc)]]} " in answer
        for number, codes in ((1, ["started"]), (4, ["evicted", "requeued"]), (12, ["held", "held_by_user"])):
            told_of = sum(sentence.code in codes for sentence in answer_of_job.life)
            assert told_of == sum(log_entry[1] == number for log_entry in logged), job
        by_slot = BY_SLOTS.get(trace, {}).get(job)
        assert [f" {by_slot}" in text for text in life if text.startswith("Its run on ")] == [True] * bool(by_slot), job
        if by_slot:
            continue
        last_entries = [(time, LAST_ENTRIES[number]) for time, number in logged if number in LAST_ENTRIES]
        possible_beginnings = [beginnings for time, beginnings in last_entries if time == last_entries[-1][0]]
        assert not last_entries or any(
            answer.startswith(f"Job {job} {beginnings}") for beginnings in possible_beginnings
        ), answer
    for name in {event.slot for _, event in log.read() if isinstance(event, e.SlotTransitioned)}:
        answer, *life = answer_texts(log, name)
        assert answer.startswith((f"Slot {name} has been ", f"Slot {name} has not existed since ")) and life


# The thing -> part of the error.
UNKNOWN = {
    "1.7": "the log has no job 1.7; of cluster 1 it has 1.0",
    "9.0": "the log has no job 9.0; it has jobs of clusters 1, 2",
    "slot2@node": "the log has no slot slot2@node; near: slot1@node",
    "x@elsewhere.example": "the log has no slot x@elsewhere.example; it has 1 slot, from slot1@node to slot1@node",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_thing_is_answered_with_what_the_log_has(name: str) -> None:
    with pytest.raises(UnknownThingError) as error:
        why(log_of([*EVERYTHING, daemon_report(3, 90, "rejected", source=NEGOTIATOR, cluster=0)]), name)
    assert str(error.value.args[0]) == UNKNOWN[name]


@given(
    records=st.lists(st.sampled_from(EVERYTHING), unique_by=id, max_size=len(EVERYTHING)).map(tuple),
    texts=st.lists(st.text(max_size=60), max_size=3),
    at=st.one_of(st.none(), st.integers(0, 60)),
)
@settings(max_examples=30, deadline=None)
def test_any_subset_of_the_records_in_any_order_gives_an_answer(
    records: tuple[e.Event, ...], texts: list[str], at: int | None
) -> None:
    odd_entries = [
        log_entry(30, 300 + line_number, number, text)
        for number, text in enumerate(texts, 3)
        for line_number in (number,)
    ]
    log = log_of([*records, *odd_entries])
    for name in ("1.0", SLOT):
        try:
            answer = why(log, name, None if at is None else BEGIN + at * SECOND)
        except UnknownThingError:
            continue
        assert _is_in_order(answer.life)
        assert answer.texts[0].startswith(("Job 1.0 ", f"Slot {SLOT} "))
        assert len(answer.lines) <= 5
        assert at is None or all(sentence.at <= BEGIN + at * SECOND for sentence in (*answer.lines, *answer.life))


def _is_in_order(life: Sequence[Sentence]) -> bool:
    seconds = [sentence.at // SECOND for sentence in life]
    return bool(life) and seconds == sorted(seconds)


def test_a_listed_line_has_the_place_and_the_reason_of_its_record() -> None:
    log = log_of(EVERYTHING)
    places = PlaceNames(log)
    lines = [line(member, UTC, places.name(member.stimulus)) for member in entries(log, parse_filter(SLOT))]
    assert len(lines) == len(OF_SLOT)
    (listed_line,) = [text for text in lines if " 13a " in text]
    assert re.search(
        r"13a +H Claimed/Busy -> Preempting/Vacating +preempting claim based on user priority \[", listed_line
    )
    assert listed_line.endswith("[StartLog:94]")


# Paths -> the short names of their files.
SHORT_NAMES = {
    ("/a/StartLog", "/a/EventLog"): ["StartLog", "EventLog"],
    ("/a/x/StartLog", "/a/y/StartLog", "/a/y/EventLog"): ["x/StartLog", "y/StartLog", "EventLog"],
    ("/a/log", "/a/log"): ["/a/log", "/a/log"],
    ("log", "/a/log"): ["log", "a/log"],
}


@pytest.mark.parametrize("paths", SHORT_NAMES)
def test_a_file_is_named_by_the_shortest_unique_end_of_its_path(paths: tuple[str, ...]) -> None:
    short_names = shortest_tails(dict(enumerate(paths, 1)))
    assert [short_names[number] for number in sorted(short_names)] == SHORT_NAMES[paths]


def test_a_job_whose_removal_is_only_in_the_schedds_table_does_not_run() -> None:
    ad = {"ClusterId": "1", "ProcId": "0", "QDate": "1795214202", "User": '"alice@pool"', "JobStatus": "2"}
    creation = [(101, "1.0", "Job", "Machine"), *((103, "1.0", name, text) for name, text in ad.items())]
    removed_ad = {
        "JobStatus": "3",
        "EnteredCurrentStatus": "1795214260",
        "RemoveReason": '"via condor_rm (by user eve)"',
    }
    removal = [*((103, "1.0", name, text) for name, text in removed_ad.items()), (102, "1.0", "", "")]
    transactions = [
        e.TableWritten(BEGIN + at * SECOND, "reported", f"{QUEUE}:{line}", "queue", line, tuple(operations))
        for at, line, operations in ((2, 1, creation), (60, 2, removal))
    ]
    log = log_of([*LOGGED[:2], *transactions])
    assert answer_texts(log, "1.0")[0].startswith(
        "Job 1.0 was removed at 2026-11-20 22:37:40. eve removed job 1.0 (condor_rm) after 1 run. [job_queue.log:2]"
    )
    assert why(log, "1").texts[0] == "Cluster 1 has 1 job: 1 removed."
    assert answer_texts(log, "1.0", 30)[0].startswith(f"Job 1.0 has been running on {SLOT} since 2026-11-20 22:36:47.")


def test_a_job_only_in_an_older_part_of_the_queues_log_is_explained() -> None:
    def written(seconds: int, number: int, *operations: tuple[int, str, str, str]) -> e.Event:
        return e.TableWritten(BEGIN + seconds * SECOND, "reported", f"{QUEUE}:{number}", "queue", number, operations)

    status = {"cluster": (103, "07.-1", "User", '"carol@node"'), "job": (103, "7.0", "JobStatus", "3")}
    date = (103, "7.0", "QDate", str(BEGIN // SECOND))
    creation = written(5, 1, (101, "07.-1", "Job", "Machine"), status["cluster"], (101, "7.0", "Job", "Machine"), date)
    departure = written(60, 2, status["job"], (102, "7.0", "", ""), (102, "07.-1", "", ""))
    rotation = written(90, 3, (107, "2", "CreationTimestamp", "1795214400"))
    log = log_of([creation, departure, rotation])
    answer, *life = answer_texts(log, "7.0")
    assert "Job 7.0 was removed" in answer
    assert "carol@node submitted job 7.0" in " ".join(life)


# Trace and job -> the sentences of its evictions after the slot, without their evidence.
CAUSES = {
    ("traces/02-owner-return", "1.0"): [
        "after 46 s: PREEMPT became true.",
        "after 9 s: PREEMPT became true.",
        "after 5 s; its log says: via condor_rm (by user alice) (code 1023, JobRemoved: it was removed).",
    ],
    ("runs/killed-starter", "1.1"): [
        "after 0 s; its log says: via condor_hold (by user condor) (code 1, UserRequest: a user asked for it to be "
        "held)."
    ],
}


@pytest.mark.parametrize(("folder", "job"), CAUSES)
def test_an_eviction_has_its_cause_and_not_the_protocols_words(folder: str, job: str) -> None:
    log, _ = recorded(TRACES.parent / folder)
    evictions = [sentence for sentence in why(log, job).life if sentence.code == "evicted"]
    assert [text.partition("@localhost ")[2] for text in (sentence.text for sentence in evictions)] == CAUSES[
        folder, job
    ]
    assert all(
        "StartLog" in sentence.full
        for sentence in evictions
        if "RELEASE_CLAIM" in sentence.full or "PREEMPT" in sentence.text
    )


def test_a_job_continued_for_its_eviction_is_explained_so() -> None:
    log, _ = recorded(TRACES / "02-owner-return")
    texts = [sentence.text for sentence in why(log, "1.0").life if sentence.code == "continued"]
    assert [text.partition("@localhost")[2] for text in texts] == [
        ": CONTINUE became true.",
        ": PREEMPT became true.",
        ": PREEMPT became true, and the job's retirement time is over.",
    ]


def test_a_run_only_in_the_slots_log_is_a_separate_run() -> None:
    log, _ = recorded(TRACES / "10-fairshare")
    _, *life = answer_texts(log, "3.8")
    assert [text.partition(" [")[0] for text in life[-3:]] == [
        "The negotiator matched job 3.8 with slot3@localhost.",
        "The log of slot3@localhost shows that it started there.",
        "The log of slot3@localhost shows that its run there ended after 5 s.",
    ]
    assert not any(f"job {name} ran" in " ".join(answer_texts(log, name)) for name in ("3.8", "2.31", "3.40"))


def test_a_startds_exit_status_is_reported_once() -> None:
    facts = {"how": "status 0", "status": "0", "pid": "7"}
    end = e.DaemonReported(BEGIN + 90 * SECOND, "reported", f"{STARTD}:200", "node", "startd", "ended", facts)
    assert "The startd ended (status 0, pid 7). [StartLog:200]" in answer_texts(log_of([*EVERYTHING, end]), SLOT)


def evicted_job(times: int, codes: Sequence[int] = (1018,)) -> EventStore:
    """Return the log of a job that was evicted so many times, with these reason codes in turn, and then removed."""
    entries = [log_entry(1, 0, 0, SUBMIT)]
    for number in range(times):
        code_index = number % len(codes)
        text = f"Job was evicted. Code {codes[code_index]} Subcode 0\n\t(0) CPU times\n\tReason: reason {code_index}"
        entries += [log_entry(10 * number + 2, 0, 1, EXECUTE), log_entry(10 * number + 7, 0, 4, text)]
    return log_of([*entries, log_entry(10 * times + 60, 0, 9, "Job was aborted.\n\tvia condor_rm (by user alice)")])


@pytest.mark.parametrize(
    ("times", "codes", "expected"),
    [
        (0, [1018], []),
        (1, [1018], ["once at 2026-11-20 22:36:47, because reason 0 (code 1018"]),
        (3, [1018, 1019], ["3 times, last at 2026-11-20 22:37:07: at 22:36:47", "at 22:36:57", "at 22:37:07"]),
        (9, [1018], ["9 times, last at 2026-11-20 22:38:07, because reason 0"]),
        (
            9,
            [1018, 1019],
            ["9 times, last at 2026-11-20 22:38:07: 5 times because reason 0", "4 times because reason 1"],
        ),
    ],
)
def test_the_answer_lists_the_evictions_with_their_times_and_causes(
    times: int, codes: list[int], expected: list[str]
) -> None:
    text = answer_texts(evicted_job(times, codes), "1.0")[0]
    assert [phrase for phrase in expected if phrase not in text] == []
    assert ("Job 1.0 was evicted" in text) is bool(expected)


HONEST = TRACES.parent / "honest"


def test_a_run_that_ends_in_the_second_in_which_it_began_is_told_in_that_order() -> None:
    log = recorded_log("mixed-22")
    codes = [sentence.code for sentence in why(log, "7.2").life]
    assert codes[1:4] == ["shadow_reused", "run_over", "later_died"]


def test_a_claim_that_the_startd_rejects_is_not_reported_as_retired() -> None:
    log = recorded_log("fault-mixed-271")
    texts = [sentence.text for sentence in why(log, "slot1_1@localhost").life]
    assert texts[2] == "The startd rejected the new claim, which began to end."
    assert texts[3] == "The slot returned to its owner: the startd had rejected the new claim."
