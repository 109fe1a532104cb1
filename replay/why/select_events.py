"""Select the events that an answer needs: a few streams for a job, and the events since a slot's last claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby, islice, takewhile
from typing import Final, NamedTuple

from ...domain import events as e
from ...domain.names import JobId
from ...domain.ports.log import EventStore
from ...domain.state.job_procs import job_procs
from ...domain.state_machines import LEFT
from ..narration.formatting import EVER
from .slot import SLOT_KINDS, concerns_slot, is_defect, may_explain

_OF_ADS = (e.ClusterSubmitted, e.JobsEdited)
_WITHOUT_TRANSITIONS = [
    kind for kind in e.TOPICS.values() if issubclass(kind, e.SlotEvent) and kind is not e.SlotTransitioned
]
_OF_POOL = ("pool", "daemons")
_OF_DECISIONS = ("negotiator", "requests", "evidence", "defrag")
_APART = 500  #: events between the first and the last event of a decision, at most
_ANSWER = 10_000  #: events between an event and the answer to the request that caused it, at most


def job_events(log: EventStore, cluster: int, proc: int | None = None) -> list[e.LoggedEvent]:
    """Return the events that ``why_job`` needs for a job, or for any job of a cluster, in order, except events of the
    next cycle, which depends on the whole log."""
    events = {pair[0]: pair[1] for pair in log.read_stream(f"cluster/{cluster}") if _concerns(pair[1], proc)}
    first, last = _life_of(events, proc)
    slots = {
        event.slot for event in events.values() if isinstance(event, e.JobActivated) and proc in (None, event.proc)
    }
    for stream in _OF_POOL:
        events.update(log.read_stream(stream))
    for stream in _OF_DECISIONS:
        since_first = log.read_stream(stream, max(first - _APART, 0))
        events.update(takewhile(lambda pair: pair[0] <= last + _ANSWER, since_first))
    cycles = [event for event in events.values() if isinstance(event, e.CycleHeld)]
    for other in {JobId.parse(reason.job).cluster for cycle in cycles for reason in cycle.unmatched} - {cluster}:
        # A rejection names the first job of an autocluster, which can be another cluster's.
        events.update(log.read_back(f"cluster/{other}", kinds=_OF_ADS))
    jobs = [(match.slot, JobId.parse(match.job)) for cycle in cycles for match in cycle.matches]
    slots |= {slot for slot, job in jobs if job.cluster == cluster and proc in (None, job.proc)}
    for slot in slots:
        # A slot can run many other jobs before and after; of these, only the claims matter.
        events.update(log.read_back(f"slot/{slot}", kinds=_WITHOUT_TRANSITIONS))
        events.update(takewhile(lambda pair: pair[0] <= last, log.read_stream(f"slot/{slot}", first - 1)))
    return sorted(events.items())


def _concerns(event: e.Event, proc: int | None) -> bool:
    """Return False if an event of a cluster is only about other processes than this one (None: any)."""
    jobs = None if isinstance(event, e.JobsMaterialized) else job_procs(event)
    return proc is None or jobs is None or not jobs[1] or any(first <= proc <= last for first, last in jobs[1])


def _life_of(events: Mapping[int, e.Event], proc: int | None) -> tuple[int, int]:
    """Return the positions of the first event of a job and of its leaving the queue, among its cluster's events."""
    if proc is None or not events:
        return 0, EVER
    ends = (
        position
        for position, event in events.items()
        if isinstance(event, e.JobsTransitioned) and event.target == LEFT
        and any(first <= proc <= last for first, last in event.procs)
    )  # fmt: skip
    return min(events), next(ends, EVER)


_MOST_READ = 5_000  #: events of a slot since its last claim that are read one by one, the last ones
_NARRATED, _EXPLAINING, _FIRST = 600, 200, 24
"""Of the events of a long claim, ``why_slot`` needs the last ones, before them the last ones that may explain the
slot's state, and the first ones."""
_MOST_MATCHES = 50_000  #: matches and rejections of cycles that are read
_ROUTINE = (e.SlotTransitioned, e.SlotAdChanged, e.ClaimActivated, e.ClaimDeactivated)
_RARE = [kind for kind in SLOT_KINDS if issubclass(kind, e.SlotEvent) and kind not in _ROUTINE]
_OF_MACHINE = [kind for kind in SLOT_KINDS if issubclass(kind, e.MachineEvent)]


class SlotPositions(NamedTuple):
    """Positions of a slot's events in a log, which the views know; 0: not known. An unknown one is searched for in all
    events of the slot."""

    born: int  #: its last creation
    begin: int  #: the event with which its history begins: its present claim or, if it has none, its creation


UNKNOWN: Final = SlotPositions(0, 0)


def slot_events(
    log: EventStore, slot: str, at: int | None = None, known: SlotPositions = UNKNOWN
) -> list[e.LoggedEvent]:
    """Return the events that ``why_slot`` needs for a slot's state at an instant (None: at the log's end), in order.

    Only a few events are read, however long the log is: of the streams of the slot, its machine and the negotiator,
    from when the slot was last free ahead of its last claim, and of the decisions with these events.

    :param known: positions as of that instant
    """
    end = log.head.position if at is None else log.position_at(at)
    own = _since_last_claim(log, slot, end, known.begin)
    if not own:
        return []
    begin = own[-1][0] - 1
    context = [] if isinstance(own[-1][1], e.SlotCreated) else _creation(log, slot, begin + 1, known.born)
    created = next((event for _, event in (*own, *context) if isinstance(event, e.SlotCreated)), None)
    machine = slot.partition("@")[2] if created is None else created.machine
    of_machine = takewhile(lambda pair: pair[0] > begin, log.read_back(f"machine/{machine}", end + 1, _OF_MACHINE))
    narrated = [*_narrated(log, slot, own, end), *islice(of_machine, _NARRATED)]
    events = dict([*context, *narrated, *_cycles(log, slot, begin, end)])
    events.update(islice(log.read_back("defrag", end + 1, [e.DefragPolled]), 1))
    if created is not None and created.kind == "partitionable":
        events.update(_parts(log, slot, end))
    if _is_of_access_point(log):  # other roles decide about its slots, so its own decisions need not change them
        events.update(pair for pair in log.read(begin, end - begin) if concerns_slot(pair[1], slot))
    else:
        evidence = {getattr(event, "evidence", 0) for _, event in narrated} - {0}
        positions = evidence.union((position for position, _ in narrated), _claim_requests(log, begin, end))
        events.update(pair for pair in decisions(log, positions, end) if concerns_slot(pair[1], slot))
    reserved = [event.stream for event in events.values() if isinstance(event, e.ClaimsReserved)]
    for stream in reserved:
        events.update(takewhile(lambda pair: pair[0] > begin, log.read_back(stream, end + 1, [e.ReservationEnded])))
    return sorted(events.items())


def _since_last_claim(log: EventStore, slot: str, end: int, first: int) -> list[e.LoggedEvent]:
    """Return a slot's own events since its creation or, if it was claimed since, since it was last free before. The
    newest is the first. Of a long claim, the earlier events are the non-routine ones, or none if `first`,
    the position of its first event, is known."""
    stream, events = f"slot/{slot}", list[e.LoggedEvent]()
    is_claimed = False
    kinds: Sequence[type[e.Event]] = ()
    while True:
        before = events[-1][0] if events else end + 1
        if events and not is_claimed and 0 < first < before:
            before, kinds = first + 1, ()
        for position, event in log.read_back(stream, before, kinds):
            events.append((position, event))
            is_free = isinstance(event, e.SlotTransitioned) and event.target == "Unclaimed/Idle"
            if isinstance(event, e.SlotCreated) or (is_claimed and is_free):
                return events
            if isinstance(event, e.ClaimMade) and not is_claimed:
                is_claimed = True
                break
            if len(events) == _MOST_READ and not is_claimed:
                break
        else:
            return events
        kinds = () if is_claimed else _RARE


def _creation(log: EventStore, slot: str, before: int, born: int) -> list[e.LoggedEvent]:
    """Return the creation of a slot before a position, with the later changes of its ad that still matter."""
    events: list[e.LoggedEvent] = []
    newest_first = log.read_back(f"slot/{slot}", before, () if born else [e.SlotCreated, e.SlotAdChanged])
    if 0 < born < before:
        newest_first = chain(islice(newest_first, _MOST_READ), log.read(born - 1, 1))
    for position, event in newest_first:
        if not isinstance(event, e.SlotCreated | e.SlotAdChanged):
            continue
        if not events or isinstance(event, e.SlotCreated) or is_defect(event):
            events.append((position, event))
        if isinstance(event, e.SlotCreated):
            break
    return events


def _narrated(log: EventStore, slot: str, own: list[e.LoggedEvent], end: int) -> list[e.LoggedEvent]:
    """Return which of a slot's own events (the newest is the first) an answer may mention."""
    last, earlier = own[:_NARRATED], own[_NARRATED:]
    explaining = (pair for pair in earlier if not isinstance(pair[1], _ROUTINE) or may_explain(pair[1]))
    begin = own[-1][0] - 1
    first = takewhile(lambda pair: pair[0] <= end, log.read_stream(f"slot/{slot}", begin))
    return [*last, *islice(explaining, _EXPLAINING), *islice(first, _FIRST), *own[-1:]]


def _cycles(log: EventStore, slot: str, begin: int, end: int) -> Iterator[e.LoggedEvent]:
    """Yield the cycles that matched a slot, or took its resources, since the one before the position `begin`."""
    read = 0
    for position, event in log.read_back("negotiator", end + 1, [e.CycleHeld]):
        assert isinstance(event, e.CycleHeld)
        if any(match.slot == slot or slot in match.preempts for match in event.matches):
            yield position, event
        read += len(event.matches) + len(event.unmatched) + 10
        if position <= begin or read > _MOST_MATCHES:
            return


def _claim_requests(log: EventStore, begin: int, end: int) -> Iterator[int]:
    """Yield the positions of the last requests to run a job now, which reserve the claims of slots."""
    answers = islice(log.read_back("requests", end + 1, [e.RequestAnswered]), _MOST_READ)
    for position, event in takewhile(lambda pair: pair[0] > begin, answers):
        if isinstance(event, e.RequestAnswered) and event.request == "run now":
            yield position


def _parts(log: EventStore, slot: str, end: int) -> Iterator[e.LoggedEvent]:
    """Yield the creations of the existing dynamic slots of a partitionable slot, whose numbers have no gaps."""
    name, _, machine = slot.partition("@")
    for number in count(1):
        last = next(log.read_back(f"slot/{name}_{number}@{machine}", end + 1, [e.SlotCreated, e.SlotDestroyed]), None)
        if last is None:
            return
        if isinstance(last[1], e.SlotCreated):
            yield last


def _is_of_access_point(log: EventStore) -> bool:
    founded = next((event for _, event in log.read_stream("pool") if isinstance(event, e.PoolFounded)), None)
    return founded is not None and founded.roles == ("access-point",)


def decisions(log: EventStore, positions: Iterable[int], end: int) -> Iterator[e.LoggedEvent]:
    """Yield the events, up to position `end`, of the decisions that made the events at some positions."""
    wanted = frozenset(positions)
    spans: list[tuple[int, int]] = []
    for position in sorted(wanted):
        if spans and position <= spans[-1][1] + 2 * _APART:
            spans[-1] = spans[-1][0], position
        else:
            spans.append((position, position))
    for first, last in spans:
        begin = max(0, first - 1 - _APART)
        for _, group in groupby(log.read(begin, min(end, last + _ANSWER) - begin), lambda pair: pair[1].stimulus):
            decision = list(group)
            if not wanted.isdisjoint(position for position, _ in decision):
                yield from decision
            if decision[-1][0] >= last:
                break
