"""Differential: a cycle that groups submitters of equal priority makes the same decisions as one that takes each
alone."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Pool, UnknownThingError
from poolbook.domain.negotiator.equal_priority_groups import total_of
from poolbook.domain.negotiator.spins import NegotiationCycle

SLOTS, USERS = 3, 7
PREEMPTING = {
    "never": {"NEGOTIATOR_CONSIDER_PREEMPTION": "false"},
    "by default": {},
    "the worse": {"PREEMPTION_REQUIREMENTS": "RemoteUserPrio > SubmitterUserPrio"},
}
USER = st.integers(0, USERS - 1).map(lambda number: f"user{number}")
SUBMISSION = st.tuples(st.just("submit"), USER, st.integers(1, 3), st.integers(1, 3))
STEPS = st.lists(
    st.one_of(
        SUBMISSION,
        SUBMISSION,
        st.tuples(st.just("advance"), st.sampled_from([1, 30, 61, 700, 4000])),
        st.tuples(st.sampled_from(["hold", "release", "remove"]), st.integers(1, 12)),
        st.tuples(st.just("ceiling"), USER, st.sampled_from([1, 2])),
        st.tuples(st.just("floor"), USER, st.sampled_from([0, 1])),
        st.tuples(st.just("priority_factor"), USER, st.sampled_from([10, 1000, 5000])),
        st.tuples(st.just("edit"), st.integers(1, 12), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=25,
)


def events_of_pool(steps: list[tuple[Any, ...]], preempts: str, together: bool) -> list[str]:
    """Return all events of a pool in which these steps happen."""
    with ExitStack() as stack:
        if not together:
            patched = stack.enter_context(pytest.MonkeyPatch.context())
            patched.setattr(NegotiationCycle, "_can_spin_by_groups", lambda turn: False)
        pool = stack.enter_context(Pool.open(user="root", uid_domain="example.org", settings=PREEMPTING[preempts]))
        pool.add_machine("m", cpus=SLOTS, static=SLOTS, memory=SLOTS * 1000)
        events: list[str] = []
        pool.subscribe(lambda position, event: events.append(repr(event)))
        for step in [*steps, ("advance", 61), ("advance", 61)]:
            with suppress(UnknownThingError):  # the job has left the queue, or was never submitted
                happen(pool, step)
        return events


def happen(pool: Pool, step: tuple[Any, ...]) -> None:
    match step:
        case "submit", user, count, kind:
            job = {"executable": "/bin/x", "arguments": "60", "request_memory": f"{kind * 100}"}
            pool.submit(job, count=count, user=user)
        case "advance", seconds:
            pool.advance(seconds)
        case "ceiling" | "floor" | "priority_factor" as command, user, value:
            getattr(pool, f"set_{command}")(f"{user}@example.org", value)
        case "edit", cluster, kind:
            pool.edit(cluster, RequestMemory=kind * 100)
        case command, cluster:
            getattr(pool, command)(cluster)


@settings(max_examples=30)
@given(STEPS, st.sampled_from(list(PREEMPTING)))
def test_grouping_submitters_of_equal_priority_changes_no_decision(steps: list[tuple[Any, ...]], preempts: str) -> None:
    assert events_of_pool(steps, preempts, together=True) == events_of_pool(steps, preempts, together=False)


@given(st.lists(st.tuples(st.floats(1e-6, 1e12), st.integers(1, 100_000)), min_size=1, max_size=5))
def test_many_equal_amounts_sum_to_the_same_as_one_by_one(amounts: list[tuple[float, int]]) -> None:
    assert total_of(amounts) == total_of((amount, 1) for amount, many in amounts for _ in range(many))
