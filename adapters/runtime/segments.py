"""Replay a log in parallel: it is divided into segments, and Dask's workers process each from the state at its start.

The segments depend only on the log, so that the result does not depend on the number of workers. Each segment begins
with a stimulus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar

from ...domain.errors import PoolbookError
from ...domain.events import CycleHeld, LoggedEvent
from ...domain.fold.evolve import fold
from ...domain.ports.log import EventStore
from ...domain.state.state import State
from ...replay.recheck_cycles import LastCycle, RecheckedCycles, recheck
from ..stores.opening import open_log
from .pickled_state import pickle_state, unpickle_state

SEGMENT_EVENTS = 50_000  #: the minimum number of events in a segment, except for the last one
CONNECT_SECONDS = 30  #: how long a scheduler may take to answer
_IN_FLIGHT = 16  #: how many segments, with their states, may wait for workers

R = TypeVar("R")
OfSegment = Callable[[State, Iterator[LoggedEvent]], R]
"""A function of a segment: it gets the state before the segment, which it may change, and the segment's events."""


class ParallelReplayError(PoolbookError):
    """Workers cannot be used: Dask is not installed, or its scheduler does not answer.

    >>> try:
    ...     verification = log.verify(decisions=True, workers=1)
    ... except ParallelReplayError:
    ...     verification = log.verify(decisions=True)
    """


class Workers(NamedTuple):
    """The processes for a parallel replay: a number of processes on this machine, or the address of the scheduler of a
    Dask cluster. Its workers must be able to read the log at its URL."""

    processes: int = 0
    scheduler: str = ""


class Segment(NamedTuple):
    """A part of the log at `url`: the events from the one after `after` to `last`."""

    url: str
    after: int
    last: int
    state: bytes  #: the state after the event at `after`, pickled
    last_cycle: tuple[int | None, int | None]  #: the offset and rules of the last cycle before it (`LastCycle`)


@contextmanager
def executor_of(workers: Workers) -> Iterator[Executor]:
    """Start the workers, or connect to them. Raise `ParallelReplayError` if that fails."""
    if all(workers):
        raise ParallelReplayError("give either a number of workers or the address of a scheduler, which has its own")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ParallelReplayError(
            "a replay with several workers needs Dask, which is not installed: pip install 'poolbook[dask]'"
        ) from None
    with ExitStack() as stack:
        try:
            cluster = workers.scheduler or stack.enter_context(
                LocalCluster(n_workers=workers.processes, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            )
            client = stack.enter_context(Client(cluster, timeout=CONNECT_SECONDS))
        except Exception as error:  # another kind of server can answer anything
            whose = (
                f"the Dask scheduler {workers.scheduler} does not answer" if workers.scheduler else "no worker starts"
            )
            raise ParallelReplayError(
                f"{whose}: {error}; check the address, or verify the log without workers, with the same result"
            ) from None
        yield client.get_executor(pure=False)


def segments_of(log: EventStore, url: str) -> Iterator[Segment]:
    """Divide a pool's own log into segments, folding it once. If an event cannot be folded, as in an altered log, the
    last segment begins before it."""
    state, last_cycle, stimulus = State(), LastCycle(), ""
    after, content, cycle = 0, pickle_state(state), (last_cycle.offset, last_cycle.rules)
    for position, event in log.read():
        if position > after + SEGMENT_EVENTS and event.stimulus != stimulus:
            yield Segment(url, after, position - 1, content, cycle)
            after, content, cycle = position - 1, pickle_state(state), (last_cycle.offset, last_cycle.rules)
        if isinstance(event, CycleHeld) and event.stimulus != stimulus:
            last_cycle.note(event)
        stimulus = event.stimulus
        try:
            fold(((position, event),), state)
        except Exception:  # an edited log can say anything
            break
    yield Segment(url, after, log.head.position, content, cycle)


def run_segment(segment: Segment, function: OfSegment[R]) -> R:
    """Return the function's value for a segment."""
    state = unpickle_state(segment.state)
    assert isinstance(state, State)
    with closing(open_log(segment.url, create=False, read_only=True, checked=False)) as log:
        return function(state, log.read(segment.after, segment.last - segment.after))


def map_segments(
    segments: Iterable[Segment], work: Callable[[Segment], R], executor: Executor | None
) -> Iterator[tuple[Segment, R]]:
    """Yield each segment with the value of `work`, in order. Without an executor, the work is done here."""
    waiting = deque[tuple[Segment, Future[R]]]()
    for segment in segments:
        if executor is None:
            yield segment, work(segment)
            continue
        waiting.append((segment, executor.submit(work, segment)))
        if len(waiting) >= _IN_FLIGHT:
            done, future = waiting.popleft()
            yield done, future.result()
    for segment, future in waiting:
        yield segment, future.result()


def map_log(log: EventStore, url: str, function: OfSegment[R], workers: Workers) -> list[R]:
    """Return the function's value for each segment of a log, in order."""
    with executor_of(workers) if any(workers) else nullcontext() as executor:
        work = partial(run_segment, function=function)
        return [value for _, value in map_segments(segments_of(log, url), work, executor)]


def _recheck_segment(segment: Segment) -> tuple[RecheckedCycles, bool]:
    last_cycle = LastCycle(*segment.last_cycle)
    result = run_segment(segment, lambda state, events: recheck(events, None, state, last_cycle))
    return result, last_cycle.corrected


def recheck_in_parallel(
    log: EventStore, url: str, executor: Executor, tell: Callable[[int, int], None] | None = None
) -> RecheckedCycles:
    """Repeat each cycle of a log as `recheck` does, with the same result. After a cycle that differs, later segments
    depend on its correction, so the rest of the log is repeated here, from the segment with that cycle on."""
    result = RecheckedCycles()
    for segment, (part, corrected) in map_segments(segments_of(log, url), _recheck_segment, executor):
        if corrected:
            part, _ = _recheck_segment(segment._replace(last=log.head.position))
        result.add(part)
        if tell is not None:
            tell(segment.last, result.taken)
        if corrected or result.stopped:
            break
    return result
