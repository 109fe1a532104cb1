"""Find cycles and shadows that begin without an end, or end without a beginning, in the log of one daemon.

A negotiator ends each cycle before it begins the next one, and a schedd logs the start and the exit of a job's shadow
with one pid. Everything is forgotten when the daemon begins or ends, and where records are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from ....domain import events as e
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .table_steps import Misfits


@define
class BegunAndEnded:
    """Takes the events of daemons' logs; then ``finish`` yields the only one that does not fit."""

    _begun: dict[tuple[int, str], str] = field(factory=dict)
    """The pid of each job's running shadow; "" for the running cycle, whose key has "" for the job."""
    _known: set[int] = field(factory=set)  #: the chains that have every record since their daemon began
    _misfits: Misfits = field(factory=Misfits)

    def cycle(self, chain: int, event: e.CycleReported) -> None:
        if event.said == "began":
            if (chain, "") in self._begun:
                self._cycle(event, False, "a negotiation cycle began before the previous one ended")
            self._begun[chain, ""] = ""
        elif event.said == "ended":
            fits = self._begun.pop((chain, ""), None) is not None
            if fits or chain in self._known:
                self._cycle(event, fits, "a negotiation cycle ended that did not begin")
            self._known.add(chain)

    def _cycle(self, event: e.CycleReported, fits: bool, words: str) -> None:
        self._misfits.judge("cycle", fits, "negotiator", words, event.stimulus, event.at)

    def shadow(self, chain: int, event: e.JobReported) -> None:
        job, pid = f"{event.cluster}.{event.proc}", event.facts.get("shadow", "")
        if event.said == "shadow_began":
            self._begun[chain, job] = pid
            return
        begun = self._begun.get((chain, job), "")
        if begun or chain in self._known:
            words = f"its shadow {pid} exited, but {begun or 'no shadow'} had been started"
            self._misfits.judge("shadow", pid == begun, job, words, event.stimulus, event.at)

    def forget(self, chain: int, known: bool) -> None:
        """Forget what was begun: the daemon began (`known`) or ended, or records are missing."""
        self._begun = {key: value for key, value in self._begun.items() if key[0] != chain}
        if known:
            self._known.add(chain)
        else:
            self._known.discard(chain)

    def finish(self, sources: Sources) -> Iterator[AuditFinding]:
        yield from self._misfits.only(sources, "begun", "a line was taken out or changed")
