"""Daemons that died, as the records of a real pool show it: one whose parent tells of the signal that ended it, one
that began anew without having ended, and a master that its daemons found gone.

A log that begins with a daemon's beginning tells of no death, and neither does one with a gap before it: something of
the same log must show that the daemon was there before. When it died is known up to what it wrote last; of a startd
that is what it wrote of the slot that is asked about, of a schedd what it wrote of the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Final

from attrs import define, field

from ...domain import events as e
from ...domain.imported.record_sources import place_of
from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ..forensics.audit.tolerances import AFTERWARDS, UNSAVED
from ..forensics.imported_log import PlaceNames
from ..narration.formatting import EVER
from .job_run import Death
from .slot_records import LATER, SlotRecords, left_for

_LOGS: Final = {
    "schedd": "schedlog", "negotiator": "negotiatorlog", "collector": "collectorlog", "master": "masterlog",
}  # fmt: skip
"""The daemons of which a pool has few, and the kind of their logs."""


Heard = Callable[[], Sequence[e.LoggedEvent]]  #: what else a daemon told, read if it is needed


@define
class Deaths:
    """The deaths that a log tells of, found as they are asked for."""

    log: EventStore
    places: PlaceNames
    slots: SlotRecords
    zone: tzinfo = UTC  #: of the times in words
    _machines: dict[str, list[tuple[int, e.DaemonReported]]] = field(factory=dict)
    _clusters: dict[str, list[e.LoggedEvent]] = field(factory=dict)
    _few: dict[str, list[str]] = field(factory=dict)
    """Of daemons of which there are few: the machines on which their logs say that they are."""

    def of_run(
        self,
        slot: str,
        job: str,
        began: int,
        ended: int,
        run: Sequence[e.LoggedEvent],
        attended: int = 0,
        *,
        told: bool = True,
    ) -> Death | None:
        """The death that a job's run came to its end by: of its starter, its startd, its shadow or its schedd, the
        first of these. `run`: what the slot's log has of the run; `attended`: when its shadow found it again, if one
        did: it has outlived what its schedd died of before; `told`: whether its access point, which was there then,
        tells of the end."""
        death = _of_starter(slot, job, ended, run) or (self._of_startd(slot, began, ended) if slot else None)
        if death is not None:
            return death
        heard = self._told_by_schedds(job)
        if (death := _of_shadow(job, began, ended, heard)) is not None:
            return death
        since = max(began, attended, _taken_up(job, began, ended, heard))
        known = ended + LATER if told else EVER
        return next((death for death in self._of_schedd(job, since, ended) if death.at <= known), None)

    def of_schedd(self, job: str, since: int, again: int) -> Death | None:
        """The last death since an instant of a schedd that was there again at another, or of the master for which it
        had ended."""
        since -= SECOND  # a run may begin in the second in which its schedd dies
        found = [death for death in self._of_schedd(job, since, again) if death.at <= again + LATER]
        gone = [death for death in self._masters_of("schedd", since) if death.at <= again + LATER]
        return max([*found, *gone], key=lambda death: death.at, default=None)

    def forgetting(self, job: str, did: int, again: int) -> Death | None:
        """The death of a schedd soon after it did something with a job and soon before it did that again: what it
        wrote last of its job_queue.log was not on disk."""
        for death in self._of_schedd(job, did - SECOND, again):
            if (death.since or death.at) <= did + UNSAVED and death.at - LATER <= again <= death.at + AFTERWARDS:
                return death
        return None

    def _of_schedd(self, job: str, since: int, until: int) -> Iterator[Death]:
        return self._of_few("schedd", since, until, lambda: self._told_by_schedds(job))

    def while_waiting(self, since: int) -> list[Death]:
        """Of each daemon without which no job gets a slot (negotiator, collector, master), the last death since an
        instant, the last one first."""
        last = []
        for daemon in ("negotiator", "collector", "master"):
            heard: Heard = partial(self._read, "negotiator") if daemon == "negotiator" else list
            last.append(max(self._of_few(daemon, since, EVER, heard), key=lambda death: death.at, default=None))
        return sorted((death for death in last if death is not None), key=lambda death: -death.at)

    def _masters_of(self, daemon: str, since: int) -> Iterator[Death]:
        for machine in self._machines_of(daemon):
            yield from (death for death in self._orphaned(daemon, machine) if death.at > since)

    def _orphaned(self, daemon: str, machine: str) -> Iterator[Death]:
        """The deaths of a machine's master that a daemon of it found."""
        for position, event in self._daemons(machine, daemon):
            if _said(event) == "ended" and event.facts.get("orphaned"):
                told = [one for _, one in self._by_master(machine) if one.at <= event.at]
                last = max(told, key=lambda one: one.at, default=None)
                since, heard = (0, "") if last is None else (last.at, last.stimulus)
                known = f"its {daemon} found it gone"
                yield Death("master", machine, since, event.at, "", position, event.stimulus, known, heard)

    def _by_master(self, machine: str) -> list[tuple[int, e.DaemonReported]]:
        """What a machine's master tells."""
        return [one for one in self._daemons(machine, "") if self.places.kind(one[1].stimulus) == _LOGS["master"]]

    def _daemons(self, machine: str, daemon: str) -> list[tuple[int, e.DaemonReported]]:
        """What is told of a daemon's life on a machine (empty: of each one's), in the log's order."""
        if machine not in self._machines:
            told = self._read(f"machine/{machine}")
            self._machines[machine] = [(at, event) for at, event in told if isinstance(event, e.DaemonReported)]
        return [told for told in self._machines[machine] if daemon in ("", told[1].daemon)]

    def _told_by_schedds(self, job: str) -> list[e.LoggedEvent]:
        """What schedds' logs tell of the jobs of a job's cluster."""
        cluster = job.partition(".")[0]
        if cluster not in self._clusters:
            self._clusters[cluster] = [
                told
                for told in self._read(f"cluster/{cluster}")
                if isinstance(told[1], e.JobReported) and self.places.kind(told[1].stimulus) == _LOGS["schedd"]
            ]
        return self._clusters[cluster]

    def _of_startd(self, slot: str, began: int, ended: int) -> Death | None:
        return next(self._on("startd", self._machine(slot), began, ended, lambda: self.slots.records(slot)), None)

    def _machine(self, slot: str) -> str:
        made = (event.machine for _, event in self.slots.records(slot) if isinstance(event, e.SlotCreated))
        return next(made, slot.partition("@")[2])

    def _read(self, stream: str) -> list[e.LoggedEvent]:
        until = self.slots.until
        return [told for told in self.log.read_stream(stream) if until is None or told[1].at <= until]

    def _of_few(self, daemon: str, began: int, ended: int, told: Heard) -> Iterator[Death]:
        for machine in self._machines_of(daemon):
            yield from self._on(daemon, machine, began, ended, told)

    def _machines_of(self, daemon: str) -> list[str]:
        """The machines that may have a daemon of which there are few."""
        if daemon not in self._few:
            kinds = (_LOGS[daemon], _LOGS["master"])
            self._few[daemon] = sorted({one.machine for one in self.places.all() if one.kind in kinds})
        return self._few[daemon]

    def _on(self, daemon: str, machine: str, began: int, ended: int, heard: Heard) -> Iterator[Death]:
        """The deaths of a daemon on a machine within a time: those of which its master tells, and those by which it
        began anew of which its master does not."""
        told = [one for one in self._daemons(machine, daemon) if _said(one[1]) == "died"]
        known = [
            Death(daemon, machine, 0, event.at, event.facts.get("how", ""), position, event.stimulus)
            for position, event in told
            if began < event.at <= ended + LATER
        ]
        anew = [
            death
            for death in self._anew(daemon, machine, began, ended, heard)
            if not any(death.since - LATER <= event.at <= death.at + LATER for _, event in told)
        ]
        yield from sorted([*known, *anew], key=lambda death: death.at)

    def _anew(self, daemon: str, machine: str, began: int, ended: int, heard: Heard) -> Iterator[Death]:
        """The beginnings of a daemon without an end before them: it was heard of before a run ended, and had not begun
        anew when the run began."""
        life = [one for one in self._daemons(machine, daemon) if _said(one[1]) != "died"]
        for number, (position, event) in enumerate(life):
            if _said(event) != "began" or event.at <= began:
                continue
            same = [told for told in life[:number] if self._same_log(told[1], event)]
            if same and _said(same[-1][1]) == "ended":
                continue
            heard_last = self._by_master(machine) if daemon == "master" else heard()
            before = [*same, *(told for told in heard_last if told[0] < position and self._same_log(told[1], event))]
            if not before or self._gap(max(before, key=lambda told: told[0])[1], event):
                continue
            last = max((told[1] for told in before), key=lambda told: told.at)
            if last.at <= ended + LATER:
                yield Death(daemon, machine, last.at, event.at, "", position, event.stimulus, heard=last.stimulus)

    def _same_log(self, event: e.Event, other: e.Event) -> bool:
        return self.places.chain(event.stimulus) == self.places.chain(other.stimulus)

    def _gap(self, event: e.Event, other: e.Event) -> bool:
        """Whether lines are missing between two records of one log."""
        first, last = place_of(event.stimulus), place_of(other.stimulus)
        if first is None or last is None:
            return True
        return any(
            isinstance(gap, e.SourceGap)
            and (source != first.source or gap.line > first.line)
            and (source != last.source or gap.line <= last.line)
            for source in {first.source, last.source}
            for _, gap in self.log.read_stream(f"source/{source}")
        )


def _said(event: e.Event) -> str:
    return event.said if isinstance(event, e.DaemonReported) else ""


def killed(event: e.Event) -> str:
    """By what a shadow died, in the schedd's words, if a signal ended it; else empty."""
    if not isinstance(event, e.JobReported) or event.said != "shadow_gone":
        return ""
    how = event.facts.get("reason", "")
    return how if "signal" in how else ""


def _of_shadow(job: str, began: int, ended: int, told: Iterable[e.LoggedEvent]) -> Death | None:
    """A shadow of the run that a signal ended. One that was there before the run had another."""
    earlier: set[str] = set()
    for position, event in told:
        if not isinstance(event, e.JobReported) or f"{event.cluster}.{event.proc}" != job:
            continue
        shadow = event.facts.get("shadow", "")
        if event.said == "shadow_began" and event.at < began - LATER:
            earlier.add(shadow)
        elif event.said == "shadow_began":
            earlier.discard(shadow)
        elif (how := killed(event)) and shadow not in earlier and began - LATER <= event.at <= ended + LATER:
            return Death("shadow", "", 0, event.at, how, position, event.stimulus)
    return None


def _taken_up(job: str, began: int, ended: int, told: Iterable[e.LoggedEvent]) -> int:
    """When a shadow last took a job up that was running already, and was not gone when its run ended; 0 if none did."""
    found: dict[str, int] = {}
    for _, event in told:
        if not isinstance(event, e.JobReported) or f"{event.cluster}.{event.proc}" != job or event.at > ended + LATER:
            continue
        shadow = event.facts.get("shadow", "")
        if event.said == "shadow_gone":
            found.pop(shadow, None)
        elif event.said == "shadow_began" and event.at > began and not event.facts.get("slot"):
            found[shadow] = event.at
    return max(found.values(), default=0)


def _of_starter(slot: str, job: str, ended: int, run: Sequence[e.LoggedEvent]) -> Death | None:
    """A starter that a signal ended, and not its startd, which kills one that does not end."""
    for position, event in run:
        if (
            isinstance(event, e.SlotReported)
            and event.said == "starter_gone"
            and event.facts.get("job", job) == job
            and "signal" in (how := event.facts.get("status", ""))
            and event.at <= ended + LATER
            and not left_for(list(run), event.at)
        ):
            return Death("starter", slot, 0, event.at, how, position, event.stimulus)
    return None
