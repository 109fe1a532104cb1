"""`Pool`, `Log` and `Client` for asyncio: ``from poolbook import AsyncPool, AsyncLog, AsyncClient``.

Each method is a coroutine with the name and arguments of the original; an iterator becomes an asynchronous iterator.
Each pool, log or client has its own thread, which makes its calls in order, so none of them blocks the event loop.
Tasks of several event loops may share one. A call that is cancelled before it starts is not made; a call that has
started completes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from functools import wraps
from itertools import islice
from threading import Event as Signal
from threading import Thread
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ...domain.events import Event
from ...domain.ports.log import LogClosed
from .client import Client
from .embedded_pool import Pool
from .log_base import GrowingLog, JobId, LogReader
from .pool_commands import PoolCommands
from .read_only_log import Log

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T", Pool, Log, Client)
G = TypeVar("G", Log, Client)
A = TypeVar("A", bound="_InThread[Any]")

_AT_ONCE = 500  #: events to fetch from the thread at a time


def _coroutine(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def call(self: _InThread[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        # The class of the pool or log may override a method of its base.
        own: Callable[..., R] = getattr(type(self._thing), method.__name__)
        return await self._call(own, *args, **kwargs)

    return call


def _iterator(method: Callable[Concatenate[S, P], Iterator[R]]) -> Callable[Concatenate[Any, P], AsyncIterator[R]]:
    @wraps(method)
    async def call(self: _InThread[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        own: Callable[..., Iterator[R]] = getattr(type(self._thing), method.__name__)
        items = await self._call(own, *args, **kwargs)
        while part := await self._call(lambda _: list(islice(items, _AT_ONCE))):
            for item in part:
                yield item

    return call


def _stream(method: Callable[Concatenate[S, P], Iterator[R]]) -> Callable[Concatenate[Any, P], AsyncIterator[R]]:
    """Return the method as an asynchronous iterator that waits in a separate thread, so that other calls can run."""

    @wraps(method)
    async def call(self: _InThread[Any], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        def start(closed: Signal) -> Iterator[R]:
            own: Callable[..., Iterator[R]] = getattr(self._thing, method.__name__)
            return own(*args, **{**kwargs, "stop": kwargs.get("stop") or closed})

        async with aclosing(self._stream(start)) as items:
            async for item in items:
                yield item

    return call


class Opening(Generic[A]):
    """A pool or log that is being opened: ``await`` it, or use it in ``async with``."""

    def __init__(self, owner: type[A], opened: Callable[[], Any]) -> None:
        self._owner, self._opened = owner, opened

    def __await__(self) -> Generator[Any, None, A]:
        return self._open().__await__()

    async def _open(self) -> A:
        thread = ThreadPoolExecutor(1, "poolbook")
        opened = thread.submit(self._opened)
        try:
            return self._owner(await asyncio.wrap_future(opened), thread)
        except BaseException:  # cancelled: the thread may still open it, so close it again
            thread.submit(lambda: opened.result().close())
            thread.shutdown(wait=False)
            raise

    async def __aenter__(self) -> A:
        self._entered = await self
        return self._entered

    async def __aexit__(self, *_: object) -> None:
        await self._entered.close()


class _Opens(Generic[P]):
    """A class method that opens a pool or log, with the arguments of the original."""

    def __init__(self, method: Callable[P, Any]) -> None:
        self._method = method

    def __get__(self, instance: object, owner: type[A]) -> Callable[P, Opening[A]]:
        @wraps(self._method)
        def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[A]:
            return Opening(owner, lambda: self._method(*args, **kwargs))

        return opening


class _InThread(Generic[T]):
    """The common base: a pool or log with its own thread."""

    def __init__(self, thing: T, thread: ThreadPoolExecutor) -> None:
        self._thing: T = thing
        self._thread = thread
        self._closing: Future[None] | None = None

    async def _call(self, method: Callable[Concatenate[T, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._thing._calls.is_inherited:  # a forked process has no such thread: the method rejects the call
            return method(self._thing, *args, **kwargs)
        if self._closing is not None:
            raise LogClosed(f"it was closed: `{type(self).__name__}.open` opens its log again")
        return await asyncio.wrap_future(self._thread.submit(method, self._thing, *args, **kwargs))

    jobs = _coroutine(LogReader.jobs)
    slots = _coroutine(LogReader.slots)
    history = _coroutine(LogReader.history)
    events = _iterator(LogReader.events)

    async def id(self) -> str:
        """Return the log's id."""
        return await self._call(lambda thing: thing.id)

    async def close(self) -> None:
        """Close the pool or log after all earlier calls; later calls fail. A cancelled `close` still closes it."""
        if self._thing._calls.is_inherited:
            return
        if self._closing is None:
            self._closing = self._thread.submit(self._thing.close)
            self._thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(self._closing))

    async def _stream(self, start: Callable[[Signal], Iterator[R]]) -> AsyncGenerator[R]:
        """Yield the items of an iterator that waits for them, from a separate thread. The signal ends the iterator."""
        loop, arrived, closed = asyncio.get_running_loop(), asyncio.Queue[tuple[R] | BaseException | None](), Signal()

        def send(item: tuple[R] | BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(arrived.put_nowait, item)

        def read() -> None:
            try:
                for item in start(closed):
                    if closed.is_set():
                        return
                    send((item,))
                send(None)
            except BaseException as error:
                send(error)

        Thread(target=read, name="poolbook", daemon=True).start()
        try:
            while (item := await arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item[0]
        finally:
            closed.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _AsyncGrowingLog(_InThread[G]):
    """The methods that `Log` and `Client` have in common."""

    async def position(self) -> int:
        """Return the position of the last event."""
        return await self._call(lambda log: log.position)

    follow = _stream(GrowingLog.follow)


class _AsyncCommands(_InThread[T]):
    """The methods that `Pool` and `Client` have in common."""

    submit = _coroutine(PoolCommands.submit)
    usage = _coroutine(PoolCommands.usage)
    submitters = _coroutine(PoolCommands.submitters)
    hold = _coroutine(PoolCommands.hold)
    release = _coroutine(PoolCommands.release)
    remove = _coroutine(PoolCommands.remove)
    vacate = _coroutine(PoolCommands.vacate)
    suspend = _coroutine(PoolCommands.suspend)
    resume = _coroutine(PoolCommands.resume)
    run_now = _coroutine(PoolCommands.run_now)
    edit = _coroutine(PoolCommands.edit)
    prio = _coroutine(PoolCommands.prio)
    vacate_slot = _coroutine(PoolCommands.vacate_slot)
    suspend_slot = _coroutine(PoolCommands.suspend_slot)
    resume_slot = _coroutine(PoolCommands.resume_slot)
    drain = _coroutine(PoolCommands.drain)
    cancel_drain = _coroutine(PoolCommands.cancel_drain)
    shut_down = _coroutine(PoolCommands.shut_down)
    set_priority = _coroutine(PoolCommands.set_priority)
    set_priority_factor = _coroutine(PoolCommands.set_priority_factor)
    set_floor = _coroutine(PoolCommands.set_floor)
    set_ceiling = _coroutine(PoolCommands.set_ceiling)
    end_lease = _coroutine(PoolCommands.end_lease)
    set_usage = _coroutine(PoolCommands.set_usage)
    reset_usage = _coroutine(PoolCommands.reset_usage)
    delete_submitter = _coroutine(PoolCommands.delete_submitter)


class AsyncPool(_AsyncCommands[Pool]):
    """A `Pool` for asyncio. `advance` and `run` do not block other coroutines, but other calls of the same pool wait
    for them: in real time, call ``run(limit=1)`` repeatedly to let other calls run.

    >>> async def count_jobs():
    ...     async with AsyncPool.open(user="alice") as pool:
    ...         await pool.submit({"executable": "/bin/work"}, count=2)
    ...         return len(await pool.jobs())
    >>> asyncio.run(count_jobs())
    2
    """

    open = _Opens(Pool.open)

    advance = _coroutine(Pool.advance)
    run = _coroutine(Pool.run)
    negotiate = _coroutine(Pool.negotiate)

    async def now(self) -> float:
        """Return the pool's time, in seconds since the epoch."""
        return await self._call(lambda pool: pool.now)

    why = _coroutine(Pool.why)
    judge = _coroutine(Pool.judge)

    async def subscribe(self, subscriber: Callable[[int, Event], None]) -> None:
        """Call `subscriber`, in the event loop, with every later event and its position, once it is in the log."""
        loop = asyncio.get_running_loop()

        def tell(position: int, event: Event) -> None:
            with suppress(RuntimeError):  # the loop was closed: skip its subscriber, and still call the others
                loop.call_soon_threadsafe(subscriber, position, event)

        await self._call(Pool.subscribe, tell)

    configure = _coroutine(Pool.configure)
    add_machine = _coroutine(Pool.add_machine)
    remove_machine = _coroutine(Pool.remove_machine)
    reconfigure = _coroutine(Pool.reconfigure)
    read = _coroutine(Pool.read)


class AsyncLog(_AsyncGrowingLog[Log]):
    """A `Log` for asyncio.

    >>> async def print_exits():
    ...     async with AsyncLog.open("pool.db") as log:
    ...         async for position, event in log.events():
    ...             if isinstance(event, events.JobExited):
    ...                 print(position, event.code)
    """

    open = _Opens(Log.open)

    async def imported(self) -> bool:
        """Return True if the log was imported from an HTCondor pool's records; False: Poolbook wrote it."""
        return await self._call(lambda log: log.imported)

    diff = _coroutine(Log.diff)
    submitters = _coroutine(Log.submitters)
    usage = _coroutine(Log.usage)
    why = _coroutine(Log.why)
    verify = _coroutine(Log.verify)
    audit = _coroutine(Log.audit)
    map_segments = _coroutine(Log.map_segments)


class AsyncClient(_AsyncCommands[Client], _AsyncGrowingLog[Client]):
    """A `Client` for asyncio.

    >>> async def run_job():
    ...     async with AsyncClient("pool.db") as client:
    ...         await client.submit({"executable": "/bin/work"})
    ...         return len(await client.jobs())
    >>> asyncio.run(run_job())
    1
    """

    def __init__(self, url: str | os.PathLike[str], *, token: str = "", ca: str | os.PathLike[str] = "") -> None:
        super().__init__(Client(url, token=token, ca=ca), ThreadPoolExecutor(1, "poolbook"))

    negotiate = _coroutine(Client.negotiate)

    why = _coroutine(Client.why)
    output = _coroutine(Client.output)

    async def wait(
        self, *jobs: JobId, constraint: str = "", timeout: float | None = None, stop: Signal | None = None
    ) -> bool:
        """Wait until the queue contains none of these jobs, like `Client.wait`. Other calls run meanwhile."""

        def start(closed: Signal) -> Iterator[bool]:
            yield self._thing.wait(*jobs, constraint=constraint, timeout=timeout, stop=stop or closed)

        async with aclosing(self._stream(start)) as answers:
            return await anext(answers)
