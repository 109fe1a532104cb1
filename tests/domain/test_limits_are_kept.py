"""Property: concurrency limits hold in every order of matches, ends, preemptions, crashes and reconfigurations.

The test counts the units in use independently, from the log's events alone.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import LogUnavailable
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.virtual_world import Behaviour

from ..sampling import soak_examples
from .pools import TestPool
from .test_invariants import Flaky

USERS = ("alice", "bob")
LIMITS = (
    '"xsw"', '"xsw"', '"xsw:2,small.a"', '"SMALL.A"', '"xsw:0.5"', '"plain"', 'TARGET.Network', '"xsw:0.7"',
    'strcat("xsw ", TARGET.Network)', "",
)  # fmt: skip
CONFIGURED = st.fixed_dictionaries(
    {},
    optional={
        "XSW_LIMIT": st.sampled_from(["0", "1", "2", "2.5", "3"]),
        "CONCURRENCY_LIMIT_DEFAULT_SMALL": st.sampled_from(["1", "2"]),
        "CONCURRENCY_LIMIT_DEFAULT": st.sampled_from(["1", "4"]),
        "NET_A_LIMIT": st.sampled_from(["1", "2"]),
    },
)
POLICY = {"PREEMPTION_REQUIREMENTS": "RemoteUserPrio > SubmitterUserPrio", "PRIORITY_HALFLIFE": "60"}


def units(text: str) -> dict[str, Fraction]:
    """Return what a text takes of the limits above."""
    matched_jobs: Counter[str] = Counter()
    for word in text.lower().replace(",", " ").split():
        name, _, number = word.partition(":")
        matched_jobs[name] += Fraction(number or 1)  # type: ignore[assignment]
    return dict(matched_jobs)  # type: ignore[arg-type]


def most(configured: dict[str, str], name: str) -> Fraction | None:
    of_set = name.rpartition(".")[0].upper()
    names = (f"{name.upper()}_LIMIT", f"CONCURRENCY_LIMIT_DEFAULT_{of_set}", "CONCURRENCY_LIMIT_DEFAULT")
    return next((Fraction(configured[limit]) for limit in names if configured.get(limit)), None)


class UnitCounts:
    """The units in use according to the events, by match, waiting claim and claim."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}  #: by slot: the matched job, and its units
        self.matched: dict[str, str] = {}  #: slot -> the job that it was matched with
        self.configured: dict[str, str] = {}
        self.seen = 0

    def read(self, events: list[tuple[int, e.Event]]) -> None:
        for position, event in events:
            self.seen = position
            self.take(event)

    def take(self, event: e.Event) -> None:
        match event:
            case e.PoolConfigured():
                self.configured |= event.settings
            case e.CycleHeld():
                for match in event.matches:
                    self.match(match)
            case e.ClaimQueued():
                self.give(event.slot, "waiting")
                self.claimed(event)
                self.held[event.slot, "waiting"] = event.limits
            case e.ClaimMade():
                self.give(event.slot, "waiting", "claim")
                self.claimed(event)
                self.held[event.slot, "claim"] = event.limits
            case e.ClaimWithdrawn():
                self.give(event.slot, "waiting")
            case e.MatchVoided():
                self.give(event.job, "match")
                self.matched.pop(event.slot, None)
            case e.ClaimEnded():
                self.give(event.slot, "claim")
            case e.SlotDestroyed():
                self.give(event.slot, "waiting", "claim")
                self.give(self.matched.pop(event.slot, ""), "match")

    def give(self, slot: str, *kinds: str) -> None:
        for kind in kinds:
            self.held.pop((slot, kind), None)

    def match(self, match: e.Match) -> None:
        for name, units_taken in units(match.limits).items():
            most_units = most(self.configured, name)
            assert most_units is None or self.used(name) + units_taken <= most_units, f"{match} exceeds {name}"
        self.held[match.job, "match"] = match.limits
        self.matched[match.slot] = match.job

    def claimed(self, claim: e.ClaimMade | e.ClaimQueued) -> None:
        """Return the claimed match: of the job that the claim names, or that the slot was matched with."""
        matched_job = self.matched.pop(claim.slot, "")
        self.give(matched_job if claim.holder or not claim.job else claim.job, "match")

    def used(self, name: str) -> Fraction:
        return sum((units(text).get(name, Fraction(0)) for text in self.held.values()), start=Fraction(0))


class LimitedPool(RuleBasedStateMachine):
    """A pool of limited jobs, whose appends fail now and then, and whose writer crashes."""

    @initialize(dialect=st.sampled_from(["manual", "htcondor-25"]), seconds=st.integers(5, 80), grace=st.integers(0, 9))
    def begin(self, dialect: str, seconds: int, grace: int) -> None:
        self.log = Flaky(open_log("memory:", create=True))
        self.pool = TestPool(
            dialect=dialect,
            log=self.log,  # type: ignore[arg-type]
            behave=lambda launch: (
                Behaviour(seconds, lost=True) if launch.proc == 2 else Behaviour(seconds, grace=grace)
            ),
            settings={"MachineMaxVacateTime": "6", "CLAIM_WORKLIFE": "60", **POLICY},
        )
        self.books = UnitCounts()
        self.asked(lambda: self.pool.machine("a", cpus=3, memory=3000, static=3, Network='"NET_A"'))
        self.asked(lambda: self.pool.machine("p", cpus=3, memory=3000, Network='"net_b"', Rank='TARGET.Owner == "bob"'))

    def asked(self, ask) -> None:  # type: ignore[no-untyped-def]
        with suppress(LogUnavailable):
            ask()

    @rule(count=st.integers(1, 4), user=st.sampled_from(USERS), limits=st.sampled_from(LIMITS))
    def submit(self, count: int, user: str, limits: str) -> None:
        more = {"ConcurrencyLimits": limits} if limits else {}
        self.asked(lambda: self.pool.submit(count, user, Owner=f'"{user}"', **more))

    @rule(configured=CONFIGURED)
    def reconfigure(self, configured: dict[str, str]) -> None:
        self.asked(lambda: self.pool.handle(s.ConfigurePool(self.pool.id(), configured)))

    @rule(user=st.sampled_from(USERS), value=st.sampled_from([0.5, 5.0, 50.0]))
    def grant(self, user: str, value: float) -> None:
        full_name = f"{user}@example.org"
        self.asked(lambda: self.pool.handle(s.SetSubmitter(self.pool.id(), "root", full_name, "priority", value)))

    @rule(action=st.sampled_from(["1", "2.0", "alice", "bob"]), limits=st.sampled_from(LIMITS))
    def edit(self, action: str, limits: str) -> None:
        self.asked(lambda: self.pool.edit(action, user="root", ConcurrencyLimits=limits))

    @rule(
        action=st.sampled_from(["hold", "release", "remove", "vacate"]),
        job_ids=st.sampled_from(["1", "1.0", "2.0", "3", "alice", "bob"]),
        fast=st.booleans(),
    )
    def act(self, action: str, job_ids: str, fast: bool) -> None:
        self.asked(lambda: self.pool.act(action, job_ids, user="root", fast=fast))

    @rule(seconds=st.sampled_from([0.5, 3, 20, 100]))
    def advance(self, seconds: float) -> None:
        self.asked(lambda: self.pool.advance(seconds))
        self.log.failing = 0

    @rule()
    def fill_the_disk(self) -> None:
        self.log.failing = 1

    @rule()
    def crash(self) -> None:
        """Continue with another writer at the end of the log."""
        self.log.failing = 0
        self.pool.engine = Engine(self.log, self.pool.world, None)  # type: ignore[arg-type]

    @invariant()
    def no_match_exceeds_a_limit(self) -> None:
        self.books.read(list(self.log.read(self.books.seen)))

    @invariant()
    def the_state_has_the_units_of_the_events(self) -> None:
        self.books.read(list(self.log.read(self.books.seen)))
        held_units = Counter(text for text in self.books.held.values() if text)
        assert self.pool.state.limits_in_use == held_units
        matches = self.pool.state.matches.items()
        assert {
            f"{job[0]}.{job[1]}" for _, jobs in matches for job, job_number in jobs.items() if job_number.limits
        } == {job for (job, kind), text in self.books.held.items() if kind == "match" and text}

    @invariant()
    def running_jobs_use_the_units_of_their_matches(self) -> None:
        for slot in self.pool.state.slots.values():
            held_limits = "" if slot.claim is None else slot.claim.limits
            assert held_limits == self.books.held.get((slot.name, "claim"), "")

    def teardown(self) -> None:
        if hasattr(self, "log"):
            assert recheck(self.log.read()).differences == []


def bounds(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )


def test_limits_hold_in_every_interleaving() -> None:
    run_state_machine_as_test(LimitedPool, settings=bounds(6, 25))


@pytest.mark.soak
def test_limits_hold_in_every_interleaving_at_length() -> None:
    run_state_machine_as_test(LimitedPool, settings=bounds(soak_examples(10), 60))
