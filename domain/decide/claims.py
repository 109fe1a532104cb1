"""The access point's side of a claim: made for a match, activated for one job after the other, given up.

A slot that was matched is claimed by the job's submitter, activated for the job, and when the job has ended for the
next one of the same submitter that fits; when none is left the claim is released. What the slot makes of it, and when
its owner's policy ends it, is the execution point's (``point/``).
"""

from __future__ import annotations

from itertools import islice

from ..events import ClaimMade, JobActivated
from ..policy import terms
from ..state import IDLE, Activation, Cluster, Slot
from .draft import Draft
from .matching import evidence
from .point.change import tell
from .point.claiming import job_gone, rank, release, take
from .point.ending import kill, retire, void
from .point.jobs import signal_job
from .slots import weight
from .waiting import Signature, fits, idle_procs, job_ad, significance, slot_ad, waiting, words


def claim_matches(draft: Draft) -> None:
    """Claim each slot that was matched, and activate the claim for its job. A job that no longer waits leaves its match
    void (transition 8)."""
    state = draft.state
    for name, (number, proc) in list(state.matches.items()):
        slot = state.slots[name]
        cluster = state.clusters.get(number)
        waits = cluster is not None and proc in cluster and cluster.status_of(proc) == "Idle"
        if cluster is None or not waits or (number, proc) in state.by_job:
            void(draft, slot, "match_void")
            continue
        claim = f"{name}#{draft.now}#{state.position + 1}"
        value = rank(draft, slot, cluster.attributes(proc)) if "Rank" in slot.ad else 0.0
        made = ClaimMade(*draft.why("claimed"), name, claim, cluster.submitter, weight(slot), value)
        if take(draft, slot, made):
            activate(draft, slot, cluster, proc)
        elif name in state.matches:
            void(draft, slot, "claim_failed")


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


def activate(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> None:
    """Start a job on a claimed, idle slot. What starts its processes is the event's being in the log."""
    assert slot.claim is not None
    draft.tables.job.fire("Idle", "activate")
    promised = terms.machine_vacate_time(draft.look(slot))
    draft.emit(JobActivated(*draft.why("activated"), cluster.id, proc, slot.name, slot.claim.id, promised))
    tell(draft, slot, "activate", "activated")


def job_ended(draft: Draft, slot: Slot, cluster: int) -> None:
    """The last process of the slot's job, of this cluster, is gone: the slot goes on, and if it is still claimed and
    idle then, so does its holder."""
    tell(draft, slot, "job reported", "job_ended")
    job_gone(draft, slot)
    if draft.state.slots.get(slot.name) is slot and slot.pair == "Claimed/Idle" and _own(slot):
        reuse(draft, slot, cluster)


def _own(slot: Slot) -> bool:
    """Whether the pool's own access point holds the slot."""
    return slot.claim is not None and not slot.claim.holder


def reuse(draft: Draft, slot: Slot, before: int) -> None:
    """A claimed slot is idle: give it the next job of its submitter that fits, or release the claim. `before`: the
    cluster of the job that it had; that one of another fits is noted with its evidence."""
    assert slot.claim is not None
    machine = draft.state.machines.get(slot.machine)
    found = None if machine is not None and machine.shutdown else _next(draft, slot, slot.claim.submitter)
    if found is None:
        release(draft, slot, "no_more_jobs")
    else:
        cluster, proc = found
        if cluster.id != before:
            read = words(significance(draft.state).signature(cluster, proc))
            draft.emit(evidence(draft, job_ad(cluster, proc), slot_ad(draft, slot, read)))
        activate(draft, slot, cluster, proc)


def _next(draft: Draft, slot: Slot, submitter: str) -> tuple[Cluster, int] | None:
    state = draft.state
    likeness = significance(state)
    refused: set[Signature] = set()
    skipped: set[int] = set()
    taken = set(state.matches.values())
    for cluster, proc in waiting(state, submitter, skipped=skipped):
        if (cluster.id, proc) in taken:
            continue
        signature = likeness.signature(cluster, proc)
        if signature not in refused:
            if fits(draft, slot, cluster, proc, signature):
                return cluster, proc
            refused.add(signature)
        if likeness.uniform(cluster):
            skipped.add(cluster.id)
    return None


# Ending what runs


def vacate(draft: Draft, slot: Slot, fast: bool, cause: str) -> bool:
    """Vacate a slot, whatever it does, because of `cause`; False if it has neither claim nor match."""
    return kill(draft, slot, cause) if fast else retire(draft, slot, cause) or slot.state == "Preempting"


def stop(draft: Draft, activation: Activation, cause: str) -> None:
    """The claim's holder ends its job and keeps the claim: softly, and a suspended job is let go on for it."""
    slot = draft.state.slots.get(activation.slot)
    if slot is not None and slot.pair == "Claimed/Suspended":
        draft.move(slot, "15", cause)
    signal(draft, activation, "soft", cause)


def signal(draft: Draft, activation: Activation, how: str, cause: str) -> None:
    """Tell a job's processes to end. Once told softly, they are not told so again."""
    if how == "hard" or not activation.stop:
        signal_job(draft, activation, how, cause)
