"""Compare how shadows exited with what the job event logs tell of their runs.

HTCondor's exit.h has the statuses. One is accused if it is the only one that the entries of its run contradict, and
others fit: where no entry is there, nothing is known of the run's end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from attrs import define, field

from ....domain.imported.record_sources import NOT_STARTED
from ....domain.units import SECOND
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .event_log_facts import JobRecord
from .expected_lines import LEAST_OTHERS
from .tolerances import FAR


class StatusRule(NamedTuple):
    """What a shadow's status means, where its job is then, and the entries of which its run's end has one: nothing is
    known of a status without entries."""

    words: str
    became: str
    entries: frozenset[int] = frozenset()


REQUEUED: Final = "requeued"  #: the word of an entry 004 of a job that ended by itself
_REQUEUED: Final = -4  #: an entry 004 that has it
_DONE: Final = frozenset({5, 9, 12, _REQUEUED})
_STOPPED: Final = frozenset({4, 9, 12, 13, 21, 22, 24})
STATUSES: Final = {
    "4": StatusRule("it gave up", "idle"),
    "100": StatusRule("the job has ended", "completed", _DONE),
    "101": StatusRule("the job wrote a checkpoint", "", frozenset({3})),
    "102": StatusRule("the job was killed", "", _STOPPED),
    "103": StatusRule("the job ended by a signal", "completed", frozenset({5, _REQUEUED})),
    "107": StatusRule("the job is to run again", "idle", _STOPPED),
    NOT_STARTED: StatusRule("the job could not be started", "idle", frozenset({7, 9, 12, 21, 22, 24})),
    "112": StatusRule("the job is to be held", "held", frozenset({12})),
    "113": StatusRule("the job is to be removed", "removed", frozenset({9})),
    "115": StatusRule("the job has ended, and its claim ends", "completed", _DONE),
    "116": StatusRule("the job was not found again", "idle", frozenset({24})),
}
_ENDS: Final = frozenset({"4", "5"})
"""The entries that tell how a run ended."""


@define
class ExitStatuses:
    """Takes the records of each job (``take``); then ``finish`` yields the only exit that does not fit."""

    sources: Sources
    fitting: int = 0
    unfit: list[AuditFinding] = field(factory=list)

    def take(self, job: tuple[int, int], heard: Sequence[JobRecord]) -> None:
        begun: dict[tuple[int, str], int] = {}
        entries = [one for one in heard if one.letter in "UE"]
        starts = [one for one in heard if one.letter == "D" and one.what == "shadow_began"]
        for one in heard:
            if one.letter != "D" or one.what not in ("shadow_began", "shadow_gone"):
                continue
            facts = json.loads(one.body)
            shadow = (one.chain, facts.get("shadow", ""))
            if one.what == "shadow_began":
                begun[shadow] = one.at
            elif (since := begun.pop(shadow, None)) is not None:
                status = facts.get("status") or facts.get("reason", "")
                # the end of the run before one that was not started may stand in the same second
                since = max(since + SECOND * (status == NOT_STARTED), one.at - FAR)
                next_starts = [its.at for its in starts if (its.at, its.line) > (one.at, one.line)]
                until = min(next_starts, default=one.at + FAR + 1)
                run = [entry for entry in entries if since <= entry.at <= one.at + FAR and entry.at < until]
                self._judge(job, one, status, run)

    def _judge(self, job: tuple[int, int], one: JobRecord, status: str, run: Sequence[JobRecord]) -> None:
        """Compare an exit with the entries of its run's end."""
        rule = STATUSES.get(status)
        ends = [entry for entry in run if entry.what in _ENDS]
        if rule is None or not rule.entries or not ends:
            return
        told = {int(entry.what) for entry in run}
        if any(entry.what == "4" and REQUEUED in entry.body for entry in ends):
            told.add(_REQUEUED)
        if told & rule.entries:
            self.fitting += 1
            return
        end, place, its = ends[-1], f"{one.source}:{one.line}", f"{ends[-1].source}:{ends[-1].line}"
        log, number = self.sources.path(end.source).rpartition("/")[2], f"{int(end.what):03}"
        words = f"its shadow exited with status {status} ({rule.words}), but {log} tells its end by entry {number}"
        story = (
            self.sources.told(end.at, its, f"the run's end: entry {number}"),
            self.sources.told(one.at, place, f"status {status}"),
        )
        file, line = self.sources.place(place)
        self.unfit.append(AuditFinding("{}.{}".format(*job), "status", words, one.at, file, line, story))

    def finish(self) -> list[AuditFinding]:
        return self.unfit if len(self.unfit) == 1 and self.fitting >= LEAST_OTHERS else []
