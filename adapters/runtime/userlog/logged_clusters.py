"""The fold's state of each cluster whose jobs have a log.

No memory is used per job. A cluster keeps its submission's ad and columns (the event's own objects), the edits with
their ranges of processes, and the CPU times and sizes of jobs that have run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ....domain.classad import ERROR, UNDEFINED, EvaluationError, unparse
from ....domain.classad.tree import Literal
from ....domain.events import Ad, ClusterSubmitted, Procs
from ....domain.state.caches import ad_of
from ....domain.state.job_ad import parse_whole, unquoted
from ....domain.state.proc_ads import Variants
from .event_text import Numbers, number

NOWHERE = "/dev/null"
NOTED = ("DAGNodeName", "JobBatchName")
"""Attributes that event 000 shows if a job has them. Source: the schedd's WriteSubmitToUserLog."""
ASKED = "SubmitEventNotesAttrs"  #: has the names of further ones
NOTES = (*NOTED, "SubmitEventNotes", "SubmitEventUserNotes")  #: attributes that event 000 depends on


class LogFile(NamedTuple):
    """A user's log: its path, and the user whose jobs it is about. Others may have named the same path."""

    path: str
    owner: str


class LoggedCluster:
    """The jobs of one submission, some of which have a log."""

    def __init__(self, event: ClusterSubmitted) -> None:
        self.id, self.count = event.cluster, event.count
        self.live = 0 if event.factory else event.count
        self.factory = event.factory  #: whether its jobs come little by little
        self.made = self.live  #: how many have come
        self.mode = ""  #: what its factory was told last
        self.running: set[int] = set()
        self.ad = event.ad
        self.owner = unquoted(event.ad.get("Owner", ""))
        self.variants = Variants(event.columns)
        self._spelled = {name.lower(): name for name in (*event.ad, *self.variants.names)}
        self._edits: list[tuple[Procs, Ad]] = []
        self.spent: dict[int, Numbers] = {}  #: the CPU times of earlier runs, by process
        self.moved: dict[int, Numbers] = {}  #: the bytes that earlier runs sent and received, by process
        self.sizes: dict[int, Numbers] = {}  #: of processes that have run: image and resident size, as last logged
        alike = not {"userlog", "iwd"} & {name.lower() for name in self.variants.names}
        self.path = self._path(0) if alike else None
        """The log of all its jobs, empty if they have none; None: each job has its own."""

    @property
    def ends(self) -> bool:
        """Whether nothing is left of it, and nothing is to come."""
        return not self.live and (self.made == self.count or self.mode == "Removed")

    def path_of(self, proc: int) -> str:
        return self.path if self.path is not None else self._path(proc)

    def _path(self, proc: int) -> str:
        """Return the attribute UserLog, relative to Iwd. Source: the manual's "Job ClassAd Attributes"."""
        log = self.string(proc, "UserLog")
        path = os.path.normpath(os.path.join(self.string(proc, "Iwd"), log)) if log else ""
        return "" if path == NOWHERE else path

    # Attributes

    def value(self, proc: int, name: str) -> str:
        """Return the text of an attribute as last edited; empty if there is none."""
        for procs, changes in reversed(self._edits):
            if name in changes and holds(procs, proc):
                return changes[name]
        spelled = self._spelled.get(name.lower(), name)
        if spelled in self.variants.names:
            return self.variants.of(proc)[spelled]
        return self.ad.get(spelled, "")

    def string(self, proc: int, name: str) -> str:
        """Return the attribute's string; empty if it is none."""
        text = self.value(proc, name)
        return unquoted(text) if text.startswith('"') else ""

    def alike(self, *names: str) -> bool:
        """Tell whether these attributes are the same for all jobs."""
        differing = {name.lower() for name in self.variants.names}
        edited = {name for _, changes in self._edits for name in changes}
        return not any(name.lower() in differing or name in edited for name in names)

    def edit(self, procs: Procs, changes: Ad) -> None:
        """Add an edit, and forget earlier ones of the same range that it overrides."""
        self._edits = [e for e in self._edits if e[0] != procs or not e[1].keys() <= changes.keys()]
        self._edits.append((procs, changes))

    def requested(self, proc: int, resource: str) -> str:
        """Return the job's request for a resource: its Request* evaluated in its own ad; empty if that is no number."""
        name = f"Request{resource}"
        text = self.value(proc, name)
        if not text or text.isdigit():
            return text
        try:
            value = ad_of(self._whole(proc)).eval(name)
        except EvaluationError:
            return ""
        return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""

    def noted_alike(self) -> bool:
        """Tell whether event 000 is the same for all jobs."""
        return self.alike(*NOTES, ASKED) and not self.value(0, ASKED)

    def notes(self, proc: int) -> list[str]:
        """Return the lines under event 000: what the attributes are that it shows, or SubmitEventNotes; then
        SubmitEventUserNotes."""
        names = words(self.string(proc, ASKED))
        values = self.values(proc, (*names, *NOTED)) if names else {}
        if not names:  # most jobs: what there is, is a string
            values = {name: text for name in NOTED if (text := self.value(proc, name)) and text != "undefined"}
        noted = "; ".join(f"{name} = {text}" for name, text in values.items())
        first = f"[ {noted} ]" if noted else self.string(proc, "SubmitEventNotes")
        return [note for note in (first, self.string(proc, "SubmitEventUserNotes")) if note]

    def values(self, proc: int, names: Sequence[str]) -> Ad:
        """Return what attributes of a job come to, as texts; without those that are undefined or an error."""
        ad, found = ad_of(self._whole(proc)), Ad()
        for name in names:
            try:
                value = ad.eval(name)
            except EvaluationError:
                continue
            if value is not UNDEFINED and value is not ERROR and name in ad:
                found[name] = unparse(Literal(value))
        return found

    def _whole(self, proc: int) -> Ad:
        whole = {**self.ad, **self.variants.of(proc)}
        for procs, changes in self._edits:
            if holds(procs, proc):
                whole.update(changes)
        return whole

    # What jobs use

    def grown(self, proc: int, image: int, resident: int) -> Numbers | None:
        """Note the sizes of a job's processes, in KiB, an image of 0 being unknown; return them if they are news."""
        before = self.sizes.get(proc)
        known = before[0] if before else parse_whole(self.value(proc, "ImageSize"))
        now = (image or known, resident)
        if now == before:
            return None
        self.sizes[proc] = now
        return now

    def spend(self, proc: int, usage: Numbers) -> Numbers:
        """Add a run's CPU times to those of the job's earlier runs; return the sum."""
        return _add(self.spent, proc, usage)

    def move(self, proc: int, moved: Numbers) -> Numbers:
        """Do the same with the bytes of its files."""
        return _add(self.moved, proc, moved)


def _add(sums: dict[int, Numbers], proc: int, numbers: Numbers) -> Numbers:
    before = sums.get(proc, (0, 0))
    total = (before[0] + numbers[0], before[1] + numbers[1])
    if any(total):
        sums[proc] = total
    return total


def words(text: str) -> list[str]:
    """The words of a list."""
    return text.replace(",", " ").split()


def holds(procs: Procs, proc: int) -> bool:
    return any(first <= proc <= last for first, last in procs)


def without(procs: Procs, taken: Sequence[int]) -> Procs:
    """Return `procs` without `taken`, which is ascending and within these ranges."""
    left: list[tuple[int, int]] = []
    out = iter((*taken, -1))
    next_out = next(out)
    for first, last in procs:
        while first <= next_out <= last:
            if first < next_out:
                left.append((first, next_out - 1))
            first, next_out = next_out + 1, next(out)
        if first <= last:
            left.append((first, last))
    return tuple(left)
