"""Logs of real work, for future releases, by name: written by a command or by a pool in virtual time. They are chosen
to have much in few bytes: both dialects, many rows, causes and flags of claims."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from shutil import copy

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import WriterBegan
from poolbook.domain.ports.log import EventStore

from ..play.test_transcripts import scenario_of
from ..pool.real import Folder
from ..projections.pools import busy_pool
from ..replay.contested_pool import contested_pool

ROOT = Path(__file__).resolve().parent.parent.parent
Story = Callable[[Path], None]
"""A function that writes a log into a new file, in a separate folder."""

PLAYED = {
    "manual": "better_match drain_of_one_slot hold_if_memory outside reconfigured shutdown",
    "htcondor-25": "drain_of_static_slots leases retirement taken_back",
}
"""Dialect -> scenarios of tests/play/transcripts."""
IMPORTED = {"import-daemons": ("runs/alike", "*.gz"), "import-accounting": ("cycles/weights", "[AE]*.gz")}
"""Name -> a folder of tests/data with the records of a real pool, and the files that are used."""


def _play(text: str, dialect: str) -> Story:
    def story(path: Path) -> None:
        folder = Folder(path.parent)
        folder.call("play", folder.write("story.play", text), "-dialect", dialect, "-quiet", "-log", path.name)

    return story


def _import(records: str, files: str) -> Story:
    def story(path: Path) -> None:
        folder = path.parent / "records"
        folder.mkdir()
        for file in sorted((ROOT / "tests/data" / records).glob(files)):
            copy(file, folder)
        Folder(path.parent).call("import", folder.name, "-zone", "UTC", "-log", path.name)

    return story


ENDS = """\
executable = /bin/sh
request_memory = 16
request_disk = 1 MB
log = ends.log
arguments = "-c 'sleep 0.3; exit 0'"
queue 2
arguments = "-c 'exit 3'"
queue
arguments = "-c 'kill -9 $$'"
queue
max_retries = 1
arguments = "-c 'exit 5'"
queue
max_retries =
periodic_remove = JobStatus == 5
on_exit_hold = ExitCode == 7
arguments = "-c 'exit 7'"
queue
"""
WAITS = """\
executable = /bin/sleep
arguments = 10
request_memory = 16
hold = true
queue 3
"""


def _run(path: Path) -> None:
    folder, log = Folder(path.parent), ("-log", path.name)
    folder.call("run", folder.write("ends.sub", ENDS), "-cpus", "2", "-quiet", *log, code=None)
    folder.call("submit", folder.write("waits.sub", WAITS), *log)
    for arguments in (("release", "2.1"), ("rm", "2.2"), ("prio", "-p", "5", "2.0")):
        folder.call(*arguments, *log)


def _of_events(make: Callable[[], EventStore]) -> Story:
    """Return a story that copies the log of a pool in virtual time into the file."""

    def story(path: Path) -> None:
        log = open_log(str(path), create=True)
        for begins, events in groupby((event for _, event in make().read()), lambda one: isinstance(one, WriterBegan)):
            for event in events if begins else ():
                assert isinstance(event, WriterBegan)
                log.raise_epoch(event.writer, event.at, event.stimulus)
            log.append(list(events))
        log.close()

    return story


STORIES: dict[str, Story] = {
    "play-desktop": _play((ROOT / "docs/examples/desktop.play").read_text(encoding="utf-8"), "manual"),
    **{
        f"play-{name.replace('_', '-')}": _play(scenario_of(name)[0], dialect)
        for dialect, names in PLAYED.items()
        for name in names.split()
    },
    "negotiation": _of_events(lambda: contested_pool("manual").log),
    "queue": _of_events(lambda: busy_pool("htcondor-25").log),
    "run": _run,
    **{name: _import(*records) for name, records in IMPORTED.items()},
}
