"""The timers of an execution point, and what happens when they expire.

A timer runs until a match times out (MATCH_TIMEOUT), until the lease of a silent claim holder expires, until the
deferred job of an external access point starts, and until a signalled job or backfill client must have exited.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..decision.draft import Draft
from ..names import JobId
from ..ports.timers import Timer
from ..state.peers import ACCESS_POINT, role_of
from ..state.records import Slot
from ..state.state import ExecutionPoint
from . import backfill_client, remote_runs
from .job_signals import signal_job
from .startd_settings import duration
from .transitions import fire_trigger
from .vacating import cancel_match, kill_claim


def timers(state: ExecutionPoint) -> Iterator[Timer]:
    """Yield all running timers."""
    for name in state.matched:
        slot = state.slots[name]
        yield Timer(slot.entered_state + _match_timeout(state, slot), "match", name)
    for name in state.matched_in_backfill:
        slot = state.slots[name]
        yield Timer(slot.destination_since + _match_timeout(state, slot), "match", name)
    for name in state.silent_claims:
        claim, slot_state = state.slots[name].claim, state.slots[name].state
        if claim is not None and slot_state == "Claimed" and "closing" not in claim.flags:
            if role_of(claim.holder) == ACCESS_POINT:
                continue  # the end is reported by a clock that no one can set
            yield Timer(claim.lease_end, "lease", name)
    for job in state.stopping:
        starter = state.starters[job]
        limit_name = "KILLING_TIMEOUT" if starter.stop_signal == "hard" else "MachineMaxVacateTime"
        # Logs of the first release contain no deadline, so it is computed from the pool's settings.
        yield Timer(
            starter.next_signal or starter.last_signalled + state.setting(limit_name), "stop", starter.key, JobId(*job)
        )
    for name in dict.fromkeys([*state.preempting, *state.remote_runs.values()]):
        outside_starter = state.slots[name].activation
        if outside_starter is None or outside_starter.cluster:
            continue
        if outside_starter.stop_signal:
            yield Timer(outside_starter.next_signal, "starter", name)
        elif outside_starter.deferred and outside_starter.ready:
            yield Timer(remote_runs.start_time(state, outside_starter), "deferral", name)
    for name in state.backfill_clients:
        client = state.machines[name].backfill
        if client is not None and client.last_signalled:
            yield Timer(client.next_signal, "client", name)


def _match_timeout(state: ExecutionPoint, slot: Slot) -> int:
    return duration(state, state.machines.get(slot.machine), "MATCH_TIMEOUT")


def fire_timer(draft: Draft[ExecutionPoint], timer: Timer) -> None:
    """Perform the action of a timer, if it still applies."""
    state, name = draft.state, timer.name
    if timer.kind == "client" and name in state.backfill_clients:
        backfill_client.end_client(draft, state.machines[name], "kill_timeout")
        return
    starter = None if timer.job is None else state.starters.get(timer.job)
    slot = state.slots.get(name if timer.job is None else "" if starter is None else starter.slot)
    if slot is None:
        return
    if timer.kind == "match" and (name in state.matched or name in state.matched_in_backfill):
        cancel_match(draft, slot, "match_timeout")
    elif timer.kind == "lease" and name in state.silent_claims:
        kill_claim(draft, slot, "lease_over")
    elif timer.kind == "deferral" and slot.activation is not None:
        remote_runs.start_deferred_run(draft, slot)
    elif timer.kind in ("stop", "starter") and slot.activation is not None:
        moves_to_killing = fire_trigger(draft, slot, "vacate time over", "vacate_timeout")
        if not moves_to_killing:  # entering Killing sends the signal
            signal_job(draft, slot, "hard", "kill_timeout")
