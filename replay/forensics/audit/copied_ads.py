"""Compare the copies of a job's ad with job_queue.log, where the schedd writes each value first.

An ad of the history is the one that left the queue; any other copy has only values that the ad had there once. One
value that differs, in one job's ad, was changed. Where several differ, as in files of two access points, nothing is
told.
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
from .table_folds import COPIED, ONCE, SINCE, SUBMITTED
from .tolerances import NEAR, UNSAVED

_UNLIKE: Final = {
    "S": {"JobStartDate", "JobStatus"}, "P": {"JobStatus"}, "H": {"JobStatus"},
}  # fmt: skip
"""The attributes that differ in a kind of source: a starter has its own start date."""
_EXPANDED: Final = "$$"  #: a value with this is another one at each match, in what shadows and starters write


@define
class CopiedAds:
    """Takes the records of each job (``take``); then ``finish`` yields the only value that was copied wrongly."""

    sources: Sources
    deaths: Sequence[tuple[int, int]]  #: of schedds: from the last sign to the next one's beginning
    alike: Counter[str] = field(factory=Counter)
    differing: dict[tuple[str, str], AuditFinding] = field(factory=dict)  #: by the attribute and the copy's place
    _keys: dict[tuple[str, str], str] = field(factory=dict)  #: under which name in ``alike`` such copies are counted

    def take(self, job: tuple[int, int], heard: Sequence[JobRecord]) -> None:
        ads = [(one, json.loads(one.body)) for one in heard if one.letter in "HPSAQ"]
        tables = [ad for ad in ads if ad[0].letter == "Q"]
        left = [ad for ad in tables if ad[0].what == "final"]
        histories = [ad for ad in ads if ad[0].letter == "H"]
        certain = tables and not self._forgotten(*tables[-1])
        for copy in histories if len(left) == 1 and (certain or len(histories) == 1) else ():
            if copy[1].get("GlobalJobId") == left[0][1].get("GlobalJobId"):
                self._left(job, *copy, *left[0])
        if certain:
            for one, ad in ads:
                if one.letter != "Q":
                    self._once(job, one, ad, tables)

    def _forgotten(self, last: JobRecord, ad: Mapping[str, str]) -> bool:
        """Return True if a schedd died during the job's life: it lost values that others have copied."""
        submitted = date(ad, "QDate") or 0
        return any(submitted <= until and since - UNSAVED <= last.at for since, until in self.deaths)

    def _left(
        self, job: tuple[int, int], history: JobRecord, copy: Mapping[str, str], queue: JobRecord, ad: Mapping[str, str]
    ) -> None:
        names = sorted(name for name in copy.keys() & ad.keys() - {ONCE} if not _same(copy[name], ad[name]))
        self.alike["left"] += not names
        for name in names:
            self._differs(job, name, history, copy[name], queue, f"was {ad[name]}", "left")

    def _once(
        self,
        job: tuple[int, int],
        one: JobRecord,
        copy: Mapping[str, str],
        tables: Sequence[tuple[JobRecord, Mapping[str, Any]]],
    ) -> None:
        """Compare a copy with the values that the job's ad had."""
        of_job = [(queue, ad) for queue, ad in tables if ad.get("GlobalJobId") == copy.get("GlobalJobId")]
        for name in sorted(copy.keys() & set(COPIED) - _UNLIKE.get(one.letter, set())):
            known = {value for _, ad in of_job for value in ad[ONCE][name]}
            value = copy[name] + SINCE + copy.get("EnteredCurrentStatus", "") if name == "JobStatus" else copy[name]
            if not known or (one.letter in "PS" and any(_EXPANDED in text for text in known)):
                continue
            if any(_same(value, text) for text in known):
                self.alike[name] += 1
            elif name in SUBMITTED or _kept(one, copy, [queue.at for queue, _ in of_job]):
                self._differs(job, name, one, value, of_job[-1][0], "never was so", name)

    def _differs(
        self, job: tuple[int, int], name: str, one: JobRecord, value: str, queue: JobRecord, was: str, key: str
    ) -> None:
        places = [f"{record.source}:{record.line}" for record in (queue, one)]
        where = KINDS[LETTERS[one.letter]].name
        words = f"{name} is {value} in {where}, and {was} in job_queue.log: one of them was changed"
        story = [(queue.at, places[0], f"{name} {was}"), (one.at, places[1], f"{name} = {value}")]
        self._keys.setdefault((name, places[1]), key)
        self.differing.setdefault(
            (name, places[1]), finding(self.sources, "{}.{}".format(*job), "copied", words, story)
        )

    def finish(self) -> Iterator[AuditFinding]:
        for place, found in self.differing.items():
            alike = self.alike[self._keys[place]] and self.alike.total()
            if len(self.differing) == 1 and alike >= LEAST_OTHERS:
                yield found


def _kept(one: JobRecord, copy: Mapping[str, str], ends: Sequence[int]) -> bool:
    """Return True if job_queue.log has a copy's values: it continues behind them. A schedd that is killed loses what it
    wrote last; `ends`: the ends of the job's parts of the table."""
    at = date(copy, "ServerTime" if one.letter == "A" else "EnteredCurrentStatus") or 0
    lost = one.letter == "A" and any(end <= at + NEAR and at < end + UNSAVED for end in ends[:-1])
    return not lost and at < ends[-1] - NEAR


def _same(one: str, other: str) -> bool:
    """Return True if two expressions are the same (a schedd writes FALSE and false), or the same number."""
    try:
        return one == other or ('"' not in one and one.lower() == other.lower()) or float(one) == float(other)
    except ValueError:
        return False
