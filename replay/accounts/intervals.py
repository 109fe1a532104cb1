"""Divide the time of each slot into intervals, each in exactly one class.

While a job has a slot, from the start to the end of its run (``replay/runs``), the run's outcome determines the class,
even if the slot is already retiring or preempting: the job still uses the slot. At all other times, the slot's state
determines the class. A suspended job neither works nor loses work, so its time is neither goodput nor badput.

The state is unknown while no startd recorded it: before the first record of a log that begins in the middle, in a gap,
from a startd's last record until it starts again, and from the last event of a Poolbook log until its pool restarts.
If no StartLog was imported, only the runs are known. A static slot then exists from its first run until its machine's
startd starts without it, a dynamic slot during its runs. If the records of two runs on a slot overlap, the
later run counts.

The cores of a machine's slots add up to the machine's cores: a partitionable slot has only the remaining cores, and a
dynamic slot whose cores were given to another one (preemption in a partitionable slot) has only the cores the other
one does not use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.events.handlers import handlers_of
from ...domain.imported.record_sources import place_of
from ...domain.names import SlotName
from ...domain.ports.log import EventStore
from ...domain.state_machines import state
from ...domain.state_machines.slot_rows import INITIAL_PAIR
from ..forensics.imported_log import Sources, is_imported
from ..narration.formatting import EVER
from ..runs.job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from ..runs.native_runs import own_runs
from ..runs.of_log import runs_of

GOODPUT: Final = "goodput"
BADPUT: Final = "badput"
CLASSES: Final = {
    GOODPUT: "a run whose job completed",
    BADPUT: "a run that was lost: the job was evicted, held or removed (with the cause)",
    RUNNING: "a run that had not ended at the end of the log",
    "undetermined": "a run whose outcome no record shows",
    "suspended": "the slot's job was suspended",
    "claimed": "the slot was claimed, but had no job (Claimed/Idle, file transfers of an external claim, cleaning)",
    "preempting": "the slot was ending a claim, but had no job",
    "matched": "the slot was matched, but not claimed yet",
    "unclaimed": "the slot was free",
    "owner": "the machine was used by its owner, or the slot's START was false",
    "drained": "the machine was being drained, or was drained",
    "backfill": "the slot ran the backfill client",
    "unknown": "no record shows the slot's state",
}
"""The classes of slot time, in the order of display."""
_RUN_KINDS: Final = {COMPLETED: GOODPUT, EVICTED: BADPUT, RUNNING: RUNNING, ENDED: "undetermined"}
RUN_CLASSES: Final = frozenset(_RUN_KINDS.values())
_SUSPENDED: Final = "Claimed/Suspended"
_HELD: Final = ("Claimed", "Preempting")  #: the states of a slot that has a claim
_ENTRY: Final = re.compile(r"SlotName: (\S+).*?^\tCpus = ([0-9.]+)", re.DOTALL | re.MULTILINE)
"""The slot and its cores in an entry 001 of a job event log."""


class SlotInterval(NamedTuple):
    """A time in which nothing in this record changed for a slot."""

    slot: str
    machine: str
    begin: int  #: microseconds since 1970
    end: int  #: later than ``begin``
    kind: str  #: one of ``CLASSES``
    state: str  #: the slot's state; empty while unknown
    activity: str  #: the slot's activity; empty while unknown
    job: str  #: the job that has the slot (empty: none)
    user: str  #: the user of the claim (empty: no claim)
    group: str  #: the accounting group of the claim's job
    cause: str  #: for badput, why the run was lost: the name of a cause of ``replay/runs/run_end_causes.py``
    cores: float  #: the slot's cores; of a partitionable slot, the remaining cores


class _Claim(NamedTuple):
    """The user and accounting group of a claim."""

    user: str = ""
    group: str = ""


class _Change(NamedTuple):
    """A change of a slot at an instant. Fields that are None stay the same."""

    at: int
    exists: bool | None = None
    pair: str | None = None  #: state/activity; empty if unknown
    claim: _Claim | None = None
    cores: float | None = None
    begun: JobRun | None = None
    ended: JobRun | None = None


@define
class _Slot:
    """A slot's changes, and its current state while they are collected."""

    name: str
    machine: str
    pair: str = ""
    exists: bool = False
    ended_at: int = 0  #: when its startd ended; it counts as existing until then, or until it is created again
    changes: list[_Change] = field(factory=list)

    def change(
        self, at: int, *, pair: str | None = None, exists: bool | None = None, cores: float | None = None
    ) -> None:
        self.pair = self.pair if pair is None else pair
        self.exists = self.exists if exists is None else exists
        self.changes.append(_Change(at, exists, pair, cores=cores))


@define
class _Collector:
    """Collects the changes of all slots in a log."""

    sources: Sources | None  #: the sources of an imported log
    slots: dict[str, _Slot] = field(factory=dict)
    external: list[JobRun] = field(factory=list)  #: the jobs of external access points, which `usage` does not count
    slot_cores: dict[str, float] = field(factory=dict)  #: the cores of slots according to job event logs
    last: int = 0  #: the instant of the last event or record
    _active: dict[str, JobRun] = field(factory=dict)  #: the running job of an external access point on each slot
    _holders: dict[str, str] = field(factory=dict)  #: the submitter of the claim on each slot
    _first: dict[int, int] = field(factory=dict)  #: the instant of the first record of each chain of StartLogs
    _times: dict[int, int] = field(factory=dict)  #: the instant of the last record of each of these chains
    _chain_slots: dict[int, set[str]] = field(factory=dict)
    _starts: dict[str, list[int]] = field(factory=dict)  #: when the startd of each machine started

    def watch(self, events: Iterable[e.LoggedEvent]) -> Iterator[e.LoggedEvent]:
        """Yield a log's events, and collect the changes that they contain."""
        for position, event in events:
            take = _TAKE.get(type(event))
            if take is not None:
                take(self, event)
            if position > 1 and not isinstance(event, e.SourceEvent | e.AdsKept | e.JobsLogged):
                self.last = max(self.last, event.at)
            yield position, event

    def _chain(self, event: e.Event) -> int:
        """Return the chain of StartLogs that an imported event comes from, 0 in a Poolbook log, or -1 for a record of
        another daemon."""
        if self.sources is None:
            return 0
        place = place_of(event.stimulus)
        if place is None or self.sources.kind(place.source) != "startlog":
            return -1
        return self.sources.chain(place.source)

    def _instant(self, event: e.Event, chain: int) -> int:
        """Return an event's instant, or the previous one of its log if a clock was set back."""
        at = self._times[chain] = max(event.at, self._times.get(chain, 0))
        self._first.setdefault(chain, at)
        return at

    def _slot(self, event: e.SlotEvent) -> tuple[_Slot, int]:
        """Return the slot that an event is about, and the event's instant."""
        name, chain = event.slot, self._chain(event)
        at = self._instant(event, chain)
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = _Slot(name, SlotName.parse(name).machine)
        self._chain_slots.setdefault(chain, set()).add(name)
        slot.ended_at = 0
        if not slot.exists and not isinstance(event, e.SlotCreated | e.SlotDestroyed):
            slot.change(at if SlotName.parse(name).dynamic else self._first[chain], exists=True, pair="")
        return slot, at

    def on_source(self, event: e.SourceFound) -> None:
        if self.sources is not None:
            self.sources.fold_event(event)

    def on_created(self, event: e.SlotCreated) -> None:
        slot, at = self._slot(event)
        slot.machine = event.machine
        slot.change(at, exists=True, pair=INITIAL_PAIR, cores=_number(event.ad.get("Cpus", "")))

    def on_moved(self, event: e.SlotTransitioned) -> None:
        slot, at = self._slot(event)
        if state(event.target) not in _HELD:
            slot.changes.append(_Change(at, claim=_Claim()))
        slot.change(at, pair=event.target)

    def on_changed(self, event: e.SlotAdChanged) -> None:
        if "Cpus" in event.changes and event.cause != "published":
            slot, at = self._slot(event)
            slot.change(at, cores=_number(event.changes["Cpus"]))

    def on_destroyed(self, event: e.SlotDestroyed) -> None:
        slot, at = self._slot(event)
        slot.change(at, exists=False, pair="")

    def on_claimed(self, event: e.ClaimMade) -> None:
        self._holders[event.slot] = event.submitter
        self._note_holder(event, event.submitter)

    def on_report(self, event: e.SlotReported) -> None:
        if event.said == "owner":
            self._note_holder(event, event.facts.get("user", ""))

    def _note_holder(self, event: e.SlotEvent, holder: str) -> None:
        slot, at = self._slot(event)
        slot.changes.append(_Change(at, claim=_Claim(holder)))

    def on_external_begin(self, event: e.ClaimActivated) -> None:
        user = self._holders.get(event.slot, "")
        self._active[event.slot] = JobRun(event.job, user, "", event.slot, event.at, EVER, RUNNING)

    def on_external_end(self, event: e.ClaimDeactivated | e.ClaimEnded) -> None:
        run = self._active.pop(event.slot, None)
        if run is not None:
            self.external.append(_ended(run, event.at, ENDED))

    def on_writer(self, event: e.WriterBegan) -> None:
        """Mark the time from the previous event until a pool's restart as unknown."""
        if self.last and event.epoch > 1:
            for slot in self.slots.values():
                if slot.exists:
                    pair = slot.pair
                    slot.change(self.last, pair="")
                    slot.change(max(self.last, event.at), pair=pair)

    def on_gap(self, event: e.SourceGap | e.SourceRefused) -> None:
        """Mark the states of the slots as unknown until their next records. An unreadable record that begins with the
        name of a slot is about that slot."""
        if self.sources is None or self.sources.kind(event.source) != "startlog":
            return
        chain = self.sources.chain(event.source)
        last = self._times.get(chain, 0)
        since = event.since if isinstance(event, e.SourceGap) and event.since else last
        text = event.text if isinstance(event, e.SourceRefused) and ": " in event.text else None
        for name in self._chain_slots.get(chain, ()):
            if self.slots[name].exists and (text is None or text.startswith(SlotName.parse(name).slot)):
                self.slots[name].change(max(since, last), pair="")

    def on_daemon(self, event: e.DaemonReported) -> None:
        """Mark the states of a startd's slots as unknown from its end, or from its last record if it did not log its
        end, until they are created again. Its dynamic slots end."""
        chain = self._chain(event)
        if event.daemon != "startd" or event.said not in ("began", "ended") or chain < 0:
            return
        last = self._times.get(chain, event.at)
        at = self._first[chain] = self._instant(event, chain)
        if event.said == "began":
            self._starts.setdefault(event.machine, []).append(at)
        for name in self._chain_slots.pop(chain, ()):
            slot = self.slots[name]
            if slot.exists:
                is_dynamic = SlotName.parse(name).dynamic
                slot.change(last if event.said == "began" else at, pair="", exists=False if is_dynamic else None)
                slot.exists, slot.ended_at = False, 0 if is_dynamic else at

    def on_entries(self, event: e.JobsLogged) -> None:
        for at, _, _, _, number, text in event.entries:
            self.last = max(self.last, at)
            if number == 1 and (entry := _ENTRY.search(text)) is not None:
                self.slot_cores.setdefault(entry[1], float(entry[2]))

    def finish(self, runs: Iterable[JobRun]) -> dict[str, _Claim]:
        """Add the changes that the runs cause. Return the user and group of each submitter who has a group."""
        runs = [*runs, *self.external, *(_ended(run, self.last, RUNNING) for run in self._active.values())]
        for known in self.slots.values():
            if known.ended_at:
                known.changes.append(_Change(known.ended_at, exists=False))
        self.last = max([self.last, *(run.ended for run in runs)])
        recorded = set(self.slots)
        begins: dict[str, list[int]] = {}
        for run in (ordered := sorted(runs, key=lambda run: (run.began, run.ended))):
            begins.setdefault(run.slot, []).append(run.began)
        for run in ordered:
            slot = self._slot_of_run(run)
            if run.outcome == RUNNING:  # if no record shows its end, it ended when the slot's next run began
                end = next((at for at in begins[run.slot] if at > run.began), self.last)
                run = _ended(run, end, RUNNING if end == self.last else ENDED)
            if slot is not None and run.ended > run.began:
                slot.changes += [_Change(run.began, begun=run), _Change(run.ended, ended=run)]
        for slot in (self.slots[name] for name in self.slots.keys() - recorded):
            ended = max(change.at for change in slot.changes)
            starts = (at for at in self._starts.get(slot.machine, ()) if at >= ended)
            slot.changes.append(_Change(next(starts, EVER), exists=False))
        return {f"{run.group}.{run.user}": _Claim(run.user, run.group) for run in runs if run.group}

    def _slot_of_run(self, run: JobRun) -> _Slot | None:
        """Return the slot of a run, or None if it needed no slot (local universe) or no record names it."""
        name = SlotName.parse(run.slot)
        if not run.slot or name.slot == "local":
            return None
        slot = self.slots.get(run.slot)
        if slot is None:
            slot = self.slots[run.slot] = _Slot(run.slot, name.machine)
            slot.change(run.began, exists=not name.dynamic, cores=self.slot_cores.get(run.slot))
        return slot


_TAKE: Final = handlers_of(_Collector)


class SlotTimes(NamedTuple):
    """The slots of a log with their changes, and the runs on them, from which ``intervals`` computes the intervals."""

    slots: dict[str, _Slot]
    runs: list[JobRun]
    last: int  #: the instant of the log's last event
    groups: dict[str, _Claim]
    imported: bool

    def intervals(self, since: int = 0, until: int = EVER) -> Iterator[SlotInterval]:
        """Yield the intervals of each slot between two instants, sorted by slot and time."""
        families: dict[str, list[str]] = {}
        for name in sorted(self.slots):
            parsed = SlotName.parse(name)
            parent = str(parsed.parent) if self.imported and parsed.dynamic else name
            families.setdefault(parent if parent in families else name, []).append(name)
        for names in families.values():
            members = [_intervals_of(self.slots[name], self.groups, self.last) for name in names]
            for intervals in _shared(members) if len(members) > 1 else members:
                for piece in intervals:
                    begin, end = max(piece.begin, since), min(piece.end, until)
                    if begin < end:
                        yield piece._replace(begin=begin, end=end)


def slot_times(
    log: EventStore,
    watch: Callable[[Iterator[e.LoggedEvent]], Iterator[e.LoggedEvent]] = iter,
    known_until: int = 0,
) -> SlotTimes:
    """Read the slots and runs of a log.

    :param watch: receives the log's events, and yields them
    :param known_until: until when the pool is known to have run, if that is later than the log's last event
    """
    imported = is_imported(log)
    collector = _Collector(Sources() if imported else None)
    runs = list(own_runs(collector.watch(watch(log.read()))))
    if imported:
        runs = runs_of(log).runs
    collector.last = max(collector.last, known_until)
    groups = collector.finish(runs)
    return SlotTimes(collector.slots, runs, collector.last, groups, imported)


def slot_intervals(
    log: EventStore, since: int = 0, until: int = EVER, *, known_until: int = 0
) -> Iterator[SlotInterval]:
    """Yield the intervals of each slot between two instants, sorted by slot and time.

    A slot's intervals have no gaps and do not overlap, from the slot's creation to its end or the log's last event. If
    a slot was created again later, a pause lies between.

    :param known_until: until when the pool is known to have run, if that is later than the log's last event
    """
    return slot_times(log, known_until=known_until).intervals(since, until)


def _intervals_of(slot: _Slot, groups: dict[str, _Claim], last: int) -> list[SlotInterval]:
    """Return a slot's intervals until the log's last instant."""
    intervals: list[SlotInterval] = []
    exists, pair, claim, cores = False, "", _Claim(), 1.0
    active: list[JobRun] = []
    changes = sorted(slot.changes, key=lambda change: change.at)
    for change, end in zip(changes, [*(min(change.at, last) for change in changes[1:]), last], strict=True):
        exists = exists if change.exists is None else change.exists
        pair = pair if change.pair is None else change.pair
        claim = claim if change.claim is None else groups.get(change.claim.user, change.claim)
        cores = cores if change.cores is None else change.cores
        if change.begun is not None:
            active.append(change.begun)
            claim = _Claim(change.begun.user, change.begun.group)
        if change.ended is not None:
            active.remove(change.ended)
        if change.at < end and (exists or active):
            run = active[-1] if active else None
            kind = _class_of(pair, run)
            slot_state, _, activity = pair.partition("/")
            user, group = claim if run is not None or slot_state in _HELD else _Claim()
            job = "" if run is None else run.job
            cause = run.cause.name if run is not None and kind == BADPUT else ""
            piece = SlotInterval(
                slot.name, slot.machine, change.at, end, kind, slot_state, activity, job, user, group, cause, cores
            )  # fmt: skip
            _append(intervals, piece)
    return intervals


def _class_of(pair: str, run: JobRun | None) -> str:
    if pair == _SUSPENDED:
        return "suspended"
    if run is not None:
        return _RUN_KINDS[run.outcome]
    kind = state(pair).lower()
    return kind if kind in CLASSES else "unknown"


def _append(intervals: list[SlotInterval], piece: SlotInterval) -> None:
    """Append an interval, or extend the last one if nothing else changed."""
    previous = intervals[-1] if intervals else None
    if (
        previous is not None
        and previous.end == piece.begin
        and previous == piece._replace(begin=previous.begin, end=piece.begin)
    ):
        intervals[-1] = previous._replace(end=piece.end)
    else:
        intervals.append(piece)


def _shared(members: list[list[SlotInterval]]) -> list[list[SlotInterval]]:
    """Return the intervals of a partitionable slot and its dynamic slots with the cores divided among them. The
    partitionable slot is the first member, and has all cores until now."""
    shares: list[list[SlotInterval]] = [[] for _ in members]
    ends = ((piece.end, False, number, piece) for number, intervals in enumerate(members) for piece in intervals)
    begins = ((piece.begin, True, number, piece) for number, intervals in enumerate(members) for piece in intervals)
    whole_pieces: dict[int, SlotInterval] = {}  #: the current interval of each existing member
    shown_pieces: dict[int, SlotInterval] = {}  #: the same, with its cores, since these last changed
    used, is_scarce = 0.0, False
    for at, changes in groupby(sorted([*ends, *begins], key=itemgetter(0, 1)), key=itemgetter(0)):
        changed = {0}
        for _, is_begin, number, piece in changes:
            used += (piece.cores if is_begin else -piece.cores) if number else 0.0
            if is_begin:
                whole_pieces[number] = piece
                changed.add(number)
            else:
                del whole_pieces[number]
                _append(shares[number], shown_pieces.pop(number)._replace(end=at))
        left = whole_pieces[0].cores if 0 in whole_pieces else float(EVER)
        was_scarce, is_scarce = is_scarce, used > left
        if not is_scarce and not was_scarce:
            left -= used - sum(whole_pieces[number].cores for number in changed & whole_pieces.keys() if number)
        numbers = whole_pieces.keys() if is_scarce or was_scarce else changed & whole_pieces.keys()
        # Slots that are being preempted for others, and finally the partitionable slot, have what is left.
        for number in sorted(
            numbers, key=lambda number: (not number, whole_pieces[number].state == "Preempting", number)
        ):
            piece, shown = whole_pieces[number], shown_pieces.get(number)
            cores = min(piece.cores, left)
            left -= cores
            if shown is not None and shown.cores != cores:
                _append(shares[number], shown._replace(end=at))
            if shown is None or shown.cores != cores:
                shown_pieces[number] = piece._replace(begin=at, cores=cores)
    return shares


def _ended(run: JobRun, at: int, outcome: str) -> JobRun:
    return JobRun(run.job, run.user, run.group, run.slot, run.began, at, outcome)


def _number(text: str) -> float:
    """Return the value of a number in an ad; 1, HTCondor's default of Cpus, if the text is not a number."""
    try:
        return float(text)
    except ValueError:
        return 1.0
