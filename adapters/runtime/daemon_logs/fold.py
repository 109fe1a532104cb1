"""Fold the pool's events into the lines of its daemons' logs.

A pool has no processes for the daemons, so a line about such a process has another number in place of the process id:
for a shadow or starter the position of its run's activation, for other daemons the number of the log's writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from attrs import define

from ....domain import events as e
from ....domain.events.handlers import handlers_of
from ....domain.names import SlotName
from ....domain.negotiator.reported_rejections import rejection_reason
from ....domain.state.job_ad import parse_int, unquoted
from ....domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER
from ....domain.state_machines import INITIAL_PAIR, LEFT
from ..userlog.event_text import one_line
from ..userlog.logged_clusters import LoggedCluster, address
from .defrag_lines import DefragLines
from .facts import (
    HELD,
    REMOVED,
    REQUEUED,
    banner,
    end_facts,
    move_line,
    owner_of,
    resources_of,
    shadow_status,
)
from .line_table import ALWAYS, MOVE, LineTemplate, templates_of, transition_templates

DAEMONS: Final = {
    "MASTER": (ACCESS_POINT, EXECUTION_POINT, MANAGER),
    "COLLECTOR": (MANAGER,),
    "NEGOTIATOR": (MANAGER,),
    "DEFRAG": (MANAGER,),
    "SCHEDD": (ACCESS_POINT,),
    "SHADOW": (ACCESS_POINT,),
    "STARTD": (EXECUTION_POINT,),
    "STARTER": (EXECUTION_POINT,),
}
"""The daemons with logs, and the roles in whose logs their events are."""
_KINDS: Final = {name.lower(): name for name in DAEMONS} | {"start": "STARTD", "slot": "STARTD", "sched": "SCHEDD"}
_SET_NAMES: Final = {
    "priority": "priority", "factor": "priority factor", "floor": "floor", "ceiling": "ceiling",
    "usage": "accumulated usage", "begin": "begin usage time", "last": "last usage time",
}  # fmt: skip
_REALS: Final = ("priority", "factor", "usage")  #: the values that the negotiator prints with six decimals
_SHOWN: Final = ("Owner", "User", "Cmd", "Args", "Arguments")  #: the attributes of jobs that lines show
_RELEASES: Final = frozenset({"released", "no_more_jobs", "job_ended", "execution_failed", "claim_failed"})
"""The causes of a claim's end by its access point."""
_RUNNING = ("Running", "Suspended", "TransferringOutput")


class LogName(NamedTuple):
    """A log: the daemon, its machine (empty: the machine of the pool), the slot and job of a starter, and the name of
    a further negotiator or defrag daemon (NEGOTIATOR_GPU, DEFRAG2)."""

    daemon: str
    machine: str = ""
    slot: str = ""
    job: str = ""
    local: str = ""


class LogLine(NamedTuple):
    """A line of a log: its time (microseconds), debug category, process id and text."""

    log: LogName
    at: int
    category: str
    is_verbose: bool
    pid: int
    text: str


Facts = Mapping[str, str]


@define
class _Slot:
    """What is known about a slot, and about the run on it (``starter``: its key; empty: no run)."""

    name: str
    machine: str
    matched: str = ""  #: the job to which it was matched last
    submitter: str = ""
    user: str = ""
    claim: str = ""
    job: str = ""
    job_owner: str = ""
    command: str = ""
    starter: str = ""
    job_pid: str = ""
    preempted: bool = False
    entered: tuple[str, int] = ("", 0)  #: its state and activity, and since when
    waiting: e.SlotTransitioned | None = None  #: its transition to Claimed, until the claim's user is known

    @property
    def id(self) -> str:
        return SlotName.parse(self.name).slot


class DaemonLogs:
    """Folds a pool's events into the lines of its daemons' logs. Only daemons whose role acts in the log have logs."""

    def __init__(self) -> None:
        self.position = 0  #: the position of the last event that was folded
        self._lines: list[LogLine] = []
        self._daemons: frozenset[str] = frozenset(DAEMONS)
        self._pool = self._schedd = ""
        self._writer = 1
        self._has_begun = False  #: the daemons have started
        self._machines: dict[str, str] = {}
        self._slots: dict[str, _Slot] = {}
        self._clusters: dict[int, LoggedCluster] = {}
        self._defrag = DefragLines()
        self._unheard: set[str] = set()  #: the machines whose ads are gone
        self._absent: set[str] = set()  #: the slots that the collector keeps as absent ads
        self._running: dict[str, _Slot] = {}  #: by job of this access point
        self._stopping: dict[str, tuple[str, e.Ad]] = {}  #: by running job: whether it was removed or held, and why

    def fold(self, position: int, event: e.Event) -> list[LogLine]:
        """Fold the event at `position`, and return the resulting lines."""
        self.position, self._lines = position, []
        if not self._has_begun and not isinstance(event, e.PoolFounded | e.WriterBegan):
            self._begin(event.at)
        rule = _RULES.get(type(event))
        if rule is not None:
            rule(self, event)
        return self._lines

    def _write(self, at: int, kind: str, event: str, facts: Facts, log: LogName | None = None, pid: int = 0) -> None:
        """Add the lines of the table for an event of a daemon that has a log."""
        log = log or LogName(_KINDS.get(kind, ""))
        for template in templates_of(kind, event):
            if template.applies(facts):
                self._add(log, at, template, facts, pid)

    def _add(self, log: LogName, at: int, template: LineTemplate, facts: Facts, pid: int) -> None:
        if log.daemon not in self._daemons:
            return
        for text in template.text.format_map(facts).split("\n"):
            self._lines.append(LogLine(log, at, template.category, template.is_verbose, pid or self._writer, text))

    def _machine_log(self, daemon: str, machine: str, slot: str = "", job: str = "") -> LogName:
        return LogName(daemon, "" if machine == self._pool else machine, slot, job)

    # The daemons, and machines

    def on_founded(self, event: e.PoolFounded) -> None:
        self._pool, self._schedd = event.name, address(event.name)
        roles = set(event.roles) or {ACCESS_POINT, EXECUTION_POINT, MANAGER}
        self._daemons = frozenset(daemon for daemon, of_roles in DAEMONS.items() if roles.intersection(of_roles))
        self._write_defrag_settings(event)

    def _write_defrag_settings(self, event: e.PoolFounded | e.PoolConfigured) -> None:
        for daemon, step, facts in self._defrag.configured(event):
            self._write_defrag(event.at, daemon, step, facts)

    def _write_defrag(self, at: int, daemon: str, step: str, facts: Facts) -> None:
        facts = {"banner": banner("DEFRAG", self._writer), **facts}
        self._write(at, "defrag", step, facts, LogName("DEFRAG", local=daemon))

    def on_writer(self, event: e.WriterBegan) -> None:
        self._writer = event.epoch
        self._begin(event.at)

    def _begin(self, at: int) -> None:
        self._has_begun = True
        for kind in ("master", "collector", "negotiator", "sched"):
            facts = {"banner": banner(_KINDS[kind], self._writer), "schedd": self._schedd, "pool": self._pool}
            self._write(at, kind, "began", facts)

    def on_machine(self, event: e.MachineJoined) -> None:
        own_address = unquoted(event.ad.get("MyAddress", ""))
        self._machines[event.machine] = own_address if "alias=" in own_address else address(event.machine)
        facts = {"banner": banner("STARTD", self._writer), "startd": self._machines[event.machine]}
        self._write_startd(event, "joined", facts)
        self._write(event.at, "collector", "joined", {"machine": event.machine})

    def _write_startd(self, event: e.MachineEvent, about: str, facts: Facts | None = None) -> None:
        log = self._machine_log("STARTD", event.machine)
        self._write(event.at, "start", about, {"pid": str(self._writer), **(facts or {})}, log)

    def on_machine_left(self, event: e.MachineLeft) -> None:
        self._write_startd(event, "left")
        for slot in self._slots_of(event.machine):
            del self._slots[slot]
            self._write(event.at, "collector", "slot destroyed", {"slot": slot})
        self._write(event.at, "collector", "left", {"machine": event.machine})

    def _slots_of(self, machine: str) -> list[str]:
        return [name for name, slot in self._slots.items() if slot.machine == machine]

    def on_expired(self, event: e.MachineExpired) -> None:
        """Log that the ads of a machine are gone, or are sent again."""
        if event.expired and event.gone:
            self._unheard.add(event.machine)
            stale = "\n".join(f'\t\t**** Removing stale ad: "< {slot} >"' for slot in self._slots_of(event.machine))
            self._write(event.at, "collector", "expired", {"machine": event.machine, "stale": stale})
        elif not event.expired and event.machine in self._unheard:
            self._unheard.remove(event.machine)
            self._write(event.at, "collector", "joined", {"machine": event.machine})
            for slot in self._slots_of(event.machine):
                self._write_ad(event.at, slot)

    def on_absent(self, event: e.SlotAbsent) -> None:
        self._absent.add(event.slot)
        self._write(event.at, "collector", "absent", {"slot": event.slot})

    def _write_ad(self, at: int, slot: str) -> None:
        """Log that the collector received a slot's first ad."""
        absent = slot if slot in self._absent else ""
        self._absent.discard(slot)
        self._write(at, "collector", "slot created", {"slot": slot, "absent": absent})

    def on_machine_configured(self, event: e.MachineConfigured) -> None:
        self._write_startd(event, "configured")

    def on_configured(self, event: e.PoolConfigured) -> None:
        for kind in ("sched", "negotiator"):
            self._write(event.at, kind, "configured", {})
        self._write_defrag_settings(event)

    def on_polled(self, event: e.DefragPolled) -> None:
        for step, facts in self._defrag.polled(event):
            self._write_defrag(event.at, event.daemon, step, facts)

    def on_drain(self, event: e.DrainBegan) -> None:
        self._write_startd(event, f"drain {event.schedule}")

    def on_shutdown(self, event: e.ShutdownBegan) -> None:
        self._write_startd(event, f"shutdown {event.how}")

    # Slots and claims

    def _slot(self, name: str) -> _Slot:
        if name not in self._slots:  # a role's log may lack the event that created the slot
            self._slots[name] = _Slot(name, SlotName.parse(name).machine)
        return self._slots[name]

    def _write_slot(self, at: int, slot: _Slot, templates: tuple[LineTemplate, ...], facts: Facts) -> None:
        log = self._machine_log("STARTD", slot.machine)
        parent = SlotName.parse(slot.name).parent.slot or slot.id
        names = {"": f"{slot.id}: ", "@": f"{parent}: ", "+": f"{slot.id}[{slot.job}]: ", "=": ""}
        for template in templates:
            if template.applies(facts):
                self._add(log, at, template._replace(text=names[template.marker] + template.text), facts, 0)

    def on_slot(self, event: e.SlotCreated) -> None:
        slot = self._slots[event.slot] = _Slot(event.slot, event.machine, entered=(INITIAL_PAIR, 0))
        facts = {
            "kind": {"dynamic": "d", "partitionable": "p"}.get(event.kind, ""),
            "type": str(abs(parse_int(event.ad.get("SlotTypeID", "0")))),
            "resources": resources_of(event.ad),
        }
        self._write_slot(event.at, slot, templates_of("slot", "created"), facts)
        self._write_ad(event.at, event.slot)

    def on_slot_destroyed(self, event: e.SlotDestroyed) -> None:
        slot = self._slots.pop(event.slot, None)
        if slot is not None and SlotName.parse(event.slot).dynamic:
            self._write_slot(event.at, slot, templates_of("slot", "destroyed"), {"slot_id": slot.id})
        if slot is not None:
            self._write(event.at, "collector", "slot destroyed", {"slot": event.slot})

    def on_slot_moved(self, event: e.SlotTransitioned) -> None:
        slot = self._slot(event.slot)
        self._end_waiting(slot)
        if event.cause == "claimed" and not slot.claim:  # the next event names the claim's user
            slot.waiting = event
        else:
            self._write_transition(slot, event)

    def _end_waiting(self, slot: _Slot) -> None:
        event, slot.waiting = slot.waiting, None
        if event is not None:
            self._write_transition(slot, event)

    def _write_transition(self, slot: _Slot, event: e.SlotTransitioned) -> None:
        source_state, _, source_activity = event.source.partition("/")
        target_state, _, activity = event.target.partition("/")
        is_same_visit = slot.entered[0].startswith("Owner/") and slot.entered[1] == event.at
        cause = "still_owner" if event.cause == "not_owner" and is_same_visit else event.cause
        templates = transition_templates(event.row, activity, cause)
        facts = self._slot_facts(slot) | {"source": event.source, "activity": source_activity}
        facts |= {"want_vacate": "TRUE" if activity == "Vacating" else "FALSE"}
        move = move_line("Reverting" if event.row == "5b" else "Changing", event)
        if not any(template.text == MOVE for template in templates):
            templates = (*templates, LineTemplate("", "", "", ALWAYS, False, MOVE))
        moved = (template._replace(text=move) if template.text == MOVE else template for template in templates)
        self._write_slot(event.at, slot, tuple(moved), facts)
        slot.entered = event.target, event.at
        if (source_state == "Preempting" != target_state) or event.source == "Claimed/Cleaning" or activity == "Idle":
            slot.starter = slot.job_pid = ""
            slot.job = slot.matched if target_state == "Claimed" != source_state else slot.job
        if target_state not in ("Claimed", "Preempting"):
            slot.user = slot.submitter = slot.claim = ""
        if target_state != source_state:
            slot.preempted = slot.preempted and target_state == "Preempting"

    def _slot_facts(self, slot: _Slot) -> dict[str, str]:
        return {
            "slot": slot.name, "startd": self._startd(slot), "schedd": self._schedd, "user": slot.user,
            "owner": owner_of(slot.submitter), "claim": slot.claim, "job": slot.job, "job_owner": slot.job_owner,
            "command": slot.command, "starter": slot.starter, "job_pid": slot.job_pid,
            "cluster": slot.job.partition(".")[0], "preempted": "true" if slot.preempted else "",
        }  # fmt: skip

    def on_claim(self, event: e.ClaimMade) -> None:
        slot = self._slot(event.slot)
        slot.submitter, slot.matched = event.submitter, event.job or slot.matched
        if not slot.starter:  # while a preempted run's starter exits, the lines are about that run
            slot.job = slot.matched
        ad = event.ad if event.holder else self._ad_of_job(slot.matched)
        slot.user = unquoted(ad.get("User", "")) or event.submitter
        slot.claim = f"{self._startd(slot)}#{event.at // 1_000_000}#{self.position}"
        self._end_waiting(slot)

    def _startd(self, slot: _Slot) -> str:
        return self._machines.get(slot.machine) or address(slot.machine)

    def _ad_of_job(self, job: str) -> e.Ad:
        """Return the attributes of a job of this access point that the lines show; none of another one's job."""
        cluster, proc = self._clusters.get(parse_int(job.partition(".")[0])), parse_int(job.partition(".")[2])
        return {} if cluster is None else {name: cluster.value(proc, name) for name in _SHOWN}

    def on_claim_queued(self, event: e.ClaimQueued) -> None:
        kind = "rank" if event.rank > 0 else "priority"
        self._write_slot(event.at, self._slot(event.slot), templates_of("slot", f"preempted {kind}"), {})

    def on_claim_flagged(self, event: e.ClaimFlagged) -> None:
        slot = self._slot(event.slot)
        slot.preempted = slot.preempted or "preempted" in event.flags
        if "closing" in event.flags:
            self._write_slot(event.at, slot, templates_of("slot", "closing"), {})

    def on_badput(self, event: e.DrainBadputAdded) -> None:
        badput = {"badput": str(event.badput)}
        self._write_slot(event.at, self._slot(event.slot), templates_of("slot", "badput"), badput)

    def on_claim_ended(self, event: e.ClaimEnded) -> None:
        slot = self._slot(event.slot)
        if slot.job:
            about = "claim released" if event.cause in _RELEASES else "claim ended"
            self._write(event.at, "sched", about, self._slot_facts(slot))
        slot.claim = ""

    # Runs of jobs

    def on_activated(self, event: e.JobActivated) -> None:
        if not event.claim:  # in the local and scheduler universes the access point runs the job itself
            return
        slot, job = self._slot(event.slot), f"{event.cluster}.{event.proc}"
        self._running[job] = slot
        self._begin_run(event.at, slot, job, self._ad_of_job(job))
        facts = self._slot_facts(slot) | {"banner": banner("SHADOW", slot.starter)}
        self._write(event.at, "sched", "activated", facts)
        self._write(event.at, "shadow", "activated", facts, pid=self.position)

    def on_claim_activated(self, event: e.ClaimActivated) -> None:
        self._begin_run(event.at, self._slot(event.slot), event.job, event.ad)

    def _begin_run(self, at: int, slot: _Slot, job: str, ad: e.Ad) -> None:
        slot.job, slot.starter, slot.job_pid = job, str(self.position), ""
        slot.job_owner = unquoted(ad.get("Owner", "")) or owner_of(slot.user)
        words = (unquoted(ad.get(name, "")) for name in ("Cmd", "Args", "Arguments"))
        slot.command = one_line(" ".join(word for word in words if word))
        self._write_starter(at, slot, "activated", {"banner": banner("STARTER", slot.starter)})

    def _write_starter(self, at: int, slot: _Slot, about: str, facts: Facts | None = None) -> None:
        log = self._machine_log("STARTER", slot.machine, slot.id, slot.job)
        self._write(at, "starter", about, {**self._slot_facts(slot), **(facts or {})}, log, parse_int(slot.starter))

    def on_executing(self, event: e.JobExecuting) -> None:
        slot = self._running.get(f"{event.cluster}.{event.proc}")
        if slot is not None:
            slot.job_pid = str(event.pid)
            self._write_starter(event.at, slot, "executing", {"scratch": event.scratch})

    def on_signalled(self, event: e.JobSignalled) -> None:
        job = f"{event.cluster}.{event.proc}"
        slot = self._running.get(job)
        if slot is None:
            return
        if event.how == "soft" and self._stopping.get(job, ("", {}))[0] == REMOVED:
            facts = self._slot_facts(slot)
            self._write(event.at, "shadow", "signalled removed", facts, pid=parse_int(slot.starter))
        self._signal_starter(event, slot)

    def on_starter_signalled(self, event: e.StarterSignalled) -> None:
        self._signal_starter(event, self._slot(event.slot))

    def _signal_starter(self, event: e.JobSignalled | e.StarterSignalled, slot: _Slot) -> None:
        if slot.starter:
            if event.cause == "vacate_timeout":
                self._write_slot(event.at, slot, templates_of("slot", "vacate_timeout"), {})
            self._write_starter(event.at, slot, f"signalled {event.how}")

    def on_reported(self, event: e.RunReported) -> None:
        """Log what the processes of another access point's job report."""
        slot = self._slot(event.slot)
        report = msgspec.json.decode(event.fields, type=dict[str, object]) if event.fields else {}
        if event.report == "ActivationStarted":
            slot.job_pid = str(report.get("pid", 0))
            self._write_starter(event.at, slot, "executing", {"scratch": str(report.get("scratch", ""))})
        elif event.report == "ActivationEnded":
            self._end_starter(event.at, slot, report.get("code"), report.get("signal"))

    def _end_starter(self, at: int, slot: _Slot, code: object = None, signal: object = None) -> None:
        has_exit = code is not None or signal is not None
        facts = {"exit": f"status={code}" if code is not None else f"signal={signal}"}
        self._write_starter(at, slot, "ended", facts if has_exit else {"job_pid": ""})

    def on_deactivated(self, event: e.ClaimDeactivated) -> None:
        slot = self._slot(event.slot)
        if not event.starter and slot.starter:
            self._end_starter(event.at, slot)

    def on_exited(self, event: e.JobExited) -> None:
        job = f"{event.cluster}.{event.proc}"
        kind, changes = self._stopping.pop(job, ("", {}))
        slot = self._running.pop(job, None)
        if slot is None:
            return
        status = shadow_status(event, kind)
        facts = self._slot_facts(slot) | {"job": job, "starter": event.key, "status": status}
        facts |= end_facts(event, changes)
        self._end_starter(event.at, slot, event.code, event.signal)
        for about in ("ended requeued" if event.row == REQUEUED else f"ended {status}", "exited"):
            self._write(event.at, "shadow", about, facts, pid=parse_int(event.key))
        self._write(event.at, "sched", "ended", facts)

    # Jobs

    def on_submitted(self, event: e.ClusterSubmitted) -> None:
        self._clusters[event.cluster] = LoggedCluster(event)

    def on_materialized(self, event: e.JobsMaterialized) -> None:
        cluster = self._clusters.get(event.cluster)
        if cluster is not None:
            cluster.live += sum(last - first + 1 for first, last in event.procs)
            cluster.made = event.procs[-1][1] + 1

    def on_edited(self, event: e.JobsEdited) -> None:
        cluster = self._clusters.get(event.cluster)
        if cluster is not None:
            cluster.edit(event.procs, event.changes)

    def on_jobs_moved(self, event: e.JobsTransitioned) -> None:
        cluster = self._clusters.get(event.cluster)
        if event.target == LEFT and cluster is not None:
            cluster.live -= sum(last - first + 1 for first, last in event.procs)
            if cluster.live <= 0 and not cluster.factory:
                del self._clusters[event.cluster]
        if event.row in (REMOVED, HELD) and event.source in _RUNNING:
            for first, last in event.procs:
                for proc in range(first, last + 1):
                    self._stopping[f"{event.cluster}.{proc}"] = event.row, event.changes

    # Negotiation

    def on_cycle(self, event: e.CycleHeld) -> None:
        log = LogName("NEGOTIATOR", local=event.negotiator)
        statistics = event.statistics
        slots, submitters = (str(int(statistics.get(name, 0))) for name in ("TotalSlots", "ActiveSubmitterCount"))
        outcomes = self._outcomes(event)
        facts = {
            "slots": slots if statistics else "", "submitters": submitters, "pool": self._pool,
            "schedd": self._schedd, "ads": str(int(slots) + int(submitters)),
            "submitter_count": str(len(outcomes)),
        }  # fmt: skip
        self._write(event.at, "negotiator", "cycle", facts, log)
        for submitter, requests in outcomes.items():
            matched = sum(1 for request in requests if isinstance(request, e.Match))
            counts = {"matched": str(matched), "rejected": str(len(requests) - matched), "owner": owner_of(submitter)}
            counts |= {"submitter": submitter, "count": str(len(requests))}
            self._write(event.at, "negotiator", "submitter", facts | counts, log)
            for number, request in enumerate(requests, 1):
                self._write_request(event.at, log, request, facts | counts | {"number": str(number)})
            self._write(event.at, "sched", "submitter", facts | counts)
        self._write(event.at, "negotiator", "ended", facts, log)

    def _outcomes(self, event: e.CycleHeld) -> dict[str, list[e.Match | e.Unmatched]]:
        """Return the matches and rejections of each submitter."""
        outcomes: dict[str, list[e.Match | e.Unmatched]] = {}
        for match in event.matches:
            outcomes.setdefault(self._submitter(match.job), []).append(match)
        for unmatched in event.unmatched:
            outcomes.setdefault(unmatched.submitter or self._submitter(unmatched.job), []).append(unmatched)
        return outcomes

    def _submitter(self, job: str) -> str:
        cluster = self._clusters.get(parse_int(job.partition(".")[0]))
        if cluster is None:
            return "?"
        group = cluster.string_value(parse_int(job.partition(".")[2]), "AccountingGroup")
        user = cluster.string_value(0, "User")
        return f"{group}@{user.partition('@')[2]}" if group and "@" not in group else group or user or cluster.owner

    def _write_request(self, at: int, log: LogName, request: e.Match | e.Unmatched, facts: dict[str, str]) -> None:
        cluster, _, proc = request.job.partition(".")
        facts |= {"job": request.job, "request": f"{int(cluster):05}.{int(proc):05}"}
        if isinstance(request, e.Match):
            slot = self._slot(request.slot)
            slot.matched = request.job
            preempting = f"{len(request.preempts)} dslots" if request.preempts else slot.submitter
            facts |= self._slot_facts(slot) | {"job": request.job, "preempting": preempting or "none"}
            kind = "matched"
        else:
            kind, facts["reason"] = "rejected", one_line(rejection_reason(request))
        self._write(at, "negotiator", "request", facts, log)
        self._write(at, "match", kind, facts, log)
        if kind == "matched":
            self._write(at, "negotiator", "matched", facts, log)

    def on_set(self, event: e.SubmitterSet) -> None:
        value = f"{event.value:f}" if event.name in _REALS else f"{event.value:.0f}"
        facts = {"name": _SET_NAMES[event.name], "submitter": event.submitter, "value": value}
        self._write(event.at, "negotiator", "set", facts, LogName("NEGOTIATOR", local=event.negotiator))

    def on_reset(self, event: e.SubmittersReset) -> None:
        for submitter in event.submitters:
            self._write(event.at, "negotiator", "reset", {"submitter": submitter})

    def on_deleted(self, event: e.SubmitterDeleted) -> None:
        self._write(event.at, "negotiator", "deleted", {"submitter": event.submitter})


_RULES = handlers_of(DaemonLogs)
