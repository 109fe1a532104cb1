"""What happens because time passes. A timer is state: what is due, and when the next thing will be, is asked of it.

Timers are MATCH_TIMEOUT, the lease of a claim whose holder is silent, the time to which the start of a job is deferred,
the cool-down of a job, the time that jobs have to go for one that is to run at once, and the time that a job or a
backfill client has to end. What else is due by itself is in ``agenda``.
"""

from __future__ import annotations

from ..decision.draft import Draft
from ..names import JobId
from ..schedd import claims, cool_down
from ..schedd.deferred_starts import deferral_over
from ..startd import backfill_client
from ..startd.job_signals import signal
from ..startd.startd_settings import duration
from ..startd.transitions import trigger
from ..startd.vacating import kill, void
from ..state.state import Activation, State
from ..units import SECOND


def _due(state: State) -> list[tuple[int, str, str]]:
    """Every timer that runs: when, what, whose."""
    found = []
    for name in state.matched:
        slot = state.slots[name]
        found.append(
            (slot.entered_state + duration(state, state.machines.get(slot.machine), "MATCH_TIMEOUT"), "match", name)
        )
    for name in state.silent_claims:
        slot = state.slots[name]
        if slot.claim is not None and slot.state == "Claimed" and "closing" not in slot.claim.marks:
            found.append((slot.claim.until, "lease", name))
    for key in state.ending:
        found.append((_deadline(state, state.activations[key]), "stop", key))
    for name in state.preempting:
        slot = state.slots[name]
        if slot.activation is not None and not slot.activation.cluster and slot.activation.stop:
            found.append((slot.activation.until, "starter", name))
    for name in state.destined:
        slot = state.slots[name]
        found.append(
            (slot.destined + duration(state, state.machines.get(slot.machine), "MATCH_TIMEOUT"), "match", name)
        )
    for key in state.deferred:
        found.append((max(state.activations[key].deferred, state.activations[key].began), "deferral", key))
    for (number, proc), last in state.cooling.items():
        found.append(((last + 1) * SECOND, "cool-down", f"{number}.{proc}"))
    for (number, proc), earmark in state.earmarks.items():
        found.append((earmark.until, "earmark", f"{number}.{proc}"))  # what follows: schedd/run_now.py
    for name in state.clients:
        client = state.machines[name].backfill
        if client is not None and client.told:
            found.append((client.until, "client", name))
    return sorted(found)


def _deadline(state: State, activation: Activation) -> int:
    """When an activation that was told to end is told so again, harder. Logs of the first release do not say: there it
    follows from the pool's settings."""
    if activation.until:
        return activation.until
    patience = "KILLING_TIMEOUT" if activation.stop == "hard" else "MachineMaxVacateTime"
    return activation.told + state.setting(patience)


def fire_timers(draft: Draft[State]) -> None:
    """Let happen what is due by now, the earliest first."""
    state = draft.state
    for when, what, name in _due(state):
        if when > draft.now:
            break
        slot = state.slots.get(name)
        if what == "stop" and name in state.activations:
            _escalate(draft, state.activations[name])
        elif what == "deferral" and name in state.deferred:
            deferral_over(draft, state.activations[name])
        elif what == "match" and (name in state.matched or name in state.destined) and slot is not None:
            void(draft, slot, "match_timeout")
        elif what == "cool-down":
            cool_down.end(draft, *JobId.parse(name))
        elif what == "client" and name in state.clients:
            backfill_client.end(draft, state.machines[name], "kill_timeout")
        elif what == "lease" and name in state.silent_claims and slot is not None:
            kill(draft, slot, "lease_over")
        elif what == "starter" and slot is not None and slot.activation is not None:
            _escalate(draft, slot.activation)


def _escalate(draft: Draft[State], activation: Activation) -> None:
    """The time to end is up: the slot goes from Vacating to Killing where its triggers say so, and the
    processes are killed."""
    slot = draft.state.slots.get(activation.slot)
    if slot is not None and trigger(draft, slot, "vacate time over", "vacate_timeout"):
        return
    if slot is not None:
        signal(draft, slot, "hard", "kill_timeout")
    else:
        claims.signal(draft, activation, "hard", "kill_timeout")


def next_timer(state: State) -> int | None:
    """The earliest instant at which a timer is due; None while none runs."""
    due = _due(state)
    return due[0][0] if due else None
