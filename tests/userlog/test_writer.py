"""Property: each event is in its file once, whenever the writer is killed, whatever the disk refuses and whichever
other program writes to the file. Kills and full disks are real: a child process has a limit to the size of its files,
at which the system kills it or refuses the write, in the middle of an event."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from poolbook.adapters.runtime.userlog import files
from poolbook.adapters.runtime.userlog.event_text import stamp_formatter
from poolbook.adapters.runtime.userlog.files import why_unwritable
from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.runtime.userlog.writer import PROGRESS, UserLogError, UserLogWriter
from poolbook.domain import events as e
from poolbook.domain.events import Event

from ..children import child, exit_code
from .pool import JOB, events_of

Story = list[tuple[int, Event]]
OTHER = "001 (999.000.000) 2027-01-15 08:00:00 Job executing on host: <another pool>\n...\n"


def story(log: Path, clusters: int = 6, jobs: int = 3, **options: Path) -> Story:
    """Return submissions, holds and priorities of jobs that log to `log`; jobs of ``more`` log to other files."""
    events: list[Event] = []
    for cluster in range(1, clusters + 1):
        file = [log, *options.values()][cluster % (1 + len(options))]
        ad = {**JOB, "UserLog": f'"{file}"'}
        events.append(e.ClusterSubmitted(cluster * 10**6, "submitted", "s", cluster, "alice@x", ad, jobs, (), "Idle"))
        changes = {"HoldReason": f'"{"because " * cluster}"', "HoldReasonCode": "1", "HoldReasonSubCode": "0"}
        events.append(
            e.JobsTransitioned(0, "user_hold", "s", cluster, ((0, jobs - 1),), "hold", "Idle", "Held", changes)
        )
        events.append(e.JobsEdited(0, "user_edit", "s", cluster, ((0, 0),), {"JobPrio": str(cluster)}))
    return list(enumerate(events, 1))


def texts(events: Story) -> dict[str, str]:
    """Return what the files must contain in the end."""
    files: dict[str, str] = {}
    logs = utc()
    for position, event in events:
        for (path, _), text in logs.fold(position, event):
            files[path] = files.get(path, "") + text
    return files


def utc() -> UserLogs:
    return UserLogs(stamp_formatter(UTC))


def writer(tmp: Path, durable: bool = False) -> UserLogWriter:
    return UserLogWriter(tmp / "progress", utc(), durable)


def resume(tmp: Path, events: Story) -> None:
    writer(tmp).start(events)


def kill_at_size(size: int, work: Callable[[], None]) -> int:
    """Do some work until a file would grow beyond `size`: then the kernel kills the process, having written up to
    there."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    return -exit_code(limited)


# Written once


def test_batches_leave_the_folds_events(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    log_writer = writer(tmp_path)
    for at in range(0, len(events), 4):
        log_writer.write(events[at : at + 4])
    assert {str(log): log.read_text()} == texts(events)
    assert log_writer.position == len(events)
    assert log.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("stop", range(0, 19, 3))
def test_a_new_writer_continues_where_the_last_one_stopped(tmp_path: Path, stop: int, durable: bool) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    writer(tmp_path, durable).write(events[:stop])
    late_writer = writer(tmp_path, durable)
    late_writer.start(events)
    assert log.read_text() == texts(events)[str(log)]
    next_writer = writer(tmp_path)
    next_writer.start(events)
    next_writer.write(events)
    assert log.read_text() == texts(events)[str(log)]


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another writer"])
def test_a_write_cut_by_a_kill_is_completed(tmp_path: Path, others: bool) -> None:
    torn = tries = 0
    size = 0
    while True:
        folder = tmp_path / f"{tries:04}"
        log = folder / "job.log"
        events = story(log)
        folder.mkdir()
        log.write_text(OTHER)
        writer(folder).write(events[:5])
        size = max(size, log.stat().st_size) + 157
        if size >= len(OTHER) + len(texts(events)[str(log)]):
            break
        assert kill_at_size(size, partial(resume, folder, events)) == signal.SIGXFSZ
        tries += 1
        content = log.read_text()
        torn += not content.endswith("\n...\n")
        if others and content.endswith("\n...\n"):
            with open(log, "a") as file:
                file.write(OTHER)
        resume(folder, events)
        our_events = [event for event in events_of(log.read_text()) if event != OTHER]
        assert "".join(our_events) == texts(events)[str(log)]
    assert torn > tries / 2 > 5


A, B, C = (f"0{n} (001.000.000) 2027-01-15 08:00:00 Job was.\n\tfor {n}\n...\n" for n in (10, 11, 12))


@pytest.mark.parametrize(
    ("preceding", "following", "batch", "expected"),
    [
        # before the batch, after that, the batch       what is still to be written
        ("", "", A + B, A + B),
        (C, "", A + B, A + B),
        (C, A, A + B, B),
        (C, A + B, A + B, ""),
        (A, A, A + B, B),
        ("", A + B[:20], A + B, B[20:]),
        ("", A + B[:-1], A + B, B[-1:]),
        ("", A[:3], A + B, A[3:] + B),
        ("", OTHER + A, A + B, B),
        ("", A + OTHER, A + B, B),
        ("", A + OTHER + B[:30], A + B, B[30:]),
        ("", OTHER + A + OTHER + B + OTHER, A + B, ""),
        ("", A[:20] + "\n" + OTHER, A + B, A + B),
        ("", A + A, A + A + A, A),
    ],
)
def test_the_missing_part_of_a_batch_is_determined(
    tmp_path: Path, preceding: str, following: str, batch: str, expected: str
) -> None:
    log = tmp_path / "job.log"
    log.write_text(preceding + following)
    assert files.missing_part(str(log), len(preceding), batch.encode()).decode() == expected


def test_an_emptied_file_is_searched_completely(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(A)
    assert files.missing_part(str(log), 1000, (A + B).encode()).decode() == B


def test_fifos_and_devices_are_not_searched(tmp_path: Path) -> None:
    """A writer must not wait for a FIFO without a reader, and some devices have no end."""
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        assert files.missing_part(str(path), 0, A.encode()).decode() == A


def test_two_simultaneous_writers_leave_complete_events_of_both(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log, clusters=100)

    def write_others(_: int) -> None:
        for _ in range(300):
            with open(log, "a") as file:
                file.write(OTHER)

    with child(write_others) as other:
        log_writer = writer(tmp_path)
        for at in range(len(events)):
            log_writer.write(events[at : at + 1])
        assert other.wait() == 0
    events_found = events_of(log.read_text())
    assert "".join(event for event in events_found if event != OTHER) == texts(events)[str(log)]
    assert events_found.count(OTHER) == 300


def test_an_event_cut_off_by_another_writer_is_written_completely(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    assert kill_at_size(1000, lambda: writer(tmp_path).write(events)) == signal.SIGXFSZ
    with open(log, "a") as file:
        file.write(f"\n{OTHER}")
    writer(tmp_path).start(events)
    for event in events_of(texts(events)[str(log)]):
        assert log.read_text().count(event) == 1


def test_writes_cut_by_kills_at_random_instants_are_completed(tmp_path: Path) -> None:
    log, other = tmp_path / "job.log", tmp_path / "other.log"
    events = story(log, clusters=300, other=other)

    def work(_: int) -> None:
        log_writer = writer(tmp_path)
        log_writer.start(events[: log_writer._progress.until])
        for position in range(log_writer.position, len(events)):
            log_writer.write(events[position : position + 1])

    for moment in range(12):
        with child(work):
            time.sleep(0.004 + 0.003 * moment)
    writer(tmp_path).start(events)
    assert {str(log): log.read_text(), str(other): other.read_text()} == texts(events)


def test_a_log_emptied_during_a_crash_gets_the_started_batch(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    writer(tmp_path).write(events[:5])
    assert kill_at_size(1500, partial(resume, tmp_path, events)) == signal.SIGXFSZ
    log.write_text("")
    writer(tmp_path).start(events)
    first = texts(events[:5])[str(log)]
    assert first + log.read_text() == texts(events)[str(log)]


# Failing writes


def test_a_full_disk_leaves_complete_events_and_is_reported(tmp_path: Path) -> None:
    log, other = tmp_path / "job.log", tmp_path / "other.log"
    events = story(log, clusters=12, other=other)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # refused, as Python ignores the signal
        writer(tmp_path).write(events)

    assert exit_code(work) == 0
    late_writer = writer(tmp_path)
    for failure in late_writer.failures:
        events_kept = events_of(Path(failure.path).read_text())
        all_events = events_of(texts(events)[failure.path])
        assert events_kept == all_events[: len(events_kept)]
        assert failure.lost == len(all_events) - len(events_kept) > 0
        assert (failure.reason, failure.position) == ("File too large (errno 27)", 1)
    assert {failure.path for failure in late_writer.failures} == {str(log), str(other)}


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing/job.log", "No such file or directory (errno 2)"),
        ("folder", "Is a directory (errno 21)"),
        ("file/job.log", "Not a directory (errno 20)"),
        ("pipe", "No such device or address (errno 6)"),
        ("nul\0.log", "embedded null byte (errno 22)"),
    ],
)
def test_an_unopenable_log_does_not_stop_the_others(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    good, unopenable = tmp_path / "job.log", tmp_path / place
    events = story(good, other=unopenable)
    log_writer = writer(tmp_path)
    log_writer.write(events[:9])
    log_writer.write(events[9:])
    assert good.read_text() == texts(events)[str(good)]
    (failure,) = log_writer.failures
    lost_count = len(events_of(texts(events)[str(unopenable)]))
    assert (failure.path, failure.reason, failure.position, failure.lost) == (str(unopenable), reason, 1, lost_count)
    assert writer(tmp_path).failures == [failure]
    assert why_unwritable(str(unopenable)) != ""
    assert why_unwritable(str(good)) == ""


def test_a_log_whose_directory_is_created_later_has_the_later_events(tmp_path: Path) -> None:
    log = tmp_path / "later" / "job.log"
    events = story(log)
    log_writer = writer(tmp_path)
    log_writer.write(events[:9])
    log.parent.mkdir()
    log_writer.write(events[9:])
    assert texts(events)[str(log)] == texts(events[:9])[str(log)] + log.read_text()
    assert log_writer.failures[0].lost == len(events_of(texts(events[:9])[str(log)]))


# The progress


def test_an_invalid_progress_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / PROGRESS).write_text("{\n")
    with pytest.raises(UserLogError, match=f"{PROGRESS}: not a valid checkpoint of job event logs .* remove it"):
        writer(tmp_path)


@pytest.mark.parametrize(
    ("before", "later_events"), [("0123456789abcdef", "fedcba9876543210"), ("", "fedcba9876543210")]
)
def test_the_progress_of_another_log_is_not_continued(tmp_path: Path, before: str, later_events: str) -> None:
    """A pool was removed and created again in the same place: its job logs are written from its first event."""

    def of_log(name_or_none: str, name: str) -> Story:
        founding = e.PoolFounded(0, "founded", "s", "localhost", "manual", "x", "0", {}, log=name_or_none)
        return [(1, founding), *((at + 1, event) for at, event in story(tmp_path / name))]

    resume(tmp_path, of_log(before, "old.log"))
    for _ in range(2):
        resume(tmp_path, of_log(later_events, "new.log"))
        assert {name: (tmp_path / name).read_text() for name in ("old.log", "new.log")} == {
            Path(path).name: text
            for name in ("old.log", "new.log")
            for path, text in texts(story(tmp_path / name)).items()
        }


def test_the_progress_of_a_truncated_log_is_refused(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    writer(tmp_path).write(events)
    with pytest.raises(UserLogError, match="written up to event 18, but the pool's log ends at 7"):
        writer(tmp_path).start(events[:7])


def test_skipped_events_are_refused(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    log_writer = writer(tmp_path)
    log_writer.write(events[:3])
    with pytest.raises(UserLogError, match="event 6 cannot follow event 3"):
        log_writer.write(events[5:])


def test_a_writer_that_has_not_read_the_log_repeats_nothing(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    writer(tmp_path).write(events)
    with pytest.raises(UserLogError, match="up to 18 have already been written; call `start` first"):
        writer(tmp_path).write(events)


def test_a_directory_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "progress").touch()
    with pytest.raises(UserLogError, match="job event logs need a writable folder"):
        writer(tmp_path)


def test_a_batch_without_events_touches_no_file(tmp_path: Path) -> None:
    log_writer = writer(tmp_path)
    log_writer.write([(1, e.WriterBegan(0, "writer", "s", 1, "w"))])
    assert log_writer.position == 1
    assert os.listdir(tmp_path / "progress") == []


def test_the_progress_records_a_batch_before_and_after_its_writing(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    writer(tmp_path).write(story(log))
    assert [json.loads(line) for line in (tmp_path / "progress" / PROGRESS).read_text().splitlines()] == [
        {"position": 0, "until": 18, "sizes": {str(log): 0}, "failures": {}, "log": ""},
        {"position": 18, "until": 18, "sizes": {}, "failures": {}, "log": ""},
    ]


def test_a_truncated_line_of_the_progress_does_not_count(tmp_path: Path) -> None:
    log, progress = tmp_path / "job.log", tmp_path / "progress" / PROGRESS
    events = story(log)
    writer(tmp_path).write(events[:5])
    for announced in (True, False):  # cut off before the batch touched the log, or after it was written
        lines = progress.read_bytes()
        before = log.read_text()
        writer(tmp_path).start(events)
        first, second, *_ = progress.read_bytes()[len(lines) :].splitlines(keepends=True)
        full_log = log.read_text()
        kept_lines, cut_line = (lines, first) if announced else (lines + first, second)
        for length in range(0, len(cut_line), 7):
            progress.write_bytes(kept_lines + cut_line[:length])
            log.write_text(before if announced else full_log)
            writer(tmp_path).start(events)
            assert log.read_text() == full_log == texts(events)[str(log)]
            assert writer(tmp_path)._progress.position == len(events)
        progress.write_bytes(lines)
        log.write_text(before)


def test_the_progress_does_not_grow_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.runtime.userlog.writer.GROWN", 1000)
    log = tmp_path / "job.log"
    events = story(log, clusters=30)
    log_writer = writer(tmp_path)
    for at in range(len(events)):
        log_writer.write(events[at : at + 1])
        assert (tmp_path / "progress" / PROGRESS).stat().st_size < 1500
    assert log.read_text() == texts(events)[str(log)]
    assert writer(tmp_path)._progress.position == len(events)
