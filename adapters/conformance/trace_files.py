"""A folder that holds what a real pool left behind: the files that a golden trace needs besides its StartLog.

* ``timeline.txt``: each command with its time, as the person (or the script) at the pool noted it. Read of it: when the
  owner's sensor was given what to say ("owner file now"), and the order of snapshots and reconfigurations.
* ``scenario.conf``: the configuration, laid over ``BASE``. Other ``*.conf`` files are later configurations.
* ``machine-ads-N.txt``: what condor_status -long said at the N-th snapshot.
* the job ads: what the histories and condor_q -long said. A job's ad at its end serves for its whole life.

Each file may be gzipped, and any but the StartLog may be missing.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from attrs import frozen

from ...domain.events import Ad, AdsKept
from ...domain.imported.packed_ads import unpack
from ..condor_files.ads import AdsReader
from ..condor_files.reader import SourceFile

SECOND: Final = 1_000_000
SCENARIO: Final = "scenario.conf"
BASE: Final = """\
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
UPDATE_INTERVAL = 5
POLLING_INTERVAL = 1
RUNBENCHMARKS = 0
"""
"""What the recorded pools were configured with before their scenario's own file: the last line is the distribution's
own for a pool of one machine."""

JOB_ADS: Final = ("history.ads", "q-*.ads", "epoch_history", "startd_history")
"""The files with jobs' ads, those first that tell most of a job."""

_ENTRY: Final = re.compile(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) (.*)")
_TOLD: Final = re.compile(r"owner file now: (.*)")
_PAIR: Final = re.compile(r"(\w+) = (.*?)(?= \w+ = |$)")
_SNAPSHOT: Final = re.compile(r"snapshot (\d+)")
_RECONFIGURED: Final = re.compile(r"\S*\$ condor_reconfig(?: -startd| -all)?\s*$")
_STATIC: Final = frozenset({'"static"', '"partitionable"'})


@frozen
class TimelineEntry:
    """What the timeline says of an instant."""

    at: int
    words: str


@frozen
class AdSnapshot:
    """The ads of a machine's slots, static and partitionable, at an instant; ``reconfigurations``: how many of them the
    timeline tells before it."""

    at: int
    ads: tuple[Ad, ...]
    reconfigurations: int


class TraceFiles:
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data(self, name: str) -> bytes | None:
        """A file's bytes, unpacked; None if there is none of that name."""
        for path, opened in ((self.folder / name, Path.read_bytes), (self.folder / f"{name}.gz", _unzipped)):
            if path.is_file():
                return opened(path)
        return None

    def names(self, pattern: str) -> list[str]:
        """The names of the files that a pattern accepts, without ``.gz``, in their order."""
        found = {path.name.removesuffix(".gz") for end in ("", ".gz") for path in self.folder.glob(pattern + end)}
        return sorted(found)

    def text(self, name: str) -> str:
        return (self.data(name) or b"").decode("utf-8", "replace")

    @cached_property
    def timeline(self) -> list[TimelineEntry]:
        """What the timeline says, in its order; the rest of what a command printed is left out."""
        entries = []
        for line in self.text("timeline.txt").splitlines():
            if found := _ENTRY.match(line):
                at = datetime.strptime(found[1], "%m/%d/%y %H:%M:%S").replace(tzinfo=UTC)
                entries.append(TimelineEntry(int(at.timestamp()) * SECOND, found[2]))
        return entries

    @cached_property
    def owner_told(self) -> list[tuple[int, Ad]]:
        """When the owner's sensor was given what to publish, and what."""
        told = ((entry.at, _TOLD.match(entry.words)) for entry in self.timeline)
        return [(at, dict(_PAIR.findall(found[1]))) for at, found in told if found]

    @cached_property
    def reconfigured(self) -> list[int]:
        """When the timeline tells of reconfigurations."""
        return [entry.at for entry in self.timeline if _RECONFIGURED.match(entry.words)]

    @cached_property
    def configurations(self) -> list[str]:
        """The texts that were laid over ``BASE`` from the beginning, and from each reconfiguration on as far as the
        folder has a file for each of them."""
        first = self.text(SCENARIO)
        later = [name for name in self.names("*.conf") if name != SCENARIO]
        if len(later) != len(self.reconfigured):
            return [first]
        return [first, *(f"{first}\n{self.text(name)}" for name in later)]

    @cached_property
    def snapshots(self) -> list[AdSnapshot]:
        """The snapshots that the timeline tells, of which the folder has the machine's ads."""
        found, reconfigurations = [], 0
        for entry in self.timeline:
            if _RECONFIGURED.match(entry.words):
                reconfigurations += 1
            elif number := _SNAPSHOT.fullmatch(entry.words):
                ads = [ad for ad in self.ads(f"machine-ads-{number[1]}.txt") if _is_of_the_machine(ad)]
                if ads:
                    found.append(
                        AdSnapshot(int(ads[0].get("MyCurrentTime", "0")) * SECOND, tuple(ads), reconfigurations)
                    )
        return found

    def ads(self, name: str) -> Iterator[Ad]:
        """The ads of a file, as attribute -> expression text."""
        data = self.data(name)
        if not data:
            return
        source = SourceFile(1, name, "job_ads", "", UTC, 0.0, 0)
        events, _ = AdsReader(source, None, 0).read(data if data.endswith(b"\n") else data + b"\n")
        for event in events:
            if isinstance(event, AdsKept):
                for kept in unpack(event):
                    yield dict(line.split(" = ", 1) for line in kept.text.split("\n") if " = " in line)

    @cached_property
    def jobs(self) -> Mapping[str, Ad]:
        """The jobs' ads by their ids, "12.0"."""
        jobs: dict[str, Ad] = {}
        for pattern in JOB_ADS:
            for name in self.names(pattern):
                for ad in self.ads(name):
                    if "ClusterId" in ad and "ProcId" in ad and "Owner" in ad:
                        jobs.setdefault(f"{ad['ClusterId']}.{ad['ProcId']}", ad)
        return jobs


def number(ads: tuple[Ad, ...], name: str) -> float | None:
    """The least number that one of the ads has for an attribute; None where none has any."""
    values = []
    for ad in ads:
        with suppress(ValueError):
            values.append(float(ad.get(name, "")))
    return min(values, default=None)


def _is_of_the_machine(ad: Ad) -> bool:
    return ad.get("SlotType", "").lower() in _STATIC


def _unzipped(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())
