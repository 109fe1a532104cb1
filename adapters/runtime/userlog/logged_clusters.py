"""The fold's state: the clusters whose jobs have a log.

It uses no memory per job. A cluster keeps the ad and columns of its submission (the event's own objects), the edits
with their ranges of processes, and the CPU times and sizes of jobs that have run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attrs import define, field, frozen

from ....domain.classad import ERROR, UNDEFINED, EvaluationError, parse, unparse
from ....domain.classad.tree import Literal
from ....domain.classad.unparse import unparse_old
from ....domain.events import Ad, ClusterSubmitted, JobExited, Procs
from ....domain.state.caches import ad_from_attributes
from ....domain.state.job_ad import failed_to_start, parse_int, unquoted
from ....domain.state.proc_ads import Variants
from ....domain.state_machines.hold_codes import StopReason
from ....domain.units import SECOND
from .event_text import Numbers, Resource, megabytes, number, partitionable_resources

NOWHERE = "/dev/null"
NOTED = ("DAGNodeName", "JobBatchName")
"""Attributes that event 000 shows if a job has them. Source: the schedd's WriteSubmitToUserLog."""
ASKED = "SubmitEventNotesAttrs"  #: names further attributes
NOTES = (*NOTED, "SubmitEventNotes", "SubmitEventUserNotes")  #: attributes that event 000 depends on


class LogFile(NamedTuple):
    """A user's log: its path, and the user of its jobs. Other users may have named the same path."""

    path: str
    owner: str


class LoggedCluster:
    """The jobs of one cluster, some of which have a log."""

    def __init__(self, event: ClusterSubmitted) -> None:
        self.id, self.count = event.cluster, event.count
        self.live = 0 if event.factory else event.count
        self.factory = event.factory  #: whether a factory creates its jobs gradually
        self.made = self.live  #: the number of jobs created so far
        self.mode = ""  #: the last mode of its factory
        self.running: set[int] = set()
        self.ad = event.ad
        self.owner = unquoted(event.ad.get("Owner", ""))
        self.variants = Variants(event.columns)
        self._spelled = {name.lower(): name for name in (*event.ad, *self.variants.names)}
        self._edits: list[tuple[Procs, Ad]] = []
        self.spent: dict[int, Numbers] = {}  #: the CPU times of earlier runs, by process
        self.moved: dict[int, Numbers] = {}  #: the bytes that earlier runs sent and received, by process
        self.sizes: dict[int, Numbers] = {}  #: by process that has run: image and resident size, as last logged
        is_same_path = not {"userlog", "iwd"} & {name.lower() for name in self.variants.names}
        self.path = self._path(0) if is_same_path else None
        """The path of the log of all its jobs: empty if they have no log, None if each job has its own log."""

    @property
    def ends(self) -> bool:
        """Return True if the cluster has no jobs left and no more will be created."""
        return not self.live and (self.made == self.count or self.mode == "Removed")

    def path_of(self, proc: int) -> str:
        return self.path if self.path is not None else self._path(proc)

    def _path(self, proc: int) -> str:
        """Return the attribute UserLog, relative to Iwd. Source: the manual's "Job ClassAd Attributes"."""
        log = self.string_value(proc, "UserLog")
        path = os.path.normpath(os.path.join(self.string_value(proc, "Iwd"), log)) if log else ""
        return "" if path == NOWHERE else path

    def value(self, proc: int, name: str) -> str:
        """Return the current text of an attribute, or an empty string if it is not set."""
        for procs, changes in reversed(self._edits):
            if name in changes and contains_proc(procs, proc):
                return changes[name]
        spelling = self._spelled.get(name.lower(), name)
        if spelling in self.variants.names:
            return self.variants.of_proc(proc)[spelling]
        return self.ad.get(spelling, "")

    def has(self, name: str) -> bool:
        """Return True if some job may have the attribute."""
        return name.lower() in self._spelled or any(name in changes for _, changes in self._edits)

    def string_value(self, proc: int, name: str) -> str:
        """Return the value of a string attribute, or an empty string if the value is not a string."""
        text = self.value(proc, name)
        return unquoted(text) if text.startswith('"') else ""

    def alike(self, *names: str) -> bool:
        """Return True if these attributes are the same for all jobs."""
        differing_names = {name.lower() for name in self.variants.names}
        edited_names = {name for _, changes in self._edits for name in changes}
        return not any(name.lower() in differing_names or name in edited_names for name in names)

    def edit(self, procs: Procs, changes: Ad) -> None:
        """Add an edit, and drop earlier edits of the same range that the new edit overrides."""
        self._edits = [e for e in self._edits if e[0] != procs or not e[1].keys() <= changes.keys()]
        self._edits.append((procs, changes))

    def requested_amount(self, proc: int, resource: str) -> str:
        """Return the job's request for a resource: Request* evaluated in the job's own ad, or an empty string if the
        result is not a number."""
        name = f"Request{resource}"
        text = self.value(proc, name)
        if not text or text.isdigit():
            return text
        try:
            value = ad_from_attributes(self._job_ad(proc)).eval(name)
        except EvaluationError:
            return ""
        return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""

    def has_uniform_notes(self) -> bool:
        """Return True if event 000 is the same for all jobs."""
        return self.alike(*NOTES, ASKED) and not self.value(0, ASKED)

    def submit_notes(self, proc: int) -> list[str]:
        """Return the lines below event 000: the attributes in SubmitEventNotesAttrs, or SubmitEventNotes; then
        SubmitEventUserNotes."""
        names = listed_names(self.string_value(proc, ASKED))
        values = self.values(proc, (*names, *NOTED)) if names else {}
        if not names:  # most jobs: every attribute that is set is a string
            values = {name: text for name in NOTED if (text := self.value(proc, name)) and text != "undefined"}
        notes_text = "; ".join(f"{name} = {text}" for name, text in values.items())
        first_note = f"[ {notes_text} ]" if notes_text else self.string_value(proc, "SubmitEventNotes")
        return [note for note in (first_note, self.string_value(proc, "SubmitEventUserNotes")) if note]

    def values(self, proc: int, names: Sequence[str], changes: Ad | None = None) -> Ad:
        """Return the values of a job's attributes as texts, without undefined values and errors. ``changes`` are of an
        event that the ad does not contain yet."""
        sizes = dict(zip(("ImageSize", "ResidentSetSize"), map(str, self.sizes.get(proc, ())), strict=False))
        ad, values = ad_from_attributes({**self._job_ad(proc), **sizes, **(changes or {})}), Ad()
        for name in names:
            try:
                value = ad.eval(name)
            except EvaluationError:
                continue
            if value is not UNDEFINED and value is not ERROR and name in ad:
                values[name] = unparse(Literal(value))
        return values

    def _job_ad(self, proc: int) -> Ad:
        ad = {**self.ad, **self.variants.of_proc(proc)}
        for procs, changes in self._edits:
            if contains_proc(procs, proc):
                ad.update(changes)
        return ad

    def update_sizes(self, proc: int, image: int, resident: int) -> Numbers | None:
        """Store the sizes of a job's processes, in KiB (an image of 0 is unknown). Return them if they have changed."""
        sizes_before = self.sizes.get(proc)
        known_image = sizes_before[0] if sizes_before else parse_int(self.value(proc, "ImageSize"))
        now = (image or known_image, resident)
        if now == sizes_before:
            return None
        self.sizes[proc] = now
        return now

    def add_usage(self, proc: int, usage: Numbers) -> Numbers:
        """Add a run's CPU times to the sum over the job's earlier runs; return the sum."""
        return _add(self.spent, proc, usage)

    def add_transferred_bytes(self, proc: int, moved_bytes: Numbers) -> Numbers:
        """Add a run's transferred bytes to the sum over the job's earlier runs; return the sum."""
        return _add(self.moved, proc, moved_bytes)


def _add(sums: dict[int, Numbers], proc: int, numbers: Numbers) -> Numbers:
    sums_before = sums.get(proc, (0, 0))
    total = (sums_before[0] + numbers[0], sums_before[1] + numbers[1])
    if any(total):
        sums[proc] = total
    return total


def listed_names(text: str) -> list[str]:
    """Return the names in a list."""
    return text.replace(",", " ").split()


def contains_proc(procs: Procs, proc: int) -> bool:
    return any(first <= proc <= last for first, last in procs)


def without_procs(procs: Procs, excluded: Sequence[int]) -> Procs:
    """Return the ranges `procs` without `excluded`, which are ascending and within them."""
    remaining_ranges: list[tuple[int, int]] = []
    excluded_procs = iter((*excluded, -1))
    next_excluded = next(excluded_procs)
    for first, last in procs:
        while first <= next_excluded <= last:
            if first < next_excluded:
                remaining_ranges.append((first, next_excluded - 1))
            first, next_excluded = next_excluded + 1, next(excluded_procs)
        if first <= last:
            remaining_ranges.append((first, last))
    return tuple(remaining_ranges)


# The fold's state of slots and of running jobs.

COMMON = {"Cpus": "", "Disk": "", "GPUs": "0", "Memory": ""}
"""Resources that every slot has, with the text for a slot that does not mention them."""


def address(name: str) -> str:
    """Return a contact address in HTCondor's form. Port 0: no process listens."""
    return f"<127.0.0.1:0?alias={name}>"


@frozen
class Place:
    """A slot: its machine, and its resources as texts."""

    slot: str
    machine: str
    offers: Mapping[str, str]
    assigned: Mapping[str, str]
    ad: Mapping[str, str] = field(factory=dict)  #: the attributes in the slot's own ad


def run_place(slot: str, machine: str, ad: Ad) -> Place:
    custom_names = [name for name in unquoted(ad.get("MachineResources", "")).replace(",", " ").split() if name in ad]
    names = dict.fromkeys([*COMMON, *(name for name in custom_names if name != "Swap")])
    offers = {name: ad.get(name) or COMMON.get(name, "") for name in names}
    assigned_texts = {name: text for name in names if (text := ad.get(f"Assigned{name}"))}
    return Place(slot, machine, {name: text for name, text in offers.items() if text}, assigned_texts, ad)


def available_devices(place: Place) -> dict[str, str]:
    """Return the attributes of the slot's ad that list and describe its devices."""
    devices: dict[str, str] = {}
    for resource in place.offers:
        if available := place.ad.get(f"Available{resource}"):
            prefix = f"{resource}_"
            described = {name: text for name, text in place.ad.items() if name.startswith(prefix) and text[0] == "["}
            devices |= {f"Available{resource}": available, **described}
    return {name: unparse_old(parse(text)) for name, text in devices.items()}


def changed_place(old_place: Place, changes: Ad) -> Place:
    changed_offers = {name: text for name, text in changes.items() if name in old_place.offers and text}
    ad = {**old_place.ad, **changes}
    return Place(old_place.slot, old_place.machine, {**old_place.offers, **changed_offers}, old_place.assigned, ad)


def attributes_of(where: Place, machine: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return attributes of a slot or its machine, without missing ones."""
    known_values = {name.lower(): (name, text) for name, text in {**machine, **where.ad}.items() if text}
    return dict(known_values[name.lower()] for name in names if name.lower() in known_values)


def local_place(slot: str) -> Place:
    """Return the place of a job of the local universe: the access point, without a slot."""
    return Place(slot, "", {}, {})


@define
class LoggedRun:
    """A run of a job on a slot, from the activation until its last process is gone."""

    place: Place
    host: str
    activated: int
    executing: int | None = None  #: when the job's own process started
    resident: int = 0
    disk: int = 0
    moved: Numbers = (0, 0)  #: the bytes of its files: sent and received by the job
    suspended: bool = False
    deferred: bool = False  #: whether its process had to wait for its start time
    removed: bool = False
    why: StopReason | None = None  #: the first reason that stopped it
    error: StopReason | None = None  #: the hold by its startd, which is reported as an error
    asked: dict[str, str] = field(factory=dict)  #: the slot's attributes that its job wants in the execute event
    waiting: list[tuple[int, str]] = field(factory=list)  #: events (number, body) to write when its processes are gone


def resource_table(run: LoggedRun, cluster: LoggedCluster, exit_event: JobExited) -> str:
    """Return the table of resources at a run's end. Values that were not measured are empty; a run of less than a
    second has no CPU usage. Jobs of the local universe have no table."""
    if not run.place.machine:
        return ""
    ended = exit_event.at // SECOND
    busy_time = ended - run.activated // SECOND
    executed_time = None if run.executing is None else ended - run.executing // SECOND
    resident = max(run.resident, exit_event.resident)
    cpu = (exit_event.user_cpu + exit_event.system_cpu) / SECOND
    usage = {
        "Cpus": number(round(cpu / executed_time, 2)) if executed_time else "",
        "Disk": str(exit_event.disk or run.disk or "") or _literal(cluster.value(exit_event.proc, "DiskUsage")),
        "Memory": str(megabytes(resident)) if resident else "",
    }
    offers, assigned_texts = run.place.offers, run.place.assigned
    rows = []
    for name in {**COMMON, **offers}:
        requested, offered = cluster.requested_amount(exit_event.proc, name), offers.get(name, "")
        used = usage.get(name) or _number_text(exit_event.changes.get(f"{name}AverageUsage", ""))
        rows.append(Resource(name, used, requested, offered, assigned_texts.get(name, "")))
        if memory := _number_text(exit_event.changes.get(f"{name}MemoryUsage", "")):
            rows.append(Resource(f"{name.capitalize()}Memory", memory))
    if executed_time is not None:
        rows.append(Resource("TimeExecute", str(executed_time)))
    if executed_time is not None or failed_to_start(exit_event):
        rows.append(Resource("TimeSlotBusy", str(busy_time)))
    return partitionable_resources(tuple(rows))


def _number_text(text: str) -> str:
    return number(float(text)) if text else ""


def _literal(text: str) -> str:
    return text if text.isdigit() else ""
