"""Property and golden: the asyncio interfaces match `Pool` and `Log`, and behave the same."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, assert_type

import pytest

from poolbook import (
    AsyncClient,
    AsyncLog,
    AsyncPool,
    Behaviour,
    Client,
    Log,
    LogClosed,
    LogError,
    Pool,
    Refusal,
    Verification,
)
from poolbook.events import Event, JobExited, PoolFounded

NOT_ASYNCHRONOUS = {"state"}
"""What cannot be asked from another thread: it changes while it is looked at."""


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "async_kind"), [(Pool, AsyncPool), (Log, AsyncLog), (Client, AsyncClient)])
def test_every_method_has_a_coroutine_with_the_same_arguments_and_a_docstring(kind: type, async_kind: type) -> None:
    assert set(public(kind)) - NOT_ASYNCHRONOUS == set(public(async_kind))
    for name, member in public(async_kind).items():
        method, other = getattr(kind, name), getattr(async_kind, name)
        if isinstance(public(kind)[name], property):
            assert inspect.iscoroutinefunction(member) and list(inspect.signature(member).parameters) == ["self"]
            continue
        assert inspect.signature(method).parameters == inspect.signature(other).parameters, name
        assert inspect.getdoc(other), name
        if name != "open":
            yields = inspect.isgeneratorfunction(method) or "Iterator" in str(
                inspect.signature(method).return_annotation
            )
            assert inspect.isasyncgenfunction(member) if yields else inspect.iscoroutinefunction(member), name


def test_a_pool_and_its_log_work_while_other_coroutines_run(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")
    threads: set[int] = set()

    def behave(launch: object) -> Behaviour:
        threads.add(threading.get_ident())
        return Behaviour(60)

    async def story() -> None:
        thread_ids: list[int] = []
        async with AsyncPool.open(url, user="alice", behave=behave) as pool, AsyncLog.open(url) as log:
            await pool.subscribe(
                lambda position, event: (
                    thread_ids.append(threading.get_ident()) if isinstance(event, JobExited) else None
                )
            )
            await pool.add_machine("node1", cpus=4)
            cluster = assert_type(await pool.submit({"executable": "/bin/work"}, count=4), int)
            assert cluster == 1 and len(await pool.jobs("JobStatus == 2")) == 4
            assert await asyncio.gather(pool.run(), log.jobs("JobStatus == 5")) == [True, []]
            assert len(await pool.history()) == 4 and await pool.now() == 1_800_000_060
            events = assert_type([entry async for entry in pool.events()], list[tuple[int, Event]])
            assert isinstance(events[0][1], PoolFounded) and len(events) == await log.position()
            assert events == [entry async for entry in log.events()]
            assert assert_type(await log.id(), str) == await pool.id() != ""
            assert not await log.imported() and assert_type(await log.verify(), Verification).sound
            with pytest.raises(Refusal, match="node1 is already in the pool"):
                await pool.add_machine("node1")
        assert thread_ids == [threading.get_ident()] * 4
        assert threads.isdisjoint(thread_ids) and len(threads) == 1
        for closed in (pool.jobs(), log.jobs()):
            with pytest.raises(LogClosed):
                await closed

    run(story)


def test_followed_logs_yield_new_events_as_they_arrive(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")

    async def ends(following: AsyncIterator[tuple[int, Event]], count: int) -> list[int]:
        positions = []
        async for position, event in following:
            positions += [position] * isinstance(event, JobExited)
            if len(positions) == count:
                break
        return positions

    async def story() -> None:
        pool = await AsyncPool.open(url, user="alice", behave=lambda launch: Behaviour(60))
        await pool.add_machine("node1")
        async with AsyncLog.open(url) as log:
            task = asyncio.create_task(ends(log.follow(0, interval=0.01, timeout=60), 2))
            await pool.submit({"executable": "/bin/work"}, count=2)
            assert (await log.jobs())[0]["ProcId"] == 0, "the log answers while it is followed"
            await pool.run()
            assert len(set(await task)) == 2
            assert await ends(log.follow(timeout=0), 1) == []
            stop = threading.Event()
            stop.set()
            assert len(await ends(log.follow(0, stop=stop), 3)) == 2
        await pool.close()
        await pool.close()

    run(story)


def test_real_jobs_run_under_asyncio(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncPool.open(tmp_path / "pool.db", execute=True) as pool:
            await pool.add_machine("here", cpus=1, memory=512)
            text = "executable = /bin/true\nrequest_memory = 32\nrequest_disk = 1 MB\nqueue 2\n"
            await pool.submit(text, folder=tmp_path)
            assert await pool.run(limit=30)
            assert len(await pool.history("ExitCode == 0")) == 2

    run(story)


def test_a_refused_or_cancelled_open_leaves_nothing_behind(tmp_path: Path) -> None:
    url = str(tmp_path / "pool.db")

    async def story() -> None:
        with pytest.raises(LogError, match="there is no log"):
            await AsyncLog.open(url)
        opening = asyncio.create_task(AsyncPool.open(url, execute=True).__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    run(story)
    for thread in threading.enumerate():
        if thread.name.startswith("poolbook"):
            thread.join(60)
    Pool.open(url, execute=True).close()
