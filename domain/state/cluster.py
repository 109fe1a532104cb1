"""The jobs of a cluster, in the live state.

Jobs with the same event history form a *cohort* and share one set of changes to their ads. Therefore a job occupies
only five bytes: one for its status, and four for the number of its cohort.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import compress

from msgspec import Struct, field

from ..events import Ad, Event, Procs
from ..state_machines.job_rows import JobStatus
from .job_ad import STATUS_NAMES, STATUS_NUMBERS, TERMINAL, Changes, fold_job
from .proc_ads import Variants

IDLE = STATUS_NUMBERS["Idle"]
FINISHED = tuple(STATUS_NUMBERS[name] for name in sorted(TERMINAL))
UNIVERSE_VANILLA, SCHEDULER_UNIVERSE, LOCAL_UNIVERSE = "5", "7", "12"
ACCESS_POINT_UNIVERSES = (LOCAL_UNIVERSE, SCHEDULER_UNIVERSE)
"""The universes whose jobs the access point runs directly, without a slot."""
ON_EVICT = "TransformOnEvict"
"""The attribute that names the transforms of an evicted job."""
_GONE = 0
_STATUSES = max(STATUS_NUMBERS.values()) + 1
MANY_RANGES = 10_000
"""An event with at least this many ranges is folded with numpy, which takes 0.1 s to load."""
_LONG_RANGE = 100
"""In a range of more than this many jobs, an event checks whether they are alike, to fold them at once."""
_MAX_UNFOLDED = 16
"""The maximum number of events of a single job that are stored unfolded."""
_STATUS_BYTES = {name: bytes([number]) for name, number in STATUS_NUMBERS.items()}


class Factory(Struct):
    """A job factory: it materializes the jobs of a cluster gradually."""

    materialized: int = 0  #: the number of jobs materialized
    mode: str = "Running"  #: Running, Paused or Removed
    reason: str = ""  #: why it is paused
    changes: Changes = field(default_factory=dict)  #: edits that apply to the jobs not yet materialized


class Cluster:
    """The jobs of one cluster that are in the queue."""

    __slots__ = (
        "_first_idle",
        "_free_cohorts",
        "_spellings",
        "_unfolded",
        "ad",
        "cohort_of",
        "cohorts",
        "count",
        "counted_idle",
        "edit_count",
        "edited_names",
        "factory",
        "id",
        "initial_status",
        "is_local",
        "live",
        "members",
        "status",
        "status_counts",
        "submitter",
        "universe",
        "variants",
    )  # fmt: skip

    def __init__(
        self, id: int, submitter: str, ad: Ad, count: int, variants: Variants, status: str, factory: bool = False
    ) -> None:
        self.id, self.submitter, self.ad, self.count, self.variants = id, submitter, ad, count, variants
        self.initial_status = status
        """The initial status of its jobs in the queue."""
        self.factory = Factory() if factory else None
        present = 0 if factory else count
        self.status = bytearray(count) if factory else bytearray(_STATUS_BYTES[status] * count)
        self.cohort_of = array("I", bytes(4 * count))
        self.cohorts: list[Changes | None] = [{}]
        self.members = [present]
        self.live = present
        self.status_counts = [0] * _STATUSES
        self.status_counts[STATUS_NUMBERS[status]] = present
        self._first_idle = 0
        self._unfolded: dict[int, list[Event]] = {}
        self._free_cohorts: list[int] = []
        self._spellings: _Spellings | None = None
        self.edited_names: set[str] = set()
        """The attributes of any of its jobs that were edited, in lower case."""
        self.edit_count = 0
        """The number of edits."""
        self.universe = ad.get("JobUniverse", "")
        self.is_local = self.universe in ACCESS_POINT_UNIVERSES
        """True for the local and scheduler universes, whose jobs the access point runs without a slot."""
        self.counted_idle = 0
        """The number of its jobs that are included in the state's count of idle jobs (``State.update_idle_count``)."""

    def __contains__(self, proc: object) -> bool:
        return isinstance(proc, int) and 0 <= proc < self.count and self.status[proc] != _GONE

    def status_of(self, proc: int) -> JobStatus:
        return STATUS_NAMES[self.status[proc]]

    def changes(self, proc: int) -> Changes:
        """Return the changes to the job's ad since its submission. The caller must not modify them."""
        return self._cohort_changes(self.cohort_of[proc])

    def _cohort_changes(self, cohort: int) -> Changes:
        """Return a cohort's changes. Events of single jobs are folded only now, because few jobs are read before they
        end."""
        events = self._unfolded.pop(cohort, None)
        changes = self.cohorts[cohort] or {}
        if events:
            changes = dict(changes)
            for event in events:
                fold_job(changes, self.ad, event)
            self.cohorts[cohort] = changes
        return changes

    def all_changes(self, limit: int) -> list[Changes]:
        """Return the changes of each cohort; an empty list if there are, or were, many more than ``limit`` cohorts."""
        if len(self.members) > 100 * limit or len(self.members) - len(self._free_cohorts) > limit + 1:
            return []
        cohorts = [cohort for cohort, members in enumerate(self.members) if members]
        return [self._cohort_changes(cohort) for cohort in cohorts] if len(cohorts) <= limit else []

    def value(self, proc: int, name: str, default: str = "") -> str:
        """Return the text of an attribute of the job's ad."""
        changes = self.changes(proc)
        if name in changes:
            return changes[name] or default
        if name in self.variants.names:
            return self.variants.of_proc(proc)[name]
        return self.ad.get(name, default)

    def requested_value(self, proc: int, name: str) -> str:
        """Return the text of an attribute that only the user sets, such as a job policy, or an empty string if there is
        none. The name is case-insensitive. Faster than ``value``, because it does not fold the job's events."""
        key = name.lower()
        if key in self.edited_names:
            changes = self.changes(proc)
            edited = next((changes[each] for each in changes if each.lower() == key), None)
            if edited is not None:
                return edited
        spelling = self._spelling(name)
        return self.variants.of_proc(proc)[spelling] if spelling in self.variants.names else self.ad.get(spelling, "")

    def has_evict_transforms(self, proc: int) -> bool:
        """Return True if the job has transforms for evictions, which may change the job if a run ends with a hold."""
        return self.requested_value(proc, ON_EVICT) not in ("", "undefined")

    def is_uniform(self, name: str) -> bool:
        """Return True if ``requested_value`` is the same for all jobs."""
        return name.lower() not in self.edited_names and self._spelling(name) not in self.variants.names

    def has_any_attribute(self, names: Iterable[str]) -> bool:
        """Return True if any of these attributes (in lower case) was submitted or edited."""
        return any(map(self._spelling, names)) or not self.edited_names.isdisjoint(names)

    def _spelling(self, name: str) -> str:
        """Return the spelling of an attribute in the submission, or an empty string if it was not submitted."""
        if self._spellings is None:
            self._spellings = _shared_spellings((*self.ad, *self.variants.names))
        return self._spellings[name]

    @property
    def has_finished_jobs(self) -> bool:
        """True if any removed or completed job is still in the queue."""
        return any(self.status_counts[number] for number in FINISHED)

    def attributes(self, proc: int) -> Ad:
        """Return the complete ad of one job."""
        ad = {**self.ad, **self.variants.of_proc(proc), **self.changes(proc)}
        ad["ClusterId"], ad["ProcId"] = str(self.id), str(proc)
        ad["JobStatus"] = str(self.status[proc])
        return {name: text for name, text in ad.items() if text} if "" in ad.values() else ad

    def next_idle(self, after: int = -1) -> int:
        """Return the first idle process after ``after``, or -1."""
        proc = self.status.find(IDLE, max(after + 1, self._first_idle))
        if after < self._first_idle:
            self._first_idle = proc if proc >= 0 else self.count
        return proc

    def procs(self, accepts: Callable[[int], bool] = bool) -> Iterator[int]:
        """Yield the processes in the queue for whose status number ``accepts`` returns True; by default all."""
        statuses = self.status if self.factory is None else self.status[: self.factory.materialized]
        if accepts is bool:
            return compress(range(len(statuses)), statuses)
        return (proc for proc, status in enumerate(statuses) if status and accepts(status))

    # Folding

    def _set_status(self, proc: int, number: int) -> None:
        before = self.status[proc]
        if before == number:
            return
        self.status_counts[before] -= 1
        self.status_counts[number] += 1
        self.status[proc] = number
        if number == IDLE and proc < self._first_idle:
            self._first_idle = proc

    def edit(self, proc: int, event: Event, status: str | None) -> None:
        """Fold an event about one job. ``status`` is the job's new status; None: unchanged."""
        cohort = self.cohort_of[proc]
        unfolded = self._unfolded
        if self.members[cohort] == 1 and cohort:
            events = unfolded.get(cohort)
            if events is None:
                unfolded[cohort] = [event]
            else:
                events.append(event)
                if len(events) > _MAX_UNFOLDED:
                    self._cohort_changes(cohort)
        else:
            self.members[cohort] -= 1
            changes = self._cohort_changes(cohort) if cohort in unfolded else self.cohorts[cohort]
            cohort = self.cohort_of[proc] = self._new_cohort(changes, 1)
            unfolded[cohort] = [event]
        if status is not None:
            self._set_status(proc, STATUS_NUMBERS[status])

    def materialize(self, procs: Procs, event: Event, status: str) -> None:
        """Add the factory's next jobs."""
        assert self.factory is not None
        changes = dict(self.factory.changes)
        fold_job(changes, self.ad, event)
        for first, last in procs:
            cohort = self._new_cohort(changes, last - first + 1)
            for proc in range(first, last + 1):
                self.cohort_of[proc] = cohort
                self._set_status(proc, STATUS_NUMBERS[status])
            self.status_counts[_GONE] = 0
            self.live += last - first + 1
            self.factory.materialized = last + 1

    @property
    def unmaterialized(self) -> int:
        """The number of jobs that its factory has yet to materialize."""
        if self.factory is None or self.factory.mode == "Removed":
            return 0
        return self.count - self.factory.materialized

    def edit_all(self, procs: Procs, event: Event, status: str | None) -> None:
        """Fold an event about many jobs, once per cohort; the affected jobs of a cohort form a cohort again. ``status``
        is their new status; None: unchanged."""
        number = None if status is None else STATUS_NUMBERS[status]
        new_cohorts: dict[int, int] = {}
        if len(procs) >= MANY_RANGES:
            self._edit_columns(procs, event, number, new_cohorts)
        else:
            self._edit_each(procs, event, number, new_cohorts)
        for before in new_cohorts:
            if not self.members[before]:
                self._free_cohort(before)

    def _edit_each(self, procs: Procs, event: Event, number: int | None, new_cohorts: dict[int, int]) -> None:
        cohort_of, members = self.cohort_of, self.members
        for first, last in procs:
            if last - first >= _LONG_RANGE and self._are_alike(first, last):
                self._edit_alike(first, last, event, number, new_cohorts)
                continue
            for proc in range(first, last + 1):
                if not self.status[proc]:
                    continue
                before = cohort_of[proc]
                after = new_cohorts.get(before)
                if after is None:
                    after = new_cohorts[before] = self._cohort_after(before, event)
                cohort_of[proc] = after
                members[before] -= 1
                members[after] += 1
                if number is not None:
                    self._set_status(proc, number)

    def _are_alike(self, first: int, last: int) -> bool:
        """Return True if the jobs in a range have the same status and are in the same cohort."""
        statuses, cohorts = self.status[first : last + 1], self.cohort_of[first : last + 1]
        return statuses == statuses[:1] * (last - first + 1) and cohorts == cohorts[:1] * len(statuses)

    def _edit_alike(self, first: int, last: int, event: Event, number: int | None, new_cohorts: dict[int, int]) -> None:
        status, cohort, count = self.status[first], self.cohort_of[first], last - first + 1
        if not status:
            return
        if cohort not in new_cohorts:
            new_cohorts[cohort] = self._cohort_after(cohort, event)
        after = new_cohorts[cohort]
        self.members[cohort] -= count
        self.members[after] += count
        self.cohort_of[first : last + 1] = array("I", [after]) * count
        if number is not None:
            self.status_counts[status] -= count
            self.status_counts[number] += count
            self.status[first : last + 1] = bytes([number]) * count
            if number == IDLE != status:
                self._first_idle = min(self._first_idle, first)

    def _edit_columns(self, procs: Procs, event: Event, number: int | None, new_cohorts: dict[int, int]) -> None:
        from . import many_jobs

        present = many_jobs.procs_in_queue(self.status, procs)
        if not len(present):
            return
        for before, count in many_jobs.count_by_number(self.cohort_of, present).items():
            after = new_cohorts[before] = self._cohort_after(before, event)
            self.members[before] -= count
            self.members[after] += count
        many_jobs.replace_numbers(self.cohort_of, present, new_cohorts)
        if number is not None:
            for before, count in many_jobs.count_by_number(self.status, present).items():
                self.status_counts[before] -= count
                self.status_counts[number] += count
            many_jobs.assign_number(self.status, present, number)
            if number == IDLE:
                self._first_idle = min(self._first_idle, int(present[0]))

    def _cohort_after(self, cohort: int, event: Event) -> int:
        """Create a cohort, still without members, for those jobs of a cohort that have this event."""
        changes = dict(self._cohort_changes(cohort))
        fold_job(changes, self.ad, event)
        return self._new_cohort(changes, 0)

    def _new_cohort(self, changes: Changes | None, members: int) -> int:
        if self._free_cohorts:
            cohort = self._free_cohorts.pop()
            self.cohorts[cohort], self.members[cohort] = changes, members
            return cohort
        self.cohorts.append(changes)
        self.members.append(members)
        return len(self.cohorts) - 1

    def _free_cohort(self, cohort: int) -> None:
        """Let another cohort use the number of an empty one."""
        self.cohorts[cohort] = None
        self._unfolded.pop(cohort, None)
        if cohort:
            self._free_cohorts.append(cohort)

    def restore(self, proc: int, status: int, changes: Changes) -> None:
        """Set the status number and the ad changes of one job, from a stored copy."""
        self.members[self.cohort_of[proc]] -= 1
        self.cohort_of[proc] = self._new_cohort(changes, 1)
        self._set_status(proc, status)

    def remove(self, proc: int) -> None:
        """Remove a job that has left the queue."""
        cohort = self.cohort_of[proc]
        self.members[cohort] -= 1
        if not self.members[cohort]:
            self._free_cohort(cohort)
        self.status_counts[self.status[proc]] -= 1
        self.status[proc] = _GONE
        self.live -= 1

    def remove_all(self, procs: Procs) -> None:
        if sum(last - first + 1 for first, last in procs) == self.live == self.count:
            self.live = 0  # the cluster left the queue; its other fields no longer matter
            self.status_counts = [0] * _STATUSES
            self.status = bytearray(self.count)
            return
        if len(procs) >= MANY_RANGES:
            self._remove_columns(procs)
            return
        for first, last in procs:
            for proc in range(first, last + 1):
                if self.status[proc]:
                    self.remove(proc)

    def _remove_columns(self, procs: Procs) -> None:
        from . import many_jobs

        present = many_jobs.procs_in_queue(self.status, procs)
        for cohort, count in many_jobs.count_by_number(self.cohort_of, present).items():
            self.members[cohort] -= count
            if not self.members[cohort]:
                self._free_cohort(cohort)
        for number, count in many_jobs.count_by_number(self.status, present).items():
            self.status_counts[number] -= count
        many_jobs.assign_number(self.status, present, _GONE)
        self.live -= len(present)


class _Spellings(dict[str, str]):
    """The spelling of each attribute by case-insensitive name: the first one if there are several, empty if unknown."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__((name.lower(), name) for name in reversed(names))

    def __missing__(self, name: str) -> str:
        spelling = self[name] = self.get(name.lower(), "")
        return spelling


@lru_cache(maxsize=200)
def _shared_spellings(names: tuple[str, ...]) -> _Spellings:
    """Return the spellings of these names. Clusters share them, because most have the same attributes."""
    return _Spellings(names)
