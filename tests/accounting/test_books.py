"""Property: what has been used is what claims were held for, exactly, and priorities come out the same however often
they are brought up to date, and whoever is left out."""

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

from .books import DAY, HOUR, Books

NAMES = ("alice", "bob", "carol")
# (who, cores, when in seconds, for how long)
CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.integers(0, 64_000).map(lambda t: t / 1000), st.integers(0, DAY), st.integers(0, DAY)
    ),
    max_size=12,
)


def _steps(claims: list[tuple[str, float, int, int]], updates: list[int]) -> list[tuple[int, int, int]]:
    """(when, what comes first at one instant, which claim): 0 an end, 1 an update, 2 a beginning."""
    begins = [(at, 2, number) for number, (_, _, at, _) in enumerate(claims)]
    ends = [(at + lasts, 0 if lasts else 3, number) for number, (_, _, at, lasts) in enumerate(claims)]
    return sorted([*begins, *ends, *((at, 1, -1) for at in updates)])


def _played(claims: list[tuple[str, float, int, int]], updates: list[int], books: Books | None = None) -> Books:
    books = books or Books()
    books.appears(0, *NAMES)
    held: dict[int, str] = {}
    for at, what, number in _steps(claims, updates):
        if what == 1:
            books.update(at)
        elif what == 2:
            held[number] = books.claim(at, claims[number][0], claims[number][1])
        else:
            books.release(at, held.pop(number))
    return books


@given(claims=CLAIMS, updates=st.lists(st.integers(0, 2 * DAY), max_size=6))
def test_the_usage_is_the_sum_of_the_claims_intervals_times_their_weights_exactly(
    claims: list[tuple[str, float, int, int]], updates: list[int]
) -> None:
    books = _played(claims, updates)
    for name in NAMES:
        own = [(round(cores * 1000), lasts * 1_000_000) for who, cores, _, lasts in claims if who == name]
        one = books.of(name)
        assert (
            one.usage_until(books.state.at)
            == one.weighted_usage
            == one.ended_usage
            == sum(weight * lasts for weight, lasts in own)
        )
        assert one.unweighted_usage == sum(lasts for _, lasts in own)
        assert (one.weighted_in_use, one.slots, one.ended_claims) == (0, 0, len(own))


@given(claims=CLAIMS, now=st.integers(0, DAY))
def test_what_is_in_use_counts_until_now(claims: list[tuple[str, float, int, int]], now: int) -> None:
    books = Books()
    books.appears(0, *NAMES)
    for at, what, number in _steps(claims, []):
        if what == 2 and at <= now:
            books.claim(at, claims[number][0], claims[number][1])
    for name in NAMES:
        own = [(round(c * 1000), at) for who, c, at, _ in claims if who == name and at <= now]
        assert books.of(name).usage_until(books.sees(now)) == sum(w * (now - at) * 1_000_000 for w, at in own)
        assert books.of(name).weighted_in_use == sum(weight for weight, _ in own)


@given(
    cores=st.integers(0, 200),
    begins=st.floats(0.5, 200),
    cuts=st.lists(st.integers(1, 3 * DAY - 1), max_size=40, unique=True),
)
def test_intervals_of_different_lengths_come_to_the_same(cores: int, begins: float, cuts: list[int]) -> None:
    """ "can be calculated over non-uniform time intervals without affecting the calculation" """

    def after(updates: list[int]) -> float:
        books = Books()
        books.tell(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", begins)
        if cores:
            books.claim(0, "alice", cores)
        for at in updates:
            books.update(at)
        return books.real("alice")

    assert after([*sorted(cuts), 3 * DAY]) == pytest.approx(after([3 * DAY]), rel=1e-9)


@given(
    begins=st.floats(0.5, 1000),
    instants=st.lists(st.integers(1, 10 * DAY), min_size=1, max_size=12, unique=True),
    cores=st.integers(0, 50),
)
def test_who_is_left_out_of_updates_decays_as_if_each_had_named_it(
    begins: float, instants: list[int], cores: int
) -> None:
    """And if it then uses something, that counts from the last update on, whether that named it or not."""

    def after(*left_out: str) -> list[float]:
        books = Books()
        books.appears(0, "bob")
        books.tell(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", begins)
        seen = []
        for at in sorted(instants):
            books.update(at, *left_out)
            seen.append(books.real("alice"))
        if cores:
            books.claim(max(instants) + HOUR, "alice", cores)
        books.update(max(instants) + 2 * HOUR)
        return [*seen, books.real("alice")]

    assert after("alice") == pytest.approx(after(), rel=1e-9)


@given(claims=CLAIMS)
def test_a_priority_lies_between_one_half_and_what_was_used_at_most(claims: list[tuple[str, float, int, int]]) -> None:
    books = _played(claims, list(range(0, 2 * DAY, 6 * HOUR)))
    for name in NAMES:
        most = sum(cores for who, cores, _, _ in claims if who == name)
        assert 0.5 <= books.real(name) <= max(0.5, most) * (1 + 1e-9)


def test_a_claim_counts_from_its_beginning_also_between_two_updates() -> None:
    """Half an hour of 20 cores is an hour of 10."""
    half, whole = Books(), Books()
    for books, begins, cores in ((half, HOUR // 2, 20), (whole, 0, 10)):
        books.appears(0, "alice")
        books.claim(begins, "alice", cores)
        books.update(HOUR)
    assert half.real("alice") == whole.real("alice") > 0.5


def test_what_is_used_counts_once_also_while_the_priority_stays_what_it_is() -> None:
    """A quarter of a core leaves alice at one half; a cycle names her all the same, as long as she uses something."""
    books = Books()
    books.appears(0, "alice", "bob")
    claim = books.claim(0, "alice", 0.25)
    books.claim(0, "bob", 50)
    for minute in range(1, 240):
        caches = Caches()
        accounts = CycleSubmitters(books.state, books.sees(minute * 60), settings_of(books.state, caches))
        waiting = waiting_submitters(books.state, caches, accounts)
        aged = accounts.aged(waiting.aging(idle_queues(books.state, caches)))
        assert ("alice@here" in aged) == (minute <= 120)
        books.tell(minute * 60, e.PrioritiesUpdated, "accounted", aged)
        assert books.real("alice") == 0.5
        if minute == 119:
            books.release(minute * 60 + 30, claim)


# Acts


def test_what_is_in_use_when_the_usage_is_reset_goes_on_to_count() -> None:
    books = Books()
    books.appears(0, "alice")
    claim = books.claim(0, "alice", 2)
    books.update(HOUR // 2)
    before = books.real("alice")
    books.tell(HOUR, e.SubmittersReset, "granted", ("alice@here",), "root")
    alice = books.of("alice")
    assert (alice.usage_until(books.sees(HOUR)), alice.first_used, alice.slots) == (0, books.sees(HOUR), 1)
    assert books.real("alice") == before  # it is the usage that is reset, and not the priority
    books.release(2 * HOUR, claim)
    assert (alice.weighted_usage, alice.unweighted_usage) == (2000 * HOUR * 1_000_000, HOUR * 1_000_000)
    assert alice.ended_usage == 2 * 2000 * HOUR * 1_000_000  # of the claim, whatever was set since
    books.update(2 * HOUR)
    again = Books()
    again.appears(0, "alice")
    claim = again.claim(0, "alice", 2)
    again.update(HOUR // 2)
    again.update(2 * HOUR)
    assert books.real("alice") == again.real("alice")  # what was used before the reset counts for the priority


def test_who_is_deleted_comes_back_as_new_with_what_it_has_in_use() -> None:
    books = Books()
    books.appears(0, "alice", "bob")
    claim = books.claim(0, "alice", 2)
    books.tell(60, e.SubmitterSet, "granted", "alice@here", "root", "factor", 5.0)
    books.tell(60, e.SubmitterSet, "granted", "bob@here", "root", "priority", 70.0)
    books.tell(60, e.SubmitterSet, "granted", "alice@here", "root", "priority", 70.0)
    for name in ("alice", "bob"):
        books.tell(HOUR, e.SubmitterDeleted, "granted", f"{name}@here", "root", 1000.0)
    assert "bob@here" not in books.state.submitters
    alice = books.of("alice")
    assert (alice.priority, alice.factor, alice.weighted_in_use, alice.slots) == (0.5, 1000.0, 2000, 1)
    assert alice.usage_until(books.sees(2 * HOUR)) == 2000 * HOUR * 1_000_000
    books.release(2 * HOUR, claim)
    assert (alice.weighted_in_use, alice.slots) == (0, 0)
    books.appears(2 * HOUR, "bob")
    assert books.real("bob") == 0.5


def test_a_usage_that_is_set_is_what_was_used_and_changes_no_priority() -> None:
    books, other = Books(), Books()
    for each in (books, other):
        each.appears(0, "alice")
        each.claim(0, "alice", 3)
    books.tell(HOUR, e.SubmitterSet, "granted", "alice@here", "root", "usage", 12.5)
    assert books.of("alice").usage_until(books.sees(HOUR)) == 12_500_000_000
    for each in (books, other):
        each.update(2 * HOUR)
    assert books.real("alice") == other.real("alice")


def test_from_the_instant_at_which_a_priority_is_set_it_ages() -> None:
    books = Books()
    books.appears(0, "alice")
    books.claim(0, "alice", 40)
    books.update(HOUR)
    books.tell(2 * HOUR, e.SubmitterSet, "granted", "alice@here", "root", "priority", 40.0)
    books.update(3 * HOUR)
    assert books.real("alice") == pytest.approx(40)  # what it used before is in what was set
