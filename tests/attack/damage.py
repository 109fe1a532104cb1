"""A log's files, changed behind its back."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event

from ..pool.real import Folder
from ..projections.pools import busy_pool
from .attacks import Trial, attack
from .calls import Call, called

READS = (["log"], ["verify"], ["q", "-allusers"], ["history"], ["audit"])
WRITES = (["hold", "-all"],)
MORE_READS = [
    words.split()
    for words in (
        "q -allusers -long", "q -allusers -nobatch", "q -hold -allusers", "q -json -allusers", "q -better-analyze 1.0",
        "q -allusers -totals", "status", "status -long", "status -claimed", "history -long", "history -json", "usage",
        "usage -by cluster", "userprio -all", "userprio -long", "audit -json", "why 1.0", "why 2.3 -verbose", "why 1",
        "why slot1@h", "why slot1_1@h", "log 1", "log slot1@h -json", "log pool", "log -evicted", "doctor",
        "verify -decisions", "verify -json", "submit job.sub -dry-run -", "views", "condor_who", "condor_q -allusers",
        "condor_userprio -allusers", "condor_history", "condor_status",
    )
]  # fmt: skip
MORE_WRITES = [
    words.split()
    for words in (
        "release -all", "rm 1", "rm -constraint ProcId==1", "prio -p 3 2.1", "qedit 1.7 Colour 5", "submit job.sub",
        "vacate 2", "suspend -all", "userprio -setfactor bob 5", "condor_hold 1.1", "drain h",
    )
]  # fmt: skip
COPIES = 12
PAGE = 4096


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
    promise="A flipped bit in a log, its write-ahead log or its mark is detected, or has no effect.",
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
    promise="A truncated log file is detected or read as it was, never as something else.",
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
    promise="A log that lost its last events, or was replaced by an old copy, is detected by its mark and not written.",
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
    promise="Damaged views end no command without a message, and `poolbook views` rebuilds them.",
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


def _letter(chance: random.Random, text: str) -> str:
    """The text with one letter or digit of it changed into another: it stays as well formed as it was."""
    places = [match.start() for match in re.finditer(r"[A-Za-z0-9]", text)]
    if not places:
        return text + "x"
    at = chance.choice(places)
    others = "0123456789" if text[at].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    return text[:at] + chance.choice(others.replace(text[at].lower(), "")) + text[at + 1 :]


def mangle(chance: random.Random, content: bytes) -> bytes:
    """The content of a file with bytes or pages of it inserted, deleted, cut off, moved or overwritten."""
    data = bytearray(content)
    at, size = chance.randrange(len(data)), chance.choice([1, 1, 2, 8, chance.randint(1, PAGE)])
    pages = max(1, len(data) // PAGE)
    first, second = (PAGE * chance.randrange(pages) for _ in "12")
    match chance.randrange(8):
        case 0:
            data[at] ^= chance.choice([255, 1, 128, chance.randint(1, 255)])
        case 1:
            for _ in range(chance.randint(2, 40)):
                data[chance.randrange(len(data))] ^= chance.randint(1, 255)
        case 2:
            data[at:at] = chance.choice([chance.randbytes(size), bytes(size)])
        case 3:
            del data[at : at + size]
        case 4:
            del data[at:]
        case 5:
            data[first : first + PAGE], data[second : second + PAGE] = (
                data[second : second + PAGE],
                data[first : first + PAGE],
            )
        case 6:
            data[first : first + PAGE] = chance.choice([bytes(PAGE), chance.randbytes(PAGE), b"\xff" * PAGE])
        case _:
            data[at : at + size] = data[first : first + size]
    return bytes(data)


def alter_cell(chance: random.Random, db: sqlite3.Connection) -> tuple[str, object, object]:
    """Change one cell of a database, often into a value that is as well formed; return its column, and both values."""
    tables = [
        name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'") if name[:7] != "sqlite_"
    ]
    while True:
        table = chance.choice(tables)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info('{table}')")]
        rows = db.execute(f'SELECT rowid, * FROM "{table}"').fetchall()
        if not rows:
            continue
        number = chance.randrange(len(columns))
        row, column = chance.choice(rows), columns[number]
        old, other = row[number + 1], chance.choice(rows)[number + 1]
        new: object
        if chance.random() < 0.25:
            new = chance.choice([None, "", 0, -1, 2**62, 1.5, b"\xff\x00", "\x00", other])
        elif isinstance(old, str | bytes):
            text = _letter(chance, old.decode("utf-8", "surrogateescape") if isinstance(old, bytes) else old)
            new = text.encode("utf-8", "surrogateescape") if isinstance(old, bytes) else text
        else:
            new = chance.choice([other, (old or 0) + chance.choice([1, -1, 10])])
        if new == old and type(new) is type(old):
            continue
        try:
            with db:
                db.execute(f'UPDATE "{table}" SET "{column}"=? WHERE rowid=?', (new, row[0]))
        except sqlite3.IntegrityError:
            continue
        return f"{table}.{column}", old, new


def _some(chance: random.Random) -> list[list[str]]:
    """The commands that are tried on one damaged log: some that read, then some that write."""
    return [*chance.sample([*READS, *MORE_READS], 4), *chance.sample([*WRITES, *MORE_WRITES], 2)]


def survived(
    trial: Trial, original: Path, change: Callable[[Path], object], copies: int
) -> list[tuple[object, Call, Call]]:
    """Change so many copies, and run some commands on each: they end in words. Return of each what the change returned,
    and what `verify` and `log` said right after it."""
    calls: list[list[str]] = []
    changes = []
    for number in range(copies):
        copy = trial.path / f"copy{number}"
        shutil.copytree(original, copy)
        changes.append(change(copy))
        for words in [["verify"], ["log"], *_some(trial.chance)]:
            calls.append(
                [words[0], *([] if words[0] == "condor_who" else ["-log", f"copy{number}/pool.db"]), *words[1:]]
            )
    (trial.path / "job.sub").write_text("executable = /bin/true\nqueue 2\n")
    answers = called(trial.folder, calls)
    each = len(calls) // copies
    for number in range(copies):
        shutil.rmtree(trial.path / f"copy{number}")
    trial.tries = copies
    return [(made, answers[at * each], answers[at * each + 1]) for at, made in enumerate(changes)]


def with_views(path: Path, *, waiting: bool) -> Path:
    """A log of this kind in this folder, with its views and with leases of writers before."""
    path = _log(path, waiting=waiting)
    called(Folder(path), [["q", "-allusers"]])
    return path


@attack(
    "files-mangled",
    promise="If bytes of a log's files are inserted, deleted, swapped or overwritten, commands end with a message.",
    fails="a command that ends in no words, or a log that says something else and is called sound",
)
def _files_mangled(trial: Trial) -> None:
    mangled(trial, COPIES)


def mangled(trial: Trial, copies: int) -> None:
    original = with_views(trial.path / "log", waiting=trial.chance.random() < 0.5)
    whole = called(trial.folder, [["log", "-log", f"{original.relative_to(trial.path)}/pool.db"]])[0].out

    def change(copy: Path) -> str:
        names = ["pool.db", "pool.db-wal", "pool.db.head", "pool.db.views"]
        name = trial.chance.choice([name for name in names if (copy / name).exists() and (copy / name).stat().st_size])
        (copy / name).write_bytes(mangle(trial.chance, (copy / name).read_bytes()))
        return name

    for name, verify, log in survived(trial, original, change, copies):
        assert verify.code != 0 or log.out == whole, (name, verify, log.err)


@attack(
    "cells-altered",
    promise="A changed but valid value in a log's tables is detected; commands end with a message.",
    fails="`verify` that calls the log sound, or a command that ends in no words",
)
def _cells_altered(trial: Trial) -> None:
    altered(trial, COPIES)


def altered(trial: Trial, copies: int) -> None:
    original = with_views(trial.path / "log", waiting=False)

    def change(copy: Path) -> object:
        with closing(sqlite3.connect(copy / "pool.db")) as db:
            return alter_cell(trial.chance, db)

    for cell, verify, _ in survived(trial, original, change, copies):
        assert verify.code == 1, (cell, verify)


@attack(
    "views-altered",
    promise="A changed value in the views ends no command without a message, and the log stays sound.",
    fails="a command that ends in no words",
)
def _views_altered(trial: Trial) -> None:
    views_altered(trial, COPIES)


def views_altered(trial: Trial, copies: int) -> None:
    original = with_views(trial.path / "log", waiting=False)

    def change(copy: Path) -> list[object]:
        with closing(sqlite3.connect(copy / "pool.db.views")) as db:
            return [alter_cell(trial.chance, db) for _ in range(trial.chance.choice([1, 1, 1, 5, 40]))]

    for cell, verify, _ in survived(trial, original, change, copies):
        assert verify.code == 0, (cell, verify)
