"""Find the deaths of daemons in HTCondor's records: a daemon whose parent logged the signal that killed it, a daemon
that restarted without logging an exit, and a master whose daemons noticed that it no longer existed.

A start at the beginning of a log or after a gap is not evidence of a death: an earlier record in the same log must show
that the daemon was running. The daemon died after its last record: for a startd, its last record about the slot in
question, and for a schedd, its last record about the jobs.
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
from .slot_records import LATER, SlotRecords, eviction_moves

_LOG_KINDS: Final = {
    "schedd": "schedlog", "negotiator": "negotiatorlog", "collector": "collectorlog", "master": "masterlog",
}  # fmt: skip
"""The daemons that run on only a few machines of a pool, and the kinds of their logs."""


Reader = Callable[[], Sequence[e.LoggedEvent]]  #: returns a daemon's other records, which are read only if needed


@define
class Deaths:
    """Finds the deaths of daemons in a log, on demand."""

    log: EventStore
    places: PlaceNames
    slots: SlotRecords
    zone: tzinfo = UTC  #: the time zone of times in texts
    _machines: dict[str, list[tuple[int, e.DaemonReported]]] = field(factory=dict)
    _clusters: dict[str, list[e.LoggedEvent]] = field(factory=dict)
    _machine_names: dict[str, list[str]] = field(factory=dict)
    """For each daemon, the machines whose logs show that it runs there."""

    def in_run(
        self,
        slot: str,
        job: str,
        began: int,
        ended: int,
        run: Sequence[e.LoggedEvent],
        attended: int = 0,
        *,
        is_logged: bool = True,
    ) -> Death | None:
        """Return the death that ended a job's run: of its starter, its startd, its shadow or its schedd, checked in
        this order.

        :param run: the slot's records of the run
        :param attended: when a shadow reconnected to the run (0: never), which therefore survived earlier deaths of its
        schedd
        :param is_logged: whether the access point logged the end, and so was running then
        """
        death = _starter_death(slot, job, ended, run) or (self._startd_death(slot, began, ended) if slot else None)
        if death is not None:
            return death
        schedd_records = self._schedd_records(job)
        if (death := _shadow_death(job, began, ended, schedd_records)) is not None:
            return death
        since = max(began, attended, _takeover_time(job, began, ended, schedd_records))
        known_until = ended + LATER if is_logged else EVER
        return next((death for death in self._schedd_deaths(job, since, ended) if death.at <= known_until), None)

    def last_schedd_death(self, job: str, since: int, restart_at: int) -> Death | None:
        """Return the last death since an instant of a schedd that was running again by `restart_at`, or of the master
        whose death made the schedd exit."""
        since -= SECOND  # a run may start in the second in which its schedd dies
        deaths = [death for death in self._schedd_deaths(job, since, restart_at) if death.at <= restart_at + LATER]
        gone = [death for death in self._masters_of("schedd", since) if death.at <= restart_at + LATER]
        return max([*deaths, *gone], key=lambda death: death.at, default=None)

    def death_before_repetition(self, job: str, at: int, restart_at: int) -> Death | None:
        """Return the death of a schedd soon after it changed a job and soon before it repeated the change, because the
        end of its job_queue.log had not been written to disk."""
        for death in self._schedd_deaths(job, at - SECOND, restart_at):
            if (death.since or death.at) <= at + UNSAVED and death.at - LATER <= restart_at <= death.at + AFTERWARDS:
                return death
        return None

    def _schedd_deaths(self, job: str, since: int, until: int) -> Iterator[Death]:
        return self._deaths_on_all("schedd", since, until, lambda: self._schedd_records(job))

    def while_waiting(self, since: int) -> list[Death]:
        """Return the last death since an instant of each daemon needed to match a job (negotiator, collector, master),
        the latest first."""
        last_deaths = []
        for daemon in ("negotiator", "collector", "master"):
            read: Reader = partial(self._read, "negotiator") if daemon == "negotiator" else list
            last_deaths.append(
                max(self._deaths_on_all(daemon, since, EVER, read), key=lambda death: death.at, default=None)
            )
        return sorted((death for death in last_deaths if death is not None), key=lambda death: -death.at)

    def _masters_of(self, daemon: str, since: int) -> Iterator[Death]:
        for machine in self._machines_of(daemon):
            yield from (death for death in self._noticed_deaths(daemon, machine) if death.at > since)

    def _noticed_deaths(self, daemon: str, machine: str) -> Iterator[Death]:
        for position, event in self._reports(machine, daemon):
            if _status(event) == "ended" and event.facts.get("orphaned"):
                reports = [report for _, report in self._by_master(machine) if report.at <= event.at]
                last_report = max(reports, key=lambda one: one.at, default=None)
                since, last_stimulus = (0, "") if last_report is None else (last_report.at, last_report.stimulus)
                death_text = f"its {daemon} found it gone"
                yield Death("master", machine, since, event.at, "", position, event.stimulus, death_text, last_stimulus)

    def _by_master(self, machine: str) -> list[tuple[int, e.DaemonReported]]:
        return [r for r in self._reports(machine, "") if self.places.kind(r[1].stimulus) == _LOG_KINDS["master"]]

    def _reports(self, machine: str, daemon: str) -> list[tuple[int, e.DaemonReported]]:
        """Return the records of a daemon's starts and ends, in log order, on one machine or (if empty) on all
        machines."""
        if machine not in self._machines:
            report = self._read(f"machine/{machine}")
            self._machines[machine] = [(at, event) for at, event in report if isinstance(event, e.DaemonReported)]
        return [report for report in self._machines[machine] if daemon in ("", report[1].daemon)]

    def _schedd_records(self, job: str) -> list[e.LoggedEvent]:
        cluster = job.partition(".")[0]
        if cluster not in self._clusters:
            self._clusters[cluster] = [
                record
                for record in self._read(f"cluster/{cluster}")
                if isinstance(record[1], e.JobReported) and self.places.kind(record[1].stimulus) == _LOG_KINDS["schedd"]
            ]
        return self._clusters[cluster]

    def _startd_death(self, slot: str, began: int, ended: int) -> Death | None:
        return next(
            self._deaths_on("startd", self._machine(slot), began, ended, lambda: self.slots.records(slot)), None
        )

    def _machine(self, slot: str) -> str:
        machines = (event.machine for _, event in self.slots.records(slot) if isinstance(event, e.SlotCreated))
        return next(machines, slot.partition("@")[2])

    def _read(self, stream: str) -> list[e.LoggedEvent]:
        until = self.slots.until
        return [record for record in self.log.read_stream(stream) if until is None or record[1].at <= until]

    def _deaths_on_all(self, daemon: str, began: int, ended: int, read_records: Reader) -> Iterator[Death]:
        for machine in self._machines_of(daemon):
            yield from self._deaths_on(daemon, machine, began, ended, read_records)

    def _machines_of(self, daemon: str) -> list[str]:
        if daemon not in self._machine_names:
            kinds = (_LOG_KINDS[daemon], _LOG_KINDS["master"])
            self._machine_names[daemon] = sorted({place.machine for place in self.places.all() if place.kind in kinds})
        return self._machine_names[daemon]

    def _deaths_on(self, daemon: str, machine: str, began: int, ended: int, read_records: Reader) -> Iterator[Death]:
        """Yield a daemon's deaths on a machine within a time: deaths in its master's log, and restarts without such a
        record."""
        death_reports = [report for report in self._reports(machine, daemon) if _status(report[1]) == "died"]
        known_deaths = [
            Death(daemon, machine, 0, event.at, event.facts.get("how", ""), position, event.stimulus)
            for position, event in death_reports
            if began < event.at <= ended + LATER
        ]
        restart_deaths = [
            death
            for death in self._restarts(daemon, machine, began, ended, read_records)
            if not any(death.since - LATER <= event.at <= death.at + LATER for _, event in death_reports)
        ]
        yield from sorted([*known_deaths, *restart_deaths], key=lambda death: death.at)

    def _restarts(self, daemon: str, machine: str, began: int, ended: int, read_records: Reader) -> Iterator[Death]:
        """Yield a daemon's starts that are not preceded by an end, if its last record before the start is older than
        the run's end, and the start is later than the run's start."""
        life_reports = [report for report in self._reports(machine, daemon) if _status(report[1]) != "died"]
        for number, (position, event) in enumerate(life_reports):
            if _status(event) != "began" or event.at <= began:
                continue
            same = [record for record in life_reports[:number] if self._same_log(record[1], event)]
            if same and _status(same[-1][1]) == "ended":
                continue
            last_records = self._by_master(machine) if daemon == "master" else read_records()
            earlier_records = [*same, *(r for r in last_records if r[0] < position and self._same_log(r[1], event))]
            if not earlier_records or self._has_gap(max(earlier_records, key=lambda record: record[0])[1], event):
                continue
            last = max((record for _, record in earlier_records), key=lambda record: record.at)
            if last.at <= ended + LATER:
                yield Death(daemon, machine, last.at, event.at, "", position, event.stimulus, last_seen=last.stimulus)

    def _same_log(self, event: e.Event, other_event: e.Event) -> bool:
        return self.places.chain(event.stimulus) == self.places.chain(other_event.stimulus)

    def _has_gap(self, event: e.Event, other_event: e.Event) -> bool:
        first_place, last_place = place_of(event.stimulus), place_of(other_event.stimulus)
        if first_place is None or last_place is None:
            return True
        return any(
            isinstance(gap, e.SourceGap)
            and (source != first_place.source or gap.line > first_place.line)
            and (source != last_place.source or gap.line <= last_place.line)
            for source in {first_place.source, last_place.source}
            for _, gap in self.log.read_stream(f"source/{source}")
        )


def _status(event: e.Event) -> str:
    return event.said if isinstance(event, e.DaemonReported) else ""


def kill_reason(event: e.Event) -> str:
    """Return the schedd's description of a shadow's death by a signal, or "" if no signal killed it."""
    if not isinstance(event, e.JobReported) or event.said != "shadow_gone":
        return ""
    status_text = event.facts.get("reason", "")
    return status_text if "signal" in status_text else ""


def _shadow_death(job: str, began: int, ended: int, records: Iterable[e.LoggedEvent]) -> Death | None:
    """Return the death of a run's shadow by a signal. A shadow that is older than the run belonged to an earlier
    run."""
    earlier: set[str] = set()
    for position, event in records:
        if not isinstance(event, e.JobReported) or f"{event.cluster}.{event.proc}" != job:
            continue
        shadow = event.facts.get("shadow", "")
        if event.said == "shadow_began" and event.at < began - LATER:
            earlier.add(shadow)
        elif event.said == "shadow_began":
            earlier.discard(shadow)
        elif (reason := kill_reason(event)) and shadow not in earlier and began - LATER <= event.at <= ended + LATER:
            return Death("shadow", "", 0, event.at, reason, position, event.stimulus)
    return None


def _takeover_time(job: str, began: int, ended: int, records: Iterable[e.LoggedEvent]) -> int:
    """Return when the last shadow took over the running job, if that shadow still existed at the run's end; else 0."""
    taken_up: dict[str, int] = {}
    for _, event in records:
        if not isinstance(event, e.JobReported) or f"{event.cluster}.{event.proc}" != job or event.at > ended + LATER:
            continue
        shadow = event.facts.get("shadow", "")
        if event.said == "shadow_gone":
            taken_up.pop(shadow, None)
        elif event.said == "shadow_began" and event.at > began and not event.facts.get("slot"):
            taken_up[shadow] = event.at
    return max(taken_up.values(), default=0)


def _starter_death(slot: str, job: str, ended: int, run: Sequence[e.LoggedEvent]) -> Death | None:
    """Return the death of a starter by a signal, unless its startd killed it because it did not exit."""
    for position, event in run:
        if (
            isinstance(event, e.SlotReported)
            and event.said == "starter_gone"
            and event.facts.get("job", job) == job
            and "signal" in (status_text := event.facts.get("status", ""))
            and event.at <= ended + LATER
            and not eviction_moves(list(run), event.at)
        ):
            return Death("starter", slot, 0, event.at, status_text, position, event.stimulus)
    return None
