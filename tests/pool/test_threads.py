"""Property and golden: threads and tasks that share a `Pool` or `Log` take turns, on every store."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import (
    AsyncLog,
    AsyncPool,
    Behaviour,
    Fenced,
    Launch,
    Log,
    LogClosed,
    Pool,
    Refusal,
    SubmitError,
    UnknownThingError,
)
from poolbook.adapters.stores.opening import open_log
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import ClusterSubmitted, Event
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports.log import EventStore as Store

from ..children import child
from ..stores.places import KINDS, Place, place_of

WORK = {"executable": "/bin/work"}
CALLS: dict[str, Callable[[Any], Any]] = {
    "submit": lambda pool: pool.submit(WORK),
    "submit many": lambda pool: pool.submit(WORK, count=3),
    "hold": lambda pool: pool.hold(1),
    "release": lambda pool: pool.release(1, 2),
    "remove": lambda pool: pool.remove("2.0", 3),
    "edit": lambda pool: pool.edit(1, JobPrio=3),
    "suspend": lambda pool: pool.suspend(constraint="true"),
    "vacate": lambda pool: pool.vacate_slot("n1"),
    "advance": lambda pool: pool.advance(40),
    "run": lambda pool: pool.run(100),
    "negotiate": lambda pool: pool.negotiate(),
    "factor": lambda pool: pool.set_priority_factor("alice@x.org", 50),
    "jobs": lambda pool: pool.jobs(),
    "slots": lambda pool: pool.slots(),
    "history": lambda pool: pool.history(),
    "why": lambda pool: pool.why(1),
    "usage": lambda pool: pool.usage(),
    "judge": lambda pool: pool.judge(),
}
SCRIPTS = st.lists(st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=5), min_size=2, max_size=4)
REFUSED = (Refusal, UnknownThingError)  # for example, cluster 1 does not exist yet


def opened(place: Place, **options: Any) -> Pool:
    return Pool.open(place.url, user="alice", uid_domain="x.org", behave=lambda launch: Behaviour(60), **options)


def submit_during_a_call(
    pool: Pool, descriptions: Sequence[dict[str, str]], error: Exception | None = None
) -> tuple[list[Any], int]:
    """Submit from several threads while another call is in progress; return the results or errors, and the appends.

    :param error: what a subscriber raises for the first append of these submissions
    """
    appends: list[int] = []
    all_wait = threading.Event()

    def note(first: int, events: Sequence[Event]) -> None:
        appends.append(first)
        if len(appends) == 1:
            all_wait.wait(60)
        elif len(appends) == 2 and error is not None:
            raise error

    pool._engine.subscribe(note)
    with ThreadPoolExecutor(10) as threads:
        threads.submit(pool.set_priority_factor, "bob@x.org", 50)
        while not appends:
            all_wait.wait(0.001)
        calls = [threads.submit(pool.submit, description) for description in descriptions]
        while len(pool._submissions) < len(calls):
            all_wait.wait(0.001)
        all_wait.set()
        return [call.exception(60) or call.result() for call in calls], len(appends) - 1


def test_submissions_that_wait_for_the_same_call_share_an_append() -> None:
    with Pool.open(user="alice", uid_domain="x.org") as pool:
        results, appends = submit_during_a_call(pool, [WORK] * 5)
        assert sorted(results) == [1, 2, 3, 4, 5]
        assert appends == 1
        assert pool.judge() == []


def test_a_waiting_submission_that_is_invalid_or_needs_a_warning_is_left_to_its_thread() -> None:
    with Pool.open(user="alice", uid_domain="x.org") as pool, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        invalid, unused = {**WORK, "request_cpus": "1 +"}, {**WORK, "bogus": "1"}
        results, _ = submit_during_a_call(pool, [WORK, invalid, unused, WORK])
        assert sorted(result for result in results if isinstance(result, int)) == [1, 2, 3]
        assert isinstance(results[1], SubmitError)
        assert [str(each.message)[:20] for each in warned] == ["the line 'bogus = 1'"]


def test_no_submission_is_repeated_if_a_subscriber_fails_after_a_shared_append() -> None:
    with Pool.open(user="alice", uid_domain="x.org") as pool:
        results, appends = submit_during_a_call(pool, [WORK] * 4, OSError("disk full"))
        assert [str(result) for result in results if not isinstance(result, int)] == ["disk full"]
        assert appends == 1
        assert sorted(pool.state.clusters) == [1, 2, 3, 4]


def test_an_invalid_submission_does_not_affect_those_of_other_threads() -> None:
    with Pool.open(user="alice", uid_domain="x.org") as pool, ThreadPoolExecutor(4) as threads:
        invalid = {"executable": "/bin/work", "request_cpus": "1 +"}
        calls = [threads.submit(pool.submit, invalid if number % 4 == 3 else WORK) for number in range(40)]
        clusters = [each.result() for each in calls if not isinstance(each.exception(), SubmitError)]
        assert sorted(clusters) == list(range(1, 31))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_of(request.param, tmp_path) as log_place:
        yield log_place


@pytest.fixture(autouse=True)
def _switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def call(pool: Pool, name: str) -> int | None:
    with suppress(*REFUSED):
        answer = CALLS[name](pool)
        return answer if name.startswith("submit") else None
    return None


def together(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call all of `work` at the same time, each in its own thread, and return the results."""
    start = threading.Barrier(len(work))

    def begin(call: Callable[[], Any]) -> Any:
        start.wait(60)
        return call()

    with ThreadPoolExecutor(len(work)) as threads:
        return [futures.result(60) for futures in [threads.submit(begin, call) for call in work]]


def check(pool: Pool, place: Place, acknowledged: Sequence[int | None]) -> None:
    """Check what must hold whatever the callers did, and in any order."""
    clusters = [cluster for cluster in acknowledged if cluster is not None]
    submitted_clusters = Counter(event.cluster for _, event in pool.events() if isinstance(event, ClusterSubmitted))
    assert submitted_clusters == Counter(clusters), (
        "each acknowledged submission is in the log exactly once, and no other"
    )
    assert pool.judge() == []
    with Log.open(place.url) as log:
        assert plain_state(pool.state) == plain_state(fold(log.events()))
        assert log.verify().sound


@settings(max_examples=3)
@given(scripts=SCRIPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_threads_happen_one_after_the_other(
    kind: str, tmp_path_factory: pytest.TempPathFactory, scripts: list[list[str]]
) -> None:
    with place_of(kind, tmp_path_factory.mktemp("log")) as place, opened(place) as pool:
        pool.add_machine("n1", cpus=2, memory=4096)
        first = pool.submit(WORK)
        work = [lambda script=script: [call(pool, name) for name in script] for script in scripts]
        check(pool, place, [first, *(cluster for answers in together(work) for cluster in answers)])


@settings(max_examples=3)
@given(scripts=SCRIPTS, cancelled=st.sets(st.integers(0, 3)), pauses=st.integers(0, 5))
@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_tasks_happen_one_after_the_other_and_a_cancelled_one_wholly_or_not_at_all(
    kind: str, tmp_path_factory: pytest.TempPathFactory, scripts: list[list[str]], cancelled: set[int], pauses: int
) -> None:
    acknowledged: list[int | None] = []

    async def work(pool: AsyncPool, script: Sequence[str]) -> None:
        for name in script:
            with suppress(*REFUSED):
                answer = await CALLS[name](pool)
                acknowledged.append(answer if name.startswith("submit") else None)

    async def story(place: Place) -> None:
        opening = AsyncPool.open(place.url, user="alice", uid_domain="x.org", behave=lambda launch: Behaviour(60))
        async with opening as pool:
            await pool.add_machine("n1", cpus=2, memory=4096)
            tasks = [asyncio.create_task(work(pool, script)) for script in scripts]
            for _ in range(pauses):
                await asyncio.sleep(0)
            for number in cancelled & set(range(len(tasks))):
                tasks[number].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with place_of(kind, tmp_path_factory.mktemp("log")) as place:
        asyncio.run(story(place))
        with opened(place) as pool:
            submitted_clusters = [event.cluster for _, event in pool.events() if isinstance(event, ClusterSubmitted)]
            assert set(submitted_clusters) >= set(filter(None, acknowledged))
            check(pool, place, submitted_clusters)


def test_a_decided_append_is_rejected_if_the_head_has_moved_for_any_reason(place: Place) -> None:
    with opened(place) as pool:
        pool.submit(WORK)
        store = pool._engine.log
        event = next(event for _, event in pool.events())

        def move(make_event: Callable[[Store], object]) -> Callable[[], None]:
            def move_head() -> None:
                other = open_log(place.url, create=False, mark=None)
                make_event(other)
                other.close()

            return move_head

        movers: list[Callable[[], object]] = [
            lambda: store.append([event]),  # a raw append on the same object
            lambda: threading.Thread(target=store.append, args=[[event]]).run(),
            move(lambda other: other.append([event])),  # by another object of the same log
            lambda: [move(lambda other: other.append([event]))(), store.refresh()],  # which a refresh has shown
        ]
        for mover in movers:
            before = pool.state.position
            mover()
            with pytest.raises(Fenced):
                pool.submit(WORK)
            submitted_events = [e for _, e in open_log(place.url, create=False, read_only=True).read(before)]
            assert [type(e) for e in submitted_events] == [type(event)], (
                "the log has no event of the rejected submission"
            )
            store.refresh()
            pool._engine.load()


def test_a_second_pool_waits_for_its_turn_and_then_names_the_process_that_has_the_log(
    place: Place, tmp_path: Path
) -> None:
    urls = [place.url]
    if place.kind == "sqlite":
        (tmp_path / "link.db").symlink_to(place.url)
        urls += [f"sqlite:///{place.url}", os.path.relpath(place.url), str(tmp_path / "link.db")]
    pool = opened(place)
    for url in urls:
        with pytest.raises(Exception, match=rf"this process \({os.getpid()}\) has the log .* open in another pool"):
            Pool.open(url, wait=0)
    pool.submit(WORK)
    threading.Timer(0.1, pool.close).start()
    with Pool.open(urls[-1]) as reopened:
        assert len(reopened.jobs()) == 1


def test_a_pool_that_was_never_closed_does_not_keep_the_log_from_its_program(place: Place) -> None:
    def open_and_leave() -> None:
        pool = opened(place)
        pool.subscribe(
            lambda position, event: print(pool.now)
        )  # a cycle of references, which only the garbage collector frees

    open_and_leave()
    opened(place, wait=5).close()


def test_unnamed_pools_in_memory_are_separate() -> None:
    with Pool.open("memory:") as pool, Pool.open("memory:") as two:
        assert pool.submit(WORK) == two.submit(WORK) == 1


SEVERAL_POOLS = """
import sys, threading
from poolbook import Behaviour, Pool
sys.setswitchinterval(1e-6)
found = {}
def live(number):
    with Pool.open(user="alice", uid_domain="x.org", behave=lambda launch: Behaviour(60)) as pool:
        pool.add_machine("n1", cpus=2, memory=4096)
        for cluster in range(1, 5):
            pool.submit({"executable": "/bin/work", "rank": f"Memory > {cluster}"}, count=2)
            pool.advance(20)
            pool.hold(cluster)
            pool.slots("Cpus > 0")
            pool.release(cluster)
            pool.why(f"{cluster}.0")
        pool.run(4000)
        assert pool.judge() == [] and len(pool.history()) == 8
        found[number] = [type(event).__name__ for _, event in pool.events()]
threads = [threading.Thread(target=live, args=[number]) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 6 and all(found[0] == one for one in found.values())
"""


def test_pools_in_several_threads_do_not_disturb_one_another() -> None:
    """They share tables, decoders and classes that a new process creates when they are first used."""
    path = str(Path(__file__).parent.parent.parent / ".path")
    completed = subprocess.run(
        [sys.executable, "-c", SEVERAL_POOLS], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (completed.returncode, completed.stderr) == (0, "")


def test_behave_and_subscribers_may_call_the_pool_again(place: Place) -> None:
    clusters: list[int] = []
    requested: list[int] = []

    def behave(launch: Launch) -> Behaviour:
        requested.append(launch.cluster)
        if (launch.cluster, launch.proc) == (1, 0):
            clusters.append(pool.submit(WORK))
            pool.remove("1.1")
            with pytest.raises(Refusal, match="time cannot pass during a call of `behave`"):
                pool.advance(1)
        assert pool.jobs() and pool.now
        return Behaviour(60)

    def hear(position: int, event: Event) -> None:
        if isinstance(event, ClusterSubmitted) and event.cluster == 2:
            clusters.append(pool.submit(WORK))

    with Pool.open(place.url, user="alice", uid_domain="x.org", behave=behave) as pool:
        heard_events: list[int] = []
        pool.subscribe(hear)
        pool.subscribe(lambda position, event: heard_events.append(position))
        pool.add_machine("n1", cpus=4, memory=4096)
        clusters.append(pool.submit(WORK, count=2))
        assert pool.run()
        assert sorted(clusters) == [1, 2, 3] and requested[0] == 1
        assert heard_events == sorted(heard_events) and len(heard_events) == len(set(heard_events))
        check(pool, place, clusters)
        assert len(pool.history()) == 4


def test_after_an_error_in_behave_the_job_is_asked_about_again() -> None:
    errors = [ValueError("not today")]

    def behave(launch: Launch) -> Behaviour:
        if errors:
            raise errors.pop()
        return Behaviour(60)

    with Pool.open(user="alice", behave=behave) as pool:
        pool.add_machine("n1")
        with pytest.raises(ValueError, match="not today"):
            pool.submit(WORK)
        assert pool.run(300) and len(pool.history()) == 1 and pool.judge() == []


@pytest.mark.parametrize("at", ["decision", "behave"])
def test_a_pool_interrupted_by_the_keyboard_continues(at: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = [at]

    def behave(launch: Launch) -> Behaviour:
        if interrupts == ["behave"]:
            raise KeyboardInterrupt(interrupts.pop())
        return Behaviour(60)

    with Pool.open(place.url, user="alice", uid_domain="x.org", behave=behave) as pool:
        pool.add_machine("n1")
        store = pool._engine.log
        append = store.append

        def interrupted(*arguments: Any) -> int:
            if interrupts == ["decision"]:
                raise KeyboardInterrupt(interrupts.pop())
            return append(*arguments)

        monkeypatch.setattr(store, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(WORK)
        clusters = [1] if at == "behave" else []  # which the log has
        clusters.append(pool.submit(WORK))
        assert pool.run() and len(pool.history()) == len(clusters)
        check(pool, place, clusters)


def test_a_signal_handler_cannot_call_a_pool_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[BaseException] = []
    with Pool.open(user="alice") as pool:
        store = pool._engine.log
        append = store.append

        def handler(number: int, frame: object) -> None:
            try:
                pool.submit(WORK)
            except RuntimeError as error:
                reported.append(error)

        def interrupted(*arguments: Any) -> int:
            signal.raise_signal(signal.SIGUSR1)
            return append(*arguments)

        old = signal.signal(signal.SIGUSR1, handler)
        try:
            signal.raise_signal(signal.SIGUSR1)  # between two calls it may
            monkeypatch.setattr(store, "append", interrupted)
            assert pool.submit(WORK) == 2
        finally:
            signal.signal(signal.SIGUSR1, old)
        assert len(reported) == 1 and "set a flag in the handler" in str(reported[0])
        assert len(pool.jobs()) == 2 and pool.judge() == []


def test_an_iterator_may_be_used_in_another_thread_while_others_change_the_pool(place: Place) -> None:
    with opened(place) as pool:
        pool.add_machine("n1", cpus=2, memory=4096)
        pool.submit(WORK, count=4)
        before = pool.state.position
        events = pool.events()
        own_event = next(events)

        def change() -> int:
            return pool.submit(WORK)

        positions, cluster = together([lambda: list(events), change])
        assert [position for position, _ in [own_event, *positions]] == list(range(1, before + 1)) and cluster == 2


def test_close_waits_for_calls_in_progress_and_later_ones_fail(place: Place) -> None:
    pool = opened(place)
    pool.add_machine("n1", cpus=2, memory=4096)
    acknowledged: list[int] = []

    def submit() -> None:
        with suppress(LogClosed):
            while True:
                acknowledged.append(pool.submit(WORK))
                if len(acknowledged) == 5:
                    enough.set()

    enough = threading.Event()

    def close() -> None:
        enough.wait(30)
        pool.close()

    together([submit, submit, close, close])
    with opened(place) as reopened:
        check(reopened, place, sorted(acknowledged))


def test_others_are_served_while_time_passes(tmp_path: Path) -> None:
    """In virtual time between two steps, in real time immediately."""
    with Pool.open(tmp_path / "pool.db", execute=True) as pool:
        pool.add_machine("here", cpus=1, memory=512)
        thread = threading.Thread(target=lambda: pool.advance(3600), daemon=True)
        with suppress(LogClosed):
            thread.start()
            for _ in range(20):
                pool.submit("executable = /bin/true\nhold = true\nqueue\n", folder=tmp_path)
            assert len(pool.jobs()) == 20 and thread.is_alive()
    errors: list[Any] = []
    threading.excepthook, hook = errors.append, threading.excepthook
    thread.join(30)
    threading.excepthook = hook
    assert not thread.is_alive(), "close ends it"


def test_a_log_may_be_read_by_several_threads(place: Place) -> None:
    with opened(place) as pool:
        pool.add_machine("n1", cpus=2, memory=4096)
        with Log.open(place.url) as log:

            def read() -> set[int]:
                return {len(log.jobs()) + len(log.history()) + log.position - log.position for _ in range(5)}

            def write() -> list[int]:
                return [pool.submit(WORK) for _ in range(5)]

            together([read, read, lambda: [list(log.events()) for _ in range(5)], write])
            assert len(log.jobs()) == 5 and log.verify().sound


def test_a_forked_process_cannot_use_the_pool_and_does_not_keep_its_log(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    with ExitStack() as stack:
        with opened(Place("sqlite", url, None)) as pool, Log.open(url) as log:
            pool.submit(WORK)

            def use_both(tell: int) -> None:
                for thing in (pool, log):
                    with pytest.raises(LogClosed):
                        thing.jobs()
                    thing.close()
                os.write(tell, b"closed")
                signal.pause()

            forked = stack.enter_context(child(use_both))
            assert forked.read() == b"closed"
            assert pool.submit(WORK) == 2
        opened(
            Place("sqlite", url, None), wait=1
        ).close()  # although the child, which inherited everything, is still alive
        assert Path(f"/proc/{forked.pid}").exists()


def test_an_asynchronous_pool_serves_several_event_loops_and_closes_once(place: Place) -> None:
    async def open_it() -> AsyncPool:
        pool = await AsyncPool.open(place.url, user="alice", behave=lambda launch: Behaviour(60))
        await pool.subscribe(lambda position, event: None)  # in a loop that is closed soon
        return pool

    pool = asyncio.run(open_it())

    async def submit() -> list[int]:
        return list(await asyncio.gather(*(pool.submit(WORK) for _ in range(5))))

    clusters = together([lambda: asyncio.run(submit()), lambda: asyncio.run(submit())])
    assert sorted(clusters[0] + clusters[1]) == list(range(1, 11))

    async def close() -> None:
        closing = asyncio.create_task(pool.close())
        late = asyncio.create_task(pool.jobs())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        with pytest.raises(LogClosed):
            await late
        await pool.close()
        async with AsyncLog.open(place.url) as log:
            assert len(await log.jobs()) == 10

    if place.kind != "memory":
        asyncio.run(close())
        opened(place, wait=5).close()
