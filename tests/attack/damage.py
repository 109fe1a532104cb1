"""Attacks: damage to a log's files."""

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
from .calls import Call, run_calls

READS = (["log"], ["verify"], ["q", "-allusers"], ["history"], ["audit"])
WRITES = (["hold", "-all"],)
MORE_READS = [
    command.split()
    for command in (
        "q -allusers -long", "q -allusers -nobatch", "q -hold -allusers", "q -json -allusers", "q -better-analyze 1.0",
        "q -allusers -totals", "status", "status -long", "status -claimed", "history -long", "history -json", "usage",
        "usage -by cluster", "userprio -all", "userprio -long", "audit -json", "why 1.0", "why 2.3 -verbose", "why 1",
        "why slot1@h", "why slot1_1@h", "log 1", "log slot1@h -json", "log pool", "log -evicted", "doctor",
        "verify -decisions", "verify -json", "submit job.sub -dry-run -", "views", "condor_who", "condor_q -allusers",
        "condor_userprio -allusers", "condor_history", "condor_status",
    )
]  # fmt: skip
MORE_WRITES = [
    command.split()
    for command in (
        "release -all", "rm 1", "rm -constraint ProcId==1", "prio -p 3 2.1", "qedit 1.7 Colour 5", "submit job.sub",
        "vacate 2", "suspend -all", "userprio -setfactor bob 5", "condor_hold 1.1", "drain h",
    )
]  # fmt: skip
COPIES = 12
PAGE = 4096


@cache
def _events() -> tuple[Event, ...]:
    return tuple(event for _, event in busy_pool().events)


def write_log(path: Path, *, waiting: bool) -> Path:
    """Write a log and return its folder. `waiting`: its last events are in the write-ahead log, as after a crash."""
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
    """Run reading commands and then a writing one on the original and on changed copies of it."""
    folder, commands = trial.folder, (*READS, *WRITES)
    calls = []
    for number in range(COPIES + 1):
        copy = trial.path / f"copy{number}"
        shutil.copytree(original, copy)
        if number:
            change(copy)
        calls += [[command[0], "-log", f"copy{number}/pool.db", *command[1:]] for command in commands]
    trial.tries = COPIES
    results = run_calls(folder, calls)
    return [tuple(results[first : first + len(commands)]) for first in range(0, len(results), len(commands))]


def check_detected_or_harmless(trial: Trial, original: Path, change: Callable[[Path], None]) -> None:
    """Check that `verify` detects a change, or that the change does not alter what `log` prints."""
    intact, *damaged = _copies(trial, original, change)
    assert [call.code for call in intact[:2]] == [0, 0], intact[:2]
    for log, verify, *_ in damaged:
        if verify.code == 0:
            assert log.out == intact[0].out, (log.arguments, verify.out)


@attack(
    "bytes-flipped",
    promise="A flipped bit in a log, its write-ahead log or its mark is detected, or has no effect.",
    fails="a log with other contents that `verify` calls sound, or a command that ends without a message",
)
def _bytes_flipped(trial: Trial) -> None:
    original = write_log(trial.path / "log", waiting=trial.rng.random() < 0.5)

    def flip(copy: Path) -> None:
        names = [name for name in ("pool.db", "pool.db-wal", "pool.db.head") if (copy / name).exists()]
        _flip(trial, copy / trial.rng.choice([name for name in names if (copy / name).stat().st_size]))

    check_detected_or_harmless(trial, original, flip)


def _flip(trial: Trial, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[trial.rng.randrange(len(content))] ^= trial.rng.choice([255, 1, 128, trial.rng.randint(1, 255)])
    path.write_bytes(content)


@attack(
    "files-cut",
    promise="A truncated log file is detected or read as it was, never as something else.",
    fails="a log with other contents that `verify` calls sound, or a command that ends without a message",
)
def _files_cut(trial: Trial) -> None:
    original = write_log(trial.path / "log", waiting=trial.rng.random() < 0.5)

    def cut(copy: Path) -> None:
        names = [name for name in ("pool.db", "pool.db-wal") if (copy / name).exists()]
        path = copy / trial.rng.choice(names)
        with path.open("r+b") as file:
            file.truncate(trial.rng.randrange(path.stat().st_size or 1))

    check_detected_or_harmless(trial, original, cut)


@attack(
    "events-deleted",
    promise="A log that lost its last events, or was replaced by an old copy, is detected by its mark and not written.",
    fails="`verify` calls it sound, or a command writes to it",
)
def _events_deleted(trial: Trial) -> None:
    original = write_log(trial.path / "log", waiting=False)

    def delete(copy: Path) -> None:
        count = trial.rng.randint(1, 40)
        if trial.rng.random() < 0.5:
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

    _, *damaged = _copies(trial, original, delete)
    for _, verify, *_, hold in damaged:
        assert verify.code == 1, verify
        assert hold.code == 1 and "held" not in hold.out, hold


@attack(
    "views-flipped",
    promise="Damaged views end no command without a message, and `poolbook views` rebuilds them.",
    fails="a command that ends without a message, or a different queue after `poolbook views`",
)
def _views_flipped(trial: Trial) -> None:
    folder = Folder(write_log(trial.path / "log", waiting=False))
    columns = ["-af", "ClusterId", "ProcId", "JobStatus", "Cmd", "ExitCode", "LastRemoteHost"]
    reads = [["q", "-allusers", *columns], ["history", *columns], ["status", "-af", "Name", "State"]]
    before = [call.out for call in run_calls(folder, reads)]
    assert all(before)
    trial.tries = COPIES
    views = folder.path / "pool.db.views"
    intact = views.read_bytes()
    for _ in range(trial.tries):
        views.write_bytes(intact)
        _flip(trial, views)
        rebuild, *after = run_calls(folder, [*reads, ["views"], *reads])[len(reads) :]
        assert rebuild.code == 0, rebuild
        assert [call.out for call in after] == before


def _change_letter(rng: random.Random, text: str) -> str:
    """Return the text with one letter or digit replaced, which usually keeps it well-formed."""
    positions = [match.start() for match in re.finditer(r"[A-Za-z0-9]", text)]
    if not positions:
        return text + "x"
    position = rng.choice(positions)
    others = "0123456789" if text[position].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    replacement = rng.choice(others.replace(text[position].lower(), ""))
    return text[:position] + replacement + text[position + 1 :]


def mangle(rng: random.Random, content: bytes) -> bytes:
    """Return the content of a file with bytes or pages inserted, deleted, truncated, swapped or overwritten."""
    data = bytearray(content)
    at, size = rng.randrange(len(data)), rng.choice([1, 1, 2, 8, rng.randint(1, PAGE)])
    pages = max(1, len(data) // PAGE)
    first, second = (PAGE * rng.randrange(pages) for _ in "12")
    match rng.randrange(8):
        case 0:
            data[at] ^= rng.choice([255, 1, 128, rng.randint(1, 255)])
        case 1:
            for _ in range(rng.randint(2, 40)):
                data[rng.randrange(len(data))] ^= rng.randint(1, 255)
        case 2:
            data[at:at] = rng.choice([rng.randbytes(size), bytes(size)])
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
            data[first : first + PAGE] = rng.choice([bytes(PAGE), rng.randbytes(PAGE), b"\xff" * PAGE])
        case _:
            data[at : at + size] = data[first : first + size]
    return bytes(data)


def alter_cell(rng: random.Random, db: sqlite3.Connection) -> tuple[str, object, object]:
    """Change one cell of a database, often to a well-formed value; return its column and both values."""
    tables = [
        name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'") if name[:7] != "sqlite_"
    ]
    while True:
        table = rng.choice(tables)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info('{table}')")]
        rows = db.execute(f'SELECT rowid, * FROM "{table}"').fetchall()
        if not rows:
            continue
        number = rng.randrange(len(columns))
        row, column = rng.choice(rows), columns[number]
        old, other = row[number + 1], rng.choice(rows)[number + 1]
        new: object
        if rng.random() < 0.25:
            new = rng.choice([None, "", 0, -1, 2**62, 1.5, b"\xff\x00", "\x00", other])
        elif isinstance(old, str | bytes):
            text = _change_letter(rng, old.decode("utf-8", "surrogateescape") if isinstance(old, bytes) else old)
            new = text.encode("utf-8", "surrogateescape") if isinstance(old, bytes) else text
        else:
            new = rng.choice([other, (old or 0) + rng.choice([1, -1, 10])])
        if new == old and type(new) is type(old):
            continue
        try:
            with db:
                db.execute(f'UPDATE "{table}" SET "{column}"=? WHERE rowid=?', (new, row[0]))
        except sqlite3.IntegrityError:
            continue
        return f"{table}.{column}", old, new


def _random_commands(rng: random.Random) -> list[list[str]]:
    """Return commands to try on a damaged log: some that read, then some that write."""
    return [*rng.sample([*READS, *MORE_READS], 4), *rng.sample([*WRITES, *MORE_WRITES], 2)]


def run_on_changed_copies(
    trial: Trial, original: Path, change: Callable[[Path], object], copies: int
) -> list[tuple[object, Call, Call]]:
    """Change copies of a log, run random commands on each, and check that they end with a message.

    Return for each copy the change, and the results of `verify` and `log` right after it.
    """
    calls: list[list[str]] = []
    changes = []
    for number in range(copies):
        copy = trial.path / f"copy{number}"
        shutil.copytree(original, copy)
        changes.append(change(copy))
        for command in [["verify"], ["log"], *_random_commands(trial.rng)]:
            log = [] if command[0] == "condor_who" else ["-log", f"copy{number}/pool.db"]
            calls.append([command[0], *log, *command[1:]])
    (trial.path / "job.sub").write_text("executable = /bin/true\nqueue 2\n")
    results = run_calls(trial.folder, calls)
    per_copy = len(calls) // copies
    for number in range(copies):
        shutil.rmtree(trial.path / f"copy{number}")
    trial.tries = copies
    return [(made, results[i * per_copy], results[i * per_copy + 1]) for i, made in enumerate(changes)]


def write_log_with_views(path: Path, *, waiting: bool) -> Path:
    """Write a log with views and with the leases of earlier writers, and return its folder."""
    path = write_log(path, waiting=waiting)
    run_calls(Folder(path), [["q", "-allusers"]])
    return path


@attack(
    "files-mangled",
    promise="If bytes of a log's files are inserted, deleted, swapped or overwritten, commands end with a message.",
    fails="a command that ends without a message, or a log with other contents that `verify` calls sound",
)
def _files_mangled(trial: Trial) -> None:
    mangle_files(trial, COPIES)


def mangle_files(trial: Trial, copies: int) -> None:
    original = write_log_with_views(trial.path / "log", waiting=trial.rng.random() < 0.5)
    log_output = run_calls(trial.folder, [["log", "-log", f"{original.relative_to(trial.path)}/pool.db"]])[0].out

    def change(copy: Path) -> str:
        names = ["pool.db", "pool.db-wal", "pool.db.head", "pool.db.views"]
        name = trial.rng.choice([name for name in names if (copy / name).exists() and (copy / name).stat().st_size])
        (copy / name).write_bytes(mangle(trial.rng, (copy / name).read_bytes()))
        return name

    for name, verify, log in run_on_changed_copies(trial, original, change, copies):
        assert verify.code != 0 or log.out == log_output, (name, verify, log.err)


@attack(
    "cells-altered",
    promise="A changed but valid value in a log's tables is detected; commands end with a message.",
    fails="`verify` calls the log sound, or a command ends without a message",
)
def _cells_altered(trial: Trial) -> None:
    alter_cells(trial, COPIES)


def alter_cells(trial: Trial, copies: int) -> None:
    original = write_log_with_views(trial.path / "log", waiting=False)

    def change(copy: Path) -> object:
        with closing(sqlite3.connect(copy / "pool.db")) as db:
            return alter_cell(trial.rng, db)

    for cell, verify, _ in run_on_changed_copies(trial, original, change, copies):
        assert verify.code == 1, (cell, verify)


@attack(
    "views-altered",
    promise="A changed value in the views ends no command without a message, and the log stays sound.",
    fails="a command that ends without a message",
)
def _views_altered(trial: Trial) -> None:
    alter_views(trial, COPIES)


def alter_views(trial: Trial, copies: int) -> None:
    original = write_log_with_views(trial.path / "log", waiting=False)

    def change(copy: Path) -> list[object]:
        with closing(sqlite3.connect(copy / "pool.db.views")) as db:
            return [alter_cell(trial.rng, db) for _ in range(trial.rng.choice([1, 1, 1, 5, 40]))]

    for cell, verify, _ in run_on_changed_copies(trial, original, change, copies):
        assert verify.code == 0, (cell, verify)
