"""Property: the views of any pool's log equal the live state, however the log is divided into batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from poolbook.domain.classad import Context
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.accounting import accountant_settings, initial_factor
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import no_readings
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.startd.slot_ad import snapshot_ad
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.job_ad import STATUS_NUMBERS
from poolbook.domain.state.records import Slot
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.projections.projector import apply
from poolbook.projections.views import SubmitterRow, Views

from ..replay.test_legality_of_edited_points import sound
from .pools import Pool, busy_pool, dump, folded, live_ad

FIXED = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
ACTIONS = ("hold", "release", "remove", "vacate", "suspend", "continue")

jobs = st.tuples(st.integers(1, 3), st.integers(0, 5))
selections = st.one_of(
    st.builds(lambda some: s.Selection(jobs=tuple(some)), st.lists(jobs, min_size=1, max_size=4)),
    st.builds(lambda some: s.Selection(clusters=tuple(some)), st.lists(st.integers(1, 3), min_size=1, max_size=2)),
    st.just(s.Selection(everything=True)),
    st.just(s.Selection(owners=("alice",))),
)
Step = Callable[[Pool], object]
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        lambda count, owner, own_value: (
            lambda pool: pool.submit(count, owner, [f'"{20 + i}"' for i in range(count)] * own_value)
        ),
        st.integers(1, 6),
        st.sampled_from(["alice", "bob"]),
        st.booleans(),
    ),
    st.builds(lambda seconds: lambda pool: pool.run(seconds), st.integers(1, 70)),
    st.builds(
        lambda action, which, fast: lambda pool: pool.act(action, which, fast),
        st.sampled_from(ACTIONS),
        selections,
        st.booleans(),
    ),
    st.builds(lambda which, prio: lambda pool: pool.edit(which, JobPrio=str(prio)), selections, st.integers(-1, 1)),
    st.builds(lambda which: lambda pool: pool.edit(which, add=True, JobPrio="1"), selections),
)


def check_queue_and_slots(views: Views, state: State) -> None:
    """Check that views and a state have the same queue, slots and usage."""
    queue = {(ad.eval("ClusterId"), ad.eval("ProcId")): ad for ad in views.ads()}
    live = {(cluster.id, proc): cluster for cluster in state.clusters.values() for proc in cluster.procs()}
    assert list(queue) == sorted(live)
    for (number, proc), cluster in live.items():
        assert queue[number, proc] == live_ad(cluster, proc, state.name)
        assert queue[number, proc].eval("JobStatus") == STATUS_NUMBERS[cluster.status_of(proc)]
    assert [comparable(slot) for slot in views.slots()] == [comparable(slot) for slot in state.slots.values()]
    check_accounting(views, state)


def comparable(slot: Slot) -> Slot:
    """Return a slot without what only the live pool tracks: its job's reports and how its processes end, and its
    claim's lease."""
    activation = slot.activation
    if activation is not None:
        ends = {"stop_signal": "", "last_signalled": 0, "next_signal": 0, "soft_signal": ""}
        ad = {} if activation.remote_key else activation.ad
        activation = replace(activation, **ends, reports={}, measured=(), ad=ad)
    claim = None if slot.claim is None else replace(slot.claim, lease_end=0)
    return replace(slot, activation=activation, claim=claim)


def check_accounting(views: Views, state: State) -> None:
    """Check that views and a state have the same submitters."""
    books = {row.submitter: row for row in views.submitters()}
    assert books.keys() == state.submitters.keys()
    pool = views.pool()
    fields = [field for field in SubmitterRow._fields[1:] if field != "factor"]
    for name, submitter in state.submitters.items():
        assert [getattr(books[name], field) for field in ("name", *fields)] == [
            getattr(submitter, field) for field in ("name", *fields)
        ]
        assert books[name].factor == (
            submitter.factor or initial_factor(name, accountant_settings(submitter.appeared_under or {}))
        )
    assert (pool.settings, pool.accounted, views.at) == (state.settings, state.priorities_updated_at, state.at)


def check_slot_ads(views: Views, state: State) -> None:
    """Check that claims, drains and benchmarks are in the views as the slots' own policy sees them."""
    context = Context(now=state.at // SECOND)
    slots_published = PublishedSlots(state, Caches(), state.at, context)
    for ad, slot in zip(views.slot_ads(state.at // SECOND), state.slots.values(), strict=True):
        slot_ad = snapshot_ad(
            PolicyEvaluation(state, slot, no_readings, state.at, context, Caches()).snapshot(), whole=True
        )
        assert ad == slots_published.ad(slot)
        for name in OF_THE_LOG:
            view_value, slot_value = ad.eval(name), slot_ad.eval(name)
            assert (name, type(view_value), view_value) == (name, type(slot_value), slot_value)


OF_THE_LOG = (
    "ClientMachine", "JobStart", "JobId", "PreemptingUser", "PreemptingOwner", "PreemptingRank", "DrainReason",
    "DrainingRequestId", "LastDrainStartTime", "LastDrainStopTime", "TotalMachineDrainingBadput", "Mips", "KFlops",
)  # fmt: skip
"""Attributes that the log records, so that views have them."""


def check_no_job_is_lost(views: Views) -> None:
    """Check that each job that was submitted is in the queue or in the history, and in one of them only."""
    job_ids = [
        (ad.eval("ClusterId"), ad.eval("ProcId")) for view_ads in (views.ads(), views.history_ads()) for ad in view_ads
    ]
    rows = views.connection.execute('SELECT cluster, "count" FROM clusters').fetchall()
    assert sorted(job_ids) == sorted((cluster, proc) for cluster, count in rows for proc in range(count))
    assert {ad.eval("JobStatus") for ad in views.history_ads()} <= {3, 4}


@settings(FIXED, max_examples=20)
@given(
    st.lists(steps, max_size=12),
    st.lists(st.integers(0, 60), max_size=12),
    st.sampled_from(["manual", "htcondor-25"]),
)
def test_views_equal_the_state_and_do_not_depend_on_batches(
    happens: list[Step], sizes: list[int], dialect: str
) -> None:
    pool = Pool(dialect=dialect)
    pool.submit(4)
    for happening in happens:
        happening(pool)
    events = pool.events
    at_once = folded(events)
    assert dump(at_once) == dump(folded(events, sizes))
    views = Views(at_once)
    check_queue_and_slots(views, fold(events))
    check_no_job_is_lost(views)


def test_views_equal_the_state_after_every_event() -> None:
    events = busy_pool().events
    singly = folded([])
    state = State()
    for event in events:
        apply(singly, [event])
        state = fold([event], state)
        check_queue_and_slots(Views(singly), state)
    assert dump(singly) == dump(folded(events))


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_views_equal_what_an_execution_point_sees_after_every_event(dialect: str) -> None:
    events = list(enumerate(sound(dialect), 1))
    singly = folded([])
    state = State()
    for event in events:
        apply(singly, [event])
        state = fold([event], state)
        check_queue_and_slots(Views(singly), state)
        check_slot_ads(Views(singly), state)
    assert dump(singly) == dump(folded(events))


def test_an_event_about_an_unknown_subject_changes_nothing() -> None:
    """This happens if the beginning of a log is missing."""
    pool = busy_pool()
    events = pool.events
    views = Views(
        folded([(at, event) for at, event in events if type(event).__name__ not in ("ClusterSubmitted", "SlotCreated")])
    )
    assert (views.batches(), views.slots(), list(views.history_ads())) == ([], [], [])
    assert views.position == len(events)
