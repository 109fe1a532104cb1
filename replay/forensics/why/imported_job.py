"""Why a job of a real pool came to where its records leave it: its life in sentences, each with the record's place.

The job's event log tells the life; the slots' logs say why a run was ended or stopped, the negotiator's what it was
matched with, ads who it was and what the logs do not tell. What no record says is not guessed: the answer says how far
the records go. A job's number that was used again is the last job of that number, unless an earlier instant is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import zip_longest
from typing import Final

from ....domain import events as e
from ....domain.ports.log import EventStore
from ...narration.formatting import EVER
from ...narration.sentences import Answer, UnknownThingError
from ...runs.daemon_deaths import Deaths
from ...runs.imported_runs import job_runs
from ...runs.job_run import RUNNING
from ...runs.slot_records import SlotRecords
from ..imported_log import PlaceNames, single_entries
from .access_points import access_points
from .job_answer import answer_of
from .job_history import (
    APART,
    BEGIN,
    Record,
    ads_of_job,
    ads_of_life,
    ads_of_queue,
    among,
    ends_seen,
    gaps_of,
    last_life,
    records_of,
)
from .job_life import BEGUN, CLOSE, OVER, JobLife
from .match_runs import Matches, MatchesOfSlots, same_user
from .record_words import OVER as HAS_LEFT
from .told_by_ads import read_ads
from .told_by_daemons import before, read_report, tell_gathered
from .told_by_job_log import read_entry, tell_gap
from .unknown_thing import unknown_job


def why_imported_job(log: EventStore, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the job is where its records leave it (at the instant `at`, if one is given), and its life in order of
    time. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    everything = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    points = access_points(everything, (cluster, proc), places)
    if points is not None:
        everything = [one for one in everything if points.has(one[1])]
    told = [one for one in everything if at is None or one[1].at <= at]
    records = records_of(told, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    if points is not None:
        ads = [ad for ad in ads if points.has_ad(ad)]
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    known = ads_of_life(ads, begin)
    logged = [record for record in records if isinstance(record.event, e.JobLogged)]
    gaps = [(position, gap) for position, gap in gaps_of(log, logged) if gap.until == 0 or gap.until >= begin]
    slots = SlotRecords(log, at)
    deaths = Deaths(log, places, slots, zone)
    span = min((record.at for record in records), default=begin), max((record.at for record in records), default=EVER)
    others = MatchesOfSlots(log, places, *span)
    seen, job = ends_seen(records), (cluster, proc)
    own = {one.event.stimulus for record in logged for one in (record, *record.others)}
    life = JobLife(job, places, slots, Matches(told), others, deaths, known, [], own, seen, bool(logged), at, zone)
    life.called = Matches(everything).user if at is not None else life.matches.user
    found = job_runs(log, cluster, proc, at, zone)
    found = [run for run in found if points is None or points.has_run(run)]
    own_runs = [run for run in found if not run.user or same_user(run.user, life.users())]
    life.runs = sorted((run for run in own_runs if run.ended >= begin - APART), key=lambda run: run.began)
    for record in among(records, untold_steps(life, records)):
        _read(life, record)
    tell_gathered(life)
    if life.status not in HAS_LEFT and not any(ad.has_left for ad in known):
        gone = [ad for ad in ads_of_queue(log, cluster, at, proc).values() if ad.has_left]
        life.ads = [*known, *ads_of_life(gone, begin)]
    read_ads(life)
    for position, gap in gaps:
        tell_gap(life, position, gap)
    if not life.chain:
        raise UnknownThingError(unknown_job(log, cluster, proc, at, zone))
    return answer_of(life)


def _read(life: JobLife, record: Record) -> None:
    life.last = max(life.last, record.at)
    before(life, record)
    (read_entry if isinstance(record.event, e.JobLogged) else read_report)(life, record)


_BY_SHADOW: Final = frozenset({"terminated", "evicting", "holding", "requeuing", "removing"})
"""The records of shadows that tell the end of a run."""


def untold_steps(life: JobLife, records: Sequence[Record]) -> Iterator[Record]:
    """Yield records for the beginnings and ends of the job's runs that its own records do not have."""
    told = {one.event.stimulus for record in records for one in (record, *record.others)}
    seen = [life.ended_by(one) for one in records if one.what in _BY_SHADOW]
    begun = [(one.at, one.facts.get("slot", "")) for one in records if one.what in (BEGIN, "shadow_began")]
    for run, later in zip_longest(life.runs, life.runs[1:]):
        near = range(run.began - CLOSE, max(run.began, run.ended) + CLOSE)
        if run.slot and not any(at in near and slot in ("", run.slot) for at, slot in begun):
            yield _step(life, BEGUN, run.began, run.begun, run.slot)
        known = not told.isdisjoint(run.ends) or any(run is one for one in seen)
        if (run.slot or run.begun in told) and run.outcome != RUNNING and not known:
            place = run.stimulus if run.death is None else run.begun  # what tells the end by a death is later than it
            place = place if run.ends else later.begun if later is not None else run.begun
            yield _step(life, OVER, run.ended, place, run.slot)


def _step(life: JobLife, what: str, at: int, stimulus: str, slot: str) -> Record:
    places = [(position, one.stimulus) for position, one in life.slots.records(slot)]
    places += [(ad.position, ad.stimulus) for ad in life.ads]
    position = next((position for position, place in places if place == stimulus), 0)
    event = e.JobReported(at, "reported", stimulus, *life.job, what, {"slot": slot})
    return Record(position, event, what, event.facts)
