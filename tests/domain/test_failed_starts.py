"""Golden: a job that could not be started is held if it is the job's fault, and waits if it is the machine's."""

from __future__ import annotations

import errno

from poolbook.domain.events import ClaimEnded, JobActivated, JobExited
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state_machines.hold_codes import TRANSFER_CODES
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..together import together
from .pools import TestPool

FULL = "scratch /pool.db.d/execute/dir_9: No space left on device"


def failed(code: int, number: int = errno.ENOSPC) -> TestPool:
    """Return a pool of one slot with two jobs, of which the first could not be started."""
    pool = TestPool(behave=lambda launch: Behaviour(1000, immortal=True))
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(1)
    (key,) = pool.state.activations
    pool.handle(
        s.ActivationEnded(
            f"end-{key}", key, pool.world.clock, failed=True, hold_reason=FULL, hold_code=code, hold_subcode=number
        )
    )
    return pool


@together(
    ("code", "status", "reason", "row", "runs_next"),
    [
        (1024, "Idle", "VacateReason", "evict", None),
        (1003, "Idle", "VacateReason", "evict", None),
        (6, "Held", "HoldReason", "hold", 1),
        (7, "Held", "HoldReason", "hold", 1),
        (23, "Held", "HoldReason", "hold", 1),
        # files that could not be moved are the job's fault, unless the subcode says that they are the machine's
        (12, "Held", "HoldReason", "hold", 1),
        (13, "Held", "HoldReason", "hold", 1),
        (12, "Idle", "VacateReason", "evict", None),
        (13, "Idle", "VacateReason", "evict", None),
    ],
)
def test_the_code_of_a_failed_start_decides_whether_the_job_waits_or_is_held(
    code: int, status: str, reason: str, row: str, runs_next: int | None
) -> None:
    number = -1000 if code in TRANSFER_CODES and status == "Idle" else errno.ENOSPC
    pool = failed(code, number)
    (end,) = [event for event in pool.events() if isinstance(event, JobExited)]
    ad = pool.state.clusters[1].attributes(0)
    assert (pool.status("1.0"), end.outcome, end.row) == (status, "failed", row)
    assert [ad[f"{reason}{part}"] for part in ("", "Code", "SubCode")] == [f'"{FULL}"', str(code), str(number)]
    assert [activation.proc for activation in pool.state.activations.values()] == (
        [] if runs_next is None else [runs_next]
    )
    assert fold(pool.log.read()).clusters[1].attributes(0) == ad
    assert list(validate(pool.log.read())) == []


def test_a_machine_that_could_not_start_a_job_is_tried_again_after_a_second() -> None:
    pool = failed(1024)
    end = pool.world.clock
    pool.advance(0.9)
    assert not pool.state.activations
    pool.advance(0.5)
    assert pool.status("1.0") == "Running"
    assert [event.at - end for event in pool.events() if isinstance(event, JobActivated)][1:] == [1_000_000]
    assert list(validate(pool.log.read())) == []


def test_a_job_that_could_not_start_gives_up_its_claim_and_why_says_so() -> None:
    pool = failed(1024)
    (end,) = [event for event in pool.events() if isinstance(event, ClaimEnded)]
    assert end.cause == "execution_failed"
    explanation = " ".join(line.full for line in why_job(list(pool.log.read()), 1, 0).lines)
    assert f"it could not be started; it is idle again: {FULL} (code 1024, ScratchDirError: its scratch" in explanation
