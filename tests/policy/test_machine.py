"""Property: whatever happens to an execution point, in any order, the manual's guarantees hold. The validator finds
each step legal, and a machine that evaluates in every round behaves like one that skips rounds without effect.

Anything possible happens: owners and their sensors, users' jobs, administrators' drains and shutdowns, other
configurations, and holders of claims outside of the pool, under policies as owners write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from poolbook.adapters.testing.invariants import LogInvariants, check_claims, check_runs, plain_state
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from ..sampling import soak_examples
from .points import POLICIES, Point

DIALECTS = st.sampled_from(["manual", "htcondor-25"])
KINDS = st.sampled_from(["static", "partitionable"])
SLOTS = st.sampled_from(["slot1@h", "slot2@h", "slot1_1@h", "slot1_2@h"])
APART = st.sampled_from([0.0, 0.5, 1.0, 3.0, 4.25, 5.0, 10.0, 20.0, 37.0, 180.0, 4000.0])
BEHAVIOURS = st.builds(
    Behaviour,
    seconds=st.sampled_from([3, 20, 47, 200]),
    grace=st.sampled_from([0, 4, 25, None]),
    load=st.sampled_from([0.0, 1.0]),
)
WISHES = st.sampled_from(
    [{}, {"JobMaxVacateTime": "5"}, {"JobMaxVacateTime": "60"}, {"MaxJobRetirementTime": "15"}, {"Long": "true"}]
)
TOLD = st.sampled_from([s.NotifyMatch, s.FailClaim, s.WithdrawClaim, s.DeactivateClaim, s.ReleaseClaim, s.HolderHeard])

Deed = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of ``Point``, and what it is called with."""


def _deed(name: str, *arguments: Any, **options: Any) -> Deed:
    return name, arguments, options


DEEDS = st.one_of(
    st.just(_deed("touch")),
    st.builds(lambda load: _deed("read", load=load), st.sampled_from([0.0, 0.4, 0.7, 1.3, 2.5])),
    st.builds(
        lambda name, value: _deed("say", **{name: value}),
        st.sampled_from(["Wanted", "Pause"]),
        st.sampled_from(["true", "false"]),
    ),
    st.builds(
        lambda user, count, behaviour, attributes: _deed("job", user, count, behaviour, **attributes),
        st.sampled_from(["alice", "bob"]),
        st.integers(1, 3),
        BEHAVIOURS,
        WISHES,
    ),
    st.builds(lambda slot, fast: _deed("vacate_slot", slot, fast=fast), SLOTS, st.booleans()),
    st.builds(
        lambda schedule, completion, start: _deed("drain", schedule, completion=completion, start=start),
        st.sampled_from(["Graceful", "Quick", "Fast"]),
        st.sampled_from(["", "resume"]),
        st.sampled_from(["", "", "true", 'TARGET.Owner == "bob"']),
    ),
    st.just(_deed("undrain")),
    st.builds(lambda how: _deed("off", how), st.sampled_from(["Peaceful", "Graceful", "Fast"])),
    st.builds(lambda slot: _deed("pause", slot), SLOTS),
    st.builds(lambda slot: _deed("unpause", slot), SLOTS),
    st.builds(lambda policy: _deed("reconfigure", POLICIES[policy]), st.sampled_from(sorted(POLICIES))),
    st.builds(
        lambda slot, behaviour, lease: _deed("claim", slot, behaviour, lease=lease),
        SLOTS,
        st.one_of(st.none(), BEHAVIOURS),
        st.sampled_from([0, 30]),
    ),
    st.builds(lambda slot, behaviour: _deed("activate", slot, behaviour), SLOTS, BEHAVIOURS),
    st.builds(lambda kind, slot: _deed("tell", kind, slot), TOLD, SLOTS),
    st.builds(lambda slot: _deed("silence", slot), SLOTS),
    st.builds(
        lambda action, what: _deed("act", action, what, user="root"),
        st.sampled_from(["hold", "release", "remove", "suspend", "continue", "vacate"]),
        st.sampled_from(["1", "2.0"]),
    ),
)
STORIES = st.lists(st.tuples(APART, DEEDS), min_size=1, max_size=14)
LIVES: dict[str, st.SearchStrategy[Any]] = {
    "dialect": DIALECTS,
    "policy": st.sampled_from(sorted(POLICIES)),
    "kind": KINDS,
    "story": STORIES,
    "shared": st.sampled_from(["", "State, Activity, EnteredCurrentActivity, KeyboardIdle, CpuBusyTime"]),
    "offset": st.sampled_from([0.0, 0.7]),
}


def random_point(
    dialect: str, policy: str, kind: str, story: list[tuple[float, Deed]], shared: str, offset: float, steady: bool
) -> Point:
    """Return a machine of two cores that has gone through a story."""
    point = Point(dialect, steady=steady)
    point.advance(offset)
    point.point(POLICIES[policy], slots=2, kind=kind, STARTD_SLOT_ATTRS=shared)
    for seconds, (name, arguments, named) in story:
        point.advance(seconds)
        if name != "reconfigure" or "h" in point.state.machines:
            getattr(point, name)(*arguments, **named)
    point.advance(300)
    return point


def comparable(event: e.Event) -> dict[str, Any]:
    """Return an event without the id of its cause."""
    fields = {"event": type(event).__name__, **structs.asdict(event)}
    del fields["stimulus"]
    return fields


def jumping_is_as_holding_every_round(**life: Any) -> None:
    all_events = [comparable(event) for event in random_point(**life, steady=False).events()]
    assert [comparable(event) for event in random_point(**life, steady=True).events()] == all_events


def guarantees_hold(**life: Any) -> None:
    point = random_point(**life, steady=True)
    assert list(validate(point.log.read())) == []
    state, promises = State(), [promise() for promise in PROMISES]
    stimulus = ""
    for event in point.events():
        if event.stimulus != stimulus:
            for promise in promises:
                promise.between(state)
        stimulus = event.stimulus
        for promise in promises:
            promise.before(state, event)
        evolve(state, event)
    for promise in promises:
        promise.between(state)
    assert plain_state(state) == plain_state(point.state)


# The guarantees


class Guarantee:
    """Checks each event before it is folded, and the state between the events of two stimuli."""

    def before(self, state: State, event: e.Event) -> None: ...

    def between(self, state: State) -> None: ...


HASTE = {
    "vacate_command", "user_vacate", "drain_command", "shutdown", "lease_over", "kill", "kill_timeout",
    "vacate_timeout", "user_hold", "user_remove", "released", "deactivated",
}  # fmt: skip
"""Causes that do not wait for a retirement."""


class RetirementIsGranted(Guarantee):
    """A job that the policy evicts had its retirement time: MaxJobRetirementTime of the slot, less only if the job
    requested less. The time in which it was suspended does not count; its vacate time does."""

    def before(self, state: State, event: e.Event) -> None:
        if not isinstance(event, e.JobSignalled) or event.cause in HASTE or event.how != "soft":
            return
        activation = state.by_job[event.cluster, event.proc]
        slot = state.slots.get(activation.slot)
        machine = None if slot is None else state.machines.get(slot.machine)
        if slot is None or machine is None or machine.drain is not None or machine.shutdown:
            return
        granted = int(slot.ad.get("MaxJobRetirementTime", "0"))
        cluster = state.clusters[event.cluster]
        requested = cluster.value(event.proc, "MaxJobRetirementTime")
        granted = min(granted, int(requested)) if requested else granted
        to_end = event.until - event.at
        assert slot.activation is not None
        assert slot.activation.run_time(event.at) + to_end >= granted * SECOND


class InvariantsOfThePool(Guarantee):
    """Checks the invariants of the test kit."""

    def __init__(self) -> None:
        self.from_log = LogInvariants()

    def before(self, state: State, event: e.Event) -> None:
        self.from_log.take(event, state)

    def between(self, state: State) -> None:
        check_runs(state)
        check_claims(state)
        self.from_log.check(state)


class DrainedMeansNoJobs(Guarantee):
    def between(self, state: State) -> None:
        for slot in state.slots.values():
            if slot.state == "Drained":
                assert slot.claim is None, slot.name
                assert slot.activation is None, slot.name
        for machine in state.machines.values():
            if machine.drain is not None and machine.drain.state in ("Complete", "Stopped"):
                assert all(slot.state_activity == "Drained/Idle" for slot in machine.slots.values())


PROMISES: tuple[Callable[[], Guarantee], ...] = (
    RetirementIsGranted,
    InvariantsOfThePool,
    DrainedMeansNoJobs,
)


def bounds(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


@bounds(8)
@given(**LIVES)
def test_a_world_that_skips_rounds_equals_one_that_holds_every_round(**life: Any) -> None:
    jumping_is_as_holding_every_round(**life)


@bounds(15)
@given(**LIVES)
def test_guarantees_of_an_execution_point_hold(**life: Any) -> None:
    guarantees_hold(**life)


@pytest.mark.soak
@bounds(soak_examples(10))
@given(**LIVES)
def test_a_world_that_skips_rounds_equals_one_that_holds_every_round_at_length(**life: Any) -> None:
    jumping_is_as_holding_every_round(**life)


@pytest.mark.soak
@bounds(soak_examples(5))
@given(**LIVES)
def test_guarantees_of_an_execution_point_hold_at_length(**life: Any) -> None:
    guarantees_hold(**life)


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_policy_that_reads_how_often_the_job_started_is_evaluated_after_the_start(dialect: str) -> None:
    point = Point(dialect)
    point.point({"WANT_SUSPEND": "false", "PREEMPT": "TARGET.NumJobStarts >= 1", "MaxJobRetirementTime": "3600"})
    point.submit()
    point.advance(30)
    assert point.moves()[-1][1:] == ("Claimed/Retiring", "preempt")
