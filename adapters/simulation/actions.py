"""What each line of a scenario lets come in: a function for each word of ``VERBS`` and its kin."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...domain.ports import stimuli as s
from ...replay.scenario import PlayError, Step
from ...replay.scenario.times import SECOND, length
from ...replay.scenario.verbs import OPTIONS
from ...replay.virtual_world import Speed
from .jobs import behaviour, outside, submission
from .remote_schedds import Job
from .simulation import Refused, Stage

Deed = Callable[[Stage, Step], Iterator[s.Stimulus]]
ROOT = "root"


def _option(step: Step, name: str) -> str:
    return step.options.get(name, OPTIONS[name].default)


def _of_jobs(step: Step) -> s.Selection:
    cluster, dot, proc = step.thing.partition(".")
    return s.Selection(jobs=((int(cluster), int(proc)),)) if dot else s.Selection(clusters=(int(cluster),))


def _of_a_job(step: Step) -> bool:
    return step.thing[:1].isdigit()


# Jobs


def _submit(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    number = stage.engine.state.next_cluster
    stage.behaviours[number] = behaviour(step.options)
    yield submission(step, stage.engine.id("submit"), number, stage.world.now(), stage.engine.state.settings)


def _there(stage: Stage, step: Step) -> bool:
    """Whether the line's job is in the queue; if not, that is told."""
    cluster, dot, proc = step.thing.partition(".")
    found = stage.engine.state.clusters.get(int(cluster))
    if found is not None and (not dot or int(proc) in found):
        return True
    stage.hear(Refused(step, f"there is no job {step.thing} in the queue"))
    return False


def _act(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if not _there(stage, step):
        return
    fast = "fast" in step.flags
    yield s.Act(stage.engine.id(step.verb), stage.owner(step.thing), step.verb, _of_jobs(step), fast=fast)


def _measure(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    cluster, _, proc = step.thing.partition(".")
    activation = stage.engine.state.by_job.get((int(cluster), int(proc or 0)))
    if activation is None:
        raise PlayError(f"job {step.thing} does not run at {stage.tale.time(step.at)}", step.line)
    memory, disk = int(_option(step, "memory")) * 1024, int(_option(step, "disk"))
    cpu = length(_option(step, "cpu"))
    yield s.Measured(stage.engine.id("measure"), activation.key, memory, memory, disk, cpu, 0)


def _edit(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if not _there(stage, step):
        return
    yield s.Edit(stage.engine.id("edit"), stage.owner(step.thing), _of_jobs(step), dict(step.attributes))


def _vacate(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if _of_a_job(step):
        yield from _act(stage, step)
        return
    for slot in stage.slots(step):
        yield s.VacateSlot(stage.engine.id("vacate"), ROOT, slot, "fast" in step.flags)


def _suspend(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if _of_a_job(step):
        yield from _act(stage, step)
        return
    for slot in stage.slots(step):
        kind = s.SuspendClaim if step.verb == "suspend" else s.ContinueClaim
        yield kind(stage.engine.id(step.verb), ROOT, slot)


def _release(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if _of_a_job(step):
        yield from _act(stage, step)
        return
    for slot in stage.slots(step):
        yield s.ReleaseClaim(stage.engine.id("release"), slot)


# Machines

_COMPLETIONS = ("resume", "reconfig", "exit", "restart")


def _one(stage: Stage, step: Step) -> str:
    """The machine that the line names, if it is there."""
    if step.machine not in stage.engine.state.machines:
        raise PlayError(
            f"{step.machine} is not there at {stage.tale.time(step.at)}: it was shut down; `on` starts it", step.line
        )
    return step.machine


def _drain(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    schedules = [name for name in ("graceful", "quick", "fast") if name in step.flags] or ["graceful"]
    completion = next((name for name in _COMPLETIONS if name in step.flags), "")
    reason, check, start = (_option(step, name) for name in ("reason", "check", "start"))
    yield s.Drain(
        stage.engine.id("drain"), ROOT, _one(stage, step), schedules[0].capitalize(), reason, completion, check, start
    )


def _cancel(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    yield s.CancelDrain(stage.engine.id("cancel"), ROOT, _one(stage, step))


def _off(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    how = next(iter(step.flags), "graceful").capitalize()
    yield s.ShutDown(stage.engine.id("off"), ROOT, _one(stage, step), how)


def _on(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    if step.machine in stage.engine.state.machines:
        ending = stage.engine.state.machines[step.machine].shutdown
        why = "was told to shut down, but jobs are not done there yet" if ending else "is there already"
        raise PlayError(f"{step.machine} {why}, at {stage.tale.time(step.at)}", step.line)
    stage.join(step.machine)
    yield from ()


def _benchmarks(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    takes = length(_option(step, "takes")) / SECOND
    stage.world.speeds[step.machine] = Speed(int(_option(step, "mips")), int(_option(step, "kflops")), takes)
    yield from ()


def _reconfigure(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    machines = stage.named(step)
    for machine in machines:
        if step.verb == "set":
            ((name, value),) = step.attributes.items()
            stage.machines.add(machine, name, value, step.line)
        else:
            stage.machines.replace(machine, step.sources)
        if machine in stage.engine.state.machines:
            id = stage.engine.id("reconfigure")
            yield stage.machines.reconfigured(id, machine, stage.engine.state, step.line)
    if stage.machines.first in machines:
        yield stage.machines.configured(stage.engine.id("reconfigure"), step.line)


# Holders of claims outside of the pool


def _claim(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    user, holder = _option(step, "by") or "somebody", _option(step, "from")
    slots = [step.thing] if not any(sign in step.thing for sign in "*?") else stage.slots(step)
    for slot in slots:
        number = stage.elsewhere.number()
        ad = outside(step, user, stage.world.now(), stage.engine.state.settings)
        job, claim = f"{number}.0", f"{holder}#{number}"
        if "run" in step.options:
            stage.elsewhere.comes(claim, Job(job, ad, behaviour(step.options)))
        lease = length(_option(step, "lease")) // SECOND
        id = stage.engine.id("claim")
        yield s.RequestClaim(id, slot, claim, holder, f"{user}@{holder}", job, ad, lease)


def _activate(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    for slot in stage.slots(step):
        claim = stage.engine.state.slots[slot].claim
        user = "somebody" if claim is None else claim.submitter.partition("@")[0]
        stage.elsewhere.activates(slot, behaviour(step.options))
        ad = outside(step, user, stage.world.now(), stage.engine.state.settings)
        yield s.ActivateClaim(stage.engine.id("activate"), slot, f"{stage.elsewhere.number()}.0", ad)


def _deactivate(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    for slot in stage.slots(step):
        yield s.DeactivateClaim(stage.engine.id("deactivate"), slot, "fast" in step.flags, "closing" in step.flags)


def _said(kind: Callable[[str, str], s.Stimulus]) -> Deed:
    """A line whose stimulus names a slot and nothing else."""

    def deed(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
        for slot in stage.slots(step):
            yield kind(stage.engine.id(step.verb), slot)

    return deed


def _access_point(stage: Stage, step: Step) -> Iterator[s.Stimulus]:
    for slot in stage.claimed():
        if "silent" in step.flags:
            yield s.HolderSilent(stage.engine.id("silent"), slot.name, stage.world.now())
        else:
            yield s.HolderHeard(stage.engine.id("heard"), slot.name)


DEEDS: dict[str, Deed] = {
    "submit": _submit,
    "hold": _act,
    "remove": _act,
    "measure": _measure,
    "edit": _edit,
    "vacate": _vacate,
    "suspend": _suspend,
    "continue": _suspend,
    "release": _release,
    "drain": _drain,
    "cancel-drain": _cancel,
    "off": _off,
    "on": _on,
    "benchmarks": _benchmarks,
    "reconfigure": _reconfigure,
    "set": _reconfigure,
    "match": _said(s.NotifyMatch),
    "claim": _claim,
    "activate": _activate,
    "deactivate": _deactivate,
    "withdraw": _said(s.WithdrawClaim),
    "fail": _said(s.FailClaim),
    "access-point": _access_point,
}
