"""Property: each event stands in its file once, wherever the writer is killed, whatever the disk refuses and whoever
else writes to the file.

Kills and full disks are real ones: a child process has a limit to the size of its files, at which the system ends it or
refuses the write, in the middle of an event.
"""

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
from poolbook.adapters.runtime.userlog.event_text import stamps
from poolbook.adapters.runtime.userlog.files import unwritable
from poolbook.adapters.runtime.userlog.fold import UserLogs
from poolbook.adapters.runtime.userlog.writer import PROGRESS, UserLogError, UserLogWriter
from poolbook.domain import events as e
from poolbook.domain.events import Event

from ..children import child, exit_code
from .pool import JOB, events_of

Story = list[tuple[int, Event]]
OTHER = "001 (999.000.000) 2027-01-15 08:00:00 Job executing on host: <another pool>\n...\n"


def story(log: Path, clusters: int = 6, jobs: int = 3, **more: Path) -> Story:
    """Submissions, holds and priorities of jobs that log to `log`; those of ``more`` go to other files."""
    found: list[Event] = []
    for cluster in range(1, clusters + 1):
        file = [log, *more.values()][cluster % (1 + len(more))]
        ad = {**JOB, "UserLog": f'"{file}"'}
        found.append(e.ClusterSubmitted(cluster * 10**6, "submitted", "s", cluster, "alice@x", ad, jobs, (), "Idle"))
        changes = {"HoldReason": f'"{"because " * cluster}"', "HoldReasonCode": "1", "HoldReasonSubCode": "0"}
        found.append(
            e.JobsTransitioned(0, "user_hold", "s", cluster, ((0, jobs - 1),), "hold", "Idle", "Held", changes)
        )
        found.append(e.JobsEdited(0, "user_edit", "s", cluster, ((0, 0),), {"JobPrio": str(cluster)}))
    return list(enumerate(found, 1))


def texts(events: Story) -> dict[str, str]:
    """What the files must hold in the end."""
    files: dict[str, str] = {}
    logs = utc()
    for position, event in events:
        for (path, _), text in logs.fold(position, event):
            files[path] = files.get(path, "") + text
    return files


def utc() -> UserLogs:
    return UserLogs(stamps(UTC))


def writer(tmp: Path, durable: bool = False) -> UserLogWriter:
    return UserLogWriter(tmp / "progress", utc(), durable)


def resume(tmp: Path, events: Story) -> None:
    writer(tmp).start(events)


def killed_at(size: int, work: Callable[[], None]) -> int:
    """Do something until a file would grow beyond `size`: then the kernel ends it, having written up to there."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    return -exit_code(limited)


# Written once


def test_batches_leave_what_the_fold_says(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    ours = writer(tmp_path)
    for at in range(0, len(events), 4):
        ours.write(events[at : at + 4])
    assert {str(log): log.read_text()} == texts(events)
    assert ours.position == len(events)
    assert log.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("stop", range(0, 19, 3))
def test_a_new_writer_goes_on_where_the_last_one_stopped(tmp_path: Path, stop: int, durable: bool) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    writer(tmp_path, durable).write(events[:stop])
    late = writer(tmp_path, durable)
    late.start(events)
    assert log.read_text() == texts(events)[str(log)]
    again = writer(tmp_path)
    again.start(events)
    again.write(events)
    assert log.read_text() == texts(events)[str(log)]


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another writer"])
def test_a_kill_in_the_middle_of_a_write_is_made_good(tmp_path: Path, others: bool) -> None:
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
        assert killed_at(size, partial(resume, folder, events)) == signal.SIGXFSZ
        tries += 1
        left = log.read_text()
        torn += not left.endswith("\n...\n")
        if others and left.endswith("\n...\n"):
            with open(log, "a") as file:
                file.write(OTHER)
        resume(folder, events)
        ours = [event for event in events_of(log.read_text()) if event != OTHER]
        assert "".join(ours) == texts(events)[str(log)]
    assert torn > tries / 2 > 5


A, B, C = (f"0{n} (001.000.000) 2027-01-15 08:00:00 Job was.\n\tfor {n}\n...\n" for n in (10, 11, 12))


@pytest.mark.parametrize(
    ("stood", "came", "wanted", "missing"),
    [
        # before the batch, behind that, the batch      what is still to be written
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
def test_what_is_missing_of_a_batch(tmp_path: Path, stood: str, came: str, wanted: str, missing: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(stood + came)
    assert files.missing(str(log), len(stood), wanted.encode()).decode() == missing


def test_of_a_file_that_was_emptied_all_is_looked_through(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(A)
    assert files.missing(str(log), 1000, (A + B).encode()).decode() == B


def test_what_is_no_file_is_not_looked_through(tmp_path: Path) -> None:
    """Nobody may ever write into a FIFO, and some devices have no end."""
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        assert files.missing(str(path), 0, A.encode()).decode() == A


def test_two_writers_at_once_leave_whole_events_of_both(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log, clusters=100)

    def write_others(_: int) -> None:
        for _ in range(300):
            with open(log, "a") as file:
                file.write(OTHER)

    with child(write_others) as other:
        ours = writer(tmp_path)
        for at in range(len(events)):
            ours.write(events[at : at + 1])
        assert other.wait() == 0
    found = events_of(log.read_text())
    assert "".join(event for event in found if event != OTHER) == texts(events)[str(log)]
    assert found.count(OTHER) == 300


def test_an_event_that_another_writer_s_event_cut_off_is_written_whole(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    assert killed_at(1000, lambda: writer(tmp_path).write(events)) == signal.SIGXFSZ
    with open(log, "a") as file:
        file.write(f"\n{OTHER}")
    writer(tmp_path).start(events)
    for event in events_of(texts(events)[str(log)]):
        assert log.read_text().count(event) == 1


def test_kills_at_random_instants_are_made_good(tmp_path: Path) -> None:
    log, other = tmp_path / "job.log", tmp_path / "other.log"
    events = story(log, clusters=300, other=other)

    def work(_: int) -> None:
        ours = writer(tmp_path)
        ours.start(events[: ours._progress.until])
        for position in range(ours.position, len(events)):
            ours.write(events[position : position + 1])

    for moment in range(12):
        with child(work):
            time.sleep(0.004 + 0.003 * moment)
    writer(tmp_path).start(events)
    assert {str(log): log.read_text(), str(other): other.read_text()} == texts(events)


def test_a_log_that_was_emptied_during_a_crash_gets_the_batch_that_was_begun(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    events = story(log)
    writer(tmp_path).write(events[:5])
    assert killed_at(1500, partial(resume, tmp_path, events)) == signal.SIGXFSZ
    log.write_text("")
    writer(tmp_path).start(events)
    first = texts(events[:5])[str(log)]
    assert first + log.read_text() == texts(events)[str(log)]


# What cannot be written


def test_a_full_disk_leaves_whole_events_and_is_reported(tmp_path: Path) -> None:
    log, other = tmp_path / "job.log", tmp_path / "other.log"
    events = story(log, clusters=12, other=other)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # refused, as Python ignores the signal
        writer(tmp_path).write(events)

    assert exit_code(work) == 0
    late = writer(tmp_path)
    for failure in late.failures:
        kept = events_of(Path(failure.path).read_text())
        every = events_of(texts(events)[failure.path])
        assert kept == every[: len(kept)]
        assert failure.lost == len(every) - len(kept) > 0
        assert (failure.reason, failure.position) == ("File too large (errno 27)", 1)
    assert {failure.path for failure in late.failures} == {str(log), str(other)}


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
def test_a_log_that_cannot_be_opened_stops_no_other(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    good, bad = tmp_path / "job.log", tmp_path / place
    events = story(good, other=bad)
    ours = writer(tmp_path)
    ours.write(events[:9])
    ours.write(events[9:])
    assert good.read_text() == texts(events)[str(good)]
    (failure,) = ours.failures
    lost = len(events_of(texts(events)[str(bad)]))
    assert (failure.path, failure.reason, failure.position, failure.lost) == (str(bad), reason, 1, lost)
    assert writer(tmp_path).failures == [failure]
    assert unwritable(str(bad)) != ""
    assert unwritable(str(good)) == ""


def test_a_log_whose_place_is_made_later_has_what_came_later(tmp_path: Path) -> None:
    log = tmp_path / "later" / "job.log"
    events = story(log)
    ours = writer(tmp_path)
    ours.write(events[:9])
    log.parent.mkdir()
    ours.write(events[9:])
    assert texts(events)[str(log)] == texts(events[:9])[str(log)] + log.read_text()
    assert ours.failures[0].lost == len(events_of(texts(events[:9])[str(log)]))


# The progress


def test_a_progress_that_is_none_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "progress").mkdir()
    (tmp_path / "progress" / PROGRESS).write_text("{\n")
    with pytest.raises(UserLogError, match=f"{PROGRESS}: not a valid checkpoint of user logs .* remove the file"):
        writer(tmp_path)


@pytest.mark.parametrize(("before", "later"), [("0123456789abcdef", "fedcba9876543210"), ("", "fedcba9876543210")])
def test_the_progress_of_another_log_is_not_continued(tmp_path: Path, before: str, later: str) -> None:
    """A pool was removed and begun again in the same place: its job logs are written from its first event."""

    def of_log(chosen: str, name: str) -> Story:
        founded = e.PoolFounded(0, "founded", "s", "localhost", "manual", "x", "0", {}, log=chosen)
        return [(1, founded), *((at + 1, event) for at, event in story(tmp_path / name))]

    resume(tmp_path, of_log(before, "old.log"))
    for _ in range(2):
        resume(tmp_path, of_log(later, "new.log"))
        assert {name: (tmp_path / name).read_text() for name in ("old.log", "new.log")} == {
            Path(path).name: text
            for name in ("old.log", "new.log")
            for path, text in texts(story(tmp_path / name)).items()
        }


def test_the_progress_of_a_log_that_was_cut_is_refused(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    writer(tmp_path).write(events)
    with pytest.raises(UserLogError, match="written up to event 18, but the pool's log ends at 7"):
        writer(tmp_path).start(events[:7])


def test_events_that_are_left_out_are_refused(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    ours = writer(tmp_path)
    ours.write(events[:3])
    with pytest.raises(UserLogError, match="event 6 cannot follow event 3"):
        ours.write(events[5:])


def test_a_writer_that_has_not_read_the_log_writes_nothing_again(tmp_path: Path) -> None:
    events = story(tmp_path / "job.log")
    writer(tmp_path).write(events)
    with pytest.raises(UserLogError, match="up to 18 have already been written; call `start` first"):
        writer(tmp_path).write(events)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "progress").touch()
    with pytest.raises(UserLogError, match="job event logs need a writable folder"):
        writer(tmp_path)


def test_what_writes_nothing_touches_nothing(tmp_path: Path) -> None:
    ours = writer(tmp_path)
    ours.write([(1, e.WriterBegan(0, "writer", "s", 1, "w"))])
    assert ours.position == 1
    assert os.listdir(tmp_path / "progress") == []


def test_the_progress_says_what_is_about_to_be_written_and_that_it_is(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    writer(tmp_path).write(story(log))
    assert [json.loads(line) for line in (tmp_path / "progress" / PROGRESS).read_text().splitlines()] == [
        {"position": 0, "until": 18, "sizes": {str(log): 0}, "failures": {}, "log": ""},
        {"position": 18, "until": 18, "sizes": {}, "failures": {}, "log": ""},
    ]


def test_a_line_of_the_progress_that_was_cut_off_never_counted(tmp_path: Path) -> None:
    log, progress = tmp_path / "job.log", tmp_path / "progress" / PROGRESS
    events = story(log)
    writer(tmp_path).write(events[:5])
    for announced in (True, False):  # cut off before the batch touched the log, or after it was written
        lines = progress.read_bytes()
        before = log.read_text()
        writer(tmp_path).start(events)
        first, second, *_ = progress.read_bytes()[len(lines) :].splitlines(keepends=True)
        whole = log.read_text()
        kept, cut = (lines, first) if announced else (lines + first, second)
        for length in range(0, len(cut), 7):
            progress.write_bytes(kept + cut[:length])
            log.write_text(before if announced else whole)
            writer(tmp_path).start(events)
            assert log.read_text() == whole == texts(events)[str(log)]
            assert writer(tmp_path)._progress.position == len(events)
        progress.write_bytes(lines)
        log.write_text(before)


def test_the_progress_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolbook.adapters.runtime.userlog.writer.GROWN", 1000)
    log = tmp_path / "job.log"
    events = story(log, clusters=30)
    ours = writer(tmp_path)
    for at in range(len(events)):
        ours.write(events[at : at + 1])
        assert (tmp_path / "progress" / PROGRESS).stat().st_size < 1500
    assert log.read_text() == texts(events)[str(log)]
    assert writer(tmp_path)._progress.position == len(events)
