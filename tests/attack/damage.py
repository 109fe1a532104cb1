"""A log's files, changed behind its back."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from poolbook.adapters.stores import open_log
from poolbook.domain.events import Event

from ..pool.real import Folder
from ..projections.pools import busy_pool
from .attacks import Trial, attack
from .calls import Call, called

READS = (["log"], ["verify"], ["q", "-allusers"], ["history"], ["audit"])
WRITES = (["hold", "-all"],)
COPIES = 12


@cache
def _events() -> tuple[Event, ...]:
    return tuple(event for _, event in busy_pool().events)


def _log(path: Path, *, waiting: bool) -> Path:
    """A log in this folder. `waiting`: its last events are in the write-ahead log, as a crash leaves them."""
    path.mkdir()
    events = _events()
    with closing(open_log(str(path / "pool.db"), create=True)) as log:
        log.append(events[:150])
    log = open_log(str(path / "pool.db"), create=False)
    log.append(events[150:])
    if waiting:
        crashed = path.parent / "crashed"
        shutil.copytree(path, crashed)
        (crashed / "pool.db-shm").unlink(missing_ok=True)
        path = crashed
    log.close()
    return path


def _copies(trial: Trial, original: Path, change: Callable[[Path], None]) -> list[tuple[Call, ...]]:
    """What the reading commands, and then one that writes, say of copies that were changed; the original's first."""
    folder, calls = trial.folder, (*READS, *WRITES)
    said = []
    for number in range(COPIES + 1):
        copy = trial.path / f"copy{number}"
        shutil.copytree(original, copy)
        if number:
            change(copy)
        said += [[words[0], "-log", f"copy{number}/pool.db", *words[1:]] for words in calls]
    trial.tries = COPIES
    answers = called(folder, said)
    return [tuple(answers[at : at + len(calls)]) for at in range(0, len(answers), len(calls))]


def _found_or_harmless(trial: Trial, original: Path, change: Callable[[Path], None]) -> None:
    """Whatever was changed is found, or nothing that the log says is different by it."""
    whole, *changed = _copies(trial, original, change)
    assert [call.code for call in whole[:2]] == [0, 0], whole[:2]
    for answers in changed:
        if answers[1].code == 0:
            assert answers[0].out == whole[0].out, (answers[0].words, answers[1].out)


@attack(
    "bytes-flipped",
    promise="A bit that is flipped anywhere in a log, its write-ahead log or its mark is found, or changes nothing.",
    fails="a log that says something else and is called sound, or a command that ends in no words",
)
def _bytes_flipped(trial: Trial) -> None:
    original = _log(trial.path / "log", waiting=trial.chance.random() < 0.5)

    def flip(copy: Path) -> None:
        names = [name for name in ("pool.db", "pool.db-wal", "pool.db.head") if (copy / name).exists()]
        _flip(trial, copy / trial.chance.choice([name for name in names if (copy / name).stat().st_size]))

    _found_or_harmless(trial, original, flip)


def _flip(trial: Trial, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[trial.chance.randrange(len(content))] ^= trial.chance.choice([255, 1, 128, trial.chance.randint(1, 255)])
    path.write_bytes(content)


@attack(
    "files-cut",
    promise="A log's file that was cut short is found, or read as it was, never as something else.",
    fails="a log that says something else and is called sound, or a command that ends in no words",
)
def _files_cut(trial: Trial) -> None:
    original = _log(trial.path / "log", waiting=trial.chance.random() < 0.5)

    def cut(copy: Path) -> None:
        names = [name for name in ("pool.db", "pool.db-wal") if (copy / name).exists()]
        path = copy / trial.chance.choice(names)
        with path.open("r+b") as file:
            file.truncate(trial.chance.randrange(path.stat().st_size or 1))

    _found_or_harmless(trial, original, cut)


@attack(
    "events-deleted",
    promise="A log that lost its last events, or that an older copy replaced, is found by its mark, and not written.",
    fails="`verify` that calls it sound, or a command that writes to it",
)
def _events_deleted(trial: Trial) -> None:
    original = _log(trial.path / "log", waiting=False)

    def delete(copy: Path) -> None:
        count = trial.chance.randint(1, 40)
        if trial.chance.random() < 0.5:
            with closing(sqlite3.connect(copy / "pool.db")) as db, db:
                db.execute(
                    "DELETE FROM stored_events WHERE rowid IN "
                    "(SELECT rowid FROM stored_events ORDER BY rowid DESC LIMIT ?)",
                    (count,),
                )
            return
        for name in ("pool.db", "pool.db-wal", "pool.db-shm"):
            (copy / name).unlink(missing_ok=True)
        with closing(open_log(str(copy / "older.db"), create=True)) as older:
            older.append(_events()[:-count])
        (copy / "older.db").rename(copy / "pool.db")

    _, *changed = _copies(trial, original, delete)
    for answers in changed:
        assert answers[1].code == 1, answers[1]
        assert answers[-1].code == 1 and "held" not in answers[-1].out, answers[-1]


@attack(
    "views-flipped",
    promise="Damaged views end no command without words, and `poolbook views` makes them anew.",
    fails="a command that ends in no words, or a queue that is another one after `poolbook views`",
)
def _views_flipped(trial: Trial) -> None:
    folder = Folder(_log(trial.path / "log", waiting=False))
    shown = ["-af", "ClusterId", "ProcId", "JobStatus", "Cmd", "ExitCode", "LastRemoteHost"]
    reads = [["q", "-allusers", *shown], ["history", *shown], ["status", "-af", "Name", "State"]]
    before = [call.out for call in called(folder, reads)]
    assert all(before)
    trial.tries = COPIES
    views = folder.path / "pool.db.views"
    whole = views.read_bytes()
    for _ in range(trial.tries):
        views.write_bytes(whole)
        _flip(trial, views)
        made, *after = called(folder, [*reads, ["views"], *reads])[len(reads) :]
        assert made.code == 0, made
        assert [call.out for call in after] == before
