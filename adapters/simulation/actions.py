"""Convert each line of a scenario into stimuli (the pool's inputs), with one function for each verb."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import evolve
from msgspec.structs import replace

from ...domain.events import Ad
from ...domain.ports import stimuli as s
from ...domain.ports.stimuli import Submit
from ...domain.state.pool_settings import FILESYSTEM_DOMAIN, UID_DOMAIN, submission_settings
from ...domain.state.proc_ads import pack
from ...domain.state.records import Activation, Slot
from ...domain.state_machines.drain import COMPLETIONS
from ...domain.submit import NoSubmitFiles, SubmitFacts, from_mapping
from ...domain.submit.submit_context import SubmitError
from ...domain.units import SECOND
from ...replay.scenario import PlayError, ScenarioStep
from ...replay.scenario.scenario_times import length
from ...replay.scenario.verbs import OPTIONS
from ...replay.virtual_world import CLIENT, Behaviour, Speed
from ..machine.execution.activation import VIOLATION_HOLD_CODES
from ..machine.host import CONDOR_VERSION
from ..runtime.activations import ReadAd
from ..runtime.hold_reasons import held_for_limit
from .scenario_machines import ARCH, OPSYS, PLATFORM
from .simulation import RefusedStep, RemoteJob, Simulation

# Create the jobs of a scenario: their ads, and the behaviour of their processes.

RUN = 60  #: the default run time of a job in seconds
LEASE = "JobLeaseDuration"
_SLEEP = {"executable": "/bin/sleep", "arguments": "1"}
_PROGRAMS = {"executable", "shell"}
_REQUESTS = {"cpus": "request_cpus", "memory": "request_memory", "disk": "request_disk"}


def submission(
    step: ScenarioStep, id: str, cluster: int, now: int, settings: Mapping[str, str], warn: Callable[[str], None]
) -> Submit:
    """Return the submission of a scenario's line to a pool with these settings, as condor_submit would create it; call
    ``warn`` with each of its warnings. Raise PlayError if condor_submit would reject it."""
    count = int(step.options.get("count", "1"))
    requests = {_REQUESTS[name]: text for name, text in step.options.items() if name in _REQUESTS}
    attributes = {f"+{name}": text for name, text in step.attributes.items()}
    program = {} if _PROGRAMS & {name.lower() for name in step.commands} else _SLEEP
    description = {**program, "transfer_executable": "false", **requests, **step.commands, **attributes}
    facts = SubmitFacts(
        now=now // SECOND,
        owner=step.thing,
        uid_domain=settings[UID_DOMAIN],
        filesystem_domain=settings[FILESYSTEM_DOMAIN],
        iwd="/",
        version=CONDOR_VERSION,
        platform=PLATFORM,
        arch=ARCH,
        opsys=OPSYS,
        cluster=cluster,
        settings=submission_settings(settings),
    )
    try:
        parsed = from_mapping(description, facts, NoSubmitFiles("a scenario's job has no files"), count=count)
    except SubmitError as error:
        raise PlayError(str(error), step.line) from None
    for warning in parsed.warnings:
        warn(warning)
    return Submit(id, step.thing, cluster, parsed.ad, count, pack(parsed.columns), job_set=parsed.job_set)


def behaviour(options: Mapping[str, str]) -> Behaviour:
    """Return the behaviour of a job's processes, from the options of its line."""
    soft_action = options.get("on-soft", "ends")
    grace: float | None = {"ends": 0.0, "ignores": None}.get(soft_action, 0.0)
    if soft_action not in ("ends", "ignores"):
        grace = length(soft_action.removeprefix("ends-after:")) / SECOND
    signal = options.get("signal")
    return Behaviour(
        seconds=length(options["run"]) / SECOND if "run" in options else RUN,
        code=int(options.get("code", "0")),
        signal=None if signal is None else int(signal),
        grace=grace,
        load=float(options.get("load", "0")),
    )


ScenarioAction = Callable[[Simulation, ScenarioStep], Iterator[s.Stimulus]]
ROOT = "root"


def _option(step: ScenarioStep, name: str) -> str:
    return step.options.get(name, OPTIONS[name].default)


def _selection(step: ScenarioStep) -> s.Selection:
    cluster, dot, proc = step.thing.partition(".")
    return s.Selection(jobs=((int(cluster), int(proc)),)) if dot else s.Selection(clusters=(int(cluster),))


def _submit(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    number = simulation.engine.state.next_cluster
    simulation.behaviours[number] = behaviour(step.options)
    id, settings = simulation.engine.id("submit"), simulation.engine.state.settings
    yield submission(step, id, number, simulation.world.now(), settings, partial(simulation.warn, step))


def _is_queued(simulation: Simulation, step: ScenarioStep) -> bool:
    """Return True if the line's job is in the queue; report it if not."""
    cluster, dot, proc = step.thing.partition(".")
    procs = simulation.engine.state.clusters.get(int(cluster))
    if procs is not None and (not dot or int(proc) in procs):
        return True
    simulation.hear(RefusedStep(step, f"job {step.thing} is not in the queue"))
    return False


def _act(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    if not _is_queued(simulation, step):
        return
    more_fields: dict[str, Any] = {"fast": True} if "fast" in step.flags else {}
    kind = s.JOB_COMMANDS[step.verb]
    yield kind(simulation.engine.id(step.verb), simulation.owner(step.thing), _selection(step), **more_fields)


def _measure(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    cluster, _, proc = step.thing.partition(".")
    activation = simulation.engine.state.by_job.get((int(cluster), int(proc or 0)))
    if activation is None:
        raise PlayError(f"job {step.thing} is not running at {simulation.transcript.time(step.at)}", step.line)
    memory, disk = int(_option(step, "memory")), int(_option(step, "disk"))
    resident, cpu = memory * 1024, length(_option(step, "cpu"))
    yield s.ActivationMeasured(simulation.engine.id("measure"), activation.key, resident, resident, disk, cpu, 0)
    slot = simulation.engine.state.slots.get(activation.slot)
    if slot is not None:  # else its job is of the local universe
        _enforce_limits(simulation, activation, slot, memory, disk)


def _enforce_limits(simulation: Simulation, activation: Activation, slot: Slot, memory: int, disk: int) -> None:
    """Kill a job that uses more memory (MB) or disk space (KB) than it may, as the supervisor does."""
    slot_ad = slot.ad.as_plain_dict()
    job_ad = simulation.engine.state.clusters[activation.cluster].attributes(activation.proc)
    given_memory, given_disk = (ReadAd(slot_ad).number(name) or 0 for name in ("Memory", "Disk"))
    policy = simulation.machines.limits(simulation.machines.machine(slot.machine))
    limits = policy.limits(slot_ad, job_ad, given_memory, given_disk)
    for limit, used, allowed in (("memory", memory, limits.memory_mb), ("disk", disk, limits.disk_kb)):
        if allowed is not None and used > allowed:
            reason = held_for_limit(limit, limits.memory_mb or given_memory, given_disk)
            simulation.world.end_over_limit(activation.key, reason, *VIOLATION_HOLD_CODES[limit])


def _edit(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    if not _is_queued(simulation, step):
        return
    yield s.Edit(simulation.engine.id("edit"), simulation.owner(step.thing), _selection(step), dict(step.attributes))


def _of_slots(stimulus: Callable[[str, str, ScenarioStep], s.Stimulus]) -> ScenarioAction:
    """Return an action that yields a stimulus, from an id, the slot and the line, for each slot that the line names."""

    def action(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
        for slot in simulation.slots(step):
            yield stimulus(simulation.engine.id(step.verb), slot, step)

    return action


def _of_job_or_slots(stimulus: Callable[[str, str, ScenarioStep], s.Stimulus]) -> ScenarioAction:
    """Return an action on the job that the line names, or on its slots."""
    act_on_slots = _of_slots(stimulus)
    return lambda simulation, step: (_act if step.thing[:1].isdigit() else act_on_slots)(simulation, step)


def _machine(simulation: Simulation, step: ScenarioStep) -> str:
    """Return the line's machine. Raise PlayError if it was shut down."""
    if step.machine not in simulation.engine.state.machines:
        time = simulation.transcript.time(step.at)
        raise PlayError(f"{step.machine} is not in the pool at {time}: shut down; `on` starts it", step.line)
    return step.machine


def _drain(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    schedules = [name for name in ("graceful", "quick", "fast") if name in step.flags] or ["graceful"]
    completion = next((name for name in COMPLETIONS[1:] if name in step.flags), "")
    reason, check, start = (_option(step, name) for name in ("reason", "check", "start"))
    id, machine, schedule = simulation.engine.id("drain"), _machine(simulation, step), schedules[0].capitalize()
    yield s.Drain(id, ROOT, machine, schedule, reason, completion, check, start)


def _cancel(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    yield s.CancelDrain(simulation.engine.id("cancel"), ROOT, _machine(simulation, step))


def _off(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    shutdown_kind = next(iter(step.flags), "graceful").capitalize()
    id, machine = simulation.engine.id(step.verb), _machine(simulation, step)
    yield s.ShutDown(id, ROOT, machine, shutdown_kind, restart=step.verb == "restart")


def _on(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    if step.machine in simulation.engine.state.machines:
        is_ending = simulation.engine.state.machines[step.machine].shutdown
        reason = "is still shutting down and waiting for its jobs" if is_ending else "is already in the pool"
        raise PlayError(f"{step.machine} {reason}, at {simulation.transcript.time(step.at)}", step.line)
    simulation.join(step.machine)
    yield from ()


def _benchmarks(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    seconds = length(_option(step, "takes")) / SECOND
    simulation.world.speeds[step.machine] = Speed(int(_option(step, "mips")), int(_option(step, "kflops")), seconds)
    yield from ()


def _backfill(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    client = behaviour(step.options)
    seconds = client.seconds if "run" in step.options else CLIENT.seconds
    simulation.world.clients[step.machine] = replace(client, seconds=seconds)
    yield from ()


def _backfill_exits(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    client_behaviour = behaviour(step.options)
    if not simulation.world.end_client(_machine(simulation, step), client_behaviour.code, client_behaviour.signal):
        time = simulation.transcript.time(step.at)
        raise PlayError(f"no backfill client runs on {step.machine} at {time}: START_BACKFILL starts one", step.line)
    yield from ()


def _reconfigure(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    machines = simulation.machines_of_step(step)
    for machine in machines:
        if step.verb == "set":
            ((name, value),) = step.attributes.items()
            simulation.machines.add_setting_line(machine, name, value, step.line)
        else:
            simulation.machines.replace(machine, step.sources)
        if machine in simulation.engine.state.machines:
            id = simulation.engine.id("reconfigure")
            command = simulation.machines.reconfigure_stimulus(id, machine, simulation.engine.state, step.line)
            yield replace(command, drains=True)
    for warning in simulation.machines.new_warnings():
        simulation.warn(step, warning)
    if simulation.machines.first in machines:
        yield simulation.machines.configure_stimulus(simulation.engine.id("reconfigure"), step.line)


def _claim(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    user, holder_address = _option(step, "by") or "somebody", _option(step, "from")
    slots = [step.thing] if not any(wildcard in step.thing for wildcard in "*?") else simulation.slots(step)
    for slot in slots:
        number = simulation.remote_schedds.number()
        ad = _remote_ad(simulation, step, user)
        job, claim = f"{number}.0", f"{holder_address}#{number}"
        if "run" in step.options:
            simulation.remote_schedds.jobs[claim] = RemoteJob(job, ad, behaviour(step.options))
        lease = length(_option(step, "lease")) // SECOND
        id = simulation.engine.id("claim")
        yield s.RequestClaim(id, slot, claim, holder_address, f"{user}@{holder_address}", job, ad, lease)


def _activate(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    for slot in simulation.slots(step):
        claim = simulation.engine.state.slots[slot].claim
        user = "somebody" if claim is None else claim.submitter.partition("@")[0]
        simulation.remote_schedds.behaviours[slot] = behaviour(step.options)
        ad = _remote_ad(simulation, step, user)
        yield s.ActivateClaim(simulation.engine.id("activate"), slot, f"{simulation.remote_schedds.number()}.0", ad)


def _remote_ad(simulation: Simulation, step: ScenarioStep, user: str) -> Ad:
    """Return the ad of a job from an external schedd."""
    now, settings, warn = simulation.world.now(), simulation.engine.state.settings, partial(simulation.warn, step)
    ad = submission(evolve(step, thing=user), "", 1, now, settings, warn).ad
    given_names = {name.lower() for name in (*step.attributes, *step.commands)}
    if "lease" in step.options and given_names.isdisjoint(("jobleaseduration", "job_lease_duration")):
        ad = {name: text for name, text in ad.items() if name != LEASE}  # the claim's own lease applies
    return {**ad, "Owner": f'"{user}"', "User": f'"{user}@{settings[UID_DOMAIN]}"', **step.attributes}


def _access_point(simulation: Simulation, step: ScenarioStep) -> Iterator[s.Stimulus]:
    for slot in simulation.claimed_slots():
        if "silent" in step.flags:
            yield s.HolderSilent(simulation.engine.id("silent"), slot.name, simulation.world.now())
        else:
            yield s.HolderHeard(simulation.engine.id("heard"), slot.name)


ACTIONS: dict[str, ScenarioAction] = {
    "submit": _submit,
    "hold": _act,
    "remove": _act,
    "measure": _measure,
    "edit": _edit,
    "vacate": _of_job_or_slots(lambda id, slot, step: s.VacateSlot(id, ROOT, slot, "fast" in step.flags)),
    "suspend": _of_job_or_slots(lambda id, slot, _: s.SuspendClaim(id, ROOT, slot)),
    "continue": _of_job_or_slots(lambda id, slot, _: s.ContinueClaim(id, ROOT, slot)),
    "release": _of_job_or_slots(lambda id, slot, _: s.ReleaseClaim(id, slot)),
    "drain": _drain,
    "cancel-drain": _cancel,
    "off": _off,
    "restart": _off,
    "on": _on,
    "benchmarks": _benchmarks,
    "backfill": _backfill,
    "backfill-exits": _backfill_exits,
    "reconfigure": _reconfigure,
    "set": _reconfigure,
    "match": _of_slots(lambda id, slot, _: s.NotifyMatch(id, slot)),
    "claim": _claim,
    "activate": _activate,
    "deactivate": _of_slots(
        lambda id, slot, step: s.DeactivateClaim(id, slot, "fast" in step.flags, "closing" in step.flags)
    ),
    "withdraw": _of_slots(lambda id, slot, _: s.WithdrawClaim(id, slot)),
    "fail": _of_slots(lambda id, slot, _: s.FailClaim(id, slot)),
    "access-point": _access_point,
}
