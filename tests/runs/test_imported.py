"""Differential and golden: the runs that real records tell of, against a plain count of one file, and who is believed.

The traces are of recorded runs of a real pool; what is expected is counted from an EventLog's headers, or stands in the
job history.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.imported_log import PlaceNames
from poolbook.replay.listing import wanted
from poolbook.replay.narration.formatting import iso
from poolbook.replay.runs.job_run import JobRun
from poolbook.replay.runs.of_log import Runs
from poolbook.replay.runs.of_log import runs_of as told
from poolbook.replay.usage.eviction_costs import by_cause, of

from ..importing.folders import TRACES, imported, recorded, write
from ..together import together

SECOND = 1_000_000
HEADER = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.MULTILINE)
DATA = TRACES.parent
# Runs of which the EventLog tells no end, or nothing: the pool was shut down, or its jobs could not be started.
NOT_WHOLE = {"05-prio-preempt", "09a-quota-static-nosurplus", "10-fairshare", "13-deferral-crontab", "16-absent",
             "18-desktop"}  # fmt: skip
WHOLE = sorted(path.name for path in TRACES.iterdir() if path.is_dir() and path.name not in NOT_WHOLE)


def content(path: Path) -> str:
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


def file_of(name: str, kind: str) -> Path:
    return next(path for path in (TRACES / name).iterdir() if path.name.removesuffix(".gz") == kind)


def trace(name: str) -> EventStore:
    return recorded(TRACES / name)[0]


@cache
def runs(name: str, *, evicted: bool = False) -> Runs:
    return told(trace(name), evicted=evicted)


def ends(text: str) -> Counter[str]:
    """The runs of an EventLog by how they ended, by a plain look at the headers."""
    begun: set[tuple[str, str]] = set()
    found: Counter[str] = Counter()
    for number, *job in HEADER.findall(text):
        if number == "001":
            begun.add((job[0], job[1]))
        elif number in ("004", "005") and (job[0], job[1]) in begun:
            begun.discard((job[0], job[1]))
            found["evicted" if number == "004" else "completed"] += 1
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_every_run_of_an_event_log_is_told_once_however_many_sources_tell_of_it(name: str) -> None:
    assert Counter(run.outcome for run in runs(name).runs) == ends(content(file_of(name, "EventLog")))


@together("name", WHOLE)
def test_the_time_on_slots_is_the_histories_own(name: str) -> None:
    """RemoteWallClockTime of each job that left the queue, which the shadows and the schedd counted themselves."""
    ads = re.split(r"^\*\*\*[^\n]*\n", content(file_of(name, "history.ads")), flags=re.MULTILINE)
    used: Counter[str] = Counter()
    for run in runs(name).runs:
        used[run.job] += run.lasted // SECOND
    for ad in ads:
        said = dict(re.findall(r"^(\w+) = (.*)$", ad, re.MULTILINE))
        if "RemoteWallClockTime" in said and said.get("JobUniverse") == "5":
            job = f"{said['ClusterId']}.{said['ProcId']}"
            assert abs(used[job] - float(said["RemoteWallClockTime"])) <= 2, job
    assert not runs(name).unknown.jobs


# Source -> how many of the eight runs it tells of: the epochs that were kept are three.
SOURCES = {"EventLog": 8, "StartLog": 8, "epoch_history": 3}


@pytest.mark.parametrize("source", SOURCES)
def test_one_source_alone_tells_of_its_runs(source: str, tmp_path: Path) -> None:
    text = content(file_of("01-plain", source))
    write(tmp_path / source, text)
    found = told(imported(tmp_path)[0]).runs
    assert len(found) == SOURCES[source]
    assert {(run.job, run.slot) for run in found} <= {(run.job, run.slot) for run in runs("01-plain").runs}


# Trace -> how many of its evictions had which cause, as its README tells the story.
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
    assert sum(share.lost for share in shares) == sum(run.lasted for run in runs(name, evicted=True).runs)


def test_an_eviction_says_who_lost_what_where_and_in_which_record() -> None:
    first, *others = runs("05-prio-preempt", evicted=True).runs
    assert (first.job, first.user, first.slot, first.machine) == (
        "1.0", "alice@localhost", "slot1@localhost", "localhost",
    )  # fmt: skip
    assert first.lasted == 10 * SECOND
    assert PlaceNames(trace("05-prio-preempt")).name(first.stimulus).startswith("EventLog")
    assert [run.ended for run in others] == sorted(run.ended for run in others)


@pytest.mark.parametrize(("begin", "end", "evictions"), [(0, 10, 0), (10, 11, 2), (10, 14, 4), (-900, 9000, 72)])
def test_a_window_has_the_evictions_from_its_begin_on_and_before_its_end(begin: int, end: int, evictions: int) -> None:
    since = 1_795_214_207  # when the first job began
    found = told(trace("05-prio-preempt"), (since + begin) * SECOND, (since + end) * SECOND, evicted=True).runs
    assert len(found) == evictions


@pytest.mark.parametrize(
    ("name", "count"),
    [("1.0", 20), ("1", 38), ("slot2@localhost", 25), ("machine/localhost", 72), ("submitter/bob@localhost", 34)],
)
def test_evictions_are_those_of_a_job_a_slot_a_machine_or_a_user(name: str, count: int) -> None:
    found = of(runs("05-prio-preempt", evicted=True).runs, wanted(name))
    plain = [
        run
        for run in runs("05-prio-preempt", evicted=True).runs
        if name.rpartition("/")[2] in (run.job, run.cluster, run.slot, run.machine, run.user)
    ]
    assert found == plain
    assert found


@pytest.mark.parametrize(("name", "daemon"), [("startlogs/evictions", 6), ("points/deaths/StartLog", 1)])
def test_a_startds_log_alone_tells_of_evictions_and_of_the_daemons_that_died(
    name: str, daemon: int, tmp_path: Path
) -> None:
    write(tmp_path / "StartLog", content(DATA / f"{name}.gz"))
    found = told(imported(tmp_path)[0], evicted=True).runs
    assert sum(run.cause.name == "daemon" for run in found) == daemon
    assert all("died" in run.said for run in found if run.cause.name == "daemon")
    assert not any(run.cause.name == "unknown" for run in found)


# What was killed -> the runs that ended by it: job, slot, and when it was over (of alice's leases, 40 s later).
KILLED = {
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
    return told(recorded(DATA / "runs" / name)[0], evicted=True).runs


@pytest.mark.parametrize("name", KILLED)
def test_each_run_that_ended_by_a_real_daemons_death_is_counted_once_and_by_the_one_that_died(name: str) -> None:
    found = [run for run in killed(name) if run.cause.name == "daemon"]
    assert [(run.job, run.slot.partition("@")[0], iso(run.ended)[11:19]) for run in found] == [
        each[:3] for each in KILLED[name]
    ]
    assert [run.said[: len(each[3])] for run, each in zip(found, KILLED[name], strict=True)] == [
        each[3] for each in KILLED[name]
    ]


# The sources that are there -> what the two runs ended by, of which the schedd's second death is the cause.
PARTS = {
    ("SchedLog",): ("13:29:44", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("SchedLog", "StartLog"): ("13:29:08", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("EventLog", "SchedLog"): ("13:29:44", "the schedd of localhost died between 2026-11-22 13:28:17"),
    ("EventLog", "StartLog"): ("13:29:08", ""),
    ("EventLog",): ("13:29:44", ""),
}


@pytest.mark.parametrize("parts", PARTS)
def test_a_part_of_the_records_tells_of_a_death_or_nothing(parts: tuple[str, ...], tmp_path: Path) -> None:
    for part in parts:
        write(tmp_path / part, content(DATA / "runs" / "deaths" / f"{part}.gz"))
    found = [run for run in told(imported(tmp_path)[0], evicted=True).runs if iso(run.ended)[11:19] > "13:29:00"]
    ended, words = PARTS[parts]
    own = [run for run in found if run.cause.name != "removed"]
    assert [(run.job, iso(run.ended)[11:19]) for run in own] == [("1.0", ended), ("1.1", ended)]
    assert [run.cause.name for run in own] == ["daemon" if words else "unknown"] * 2
    assert all(run.said.startswith(words) for run in own)


@pytest.mark.parametrize("name", KILLED)
def test_a_shadow_that_its_slot_refused_has_no_death_to_blame(name: str) -> None:
    """The access point gave the job whose shadow was killed another one at once, for which the slot was not idle."""
    others = [run for run in killed(name) if run.cause.name != "daemon"]
    assert [(run.job, run.cause.name, run.lasted // SECOND) for run in others] == [
        ("1.1", "not_started", 0),
        ("1.1", "removed", 19 if name == "deaths" else 20),
    ]


@pytest.mark.parametrize("name", KILLED)
def test_a_shadow_that_takes_a_job_up_again_is_no_run_of_its_own(name: str) -> None:
    found = told(recorded(DATA / "runs" / name)[0]).runs
    assert Counter(run.job for run in found) == {"1.0": 4, "1.1": 5, "2.0": 1}
    assert all(run.slot for run in found)


def test_of_a_job_of_which_the_history_alone_tells_the_earlier_runs_are_known_in_total_only(tmp_path: Path) -> None:
    ad = (
        'ClusterId = 7\nProcId = 0\nQDate = 1795214000\nUser = "eve@pool"\nJobStatus = 4\nJobUniverse = 5\n'
        'LastRemoteHost = "slot1@node"\nJobCurrentStartDate = 1795214210\nCompletionDate = 1795214260\n'
        "EnteredCurrentStatus = 1795214260\nRemoteWallClockTime = 350.0\nNumShadowStarts = 3\n"
        "ExitBySignal = false\nExitCode = 0\n"
        '*** Offset = 0 ClusterId = 7 ProcId = 0 Owner = "eve" CompletionDate = 1795214260\n'
    )
    write(tmp_path / "history", ad)
    found = told(imported(tmp_path)[0])
    assert [(run.job, run.user, run.slot, run.lasted, run.outcome) for run in found.runs] == [
        ("7.0", "eve@pool", "slot1@node", 50 * SECOND, "completed")
    ]
    assert (found.unknown.jobs, found.unknown.time) == (1, 300 * SECOND)


def test_a_run_whose_end_lies_in_a_gap_is_known_up_to_the_gap(tmp_path: Path) -> None:
    entry = "{:03d} (001.000.000) 2026-11-20 12:00:{:02d} {}\n...\n"
    before = entry.format(0, 0, "Job submitted from host: <h>") + entry.format(
        1, 5, "Job executing on host: <h>\n\tSlotName: slot1@h"
    )
    cut = "...... trimmed: 9 bytes in all ......\n"
    after = entry.format(0, 50, "Job submitted from host: <h>").replace("001.000", "002.000")
    write(tmp_path / "EventLog", before + cut + after)
    (run,) = told(imported(tmp_path)[0]).runs
    assert (run.outcome, run.lasted) == ("ended", 0)


def _failed_transfer(second: int, code: int, held: bool) -> str:
    """A run whose files could not be moved, in a job event log: seconds after 12:00, and whether the schedd held it."""
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
    assert Counter(run.cause.name for run in told(log, evicted=True).runs) == causes
