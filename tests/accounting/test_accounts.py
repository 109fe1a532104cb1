"""Property: the usage is exactly the time of the claims, and priorities do not depend on how often they are updated or
on who is omitted from updates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.domain.negotiator.cycle_accounts import CycleSubmitters
from poolbook.domain.negotiator.negotiator_settings import settings_of
from poolbook.domain.negotiator.waiting_submitters import waiting_submitters
from poolbook.domain.requests.idle_jobs import idle_queues
from poolbook.domain.state.caches import Caches

from .accounts import DAY, HOUR, Accounts

NAMES = ("alice", "bob", "carol")
# (name, cores, start and duration in seconds)
CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.integers(0, 64_000).map(lambda t: t / 1000), st.integers(0, DAY), st.integers(0, DAY)
    ),
    max_size=12,
)


def _steps(claims: list[tuple[str, float, int, int]], updates: list[int]) -> list[tuple[int, int, int]]:
    """Return time, order and claim of each step. At the same time, ends (0) come before updates (1) and starts (2)."""
    start = [(at, 2, number) for number, (_, _, at, _) in enumerate(claims)]
    ends = [(at + duration, 0 if duration else 3, number) for number, (_, _, at, duration) in enumerate(claims)]
    return sorted([*start, *ends, *((at, 1, -1) for at in updates)])


def _run(claims: list[tuple[str, float, int, int]], updates: list[int]) -> Accounts:
    accounts = Accounts()
    accounts.submit(0, *NAMES)
    held_claims: dict[int, str] = {}
    for at, order, number in _steps(claims, updates):
        if order == 1:
            accounts.update(at)
        elif order == 2:
            held_claims[number] = accounts.claim(at, claims[number][0], claims[number][1])
        else:
            accounts.release(at, held_claims.pop(number))
    return accounts


@given(claims=CLAIMS, updates=st.lists(st.integers(0, 2 * DAY), max_size=6))
def test_the_usage_is_exactly_the_sum_of_the_claims_durations_times_their_weights(
    claims: list[tuple[str, float, int, int]], updates: list[int]
) -> None:
    accounts = _run(claims, updates)
    for name in NAMES:
        durations = [
            (round(cores * 1000), duration * 1_000_000) for owner, cores, _, duration in claims if owner == name
        ]
        submitter = accounts.submitter(name)
        usage = sum(weight * duration for weight, duration in durations)
        assert submitter.usage_until(accounts.state.at) == submitter.weighted_usage == submitter.ended_usage == usage
        assert submitter.unweighted_usage == sum(duration for _, duration in durations)
        assert (submitter.weighted_in_use, submitter.slots, submitter.ended_claims) == (0, 0, len(durations))


@given(claims=CLAIMS, now=st.integers(0, DAY))
def test_a_running_claim_counts_until_now(claims: list[tuple[str, float, int, int]], now: int) -> None:
    accounts = Accounts()
    accounts.submit(0, *NAMES)
    for at, order, number in _steps(claims, []):
        if order == 2 and at <= now:
            accounts.claim(at, claims[number][0], claims[number][1])
    for name in NAMES:
        running = [(round(cores * 1000), at) for owner, cores, at, _ in claims if owner == name and at <= now]
        usage = sum(weight * (now - at) * 1_000_000 for weight, at in running)
        assert accounts.submitter(name).usage_until(accounts.log_time(now)) == usage
        assert accounts.submitter(name).weighted_in_use == sum(weight for weight, _ in running)


@given(
    cores=st.integers(0, 200),
    start=st.floats(0.5, 200),
    cuts=st.lists(st.integers(1, 3 * DAY - 1), max_size=40, unique=True),
)
def test_the_priority_does_not_depend_on_the_lengths_of_the_intervals(
    cores: int, start: float, cuts: list[int]
) -> None:
    """ "can be calculated over non-uniform time intervals without affecting the calculation" """

    def priority_after(updates: list[int]) -> float:
        accounts = Accounts()
        accounts.record(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", start)
        if cores:
            accounts.claim(0, "alice", cores)
        for at in updates:
            accounts.update(at)
        return accounts.real_priority("alice")

    assert priority_after([*sorted(cuts), 3 * DAY]) == pytest.approx(priority_after([3 * DAY]), rel=1e-9)


@given(
    start=st.floats(0.5, 1000),
    instants=st.lists(st.integers(1, 10 * DAY), min_size=1, max_size=12, unique=True),
    cores=st.integers(0, 50),
)
def test_a_submitter_omitted_from_updates_decays_as_if_it_had_been_included(
    start: float, instants: list[int], cores: int
) -> None:
    """Later usage counts from the last update, even if that update omitted the submitter."""

    def priorities(*left_out: str) -> list[float]:
        accounts = Accounts()
        accounts.submit(0, "bob")
        accounts.record(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", start)
        values = []
        for at in sorted(instants):
            accounts.update(at, *left_out)
            values.append(accounts.real_priority("alice"))
        if cores:
            accounts.claim(max(instants) + HOUR, "alice", cores)
        accounts.update(max(instants) + 2 * HOUR)
        return [*values, accounts.real_priority("alice")]

    assert priorities("alice") == pytest.approx(priorities(), rel=1e-9)


@given(claims=CLAIMS)
def test_a_priority_is_between_one_half_and_the_maximum_usage(claims: list[tuple[str, float, int, int]]) -> None:
    accounts = _run(claims, list(range(0, 2 * DAY, 6 * HOUR)))
    for name in NAMES:
        most = sum(cores for owner, cores, _, _ in claims if owner == name)
        assert 0.5 <= accounts.real_priority(name) <= max(0.5, most) * (1 + 1e-9)


def test_a_claim_counts_from_its_start_even_between_two_updates() -> None:
    """Half an hour of 20 cores is an hour of 10."""
    half_hour, full_hour = Accounts(), Accounts()
    for accounts, start, cores in ((half_hour, HOUR // 2, 20), (full_hour, 0, 10)):
        accounts.submit(0, "alice")
        accounts.claim(start, "alice", cores)
        accounts.update(HOUR)
    assert half_hour.real_priority("alice") == full_hour.real_priority("alice") > 0.5


def test_usage_counts_once_even_while_the_priority_does_not_change() -> None:
    """A quarter of a core keeps alice's priority at one half, but each cycle updates it while she uses something."""
    accounts = Accounts()
    accounts.submit(0, "alice", "bob")
    claim = accounts.claim(0, "alice", 0.25)
    accounts.claim(0, "bob", 50)
    for minute in range(1, 240):
        caches = Caches()
        cycle_accounts = CycleSubmitters(
            accounts.state, accounts.log_time(minute * 60), settings_of(accounts.state, caches)
        )
        waiting = waiting_submitters(accounts.state, caches, cycle_accounts)
        aged = cycle_accounts.changed_priorities(waiting.submitters_to_age(idle_queues(accounts.state, caches)))
        assert ("alice@here" in aged) == (minute <= 120)
        accounts.record(minute * 60, e.PrioritiesUpdated, "accounted", aged)
        assert accounts.real_priority("alice") == 0.5
        if minute == 119:
            accounts.release(minute * 60 + 30, claim)


# Administrators' commands


def test_a_running_claim_continues_to_count_after_a_reset_of_the_usage() -> None:
    accounts = Accounts()
    accounts.submit(0, "alice")
    claim = accounts.claim(0, "alice", 2)
    accounts.update(HOUR // 2)
    before = accounts.real_priority("alice")
    accounts.record(HOUR, e.SubmittersReset, "granted", ("alice@here",), "root")
    alice = accounts.submitter("alice")
    assert (alice.usage_until(accounts.log_time(HOUR)), alice.first_used, alice.slots) == (
        0,
        accounts.log_time(HOUR),
        1,
    )
    assert accounts.real_priority("alice") == before  # the reset does not change the priority
    accounts.release(2 * HOUR, claim)
    assert (alice.weighted_usage, alice.unweighted_usage) == (2000 * HOUR * 1_000_000, HOUR * 1_000_000)
    assert alice.ended_usage == 2 * 2000 * HOUR * 1_000_000  # includes the time before the reset
    accounts.update(2 * HOUR)
    without_reset = Accounts()
    without_reset.submit(0, "alice")
    claim = without_reset.claim(0, "alice", 2)
    without_reset.update(HOUR // 2)
    without_reset.update(2 * HOUR)
    assert accounts.real_priority("alice") == without_reset.real_priority(
        "alice"
    )  # usage before the reset counts for the priority


def test_a_deleted_submitter_starts_again_with_its_running_claims() -> None:
    accounts = Accounts()
    accounts.submit(0, "alice", "bob")
    claim = accounts.claim(0, "alice", 2)
    accounts.record(60, e.SubmitterSet, "granted", "alice@here", "root", "factor", 5.0)
    accounts.record(60, e.SubmitterSet, "granted", "bob@here", "root", "priority", 70.0)
    accounts.record(60, e.SubmitterSet, "granted", "alice@here", "root", "priority", 70.0)
    for name in ("alice", "bob"):
        accounts.record(HOUR, e.SubmitterDeleted, "granted", f"{name}@here", "root", 1000.0)
    assert "bob@here" not in accounts.state.submitters
    alice = accounts.submitter("alice")
    assert (alice.priority, alice.factor, alice.weighted_in_use, alice.slots) == (0.5, 1000.0, 2000, 1)
    assert alice.usage_until(accounts.log_time(2 * HOUR)) == 2000 * HOUR * 1_000_000
    accounts.release(2 * HOUR, claim)
    assert (alice.weighted_in_use, alice.slots) == (0, 0)
    accounts.submit(2 * HOUR, "bob")
    assert accounts.real_priority("bob") == 0.5


def test_setting_the_usage_does_not_change_the_priority() -> None:
    accounts, other = Accounts(), Accounts()
    for ledger in (accounts, other):
        ledger.submit(0, "alice")
        ledger.claim(0, "alice", 3)
    accounts.record(HOUR, e.SubmitterSet, "granted", "alice@here", "root", "usage", 12.5)
    assert accounts.submitter("alice").usage_until(accounts.log_time(HOUR)) == 12_500_000_000
    for ledger in (accounts, other):
        ledger.update(2 * HOUR)
    assert accounts.real_priority("alice") == other.real_priority("alice")


def test_a_priority_ages_from_the_time_when_it_is_set() -> None:
    accounts = Accounts()
    accounts.submit(0, "alice")
    accounts.claim(0, "alice", 40)
    accounts.update(HOUR)
    accounts.record(2 * HOUR, e.SubmitterSet, "granted", "alice@here", "root", "priority", 40.0)
    accounts.update(3 * HOUR)
    assert accounts.real_priority("alice") == pytest.approx(40)  # the new value replaces earlier usage
