"""A whole pool in virtual time, driven by lines as a person would type them: for transcripts and random commands."""

from __future__ import annotations

import re

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import Launch
from poolbook.domain.state.job_ad import quoted
from poolbook.domain.state.proc_ads import pack
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour, VirtualWorld, sleep_behaviour

from ..job_commands import job_command

REQUIREMENTS = 'TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory'
JOB = {
    "Cmd": '"/bin/sleep"',
    "Requirements": REQUIREMENTS,
    "RequestCpus": "1",
    "RequestMemory": "128",
    "RequestDisk": "1024",
    "Rank": "0.0",
    "JobPrio": "0",
}
# What a word of a line sets in the job's ad.
WORDS = {
    "seconds": "VirtualSeconds",
    "code": "VirtualCode",
    "grace": "VirtualGrace",
    "memory": "RequestMemory",
    "cpus": "RequestCpus",
    "prio": "JobPrio",
    "maxvacate": "JobMaxVacateTime",
}
SLOT = {
    "Start": "true",
    "Requirements": "Start && TARGET.RequestCpus <= MY.Cpus",
    "Arch": '"X86_64"',
    "SlotID": "1",
}
UNITS = {"s": 1, "min": 60, "h": 3600}


def behave(launch: Launch) -> Behaviour:
    """Behave as the ad says; with VirtualEnd a job fails to start, is lost, ends by a signal, or exceeds its memory."""
    behaviour = sleep_behaviour(launch)
    end = launch.job_ad.get("VirtualEnd", "")
    ignores_signals = behaviour.grace is not None and behaviour.grace < 0
    return Behaviour(
        seconds=behaviour.seconds,
        code=behaviour.code,
        signal=11 if end == '"signal"' else None,
        grace=None if ignores_signals else behaviour.grace,
        failure="Failed to execute '/bin/sleep': no such file" if end == '"failure"' else "",
        lost=end == '"lost"',
    )


class Pool:
    """A pool and its log."""

    def __init__(self, dialect: str = "manual", **settings: str) -> None:
        self.log = open_log("memory:", create=True)
        self.engine = Engine(self.log, VirtualWorld(behave))
        self.engine.load()
        self._serial = 0
        settings = {"NEGOTIATOR_PRE_JOB_RANK": ""} | settings
        self.engine.handle([s.FoundPool("found", "pool", dialect, "example.org", "0.1", settings)])

    def events(self) -> list[tuple[int, Event]]:
        return list(self.log.read())

    def say(self, line: str) -> StimulusResult | None:
        """Execute a line and return the answer; None for a line that only lets time pass."""
        command, *arguments = line.split()
        return getattr(self, f"_{command}")(*arguments)  # type: ignore[no-any-return]

    def _handle(self, stimulus: s.Stimulus) -> StimulusResult:
        return self.engine.handle([stimulus])[0]

    def _id(self, kind: str) -> str:
        self._serial += 1
        return f"{kind}-{self._serial}"

    def _machine(self, name: str, *arguments: str) -> StimulusResult:
        """machine h Cpus=2 Memory=2048 [kind=static] [slots=2]"""
        options = dict(word.split("=", 1) for word in arguments)
        kind, slots = options.pop("kind", "partitionable"), int(options.pop("slots", "1"))
        ad = {**SLOT, "Machine": quoted(name)}
        resources = {"Cpus": "2", "Memory": "2048", "Disk": "100000", **options}
        resources |= {f"TotalSlot{size}": resources[size] for size in ("Cpus", "Memory", "Disk")}
        plans = tuple(s.SlotPlan(f"slot{number}@{name}", kind, resources) for number in range(1, slots + 1))
        return self._handle(s.AddMachine(self._id("machine"), name, ad, plans))

    def _leave(self, name: str) -> StimulusResult:
        return self._handle(s.RemoveMachine(self._id("leave"), name))

    def _submit(self, user: str, count: str, *arguments: str) -> StimulusResult:
        """submit alice 3 seconds=30 memory=128 end=signal [hold] [differ]"""
        ad = dict(JOB)
        columns: tuple[bytes, ...] = ()
        for word in arguments:
            name, _, value = word.partition("=")
            if name == "hold":
                held_ad = {"JobStatus": "5", "HoldReason": '"submitted on hold at user\'s request"'}
                ad |= {**held_ad, "HoldReasonCode": "15", "HoldReasonSubCode": "0"}
            elif name == "differ":
                columns = pack({"Args": [quoted(str(number)) for number in range(int(count))]})
            elif name == "end":
                ad["VirtualEnd"] = quoted(value)
            else:
                ad[WORDS.get(name, name)] = value
        return self._handle(s.Submit(self._id("submit"), user, 0, ad, int(count), columns))

    def _act(self, action: str, user: str, target: str, *arguments: str) -> StimulusResult:
        fast = "fast" in arguments
        return self._handle(job_command(self._id(action), user, action, selection(target), fast=fast))

    def _hold(self, *arguments: str) -> StimulusResult:
        return self._act("hold", *arguments)

    def _release(self, *arguments: str) -> StimulusResult:
        return self._act("release", *arguments)

    def _remove(self, *arguments: str) -> StimulusResult:
        return self._act("remove", *arguments)

    def _suspend(self, *arguments: str) -> StimulusResult:
        return self._act("suspend", *arguments)

    def _continue(self, *arguments: str) -> StimulusResult:
        return self._act("continue", *arguments)

    def _grant(self, submitter: str, name: str, value: str, *arguments: str) -> StimulusResult:
        """grant alice@example.org factor 5 [60]: for 60 seconds; grant alice@example.org factor back"""
        change = (
            {"cancel": True}
            if value == "back"
            else {"value": float(value), "duration": int(arguments[0] if arguments else 0)}
        )
        return self._handle(s.SetSubmitter(self._id("grant"), "root", submitter, name, **change))

    def _reset(self, *submitters: str) -> StimulusResult:
        """reset alice@example.org; reset: all"""
        return self._handle(s.ResetUsage(self._id("reset"), "root", submitters))

    def _forget(self, submitter: str) -> StimulusResult:
        """forget alice@example.org"""
        return self._handle(s.DeleteSubmitter(self._id("forget"), "root", submitter))

    def _vacate(self, user: str, target: str, *arguments: str) -> StimulusResult:
        """vacate alice 1.0 [fast]; of a slot: vacate root slot1@h [fast]"""
        if re.fullmatch(r"[\d.]+", target):
            return self._act("vacate", user, target, *arguments)
        return self._handle(s.VacateSlot(self._id("vacate"), user, target, "fast" in arguments))

    def _now(self, user: str, *jobs: str) -> StimulusResult:
        """now alice 3.0 1.0 1.1: run 3.0 in place of the others"""
        job, *victims = (selection(job_id).jobs[0] for job_id in jobs)
        return self._handle(s.RunNow(self._id("now"), user, job, tuple(victims)))

    def _edit(self, user: str, target: str, *arguments: str) -> StimulusResult:
        """edit alice 1 JobPrio=5"""
        changes = dict(word.split("=", 1) for word in arguments)
        return self._handle(s.Edit(self._id("edit"), user, selection(target), changes))

    def _measure(self, job: str, resident: str) -> StimulusResult:
        cluster, _, proc = job.partition(".")
        key = self.engine.state.by_job[int(cluster), int(proc)].key
        return self._handle(
            s.ActivationMeasured(self._id("usage"), key, 2 * int(resident), int(resident), 10, 5 * SECOND, SECOND)
        )

    def _exceed(self, job: str) -> StimulusResult:
        """Report that the job used more memory than it has, and was killed."""
        cluster, _, proc = job.partition(".")
        key = self.engine.state.by_job[int(cluster), int(proc)].key
        reason = "Job has gone over cgroup memory limit of 128 megabytes."
        end = s.ActivationEnded(f"end-{key}", key, self.engine.world.now(), signal=9, hold_reason=reason, hold_code=34)
        return self._handle(end)

    def _run(self, amount: str, unit: str) -> None:
        """run 30 s: let this much time pass."""
        until = self.engine.world.now() + round(float(amount) * UNITS[unit] * SECOND)
        while self.engine.world.now() < until:
            self.engine.step(until)
        while self.engine.step(until):
            pass


def selection(target: str) -> s.Selection:
    """Parse 1 as a cluster, 1.0 as a job, a name as an owner, "all" as everything."""
    if target == "all":
        return s.Selection(everything=True)
    if re.fullmatch(r"\d+", target):
        return s.Selection(clusters=(int(target),))
    if re.fullmatch(r"\d+\.\d+", target):
        cluster, proc = target.split(".")
        return s.Selection(jobs=((int(cluster), int(proc)),))
    return s.Selection(owners=(target,))
