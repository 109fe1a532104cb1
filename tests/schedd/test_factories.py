"""Golden: factories create jobs as in HTCondor 25.14.1 (recorded, and trace 21) and in the manual's "Submitting Lots of
Jobs". Property: whatever happens, in any order, each job is created once, in order, within the limits."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook import Behaviour, Pool
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import Event, FactoryTransitioned, JobsEdited, JobsMaterialized, JobsTransitioned
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.proc_ads import pack
from poolbook.replay.validation import examine

from ..domain.pools import JOB, TestPool
from ..projections.pools import folded
from ..sampling import examples
from ..together import together

EXAMPLES = examples(8, 20)


def pool_of(*, cpus: int = 0, seconds: float = 10, dialect: str = "manual") -> TestPool:
    pool = TestPool(behave=lambda launch: Behaviour(seconds), dialect=dialect)
    if cpus:
        pool.machine(cpus=cpus)
    return pool


def factory(pool: TestPool, count: int, limit: str = "", idle: str = "", **more: Any) -> None:
    limits = {"JobMaterializeLimit": limit, "JobMaterializeMaxIdle": idle}
    columns = {"Args": [f'"{number}"' for number in range(count)]}
    ad = {**JOB, **{name: text for name, text in limits.items() if text}, **more}
    ad.pop("Args")
    answer = pool.handle(s.Submit(pool.id(), "alice", 0, ad, count, pack(columns)))
    assert not answer.refusal, answer.refusal


def jobs_in_queue(pool: TestPool, cluster: int = 1) -> list[int]:
    cluster_record = pool.state.clusters.get(cluster)
    return [] if cluster_record is None else list(cluster_record.procs())


def created_jobs(pool: TestPool) -> list[tuple[int, int]]:
    return [procs for event in pool.events() if isinstance(event, JobsMaterialized) for procs in event.procs]


def sound(pool: TestPool) -> bool:
    return examine(pool.log.read()).violations == []


@together(
    ("limit", "idle", "first"),
    [
        # recorded: how many jobs of 10 are created at first, while nothing runs
        ("10", "2", 2), ("3", "", 3), ("4", "1", 1), ("0", "", 10), ("-2", "", 10), ("", "-1", 10), ("", "2 * 2", 4),
        ("100", "", 10), ("", "3", 3), ("2 + 1", "", 3), ("", "0", 0), ("3", "100", 3),
    ],
)  # fmt: skip
def test_a_factory_creates_as_many_jobs_as_its_limits_permit(limit: str, idle: str, first: int) -> None:
    pool = pool_of()
    factory(pool, 10, limit, idle)
    assert jobs_in_queue(pool) == list(range(first))
    assert pool.state.clusters[1].ad["TotalSubmitProcs"] == "10"
    assert sound(pool)


def test_max_materialize_limits_the_jobs_in_the_queue() -> None:
    """Trace 21, mat.sub: four jobs of three seconds, two in the queue at a time."""
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 4, limit="2")
    ads = []
    for _ in range(4):
        ads.append(jobs_in_queue(pool))
        pool.advance(3)
    assert ads == [[0, 1], [1, 2], [2, 3], [3]]
    assert (pool.state.clusters, pool.state.factories) == ({}, {})
    assert sound(pool)


def test_max_idle_limits_the_jobs_that_do_not_run() -> None:
    """Trace 21, idle.sub: five jobs, one of which waits."""
    pool = pool_of(cpus=2, seconds=3)
    factory(pool, 5, idle="1")
    pool.advance(1)
    assert jobs_in_queue(pool) == [0, 1, 2]
    pool.act("hold", "1.2")
    pool.advance(3)
    assert jobs_in_queue(pool) == [2]  # a held job counts as one that does not run
    pool.act("release", "1.2")
    pool.advance(1)
    assert jobs_in_queue(pool) == [2, 3, 4]
    assert sound(pool)


def test_each_job_has_its_own_item_and_creation_time() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 3, limit="1")
    pool.advance(4)
    ad = pool.state.clusters[1].attributes(1)
    assert (ad["Args"], ad["JobMaterializeDate"]) == ('"1"', str(int(ad["QDate"]) + 3))
    assert ad["QDate"] != ad["JobMaterializeDate"]


def test_a_held_cluster_creates_no_jobs_until_it_is_released() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 10, limit="3", idle="2")
    pool.act("hold", "1")
    pool.advance(10)
    assert (jobs_in_queue(pool), {pool.status(f"1.{proc}") for proc in jobs_in_queue(pool)}) == ([0, 1, 2], {"Held"})
    moves = [event for event in pool.events() if isinstance(event, FactoryTransitioned)]
    assert [(event.source, event.target, event.reason) for event in moves] == [
        ("Running", "Paused", "via condor_hold (by user alice)")
    ]
    pool.act("release", "1")
    pool.advance(3)
    assert jobs_in_queue(pool)[-1] == 3
    assert sound(pool)


def test_a_held_job_does_not_pause_its_factory() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 4, limit="2")
    pool.act("hold", "1.1")
    assert pool.state.clusters[1].factory.mode == "Running"
    pool.advance(3)
    assert jobs_in_queue(pool) == [1, 2]


def test_an_edit_of_a_cluster_counts_for_jobs_that_are_not_created_yet() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 4, limit="1")
    pool.edit("1", Foo='"bar"')
    pool.advance(3)
    pool.edit("1.1", Only="1")
    pool.advance(3)
    ad = pool.state.clusters[1].attributes(2)
    assert (ad["Foo"], ad.get("Only")) == ('"bar"', None)
    assert sound(pool)


def test_edited_limits_count_immediately() -> None:
    pool = pool_of()
    factory(pool, 10, limit="2")
    pool.edit("1", JobMaterializeLimit="4")
    assert jobs_in_queue(pool) == [0, 1, 2, 3]
    pool.edit("1", JobMaterializeLimit="3", JobMaterializeMaxIdle="100")
    assert jobs_in_queue(pool) == [0, 1, 2, 3]
    pool.edit("1", JobMaterializePaused="1")
    pool.edit("1", JobMaterializeLimit="6")
    assert len(jobs_in_queue(pool)) == 4
    pool.edit("1", JobMaterializePaused="0")
    assert len(jobs_in_queue(pool)) == 6
    pool.edit("1", JobMaterializeLimit="0")
    assert len(jobs_in_queue(pool)) == 10
    assert pool.edit("1", JobMaterializeNextProcId="9").refusal
    assert pool.edit("1", TotalSubmitProcs="99").refusal
    assert sound(pool)


@together("action", ["1", "alice", ""])
def test_a_removed_cluster_creates_no_more_jobs(action: str) -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 1000, limit="3")
    pool.act("remove", *([action] if action else []))
    pool.advance(10)
    assert (pool.state.clusters, pool.state.factories, created_jobs(pool)) == ({}, {}, [(0, 2)])
    assert sound(pool)


def test_a_cluster_without_jobs_is_removed_by_its_number() -> None:
    pool = pool_of()
    factory(pool, 5, idle="0")
    assert pool.act("remove", "1").value
    assert pool.state.clusters == {}
    assert sound(pool)


def test_removed_jobs_leave_room_for_others() -> None:
    pool = pool_of()
    factory(pool, 5, limit="2")
    pool.act("remove", "1.0", "1.1")
    assert jobs_in_queue(pool) == [2, 3]


def test_no_other_user_pauses_a_factory() -> None:
    pool = pool_of()
    factory(pool, 5, idle="0")
    pool.act("hold", "1", user="bob")
    assert not any(isinstance(event, FactoryTransitioned) for event in pool.events())


def test_jobs_that_are_submitted_on_hold_are_held_as_they_are_created() -> None:
    pool = pool_of(cpus=1)
    factory(pool, 5, idle="2", JobStatus="5", HoldReason='"x"', HoldReasonCode="15", HoldReasonSubCode="0")
    assert [pool.status(f"1.{proc}") for proc in jobs_in_queue(pool)] == ["Held", "Held"]
    pool.act("release", "1")
    pool.advance(0)
    assert [pool.status(f"1.{proc}") for proc in jobs_in_queue(pool)] == ["Running", "Idle", "Held"]
    assert sound(pool)


def test_in_htcondor_jobs_submitted_on_hold_are_idle_with_a_hold_reason() -> None:
    """As recorded (tests/data/beside/materialize-held.sub)."""
    pool = pool_of(dialect="htcondor-25")
    factory(pool, 5, idle="2", JobStatus="5", HoldReason='"x"', HoldReasonCode="15", HoldReasonSubCode="0")
    assert [pool.status(f"1.{proc}") for proc in jobs_in_queue(pool)] == ["Idle", "Idle"]
    ad = pool.state.clusters[1].attributes(0)
    assert (ad["HoldReason"], ad.get("InitialJobStatus"), ad.get("NumHolds")) == ('"x"', None, "1")
    assert sound(pool)


def test_a_factory_continues_where_it_was_when_the_pool_comes_back() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 6, limit="2")
    pool.edit("1", Foo="1")
    pool.advance(4)
    refolded = fold(pool.log.read())
    (cluster,), (old_cluster,) = pool.state.clusters.values(), refolded.clusters.values()
    assert old_cluster.factory == cluster.factory
    assert [old_cluster.attributes(proc) for proc in old_cluster.procs()] == [
        cluster.attributes(proc) for proc in cluster.procs()
    ]
    assert refolded.factories == pool.state.factories


def test_the_views_have_the_created_jobs() -> None:
    pool = pool_of(cpus=1, seconds=3)
    factory(pool, 6, limit="3")
    pool.edit("1", Foo="1")
    pool.advance(4)
    tables = folded(list(pool.log.read()))
    rows = tables.execute("SELECT first, last, changes FROM jobs ORDER BY first").fetchall()
    assert [proc for first, last, _ in rows for proc in range(first, last + 1)] == jobs_in_queue(pool)
    assert ['"Foo":"1"' in changes for *_, changes in rows] == [True] * len(rows)
    assert tables.execute("SELECT made, mode FROM factories").fetchall() == [(4, "Running")]


def test_a_submit_file_with_max_idle_has_a_factory() -> None:
    with Pool.open(user="alice") as pool:
        pool.submit("executable = /bin/x\narguments = $(item)\nmax_idle = 2\nqueue item from (\na\nb\nc\nd\n)")
        jobs = [(job["Args"], job["TotalSubmitProcs"], job["JobMaterializeMaxIdle"]) for job in pool.jobs()]
        assert jobs == [("a", 4, 2), ("b", 4, 2)]
        assert pool.why("1.3")[0] == "Job 1.3 has not been created by its cluster's factory yet."


def test_a_million_items_use_ten_bytes_each_however_many_jobs_were_created() -> None:
    pool = pool_of()
    pool.handle(s.Submit(pool.id(), "alice", 0, {**JOB, "JobMaterializeLimit": "10"}, 1_000_000, ()))
    cluster = pool.state.clusters[1]
    assert len(jobs_in_queue(pool)) == 10
    assert len(cluster.status) + cluster.cohort_of.itemsize * len(cluster.cohort_of) == 5_000_000
    for _ in range(20):
        pool.act("remove", *(f"1.{proc}" for proc in jobs_in_queue(pool)))
    assert len(cluster.cohorts) < 20
    assert (cluster.factory.materialized, cluster.live) == (210, 10)


# Any story

COMMANDS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["hold", "release", "remove"]), st.sampled_from(["1", "1.0", "1.1", "1.4", "2", "alice"])
        ),
        st.tuples(st.just("limit"), st.sampled_from(["0", "1", "2", "5"])),
        st.tuples(st.just("idle"), st.sampled_from(["-1", "0", "1", "3"])),
        st.tuples(st.just("advance"), st.sampled_from(["1", "3", "10"])),
    ),
    max_size=12,
)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["", "1", "3"]), st.sampled_from(["", "1", "2"]), COMMANDS)
def test_each_job_is_created_once_in_order_and_within_the_limits(
    limit: str, idle: str, commands: list[tuple[str, str]]
) -> None:
    pool = pool_of(cpus=2, seconds=3)
    factory(pool, 7, limit or "4", idle)
    factory(pool, 3, limit="1")
    for action, whom in commands:
        if action == "advance":
            pool.advance(int(whom))
        elif action in ("limit", "idle"):
            name = "JobMaterializeLimit" if action == "limit" else "JobMaterializeMaxIdle"
            pool.handle(s.Edit(pool.id(), "alice", s.Selection(clusters=(1,)), {name: whom}))
        else:
            pool.act(action, whom)
    assert sound(pool)
    assert plain_state(fold(pool.log.read())) == plain_state(pool.state)
    events: list[Event] = pool.events()
    for number in (1, 2):
        ranges = [procs for e in events if isinstance(e, JobsMaterialized) and e.cluster == number for procs in e.procs]
        everyone = [proc for first, last in ranges for proc in range(first, last + 1)]
        assert everyone == list(range(len(everyone)))
        leavings = Counter(
            proc
            for e in events
            if isinstance(e, JobsTransitioned) and e.cluster == number and e.target == "Left"
            for first, last in e.procs
            for proc in range(first, last + 1)
        )
        assert set(leavings.values()) <= {1}
        assert sorted([*leavings, *jobs_in_queue(pool, number)]) == everyone
    assert not any(isinstance(e, JobsEdited) and not e.procs for e in events)
