"""Read golden traces of negotiation cycles from a folder of a real pool's records. ``record`` joins the machines'
events (replayed by ``trace_play``, as ours follow the recorded ones), the queue (``trace_queue``) and the negotiator
(``trace_negotiator``). ``replay/conformance`` compares."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.concurrency_limits import LIMITS
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.negotiator_settings import changed_settings
from poolbook.domain.state.caches import ad_from_attributes
from poolbook.domain.state.job_limits import job_concurrency_limits
from poolbook.domain.state.pool_settings import invalid_value
from poolbook.domain.state_machines import state
from poolbook.domain.state_machines.drain import INITIAL_DRAIN_STATE

from .golden_traces import DIALECT, Trace, recorded, trace
from .recording import NegotiatorRecording, RecordedCycle, RecordedSubmission
from .redecide import parent
from .trace_files import SECOND
from .trace_negotiator import AccountReader, doubted, negotiator, samples
from .trace_play import PlayedTransition, TracePlay
from .trace_queue import queue
from .trace_settings import configuration

DOMAIN: Final = "localhost"
"""The recorded pools' UID_DOMAIN, unless a startd's log gives another."""


def record(folder: Path, dialect: str = DIALECT) -> NegotiatorRecording:
    """Return a folder's recording.

    :raises FileNotFoundError: it has no StartLog or no NegotiatorLog
    :raises ConfigError: its configuration is invalid
    """
    trace_files = trace(folder)
    log, accounts = negotiator(trace_files.files), AccountReader(trace_files.files)
    pool = list(_ended(_pool(trace_files, dialect)))
    domain = next((run.machine for run in trace_files.runs), DOMAIN)
    jobs, left_out = queue(
        trace_files.files, domain, dialect, configuration(trace_files.files, trace_files.runs[0], 0), pool
    )
    return NegotiatorRecording(
        folder.name,
        tuple(_counting(list(_limiting(pool, jobs)), jobs, log.cycles)),
        tuple(_settings([*_configured(trace_files, log.reconfigured), *accounts.factors, *log.settings])),
        tuple(jobs),
        doubted(trace_files.files, log.cycles),
        accounts.counted,
        tuple(samples(trace_files.files)),
        accounts.began,
        accounts.known,
        log.lost,
        tuple(left_out),
    )


def _pool(trace_files: Trace, dialect: str) -> Iterator[e.Event]:
    """Yield the events of a Poolbook pool whose machines had the same events."""
    has_founding = False
    for run, moves in zip(trace_files.runs, recorded(trace_files), strict=True):
        if not run.slots:
            continue
        play = TracePlay(trace_files.files, run, dialect)
        play.moves()
        settings = changed_settings(configuration(trace_files.files, run, 0))
        for event in _timed((event for _, event in play.log.read()), moves):
            if isinstance(event, e.PoolFounded):
                if not has_founding:
                    yield replace(event, settings={**event.settings, **settings})
                has_founding = True
            elif not isinstance(event, e.RequestAnswered):
                yield event


def _ended(pool: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the pool's events, and the end of each startd that was killed. It logs no end: its claims and slots are
    gone when the next one starts."""
    present_slots: set[str] = set()
    claims: dict[str, e.ClaimMade] = {}
    for event in pool:
        match event:
            case e.MachineJoined() if event.machine in present_slots:
                for claim in claims.values():
                    yield e.ClaimEnded(event.at, "left", event.stimulus, claim.slot, claim.claim, claim.submitter, 0)
                claims.clear()
                yield e.MachineLeft(event.at, "left", event.stimulus, event.machine)
            case e.MachineJoined():
                present_slots.add(event.machine)
            case e.MachineLeft():
                present_slots.discard(event.machine)
            case e.ClaimMade():
                claims[event.slot] = event
            case e.ClaimEnded():
                claims.pop(event.slot, None)
        yield event


def _timed(events: Iterable[e.Event], moves: Iterable[PlayedTransition]) -> list[e.Event]:
    """Return the events, each transition at the real slot's instant, and the end of a drain at that of the first slot
    that it releases, unless that makes a log that cannot be folded."""
    real_moves: dict[str, deque[PlayedTransition]] = defaultdict(deque)
    for move in moves:
        real_moves[move.slot].append(move)
    events_list, ordered = list(events), list[e.Event]()
    drain_ends: dict[str, int] = {}  #: machine -> the index of its drain's end in the result
    for event in events_list:
        if isinstance(event, e.DrainTransitioned) and event.target == INITIAL_DRAIN_STATE:
            drain_ends[event.machine] = len(ordered)
        if isinstance(event, e.SlotTransitioned):
            slot_moves = real_moves[event.slot]
            while slot_moves and (slot_moves[0].source, slot_moves[0].target) != (event.source, event.target):
                slot_moves.popleft()
            if slot_moves:
                event = replace(event, at=slot_moves.popleft().at)
            place = drain_ends.pop(event.slot.partition("@")[2], None) if state(event.source) == "Drained" else None
            if place is not None:
                ordered[place] = replace(ordered[place], at=max(ordered[place].at, event.at))
        ordered.append(event)
    ordered = sorted(_in_turn(ordered), key=lambda one: one.at)
    try:
        fold(enumerate(ordered, 1))
    except KeyError:  # a slot would change before it exists, or after it is gone
        return events_list
    return ordered


def _in_turn(events: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the events in an order in which no event of a slot precedes events it depends on."""
    last: dict[str, int] = {}
    for event in events:
        slot = getattr(event, "slot", "")
        if slot:
            last[slot] = max(event.at, last.get(slot, 0))
            event = event if event.at == last[slot] else replace(event, at=last[slot])
        yield event


def _counting(
    pool: Iterable[e.Event], jobs: Iterable[RecordedSubmission], cycles: Iterable[RecordedCycle]
) -> Iterator[e.Event]:
    """Yield the pool's events, each claim with its job's submitter. A StartLog names only the owner, who differs from
    the submitter for nice users and members of accounting groups. If the job is unknown, the last match of the slot for
    that owner has the submitter."""
    submitters = {submission.event.cluster: submission.event.submitter for submission in jobs}
    matches = deque(match for cycle in cycles for match in cycle.matches)
    matched: dict[tuple[str, str], str] = {}
    of_claims: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued):
            while matches and matches[0].at <= event.at:
                match = matches.popleft()
                for owner in (match.submitter, _owner(match.submitter)):
                    matched[match.slot, owner] = match.submitter
            submitter = submitters.get(int(event.job.partition(".")[0])) if event.job else None
            owned = event.slot, event.submitter
            submitter = submitter or matched.get(owned) or matched.get((parent(event.slot), event.submitter))
            of_claims[event.claim] = submitter or event.submitter
        if isinstance(event, e.ClaimMade | e.ClaimQueued | e.ClaimEnded):
            event = replace(event, submitter=of_claims.get(event.claim, event.submitter))
        if isinstance(event, e.ClaimMade):
            event = replace(event, factor=0.0)  # the recorded pool's settings determine it
        yield event


def _limiting(pool: Sequence[e.Event], jobs: Iterable[RecordedSubmission]) -> Iterator[e.Event]:
    """Yield the pool's events, each claim with the concurrency limits that it held, as the real startd advertised them.
    It looks up attributes that the job's ad lacks in the slot's ad (EvalString in Claim::loadRequestInfo): so a job
    without limits holds those of the job that it preempts."""
    ads = {submission.event.cluster: submission.event.ad for submission in jobs}
    slots = {event.slot: event.ad for event in pool if isinstance(event, e.SlotCreated)}
    of_claims: dict[str, str] = {}
    held: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued):
            if event.claim not in of_claims and event.job:
                job, context = ads.get(int(event.job.partition(".")[0]), {}), Context(now=event.at // SECOND)
                limits = job_concurrency_limits(
                    ad_from_attributes(job), ad_from_attributes(slots.get(event.slot, {})), context
                )
                of_claims[event.claim] = limits if LIMITS in job else held.get(event.slot, "")
            event = replace(event, limits=of_claims.get(event.claim, ""))
        if isinstance(event, e.ClaimMade):
            held[event.slot] = event.limits
        elif isinstance(event, e.ClaimEnded):
            held.pop(event.slot, None)
        yield event


def _owner(submitter: str) -> str:
    """Return the user of a submitter that is in an accounting group: ``ann@pool`` of ``nice-user.ann@pool``."""
    name, at_sign, domain = submitter.partition("@")
    return name.rpartition(".")[2] + at_sign + domain


def _configured(trace_files: Trace, heard_at: Sequence[int]) -> Iterator[e.Event]:
    """Yield the reconfigurations whose text the folder has, at the instants at which the negotiator read them."""
    files, run = trace_files.files, trace_files.runs[0]
    before = changed_settings(configuration(files, run, 0))
    for number, at in enumerate(files.reconfigured, 1):
        if number < len(files.configurations):
            now = changed_settings(configuration(files, run, number))
            changes = {name: now.get(name, "") for name in before | now if now.get(name) != before.get(name)}
            at = next((instant for instant in heard_at if instant >= at), at)
            yield e.PoolConfigured(at, "reconfigured", "", changes)
            before = now


def _settings(events: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the events in order, without invalid settings."""
    for event in sorted(events, key=lambda one: one.at):
        if isinstance(event, e.PoolConfigured):
            valid = {name: text for name, text in event.settings.items() if not invalid_value(name, text)}
            if valid:
                yield replace(event, settings=valid)
        else:
            yield event
