"""Golden: the events in a job's log when the owner of its machine has a policy, drains the machine or turns it off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from .pool import JOB, Pool, event_body

JOB_1 = (1, 0)
NOT_HERE = "the machine policy says hold"
OWNED = {
    "Start": "AtWork =!= true && Needed =!= true",
    "WANT_SUSPEND": "AtWork =?= true && Needed =!= true",
    "SUSPEND": "AtWork =?= true",
    "CONTINUE": "AtWork =!= true",
    "PREEMPT": "Needed =?= true",
    "WANT_HOLD": "Needed =?= true && NoMore =?= true",
    "WANT_HOLD_REASON": f'"{NOT_HERE}"',
    "WANT_HOLD_SUBCODE": "77",
    "MaxJobRetirementTime": "10",
    "MachineMaxVacateTime": "2",
}


def pool_with_owner(*readings: str) -> Pool:
    """Return a pool in which job 1.0 has begun on a machine with an owner, whose sensors then report these values."""
    pool = Pool(VirtualWorld(lambda launch: Behaviour(300, grace=1)))
    pool.machine("host", 1, Cpus="1", Memory="1024", Disk="4096", **OWNED)
    pool.submit(JOB)
    pool.run(1)
    if readings:
        report_sensors(pool, *readings)
    return pool


def report_sensors(pool: Pool, *readings: str) -> None:
    pool.world.set_readings("host", Readings(attributes=dict.fromkeys(readings, "true")))
    pool.run(20)


def suspended_and_resumed_by_its_machine() -> Pool:
    pool = pool_with_owner("AtWork")
    report_sensors(pool)
    return pool


def preempted() -> Pool:
    return pool_with_owner("Needed")


def preempted_while_suspended() -> Pool:
    pool = pool_with_owner("AtWork")
    report_sensors(pool, "AtWork", "Needed")
    return pool


def held_by_its_machine() -> Pool:
    return pool_with_owner("Needed", "NoMore")


def drained() -> Pool:
    pool = pool_with_owner()
    pool.ask(s.Drain(pool.next_id(), "root", "host"))
    pool.run(30)
    return pool


def drained_for_a_while_and_vacated() -> Pool:
    pool = pool_with_owner()
    pool.ask(s.Drain(pool.next_id(), "root", "host"))
    pool.ask(s.CancelDrain(pool.next_id(), "root", "host"))
    pool.run(6)
    pool.act("vacate", JOB_1)
    pool.run(15)
    return pool


def turned_off() -> Pool:
    pool = pool_with_owner()
    pool.ask(s.ShutDown(pool.next_id(), "root", "host", "Fast"))
    pool.run(1)
    return pool


@pytest.mark.parametrize(
    ("happens", "log"),
    [
        # what happens                         the events of job 1.0
        (suspended_and_resumed_by_its_machine, "000 001 010 011"),
        (preempted, "000 001 004"),
        (preempted_while_suspended, "000 001 010 011 004"),
        (held_by_its_machine, "000 001 021 004 012"),
        (drained, "000 001 004"),
        (drained_for_a_while_and_vacated, "000 001 004 001"),
        (turned_off, "000 001 004"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_machines_action_on_a_job_is_logged(happens: Callable[[], Pool], log: str) -> None:
    assert " ".join(entry.split()[0] for entry in happens().numbers()) == log


@pytest.mark.parametrize(
    ("happens", "number", "expected"),
    [
        (preempted, "004", "Job was evicted. Code 1011 Subcode 0\n"),
        (preempted, "004", "\tReason: PREEMPT expression evaluated to True\n"),
        (held_by_its_machine, "021", f"Error from starter on slot1@host:\n\t{NOT_HERE}\n\tCode 21 Subcode 77\n"),
        (held_by_its_machine, "004", "Job was evicted. Code 21 Subcode 77\n"),
        (held_by_its_machine, "004", f"\tReason: Error from slot1@host: {NOT_HERE}\n"),
        (held_by_its_machine, "012", f"\tError from slot1@host: {NOT_HERE}\n\tCode 21 Subcode 77\n"),
        (drained, "004", "Job was evicted. Code 1014 Subcode 0\n"),
        (drained, "004", "\tReason: Startd was draining\n"),
        (drained_for_a_while_and_vacated, "004", "Job was evicted. Code 1022 Subcode 0\n"),
        (turned_off, "004", "Job was evicted. Code 1013 Subcode 0\n"),
    ],
)  # fmt: skip
def test_an_event_has_the_text(happens: Callable[[], Pool], number: str, expected: str) -> None:
    assert expected in event_body(happens(), number)
