"""Golden: attributes that a job writes with condor_chirp are logged once, as far as its owner could have edited
them."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from .pools import TestPool

WRITES = (
    (1, "set", "Step", "7"),
    (2, "set", "requestmemory", "4"),
    (3, "delayed", "ChirpShare", "0.5"),
    (4, "set", "Owner", '"eve"'),
    (5, "set", "ImageSize", "1"),
    (6, "note", "", "half of it"),
)


def edits(pool: TestPool) -> list[e.JobsEdited]:
    return [event for event in pool.events() if isinstance(event, e.JobsEdited)]


def test_a_jobs_write_is_a_separate_edit_that_counts_once() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(static=1, cpus=1)
    pool.submit(RequestMemory="3", UserLog='"/home/alice/job.log"', Iwd='"/home/alice"')
    pool.advance(1)
    (key,) = pool.state.activations
    for writes in (WRITES[:3], WRITES, WRITES, (*WRITES, (7, "set", "step", "8"))):
        pool.handle(s.ActivationChirped(pool.id(), key, writes))
    first, second, third = edits(pool)
    assert (first.changes, first.before) == (
        {"Step": "7", "RequestMemory": "4", "ChirpShare": "0.5"},
        {"Step": "", "RequestMemory": "3", "ChirpShare": ""},
    )
    assert (first.number, first.delayed, first.notes) == (3, ("ChirpShare",), ())
    assert (second.changes, second.number, second.notes) == ({}, 6, ("half of it",))
    assert second.skipped == ('Owner = "eve": no job may set it', "ImageSize = 1: no job may set it")
    assert (third.changes, third.before, third.number) == ({"Step": "8"}, {"Step": "7"}, 7)
    assert pool.state.clusters[1].value(0, "Step") == "8"
    assert list(validate(pool.log.read())) == []
    pool.act("remove", "1.0")
    pool.advance(60)
    pool.handle(s.ActivationChirped(pool.id(), key, ((8, "set", "Step", "9"),)))
    assert len(edits(pool)) == 3


def test_a_log_whose_chirp_writes_count_twice_or_lack_a_source_is_invalid() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(1)
    (key,) = pool.state.activations
    pool.handle(s.ActivationChirped(pool.id(), key, WRITES[:1]))
    log = list(pool.log.read())
    (edit,) = edits(pool)
    faults = {
        "value": edit,
        "activation": e.JobsEdited(edit.at, "chirp", "x", 1, ((1, 1),), {"Step": "7"}, before={"Step": ""}, number=1),
    }
    for rule, fault in faults.items():
        assert {violation.rule for violation in validate([*log, (log[-1][0] + 1, fault)])} == {rule}


def test_a_job_sets_any_expression_and_the_log_names_a_value_that_is_none() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(static=1, cpus=1)
    pool.submit(RequestMemory="3")
    pool.advance(1)
    (key,) = pool.state.activations
    writes = ((1, "set", "Step", "RequestMemory * 2"), (2, "set", "Parts", "{ 1, [a = 2] }"), (3, "set", "Bad", "1 +"))
    pool.handle(s.ActivationChirped(pool.id(), key, writes))
    (edit,) = edits(pool)
    assert edit.changes == {"Step": "RequestMemory * 2", "Parts": "{ 1, [a = 2] }"}
    (refusal,) = edit.skipped
    assert refusal.startswith("Bad = 1 +: ")
    assert list(validate(pool.log.read())) == []


def test_a_periodic_policy_that_a_job_sets_takes_effect() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    (key,) = pool.state.activations
    pool.handle(s.ActivationChirped(pool.id(), key, ((1, "set", "PeriodicHold", "JobStatus == 2 && Step =?= 3"),)))
    pool.advance(120)
    assert pool.state.clusters[1].status_of(0) == "Running"
    pool.handle(s.ActivationChirped(pool.id(), key, ((2, "set", "Step", "1 + 2"),)))
    pool.advance(120)
    assert pool.state.clusters[1].status_of(0) == "Held"
