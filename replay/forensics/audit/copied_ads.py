"""Compare the ads of the job history with those that left job_queue.log: a schedd writes the one from the other.

One value that differs, in one job's ad, was changed. Where several differ, as in files of two access points, nothing is
told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from attrs import define, field

from ...audit_result import AuditFinding
from ..sources import Sources
from .event_log_facts import JobRecord
from .expected_lines import LEAST_OTHERS


@define
class CopiedAds:
    """Takes the records of each job (``take``); then ``finish`` yields the only value that was copied wrongly."""

    sources: Sources
    alike: int = 0
    differing: list[AuditFinding] = field(factory=list)

    def take(self, job: tuple[int, int], heard: Sequence[JobRecord]) -> None:
        histories = [one for one in heard if one.letter == "H"]
        queues = [one for one in heard if one.letter == "Q" and one.what == "final"]
        if len(histories) != 1 or len(queues) != 1:
            return
        copy, ad = json.loads(histories[0].body), json.loads(queues[0].body)
        if copy.get("GlobalJobId") != ad.get("GlobalJobId"):
            return
        names = sorted(name for name in copy.keys() & ad.keys() if not _same(copy[name], ad[name]))
        self.alike += not names
        self.differing += [self._finding(job, name, copy, ad, histories[0], queues[0]) for name in names]

    def _finding(
        self,
        job: tuple[int, int],
        name: str,
        copy: Mapping[str, str],
        ad: Mapping[str, str],
        history: JobRecord,
        queue: JobRecord,
    ) -> AuditFinding:
        places = [f"{one.source}:{one.line}" for one in (queue, history)]
        words = f"{name} is {copy[name]} in the history, and was {ad[name]} in job_queue.log: one of them was changed"
        file, line = self.sources.place(places[1])
        told = zip(places, (queue.at, history.at), (ad[name], copy[name]), strict=True)
        story = tuple(self.sources.told(at, place, f"{name} = {value}") for place, at, value in told)
        return AuditFinding("{}.{}".format(*job), "copied", words, history.at, file, line, story)

    def finish(self) -> list[AuditFinding]:
        return self.differing if len(self.differing) == 1 and self.alike >= LEAST_OTHERS else []


def _same(one: str, other: str) -> bool:
    """Return True if two expressions are the same (a schedd writes FALSE and false), or the same number."""
    try:
        return one == other or ('"' not in one and one.lower() == other.lower()) or float(one) == float(other)
    except ValueError:
        return False
