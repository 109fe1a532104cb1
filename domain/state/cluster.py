"""The jobs of one submission, in the live state: a job costs memory of its own only where it differs from its cluster.

One byte for its status, four for the number of its *cohort*, the set of changes that it shares with all jobs that went
the same way.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import compress

from attrs import define, field

from ..events import Ad, Event, Procs
from ..state_machines.job_rows import JobStatus
from .job_ad import STATUS_NAMES, STATUS_NUMBERS, TERMINAL, Changes, fold_job
from .proc_ads import Variants

IDLE = STATUS_NUMBERS["Idle"]
OVER = tuple(STATUS_NUMBERS[name] for name in sorted(TERMINAL))
UNIVERSE_VANILLA, SCHEDULER_UNIVERSE, LOCAL_UNIVERSE = "5", "7", "12"
OF_ACCESS_POINT = (LOCAL_UNIVERSE, SCHEDULER_UNIVERSE)
"""The universes whose jobs the access point runs itself, without a slot."""
ON_EVICT = "TransformOnEvict"
"""The attribute that names a job's own transforms."""
_GONE = 0
_STATUSES = max(STATUS_NUMBERS.values()) + 1
MANY_RANGES = 10_000
"""Ranges of one event from which on its jobs are moved by columns: it takes 0.1 s to load what does that."""
_UNFOLDED_MOST = 16
"""Events of one job that are kept unfolded, at most."""
_STATUS_BYTES = {name: bytes([number]) for name, number in STATUS_NUMBERS.items()}


@define
class Factory:
    """What makes a cluster's jobs little by little."""

    made: int = 0  #: how many it has made
    mode: str = "Running"  #: Running, Paused or Removed
    reason: str = ""  #: why it is paused
    changes: Changes = field(factory=dict)  #: what was edited of the jobs that are still to come


class Cluster:
    """The jobs of one submission that have not ended."""

    __slots__ = (
        "_first",
        "_free",
        "_spelled",
        "_unfolded",
        "ad",
        "begins",
        "cohorts",
        "count",
        "counts",
        "edited",
        "edits",
        "factory",
        "id",
        "live",
        "local",
        "members",
        "of",
        "status",
        "submitter",
        "universe",
        "variants",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, id: int, submitter: str, ad: Ad, count: int, variants: Variants, status: str, factory: bool = False
    ) -> None:
        self.id, self.submitter, self.ad, self.count, self.variants = id, submitter, ad, count, variants
        self.begins = status
        """The status in which its jobs come into the queue."""
        self.factory = Factory() if factory else None
        present = 0 if factory else count
        self.status = bytearray(count) if factory else bytearray(_STATUS_BYTES[status] * count)
        self.of = array("I", bytes(4 * count))
        self.cohorts: list[Changes | None] = [{}]
        self.members = [present]
        self.live = present
        self.counts = [0] * _STATUSES
        self.counts[STATUS_NUMBERS[status]] = present
        self._first = 0
        self._unfolded: dict[int, list[Event]] = {}
        self._free: list[int] = []
        self._spelled: _Spellings | None = None
        self.edited: set[str] = set()
        """The attributes, in small letters, that were edited for some of the jobs since the submission."""
        self.edits = 0
        """How often jobs were edited."""
        self.universe = ad.get("JobUniverse", "")
        self.local = self.universe in OF_ACCESS_POINT
        """Whether its jobs are of the local or the scheduler universe: run by the access point itself, without a
        slot."""
        self.waiting = 0
        """How many of its jobs the state counts as idle (``State.note_idle``)."""

    def __contains__(self, proc: object) -> bool:
        return isinstance(proc, int) and 0 <= proc < self.count and self.status[proc] != _GONE

    def status_of(self, proc: int) -> JobStatus:
        return STATUS_NAMES[self.status[proc]]

    def changes(self, proc: int) -> Changes:
        """What has happened to the job's ad since its submission. Not to be changed."""
        return self._folded(self.of[proc])

    def _folded(self, cohort: int) -> Changes:
        """A cohort's changes. Events of single jobs are folded when somebody asks: most jobs end before that."""
        events = self._unfolded.pop(cohort, None)
        changes = self.cohorts[cohort] or {}
        if events:
            changes = dict(changes)
            for event in events:
                fold_job(changes, self.ad, event)
            self.cohorts[cohort] = changes
        return changes

    def all_changes(self, most: int) -> list[Changes]:
        """The sets of changes that the jobs share among them; empty: there are, or were, many more than ``most``."""
        if len(self.members) > 100 * most or len(self.members) - len(self._free) > most + 1:
            return []
        cohorts = [cohort for cohort, members in enumerate(self.members) if members]
        return [self._folded(cohort) for cohort in cohorts] if len(cohorts) <= most else []

    def value(self, proc: int, name: str, default: str = "") -> str:
        """The text of one attribute of the job's ad."""
        changes = self.changes(proc)
        if name in changes:
            return changes[name] or default
        if name in self.variants.names:
            return self.variants.of(proc)[name]
        return self.ad.get(name, default)

    def requested_value(self, proc: int, name: str) -> str:
        """The text of an attribute that is the user's alone, as the job's policies are, in any case of letters: empty
        if there is none. Quicker than ``value``, since what has happened to the job need not be folded for it."""
        key = name.lower()
        if key in self.edited:
            found = self.changes(proc)
            edited = next((found[each] for each in found if each.lower() == key), None)
            if edited is not None:
                return edited
        spelled = self._spelling(name)
        return self.variants.of(proc)[spelled] if spelled in self.variants.names else self.ad.get(spelled, "")

    def transforms_itself(self, proc: int) -> bool:
        """Whether a job has transforms of its own, which may change it where a run ends with a hold."""
        return self.requested_value(proc, ON_EVICT) not in ("", "undefined")

    def is_uniform(self, name: str) -> bool:
        """Whether ``requested_value`` has the same answer for all of its jobs."""
        return name.lower() not in self.edited and self._spelling(name) not in self.variants.names

    def has_any(self, names: Iterable[str]) -> bool:
        """Whether its submission has any of these attributes (in small letters), or one was edited."""
        return any(map(self._spelling, names)) or not self.edited.isdisjoint(names)

    def _spelling(self, name: str) -> str:
        """How its submission spells an attribute; empty if it does not have it."""
        if self._spelled is None:
            self._spelled = _spellings((*self.ad, *self.variants.names))
        return self._spelled[name]

    @property
    def over(self) -> bool:
        """Whether any of its jobs has come to its end and is still in the queue."""
        return any(self.counts[number] for number in OVER)

    def attributes(self, proc: int) -> Ad:
        """The whole ad of one job."""
        whole = {**self.ad, **self.variants.of(proc), **self.changes(proc)}
        whole["ClusterId"], whole["ProcId"] = str(self.id), str(proc)
        whole["JobStatus"] = str(self.status[proc])
        return {name: text for name, text in whole.items() if text}

    def next_idle(self, after: int = -1) -> int:
        """The first process behind `after` that waits, or -1."""
        found = self.status.find(IDLE, max(after + 1, self._first))
        if after < self._first:
            self._first = found if found >= 0 else self.count
        return found

    def procs(self, keep: Callable[[int], bool] = bool) -> Iterator[int]:
        """The processes whose status number `keep` accepts; all that are left, unless told otherwise."""
        present = self.status if self.factory is None else self.status[: self.factory.made]
        if keep is bool:
            return compress(range(len(present)), present)
        return (proc for proc, status in enumerate(present) if status and keep(status))

    # Folding

    def _set_status(self, proc: int, number: int) -> None:
        before = self.status[proc]
        if before == number:
            return
        self.counts[before] -= 1
        self.counts[number] += 1
        self.status[proc] = number
        if number == IDLE and proc < self._first:
            self._first = proc

    def edit(self, proc: int, event: Event, status: str | None) -> None:
        """Take note of an event about one job; `status` is its status afterwards, None: as before."""
        cohort = self.of[proc]
        unfolded = self._unfolded
        if self.members[cohort] == 1 and cohort:
            events = unfolded.get(cohort)
            if events is None:
                unfolded[cohort] = [event]
            else:
                events.append(event)
                if len(events) > _UNFOLDED_MOST:
                    self._folded(cohort)
        else:
            self.members[cohort] -= 1
            changes = self._folded(cohort) if cohort in unfolded else self.cohorts[cohort]
            cohort = self.of[proc] = self._new_cohort(changes, 1)
            unfolded[cohort] = [event]
        if status is not None:
            self._set_status(proc, STATUS_NUMBERS[status])

    def make(self, procs: Procs, event: Event, status: str) -> None:
        """The next jobs come from the factory."""
        assert self.factory is not None
        changes = dict(self.factory.changes)
        fold_job(changes, self.ad, event)
        for first, last in procs:
            cohort = self._new_cohort(changes, last - first + 1)
            for proc in range(first, last + 1):
                self.of[proc] = cohort
                self._set_status(proc, STATUS_NUMBERS[status])
            self.counts[_GONE] = 0
            self.live += last - first + 1
            self.factory.made = last + 1

    @property
    def unmaterialized(self) -> int:
        """How many jobs its factory is still to make."""
        if self.factory is None or self.factory.mode == "Removed":
            return 0
        return self.count - self.factory.made

    def edit_all(self, procs: Procs, event: Event, status: str | None) -> None:
        """Fold an event about many jobs; `status` None leaves each its own. Jobs that went the same way until now go on
        sharing their changes: the fold is done once for each cohort."""
        number = None if status is None else STATUS_NUMBERS[status]
        moved: dict[int, int] = {}
        if len(procs) >= MANY_RANGES:
            self._edit_columns(procs, event, number, moved)
        else:
            self._edit_each(procs, event, number, moved)
        for before in moved:
            if not self.members[before]:
                self._forget(before)

    def _edit_each(self, procs: Procs, event: Event, number: int | None, moved: dict[int, int]) -> None:
        of, members = self.of, self.members
        for first, last in procs:
            for proc in range(first, last + 1):
                if not self.status[proc]:
                    continue
                before = of[proc]
                after = moved.get(before)
                if after is None:
                    after = moved[before] = self._moved_on(before, event)
                of[proc] = after
                members[before] -= 1
                members[after] += 1
                if number is not None:
                    self._set_status(proc, number)

    def _edit_columns(self, procs: Procs, event: Event, number: int | None, moved: dict[int, int]) -> None:
        from . import many_jobs

        present = many_jobs.present(self.status, procs)
        if not len(present):
            return
        for before, count in many_jobs.count_by_number(self.of, present).items():
            after = moved[before] = self._moved_on(before, event)
            self.members[before] -= count
            self.members[after] += count
        many_jobs.exchange(self.of, present, moved)
        if number is not None:
            for before, count in many_jobs.count_by_number(self.status, present).items():
                self.counts[before] -= count
                self.counts[number] += count
            many_jobs.assign(self.status, present, number)
            if number == IDLE:
                self._first = min(self._first, int(present[0]))

    def _moved_on(self, cohort: int, event: Event) -> int:
        """The cohort, without members yet, of those of a cohort to whom an event happens."""
        changes = dict(self._folded(cohort))
        fold_job(changes, self.ad, event)
        return self._new_cohort(changes, 0)

    def _new_cohort(self, changes: Changes | None, members: int) -> int:
        if self._free:
            cohort = self._free.pop()
            self.cohorts[cohort], self.members[cohort] = changes, members
            return cohort
        self.cohorts.append(changes)
        self.members.append(members)
        return len(self.cohorts) - 1

    def _forget(self, cohort: int) -> None:
        """A cohort has no member left."""
        self.cohorts[cohort] = None
        self._unfolded.pop(cohort, None)
        if cohort:
            self._free.append(cohort)

    def recall(self, proc: int, status: int, changes: Changes) -> None:
        """Take what was kept of one job: its status (by number), and what has happened to its ad."""
        self.members[self.of[proc]] -= 1
        self.of[proc] = self._new_cohort(changes, 1)
        self._set_status(proc, status)

    def end(self, proc: int) -> None:
        """The job is over: it leaves the active state."""
        cohort = self.of[proc]
        self.members[cohort] -= 1
        if not self.members[cohort]:
            self._forget(cohort)
        self.counts[self.status[proc]] -= 1
        self.status[proc] = _GONE
        self.live -= 1

    def end_all(self, procs: Procs) -> None:
        if sum(last - first + 1 for first, last in procs) == self.live == self.count:
            self.live = 0  # all at once: nobody will look at the rest again
            self.counts = [0] * _STATUSES
            self.status = bytearray(self.count)
            return
        if len(procs) >= MANY_RANGES:
            self._end_columns(procs)
            return
        for first, last in procs:
            for proc in range(first, last + 1):
                if self.status[proc]:
                    self.end(proc)

    def _end_columns(self, procs: Procs) -> None:
        from . import many_jobs

        present = many_jobs.present(self.status, procs)
        for cohort, count in many_jobs.count_by_number(self.of, present).items():
            self.members[cohort] -= count
            if not self.members[cohort]:
                self._forget(cohort)
        for number, count in many_jobs.count_by_number(self.status, present).items():
            self.counts[number] -= count
        many_jobs.assign(self.status, present, _GONE)
        self.live -= len(present)


class _Spellings(dict[str, str]):
    """How attributes are written, by their names in any case of letters: the first of a name, empty without one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__((name.lower(), name) for name in reversed(names))

    def __missing__(self, name: str) -> str:
        spelled = self[name] = self.get(name.lower(), "")
        return spelled


@lru_cache(maxsize=200)
def _spellings(names: tuple[str, ...]) -> _Spellings:
    """Most submissions have the same."""
    return _Spellings(names)
