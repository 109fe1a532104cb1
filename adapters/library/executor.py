"""An executor whose calls are jobs: ``from poolbook import Executor``."""

from __future__ import annotations

import concurrent.futures as futures
import copy
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures._base import CANCELLED, PENDING, RUNNING
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from multiprocessing import spawn
from pathlib import Path
from threading import Condition, RLock, Thread
from threading import Event as Signal
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

from ...domain.decide import Refusal
from ...domain.errors import PoolbookError
from ...domain.events import Event
from ...domain.submit.submission import value_text
from ...replay.narration.sentences import UnknownThingError
from ...replay.virtual_world import VirtualWorld
from . import executor_worker
from .client import Client
from .embedded_pool import Pool
from .executor_worker import call_each
from .job_changes import EXECUTING, JobChange, job_changes

P = ParamSpec("P")
T = TypeVar("T")

_OWN_COMMANDS: Final = frozenset(
    {"executable", "arguments", "args", "error", "stderr", "initialdir", "initial_dir", "job_iwd", "queue"}
)
_SETTLE_S: Final = 0.01  #: calls that arrive within this time after another one are submitted together ...
_MAX_SETTLE_S: Final = 0.2  #: ... up to this delay
_INTERVAL_S: Final = 0.05  #: the largest delay of an event
_STDERR_BYTES: Final = 2000


class JobFailed(PoolbookError):
    """The job of a call ended without a result: it failed, was held or was removed.

    >>> future = executor.submit(os._exit, 3)
    >>> try:
    ...     result = future.result()
    ... except JobFailed as error:
    ...     print(error.job, error.reason)
    1.0 ended with code 3

    ``job`` is the job's id, ``reason`` says what happened, and ``stderr`` is the end of its standard error.
    """

    def __init__(self, job: str, reason: str, stderr: str = "") -> None:
        text = f"job {job} {reason}"
        super().__init__(f"{text}; its stderr ends with:\n{stderr}" if stderr else text)
        self.job, self.reason, self.stderr = job, reason, stderr

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, str, str]]:
        return JobFailed, (self.job, self.reason, self.stderr)


class Executor(futures.Executor):
    """A `concurrent.futures.Executor` that runs each call as a job of a pool.

    >>> with Executor(pool, request_memory="100 MB") as executor:
    ...     power = executor.submit(pow, 2, 10)
    ...     large = executor.options(request_cpus=2).submit(pow, 2, 20)
    ...     print(power.result(), large.result(), sum(executor.map(abs, range(-100, 0), chunksize=50)))
    1024 1048576 5050

    A future runs as soon as its job starts. It has the call's result or exception, or a `JobFailed` if the job failed,
    was held or was removed. ``future.cancel()`` removes the job, also while it runs. Calls that arrive together are
    jobs of one cluster.

    The jobs use the interpreter, import path and working directory of this process. Functions and results are pickled:
    with cloudpickle if it is installed, which also accepts lambdas and functions of notebooks.

    :param pool: a `Client`, the URL of a client, or a `Pool` that was opened with ``execute=True``, whose time this
        executor lets pass
    :param folder: the directory for the calls and results, which the pool's access point must be able to read and
        write; by default a temporary directory, removed at the end
    :param commands: submit commands for the jobs, such as ``request_memory="2 GB"``
    """

    def __init__(
        self, pool: Client | Pool | str | os.PathLike[str], *, folder: str | Path | None = None, **commands: object
    ) -> None:
        """
        :raises LogError: there is no such pool
        :raises Refusal: the pool's time is virtual, so it runs no processes
        :raises ValueError: a command is one that the executor sets
        """
        self._commands = _checked(commands)
        self._work = _Work(pool, folder)

    def options(self, **commands: object) -> Executor:
        """Return this executor with further submit commands for the calls that are made with the result.

        >>> executor.options(request_cpus=2).submit(pow, 2, 20).result()
        1048576

        :raises ValueError: a command is one that the executor sets
        """
        other = copy.copy(self)
        other._commands = {**self._commands, **_checked(commands)}
        return other

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Call a function in a job, and return the future of its result.

        >>> executor.submit(pow, 2, 10).result()
        1024

        :raises RuntimeError: the executor was shut down
        :raises pickle.PicklingError: the function or an argument cannot be pickled
        """
        call: _Call[T] = _Call(self._work, self._commands, _pickled(fn, args, kwargs))
        self._work.add([call])
        return call

    def map(
        self, fn: Callable[..., T], /, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Call a function for each item of `iterables`, like the built-in ``map``, and yield the results in order.

        >>> list(executor.map(pow, range(5), [2] * 5))
        [0, 1, 4, 9, 16]

        :param timeout: the number of seconds from this call on, after which waiting for a result raises `TimeoutError`
        :param chunksize: the number of calls in a job
        :raises ValueError: `chunksize` is less than 1
        """
        if chunksize < 1:
            raise ValueError(f"chunksize = {chunksize!r}: a job makes at least one call")
        items = zip(*iterables, strict=False)
        chunks = iter(lambda: list(islice(items, chunksize)), [])
        calls: list[_Call[list[T]]] = [
            _Call(self._work, self._commands, _pickled(call_each, (fn, chunk), {})) for chunk in chunks
        ]
        self._work.add(calls)
        return chain.from_iterable(_results(calls, None if timeout is None else time.monotonic() + timeout))

    def job(self, future: futures.Future[Any]) -> str | None:
        """Return the id of the job that makes a call, or None if it was not submitted yet.

        >>> future = executor.submit(pow, 2, 10)
        >>> future.result(), executor.job(future)
        (1024, '...')
        """
        return future.job if isinstance(future, _Call) else None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and release the resources when all calls have ended. The executors that `options`
        returned are shut down, too.

        :param wait: return when all calls have ended
        :param cancel_futures: cancel the calls whose jobs have not started
        """
        self._work.shut_down(cancel_futures)
        if wait:
            self._work.join()


class _Call(futures.Future[T]):
    """The future of a call."""

    def __init__(self, work: _Work, commands: Mapping[str, str], pickled: bytes) -> None:
        super().__init__()
        self.work, self.commands, self.pickled = work, commands, pickled
        self.name = ""  #: of its files
        self.job: str | None = None

    def cancel(self) -> bool:
        """Cancel the call, and remove its job. Return False if it has ended."""
        with self._condition:
            if self._state == RUNNING:  # the base class cancels no running calls
                self._state = PENDING
        if not super().cancel():
            return False
        with self.work.lock:
            if self._state == CANCELLED:
                self.set_running_or_notify_cancel()  # wakes callers of `futures.wait`
            is_in_progress = self.work.forget(self)
        if is_in_progress and self.job is not None:
            self.work.remove(self.job)
        return True


class _Work:
    """The calls of an executor in progress, and the threads that submit them and follow their jobs."""

    def __init__(self, pool: Client | Pool | str | os.PathLike[str], folder: str | Path | None) -> None:
        if isinstance(pool, Pool) and isinstance(pool._engine.world, VirtualWorld):
            raise Refusal("the pool's time is virtual, so it runs no processes; open it with execute=True")
        self._pool = pool if isinstance(pool, Client | Pool) else Client(pool)
        self._owned = [self._pool] if self._pool is not pool else []
        self._own_folder = folder is None
        self._folder = Path(tempfile.mkdtemp(prefix="poolbook-") if folder is None else folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(executor_worker.__file__, self._folder / "worker.py")
        self.lock = RLock()
        self._arrived = Condition(self.lock)
        self._waiting: list[_Call[Any]] = []
        self._running: dict[str | None, _Call[Any]] = {}
        self._count = 0
        self._is_shut_down = False
        self._stop = Signal()
        self._events = _pool_events(self._pool, self._stop)
        self._threads = [
            Thread(target=partial(self._guarded, target), name="poolbook-executor", daemon=True)
            for target in (self._submit_calls, self._follow_jobs)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, calls: Sequence[_Call[Any]]) -> None:
        with self.lock:
            if self._is_shut_down:
                raise RuntimeError("the executor was shut down, and accepts no more calls")
            for call in calls:
                self._count += 1
                call.name = f"{os.getpid()}-{self._count}"
            self._waiting += calls
            self._arrived.notify()

    def shut_down(self, cancel_futures: bool) -> None:
        with self.lock:
            self._is_shut_down = True
            calls = [*self._waiting, *self._running.values()] if cancel_futures else []
            self._arrived.notify()
            self._end_if_done()
        for call in calls:
            if not call.running():
                call.cancel()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def remove(self, job: str) -> None:
        with suppress(UnknownThingError):  # it has ended meanwhile
            self._pool.remove(job)

    def forget(self, call: _Call[Any]) -> bool:
        """Forget a call, and delete its files; return False if it is not in progress."""
        with self.lock:
            for suffix in ("call", "result", "err"):
                (self._folder / f"{call.name}.{suffix}").unlink(missing_ok=True)
            is_in_progress = self._running.pop(call.job, None) is not None
            self._end_if_done()
        return is_in_progress

    def _end_if_done(self) -> None:
        if self._is_shut_down and not (self._waiting or self._running) and not self._stop.is_set():
            self._stop.set()
            self._arrived.notify()
            if self._own_folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _guarded(self, target: Callable[[], None]) -> None:
        """Run a thread. If it fails, so do all calls."""
        try:
            target()
        except Exception as error:
            with self.lock:
                self._is_shut_down = True
                calls, self._waiting = [*self._waiting, *self._running.values()], []
                self._running.clear()
                self._end_if_done()
            for call in calls:
                _end(call, partial(call.set_exception, error))

    def _submit_calls(self) -> None:
        while calls := self._arrived_calls():
            by_commands: dict[tuple[tuple[str, str], ...], list[_Call[Any]]] = {}
            for call in calls:
                by_commands.setdefault(tuple(call.commands.items()), []).append(call)
            for commands, group in by_commands.items():
                with self.lock:
                    self._submit(dict(commands), [call for call in group if not call.cancelled()])

    def _arrived_calls(self) -> list[_Call[Any]]:
        """Wait for calls, and return them together with any that follow immediately. Return an empty list at the
        end."""
        with self.lock:
            self._arrived.wait_for(lambda: self._waiting or self._stop.is_set())
            count, until = 0, time.monotonic() + _MAX_SETTLE_S
            while count < len(self._waiting) and time.monotonic() < until:
                count = len(self._waiting)
                self._arrived.wait(_SETTLE_S)
            return list(self._waiting)

    def _submit(self, commands: Mapping[str, str], calls: Sequence[_Call[Any]]) -> None:
        """Submit calls as the jobs of a cluster."""
        try:
            for call in calls:
                (self._folder / f"{call.name}.call").write_bytes(call.pickled)
            cluster = self._pool.submit(_description(commands, calls), folder=self._folder) if calls else 0
        except Exception as error:
            for call in calls:
                _end(call, partial(call.set_exception, error))
        else:
            for proc, call in enumerate(calls):
                call.job, call.pickled = f"{cluster}.{proc}", b""
                self._running[call.job] = call
        handled = set(calls)
        self._waiting = [call for call in self._waiting if call not in handled and not call.cancelled()]
        self._end_if_done()

    def _follow_jobs(self) -> None:
        for _, event in self._events:
            for change in job_changes(event):
                for proc in range(change.first, change.last + 1):
                    with self.lock:
                        call = self._running.get(f"{change.cluster}.{proc}")
                    if call is not None:
                        self._change(call, change)
        for pool in self._owned:
            pool.close()

    def _change(self, call: _Call[Any], change: JobChange) -> None:
        """Change the state of a call as its job has changed."""
        if change.status == EXECUTING:
            with self.lock:
                if call._state == PENDING:  # otherwise it was cancelled, or its job runs again after an eviction
                    call.set_running_or_notify_cancel()
            return
        if change.status not in ("Completed", "Held", "Removed"):
            return
        assert call.job is not None
        end = self._result(call) if change.status == "Completed" else None
        if end is None:
            path = self._folder / f"{call.name}.err"
            stderr = path.read_bytes()[-_STDERR_BYTES:].decode(errors="replace") if path.exists() else ""
            end = partial(call.set_exception, JobFailed(call.job, change.text(), stderr))
        if change.status == "Held":
            self.remove(call.job)
        _end(call, end)
        self.forget(call)

    def _result(self, call: _Call[Any]) -> Callable[[], None] | None:
        """Return a function that sets the result or exception of a call, or None if its job has written none."""
        try:
            succeeded, value = pickle.loads((self._folder / f"{call.name}.result").read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # such as a class that this process cannot import
            return partial(call.set_exception, error)
        return partial(call.set_result if succeeded else call.set_exception, value)


def _end(call: _Call[Any], end: Callable[[], None]) -> None:
    with suppress(futures.InvalidStateError):  # it was cancelled meanwhile
        end()


def _pool_events(pool: Client | Pool, stop: Signal) -> Iterator[tuple[int, Event]]:
    """Return an iterator over the pool's new events from this call on. It lets the time of a `Pool` pass."""
    if isinstance(pool, Client):
        return pool.follow(pool.position, interval=_INTERVAL_S, stop=stop)
    arrived: deque[tuple[int, Event]] = deque()
    pool.subscribe(lambda position, event: arrived.append((position, event)))

    def events() -> Iterator[tuple[int, Event]]:
        while not stop.is_set():
            pool.advance(_INTERVAL_S)
            while arrived:
                yield arrived.popleft()

    return events()


def _checked(commands: Mapping[str, object]) -> dict[str, str]:
    """Return submit commands as text. Raise `ValueError` if the executor itself sets one of them."""
    for name in commands:
        if name.lower() in _OWN_COMMANDS:
            raise ValueError(f"{name}: the executor sets this command itself; use others, such as request_memory")
    return {name: value_text(name, value) for name, value in commands.items()}


def _description(commands: Mapping[str, str], calls: Sequence[_Call[Any]]) -> str:
    lines = {
        "executable": sys.executable,
        "transfer_executable": "false",
        "arguments": "-P worker.py $(call)",
        "error": "$(call).err",
        **commands,
        "transfer_input_files": ", ".join(["worker.py", "$(call).call", *_input_files(commands)]),
    }
    settings = [f"{name} = {value}" for name, value in lines.items()]
    return "\n".join([*settings, "queue call from (", *(call.name for call in calls), ")\n"])


def _input_files(commands: Mapping[str, str]) -> Iterator[str]:
    """Yield the further input files that the user names."""
    for name, value in commands.items():
        if name.lower() in ("transfer_input_files", "transferinputfiles"):
            yield value


def _pickler() -> ModuleType:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        return pickle
    return cloudpickle  # type: ignore[no-any-return]


def _pickled(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> bytes:
    """Return the content of a call's file: the process that calls, and the function with its arguments."""
    pickler = _pickler()
    caller = spawn.get_preparation_data("poolbook")
    del caller["authkey"]
    if pickler is not pickle:  # which also pickles the functions of the main module
        caller = {name: value for name, value in caller.items() if not name.startswith("init_main")}
    return pickle.dumps(caller) + pickle.dumps(pickler.dumps((function, arguments, options)))


def _results(calls: Sequence[_Call[list[T]]], end: float | None) -> Iterator[list[T]]:
    """Yield the results of calls in order. Cancel the rest if one fails, or at the end."""
    try:
        for call in calls:
            yield call.result(None if end is None else end - time.monotonic())
    finally:
        for call in calls:
            call.cancel()
