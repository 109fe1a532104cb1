"""The import: what is read once, where a reader continues, and that nothing stops it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from poolbook.adapters.condor_files.importing.driver import Importer
from poolbook.adapters.condor_files.importing.folders import family_of, kind_of
from poolbook.adapters.runtime.open_pool import open_pool_log
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.classad.time_zones import zone_of
from poolbook.domain.events import AdsKept, JobsLogged, SourceFound, SourceGap, SourceRead, SourceRefused
from poolbook.domain.ports.log import EventStore, LogError, LogUnavailable

from ..sampling import spread
from ..together import together
from .folders import TRACES, UTC, entry, imported, recorded, source_events, write

FIRST = entry(0, "1.0", 0) + entry(1, "1.0", 5, "Job executing on host: <h>\n\tSlotName: slot1@h")
SECOND = entry(5, "1.0", 65, "Job terminated.\n\t(1) Normal termination (return value 0)")


def entries(log: EventStore) -> list[tuple[int, str]]:
    """Return the number and place of each entry of a job event log."""
    return [
        (log_event.number, log_event.stimulus)
        for event in source_events(log)
        if isinstance(event, JobsLogged)
        for log_event in event.logged()
    ]


def test_a_grown_file_is_read_from_where_the_last_import_stopped(tmp_path: Path) -> None:
    file = write(tmp_path / "job.log", FIRST)
    log, _ = imported(tmp_path)
    write(file, FIRST + SECOND)
    _, result = imported(tmp_path, log=log)
    assert entries(log) == [(0, "1:1"), (1, "1:3"), (5, "1:6")]
    assert result.counts["userlog"].new == 0


def test_an_unchanged_file_adds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST)
    log, _ = imported(tmp_path)
    position = log.head.position
    _, result = imported(tmp_path, log=log)
    assert (log.head.position, result.events) == (position, 0)


def test_a_second_import_reads_what_was_added(tmp_path: Path) -> None:
    file = write(tmp_path / "job.log", FIRST)
    log = open_log("memory:", create=True)
    importer = Importer(log, [str(tmp_path)], UTC)
    importer.run()
    with file.open("a") as stream:
        stream.write(SECOND[:20])
    importer.run()
    with file.open("a") as stream:
        stream.write(SECOND[20:])
    importer.run()
    assert [number for number, _ in entries(log)] == [0, 1, 5]


@pytest.mark.parametrize("size", [1, 40, 72, 80, 100, 108, 115, 130, 168])
def test_an_event_log_first_read_inside_its_header_is_recognized(tmp_path: Path, size: int) -> None:
    content = HEADER.format("size=0 events=0") + FIRST
    write(tmp_path / "EventLog", content[: max(1, size)])
    log, _ = imported(tmp_path)
    write(tmp_path / "EventLog", content)
    imported(tmp_path, log=log)
    assert [number for number, _ in entries(log)] == [0, 1]
    assert not [event for event in source_events(log) if isinstance(event, SourceGap)]


def test_a_file_emptied_and_grown_beyond_the_last_position_is_another_log(tmp_path: Path) -> None:
    write(tmp_path / "EventLog", FIRST)
    log = open_log("memory:", create=True)
    importer = Importer(log, [str(tmp_path)], UTC)
    importer.run()
    write(tmp_path / "EventLog", entry(0, "2.0", 100) * 3 + SECOND)
    importer.run()
    assert [number for number, _ in entries(log)] == [0, 1, 0, 0, 0, 5]


@pytest.mark.parametrize(
    "name", ["job.log.old", "job.log.1", "job.log.20261120T120000", "elsewhere/job.log", "job.log.gz"]
)
def test_a_renamed_or_compressed_log_is_recognized(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "job.log", FIRST)
    log, _ = imported(tmp_path)
    file.unlink()
    write(tmp_path / name, FIRST + SECOND)
    imported(tmp_path, log=log)
    assert [number for number, _ in entries(log)] == [0, 1, 5]
    assert [event.path for _, event in log.read() if isinstance(event, SourceRead)][-1] == str(tmp_path / name)


def test_a_rotated_log_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    file = write(tmp_path / "EventLog", FIRST)
    log, _ = imported(tmp_path)
    file.unlink()
    write(tmp_path / "EventLog.old", FIRST + SECOND)
    write(tmp_path / "EventLog", entry(0, "2.0", 70))
    imported(tmp_path, log=log)
    assert [number for number, _ in entries(log)] == [0, 1, 5, 0]
    sources_found = [event for _, event in log.read() if isinstance(event, SourceFound)]
    assert [(event.source, event.follows) for event in sources_found] == [(1, 0), (2, 1)]
    assert not [event for event in source_events(log) if isinstance(event, SourceGap)]


HEADER = "008 (-01.-01.-01) 2026-11-20 12:00:00 Global JobLog: ctime=1795176000 id=0.1.2 sequence=1 {:<60}\n...\n"


def test_an_event_log_with_a_header_rewritten_at_rotation_is_recognized(tmp_path: Path) -> None:
    write(tmp_path / "EventLog", HEADER.format("size=0 events=0") + FIRST)
    log, _ = imported(tmp_path)
    (tmp_path / "EventLog").unlink()
    write(tmp_path / "EventLog.1", HEADER.format("size=999 events=3") + FIRST + SECOND)
    imported(tmp_path, log=log)
    assert entries(log) == [(0, "1:3"), (1, "1:5"), (5, "1:8")]


def test_a_log_whose_old_part_was_rotated_away_has_a_gap(tmp_path: Path) -> None:
    write(tmp_path / "EventLog", FIRST)
    log, _ = imported(tmp_path)
    write(tmp_path / "EventLog", entry(0, "2.0", 70))
    imported(tmp_path, log=log)
    assert [(event.source, event.line) for event in source_events(log) if isinstance(event, SourceGap)] == [(2, 1)]


# Other copies of a log in a folder; which of the files is read.
COPIES: list[tuple[dict[str, str], str]] = [
    ({"job.log": FIRST + SECOND, "job.log.gz": FIRST + SECOND}, "job.log"),
    ({"job.log": FIRST + SECOND, "copy/job.log": FIRST + SECOND}, "copy/job.log"),
    ({"job.log": FIRST + SECOND, "before.log": FIRST}, "job.log"),
    ({"job.log": FIRST + SECOND, "before.log.gz": FIRST, "other.log": FIRST[:-3]}, "job.log"),
    ({"EventLog": FIRST + SECOND, "EventLog.1": FIRST + SECOND}, "EventLog"),
]


@pytest.mark.parametrize(("files", "read"), COPIES)
def test_copies_in_a_folder_are_read_once(tmp_path: Path, files: dict[str, str], read: str) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    log, result = imported(tmp_path)
    assert [number for number, _ in entries(log)] == [0, 1, 5]
    assert {os.path.relpath(path, tmp_path) for path in result.paths.values()} == {read}
    assert len(result.copies) == len(files) - 1


def test_a_later_copy_is_recognized(tmp_path: Path) -> None:
    write(tmp_path / "a" / "job.log", FIRST + SECOND)
    log, _ = imported(tmp_path / "a")
    write(tmp_path / "b" / "copy.log", FIRST + SECOND)
    write(tmp_path / "b" / "before.log", FIRST + SECOND[:10])
    _, result = imported(tmp_path / "b", log=log)
    assert len(entries(log)) == 3
    assert [path for path, _ in result.copies]


LONG = FIRST + "".join(entry(6, "1.0", second) for second in range(10, 60))


@pytest.mark.parametrize("first", ["a.log", "b.log"])
def test_logs_with_equal_beginnings_are_both_read_in_any_order(tmp_path: Path, first: str) -> None:
    texts = {
        "a.log": LONG + SECOND,
        "b.log": LONG[: len(FIRST) + 1500].rpartition("006")[0] + SECOND.replace("0)", "7)"),
    }
    write(tmp_path / first, texts.pop(first))
    log, _ = imported(tmp_path)
    for name, text in texts.items():
        write(tmp_path / name, text)
    imported(tmp_path, log=log)
    assert [number for number, _ in entries(log)].count(5) == 2


def test_a_new_sample_under_the_same_name_is_read(tmp_path: Path) -> None:
    ad = "".join(f'Attribute{number} = "{number}"\n' for number in range(100)) + 'MyType = "Machine"\n'
    log = open_log("memory:", create=True)
    for text in (ad + "LastHeardFrom = 1795176000\n\n", ad + "LastHeardFrom = 1795176060\n\n", ad + "\n"):
        write(tmp_path / "machines.txt", text)
        imported(tmp_path, log=log)
    assert len([event for event in source_events(log) if isinstance(event, AdsKept)]) == 3


def test_a_log_shortened_in_place_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "job.log", LONG + SECOND)
    log, _ = imported(tmp_path)
    write(tmp_path / "job.log", LONG[:1200] + SECOND)
    imported(tmp_path, log=log)
    assert ["has changed" in event.words for event in source_events(log) if isinstance(event, SourceRefused)] == [True]


def test_two_logs_with_equal_beginnings_are_two_logs(tmp_path: Path) -> None:
    write(tmp_path / "a.log", FIRST + SECOND)
    write(tmp_path / "b.log", FIRST + entry(9, "1.0", 66, "Job was aborted."))
    log, _ = imported(tmp_path)
    assert sorted(number for number, _ in entries(log)) == [0, 0, 1, 1, 5, 9]


def test_a_file_changed_after_it_was_read_is_reported_once_and_not_reread(tmp_path: Path) -> None:
    text = FIRST + "".join(entry(6, "1.0", second) for second in range(10, 60))
    write(tmp_path / "job.log", text)
    log, _ = imported(tmp_path)
    write(tmp_path / "job.log", text.replace("12:00:59", "12:00:58") + SECOND)
    for _ in range(2):
        imported(tmp_path, log=log)
    refusals = [event for event in source_events(log) if isinstance(event, SourceRefused)]
    assert len(refusals) == 1
    assert "has changed" in refusals[0].words
    assert len(entries(log)) == 52


def test_the_incomplete_end_of_a_file_is_left_and_reported(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST + SECOND[:-4])
    log, _ = imported(tmp_path)
    assert [number for number, _ in entries(log)] == [0, 1]
    (read,) = [event for _, event in log.read() if isinstance(event, SourceRead)]
    assert (read.offset, read.left) == (len(FIRST), len(SECOND) - 4)


def test_a_log_first_read_before_its_first_record_was_complete_is_recognized(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST[:60])
    log, _ = imported(tmp_path)
    write(tmp_path / "job.log", FIRST + SECOND)
    imported(tmp_path, log=log)
    assert entries(log) == [(0, "1:1"), (1, "1:3"), (5, "1:6")]


def test_a_damaged_gzip_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    text = FIRST + "".join(entry(6, "1.0", second % 3600) for second in range(20_000)) + SECOND
    data = gzip.compress(text.encode())
    (tmp_path / "job.log.gz").write_bytes(data[: len(data) // 2])
    log, _ = imported(tmp_path)
    imported(tmp_path, log=log)
    assert 1000 < len(entries(log)) < 20_000
    (refusals,) = [event for event in source_events(log) if isinstance(event, SourceRefused)]
    assert "damaged" in refusals.words


def test_an_unopenable_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST)
    (tmp_path / "bad.log.gz").write_bytes(b"\x1f\x8b\x08\xff nothing that was ever compressed")
    log, result = imported(tmp_path)
    assert [number for number, _ in entries(log)] == [0, 1]
    assert [event.line for event in source_events(log) if isinstance(event, SourceRefused)] == [0]
    assert result.events


def test_fifos_and_devices_are_skipped(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST)
    os.mkfifo(tmp_path / "EventLog")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "again").symlink_to(tmp_path / "job.log")
    log, _ = imported(tmp_path)
    assert [number for number, _ in entries(log)] == [0, 1]


def test_a_pools_own_log_refuses_an_import(tmp_path: Path) -> None:
    write(tmp_path / "job.log", FIRST)
    log = open_pool_log(str(tmp_path / "pool.db"), create=True)
    with pytest.raises(LogError, match="pool's own log"):
        imported(tmp_path, log=log)
    log.close()


def test_a_record_that_no_log_can_hold_is_refused_and_the_rest_is_kept(tmp_path: Path) -> None:
    half = '{"EventTypeNumber": 9, "EventTime": "2026-11-20T12:00:00", "Cluster": 7, "Proc": 0, "Reason": "\\ud800"}\n'
    write(tmp_path / "job.log", FIRST + half + SECOND)
    log, _ = imported(tmp_path)
    assert [number for number, _ in entries(log)] in ([0, 1, 5], [0, 1, 9, 5])
    refusals = [event for event in source_events(log) if isinstance(event, SourceRefused)]
    assert [event.line for event in refusals] == [6]


class Failing:
    """A log whose appends fail from the n-th on."""

    def __init__(self, log: EventStore, appends: int) -> None:
        self._log, self._left = log, appends

    def append(self, events: object) -> int:
        self._left -= 1
        if self._left < 0:
            raise LogUnavailable("the disk is full")
        return self._log.append(events)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


@pytest.mark.parametrize("appends", range(4))
def test_an_import_that_dies_at_any_append_resumes_there(tmp_path: Path, appends: int) -> None:
    write(tmp_path / "a.log", FIRST)
    write(tmp_path / "b.log", entry(0, "2.0", 70))
    write(tmp_path / "c.log", entry(0, "3.0", 70) * 12_000)
    expected_log, _ = imported(tmp_path)
    log = open_log("memory:", create=True)
    with pytest.raises(LogUnavailable):
        Importer(Failing(log, appends), [str(tmp_path)], UTC).run()  # type: ignore[arg-type]
    imported(tmp_path, log=log)
    assert entries(log) == entries(expected_log)


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_the_size_of_the_pieces_does_not_matter(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "job.log", FIRST + SECOND)
    expected_log, _ = imported(tmp_path)
    monkeypatch.setattr("poolbook.adapters.condor_files.importing.driver.PIECE_BYTES", size)
    log_in_pieces, _ = imported(tmp_path)
    assert entries(log_in_pieces) == entries(expected_log)


FAMILIES = [
    ("StartLog", "startlog", "StartLog", 4),
    ("StartLog.old", "startlog", "StartLog", 3),
    ("StartLog.20261120T224406", "startlog", "StartLog", 2),
    ("StartLog.20261119T224406.gz", "startlog", "StartLog", 1),
    ("EventLog.1", "eventlog", "EventLog", 2),
    ("EventLog.2.gz", "eventlog", "EventLog", 1),
    ("job_queue.log.1", "queue", "job_queue.log", 1),
    ("job_queue.log.2", "queue", "job_queue.log", 2),
    ("alice-job.log", "userlog", "alice-job.log", 1),
]


def test_the_parts_of_a_rotated_log_are_read_in_the_order_of_their_writing() -> None:
    for _, kind, base, _ in FAMILIES:
        family = [(name, place) for name, family_kind, b, place in FAMILIES if (family_kind, b) == (kind, base)]
        family.sort(key=lambda item: family_of(item[0], kind)[1])
        assert [place for _, place in family] == sorted(place for _, place in family)
        assert {family_of(name, kind)[0] for name, _ in family} == {base}


# A name, the content, and the kind.
KINDS = [
    ("StartLog", "11/20/26 22:44:06 anything", "startlog"),
    ("old-startd.txt", "11/20/26 22:44:07 slot1: Changing state: Owner -> Unclaimed\n", "startlog"),
    ("x", "11/20/26 22:44:06 ** condor_schedd (CONDOR_SCHEDD) STARTING UP\n", "schedlog"),
    ("x", "11/20/26 22:44:08 ---------- Started Negotiation Cycle ----------\n", "negotiatorlog"),
    ("x", "11/20/26 22:44:13       Matched 1.0 alice@h <h> preempting none <h> slot1@h\n", "matchlog"),
    ("x", "008 (-01.-01.-01) 11/20 22:33:44 Global JobLog: ctime=1 id=2\n...\n", "eventlog"),
    ("x", FIRST, "userlog"),
    ("x", '107 1 CreationTimestamp 1\n101 0.0 Job Machine\n103 0.0 MyType "Job"\n', "queue"),
    ("x", "107 1 CreationTimestamp 1\n101 Customer.<none> * *\n", "accountant"),
    ("x", 'ClusterId = 1\nEpochAdType = "SPAWN"\n*** SPAWN ClusterId=1 ProcId=0\n', "epochs"),
    ("x", 'ClusterId = 1\n*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "a" CompletionDate = 1\n', "history"),
    ("x", 'JobState = "Exited"\n*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "a"\n', "startd_history"),
    ("x", "JobStatus = 4\nStarterExitStatus = 0\n*** Offset = 0 ClusterId = 1 ProcId = 0\n", "startd_history"),
    ("startd_history", "JobStatus = 4\n*** Offset = 0 ClusterId = 1 ProcId = 0\n", "startd_history"),
    ("history.ads", 'ClusterId = 1\nMyType = "Job"\n\n', "history"),
    ("q.ads", 'ClusterId = 1\nMyType = "Job"\nServerTime = 5\n\n', "job_ads"),
    ("x.json", '[\n{\n  "ClusterId": 1,\n  "MyType": "Job"\n}\n]\n', "job_ads"),
    ("x", 'Activity = "Idle"\nMyType = "Machine"\n\n', "machine_ads"),
    ("x", 'Name = "a"\nMyType = "Accounting"\n\n', "submitter_ads"),
    ("jobs.txt", 'ClusterId = 1\nJobStatus = 4\nMyType = "Job"\n\n', "history"),
    ("q.txt", 'ClusterId = 1\nJobStatus = 2\nMyType = "Job"\n\n', "job_ads"),
    ("history.txt", 'Activity = "Idle"\nMyType = "Machine"\n\n', "machine_ads"),
    ("job.runs.1.0.ads", "ClusterId = 1\n*** EPOCH ClusterId=1 ProcId=0\n", "epochs"),
    ("EventLog", FIRST, "eventlog"),
    ("StartLog", '11/20/26 22:44:06 the ad:\nMyType = "Machine"\n', "startlog"),
    ("history.12.3", 'ClusterId = 12\nJobStatus = 4\nMyType = "Job"\n', None),
    ("MasterLog", "11/20/26 22:44:06 anything", "masterlog"),
    ("transfer_history", '***\nJobClusterId = 22\nTransferType = "download"\n***\n', None),
    ("schedd_daemon_history", 'MyType = "Scheduler"\n*** Offset = 0\n', None),
    ("job.sub", "executable = /bin/true\nlog = job.log\nqueue\n", None),
    ("notes.txt", "the pool was slow today\n", None),
    ("StartLog", "", None),
    ("StartLog", "\n\n", None),
]


@together(("name", "text", "kind"), KINDS)
def test_a_files_kind_is_determined_from_its_content(name: str, text: str, kind: str | None) -> None:
    assert kind_of(name, text.encode()) == kind


def test_a_zone_is_a_name_or_an_offset() -> None:
    assert [str(zone_of(name)) for name in ("UTC", "Europe/Madrid", "+02:00")] == ["UTC", "Europe/Madrid", "UTC+02:00"]
    with pytest.raises(ValueError, match="unknown time zone 'Atlantis'"):
        zone_of("Atlantis")


def test_traces_of_a_real_pool_are_completely_readable() -> None:
    for folder in spread(sorted(path for path in TRACES.iterdir() if path.is_dir()), 8):
        _, result = recorded(folder)
        assert result.refused == [], folder.name


JOB_AD = (
    'ClusterId = {0}\nProcId = 0\nJobStatus = 1\nMyType = "Job"\nServerTime = 1795214400\nGlobalJobId = "ap#{0}.0#1"'
)
SLOT_AD = 'MyType = "Machine"\nName = "slot{0}@ep"\nState = "Owner"\nActivity = "Idle"\nMyCurrentTime = 1795214400'


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n"])
@pytest.mark.parametrize("ad", [JOB_AD, SLOT_AD])
@pytest.mark.parametrize("number", [1, 3])
def test_every_printed_ad_is_read_however_the_file_ends(tmp_path: Path, number: int, ad: str, end: str) -> None:
    write(tmp_path / "ads.txt", "\n\n".join(map(ad.format, range(1, number + 1))) + end)
    log, result = imported(tmp_path)
    assert sum(event.count for event in source_events(log) if isinstance(event, AdsKept)) == number
    assert result.refused == []


@pytest.mark.parametrize(
    ("grown", "ads", "refusals"),
    [
        ("\n\n" + JOB_AD.format(2), 2, 0),
        ("\n\n" + JOB_AD.format(2) + "\n\n", 2, 0),
        ("\nCmd = 1\n\n" + JOB_AD.format(2), 2, 1),
    ],
)
def test_a_grown_sample_continues_after_the_last_complete_ad(
    tmp_path: Path, grown: str, ads: int, refusals: int
) -> None:
    file = write(tmp_path / "ads.txt", JOB_AD.format(1) + "\n")
    log, _ = imported(tmp_path)
    write(file, JOB_AD.format(1) + "\n" + grown.removeprefix("\n"))
    _, result = imported(tmp_path, log=log)
    assert sum(event.count for event in source_events(log) if isinstance(event, AdsKept)) == ads
    assert len(result.refused) == refusals
