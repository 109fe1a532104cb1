"""Read the files of a golden trace besides its StartLog.

 * ``timeline.txt``: each command with its time, as noted by the person or script at the pool. It gives the owner's
sensor readings ("owner file now"), and the order of snapshots and reconfigurations. Its times may have fractions.
 * ``scenario.conf``: the configuration, merged over ``BASE``. Other ``*.conf`` files are later configurations.
 * ``machine-ads-N.txt``: the output of condor_status -long at the N-th snapshot.
 * Job ads, from the histories, condor_q -long and job_queue.log. A job's final ad serves for its whole life.

 Each file may be gzipped, and any but the StartLog may be missing.
"""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from attrs import frozen

from poolbook.adapters.condor_files.ads import AdsReader
from poolbook.adapters.condor_files.daemon_table_reader import TableReader
from poolbook.adapters.condor_files.source_reader import SourceFile
from poolbook.domain.events import Ad, AdsKept, TableWritten
from poolbook.domain.imported.packed_ads import unpack
from poolbook.domain.imported.record_sources import SET_ATTRIBUTE

SECOND: Final = 1_000_000
SCENARIO: Final = "scenario.conf"
QUEUE: Final = "job_queue.log"
BASE: Final = """\
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
UPDATE_INTERVAL = 5
POLLING_INTERVAL = 1
RUNBENCHMARKS = 0
"""
"""The recorded pools' configuration before the scenario's own. The last line is the default of a one-machine pool."""

JOB_ADS: Final = ("history.ads", "history", "q-*.ads", QUEUE, "epoch_history", "startd_history")
"""The files with job ads, the most detailed first."""

_ENTRY: Final = re.compile(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))? (.*)")
_TOLD: Final = re.compile(r"owner file now: (.*)")
_PAIR: Final = re.compile(r"(\w+) = (.*?)(?= \w+ = |$)")
_SNAPSHOT: Final = re.compile(r"snapshot (\d+)")
_RECONFIGURED: Final = re.compile(r"\S*\$ condor_reconfig(?: -startd| -all)?\s*$")
_STATIC: Final = frozenset({'"static"', '"partitionable"'})


@frozen
class TimelineEntry:
    """A dated line of the timeline."""

    at: int
    words: str


@frozen
class AdSnapshot:
    """The ads of a machine's static and partitionable slots at an instant, after so many ``reconfigurations``."""

    at: int
    ads: tuple[Ad, ...]
    reconfigurations: int


class TraceFiles:
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data(self, name: str) -> bytes | None:
        """Return a file's bytes, unpacked, or None if the folder has no such file."""
        unpacked, gzipped = self.folder / name, self.folder / f"{name}.gz"
        if unpacked.is_file():
            return unpacked.read_bytes()
        return gzip.decompress(gzipped.read_bytes()) if gzipped.is_file() else None

    def names(self, pattern: str) -> list[str]:
        """Return the sorted names of the files that match a pattern, without ``.gz``."""
        names = {path.name.removesuffix(".gz") for end in ("", ".gz") for path in self.folder.glob(pattern + end)}
        return sorted(names)

    def text(self, name: str) -> str:
        return (self.data(name) or b"").decode("utf-8", "replace")

    @cached_property
    def timeline(self) -> list[TimelineEntry]:
        """The timeline's dated lines, in order, without the commands' further output."""
        entries = []
        for line in self.text("timeline.txt").splitlines():
            if match := _ENTRY.match(line):
                at = datetime.strptime(match[1], "%m/%d/%y %H:%M:%S").replace(tzinfo=UTC)
                microseconds = int((match[2] or "").ljust(6, "0"))
                entries.append(TimelineEntry(int(at.timestamp()) * SECOND + microseconds, match[3]))
        return entries

    @cached_property
    def owner_told(self) -> list[tuple[int, Ad]]:
        """The instants at which the owner's sensor got new readings, with the readings."""
        readings = ((entry.at, _TOLD.match(entry.words)) for entry in self.timeline)
        return [(at, dict(_PAIR.findall(match[1]))) for at, match in readings if match]

    @cached_property
    def reconfigured(self) -> list[int]:
        """The instants of the timeline's reconfigurations."""
        return [entry.at for entry in self.timeline if _RECONFIGURED.match(entry.words)]

    @cached_property
    def configurations(self) -> list[str]:
        """The texts over ``BASE``: the first, then one for each reconfiguration if the folder has them all."""
        first = self.text(SCENARIO)
        later = [name for name in self.names("*.conf") if name != SCENARIO]
        if len(later) != len(self.reconfigured):
            return [first]
        return [first, *(f"{first}\n{self.text(name)}" for name in later)]

    @cached_property
    def snapshots(self) -> list[AdSnapshot]:
        """The timeline's snapshots whose machine ads the folder has."""
        snapshots, reconfigurations = [], 0
        for entry in self.timeline:
            if _RECONFIGURED.match(entry.words):
                reconfigurations += 1
            elif number := _SNAPSHOT.fullmatch(entry.words):
                name = f"machine-ads-{number[1]}.txt"
                ads = [ad for ad in self.ads(name) if ad.get("SlotType", "").lower() in _STATIC]
                if ads:
                    at = int(ads[0].get("MyCurrentTime", "0")) * SECOND
                    snapshots.append(AdSnapshot(at, tuple(ads), reconfigurations))
        return snapshots

    def ads(self, name: str) -> Iterator[Ad]:
        """Yield the ads of a file, as attribute -> expression text."""
        data = self.data(name)
        if not data:
            return
        events, _ = AdsReader(source(name, "job_ads"), None, 0).read(ended(data))
        for event in events:
            if isinstance(event, AdsKept):
                for ad in unpack(event):
                    yield dict(line.split(" = ", 1) for line in ad.text.split("\n") if " = " in line)

    def _queue(self) -> Iterator[Ad]:
        """Yield the ads of all jobs in job_queue.log, each merged over its cluster's. A job that left the queue keeps
        its last ad."""
        events, _ = TableReader(source(QUEUE, "queue"), None, 0).read(ended(self.data(QUEUE) or b""))
        ads: dict[str, Ad] = defaultdict(dict)
        for event in events:
            for operation, key, name, text in event.operations if isinstance(event, TableWritten) else ():
                if operation == SET_ATTRIBUTE:
                    ads[key][name] = text
        for key, ad in ads.items():
            cluster, _, proc = key.partition(".")
            if proc.isdecimal() and cluster != "0":
                yield {"ProcId": proc} | ads.get(f"0{cluster}.-1", {}) | ad

    @cached_property
    def jobs(self) -> Mapping[str, Ad]:
        """The job ads by their ids, "12.0"."""
        jobs: dict[str, Ad] = {}
        for pattern in JOB_ADS:
            for name in self.names(pattern):
                for ad in self._queue() if name == QUEUE else self.ads(name):
                    if "ClusterId" in ad and "ProcId" in ad and "Owner" in ad:
                        jobs.setdefault(f"{ad['ClusterId']}.{ad['ProcId']}", ad)
        return jobs


def number(ads: tuple[Ad, ...], name: str) -> float | None:
    """Return the smallest number that an ad has for an attribute, or None."""
    values = []
    for ad in ads:
        with suppress(ValueError):
            values.append(float(ad.get(name, "")))
    return min(values, default=None)


def source(name: str, kind: str, machine: str = "", modified: float = 0.0) -> SourceFile:
    """Return a file in the form that the readers of HTCondor files take: its times are in UTC."""
    return SourceFile(1, name, kind, machine, UTC, modified, 1 << 62)


def ended(data: bytes) -> bytes:
    """Return the data with a newline at its end, which the readers require."""
    return data if data.endswith(b"\n") else data + b"\n"
