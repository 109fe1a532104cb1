"""Property: for any records of a real pool, every command agrees on how each run ended, and no account uses a record
written after the run, except records that always are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports.log import EventStore
from poolbook.domain.state.job_ad import unquoted
from poolbook.replay.forensics.audit.doubted_records import DOUBTS
from poolbook.replay.forensics.daemon_tables import NotKnown, queue
from poolbook.replay.forensics.imported_log import PlaceNames, single_entries
from poolbook.replay.narration.sentences import Sentence
from poolbook.replay.runs.job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from poolbook.replay.runs.native_runs import own_runs
from poolbook.replay.runs.of_log import pool_events, runs_of
from poolbook.replay.runs.run_end_causes import CAUSES
from poolbook.replay.usage.eviction_costs import by_cause
from poolbook.replay.usage.preemptions import preemptions
from poolbook.replay.usage.usage_sums import sums
from poolbook.replay.why.answer import why
from poolbook.replay.why.imported_job import access_points
from poolbook.replay.why.job_records import ads_of_cluster

from ..audit.test_honest_recordings import HONEST, USED, packed_log
from ..importing.folders import TRACES, recorded
from ..sampling import marked, some, spread

SECOND: Final = 1_000_000
DATA: Final = TRACES.parent
FOLDERS: Final = [
    folder
    for kind in ("traces", "recordings", "runs", "points")
    for folder in sorted((DATA / kind).iterdir())
    if folder.is_dir()
]
RECORDINGS: Final = [*FOLDERS, *HONEST]
CASES: Final = some(RECORDINGS, 0, always=[*spread(FOLDERS, 5), *spread(USED, 5)])
MOST_JOBS: Final = 6  #: how many jobs of a recording are checked
# What writes a run's end later -> how many seconds later at most.
SECONDS_LATE: Final = {
    "userlog": 60,  # the shadow writes when the starter has exited, or the lease has expired
    "eventlog": 60,
    "schedlog": 60,  # the same for the shadow's exit
    "startlog": 60,  # the slot is cleaned, and a startd that died is restarted
    "death": 600,  # a death is known once the daemon has restarted
}
SHOWN: Final = (
    "JobStatus", "EnteredCurrentStatus", "RemoteHost", "LastRemoteHost", "RemoveReason", "HoldReason",
)  # fmt: skip
OUTCOMES_BY_STATUS: Final = {"1": (EVICTED,), "3": (EVICTED,), "4": (COMPLETED,), "5": (EVICTED,)}
"""The status of a job that is not running -> how its last run ended."""
TOLERANCE: Final = 5 * SECOND
TWO_REASONS: Final = {
    ("mixed-2.tar.xz", "7.0"),  # its access point lost the connection while the user held it
    ("one-25-i-dag.tar.xz", "10.0"),  # DAGMan and the schedd both removed it
}
"""The jobs of recordings for which HTCondor wrote different reasons into the log and into the ad."""


def log_of(recording: Path) -> EventStore:
    return recorded(recording)[0] if recording.is_dir() else packed_log(recording)


@cache
def runs_at(recording: Path) -> list[JobRun]:
    """Return the runs of a recording, read once for all tests."""
    return runs_of(log_of(recording)).runs


def runs_by_job(runs: list[JobRun], most: int) -> Iterator[tuple[str, list[JobRun]]]:
    jobs: dict[str, list[JobRun]] = {}
    for run in runs:
        jobs.setdefault(run.job, []).append(run)
    yield from spread(sorted(jobs.items()), most)


@cache
def shared_numbers(recording: Path) -> bool:
    """Return True if several access points use the same job numbers, of which ``why`` and the events show one."""
    log = log_of(recording)
    jobs = [(int(run.cluster), int(run.job.partition(".")[2])) for run in runs_at(recording)]
    names = PlaceNames(log)
    return any(access_points([*single_entries(log.read_stream(f"cluster/{job[0]}"))], job, names) for job in {*jobs})


def reports_end(sentence: Sentence, run: JobRun, name: PlaceNames) -> bool:
    """Return True if a sentence reports a run's end: at its record or instant, on its slot, with its cause."""
    named = {name.name(place) for place in (*run.ends, run.stimulus)}
    at_the_end = not named.isdisjoint(sentence.places) or abs(sentence.at - run.ended) <= 5 * SECOND
    slot = not run.slot or sentence.facts.get("slot", run.slot) in ("", run.slot)
    return at_the_end and slot and (run.outcome != EVICTED or sentence.cause == run.cause.name)


@pytest.mark.parametrize("recording", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.parametrize("most", [MOST_JOBS, marked(2 * MOST_JOBS)])
def test_all_commands_agree_on_how_each_run_ended(recording: Path, most: int) -> None:
    log = log_of(recording)
    names, runs = PlaceNames(log), runs_at(recording)
    lives = {job: why(log, job).life for job, _ in runs_by_job(runs, most)} if not shared_numbers(recording) else {}
    unreported = [
        (run.job, run.slot, run.outcome, run.cause.name)
        for job, job_runs in runs_by_job(runs, most)
        for run in job_runs
        if job in lives
        and run.outcome != RUNNING
        and not any(reports_end(sentence, run, names) for sentence in lives[job])
    ]
    assert unreported == []
    evicted = [run for run in runs if run.is_eviction_by_pool]
    listed = [run for run in runs_of(log, evicted=True).runs if run.is_eviction_by_pool]
    assert listed == evicted
    _, total = sums(runs, ["user"], 0, 1 << 62)
    assert total.evictions == sum(share.evictions for share in by_cause(evicted)) == len(evicted)
    ends = Counter((run.job, run.slot, run.began, run.ended, run.cause.name) for run in evicted)
    for sentence in preemptions(log):
        ends[sentence.run.job, sentence.run.slot, sentence.run.began, sentence.run.ended, sentence.run.cause.name] -= 1
    if not shared_numbers(recording):
        assert not +ends and not -ends


@pytest.mark.parametrize("recording", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_one_fold_reads_imported_and_own_events_alike(recording: Path) -> None:
    log = log_of(recording)

    def run_counts(runs: list[JobRun]) -> Counter[tuple[object, ...]]:
        ended = (run for run in runs if run.outcome != RUNNING)
        return Counter(
            (run.job, run.user, run.slot, run.began, run.ended, run.outcome, run.outcome == EVICTED and run.cause.name)
            for run in ended
        )

    if not shared_numbers(recording):
        assert run_counts(list(own_runs(pool_events(log)))) == run_counts(runs_at(recording))


@pytest.mark.parametrize("recording", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_account_of_a_run_uses_a_record_later_than_its_kind_allows(recording: Path) -> None:
    log = log_of(recording)
    names = PlaceNames(log)
    at = {
        event.stimulus: event.at
        for _, event in single_entries(log.read())
        if not isinstance(event, e.AdsKept | e.SourceEvent)
        and not (isinstance(event, e.DaemonReported) and event.said in DOUBTS)
    }
    late_records = []
    for run in runs_at(recording):
        places = {place: names.kind(place) for place in (*run.ends, run.stimulus) if place}
        places |= {run.death.stimulus: "death"} if run.death is not None else {}
        for place, kind in places.items():
            if run.outcome != RUNNING and at.get(place, 0) > run.ended + SECONDS_LATE.get(kind, 0) * SECOND:
                late_records.append(
                    (run.job, run.slot, run.outcome, run.cause.name, kind, (at[place] - run.ended) // SECOND)
                )
    assert late_records == []


def ads_of_jobs(log: EventStore, runs: list[JobRun]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the jobs that ran with their ads, as ``history`` prints them, else as ``q`` does."""
    departed = set()
    for cluster in {run.cluster for run in runs}:
        for proc, ad in ads_of_cluster(log, "history", int(cluster)):
            departed.add(job := f"{cluster}.{proc}")
            yield job, {name: ad.text(name) for name in SHOWN}
    try:
        listed = queue(log).jobs
    except NotKnown:
        return
    for queued_job in listed:
        if (job := f"{queued_job['ClusterId']}.{queued_job['ProcId']}") not in departed:
            yield job, {name: unquoted(queued_job.get(name, "")) for name in SHOWN}


def ad_contradictions(ad: dict[str, str], runs: list[JobRun]) -> Iterator[str]:
    """Yield the contradictions between a job's ad and its last run, as of when the job got its status."""
    status, since = ad["JobStatus"], int(ad["EnteredCurrentStatus"]) * SECOND
    began = [run for run in runs if run.began <= since + TOLERANCE]
    if not began:
        return
    run, host = began[-1], ad["RemoteHost"] or ad["LastRemoteHost"]
    if (
        host
        and run.slot
        and host
        not in (run.slot, *(earlier_run.slot for earlier_run in runs if earlier_run.began >= run.began - TOLERANCE))
    ):
        yield f"it ran on {host}, and not on {run.slot}"
    goes_on = run.ended > since + TOLERANCE or run.outcome == RUNNING
    if goes_on and status in OUTCOMES_BY_STATUS and run.ended > since + SECONDS_LATE["userlog"] * SECOND:
        yield f"its status is {status}, and its run has not ended"
    if not goes_on and status == "2" and run.ended < since - TOLERANCE:
        yield "it is running, and its run is over"
    later = (
        status in ("1", "5") and since > run.ended + TOLERANCE
    )  # it was run again, for example by a schedd that had lost its end
    if status in OUTCOMES_BY_STATUS and not later and run.outcome not in (*OUTCOMES_BY_STATUS[status], RUNNING, ENDED):
        yield f"its status is {status}, and its run {run.outcome}"
    reason = {"3": ("removed", "RemoveReason"), "5": ("held", "HoldReason")}.get(status)
    ended = (EVICTED, reason[0]) if reason is not None else ("", "")
    if later or reason is None:  # a job that is held again has the later reason in its ad
        return
    if (run.outcome, run.cause.name) == ended and run.reason_text.rstrip(".") not in ad[reason[1]]:
        yield f"the reason is {ad[reason[1]]}, and not {run.reason_text}"


@pytest.mark.parametrize("recording", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_ads_of_q_and_history_agree_with_the_runs_about_a_jobs_last_run(recording: Path) -> None:
    log = log_of(recording)
    runs: dict[str, list[JobRun]] = {}
    for run in sorted(runs_at(recording), key=lambda run: run.began):
        runs.setdefault(run.job, []).append(run)
    ads = [] if shared_numbers(recording) else ads_of_jobs(log, [job_runs[-1] for job_runs in runs.values()])
    contradictions = [(job, fault) for job, ad in ads if job in runs for fault in ad_contradictions(ad, runs[job])]
    assert [fault for job, fault in contradictions if (recording.name, job) not in TWO_REASONS] == []


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        ({}, 0),
        ({"RemoteHost": "slot9@h"}, 1),
        ({"JobStatus": "4"}, 1),
        ({"JobStatus": "2", "EnteredCurrentStatus": "99"}, 1),
        ({"EnteredCurrentStatus": "20", "JobStatus": "1"}, 0),
        ({"RemoveReason": "another"}, 1),
    ],
)
def test_a_contradicting_ad_is_detected(changed: dict[str, str], faults: int) -> None:
    removed = CAUSES["removed"]
    run = JobRun("1.0", "alice", "", "slot1@h", 10 * SECOND, 30 * SECOND, EVICTED, removed, "via condor_rm")
    ad = dict.fromkeys(SHOWN, "") | {"JobStatus": "3", "EnteredCurrentStatus": "30", "LastRemoteHost": "slot1@h"}
    assert len([*ad_contradictions(ad | {"RemoveReason": "via condor_rm"} | changed, [run])]) == faults
