"""How long a job is granted: its retirement, and its time to end.

From the manual ("Claimed State", "State/Activity Transition Expression Summary") and, where it leaves a thing open, the
reference's behaviour:

* A job that must go may run until it has run for MaxJobRetirementTime, not counting what it was suspended for. The job
  may wish for less (MaxJobRetirementTime in its own ad; 0 for nice_user jobs), never for more.
* It is told to end so early that its time to end, too, is within its retirement.
* Its time to end is MachineMaxVacateTime as it was when the job began, or its own JobMaxVacateTime if that is less; if
  that is more, what is left of its retirement serves as time to end.
* A peaceful shutdown grants all the time in the world, except where MaxJobRetirementTime is -1.
* While a machine drains gracefully, all its jobs retire until the last of them must go; the real startd sends one away
  before whose own retirement is over.
"""

from __future__ import annotations

from ..state.state import Drain, Slot
from ..state_machines.rows import MANUAL
from .evaluation import Look, truth
from .settings import MICROSECONDS, setting
from .slot_ad import neighbours

FOREVER = 2**31 - 1
"""Seconds that stand for no limit."""


def retirement_left(look: Look) -> int:
    """Microseconds that are left of the retirement time of the slot's job; 0 without a job."""
    slot = look.slot
    if slot.activation is None:
        return 0
    granted = look.number("MaxJobRetirementTime") or 0
    if slot.claim is not None and "peaceful" in slot.claim.marks and granted != -1:
        granted = FOREVER
    wish = look.of_job("MaxJobRetirementTime")
    if wish is not None and wish < granted:
        granted = wish
    drain = drain_of(look)
    if drain is not None and drain.final:
        granted = 0
    return max(0, granted * MICROSECONDS - slot.activation.ran(look.now))


def machine_vacate_time(look: Look) -> int:
    """MachineMaxVacateTime now, in microseconds: what a job that begins is promised."""
    found = look.number("MachineMaxVacateTime")
    if found is not None:
        return max(0, found) * MICROSECONDS
    return round(float(look.state.settings.get("MachineMaxVacateTime", "600")) * MICROSECONDS)


def vacate_time(look: Look) -> int:
    """Microseconds that the slot's job has to end when it is told to; 0 without a job."""
    activation = look.slot.activation
    if activation is None:
        return 0
    machine = activation.vacate
    said = next((name for name in ("JobMaxVacateTime", "KillSigTimeout") if look.job_says(name)), "")
    if not said:
        return machine
    own = max(0, look.of_job(said) or 0) * MICROSECONDS  # what it says is no number: it wants no time
    if own <= machine:
        return own
    return min(own, max(machine, retirement_left(look)))


def drain_of(look: Look) -> Drain | None:
    """The drain of the slot's machine, if it drains."""
    machine = look.state.machines.get(look.slot.machine)
    return None if machine is None else machine.drain


def draining(look: Look) -> bool:
    return drain_of(look) is not None


def may_unretire(look: Look) -> bool:
    """Whether a retiring claim may go on: nothing irrevocable made it retire, and what did is gone."""
    claim = look.slot.claim
    return not draining(look) and claim is not None and "irrevocable" not in claim.marks and look.slot.waiting is None


def in_retirement(look: Look) -> bool:
    """Whether the claim is to end: a better match waits, the machine drains, or something irrevocable happened."""
    return not may_unretire(look)


def drain_left(look: Look) -> int:
    """Microseconds until the last of the jobs that a graceful drain found must go; 0 in other drains."""
    drain = drain_of(look)
    if drain is None or drain.schedule != "Graceful":
        return 0
    return max((retirement_left(_of(look, slot)) for slot in _old(look)), default=0)


def _old(look: Look) -> list[Slot]:
    """The slots of the machine whose claims are older than its drain."""
    return [slot for slot in neighbours(look.state, look.slot) if not (slot.claim and "late" in slot.claim.marks)]


def _of(look: Look, slot: Slot) -> Look:
    return look if slot is look.slot else Look(look.state, slot, look.sense, look.now, look.context)


def retirement_over(look: Look) -> bool:
    """Whether the slot's job must be told to end now, so that it ends within its retirement."""
    remains = left(look)
    return remains <= 0 or vacate_time(look) >= remains


def left(look: Look) -> int:
    """What is left of the slot's retirement; in a drain, that of all the machine's jobs."""
    mine, drain = retirement_left(look), drain_of(look)
    if drain is None:
        return mine
    if look.state.dialect == MANUAL:
        # Graceful: "delayed until the job with the longest retirement time needs to be evicted". Else there is none.
        return drain_left(look)
    if look.slot.pair == "Claimed/Idle":
        return drain_left(look)
    late = look.slot.claim is not None and "late" in look.slot.claim.marks
    if mine > 0 and (late or _start_accepts(look)):
        return drain_left(look)
    return mine


def _start_accepts(look: Look) -> bool:
    """Whether START accepts the job that runs."""
    start = look.expression("Start")
    mine, job = look.whole()
    return start is not None and truth(start, mine, job, look.context) is True


def waits_for_activation(look: Look) -> bool:
    """Whether an idle claim is so young that its job may be on its way (MAX_DRAINING_ACTIVATION_DELAY)."""
    claim = look.slot.claim
    machine = look.state.machines.get(look.slot.machine)
    delay = float(setting(look.state, machine, "MAX_DRAINING_ACTIVATION_DELAY"))
    return claim is not None and look.now - claim.since < delay * MICROSECONDS


def worklife_over(look: Look) -> bool:
    """Whether the claim is older than CLAIM_WORKLIFE, and has had a job."""
    claim = look.slot.claim
    if claim is None or not claim.activations:
        return False
    life = worklife(look) * MICROSECONDS
    return 0 <= life < look.now - claim.since


def worklife(look: Look) -> int:
    """CLAIM_WORKLIFE in seconds; negative: claims do not age."""
    life = look.number("CLAIM_WORKLIFE")
    return int(float(look.state.settings.get("CLAIM_WORKLIFE", "1200"))) if life is None else life
