"""The timers of an execution point: what is due of them, and what happens then.

They are MATCH_TIMEOUT, the lease of a claim whose holder is silent, and the time that a job, or a backfill client, has
to end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..decision.draft import Draft
from ..names import JobId
from ..ports.timers import Timer
from ..state.records import Slot
from ..state.state import ExecutionPoint
from . import backfill_client
from .job_signals import signal
from .startd_settings import duration
from .transitions import trigger
from .vacating import kill, void


def timers(state: ExecutionPoint) -> Iterator[Timer]:
    """Yield every timer that runs."""
    for name in state.matched:
        slot = state.slots[name]
        yield Timer(slot.entered_state + _match_timeout(state, slot), "match", name)
    for name in state.destined:
        slot = state.slots[name]
        yield Timer(slot.destined + _match_timeout(state, slot), "match", name)
    for name in state.silent_claims:
        claim, where = state.slots[name].claim, state.slots[name].state
        if claim is not None and where == "Claimed" and "closing" not in claim.marks:
            yield Timer(claim.until, "lease", name)
    for job in state.stopping:
        starter = state.starters[job]
        patience = "KILLING_TIMEOUT" if starter.stop == "hard" else "MachineMaxVacateTime"
        # Logs of the first release do not say until when: there it follows from the pool's settings.
        yield Timer(starter.until or starter.told + state.setting(patience), "stop", starter.key, JobId(*job))
    for name in state.preempting:
        outside = state.slots[name].activation
        if outside is not None and not outside.cluster and outside.stop:
            yield Timer(outside.until, "starter", name)
    for name in state.clients:
        client = state.machines[name].backfill
        if client is not None and client.told:
            yield Timer(client.until, "client", name)


def _match_timeout(state: ExecutionPoint, slot: Slot) -> int:
    return duration(state, state.machines.get(slot.machine), "MATCH_TIMEOUT")


def fire(draft: Draft[ExecutionPoint], timer: Timer) -> None:
    """Let happen what is due, if it still is."""
    state, name = draft.state, timer.name
    if timer.what == "client" and name in state.clients:
        backfill_client.end(draft, state.machines[name], "kill_timeout")
        return
    starter = None if timer.job is None else state.starters.get(timer.job)
    slot = state.slots.get(name if timer.job is None else "" if starter is None else starter.slot)
    if slot is None:
        return
    if timer.what == "match" and (name in state.matched or name in state.destined):
        void(draft, slot, "match_timeout")
    elif timer.what == "lease" and name in state.silent_claims:
        kill(draft, slot, "lease_over")
    elif timer.what in ("stop", "starter") and slot.activation is not None:
        _escalate(draft, slot)


def _escalate(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """The time to end is up: the slot goes from Vacating to Killing where its triggers say so, and the processes are
    killed."""
    if not trigger(draft, slot, "vacate time over", "vacate_timeout"):
        signal(draft, slot, "hard", "kill_timeout")
