"""Fold the pool's events into events of user logs, in the order in which they are written.

docs/userlog.md describes when each event is written. Events of the pool without a handler here do not affect user logs.

Source: the manual's "Job Event Log Codes"; for the order and unspecified details, logs of an HTCondor pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ....domain import events as e
from ....domain.events.handlers import handlers_of
from ....domain.schedd.job_submission import warning_heading, warnings_text
from ....domain.state.job_ad import SKIPPED, failed_to_start, quoted, unquoted
from ....domain.state_machines import LEFT
from ....domain.state_machines.hold_codes import (
    ACCESS_POINT_CODES,
    CLAIM_DEACTIVATED,
    EVICTION_REASONS,
    JOB_NOT_FOUND,
    REMOVED_CODE,
    UNSPECIFIED_INTERRUPTION,
    StopReason,
    goes_on_hold,
)
from . import event_text, job_information
from .logged_clusters import (
    LogFile,
    LoggedCluster,
    LoggedRun,
    Place,
    address,
    attributes_of,
    available_devices,
    changed_place,
    contains_proc,
    listed_names,
    local_place,
    resource_table,
    run_place,
    without_procs,
)

Body = str | Callable[[int], str]
"""An event's text: one text for all jobs, or a function that returns the text for a process number."""
Entry = tuple[LoggedCluster, e.Procs, int, Body]  #: a user log event of some jobs: its number and body

FACTORY = ((-1, -1),)
"""The process number of a cluster itself."""
CLUSTER_SUBMIT, CLUSTER_REMOVE, FACTORY_PAUSED, FACTORY_RESUMED = 35, 36, 37, 38
SUBMIT, EXECUTE, EVICT, TERMINATE, IMAGE_SIZE, ABORT, SUSPEND, UNSUSPEND = 0, 1, 4, 5, 6, 9, 10, 11
GENERIC = 8
HOLD, RELEASE, REMOTE_ERROR, ATTRIBUTE, TRANSFER = 12, 13, 21, 33, 40
DISCONNECTED, RECONNECTED, RECONNECT_FAILED, DATAFLOW = 22, 23, 24, 46

PRIORITY = "JobPrio"  #: the only attribute whose change is logged (033): condor_prio changes it
PROCESSES = 1  #: suspended processes: the pool's log does not say how many; the job's own is one

_BY_MACHINE = "held_by_machine"  #: the cause of a hold by WANT_HOLD, which the startd reports as an error


_OfARun = (
    e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured | e.JobDisconnected | e.JobReconnected
    | e.JobSignalled | e.JobExited
)  # fmt: skip


class UserLogs:
    """Folds the pool's events into the texts of user logs. ``stamp`` formats instants, by default in local time."""

    def __init__(self, stamp: event_text.Stamp | None = None) -> None:
        self.position = 0  #: the position of the last event that was folded
        self._stamp = stamp or event_text.stamp_formatter()
        self._host = address("localhost")
        self._dialect = ""
        self._hosts: dict[str, str] = {}
        self._machines: dict[str, e.Ad] = {}
        self._places: dict[str, Place] = {}
        self._clusters: dict[int, LoggedCluster] = {}
        self._leaving: dict[str, StopReason] = {}  #: by slot: why its claim is about to end, if the reason is logged
        self._runs: dict[tuple[int, int], LoggedRun] = {}

    def fold(self, position: int, event: e.Event) -> list[tuple[LogFile, str]]:
        """Fold the event at `position`; return the resulting texts with their files, in order."""
        entries = self._entries(position, event)
        return _merged(self._texts(entry, event, self._stamp(event.at)) for entry in entries) if entries else []

    def skip(self, position: int, event: e.Event) -> None:
        """Fold an event whose texts were already written."""
        self._entries(position, event)

    def _entries(self, position: int, event: e.Event) -> list[Entry]:
        self.position = position
        rule = _RULES.get(type(event))
        return [] if rule is None else list(rule(self, event) or ())

    def _texts(self, entry: Entry, event: e.Event, stamp: str) -> Iterator[tuple[LogFile, str]]:
        cluster, procs, number, body = entry
        if cluster.path == "":
            return
        is_informing = cluster.has(job_information.ASKED)
        header_begin, header_end = event_text.header_parts(number, cluster.id, stamp)
        if cluster.path is not None and isinstance(body, str) and not is_informing:
            entry_end = f"{header_end}{body}{event_text.END}"
            texts = [f"{header_begin}{proc:03d}{entry_end}" for first, last in procs for proc in range(first, last + 1)]
            yield LogFile(cluster.path, cluster.owner), "".join(texts)
            return
        for first, last in procs:
            for proc in range(first, last + 1):
                path = cluster.path_of(max(proc, 0))
                if path:
                    text = body if isinstance(body, str) else body(proc)
                    yield LogFile(path, cluster.owner), f"{header_begin}{proc:03d}{header_end}{text}{event_text.END}"
                    if is_informing:
                        information = job_information.information_event(cluster, proc, number, event, stamp)
                        yield LogFile(path, cluster.owner), information

    # The pool, its machines and slots: where jobs run

    def on_founded(self, event: e.PoolFounded) -> None:
        self._host, self._dialect = address(event.name), event.dialect

    def on_machine(self, event: e.MachineJoined) -> None:
        self._hosts[event.machine] = unquoted(event.ad.get("MyAddress", "")) or address(event.machine)
        self._machines[event.machine] = event.ad

    def on_machine_left(self, event: e.MachineLeft) -> None:
        self._hosts.pop(event.machine, None)
        self._machines.pop(event.machine, None)

    def on_slot(self, event: e.SlotCreated) -> None:
        self._places[event.slot] = run_place(event.slot, event.machine, event.ad)

    def on_slot_changed(self, event: e.SlotAdChanged) -> None:
        known_place = self._places.get(event.slot)
        if known_place is not None:
            self._places[event.slot] = changed_place(known_place, event.changes)

    def on_slot_died(self, event: e.SlotDestroyed) -> None:
        self._places.pop(event.slot, None)
        self._leaving.pop(event.slot, None)

    def on_slot_moved(self, event: e.SlotTransitioned) -> None:
        """Store the reason why a claim begins to end, until it has ended or its job may stay."""
        if event.target.startswith(_ENDING):
            eviction_code = EVICTION_REASONS.get(event.cause)
            if eviction_code is not None:
                self._leaving[event.slot] = eviction_code
        elif event.target != "Claimed/Suspended":
            self._leaving.pop(event.slot, None)

    def on_submitted(self, event: e.ClusterSubmitted) -> Iterator[Entry]:
        cluster = LoggedCluster(event)
        if cluster.path == "":
            return
        self._clusters[event.cluster] = cluster

        warnings = warnings_text(event.warnings, self._dialect)
        warning = f"{warning_heading(self._dialect)} {warnings}" if warnings else ""

        def body(proc: int) -> str:
            return event_text.submitted_text(self._host, cluster.submit_notes(proc), warning)

        if event.factory:
            yield cluster, FACTORY, CLUSTER_SUBMIT, event_text.cluster_submitted(self._host)
        else:
            yield cluster, ((0, event.count - 1),), SUBMIT, body(0) if cluster.has_uniform_notes() else body

    def on_materialized(self, event: e.JobsMaterialized) -> Iterator[Entry]:
        cluster = self._clusters.get(event.cluster)
        if cluster is None:
            return
        cluster.live += sum(last - first + 1 for first, last in event.procs)
        cluster.made = event.procs[-1][1] + 1

        def body(proc: int) -> str:
            return event_text.submitted_text(self._host, cluster.submit_notes(proc))

        yield cluster, event.procs, SUBMIT, body(event.procs[0][0]) if cluster.has_uniform_notes() else body

    def on_factory_moved(self, event: e.FactoryTransitioned) -> Iterator[Entry]:
        cluster = self._clusters.get(event.cluster)
        if cluster is None:
            return
        cluster.mode = event.target
        if event.target == "Paused":
            yield cluster, FACTORY, FACTORY_PAUSED, event_text.factory_paused(event.reason)
        elif event.target == "Running":
            yield cluster, FACTORY, FACTORY_RESUMED, event_text.factory_resumed(event.reason)
        elif cluster.ends:
            yield self._cluster_gone(cluster)

    def _cluster_gone(self, cluster: LoggedCluster) -> Entry:
        """Forget a cluster with a factory after its last job has left; return its event."""
        del self._clusters[cluster.id]
        is_complete = cluster.mode != "Removed"
        return cluster, FACTORY, CLUSTER_REMOVE, event_text.cluster_removed(cluster.made, is_complete)

    def on_moved(self, event: e.JobsTransitioned) -> Iterator[Entry]:
        cluster = self._clusters.get(event.cluster)
        if cluster is not None and event.target == LEFT:
            self._forget_jobs(cluster, event.procs)
            if cluster.factory and cluster.ends:
                yield self._cluster_gone(cluster)
        if cluster is None or event.row not in _ROWS:
            return
        number, text = _ROWS[event.row]
        body = text(event.changes)
        running_procs = sorted(proc for proc in cluster.running if contains_proc(event.procs, proc))
        idle_procs = without_procs(event.procs, running_procs)
        if idle_procs:
            yield cluster, idle_procs, number, body
        for proc in running_procs:
            run = self._runs[cluster.id, proc]
            if number not in (SUSPEND, UNSUSPEND):
                run.waiting.append((number, body))
                run.removed = run.removed or number == ABORT
                if event.cause == _BY_MACHINE:
                    run.error = _hold_of(event.changes)
                run.why = run.why or _requested_by_user(event)
                continue
            run.suspended = number == SUSPEND
            if run.executing is not None:
                yield cluster, ((proc, proc),), number, body
        if number == ABORT and event.left:
            self._forget_jobs(cluster, idle_procs)

    def _forget_jobs(self, cluster: LoggedCluster, procs: e.Procs) -> None:
        job_count = sum(last - first + 1 for first, last in procs)
        if job_count > max(len(cluster.spent), len(cluster.sizes), len(cluster.moved)):
            logged_procs = (*cluster.spent, *cluster.sizes, *cluster.moved)
            gone_procs = [proc for proc in logged_procs if contains_proc(procs, proc)]
        else:
            gone_procs = [proc for first, last in procs for proc in range(first, last + 1)]
        for proc in gone_procs:
            cluster.spent.pop(proc, None)
            cluster.moved.pop(proc, None)
            cluster.sizes.pop(proc, None)
        cluster.live -= job_count
        if not (cluster.live or cluster.factory):
            del self._clusters[cluster.id]

    def on_edited(self, event: e.JobsEdited) -> Iterator[Entry]:
        cluster = self._clusters.get(event.cluster)
        if cluster is None:
            return
        if event.number:
            yield from self._chirp_entries(cluster, event)
        priority_after = "" if event.number else event.changes.get(PRIORITY, "")
        if priority_after:
            is_alike = cluster.alike(PRIORITY)
            procs = [0] if is_alike else [proc for first, last in event.procs for proc in range(first, last + 1)]
            priorities_before = {proc: cluster.value(proc, PRIORITY) for proc in procs}

            def body(proc: int) -> str:
                return event_text.attribute_changed(PRIORITY, priorities_before[proc], priority_after)

            yield cluster, event.procs, ATTRIBUTE, body(0) if is_alike else body
        cluster.edit(event.procs, event.changes)

    def _chirp_entries(self, cluster: LoggedCluster, event: e.JobsEdited) -> Iterator[Entry]:
        """Yield the events for the attributes that a job set. Like HTCondor, log immediate but not delayed updates."""
        for name, text in event.changes.items():
            if name not in event.delayed:
                body = event_text.attribute_changed(name, event.before.get(name, ""), text)
                yield cluster, event.procs, ATTRIBUTE, body
        for note in event.notes:
            yield cluster, event.procs, GENERIC, event_text.generic_text(note)

    def on_activated(self, event: e.JobActivated) -> None:
        cluster = self._clusters.get(event.cluster)
        if cluster is not None:
            where = self._places.get(event.slot) or local_place(event.slot)
            host = self._hosts.get(where.machine) or (address(where.machine) if where.machine else self._host)
            run = LoggedRun(where, host, event.at, deferred=bool(event.deferred))
            names = listed_names(cluster.string_value(event.proc, "UserLogExecuteEventAttrs")) if where.machine else []
            if names:
                run.asked = attributes_of(where, self._machines.get(where.machine, {}), names)
            self._runs[event.cluster, event.proc] = run
            cluster.running.add(event.proc)

    def _current_run(self, event: _OfARun) -> LoggedRun | None:
        return self._runs.get((event.cluster, event.proc))

    def on_executing(self, event: e.JobExecuting) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is not None:
            run.executing = event.at
            yield self._entry(event, EXECUTE, _execution_text(run, event.scratch))
            if run.suspended:
                yield self._entry(event, SUSPEND, event_text.suspended_text(PROCESSES))

    def on_transfer_began(self, event: e.JobTransferBegan) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is not None:
            yield self._entry(event, TRANSFER, event_text.transfer_began(event.way, run.host))

    def on_transfer_ended(self, event: e.JobTransferEnded) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is None:
            return
        if not event.failed and event.way != "checkpoint":
            sent_bytes, received_bytes = run.moved
            size = event.size + sum(size for _, _, _, size in event.urls)
            run.moved = (sent_bytes, size) if event.way == "input" else (size, received_bytes)
        yield self._entry(event, TRANSFER, event_text.transfer_ended(event.way))

    def _entry(self, event: Any, number: int, body: Body) -> Entry:
        return self._clusters[event.cluster], ((event.proc, event.proc),), number, body

    def on_measured(self, event: e.JobMeasured) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is None:
            return
        run.resident, run.disk = max(run.resident, event.resident), event.disk
        if run.executing is not None:
            yield from self._size_entries(event, run, event.image, event.resident)

    def _size_entries(
        self, event: e.JobMeasured | e.JobExited, run: LoggedRun, image: int, resident: int
    ) -> Iterator[Entry]:
        if not run.place.machine:
            return
        new_sizes = self._clusters[event.cluster].update_sizes(event.proc, image, resident)
        if new_sizes is not None:
            yield self._entry(event, IMAGE_SIZE, event_text.image_size(*new_sizes))

    def on_disconnected(self, event: e.JobDisconnected) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is not None:
            yield self._entry(
                event, DISCONNECTED, event_text.disconnected(run.place.slot, run.host, event.cause == "writer")
            )

    def on_reconnected(self, event: e.JobReconnected) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is not None:
            yield self._entry(event, RECONNECTED, event_text.reconnected(run.place.slot, run.host))

    def on_signalled(self, event: e.JobSignalled) -> Iterator[Entry]:
        run = self._current_run(event)
        if run is None:
            return
        policy = _vacate_of(event.vacated)
        slot_reason = self._leaving.get(run.place.slot, UNSPECIFIED_INTERRUPTION)
        run.why = policy or run.why or EVICTION_REASONS.get(event.cause) or slot_reason
        if run.suspended and event.how == "soft":  # stopped processes continue, to take the signal
            run.suspended = False
            if run.executing is not None:
                yield self._entry(event, UNSUSPEND, event_text.UNSUSPENDED)

    def on_exited(self, event: e.JobExited) -> Iterator[Entry]:
        run = self._runs.pop((event.cluster, event.proc), None)
        if run is None:
            return
        cluster = self._clusters[event.cluster]
        cluster.running.discard(event.proc)
        usage = (event.user_cpu, event.system_cpu)
        total = cluster.add_usage(event.proc, usage)
        total_moved = cluster.add_transferred_bytes(event.proc, run.moved)
        if SKIPPED in event.changes:
            yield self._entry(event, DATAFLOW, event_text.DATAFLOW_SKIPPED)
        elif event.outcome == "exited" and run.executing is None:
            run.executing = event.at
            yield self._entry(event, EXECUTE, _execution_text(run, ""))
        if failed_to_start(event):
            yield self._entry(event, EXECUTE, _execution_text(run, ""))
        resident = max(run.resident, event.resident)
        if run.executing is not None and resident:
            yield from self._size_entries(event, run, 0, resident)
        if event.outcome == "exited" and event.row == "remove":
            yield self._entry(event, ABORT, event_text.aborted_text(unquoted(event.changes.get("RemoveReason", ""))))
        elif event.outcome == "exited" and event.row in ("complete", "requeue"):
            yield self._entry(event, *_end_text(run, cluster, event, (usage, total, total_moved)))
        else:
            for number, body in _interruption_text(run, cluster, event, usage):
                yield self._entry(event, number, body)
        for number, body in run.waiting:
            yield self._entry(event, number, body)
        if event.left and (run.removed or event.target == "Completed"):
            self._forget_jobs(cluster, ((event.proc, event.proc),))


_ENDING = ("Claimed/Retiring", "Preempting/")


def _execution_text(run: LoggedRun, scratch: str) -> str:
    properties = {**run.asked, **run.place.offers, **available_devices(run.place)}
    if scratch:
        properties["CondorScratchDir"] = quoted(scratch)
    return event_text.executing_text(run.host, run.place.slot if run.place.machine else "", properties)


def _end_text(
    run: LoggedRun, cluster: LoggedCluster, event: e.JobExited, numbers: tuple[event_text.Numbers, ...]
) -> tuple[int, Body]:
    usage, total, total_moved = numbers
    ending = event_text.ending(event.code, event.signal, unquoted(event.changes.get("JobCoreFileName", "")))
    if event.row == "requeue":
        return EVICT, event_text.requeued_text(
            ending, unquoted(event.changes.get("RequeueReason", "")), usage, run.moved
        )
    return TERMINATE, lambda _: event_text.terminated_text(
        ending, usage, total, resource_table(run, cluster, event), run.moved, total_moved
    )


def _interruption_text(
    run: LoggedRun, cluster: LoggedCluster, event: e.JobExited, usage: event_text.Numbers
) -> Iterator[tuple[int, Body]]:
    """Yield the events for a job that was evicted, or that its own policy holds when it exits: the error, the eviction,
    and the hold. As in HTCondor's logs, there is no error and no eviction for a hold by the access point or by the
    job's own policy on exit, or if a policy holds or removes a running job."""
    hold = _hold_of(event.changes)
    if event.outcome == "exited" or (hold is not None and hold.code in ACCESS_POINT_CODES):
        if hold is not None:
            yield HOLD, _hold_text(hold)
        return
    if hold is not None and event.cause == "deferral_missed":
        if not run.place.machine:
            yield EVICT, lambda _: event_text.evicted_text(0, 0, "", usage, resource_table(run, cluster, event))
        yield HOLD, _hold_text(hold)
        return
    if hold is None and run.why == CLAIM_DEACTIVATED:
        return
    transfer_vacate = _vacate_of(event.changes) if event.cause == "transfer_failed" and hold is None else None
    vacate = hold or transfer_vacate or run.why or UNSPECIFIED_INTERRUPTION
    if event.outcome == "lost":
        vacate = _vacate_of(event.changes) or JOB_NOT_FOUND
        yield RECONNECT_FAILED, event_text.reconnect_failed(run.place.slot, vacate.reason)
    error = hold or transfer_vacate or run.error or _vacate_before_hold(event)
    if error is not None:
        vacate = error
        message = error.reason.removeprefix(f"Error from {run.place.slot}: ")
        yield REMOTE_ERROR, event_text.remote_error(run.place.slot, message, error.code, error.subcode)
    if run.executing is not None or run.deferred or hold is not None or transfer_vacate is not None:
        code, subcode, reason = vacate.code, vacate.subcode, vacate.reason
        table = partial(resource_table, run, cluster, event)
        yield EVICT, lambda _: event_text.evicted_text(code, subcode, reason, usage, table(), run.moved)
    if hold is not None:
        yield HOLD, _hold_text(hold)


def _vacate_before_hold(event: e.JobExited) -> StopReason | None:
    """Return the reason of a hold that a transform of the job has prevented, so that the job is idle again."""
    vacate = _vacate_of(event.changes) if event.row == "evict" else None
    return vacate if vacate is not None and goes_on_hold(vacate.code, vacate.subcode) else None


def _hold_of(changes: e.Ad) -> StopReason | None:
    if "HoldReason" not in changes:
        return None
    return _why_in(changes, "HoldReason")


def _vacate_of(changes: e.Ad) -> StopReason | None:
    return _why_in(changes, "VacateReason") if changes else None


def _why_in(changes: e.Ad, name: str) -> StopReason:
    code, subcode = (int(changes.get(attribute) or 0) for attribute in (f"{name}Code", f"{name}SubCode"))
    return StopReason(code, subcode, unquoted(changes[name]))


def _hold_text(hold: StopReason) -> str:
    return event_text.held_text(hold.reason, hold.code, hold.subcode)


def _requested_by_user(event: e.JobsTransitioned) -> StopReason | None:
    """Return why a running job is being stopped: its hold or removal."""
    if event.row == "remove":
        return StopReason(REMOVED_CODE, 0, unquoted(event.changes.get("RemoveReason", "")))
    return _hold_of(event.changes) if event.row == "hold" else None


# The effect of a job transition on a user log.
_HOLDS = HOLD, lambda changes: _hold_text(_hold_of(changes) or StopReason(0, 0, ""))
_NO_NUMBERS = (event_text.NOTHING_MOVED, event_text.NOTHING_MOVED, "")


def _noop_text(changes: e.Ad) -> str:
    code, signal = (int(changes[name]) if name in changes else None for name in ("ExitCode", "ExitSignal"))
    return event_text.terminated_text(event_text.ending(code, signal), *_NO_NUMBERS)


_ROWS: dict[str, tuple[int, Callable[[e.Ad], str]]] = {
    "hold": _HOLDS,
    "hold_again": _HOLDS,
    "release": (RELEASE, lambda changes: event_text.released_text(unquoted(changes.get("ReleaseReason", "")))),
    "complete": (TERMINATE, _noop_text),
    "remove": (ABORT, lambda changes: event_text.aborted_text(unquoted(changes.get("RemoveReason", "")))),
    "suspend": (SUSPEND, lambda changes: event_text.suspended_text(PROCESSES)),
    "continue": (UNSUSPEND, lambda changes: event_text.UNSUSPENDED),
}


_RULES = handlers_of(UserLogs)


def _merged(entries: Iterator[Iterator[tuple[LogFile, str]]]) -> list[tuple[LogFile, str]]:
    """Join the texts of each file. The files are in the order of their first text."""
    files: dict[LogFile, list[str]] = {}
    for entry in entries:
        for file, text in entry:
            files.setdefault(file, []).append(text)
    return [(file, "".join(texts)) for file, texts in files.items()]
