"""Read golden traces of negotiation cycles from a folder of a real pool's records.

``record`` joins the machines' events (replayed by ``trace_play``, as ours follow the recorded ones), the queue
(``trace_queue``) and the negotiator (``trace_negotiator``). ``replay/conformance`` compares.
"""

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
from poolbook.domain.negotiator.negotiator_settings import offered
from poolbook.domain.state.caches import ad_of
from poolbook.domain.state.job_limits import evaluated
from poolbook.domain.state.pool_settings import unfit
from poolbook.domain.state_machines import state
from poolbook.domain.state_machines.drain import OPEN

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
    found = trace(folder)
    log, accounts = negotiator(found.files), AccountReader(found.files)
    pool = list(_ended(_pool(found, dialect)))
    domain = next((run.machine for run in found.runs), DOMAIN)
    jobs, left_out = queue(found.files, domain, dialect, configuration(found.files, found.runs[0], 0), pool)
    return NegotiatorRecording(
        folder.name,
        tuple(_counting(list(_limiting(pool, jobs)), jobs, log.cycles)),
        tuple(_settings([*_configured(found, log.reconfigured), *accounts.factors, *log.settings])),
        tuple(jobs),
        doubted(found.files, log.cycles),
        accounts.counted,
        tuple(samples(found.files)),
        accounts.began,
        accounts.known,
        log.lost,
        tuple(left_out),
    )


def _pool(found: Trace, dialect: str) -> Iterator[e.Event]:
    """Yield the events of a pool of ours to whose machines the same happened."""
    founded = False
    for run, moves in zip(found.runs, recorded(found), strict=True):
        if not run.slots:
            continue
        play = TracePlay(found.files, run, dialect)
        play.moves()
        settings = offered(configuration(found.files, run, 0))
        for event in _timed((event for _, event in play.log.read()), moves):
            if isinstance(event, e.PoolFounded):
                if not founded:
                    yield replace(event, settings={**event.settings, **settings})
                founded = True
            elif not isinstance(event, e.RequestAnswered):
                yield event


def _ended(pool: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the pool's events, and the end of each startd that was killed. It says nothing of it: its claims and slots
    are gone when the next one comes."""
    there: set[str] = set()
    claims: dict[str, e.ClaimMade] = {}
    for event in pool:
        match event:
            case e.MachineJoined() if event.machine in there:
                for made in claims.values():
                    yield e.ClaimEnded(event.at, "left", event.stimulus, made.slot, made.claim, made.submitter, 0)
                claims.clear()
                yield e.MachineLeft(event.at, "left", event.stimulus, event.machine)
            case e.MachineJoined():
                there.add(event.machine)
            case e.MachineLeft():
                there.discard(event.machine)
            case e.ClaimMade():
                claims[event.slot] = event
            case e.ClaimEnded():
                claims.pop(event.slot, None)
        yield event


def _timed(events: Iterable[e.Event], moves: Iterable[PlayedTransition]) -> list[e.Event]:
    """Return the events, each transition at the real slot's instant, and the end of a drain at that of the first slot
    which that lets go, unless that makes a log that cannot be folded."""
    real: dict[str, deque[PlayedTransition]] = defaultdict(deque)
    for move in moves:
        real[move.slot].append(move)
    own, found = list(events), list[e.Event]()
    over: dict[str, int] = {}  #: machine -> where the end of its drain stands among those that are found
    for event in own:
        if isinstance(event, e.DrainTransitioned) and event.target == OPEN:
            over[event.machine] = len(found)
        if isinstance(event, e.SlotTransitioned):
            same = real[event.slot]
            while same and (same[0].source, same[0].target) != (event.source, event.target):
                same.popleft()
            if same:
                event = replace(event, at=same.popleft().at)
            place = over.pop(event.slot.partition("@")[2], None) if state(event.source) == "Drained" else None
            if place is not None:
                found[place] = replace(found[place], at=max(found[place].at, event.at))
        found.append(event)
    found = sorted(_in_turn(found), key=lambda one: one.at)
    try:
        fold(enumerate(found, 1))
    except KeyError:  # a slot would do something before it is there, or when it is gone
        return own
    return found


def _in_turn(events: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the events with none of a slot before those that it follows on."""
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
    """Yield the pool's events, each claim with its job's submitter. A StartLog names the owner alone, who is not whom
    nice users and members of accounting groups count for: of a job that is not known, the last match of the slot for
    that owner tells it."""
    submitters = {one.event.cluster: one.event.submitter for one in jobs}
    matches = deque(told for cycle in cycles for told in cycle.matches)
    matched: dict[tuple[str, str], str] = {}
    of_claims: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued):
            while matches and matches[0].at <= event.at:
                told = matches.popleft()
                for owner in (told.submitter, _owner(told.submitter)):
                    matched[told.slot, owner] = told.submitter
            known = submitters.get(int(event.job.partition(".")[0])) if event.job else None
            owned = event.slot, event.submitter
            known = known or matched.get(owned) or matched.get((parent(event.slot), event.submitter))
            of_claims[event.claim] = known or event.submitter
        if isinstance(event, e.ClaimMade | e.ClaimQueued | e.ClaimEnded):
            event = replace(event, submitter=of_claims.get(event.claim, event.submitter))
        if isinstance(event, e.ClaimMade):
            event = replace(event, factor=0.0)  # the recorded pool's settings say what it is
        yield event


def _limiting(pool: Sequence[e.Event], jobs: Iterable[RecordedSubmission]) -> Iterator[e.Event]:
    """Yield the pool's events, each claim with what it held of concurrency limits, as the real startd advertised it. It
    looks up in the slot's ad what the job's lacks (EvalString in Claim::loadRequestInfo): so a job without limits holds
    those of the one that it preempts."""
    ads = {one.event.cluster: one.event.ad for one in jobs}
    slots = {event.slot: event.ad for event in pool if isinstance(event, e.SlotCreated)}
    of_claims: dict[str, str] = {}
    held: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued):
            if event.claim not in of_claims and event.job:
                job, context = ads.get(int(event.job.partition(".")[0]), {}), Context(now=event.at // SECOND)
                own = evaluated(ad_of(job), ad_of(slots.get(event.slot, {})), context)
                of_claims[event.claim] = own if LIMITS in job else held.get(event.slot, "")
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


def _configured(found: Trace, heard: Sequence[int]) -> Iterator[e.Event]:
    """Yield the reconfigurations whose text the folder has, when the negotiator ``heard`` of them."""
    files, run = found.files, found.runs[0]
    before = offered(configuration(files, run, 0))
    for number, at in enumerate(files.reconfigured, 1):
        if number < len(files.configurations):
            now = offered(configuration(files, run, number))
            changes = {name: now.get(name, "") for name in before | now if now.get(name) != before.get(name)}
            at = next((one for one in heard if one >= at), at)
            yield e.PoolConfigured(at, "reconfigured", "", changes)
            before = now


def _settings(events: Iterable[e.Event]) -> Iterator[e.Event]:
    """Yield the events in order, without invalid settings."""
    for event in sorted(events, key=lambda one: one.at):
        if isinstance(event, e.PoolConfigured):
            fit = {name: text for name, text in event.settings.items() if not unfit(name, text)}
            if fit:
                yield replace(event, settings=fit)
        else:
            yield event
