"""Extract the stimuli of a golden trace from the log of its startd. Lines about requests to the startd, its starters
and its timers become stimuli. Lines about its decisions (the transitions, and its policy's reasons) do not: ours has to
decide them. So IS_OWNER, PREEMPT, SUSPEND, CONTINUE and KILL, the end of a retirement, of a claim's worklife or of a
drain leave no stimulus. An ``EvaluatePolicies`` marks each evaluation of the policy in the log, whatever its result.
Lines about refused requests have too little detail and are omitted.

 All lines of a second happen at that second, in order: neither most logs nor the startd's policy have a finer
resolution. If log and timeline do (D_SUB_SECOND), they determine which of the readings of one second a run of the
owner's sensor found; otherwise a run found those of earlier seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from attrs import Factory, define, evolve
from msgspec.structs import replace

from poolbook.domain.events import Ad
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.job_ad import unquoted

from .trace_commands import ADMINISTRATOR, COMMANDS, COMPLETION_NUMBERS, HOLDER, SCHEDULES
from .trace_files import SECOND
from .trace_steps import PublishedReadings, Reconfigured, StartdRun, TraceSlot, TraceStep

LEASE: Final = 1800
"""Default lease of a claim in seconds: HTCondor's ALIVE_INTERVAL times MAX_CLAIM_ALIVES_MISSED."""
MACHINE: Final = "localhost"


@define
class _StartdSlot:
    """The known state of a slot at a line."""

    request: int = 0  #: the line of its last claim's request (0: complete)
    waiting: bool = False  #: whether that is a preempting claim, which has to wait
    accepted: bool = False  #: whether another was accepted immediately
    user: str = ""
    job: str = ""  #: the last one to start
    starter: str = ""
    reaped: bool = False  #: the starter is, before its processes are gone
    lease: int = LEASE
    matched: bool = False
    benchmarking: int = 0
    amounts: Ad = Factory(dict)
    going: list[str] = Factory(list)
    """For a partitionable slot: the dynamic slots preempted by its next claim."""
    awaited: int = 0  #: how many more of these are to come


class StimulusExtraction:
    """Takes the records of one startd's run, in order."""

    def __init__(
        self,
        run: StartdRun,
        jobs: Mapping[str, Ad],
        owner: list[tuple[int, Ad]],
        request_attributes: Mapping[int, Ad],
        ends_told: bool,
    ) -> None:
        self.run = run
        self.jobs = jobs
        self.owner = list(owner)
        self.fine = any(at % SECOND for at, _ in owner)
        """Whether the owner's readings have times within their seconds; and the log's lines, once one has such a time.
        """
        self.within = 0
        """How far into its second the line is, in microseconds."""
        self.rest = request_attributes
        """Line of a record -> the attributes in the following lines."""
        self.known: dict[str, _StartdSlot] = {}
        self.starters: dict[str, str] = {}
        self.reconfigured = run.configured
        self.sensor = 0
        self.seen = 0
        """The starts of the owner's sensor: its last run, and its last finished run (microseconds; 0: not logged)."""
        self.running: dict[str, int] = {}
        self.ends_told = ends_told
        """The sensors that run, with their starts, and whether the log records the ends of their runs."""
        self.peaceful = False
        self.freed = ("", 0)
        """The slot whose starter has just exited, and when: decisions of its policy then are for it alone."""
        self.walked: dict[str, str] = {}
        """The slots that the last evaluation of the policy looked at, and the activity that it decided."""
        self.line, self.at = 0, 0

    def take(self, line: int, instant: int, text: str) -> None:
        self.within = instant % SECOND
        self.line, self.at = line, instant - self.within
        self._overdue()
        slot_match = _OF_SLOT.match(text)
        name, message = (slot_match[1], slot_match[2]) if slot_match else ("", text)
        for pattern, handler in _LINES if slot_match else _GENERAL:
            match = pattern.match(message)
            if match:
                handler(self, name, match)
                return

    # -- Steps

    def _step(self, stimulus: s.Stimulus | PublishedReadings | Reconfigured) -> None:
        self.run.steps.append(TraceStep(self.at, self.line, stimulus))

    def _id(self, kind: str) -> str:
        return f"{kind}-{self.line}"

    def _full(self, name: str) -> str:
        return name if "@" in name else f"{name}@{self.run.machine}"

    def _slot(self, name: str) -> _StartdSlot:
        return self.known.setdefault(name, _StartdSlot())

    # -- Policy and timers

    def on_decided(self, name: str, match: re.Match[str]) -> None:
        """Take a decision of the policy, perhaps on the reading that the owner's sensor got just before."""
        self._publish(self.seen if self._dated() else self.seen - self.seen % SECOND)
        if self.freed != (name, self.at):
            self.on_look(name, match)

    def on_look(self, name: str, match: re.Match[str]) -> None:
        """Evaluate the policy: once for a walk over the slots, and not when the machine joins, which does so itself."""
        self.freed = ("", 0)
        if not self._walks(name) and self.at != self.run.began:
            self.walked.clear()
            self._step(s.EvaluatePolicies(self._id("round"), (self.run.machine,)))
        self.walked.pop(name, None)
        self.walked[name] = match[1] if match.re.groups else ""

    def _walks(self, name: str) -> bool:
        """Return True if the last evaluation continues: nothing else has happened since, it has not ended (its end has
        no slot's name), and it reaches another slot, or returns to one that has just retired or become idle."""
        last = self.run.steps[-1] if self.run.steps else None
        if last is None or last.at != self.at or not isinstance(last.what, s.EvaluatePolicies) or "" in self.walked:
            return False
        return name not in self.walked or (name == list(self.walked)[-1] and self.walked[name] in _LOOKED_AT_AGAIN)

    def on_stated(self, name: str, match: re.Match[str]) -> None:
        self.run.stated.append((self.reconfigured, match[1], match[2].lower()))

    def on_timer(self, name: str, match: re.Match[str]) -> None:
        self._step(s.FireTimers(self._id("tick")))

    # Slots

    def on_new(self, name: str, match: re.Match[str]) -> None:
        kind = {"": "static", "p": "partitionable"}.get(match[1])
        if not self.run.slots:
            self.run.began = self.at
        if kind is not None and not _DYNAMIC.search(name):
            self.run.slots.append(TraceSlot(self._full(name), kind, {}))
        self.known[name] = _StartdSlot()

    def on_resources(self, name: str, match: re.Match[str]) -> None:
        amounts = {resource: value.removesuffix(".00") for resource, value in _AMOUNT.findall(match[0])}
        if self.run.slots and self.run.slots[-1].name == self._full(name):
            self.run.slots[-1].resources.update(amounts)
        self._slot(name).amounts = amounts

    def on_match(self, name: str, match: re.Match[str]) -> None:
        self._slot(name).matched = True
        self._step(s.NotifyMatch(self._id("match"), self._full(name)))

    def on_matched(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        if not slot.matched:
            self._step(s.NotifyMatch(self._id("match"), self._full(name)))
        slot.matched = False

    # Claims

    def on_accepted(self, name: str, match: re.Match[str]) -> None:
        self._slot(name).accepted = True

    def on_wants(self, name: str, match: re.Match[str]) -> None:
        """Take a request for a piece of a partitionable slot."""
        self._slot(name).job = match[1]

    def on_owner(self, name: str, match: re.Match[str]) -> None:
        """Take the owner of a claim: the one who just requested the slot (or its parent), or the preempting claim that
        waited."""
        slot = self._slot(name)
        slot.user = match[1]
        parent = self._slot(name.rpartition("_")[0]) if _DYNAMIC.search(name) else slot
        if slot.waiting and not slot.accepted:
            self._complete(slot, submitter=slot.user)
        else:
            self._request(slot, name, slot.user, "" if parent is slot else parent.job)
        slot.waiting = slot.accepted = False

    def on_preempting(self, name: str, match: re.Match[str]) -> None:
        """Take a claim of a partitionable slot that preempts dynamic ones: the next that are killed."""
        slot = self._slot(name)
        slot.going, slot.awaited = [], int(match[1])

    def on_killed(self, name: str, match: re.Match[str]) -> None:
        parent = self._slot(name.rpartition("_")[0])
        if parent.awaited:
            parent.awaited -= 1
            parent.going.append(name)

    def on_better(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        self._request(slot, name, "", "")
        slot.waiting = True

    def on_better_user(self, name: str, match: re.Match[str]) -> None:
        """Take the user of a request; the line also comes when a job starts, whose owner is known."""
        slot = self._slot(name)
        if slot.waiting:
            self._complete(slot, submitter=match[1])

    def _request(self, slot: _StartdSlot, asked: str, user: str, job: str) -> None:
        slot.lease, slot.request = LEASE, self.line
        claim = f"claim-{self.line}"
        parent = self._slot(asked.rpartition("_")[0])
        leaving, parent.going, parent.awaited = tuple(map(self._full, parent.going)), [], 0
        id = self._id("request")
        self._step(s.RequestClaim(id, self._full(asked), claim, HOLDER, user, "", {}, LEASE, leaving))
        self._complete(slot, job=job)

    def _complete(self, slot: _StartdSlot, submitter: str = "", job: str = "") -> None:
        """Add later log lines to a claim's request."""
        for place in range(len(self.run.steps) - 1, -1, -1):
            step = self.run.steps[place]
            if step.line == slot.request and isinstance(step.what, s.RequestClaim):
                stimulus = replace(step.what, submitter=step.what.submitter or submitter, job=step.what.job or job)
                stimulus = replace(stimulus, ad=self._ad(slot, stimulus.job, stimulus.submitter))
                self.run.steps[place] = evolve(step, what=stimulus)
                return

    def _ad(self, slot: _StartdSlot, job: str, submitter: str) -> Ad:
        """Return a job's ad, else that of another job of its cluster, else one built from the log's words."""
        cluster = job.partition(".")[0] + "."
        job_ad = self.jobs.get(job) or next((ad for id, ad in self.jobs.items() if id.startswith(cluster)), None)
        if job_ad is not None:
            return {**job_ad, "ProcId": job.partition(".")[2]}
        requests = {f"Request{name}": slot.amounts[name] for name in _REQUESTED if name in slot.amounts}
        owner = submitter.partition("@")[0]
        return {"Owner": f'"{owner}"', "User": f'"{submitter}"', **requests}

    def on_failed(self, name: str, match: re.Match[str]) -> None:
        """Take a failed claim. A preempting claim that waited was gone before the slot was free for it."""
        slot = self._slot(name)
        slot.going, slot.awaited = [], 0
        end_index = next((n for n in range(len(self.run.steps) - 1, -1, -1) if self._is_end(name, n)), None)
        if slot.waiting and not slot.accepted and end_index is not None:
            step = self.run.steps[end_index]
            withdrawal = s.WithdrawClaim(self._id("withdraw"), self._full(name))
            self.run.steps.insert(end_index, evolve(step, what=withdrawal))
        else:
            self._step(s.FailClaim(self._id("fail"), self._full(name)))
        slot.waiting = slot.accepted = False

    def _is_end(self, name: str, place: int) -> bool:
        stimulus = self.run.steps[place].what
        return isinstance(stimulus, s.StarterGone) and stimulus.slot == self._full(name)

    def on_withdrawn(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        if slot.waiting:
            slot.waiting = False
            self._step(s.WithdrawClaim(self._id("withdraw"), self._full(name)))

    def on_unknown(self, name: str, match: re.Match[str]) -> None:
        """Release a claim that the schedd no longer knows."""
        self._step(s.ReleaseClaim(self._id("command"), self._full(name)))

    # Jobs

    def on_job(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        slot.job = match[1]
        self._complete(slot, job=match[1])
        slot.request = 0

    def on_activated(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        slot.starter, slot.reaped = match[1], False
        self.starters[match[1]] = name
        ad = self._ad(slot, slot.job, slot.user)
        self._step(s.ActivateClaim(self._id("activate"), self._full(name), slot.job, ad))

    def on_report(self, name: str, match: re.Match[str]) -> None:
        """Take the report of a starter: the report of one that is already being reaped comes too late to count."""
        slot = self._slot(name)
        if slot.starter and not slot.reaped:
            self._step(s.StarterReported(self._id("report"), self._full(name)))

    def on_reaped(self, name: str, match: re.Match[str]) -> None:
        name = self.starters.pop(match[1], "")
        if name:
            self._slot(name).reaped = True

    def on_gone(self, name: str, match: re.Match[str]) -> None:
        slot = self._slot(name)
        slot.starter, slot.reaped = "", False
        self.freed = name, self.at
        self._step(s.StarterGone(self._id("gone"), self._full(name)))

    # Leases

    def on_lease(self, name: str, match: re.Match[str]) -> None:
        self._slot(name).lease = int(match[1])

    def on_expired(self, name: str, match: re.Match[str]) -> None:
        """End a lease: the schedd was silent, and last heard at least one lease before."""
        slot = self._slot(name)
        lease = max(LEASE, slot.lease, int(self._ad(slot, slot.job, "").get("JobLeaseDuration", "0")))
        self._step(s.HolderSilent(self._id("unheard"), self._full(name), self.at - lease * SECOND))
        self.on_timer(name, match)

    # Commands

    def on_command(self, name: str, match: re.Match[str]) -> None:
        make_stimulus = COMMANDS.get(match[1])
        if make_stimulus is not None:
            self._step(make_stimulus(self._id("command"), self._full(name)))

    def on_done(self, name: str, match: re.Match[str]) -> None:
        """Deactivate the claim of a completed job; while its starter exists, that changes nothing."""
        if not self._slot(name).starter:
            self._step(s.DeactivateClaim(self._id("command"), self._full(name)))

    def on_deactivated(self, name: str, match: re.Match[str]) -> None:
        self._step(s.DeactivateClaim(self._id("command"), self._full(name), fast=bool(match[1])))

    def on_all(self, name: str, match: re.Match[str]) -> None:
        for slot_name in self.known:
            stimulus = s.VacateSlot(
                self._id(f"command-{slot_name}"), ADMINISTRATOR, self._full(slot_name), match[1] == "FAST"
            )
            self._step(stimulus)

    def on_drain(self, name: str, match: re.Match[str]) -> None:
        attributes = self.rest.get(self.line, {})
        fast = int(attributes.get("HowFast", "0"))
        schedule = next((schedule_name for least, schedule_name in SCHEDULES if fast >= least), "Graceful")
        self._step(
            s.Drain(
                self._id("drain"),
                ADMINISTRATOR,
                self.run.machine,
                schedule,
                unquoted(attributes.get("DrainReason", "")),
                COMPLETION_NUMBERS.get(attributes.get("ResumeOnCompletion", ""), ""),
                attributes.get("CheckExpr", ""),
                attributes.get("StartExpr", ""),
            )
        )

    def on_cancel(self, name: str, match: re.Match[str]) -> None:
        self._step(s.CancelDrain(self._id("cancel"), ADMINISTRATOR, self.run.machine))

    def on_shutdown(self, name: str, match: re.Match[str]) -> None:
        how = match[1].capitalize()
        if how == "Graceful" and self.peaceful:
            how = "Peaceful"
        self._step(s.ShutDown(self._id("shutdown"), ADMINISTRATOR, self.run.machine, how))

    def on_peaceful(self, name: str, match: re.Match[str]) -> None:
        self.peaceful = True

    def on_reconfigured(self, name: str, match: re.Match[str]) -> None:
        self.reconfigured += 1
        self._step(Reconfigured(self.reconfigured))

    # -- The machine

    def on_benchmarking(self, name: str, match: re.Match[str]) -> None:
        self._slot(name).benchmarking = self.at

    def on_benchmarked(self, name: str, match: re.Match[str]) -> None:
        """End benchmarks. A slot that stops in the second in which it began never ran them: another slot does."""
        if self._slot(name).benchmarking < self.at:
            self._step(s.BenchmarksDone(self._id("benchmarks"), self._full(name), 1, 1))

    def on_sensor(self, name: str, match: re.Match[str]) -> None:
        self.sensor = self.at + self.within
        self.running[match[1]] = self.sensor

    def on_sensed(self, name: str, match: re.Match[str]) -> None:
        """End a run of the owner's sensor. It may have missed a change within the second in which it began."""
        if match[1] in self.running:
            self.seen = max(self.seen, self.running.pop(match[1]))
            self._publish(self.seen if self._dated() else self.seen - self.seen % SECOND - 1)

    def _dated(self) -> bool:
        """Return True if readings and runs of the sensor have times within their seconds."""
        return self.fine and bool(self.seen % SECOND)

    def _overdue(self) -> None:
        """Assume a sensor's unlogged run within the next second, and its unlogged end immediately."""
        if not self.sensor:
            self._publish(self.at - SECOND)
        elif self.running and not self.ends_told:
            self.seen = self.sensor
            self.running.clear()
            self._publish(self.seen if self._dated() else self.seen - self.seen % SECOND - 1)

    def _publish(self, until: int) -> None:
        while self.owner and self.owner[0][0] <= until:
            self._step(PublishedReadings(self.owner.pop(0)[1]))


_OF_SLOT: Final = re.compile(r"([A-Za-z][^\s:\[]*\d)(?:\[[^\]\s]*\])?: (.*)", re.DOTALL)
_REQUESTED: Final = ("Cpus", "Memory", "Disk")
_LOOKED_AT_AGAIN: Final = ("Retiring", "Idle")
"""The activities on entering which a startd immediately evaluates that slot's policy (ResState::enter_action)."""
_DYNAMIC: Final = re.compile(r"\d_\d+$")
_AMOUNT: Final = re.compile(r"(\w+): (\d+(?:\.\d+)?)(?=,|\s|$)")


_Handler = Callable[[StimulusExtraction, str, re.Match[str]], None]
_Table = tuple[tuple[re.Pattern[str], _Handler], ...]


def _table(*rows: tuple[str, _Handler]) -> _Table:
    return tuple((re.compile(pattern), handler) for pattern, handler in rows)


E = StimulusExtraction
_LINES: Final = _table(
    (r"eval_policy state should be: \w+/(\w+)", E.on_decided),
    (r"New (?:broken |backfill )*([dp]?)[Ss]lot", E.on_new),
    (r"\tCpus: .*", E.on_resources),
    (r"match_info called", E.on_match),
    (r"Schedd sending (\d+) preempting claims", E.on_preempting),
    (r"Canceled ClaimLease timer", E.on_killed),
    (r"State change: match notification protocol successful", E.on_matched),
    (r"State change: match timed out", E.on_timer),
    (r"Job (\d+\.\d+) requesting resources: ", E.on_wants),
    (r"Request accepted\.", E.on_accepted),
    (r"Remote owner is (\S+)", E.on_owner),
    (r"New claim has sufficient rank, preempting current claim", E.on_better),
    (r"Got RemoteUser \((\S+)\) from request classad", E.on_better_user),
    (r"State change: claiming protocol failed", E.on_failed),
    (r"Claiming protocol failed|Request claim socket closed prematurely", E.on_withdrawn),
    (r"State change: received RELEASE_CLAIM command from preempting ", E.on_withdrawn),
    (r"Started ClaimLease timer \(\d+\) w/ (\d+) second", E.on_lease),
    (r"JobLeaseDuration defined in job ClassAd: (\d+)", E.on_lease),
    (r"State change: claim lease expired", E.on_expired),
    (r"State change: claim no longer recognized", E.on_unknown),
    (r"Remote job ID is (\d+\.\d+)", E.on_job),
    (r"State change: claim-activation protocol successful, Starter (\d+)", E.on_activated),
    (r"Received final job ClassAd update from starter", E.on_report),
    (r"State change: starter exited ", E.on_gone),
    (r"State change: received (\w+) command", E.on_command),
    (r"State change: (\w+) is (TRUE|FALSE|true|false)\b", E.on_stated),
    (r"Got DEACTIVATE_CLAIM_JOB_DONE while ", lambda self, name, found: None),
    (r"Got (\w+) while .*ignoring", E.on_command),
    (r"Called deactivate_claim_job_done\(\)", E.on_done),
    (r"Called deactivate_claim(?:(_forcibly)|_final_xfer)?\(\)", E.on_deactivated),
    (r"max vacate time expired", E.on_timer),
    (r"starter \(pid \d+\) is not responding", E.on_timer),
    (r"Changing activity: Idle -> Benchmarking", E.on_benchmarking),
    (r"Changing activity: Benchmarking -> Idle", E.on_benchmarked),
)
"""The patterns of lines that begin with a slot's name; the first match counts."""

_GENERAL: Final = _table(
    (r"Starter pid (\d+) (?:exited|died)", E.on_reaped),
    (r"No direct attach schedd configured", E.on_look),
    (r"State change: received VACATE_ALL_(CLAIMS|FAST) command", E.on_all),
    (r"Processing drain request from ", E.on_drain),
    (r"Processing cancel drain request from ", E.on_cancel),
    (r"Got SIGTERM\. Performing peaceful shutdown", E.on_peaceful),
    (r"shutdown (fast|graceful)", E.on_shutdown),
    (r"beginning reconfig_resources", E.on_reconfigured),
    (r"STARTD_CRON job (\S+) started", E.on_sensor),
    (r"CronJob: '(\S+)' \(pid \d+\) exit_status=", E.on_sensed),
)
"""The patterns of the other lines."""
