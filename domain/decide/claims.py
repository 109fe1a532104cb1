"""The life of a claim: made, activated for one job after the other, ended.

A slot that was matched is claimed by the job's submitter, activated for the job, and when the job has ended for the
next one of the same submitter that fits; when none is left the claim is released. A claim that is vacated tells its job
to end, first softly, then, when the job's time is up, hard; the slot leaves Preempting when the job's last process is
gone.
"""

from __future__ import annotations

from itertools import islice
from math import isfinite

from ..classad import EvaluationError
from ..dialects import Step, chain
from ..events import ClaimEnded, ClaimMade, JobActivated, JobSignalled, MatchVoided
from ..state import IDLE, Activation, Cluster, Slot
from ..texts import ad_of
from .draft import Draft, job_id
from .matching import evidence
from .slots import merge
from .waiting import Signature, fits, idle_procs, job_ad, significance, slot_ad, waiting

MICROSECONDS = 1_000_000


def weight(slot: Slot) -> int:
    """What a slot counts for in the accounting, in thousandths: its SlotWeight, which is Cpus unless configured."""
    ad = ad_of(slot.ad)
    name = "SlotWeight" if "SlotWeight" in ad else "Cpus"
    try:
        value = ad.eval(name)
    except EvaluationError:
        value = 1
    return round(value * 1000) if isinstance(value, int | float) and isfinite(value) and value >= 0 else 1000


def claim_matches(draft: Draft) -> None:
    """Claim each slot that was matched, and activate the claim for its job. A job that no longer waits leaves its match
    void (transition 8)."""
    state = draft.state
    for name, (number, proc) in list(state.matches.items()):
        slot = state.slots[name]
        cluster = state.clusters.get(number)
        waits = cluster is not None and proc in cluster and cluster.status_of(proc) == "Idle"
        if cluster is None or not waits or (number, proc) in state.by_job:
            _void(draft, slot)
            continue
        birth = slot.pair == "Owner/Idle"
        draft.follow(slot, "claim carved" if birth else "claim")
        claim = f"{name}#{slot.entered_state}#{state.position + 1}"
        draft.emit(ClaimMade(*draft.why("claimed"), name, claim, cluster.submitter, weight(slot)))
        activate(draft, slot, cluster, proc)


LOCAL_MOST = 200
"""Jobs of the local universe that run at one time, at most (the default of START_LOCAL_UNIVERSE)."""


def start_local(draft: Draft) -> None:
    """Start jobs of the local universe: the access point runs them itself, at once, without a match or a slot."""
    state = draft.state
    place = f"local@{state.name}"
    running = sum(1 for activation in state.activations.values() if activation.slot == place)
    for cluster in [c for c in state.clusters.values() if c.local and c.counts[IDLE]]:
        for proc in list(islice(idle_procs(cluster, state), max(0, LOCAL_MOST - running))):
            draft.tables.job.fire("Idle", "activate")
            draft.emit(JobActivated(*draft.why("local"), cluster.id, proc, place, ""))
            running += 1


def _void(draft: Draft, slot: Slot, happening: str = "match void") -> None:
    """Nobody will claim the slot for the job that it was matched with."""
    steps = chain(draft.state.dialect, happening)
    job = draft.state.matches[slot.name]
    draft.emit(MatchVoided(*draft.why(steps[0].cause if steps else "match_void"), slot.name, job_id(*job)))
    for step in steps:
        draft.move(slot, step)
    if slot.kind == "dynamic":
        merge(draft, slot)


def match_timed_out(draft: Draft, slot: Slot) -> None:
    """MATCH_TIMEOUT is over for a slot that nobody claimed (transition 8)."""
    _void(draft, slot, "match over")


def activate(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> None:
    """Start a job on a claimed, idle slot. What starts its processes is the event's being in the log."""
    assert slot.claim is not None
    draft.follow(slot, "activate")
    draft.tables.job.fire("Idle", "activate")
    draft.emit(JobActivated(*draft.why("activated"), cluster.id, proc, slot.name, slot.claim.id))


def reuse(draft: Draft, slot: Slot, before: int) -> None:
    """A claimed slot is idle: give it the next job of its submitter that fits, or release the claim. `before`: the
    cluster of the job that it had; that one of another fits is noted with its evidence."""
    assert slot.claim is not None
    life = draft.state.setting("CLAIM_WORKLIFE")
    if 0 <= life <= draft.now - slot.claim.since:
        release(draft, slot, "worklife")
        return
    found = _next(draft, slot, slot.claim.submitter)
    if found is None:
        release(draft, slot)
    else:
        cluster, proc = found
        if cluster.id != before:
            draft.emit(evidence(draft, job_ad(cluster, proc), slot_ad(slot)))
        activate(draft, slot, cluster, proc)


def _next(draft: Draft, slot: Slot, submitter: str) -> tuple[Cluster, int] | None:
    state = draft.state
    likeness = significance(state)
    refused: set[Signature] = set()
    skipped: set[int] = set()
    taken = set(state.matches.values())
    for cluster, proc in waiting(state, submitter):
        if cluster.id in skipped or (cluster.id, proc) in taken:
            continue
        signature = likeness.signature(cluster, proc)
        if signature not in refused:
            if fits(draft, slot, cluster, proc, signature):
                return cluster, proc
            refused.add(signature)
        if likeness.uniform(cluster):
            skipped.add(cluster.id)
    return None


def release(draft: Draft, slot: Slot, cause: str = "no_more_jobs") -> None:
    """The claim's holder gives up an idle claim."""
    first, *rest = chain(draft.state.dialect, "release")
    draft.move(slot, Step(first.row, cause, first.target))
    _finish(draft, slot, rest)


def _finish(draft: Draft, slot: Slot, steps: list[Step] | tuple[Step, ...]) -> None:
    """End the claim of a slot that is in Preempting without a job, and take the slot back to where it can be
    matched."""
    end_claim(draft, slot, steps[0].cause)
    for step in steps:
        draft.move(slot, step)
    if slot.kind == "dynamic":
        merge(draft, slot)


def end_claim(draft: Draft, slot: Slot, cause: str) -> None:
    claim = slot.claim
    assert claim is not None
    usage = (draft.now - claim.since) * claim.weight
    draft.emit(ClaimEnded(*draft.why(cause), slot.name, claim.id, claim.submitter, usage))


# Ending what runs


def vacate(draft: Draft, slot: Slot, fast: bool, cause: str) -> bool:
    """Vacate a slot, whatever it does, because of `cause`; False if it has neither claim nor match."""
    if slot.name in draft.state.matches:
        _void(draft, slot, "vacate matched" if slot.state == "Matched" else "match void")
        return True
    if slot.state == "Preempting":
        if fast and slot.activation:
            signal(draft, slot.activation, "hard", cause)
        return True
    if slot.activation is None:
        return False
    happening = "vacate suspended" if slot.activity == "Suspended" else "vacate busy"
    for step in chain(draft.state.dialect, f"{happening} fast" if fast else happening):
        draft.move(slot, step._replace(cause=cause) if step.cause == "vacate_command" else step)
    signal(draft, slot.activation, "hard" if fast else "soft", cause)
    return True


def stop(draft: Draft, activation: Activation, cause: str) -> None:
    """The claim's holder ends its job and keeps the claim: softly, and a suspended job is let go on for it."""
    slot = draft.state.slots.get(activation.slot)
    if slot is not None and slot.pair == "Claimed/Suspended":
        draft.move(slot, Step("15", cause))
    signal(draft, activation, "soft", cause)


def signal(draft: Draft, activation: Activation, how: str, cause: str) -> None:
    """Tell a job's processes to end. Once told softly, they are not told so again."""
    if how == "hard" or not activation.stop:
        draft.emit(JobSignalled(*draft.why(cause), activation.cluster, activation.proc, how))


def vacate_time(draft: Draft, activation: Activation) -> int:
    """How long, in microseconds, a job may take to end after its soft kill: MachineMaxVacateTime, or the job's own
    JobMaxVacateTime if that is less."""
    machine = draft.state.setting("MachineMaxVacateTime")
    cluster = draft.state.clusters.get(activation.cluster)
    if cluster is None or not cluster.value(activation.proc, "JobMaxVacateTime"):
        return machine
    slot = draft.state.slots.get(activation.slot)
    try:
        value = job_ad(cluster, activation.proc).eval(
            "JobMaxVacateTime", ad_of(slot.ad) if slot else None, draft.context
        )
    except EvaluationError:
        return machine
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        return machine
    return min(machine, round(value * MICROSECONDS))


def deadline(draft: Draft, activation: Activation) -> int | None:
    """When an activation that was told to end is told so again, harder; None while nobody told it."""
    if activation.stop == "soft":
        return activation.told + vacate_time(draft, activation)
    if activation.stop == "hard":
        return activation.told + draft.state.setting("KILLING_TIMEOUT")
    return None


def escalate(draft: Draft, activation: Activation) -> None:
    """The time to end is up: the slot goes from Vacating to Killing (transition 21), the processes are killed."""
    slot = draft.state.slots.get(activation.slot)
    if slot is not None and slot.pair == "Preempting/Vacating":
        draft.follow(slot, "kill")
    signal(draft, activation, "hard", "kill_timeout")


def job_gone(draft: Draft, slot: Slot, cluster: int) -> None:
    """The last process of the slot's job, of this cluster, is gone: the slot goes on."""
    if slot.state == "Preempting":
        happening = "killed" if slot.activity == "Killing" else "vacated"
        _finish(draft, slot, chain(draft.state.dialect, happening))
        return
    draft.follow(slot, "job ended")
    reuse(draft, slot, cluster)
