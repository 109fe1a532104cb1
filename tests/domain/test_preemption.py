"""Golden and property: a job of this pool gets a claimed slot as soon as the current job has gone, and the preempted
job is run again.

The cycles are made by hand, since the negotiator's choice is tested elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve, fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour, VirtualWorld

from ..policy.points import POLICIES, Point
from ..policy.test_machine import APART, DEEDS, LIVES, Deed, bounds
from ..sampling import soak_examples
from .pools import TestPool
from .preempting import DIALECTS, RETIRES, SLOT, append_cycle, contested, jobs_waiting_for_claims, match_slot, promises


def since_begin(pool: TestPool, event: e.Event) -> float:
    return (event.at - pool.events()[0].at) / SECOND


def start_order(pool: TestPool) -> list[tuple[str, float]]:
    """Return the jobs in the order in which they started, each with the second."""
    events = [event for event in pool.events() if isinstance(event, e.JobActivated)]
    return [(f"{event.cluster}.{event.proc}", since_begin(pool, event)) for event in events]


def rows(pool: TestPool, since: int) -> list[str]:
    """Return the slot's transitions after a position, up to the next start of a job."""
    rows = [event.row for _, event in pool.log.read(since) if isinstance(event, e.SlotTransitioned)]
    return rows[: rows.index("11") + 1]


def pair(pool: TestPool) -> str:
    return str(pool.state.slots[SLOT].state_activity)


def withdrawn(pool: TestPool) -> list[str]:
    return [event.cause for event in pool.events() if isinstance(event, e.ClaimWithdrawn)]


def sound(pool: TestPool) -> None:
    """Check that every transition was legal, and that folding the log gives the pool's state."""
    assert [violation.words for violation in validate(pool.log.read())] == []
    assert plain_state(fold(pool.log.read())) == plain_state(pool.state)


# How the preempted job goes

KILLED = {"KILL": "time() - EnteredCurrentActivity >= 2", "MachineMaxVacateTime": "30"}
SUSPENDED = {
    "WANT_SUSPEND": "true",
    "SUSPEND": "TotalJobRunTime == 10 && TotalJobSuspendTime == 0",
    "CONTINUE": "TotalJobSuspendTime >= 5",
}
STUBBORN = Behaviour(1000, grace=None)
WAYS: list[tuple[str, dict[str, str], Behaviour, float, tuple[str, str], list[str]]] = [
    # how it goes, policy, what alice's job does, when bob's starts, the transitions until then: the manual's,
    # HTCondor's; what alice's job is sent
    ("it has no retirement time", {}, Behaviour(100), 10,
        ("13 18 23 11", "13a 23 11"), ["soft"]),
    ("it takes its time to end", {}, Behaviour(100, grace=3), 13,
        ("13 18 23 11", "13a 23 11"), ["soft"]),
    ("it does not end", {}, STUBBORN, 15,
        ("13 18 21 24 11", "13a 23 11"), ["soft", "hard"]),
    ("KILL becomes true", KILLED, STUBBORN, 15,
        ("13 18 21 24 11", "13a 21 24 11"), ["soft", "hard"]),
    ("it retires until its time is over", RETIRES, Behaviour(1000), 55,
        ("13 18 23 11", "13 18 23 11"), ["soft"]),
    ("it ends while it retires", RETIRES, Behaviour(40), 40,
        ("13 18 23 11", "13 12b 12c 23 11"), []),
    ("it is suspended, and continues", RETIRES | SUSPENDED, Behaviour(1000), 60,
        ("16 18 23 11", "16 18 23 11"), ["soft"]),
]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("policy", "alice", "begins", "way", "sentences"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS]
)
def test_the_better_match_takes_over_when_the_job_has_gone(
    dialect: str, policy: dict[str, str], alice: Behaviour, begins: float, way: tuple[str, str], sentences: list[str]
) -> None:
    pool = contested(dialect, alice, Behaviour(20), **policy)
    before = pool.state.position
    match_slot(pool, "2.0")
    assert pool.state.assigned_slots == {(2, 0): SLOT}
    pool.advance(55)
    assert start_order(pool)[:2] == [("1.0", 0), ("2.0", begins)]
    assert rows(pool, before) == way[DIALECTS.index(dialect)].split()
    signals = [event for event in pool.events() if isinstance(event, e.JobSignalled)]
    assert [signal.how for signal in signals] == sentences
    assert pool.state.assigned_slots == {}
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_preempted_job_waits_and_is_run_again(dialect: str) -> None:
    pool = contested(dialect, Behaviour(100), Behaviour(20))
    match_slot(pool, "2.0")
    pool.advance(5)
    assert (pool.status("1.0"), pool.status("2.0"), pool.status("2.1")) == ("Idle", "Running", "Idle")
    end = next(event for event in pool.events() if isinstance(event, e.JobExited))
    assert (end.outcome, end.row, end.target) == ("evicted", "evict", "Idle")
    claims = [event.submitter for event in pool.events() if isinstance(event, e.ClaimMade)]
    assert claims == ["alice@example.org", "bob@example.org"]
    pool.advance(200)
    assert start_order(pool) == [("1.0", 0), ("2.0", 10), ("2.1", 30), ("1.0", 50)]
    assert not pool.state.clusters
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_holder_outside_of_the_pool_makes_way_too(dialect: str) -> None:
    point = Point(dialect)
    point.point({"Rank": 'TARGET.Owner == "bob"'})
    point.claim()
    point.job("bob", behaviour=Behaviour(20))
    if not point.state.by_job:
        match_slot(point, "1.0", reason="rank")
    assert [point.slot().claim.submitter] == ["bob@example.org"]  # type: ignore[union-attr]
    assert point.pair() == "Claimed/Busy" and point.status("1.0") == "Running"
    sound(point)


# The waiting job is no longer wanted


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("end", ["hold", "remove", "edit"])
def test_a_job_that_no_longer_waits_lets_the_other_continue(dialect: str, end: str) -> None:
    pool = contested(dialect, Behaviour(100), **RETIRES)
    match_slot(pool, "2.0")
    pool.advance(3)
    assert pair(pool) == "Claimed/Retiring"
    answer = pool.edit("2.0", user="bob", JobPrio="5") if end == "edit" else pool.act(end, "2.0", user="bob")
    assert not answer.refusal
    assert pool.state.assigned_slots == {} and withdrawn(pool) == ["better_match_gone"]
    pool.advance(5)
    assert pair(pool) == "Claimed/Busy"
    pool.advance(100)
    assert start_order(pool)[:2] == [("1.0", 0), ("2.1" if end != "edit" else "2.0", 100)]
    assert not any(isinstance(event, e.JobSignalled) for event in pool.events())
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_better_match_that_leaves_while_the_job_ends_frees_the_slot_for_all(dialect: str) -> None:
    pool = contested(dialect, STUBBORN)
    match_slot(pool, "2.0")
    pool.act("remove", "2", user="bob")
    pool.advance(30)
    assert start_order(pool) == [("1.0", 0), ("1.0", 15)]
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("held", "next_job", "begins"),
    [("2.0", "2.1", 10), ("2", "1.0", 15)],  # the second one by another cycle, after the preemption
)
def test_a_job_held_in_the_second_of_its_turn_leaves_the_claim_to_the_next(
    dialect: str, held: str, next_job: str, begins: int
) -> None:
    pool = contested(dialect, Behaviour(1000))
    append_cycle(pool, "2.0")
    ends = s.ActivationEnded("end", pool.state.by_job[1, 0].key, pool.engine.now(), signal=15)
    pool.engine.matching = False  # the access point is slow
    pool.handle(s.ClaimMatches("claims"))
    pool.handle(ends)
    assert pool.state.ready_claims == {SLOT: (2, 0)} and pair(pool) == "Claimed/Idle"
    pool.engine.matching = True
    pool.act("hold", held, user="bob")
    pool.advance(5)
    assert start_order(pool)[1:] == [(next_job, begins)]
    assert pool.state.assigned_slots == {}
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("end", "policy"),
    [
        ("START", {"Start": 'TARGET.Owner =!= "bob"'}),
        ("the drain", {}),
    ],
)
def test_a_better_match_that_is_rejected_in_the_end_has_no_promise_left(
    dialect: str, end: str, policy: dict[str, str]
) -> None:
    pool = contested(dialect, Behaviour(1000, grace=3), **policy)
    match_slot(pool, "2.0")
    if end == "the drain":
        pool.handle(s.Drain(pool.id(), "root", "h", "Quick"))
    pool.advance(5)
    assert withdrawn(pool) == ["better_match_refused"]
    assert pool.state.assigned_slots == {}
    assert start_order(pool)[1:2] == ([("1.0", 15)] if end == "START" else [])
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_of_two_better_matches_the_last_one_waits(dialect: str) -> None:
    pool = contested(dialect, **RETIRES)
    match_slot(pool, "2.0")
    pool.submit(user="carol")
    match_slot(pool, "3.0", reason="priority")
    assert withdrawn(pool) == []
    assert pool.state.assigned_slots == {(2, 0): SLOT}, "the slot does not prefer carol's to bob's, which waits"
    match_slot(pool, "2.1", reason="priority")
    assert withdrawn(pool) == ["better_match"]
    assert pool.state.assigned_slots == {(2, 1): SLOT}
    pool.advance(100)
    assert [job for job, _ in start_order(pool)][:2] == ["1.0", "2.1"]
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_slot_rejects_a_job_that_it_ranks_lower_than_its_current_one(dialect: str) -> None:
    pool = contested(dialect, Rank='TARGET.Owner == "alice"')
    match_slot(pool, "2.0", reason="priority")
    assert pool.state.assigned_slots == {} and pair(pool) == "Claimed/Busy"
    assert [(event.cause, event.job) for event in pool.events() if isinstance(event, e.MatchVoided)] == [
        ("claim_failed", "2.0")
    ]
    sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_job_that_was_promised_a_slot_gets_no_other(dialect: str) -> None:
    pool = contested(dialect, **RETIRES)
    match_slot(pool, "2.0")
    pool.machine("i", static=1, cpus=1)
    pool.advance(10)
    assert start_order(pool)[1:] == [("2.1", 15)]
    assert pool.state.assigned_slots == {(2, 0): SLOT}
    sound(pool)


# Killed pools


def resumed(pool: TestPool, position: int, seconds: float) -> Engine:
    """Run another process with the log as it was at a position, for this many seconds."""
    log = open_log("memory:", create=True)
    log.append([event for at, event in pool.log.read() if at <= position])
    engine = Engine(log, VirtualWorld(pool.world.behave))
    engine.load()
    engine.world.clock = engine.state.at  # type: ignore[attr-defined]
    engine.recover()
    until = engine.state.at + round(seconds * SECOND)
    while engine.step(until):
        pass
    return engine


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("policy", [{}, RETIRES])
def test_whenever_the_pool_is_killed_both_jobs_complete(dialect: str, policy: dict[str, str]) -> None:
    pool = contested(dialect, Behaviour(100, grace=3), Behaviour(20), **policy)
    pool.act("remove", "2.1", user="bob")
    steps: list[int] = []
    pool.engine.subscribe(lambda first, events: steps.append(first + len(events) - 1))
    append_cycle(pool, "2.0")
    steps.append(pool.state.position)
    pool.engine.handle([])
    pool.advance(300)
    assert len(steps) > 5
    for position in steps:
        engine = resumed(pool, position, 300)
        events = [event for _, event in engine.log.read()]
        completed = [(ev.cluster, ev.proc) for ev in events if isinstance(ev, e.JobExited) and ev.target == "Completed"]
        assert sorted(completed) == [(1, 0), (2, 0)]
        assert engine.state.assigned_slots == {}
        assert list(validate(engine.log.read())) == []


# Random events


class ContestedPoint(Point):
    """An execution point whose slots are matched with waiting jobs, even if they are claimed."""

    def better(self, which: int, reason: str, at_once: bool) -> None:
        """Match a claimed slot with the first job that waits for one; before its claim request, something else may
        happen at the same time."""
        claimed_names = [
            name for name, slot in self.state.slots.items() if slot.claim and name not in self.state.matches
        ]
        job = self._first()
        if claimed_names and job:
            (match_slot if at_once else append_cycle)(self, job, claimed_names[which % len(claimed_names)], reason)

    def does(self, deed: Deed) -> None:
        name, arguments, named = deed
        if name != "reconfigure" or "h" in self.state.machines:
            getattr(self, name)(*arguments, **named)

    def _first(self) -> str:
        for cluster in self.state.clusters.values():
            for proc in cluster.procs():
                job = cluster.id, proc
                has_slot = job in self.state.by_job or job in self.state.assigned_slots
                if cluster.status_of(proc) == "Idle" and not has_slot:
                    return f"{cluster.id}.{proc}"
        return ""


BETTER: st.SearchStrategy[Deed] = st.builds(
    lambda which, reason, at_once: ("better", (which, reason, at_once), {}),
    st.integers(0, 3),
    st.sampled_from(["rank", "priority"]),
    st.booleans(),
)
EDITS: st.SearchStrategy[Deed] = st.builds(
    lambda end: ("edit", (end,), {"user": "root", "JobPrio": "3"}), st.sampled_from(["1", "2.0", "2"])
)
HOLDS: st.SearchStrategy[Deed] = st.builds(
    lambda action, end: ("act", (action, end), {"user": "root"}),
    st.sampled_from(["hold", "remove", "release"]),
    st.sampled_from(["1.2", "2.0", "2.1", "2"]),
)
STRIFE: dict[str, st.SearchStrategy[Any]] = LIVES | {
    "story": st.lists(
        st.tuples(st.tuples(APART, BETTER), st.tuples(APART, st.one_of(DEEDS, EDITS, HOLDS))), min_size=2, max_size=8
    ),
    "policy": st.sampled_from(["always", "retiring", "loaded", "tests only"]),
}


def promises_are_kept(
    dialect: str,
    policy: str,
    kind: str,
    story: list[tuple[tuple[float, Deed], tuple[float, Deed]]],
    shared: str,
    offset: float,
) -> None:
    point = ContestedPoint(dialect)
    point.advance(offset)
    point.point(POLICIES[policy], slots=2, kind=kind, STARTD_SLOT_ATTRS=shared)
    point.job("alice", 3, Behaviour(200, grace=4))
    point.job("bob", 3, Behaviour(30))
    for (seconds, is_better), (later, deed) in story:
        point.advance(seconds)
        point.does(is_better)
        point.advance(0 if point.state.matches else later)
        point.does(deed)
        point.engine.handle([])
    point.advance(300)
    sound(point)
    state, stimulus = State(), ""
    for event in point.events():
        if event.stimulus != stimulus:
            for cluster, proc in jobs_waiting_for_claims(state):
                assert state.clusters[cluster].status_of(proc) == "Idle" and (cluster, proc) not in state.by_job
        stimulus = event.stimulus
        evolve(state, event)
        assert state.assigned_slots == promises(state)


@bounds(12)
@given(**STRIFE)
def test_promised_slots_are_those_that_jobs_wait_for(**life: Any) -> None:
    promises_are_kept(**life)


@pytest.mark.soak
@bounds(soak_examples(5))
@given(**STRIFE)
def test_promised_slots_are_those_that_jobs_wait_for_at_length(**life: Any) -> None:
    promises_are_kept(**life)
