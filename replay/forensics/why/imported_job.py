"""Why a job of a real pool came to where its records leave it: its life in sentences, each with the record's place.

The job's event log tells the life; the slots' logs say why a run was ended or stopped, the negotiator's what it was
matched with, ads who it was and what the logs do not tell. What no record says is not guessed: the answer says how far
the records go. A job's number that was used again is the last job of that number, unless an earlier instant is asked
for.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from ....domain import events as e
from ....domain.ports.log import Log
from ...narration.sentences import Answer, UnknownThingError
from ...narration.wording import EVER
from ...runs.daemon_deaths import Deaths
from ...runs.slot_records import Slots
from ..imported_log import PlaceNames, single_entries
from .job_answer import answer_of
from .job_history import (
    APART,
    ENDS,
    Record,
    ads_of_job,
    ads_of_life,
    ads_of_queue,
    among,
    ends_seen,
    gaps_of,
    is_over,
    last_life,
    records_of,
)
from .job_life import JobLife
from .match_runs import Matches, MatchesOfSlots
from .record_words import OVER
from .slot_runs import begun_between, dark_windows, untold_runs
from .told_by_ads import read_ads
from .told_by_daemons import before, read_end, read_report, tell_gathered
from .told_by_job_log import read_entry, tell_gap
from .unknown_thing import unknown_job


def why_imported_job(log: Log, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the job is where its records leave it (at the instant `at`, if one is given), and its life in order of
    time. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    everything = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    told = [one for one in everything if at is None or one[1].at <= at]
    records = records_of(told, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    known = ads_of_life(ads, begin)
    logged = [record for record in records if isinstance(record.event, e.JobLogged)]
    gaps = [(position, gap) for position, gap in gaps_of(log, logged) if gap.until == 0 or gap.until >= begin]
    ends = [record.at for record in logged if int(record.what) in ENDS]
    slots = Slots(log, at)
    deaths = Deaths(log, places, slots, zone)
    span = min((record.at for record in records), default=begin), max((record.at for record in records), default=EVER)
    others = MatchesOfSlots(log, places, *span)
    seen, job = ends_seen(records), (cluster, proc)
    life = JobLife(job, places, slots, Matches(told), others, deaths, known, ends, seen, bool(logged), at, zone)
    life.called = Matches(everything).user if at is not None else life.matches.user
    windows = dark_windows(records, [gap for _, gap in gaps], over=is_over(records, known), begin=begin)
    found = begun_between(log, places, [(since, min(until, at or EVER)) for since, until in windows], cluster)
    for record in among(records, untold_runs(found, records, slots, life.name, life.users())):
        _read(life, record)
    read_end(life)
    tell_gathered(life)
    if life.status not in OVER and not any(ad.has_left for ad in known):
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
