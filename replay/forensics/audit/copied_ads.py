"""Compare the copies of a job's ad with job_queue.log, where the schedd writes each value first.

The history contains the ad that left the queue; every other copy contains only values that the ad had in the queue at
some time. If a single value in a single job's ad differs, it was changed. If several differ, as in files from two
access points, nothing is reported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from ....domain.imported.record_sources import KINDS
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .compared_facts import LETTERS
from .event_log_facts import JobRecord
from .findings import LEAST_OTHERS, finding
from .job_ad_facts import date
from .table_folds import COPIED_ATTRIBUTES, SET_ONCE, STATUS_SEPARATOR, SUBMITTED
from .tolerances import NEAR, UNSAVED

_UNLIKE: Final = {
    "S": {"JobStartDate", "JobStatus"}, "P": {"JobStatus"}, "H": {"JobStatus"},
}  # fmt: skip
"""The attributes that legally differ in a kind of source: a starter has its own start date."""
_EXPANDED: Final = "$$"  #: in ads written by shadows and starters, values that contain this differ in each match


@define
class CopiedAds:
    """Compares the copies of each job's ad: ``take`` every job's records, then ``finish`` yields the only wrong
    copy."""

    sources: Sources
    deaths: Sequence[tuple[int, int]]  #: the schedds' deaths: from the last record to the next start
    alike: Counter[str] = field(factory=Counter)
    differing: dict[tuple[str, str], AuditFinding] = field(factory=dict)  #: by the attribute and the copy's location
    _keys: dict[tuple[str, str], str] = field(factory=dict)  #: the key in ``alike`` for copies like this one

    def check_job(self, job: tuple[int, int], records: Sequence[JobRecord]) -> None:
        ads = [(record, json.loads(record.body)) for record in records if record.letter in "HPSAQ"]
        tables = [ad for ad in ads if ad[0].letter == "Q"]
        final_ads = [ad for ad in tables if ad[0].what == "final"]
        histories = [ad for ad in ads if ad[0].letter == "H"]
        is_certain = tables and not self._may_be_lost(*tables[-1])
        for copy in histories if len(final_ads) == 1 and (is_certain or len(histories) == 1) else ():
            if copy[1].get("GlobalJobId") == final_ads[0][1].get("GlobalJobId"):
                self._compare_with_queue(job, *copy, *final_ads[0])
        if is_certain:
            for record, ad in ads:
                if record.letter != "Q":
                    self._compare_once(job, record, ad, tables)

    def _may_be_lost(self, last_record: JobRecord, ad: Mapping[str, str]) -> bool:
        """Return True if a schedd died while the job was queued, and so may have lost values that were already
        copied."""
        submitted = date(ad, "QDate") or 0
        return any(submitted <= until and since - UNSAVED <= last_record.at for since, until in self.deaths)

    def _compare_with_queue(
        self, job: tuple[int, int], history: JobRecord, copy: Mapping[str, str], queue: JobRecord, ad: Mapping[str, str]
    ) -> None:
        names = sorted(key for key in copy.keys() & ad.keys() - {SET_ONCE} if not _is_same_value(copy[key], ad[key]))
        self.alike["left"] += not names
        for name in names:
            self._note_difference(job, name, history, copy[name], queue, f"was {ad[name]}", "left")

    def _compare_once(
        self,
        job: tuple[int, int],
        record: JobRecord,
        copy: Mapping[str, str],
        tables: Sequence[tuple[JobRecord, Mapping[str, Any]]],
    ) -> None:
        ads_of_same_job = [(queue, ad) for queue, ad in tables if ad.get("GlobalJobId") == copy.get("GlobalJobId")]
        for name in sorted(copy.keys() & set(COPIED_ATTRIBUTES) - _UNLIKE.get(record.letter, set())):
            known_values = {value for _, ad in ads_of_same_job for value in ad[SET_ONCE][name]}
            value = copy[name]
            if name == "JobStatus":
                value += STATUS_SEPARATOR + copy.get("EnteredCurrentStatus", "")
            if not known_values or (record.letter in "PS" and any(_EXPANDED in text for text in known_values)):
                continue
            if any(_is_same_value(value, text) for text in known_values):
                self.alike[name] += 1
            elif name in SUBMITTED or _is_covered(record, copy, [queue.at for queue, _ in ads_of_same_job]):
                self._note_difference(job, name, record, value, ads_of_same_job[-1][0], "never had this value", name)

    def _note_difference(
        self,
        job: tuple[int, int],
        name: str,
        ad_record: JobRecord,
        value: str,
        queue: JobRecord,
        queue_value: str,
        key: str,
    ) -> None:
        places = [f"{record.source}:{record.line}" for record in (queue, ad_record)]
        file = KINDS[LETTERS[ad_record.letter]].name
        text = f"{name} is {value} in {file}, but {queue_value} in job_queue.log: one of them was changed"
        story = [(queue.at, places[0], f"{name} {queue_value}"), (ad_record.at, places[1], f"{name} = {value}")]
        self._keys.setdefault((name, places[1]), key)
        self.differing.setdefault((name, places[1]), finding(self.sources, "{}.{}".format(*job), "copied", text, story))

    def finish(self) -> Iterator[AuditFinding]:
        for place_text, difference in self.differing.items():
            has_alike_copies = self.alike[self._keys[place_text]] and self.alike.total()
            if len(self.differing) == 1 and has_alike_copies >= LEAST_OTHERS:
                yield difference


def _is_covered(record: JobRecord, copy: Mapping[str, str], end_times: Sequence[int]) -> bool:
    """Return True if job_queue.log must contain a copy's values, because the log continues after them (a killed schedd
    loses its last writes). `end_times` are the ends of the table's parts with the job."""
    ad_time = date(copy, "ServerTime" if record.letter == "A" else "EnteredCurrentStatus") or 0
    was_lost = record.letter == "A" and any(end <= ad_time + NEAR and ad_time < end + UNSAVED for end in end_times[:-1])
    return not was_lost and ad_time < end_times[-1] - NEAR


def _is_same_value(value: str, other: str) -> bool:
    """Return True if two expressions are equal, ignoring case (a schedd writes FALSE and false), or are equal
    numbers."""
    try:
        return value == other or ('"' not in value and value.lower() == other.lower()) or float(value) == float(other)
    except ValueError:
        return False
