"""Property: the accountant's books in the views are those of the state, whatever happens, wherever a batch ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.projections.views import Views

from .pools import dump, folded
from .test_folding import FIXED, is_the_books

SLOTS, USERS = ("slot1@h", "slot2@h", "slot3@h"), ("alice@x", "bob@x")
Make = Callable[[tuple[int, str, str]], e.Event]

users, slots = st.sampled_from(USERS), st.sampled_from(SLOTS)
values = st.floats(0.5, 1e6)


def what(kind: Callable[..., e.Event], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Make]:
    """Events of a kind, each to be told when and why."""
    return st.tuples(*fields).map(lambda values: lambda why: kind(*why, *values))


acts: st.SearchStrategy[Make] = st.one_of(
    what(e.ClaimMade, slots, st.just("c"), users, st.integers(1, 9000)),
    what(e.ClaimEnded, slots, st.just("c"), users, st.just(7)),
    what(e.PrioritiesUpdated, st.dictionaries(users, values, max_size=2)),
    what(
        e.SubmitterSet, users, st.just("root"), st.sampled_from(sorted(e.SET)), values, st.sampled_from([0, 1, 10**18])
    ),
    what(e.SubmittersReset, st.lists(users, max_size=2, unique=True).map(tuple), st.just("root")),
    what(e.SubmitterDeleted, users, st.just("root")),
    what(e.PoolConfigured, st.fixed_dictionaries({"PRIORITY_HALFLIFE": st.sampled_from(["", "60", "3600"])})),
    what(e.PoolConfigured, st.fixed_dictionaries({"DEFAULT_PRIO_FACTOR": st.sampled_from(["", "7", "10"])})),
)


def told(happens: list[Make]) -> list[e.Event]:
    """A log in which all that happens, a second apart; slots that are claimed end their claims first."""
    events: list[e.Event] = [e.PoolFounded(0, "founded", "s", "pool", "htcondor-25", "x", "1", {"GROUP_NAMES": "g"})]
    events += [e.SlotCreated(0, "configured", "s", slot, "h", "static", "", {}) for slot in SLOTS]
    holders: dict[str, str] = {}
    for at, make in enumerate(happens, 1):
        event = make((at * 1_000_000, "granted", "s"))
        if isinstance(event, e.ClaimMade):
            if event.slot in holders:
                continue
            holders[event.slot] = event.submitter
        elif isinstance(event, e.ClaimEnded):
            if event.slot not in holders:
                continue
            event = replace(event, submitter=holders.pop(event.slot))
        events.append(event)
    return events


@settings(FIXED, max_examples=30)
@given(st.lists(acts, min_size=10, max_size=40), st.lists(st.integers(1, 8), min_size=5, max_size=20))
def test_the_views_have_the_books_of_the_state(happens: list[Make], sizes: list[int]) -> None:
    placed = list(enumerate(told(happens), 1))
    tables = folded(placed, sizes)
    is_the_books(Views(tables), fold(placed))
    assert dump(tables) == dump(folded(placed))
