"""Differential and golden: the runs in real records, compared with a plain count of one file, and which record is
believed. The traces are recorded runs of a real pool; the expected values are counted from an EventLog's headers, or
are in the job history."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.imported_log import PlaceNames
from poolbook.replay.listing.members import parse_filter
from poolbook.replay.narration.formatting import iso
from poolbook.replay.runs.job_run import JobRun
from poolbook.replay.runs.of_log import Runs
from poolbook.replay.runs.of_log import runs_of as log_runs
from poolbook.replay.usage.eviction_costs import by_cause, runs_of_stream

from ..importing.folders import TRACES, imported, recorded, write
from ..together import together

SECOND = 1_000_000
HEADER = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.MULTILINE)
DATA = TRACES.parent
# Runs without an end in the EventLog, or missing from it: the pool was shut down, or its jobs could not be started.
INCOMPLETE = {"05-prio-preempt", "09a-quota-static-nosurplus", "10-fairshare", "13-deferral-crontab", "16-absent",
             "18-desktop"}  # fmt: skip
COMPLETE = sorted(path.name for path in TRACES.iterdir() if path.is_dir() and path.name not in INCOMPLETE)


def content(path: Path) -> str:
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


def file_of(name: str, kind: str) -> Path:
    return next(path for path in (TRACES / name).iterdir() if path.name.removesuffix(".gz") == kind)


def trace(name: str) -> EventStore:
    return recorded(TRACES / name)[0]


@cache
def runs(name: str, *, evicted: bool = False) -> Runs:
    return log_runs(trace(name), evicted=evicted)


def ends(text: str) -> Counter[str]:
    """Return the runs of an EventLog by how they ended, from its headers alone."""
    running: set[tuple[str, str]] = set()
    end_counts: Counter[str] = Counter()
    for number, *job in HEADER.findall(text):
        if number == "001":
            running.add((job[0], job[1]))
        elif number in ("004", "005") and (job[0], job[1]) in running:
            running.discard((job[0], job[1]))
            end_counts["evicted" if number == "004" else "completed"] += 1
    return end_counts


@pytest.mark.parametrize("name", COMPLETE)
def test_every_run_of_an_event_log_is_reported_once_despite_several_sources(name: str) -> None:
    assert Counter(run.outcome for run in runs(name).runs) == ends(content(file_of(name, "EventLog")))


@together("name", COMPLETE)
def test_the_time_on_slots_equals_the_historys(name: str) -> None:
    """Compare with RemoteWallClockTime of each job that left the queue, which the shadows and the schedd counted."""
    ads = re.split(r"^\*\*\*[^\n]*\n", content(file_of(name, "history.ads")), flags=re.MULTILINE)
    seconds_used: Counter[str] = Counter()
    for run in runs(name).runs:
        seconds_used[run.job] += run.duration // SECOND
    for ad in ads:
        attributes = dict(re.findall(r"^(\w+) = (.*)$", ad, re.MULTILINE))
        if "RemoteWallClockTime" in attributes and attributes.get("JobUniverse") == "5":
            job = f"{attributes['ClusterId']}.{attributes['ProcId']}"
            assert abs(seconds_used[job] - float(attributes["RemoteWallClockTime"])) <= 2, job
    assert not runs(name).unknown.jobs


# Source -> how many of the eight runs it reports: three epochs were kept.
SOURCES = {"EventLog": 8, "StartLog": 8, "epoch_history": 3}


@pytest.mark.parametrize("source", SOURCES)
def test_a_single_source_reports_its_runs(source: str, tmp_path: Path) -> None:
    text = content(file_of("01-plain", source))
    write(tmp_path / source, text)
    source_runs = log_runs(imported(tmp_path)[0]).runs
    assert len(source_runs) == SOURCES[source]
    assert {(run.job, run.slot) for run in source_runs} <= {(run.job, run.slot) for run in runs("01-plain").runs}


# Trace -> the causes of its evictions and their numbers, according to its README.
CAUSES = {
    "02-owner-return": {"preempt": 2, "removed": 1},
    "03-kill": {"preempt": 5},
    "04-retirement": {"rank": 2, "removed": 2},
    "05-prio-preempt": {"priority": 67, "removed": 4, "shutdown": 1},
    "07-drain": {"drained": 6, "removed": 8},
    "09a-quota-static-nosurplus": {"removed": 26, "shutdown": 10},
    "13-deferral-crontab": {"requeued": 5, "held": 4, "removed": 1},
    "20c-kill-for-better-match": {"rank": 1, "removed": 1, "held": 1},
}


@pytest.mark.parametrize("name", CAUSES)
def test_every_eviction_has_its_cause(name: str) -> None:
    shares = by_cause(runs(name, evicted=True).runs)
    assert {share.cause.name: share.evictions for share in shares} == CAUSES[name]
    assert sum(share.lost for share in shares) == sum(run.duration for run in runs(name, evicted=True).runs)


def test_an_eviction_names_the_job_the_loss_the_slot_and_the_record() -> None:
    first, *other_evictions = runs("05-prio-preempt", evicted=True).runs
    assert (first.job, first.user, first.slot, first.machine) == (
        "1.0", "alice@localhost", "slot1@localhost", "localhost",
    )  # fmt: skip
    assert first.duration == 10 * SECOND
    assert PlaceNames(trace("05-prio-preempt")).name(first.stimulus).startswith("EventLog")
    assert [run.ended for run in other_evictions] == sorted(run.ended for run in other_evictions)


@pytest.mark.parametrize(("begin", "end", "evictions"), [(0, 10, 0), (10, 11, 2), (10, 14, 4), (-900, 9000, 72)])
def test_a_window_includes_its_beginning_and_excludes_its_end(begin: int, end: int, evictions: int) -> None:
    since = 1_795_214_207  # when the first job began
    listed = log_runs(trace("05-prio-preempt"), (since + begin) * SECOND, (since + end) * SECOND, evicted=True).runs
    assert len(listed) == evictions


@pytest.mark.parametrize(
    ("name", "count"),
    [("1.0", 20), ("1", 38), ("slot2@localhost", 25), ("machine/localhost", 72), ("submitter/bob@localhost", 34)],
)
def test_evictions_are_selected_by_job_slot_machine_or_user(name: str, count: int) -> None:
    listed = runs_of_stream(runs("05-prio-preempt", evicted=True).runs, parse_filter(name))
    expected = [
        run
        for run in runs("05-prio-preempt", evicted=True).runs
        if name.rpartition("/")[2] in (run.job, run.cluster, run.slot, run.machine, run.user)
    ]
    assert listed == expected
    assert listed


@pytest.mark.parametrize(("name", "daemon"), [("startlogs/evictions", 6), ("points/deaths/StartLog", 1)])
def test_a_startds_log_alone_shows_evictions_and_daemons_that_died(name: str, daemon: int, tmp_path: Path) -> None:
    write(tmp_path / "StartLog", content(DATA / f"{name}.gz"))
    evictions = log_runs(imported(tmp_path)[0], evicted=True).runs
    assert sum(run.cause.name == "daemon" for run in evictions) == daemon
    assert all("died" in run.reason_text for run in evictions if run.cause.name == "daemon")
    assert not any(run.cause.name == "unknown" for run in evictions)


# What was killed -> the runs that it ended: job, slot, and when it was over (for alice's leases, 40 s later).
ENDED_BY_DEATHS = {
    "deaths": (
        ("1.0", "slot2", "13:26:29", "the starter of slot2@localhost"),
        ("1.1", "slot3", "13:26:41", "the shadow died"),
        ("2.0", "slot1", "13:27:10", "the startd of localhost"),
        ("1.1", "slot3", "13:27:44", "the startd of localhost"),
        ("1.0", "slot2", "13:27:48", "the startd of localhost"),
        ("1.0", "slot1", "13:29:08", "the schedd of localhost died between 2026-11-22 13:28:17"),
        ("1.1", "slot2", "13:29:08", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ),
    "deaths-of-dynamic-slots": (
        ("1.0", "slot1_2", "13:30:41", "the starter of slot1_2@localhost"),
        ("1.1", "slot1_3", "13:30:53", "the shadow died"),
        ("2.0", "slot1_1", "13:31:46", "the startd of localhost"),
        ("1.0", "slot1_2", "13:32:21", "the startd of localhost"),
        ("1.1", "slot1_3", "13:32:22", "the startd of localhost"),
        ("1.0", "slot1_1", "13:33:45", "the schedd of localhost died between 2026-11-22 13:32:53"),
        ("1.1", "slot1_2", "13:33:45", "the schedd of localhost died between 2026-11-22 13:32:53"),
    ),
}


@cache
def killed(name: str) -> list[JobRun]:
    return log_runs(recorded(DATA / "runs" / name)[0], evicted=True).runs


@pytest.mark.parametrize("name", ENDED_BY_DEATHS)
def test_each_run_ended_by_a_daemons_death_is_counted_once_for_that_daemon(name: str) -> None:
    ended_runs = [run for run in killed(name) if run.cause.name == "daemon"]
    assert [(run.job, run.slot.partition("@")[0], iso(run.ended)[11:19]) for run in ended_runs] == [
        expected[:3] for expected in ENDED_BY_DEATHS[name]
    ]
    assert [
        run.reason_text[: len(expected[3])] for run, expected in zip(ended_runs, ENDED_BY_DEATHS[name], strict=True)
    ] == [expected[3] for expected in ENDED_BY_DEATHS[name]]


# The available sources -> the causes of the two runs' ends; the schedd's second death is the true one.
PARTIAL_RECORDS = {
    ("SchedLog",): ("13:29:44", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("SchedLog", "StartLog"): ("13:29:08", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("EventLog", "SchedLog"): ("13:29:44", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("EventLog", "StartLog"): ("13:29:08", ""),
    ("EventLog",): ("13:29:44", ""),
}


@pytest.mark.parametrize("parts", PARTIAL_RECORDS)
def test_partial_records_show_a_death_or_nothing(parts: tuple[str, ...], tmp_path: Path) -> None:
    for part in parts:
        write(tmp_path / part, content(DATA / "runs" / "deaths" / f"{part}.gz"))
    evicted_runs = log_runs(imported(tmp_path)[0], evicted=True).runs
    late_runs = [run for run in evicted_runs if iso(run.ended)[11:19] > "13:29:00"]
    ended, causes = PARTIAL_RECORDS[parts]
    not_removed = [run for run in late_runs if run.cause.name != "removed"]
    assert [(run.job, iso(run.ended)[11:19]) for run in not_removed] == [("1.0", ended), ("1.1", ended)]
    assert [run.cause.name for run in not_removed] == ["daemon" if causes else "unknown"] * 2
    assert all(run.reason_text.startswith(causes) for run in not_removed)


@pytest.mark.parametrize("name", ENDED_BY_DEATHS)
def test_a_shadow_refused_by_its_slot_did_not_end_by_a_death(name: str) -> None:
    """The access point immediately gave the job of the killed shadow another one, for which the slot was not idle."""
    other_runs = [run for run in killed(name) if run.cause.name != "daemon"]
    assert [(run.job, run.cause.name, run.duration // SECOND) for run in other_runs] == [
        ("1.1", "not_started", 0),
        ("1.1", "removed", 19 if name == "deaths" else 20),
    ]


@pytest.mark.parametrize("name", ENDED_BY_DEATHS)
def test_a_shadow_that_reconnects_to_a_job_is_not_a_new_run(name: str) -> None:
    recorded_runs = log_runs(recorded(DATA / "runs" / name)[0]).runs
    assert Counter(run.job for run in recorded_runs) == {"1.0": 4, "1.1": 5, "2.0": 1}
    assert all(run.slot for run in recorded_runs)


def test_earlier_runs_of_a_job_only_in_the_history_are_known_only_in_total(tmp_path: Path) -> None:
    ad = (
        'ClusterId = 7\nProcId = 0\nQDate = 1795214000\nUser = "eve@pool"\nJobStatus = 4\nJobUniverse = 5\n'
        'LastRemoteHost = "slot1@node"\nJobCurrentStartDate = 1795214210\nCompletionDate = 1795214260\n'
        "EnteredCurrentStatus = 1795214260\nRemoteWallClockTime = 350.0\nNumShadowStarts = 3\n"
        "ExitBySignal = false\nExitCode = 0\n"
        '*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "eve" CompletionDate = 1795214260\n'
    )
    write(tmp_path / "history", ad)
    history_runs = log_runs(imported(tmp_path)[0])
    assert [(run.job, run.user, run.slot, run.duration, run.outcome) for run in history_runs.runs] == [
        ("7.0", "eve@pool", "slot1@node", 50 * SECOND, "completed")
    ]
    assert (history_runs.unknown.jobs, history_runs.unknown.time) == (1, 300 * SECOND)


def test_a_run_that_ends_in_a_gap_is_known_up_to_the_gap(tmp_path: Path) -> None:
    entry = "{:03d} (001.000.000) 2026-11-20 12:00:{:02d} {}\n...\n"
    before = entry.format(0, 0, "Job submitted from host: <h>") + entry.format(
        1, 5, "Job executing on host: <h>\n\tSlotName: slot1@h"
    )
    gap = "...... trimmed: 9 bytes in all ......\n"
    after = entry.format(0, 50, "Job submitted from host: <h>").replace("001.000", "002.000")
    write(tmp_path / "EventLog", before + gap + after)
    (run,) = log_runs(imported(tmp_path)[0]).runs
    assert (run.outcome, run.duration) == ("ended", 0)


def _failed_transfer(second: int, code: int, held: bool) -> str:
    """Return the job event log of a run whose files could not be transferred: seconds after 12:00, and whether the
    schedd held it."""
    when = f"2026-11-20 12:{second // 60:02d}:{second % 60:02d}"
    end = f"2026-11-20 12:{(second + 5) // 60:02d}:{(second + 5) % 60:02d}"
    reason = f"\n\tTransfer failed\n\tCode {code} Subcode 2"
    return (
        f"001 (001.000.000) {when} Job executing on host: <h>\n\tSlotName: slot1@h\n...\n"
        f"004 (001.000.000) {end} Job was evicted. Code {code} Subcode 2\n\t(0) CPU times\n\tReason: Transfer failed\n"
        "...\n" + (f"012 (001.000.000) {end} Job was held.{reason}\n...\n" if held else "")
    )


@pytest.mark.parametrize(
    ("code", "causes"),
    [
        (12, {"transfer": 2, "held": 1}),
        (13, {"transfer": 2, "held": 1}),
        (33, {"transfer": 2, "held": 1}),
        (34, {"given_back": 2, "held": 1}),
    ],
)
def test_a_job_that_cools_down_was_not_put_on_hold(tmp_path: Path, code: int, causes: dict[str, int]) -> None:
    submitted = "000 (001.000.000) 2026-11-20 12:00:00 Job submitted from host: <h>\n...\n"
    runs_of_it = (_failed_transfer(60 * number, code, number == 3) for number in (1, 2, 3))
    write(tmp_path / "job.log", submitted + "".join(runs_of_it))
    log, _ = imported(tmp_path)
    assert Counter(run.cause.name for run in log_runs(log, evicted=True).runs) == causes
