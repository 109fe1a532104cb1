"""Pools in which several jobs compete for one slot, and cycles made by hand, which match it as the test says."""

from __future__ import annotations

from poolbook.domain.events import CycleHeld, EvaluationRecorded, Match
from poolbook.domain.state.state import State
from poolbook.replay.virtual_world import Behaviour

from .pools import TestPool

DIALECTS = ["manual", "htcondor-25"]
SLOT = "slot1@h"
RETIRES = {"MaxJobRetirementTime": "60"}
NEGOTIATED = "negotiated"
LEFT_ALONE = {"NEGOTIATOR_CONSIDER_PREEMPTION": "false"}
"""Settings of a pool that never preempts."""


def contested(dialect: str, *behaviours: Behaviour, **policy: str) -> TestPool:
    """Return a pool of one slot, which has run alice's job 1.0 since 10 s, while bob's 2.0 and 2.1 wait. Each
    cluster's jobs have one behaviour."""
    kinds = behaviours or (Behaviour(100),)
    pool = TestPool(
        dialect=dialect, settings=LEFT_ALONE, behave=lambda launch: kinds[min(launch.cluster, len(kinds)) - 1]
    )
    pool.machine("h", 2, 2048, 1, **{"Rank": 'TARGET.Owner == "bob"', "MachineMaxVacateTime": "5"} | policy)
    pool.submit(user="alice")
    pool.advance(10)
    pool.submit(2, user="bob")
    return pool


def append_cycle(pool: TestPool, job: str, slot: str = SLOT, reason: str = "rank") -> None:
    """Append a cycle that matches the slot with the job, without its consequences."""
    now, stimulus = pool.engine.now(), f"by-hand-{pool.id()}"
    note = EvaluationRecorded(now, NEGOTIATED, stimulus, "Requirements", "true", "true", {})
    pool.log.append([note, CycleHeld(now, NEGOTIATED, stimulus, (Match(job, slot, reason=reason),), ())])
    pool.engine.read_on()


def match_slot(pool: TestPool, job: str, slot: str = SLOT, reason: str = "rank") -> None:
    """Match the slot with the job, and let the access point act on the match."""
    append_cycle(pool, job, slot, reason)
    pool.engine.handle([])


def jobs_waiting_for_claims(state: State) -> dict[tuple[int, int], str]:
    """Return the jobs that wait for a slot's present claim to end, with the slots."""
    claimed_jobs = {
        name: slot.queued_claim.job.split(".")
        for name, slot in state.slots.items()
        if slot.queued_claim is not None and not slot.queued_claim.holder
    }
    return {(int(cluster), int(proc)): name for name, (cluster, proc) in claimed_jobs.items()}


def promises(state: State) -> dict[tuple[int, int], str]:
    """Return the jobs that wait for a slot that was promised to them, with the slots: what ``promised`` must
    contain."""
    matched_slots = {job: name for name, jobs in state.matches.items() for job in jobs}
    return jobs_waiting_for_claims(state) | matched_slots | {job: name for name, job in state.ready_claims.items()}
