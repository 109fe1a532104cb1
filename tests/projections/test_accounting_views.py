"""Property: the accounting in the views equals that of the state, whatever happens, wherever a batch ended."""

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
from .test_folding import FIXED, check_accounting

SLOTS, USERS = ("slot1@h", "slot2@h", "slot3@h"), ("alice@x", "bob@x")
Make = Callable[[tuple[int, str, str]], e.Event]

users, slots = st.sampled_from(USERS), st.sampled_from(SLOTS)
values = st.floats(0.5, 1e6)


def event_of(kind: Callable[..., e.Event], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Make]:
    """Draw events of a kind, without time and cause."""
    return st.tuples(*fields).map(lambda values: lambda why: kind(*why, *values))


acts: st.SearchStrategy[Make] = st.one_of(
    event_of(e.ClaimMade, slots, st.just("c"), users, st.integers(1, 9000)),
    event_of(e.ClaimEnded, slots, st.just("c"), users, st.just(7)),
    event_of(e.PrioritiesUpdated, st.dictionaries(users, values, max_size=2)),
    event_of(
        e.SubmitterSet, users, st.just("root"), st.sampled_from(sorted(e.SET)), values, st.sampled_from([0, 1, 10**18])
    ),
    event_of(e.SubmittersReset, st.lists(users, max_size=2, unique=True).map(tuple), st.just("root")),
    event_of(e.SubmitterDeleted, users, st.just("root")),
    event_of(e.PoolConfigured, st.fixed_dictionaries({"PRIORITY_HALFLIFE": st.sampled_from(["", "60", "3600"])})),
    event_of(e.PoolConfigured, st.fixed_dictionaries({"DEFAULT_PRIO_FACTOR": st.sampled_from(["", "7", "10"])})),
)


def log_of(happens: list[Make]) -> list[e.Event]:
    """Return a log with these events, a second apart; claims end before their slots are claimed again."""
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
def test_the_views_have_the_accounting_of_the_state(happens: list[Make], sizes: list[int]) -> None:
    placed = list(enumerate(log_of(happens), 1))
    tables = folded(placed, sizes)
    check_accounting(Views(tables), fold(placed))
    assert dump(tables) == dump(folded(placed))
