"""The sentences and answers of ``why``, and the requests and evidence to which they refer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import cache

from attrs import define, evolve, field, frozen

from ...domain import events as e
from ...domain.errors import PoolbookError
from .evaluation_texts import full_evidence, values
from .formatting import instant, iso
from .sentence_tables import ADVICE, EXPLAINS, REJECTIONS, UNDOES, WORDS, cause_words, step_name

LEAST = -1.7e308  #: a rank below this is not a number
MOST_LINES = 5  #: the maximum number of lines in an answer without evidence


REQUEST_CAUSES = frozenset(
    {
        "vacate_command",
        "user_vacate",
        "drain_command",
        "defrag",
        "slots_changed",
        "draining",
        "shutdown",
        "better_match",
        "device_failed",
    }
)
"""The causes by which a claim begins to end, other than the slot's policy."""


def preference_text(reason: str, job: str, holder: str = "", kind: str = "") -> str:
    """Return why a slot that ``holder`` uses was matched with another job; empty if the match preempts no job."""
    template = REJECTIONS["preferred"].get(f"{reason}{kind or (' to' if holder else '')}")
    return "" if template is None else f": {template.format(job=job, holder=holder)}"


def preemption_text(match: e.Match, job: str, holder: str = "") -> str:
    """Return which jobs a match preempts, and why, or an empty string if none."""
    if not match.preempts:
        return preference_text(match.reason, job, holder)
    reason = preference_text(match.reason, job, kind=" of parts")
    return f", which takes the resources of {', '.join(match.preempts)}{reason}"


def rank_text(match: e.Match) -> str:
    """Return the ranks for which the negotiator chose a slot, without ranks that are 0 or not numbers."""
    ranks = {
        "Rank": match.rank,
        "NEGOTIATOR_PRE_JOB_RANK": match.pre,
        "NEGOTIATOR_POST_JOB_RANK": match.post,
        "PREEMPTION_RANK": match.preemption,
    }
    return ", ".join(f"{name} {value:.12g}" for name, value in ranks.items() if value and value > LEAST)


class UnknownThingError(PoolbookError, LookupError):
    """The log has no such job or slot.

    >>> pool.why("99.0")
    Traceback (most recent call last):
    UnknownThingError: ...
    """


@frozen
class Sentence:
    """A sentence about the event at ``position`` and ``at`` (microseconds): the code of its template, and the facts to
    insert. ``cause`` and ``stimulus`` are the event's, except that the end of a run has the run's cause
    (``runs/run_end_causes.py``). For an import, ``places`` are the locations of the cited records. ``later`` has facts
    that only later records show: the life of a job reports them separately, but an answer inserts them."""

    at: int
    position: int
    code: str
    facts: dict[str, str]
    cause: str
    stimulus: str
    places: tuple[str, ...] = ()
    later: dict[str, str] = field(factory=dict)

    @property
    def text(self) -> str:
        """The sentence without its evidence."""
        return fill(WORDS[self.code], self.facts)

    @property
    def full(self) -> str:
        """The sentence with its evidence and the locations of the cited records."""
        places = f" [{', '.join(self.places)}]" if self.places else ""
        return fill(WORDS[self.code], self.facts, verbose=True) + places

    @property
    def with_later_facts(self) -> Sentence:
        """The sentence, including the facts from later records."""
        return evolve(self, facts=self.facts | self.later)

    def restate(self, code: str, facts: dict[str, str]) -> Sentence:
        """Return another sentence about the same event."""
        return Sentence(self.at, self.position, code, facts, self.cause, self.stimulus)

    def as_dict(self) -> dict[str, object]:
        """Return the sentence as JSON-compatible values."""
        return {
            "at": iso(self.at), "position": self.position, "text": self.text, "full": self.full, "code": self.code,
            "facts": self.facts, "places": list(self.places), "cause": self.cause, "stimulus": self.stimulus,
        }  # fmt: skip


@frozen
class Explanation:
    """An explanation of the state of a job, slot or cluster: ``lines`` are its status, the last steps that led to it,
    and advice; ``life`` is its whole history in chronological order."""

    lines: tuple[Sentence, ...]
    life: tuple[Sentence, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


def answer(head: Sentence, steps: Iterable[Sentence], advice: Sentence | None, life: Sequence[Sentence]) -> Explanation:
    """Return an answer of at most ``MOST_LINES`` different lines: the head, the steps (the most important first) and
    the advice."""
    room = MOST_LINES - 1 - (advice is not None)
    by_text: dict[str, Sentence] = {}
    for step in steps:
        by_text.setdefault(step.text, step)
    return Explanation((head, *list(by_text.values())[:room], *([advice] if advice is not None else [])), tuple(life))


def explaining_steps(chain: Sequence[Sentence], since: Sentence) -> Iterator[Sentence]:
    """Yield the steps of a slot that explain its last step (``since``), the latest first. Steps that a later step undid
    are left out."""
    undone_codes: frozenset[str] = frozenset()
    for step in reversed(chain):
        name = step_name(step.code)
        if step is not since and name in EXPLAINS and name not in undone_codes:
            yield step
        undone_codes |= UNDOES.get(name, frozenset())


def advise(code: str, since: Sentence, **facts: str) -> Sentence:
    """Return a sentence with advice for the user, dated like another sentence."""
    assert code in ADVICE, code
    return since.restate(code, facts)


def dated_line(sentence: Sentence, zone: tzinfo = UTC) -> str:
    """Return a line of a history: the time in ``zone``, and the sentence with its evidence."""
    return f"{instant(sentence.at, zone)}  {sentence.full}"


@define
class StimulusContext:
    """The user requests and the evaluated expressions in a log, by stimulus."""

    requests: dict[str, e.RequestAnswered] = field(factory=dict)
    evidence: dict[str, list[e.EvaluationRecorded]] = field(factory=dict)
    noted: dict[int, e.EvaluationRecorded] = field(factory=dict)  #: the same evidence by its position

    def add_event(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.RequestAnswered):
            self.requests[event.stimulus] = event
        elif isinstance(event, e.EvaluationRecorded):
            self.evidence.setdefault(event.stimulus, []).append(event)
            self.noted[position] = event

    def decision_facts(
        self, event: e.SlotTransitioned | e.JobsTransitioned | e.JobSignalled | e.JobExited | e.JobActivated
    ) -> dict[str, str]:
        """Return the facts (``evidence_facts``) of the expression that decided a transition; empty if none did."""
        note = self.noted.get(event.evidence)
        return evidence_facts(note) if note else {}

    def expression_facts(self, event: e.Event, name: str) -> dict[str, str]:
        """Return the facts of the last expression that the event's decision evaluated and whose name begins with
        `name`."""
        notes = [note for note in self.evidence.get(event.stimulus, ()) if note.name.startswith(name)]
        return evidence_facts(notes[-1]) if notes else {}

    def cause_text(self, event: e.Event) -> str:
        """Return the clause for an event's cause, with the user who requested it, and the slot or job to vacate."""
        request, row = self.requests.get(event.stimulus), getattr(event, "row", "")
        if request is None:
            return cause_words(event.cause, row)
        vacated_text = "the job" if request.arguments.startswith("{") else request.arguments
        return cause_words(event.cause, row, by=request.user, thing=vacated_text)


def evidence_facts(note: e.EvaluationRecorded) -> dict[str, str]:
    """Return an expression's facts: its ``name``, short ``values``, and full ``evidence``."""
    return {"name": note.name, "values": values(note), "evidence": full_evidence(note)}


def events_until(events: Iterable[e.LoggedEvent], at: int | None) -> Iterable[e.LoggedEvent]:
    """Yield the events up to the instant `at`, or None for all."""
    return events if at is None else ((position, event) for position, event in events if event.at <= at)


_FACT = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"\[([^\[\]]*)\]")
_DOTS = re.compile(r"(?<!\.)\.{2}(?!\.)|\.{4,}")
_EXPRESSION = re.compile(r" expression '.*'(?= evaluated to )")
"""The expression in a schedd's message about a policy, which follows the policy's name."""
_TRUTH = re.compile(r" == (True|False)\b")  #: the end of a condition in the negotiator's log
_EVIDENCE = re.compile(r"<<(.*?)>>")
_SMALL = frozenset({"a", "all", "every", "it", "its", "job", "jobs", "no", "none", "of", "the", "what"})
LONGEST = 120  #: the maximum length of a fact in a sentence without evidence
LINE = 200  #: the length of a sentence without evidence above which facts in ``_UNCUT`` are shortened
_UNCUT = {"reason", "hold", "advice"}  #: facts that are cut only if the sentence is too long, and in the middle
_LISTS = {"cause", "evictions"}  #: facts whose short parts are never cut


def fill(template: str, facts: Mapping[str, str], verbose: bool = False) -> str:
    """Insert facts into a template. With ``verbose``, include the evidence and do not shorten facts.

    ``{name}`` is a fact. A part in ``[...]`` is left out if one of its facts is missing. A part in ``<<...>>`` is
    evidence, which is left out unless ``verbose``. Parts may be nested.
    """
    filled = _select_part(template, verbose)
    while (reduced := _PART.sub(lambda part: _fill_part(part[1], facts), filled)) != filled:  # the innermost first
        filled = reduced
    short = (
        facts
        if verbose
        else {name: text if name in _UNCUT | _LISTS else cut_text(text) for name, text in facts.items()}
    )
    text = _FACT.sub(lambda fact: short.get(fact[1], ""), filled)
    for name in sorted(_UNCUT & facts.keys()) if len(text) > LINE and not verbose else ():
        fact_length = max(LONGEST, len(facts[name]) - (len(text) - LINE))
        text = text.replace(facts[name], _without_middle(_EXPRESSION.sub("", facts[name]), fact_length))
    text = _DOTS.sub(lambda dots: "." if len(dots[0]) == 2 else "...", text)
    return f"{text[:1].upper()}{text[1:]}" if filled.startswith("{") and text.partition(" ")[0] in _SMALL else text


def _fill_part(part: str, facts: Mapping[str, str]) -> str:
    return part if all(facts.get(name) for name in _FACT.findall(part)) else ""


@cache
def _select_part(template: str, verbose: bool) -> str:
    return _EVIDENCE.sub(r"\1" if verbose else "", template)


def _without_middle(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    begin = text[: length // 2 - 5].rpartition(" ")[0] or text[: length // 2 - 5]
    return f"{begin} ... {text[-(length - len(begin) - 5) :].partition(' ')[2]}"


def cut_text(text: str, length: int = LONGEST) -> str:
    """Return a text without its expression, cut between words to at most `length` characters."""
    text = _TRUTH.sub(lambda truth: f" is {truth[1].lower()}", _EXPRESSION.sub("", text))
    if len(text) <= length:
        return text
    beginning = text[: length - 3].rpartition(" ")[0] or text[: length - 3]
    return f"{beginning.rstrip(' ,;:')}..."
