"""Read golden traces of negotiation cycles from a folder of a real pool's records.

``record`` joins the machines' events (replayed by ``trace_play``, as ours follow the recorded ones), the queue
(``trace_queue``) and the negotiator (``trace_negotiator``). ``replay/conformance`` compares.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import evolve

from ...domain import events as e
from ...domain.negotiator.settings import offered
from ...domain.state.evolve import fold
from ...domain.state.settings import unfit
from ...replay.conformance.recording import NegotiatorRecording, RecordedSubmission
from .golden_traces import DIALECT, Trace, recorded, trace
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
        tuple(_counting(pool, jobs)),
        tuple(_settings([*_configured(found, log.reconfigured), *log.settings])),
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
                    yield evolve(event, settings={**event.settings, **settings})
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
    """Return the events, each transition at the real slot's instant, unless that makes a log that cannot be folded."""
    real: dict[str, deque[PlayedTransition]] = defaultdict(deque)
    for move in moves:
        real[move.slot].append(move)
    own, found = list(events), []
    for event in own:
        if isinstance(event, e.SlotTransitioned):
            same = real[event.slot]
            while same and (same[0].source, same[0].target) != (event.source, event.target):
                same.popleft()
            if same:
                event = evolve(event, at=same.popleft().at)
        found.append(event)
    found.sort(key=lambda one: one.at)
    try:
        fold(enumerate(found, 1))
    except KeyError:  # a slot would do something before it is there, or when it is gone
        return own
    return found


def _counting(pool: Iterable[e.Event], jobs: Iterable[RecordedSubmission]) -> Iterator[e.Event]:
    """Yield the pool's events, each claim with its job's submitter."""
    submitters = {one.event.cluster: one.event.submitter for one in jobs}
    of_claims: dict[str, str] = {}
    for event in pool:
        if isinstance(event, e.ClaimMade | e.ClaimQueued):
            known = submitters.get(int(event.job.partition(".")[0])) if event.job else None
            of_claims[event.claim] = known or event.submitter
        if isinstance(event, e.ClaimMade | e.ClaimQueued | e.ClaimEnded):
            event = evolve(event, submitter=of_claims.get(event.claim, event.submitter))
        if isinstance(event, e.ClaimMade):
            event = evolve(event, factor=0.0)  # the recorded pool's settings say what it is
        yield event


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
                yield evolve(event, settings=fit)
        else:
            yield event
