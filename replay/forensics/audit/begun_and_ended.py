"""Find what begins without an end, or ends without a beginning, in the log of one daemon: cycles and shadows.

A negotiator ends each cycle before it begins the next one, and a schedd tells by one pid how a job's shadow starts and
exits. All is forgotten when the daemon begins or ends, and where records are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import define, field

from ....domain import events as e
from ...audit_result import AuditFinding
from ..sources import Sources
from .expected_lines import LEAST_OTHERS


@define
class BegunAndEnded:
    """Takes the events of daemons' logs; then ``finish`` yields the only one that does not fit."""

    _begun: dict[tuple[int, str], tuple[str, str]] = field(factory=dict)
    """What a thing (a job, or "" for the cycle) began with: a shadow's pid, and the place."""
    _known: set[int] = field(factory=set)  #: the chains that tell of all since their daemon began
    _alike: Counter[str] = field(factory=Counter)
    _odd: list[tuple[str, str, str, str, int]] = field(factory=list)

    def cycle(self, chain: int, event: e.CycleReported) -> None:
        if event.said == "began":
            if (chain, "") in self._begun:
                self._misfit("cycle", event, "a negotiation cycle began, and the one before it did not end")
            self._begun[chain, ""] = "", event.stimulus
        elif event.said == "ended":
            if self._begun.pop((chain, ""), None) is not None:
                self._alike["cycle"] += 1
            elif chain in self._known:
                self._misfit("cycle", event, "a negotiation cycle ended that did not begin")
            self._known.add(chain)

    def shadow(self, chain: int, event: e.JobReported) -> None:
        job, pid = f"{event.cluster}.{event.proc}", event.facts.get("shadow", "")
        if event.said == "shadow_began":
            self._begun[chain, job] = pid, event.stimulus
            return
        begun, _ = self._begun.get((chain, job), ("", ""))
        if pid == begun:
            self._alike["shadow"] += 1
        elif begun:
            self._misfit("shadow", event, f"its shadow {pid} exited, and {begun} had been started", job)
        elif chain in self._known:
            self._misfit("shadow", event, f"its shadow {pid} exited, and none had been started", job)

    def forget(self, chain: int, known: bool) -> None:
        """Forget what was begun: the daemon began (`known`) or ended, or records are missing."""
        self._begun = {key: value for key, value in self._begun.items() if key[0] != chain}
        (self._known.add if known else self._known.discard)(chain)

    def _misfit(self, what: str, event: e.Event, words: str, thing: str = "negotiator") -> None:
        self._odd.append((what, thing, words, event.stimulus, event.at))

    def finish(self, sources: Sources) -> Iterator[AuditFinding]:
        for what, thing, words, stimulus, at in self._odd if len(self._odd) == 1 else ():
            if self._alike[what] >= LEAST_OTHERS:
                file, line = sources.place(stimulus)
                told = (sources.told(at, stimulus, words),)
                yield AuditFinding(thing, "begun", f"{words}: a line was taken out or changed", at, file, line, told)
