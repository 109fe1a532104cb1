"""A job's history in sentences (``JobLife``), and the answer built from it.

``own_job`` reads the history from a pool's own events, ``imported_job`` from HTCondor records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Final, NamedTuple

from ...domain import events as e
from ...domain.units import SECOND
from ..narration.formatting import counted, instant
from ..narration.sentences import Explanation, Sentence, advise, answer, cut_text
from ..runs.run_end_causes import CAUSES, UNKNOWN

IDLE, RUNNING, SUSPENDED, HELD, REMOVED, COMPLETED = "idle", "running", "suspended", "held", "removed", "completed"
ON_SLOT: Final = (RUNNING, SUSPENDED)  #: the statuses of jobs on slots
HAS_LEFT: Final = (COMPLETED, REMOVED)
_STARTS: Final = frozenset({"started", "started_local", "started_there"})
_EVICTIONS: Final = frozenset({"evicted", "requeued", "over_there", "run_over", "shadow_left"})
"""The codes of sentences that report an eviction, unless their fact ``did`` is "ended"."""
_WHY: Final = ("why", "died", "log", "said")  #: the facts with the cause of an eviction, the most important first
_LONGEST: Final = 92  #: the maximum number of characters of all causes together
_LISTED: Final = 3  #: the maximum number of evictions to list one by one
_BY_USER: Final = re.compile(
    r"(?:via (?P<tool>condor_\w+|poolbook [a-z -]+)|(?P<reason>.*)) \(by user (?P<by>[^\s()]+)\)\.?", re.DOTALL
)
"""The reason that HTCondor records for a hold, release or removal by a user."""


class Situation(NamedTuple):
    """The parts of an answer: the code of its first line, the explaining sentences (the most important first), and the
    code of the advice with its facts."""

    head: str
    steps: Sequence[Sentence]
    advice: str
    advice_facts: Mapping[str, str] = {}


class JobLife:
    """A job's status and history up to an event: ``chain`` has a sentence for each step."""

    def __init__(self, cluster: int, proc: int, zone: tzinfo) -> None:
        self.cluster, self.proc, self.zone = cluster, proc, zone
        self.name = f"{cluster}.{proc}"
        self.chain: list[Sentence] = []
        self.status = ""  #: the status in the first line (``job_idle``), or empty if unknown
        self.since: Sentence | None = None  #: the step that led to the status
        self.slot = ""  #: the slot on which it runs, or ran last

    @property
    def current_slot(self) -> str:
        """The current slot; empty if there is none."""
        return self.slot if self.status in ON_SLOT else ""

    def sentence(self, position: int, event: e.Event, code: str, **facts: str) -> Sentence:
        return Sentence(event.at, position, code, {"job": self.name, **facts}, event.cause, event.stimulus)

    def narrate(self, position: int, event: e.Event, code: str, **facts: str) -> Sentence:
        """Add the sentence of an event to the history, and return it."""
        self.chain.append(self.sentence(position, event, code, **facts))
        return self.chain[-1]

    def restate(self, sentence: Sentence, code: str, **facts: str) -> Sentence:
        """Return another sentence about the event that a sentence describes."""
        return sentence.restate(code, {"job": self.name, **facts})

    def about_now(self, code: str, **facts: str) -> Sentence:
        """Return a sentence about the current situation, dated like the step that led to it."""
        return self.restate(self.since or self.chain[-1], code, **facts)

    def code_with_user(self, code: str, reason: str) -> tuple[str, dict[str, str]]:
        """Return the code and the facts of a hold, release or removal with this reason. If a user requested it, the
        code ends in "_by_user" and the facts name the user."""
        runs = sum(sentence.code in _STARTS for sentence in self.chain)
        facts = {"runs": counted(runs, "run") if runs and code == "removed" else ""}
        match = _BY_USER.fullmatch(reason)
        if match is None:
            return code, {**facts, "reason": reason}
        groups = {name: text or "" for name, text in match.groupdict().items()}
        return f"{code}_by_user", {**facts, **groups}

    def answer(self, situation: Situation, sentences: Sequence[Sentence]) -> Explanation:
        since = self.since or self.chain[-1]
        facts = {"since": instant(since.at, self.zone), "slot": self.current_slot, "how": since.facts.get("how", "")}
        head = self.restate(since, situation.head, **facts)
        advice_facts = {"job": self.name, "slot": self.current_slot, **situation.advice_facts}
        advice = advise(situation.advice, head, **advice_facts) if situation.advice else None
        steps = [step.with_later_facts for step in (*situation.steps, *self._evictions(since))]
        return answer(head, steps, advice, sentences)

    def _evictions(self, since: Sentence) -> Iterable[Sentence]:
        """Yield a sentence about the evictions before the step that led to the job's status: the time and cause of
        each, or if there are many, the number of evictions for each cause."""
        evictions = [s.with_later_facts for s in self.chain if s.code in _EVICTIONS and s.facts.get("did") != "ended"]
        evictions = [s for s in evictions if since.at - s.at > 2 * SECOND]  # an eviction then is the same step
        if not evictions:
            return
        causes = [_cause(sentence) for sentence in evictions]
        length = _LONGEST // min(len(set(causes)), _LISTED)
        if len(evictions) == 1:
            texts = [f"because {cut_text(causes[0], _LONGEST)}"]
        elif len(evictions) <= _LISTED:
            texts = [
                f"at {instant(sentence.at, self.zone).split()[-1]} because "
                f"{cut_text(cause, _LONGEST // len(evictions))}"
                for sentence, cause in zip(evictions, causes, strict=True)
            ]
        else:
            counts = Counter(causes).most_common(_LISTED)
            count_texts = [f"{_times(count)} " if len(counts) > 1 else "" for _, count in counts]
            texts = [
                f"{times}because {cut_text(cause, length)}"
                for times, (cause, _) in zip(count_texts, counts, strict=True)
            ]
        facts = {"times": _times(len(evictions)), "cause" if len(texts) == 1 else "evictions": "; ".join(texts)}
        facts["last" if len(evictions) > 1 else "on"] = instant(evictions[-1].at, self.zone)
        yield self.restate(evictions[-1], "evicted_before", **facts)


def _cause(eviction: Sentence) -> str:
    if eviction.code == "requeued":
        return "it ended, and was to run again"
    known_causes = (text for name in _WHY if (text := eviction.facts.get(name, "")))
    return next(known_causes, CAUSES.get(eviction.cause, UNKNOWN).clause)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
