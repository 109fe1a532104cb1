"""Audit job event logs: can the entries of each job have been written one after the other?

A log is audited chain by chain (a file with its rotated parts) and job by job, by the table ``ENTRY_RULES``. What real
daemons do is legal: docs/import.md lists it under "Job event logs". The auditor keeps every condition that a job may be
in, all of them where its log begins in the middle and behind anything missing. An entry is a finding if it may come
from none of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pkgutil import get_data
from struct import Struct
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.imported.job_event_log import OF_EXECUTION_POINTS, facts, words_of
from ....domain.imported.record_sources import place_of
from ...audit_result import Audit, AuditFinding
from ...narration.sentence_tables import tables
from ..imported_log import Sources
from .findings import LogParts, finding
from .lost_ends import HistoryAds, LogCoverage, LoggedJob, count_outcomes, find_lost_ends
from .tolerances import LINGERING, MINUTE

# The table of entries (``entry_rules.txt``): the conditions from which each may come, and the job's condition after it


class EntryRule(NamedTuple):
    number: int
    sources: str  #: the conditions from which it may come; blank: any, and the condition stays
    target: str  #: the job's condition after it. With a ``rule``, the one the auditor assumes after the violation.
    rule: str = ""  #: the rule that the entry breaks; empty if it is legal
    repeats: bool = False


def _rule(number: int, sources: str, words: str) -> EntryRule:
    target, _, rule = words.removesuffix(" again").partition(" ! ")
    return EntryRule(number, sources, target, rule, words.endswith(" again"))


_TABLES: Final = tables(get_data(__package__, "entry_rules.txt"))
_CONDITIONS: Final = {name: words.split(", ", 1) for name, words in _TABLES.pop("conditions").items()}
OUTCOMES: Final = {name: outcome for name, (outcome, _) in _CONDITIONS.items()}
DESCRIPTIONS: Final = {name: words for name, (_, words) in _CONDITIONS.items()}
_ENTRIES: Final = {heading.partition(" "): rows for heading, rows in _TABLES.items()}
ENTRY_RULES: Final = tuple(_rule(int(key[0]), *row) for key, rows in _ENTRIES.items() for row in rows.items())
TARGETS: Final = {int(number): target for number, _, target in _ENTRIES}
"""The conditions after an entry that leaves several possible."""
_BY_CONDITION: Final = {(step.number, source): step for step in ENTRY_RULES for source in step.sources.split(", ")}
ANY_CONDITION: Final = frozenset(source for _, source in _BY_CONDITION)
OVER: Final = frozenset({"Completed", "Skipped", "Removed", "Aborting"})
NOT_BEGUN: Final = frozenset({"Submitted", "Idle"})
ON_A_SLOT: Final = frozenset({"Running", "Suspended"})
ELSEWHERE: Final = frozenset({17, 18, 19, 20, 25, 26, 27, 29, 30})
"""The entries of jobs that run elsewhere than on a slot of the pool."""


class EntryEffect(NamedTuple):
    conditions: frozenset[str]  #: the conditions in which the job may be afterwards
    rules: tuple[str, ...]  #: the rules broken, if the entry may come from none of the conditions before
    repeats: bool


@cache
def effect_of(number: int, conditions: frozenset[str]) -> EntryEffect:
    steps = [
        _BY_CONDITION.get((number, condition), EntryRule(number, "", condition)) for condition in sorted(conditions)
    ]
    legal = [step for step in steps if not step.rule]
    rules = () if legal else tuple(step.rule for step in steps)
    return EntryEffect(
        frozenset(step.target for step in legal or steps), rules, bool(legal) and all(step.repeats for step in legal)
    )


OVERLAP: Final = 2_000_000
"""How long two jobs may seem to share a slot, in microseconds: their shadows write with delays."""
RUN_ENDS: Final = (4, 7, 24)  #: the entries after which a shadow may stay for a while
LEASE: Final = 2_400_000_000  #: the default of JobLeaseDuration, in microseconds
ASIDE: Final = 30_000_000
"""How far an entry may lie before the job's previous one, in microseconds: its writer may have to wait."""
_TOLD: Final = 6  #: the number of entries of a job that are kept for its story
_TOLD_OF_ENDED: Final = 3  #: the same of a job that has ended


_Job = tuple[int, int]
_told = Struct("<qIIh")


@define
class _JobHistory:
    """A job as one chain of files tells it."""

    job: _Job
    conditions: frozenset[str]  #: all conditions in which the job may be
    condition: str  #: the one that its last entry names; empty if none did
    epoch: int  #: the chain's epoch when the job was last heard of
    submitted: int = 0  #: an instant; 0 if unknown
    host: str = ""
    last: tuple[int, int, int] = (0, 0, 0)
    """The last entry that changed something: number, instant, and a hash of its text."""
    free: bool = False  #: the job is not audited
    slot: str = ""
    begun: str = ""  #: the place of the entry of its beginning there
    aside: tuple[int, AuditFinding] | None = None
    """An entry that lies before the one above it: the other's instant, and the finding if it is the only one."""
    rival: tuple[_Job, int, str] | None = None  #: another job that began on its slot: the job, the instant, the place
    unreleased: AuditFinding | None = None  #: the finding if its release is not logged next
    trail: bytes = b""


@define
class _EventLog:
    """The jobs and slots of one file with its rotated parts."""

    lives: dict[_Job, _JobHistory] = field(factory=dict)
    slots: dict[str, _Job] = field(factory=dict)
    epoch: int = 0  #: raised by each gap: earlier knowledge is void
    reached: dict[int, int] = field(factory=dict)
    first: int = 0
    last: int = 0
    aside: _JobHistory | None = None  #: the job whose entry lies before the one above it
    parts: LogParts = field(factory=LogParts)
    became: list[tuple[_Job, int, int, str]] = field(factory=list)
    """The jobs whose number went to another: job, submitted, last heard of, outcome."""


@define
class EventLogAuditor:
    """Audits the entries of job event logs in log order: call ``take`` with every event, then ``finish``."""

    sources: Sources
    audit: Audit
    _chains: dict[int, _EventLog] = field(factory=dict)
    _chain_of: dict[int, _EventLog] = field(factory=dict)
    _ads: HistoryAds = field(factory=lambda: HistoryAds(bytearray()))

    def take(self, position: int, event: e.Event) -> None:
        kind = type(event)
        if kind is e.JobLogged:
            assert isinstance(event, e.JobLogged)
            place = place_of(event.stimulus)
            if place is not None and event.number < OF_EXECUTION_POINTS and event.cluster > 0 and event.proc >= 0:
                chain = self._of(place.source)
                if chain.parts.goes_back(place.source):
                    _renew(chain)
                    chain.reached = dict.fromkeys(range(chain.epoch), 0)
                self._entry(chain, event)
        elif kind is e.AdsKept:
            assert isinstance(event, e.AdsKept)
            self._ads.take(event)
        elif kind is e.SourceGap or kind is e.SourceRefused:
            assert isinstance(event, e.SourceGap | e.SourceRefused)
            _renew(self._of(event.source))
        elif kind is e.SourceFound:
            self._chain_of.clear()

    def finish(self) -> None:
        for chain in self._chains.values():
            for life in chain.lives.values():
                self._unreleased(chain, life)
                self._look_for(chain, life)
            chain.parts.report()
        self._compare_ends()
        became = [outcome for chain in self._chains.values() for outcome in _became(chain)]
        self.audit.jobs = count_outcomes((*became, *self._ads.became({job for job, *_ in became})))

    def _of(self, source: int) -> _EventLog:
        if source not in self._chain_of:
            self._chain_of[source] = self._chains.setdefault(self.sources.chain(source), _EventLog())
        return self._chain_of[source]

    def _entry(self, chain: _EventLog, event: e.JobLogged) -> None:
        job, number = (event.cluster, event.proc), event.number
        chain.first = chain.first or event.at
        late = event.at < chain.last - ASIDE or chain.aside is not None
        chain.last = max(chain.last, event.at)
        life = chain.lives.get(job)
        if number == 0:
            life = self._submitted(chain, job, life, event)
        elif life is None:
            life = chain.lives[job] = _JobHistory(job, ANY_CONDITION, "", chain.epoch)
        if life.epoch != chain.epoch:
            life.epoch, life.conditions, life.last = chain.epoch, ANY_CONDITION, (0, 0, 0)
            life.slot, life.rival, life.aside, life.unreleased = "", None, None, None
        if late or life.aside is not None:
            self._aside(chain, life, event)
        self._remember(life, event)
        if number in ELSEWHERE:
            life.free = True
        elif number in TARGETS and number:
            self._judge(chain, life, event)

    def _aside(self, chain: _EventLog, life: _JobHistory, event: e.JobLogged) -> None:
        """Return True if one entry alone lies before the one above it, and the job's next one does not."""
        if chain.aside is not None:
            other, chain.aside = chain.aside, None
            if other.aside is not None and event.at < other.aside[0]:
                other.aside = None
        if life.aside is not None:
            before, moved = life.aside
            life.aside = None
            if event.at >= before:
                chain.parts.add(self.audit.violations, moved)
            return
        above = _last_told(life)
        if event.at < above - ASIDE and not life.free and event.number:
            words = f"it lies {_seconds(above - event.at)} before the job's entry above it, and the next one does not"
            life.aside = above, self._finding(life, event, "backwards", words)
            chain.aside = life

    def _remember(self, life: _JobHistory, event: e.JobLogged) -> None:
        place = place_of(event.stimulus)
        assert place is not None
        numbers = _TOLD_OF_ENDED if life.condition in OVER else _TOLD
        packed = _told.pack(event.at, place.source, place.line, event.number)
        life.trail = (life.trail + packed)[-numbers * _told.size :]

    def _submitted(self, chain: _EventLog, job: _Job, life: _JobHistory | None, event: e.JobLogged) -> _JobHistory:
        """Return the life that an entry 000 begins or repeats."""
        host = facts(0, event.text).get("host", "")
        if life is not None and life.epoch == chain.epoch and life.submitted:
            if life.submitted == event.at:
                self._found(chain, self.audit.repeated, life, event, "repeated", "it was submitted already")
                return life
            if life.condition not in OVER and life.host and host and life.host != host:
                life.free = True  # two access points, one file
                return life
        if life is not None:
            if life.epoch == chain.epoch and not life.free and life.condition in ON_A_SLOT | {"Disconnected"}:
                words = "its number was given to another job, and nothing says that it had ended"
                self._found(chain, self.audit.lost, life, event, "lost", words)
            chain.became.append((job, life.submitted, _last_told(life), life.condition))
            if chain.slots.get(life.slot) == job:
                del chain.slots[life.slot]
        submitted, entry = frozenset({"Submitted"}), (0, event.at, hash(event.text))
        chain.lives[job] = life = _JobHistory(job, submitted, "Submitted", chain.epoch, event.at, host, entry)
        return life

    def _judge(self, chain: _EventLog, life: _JobHistory, event: e.JobLogged) -> None:
        number, before = event.number, life.condition
        self._unreleased(chain, life, number)
        this = (number, event.at, hash(event.text))
        after = effect_of(number, life.conditions)
        # A shadow that has not seen the end writes it from the job's ad, without the table of resources.
        again = number == 5 and bool(after.rules) and before == "Completed" and "Resources" not in event.text
        # A job held and released before its shadow has exited: the schedd logs no hold.
        again |= after.rules == ("not_held",) and life.last[0] in RUN_ENDS and event.at - life.last[1] <= MINUTE
        if this == life.last and number not in (5, 9):
            self._found(chain, self.audit.repeated, life, event, "repeated", "the same entry stands there again")
            return
        if after.rules == ("not_running",) and life.last[0] in RUN_ENDS and event.at - life.last[1] <= MINUTE:
            # The starter reported it as the run ended, and the shadow logs it before it exits.
            self._found(chain, self.audit.repeated, life, event, "repeated", _words(number, before))
            return
        if life.free:
            after = effect_of(number, ANY_CONDITION)
        elif after.repeats or again:
            self._found(chain, self.audit.repeated, life, event, "repeated", _words(number, before))
        elif number == 1 and after.rules == ("held",):
            life.unreleased = self._finding(life, event, "held", _words(number, before))
        elif after.rules:
            self._found(chain, self.audit.violations, life, event, after.rules[0], _words(number, before))
        elif number == 5 and life.conditions <= NOT_BEGUN and "TimeExecute" in event.text:
            words = "it ended after it had run, and no entry says that it began"
            self._found(chain, self.audit.violations, life, event, "unbegun", words)
        life.conditions = after.conditions
        life.condition = TARGETS[number] if TARGETS[number] in after.conditions else min(after.conditions)
        life.last = this
        self._slot(chain, life, event)
        if life.condition in OVER:
            life.trail = life.trail[-_TOLD_OF_ENDED * _told.size :]

    def _unreleased(self, chain: _EventLog, life: _JobHistory, number: int = 0) -> None:
        """Accuse a job that began though it was on hold, unless its release follows: a schedd may log it late."""
        if (early := life.unreleased) is not None and number != 13 and (number or early.at + MINUTE < chain.last):
            chain.parts.add(self.audit.violations, early)
        life.unreleased = None

    def _slot(self, chain: _EventLog, life: _JobHistory, event: e.JobLogged) -> None:
        """Follow which job is on which slot, and find two on one."""
        if event.number in (10, 11):
            return
        if event.number in (4, 5) and life.rival is not None and event.at - life.rival[1] > OVERLAP:
            other, at, stimulus = life.rival
            self._two(chain, life, other, at, stimulus, event)
        if life.slot and chain.slots.get(life.slot) == life.job:
            del chain.slots[life.slot]
        life.slot, life.rival = "", None
        if event.number != 1 or life.free:
            return
        slot = facts(1, event.text).get("slot", "")
        holder = chain.slots.get(slot)
        if holder is not None:
            chain.lives[holder].rival = (life.job, event.at, event.stimulus)
        if slot:
            life.slot, life.begun = slot, event.stimulus
            chain.slots[slot] = life.job

    def _two(
        self, chain: _EventLog, life: _JobHistory, other: _Job, at: int, stimulus: str, event: e.JobLogged
    ) -> None:
        """Report two jobs on one slot. Which of them has a wrong slot or time is not known."""
        if chain.lives[other].free:
            return
        (file, line), (first, its_line) = self.sources.place(stimulus), self.sources.place(life.begun)
        mine, its = _name(life.job), _name(other)
        words = (
            f"job {mine}, which began there by {first}:{its_line} and ended {_seconds(event.at - at)} after that, and "
            f"job {its}, which began by {file}:{line}, are told to have been on it at once"
        )
        story = [*_story(life), (at, stimulus, f"{its}: {words_of(1)}")]
        slot_twice = finding(self.sources, life.slot, "slot_twice", words, story)
        # A shadow that stands still logs the end late: until then the slot's next job seems to run beside it.
        chain.parts.add(self.audit.violations if event.at - at > LINGERING else self.audit.noted, slot_twice)

    def _compare_ends(self) -> None:
        """Report the jobs whose end one log lacks and another source has."""
        lives: list[LoggedJob] = []
        spans: list[LogCoverage] = []
        for number, chain in self._chains.items():
            for life in chain.lives.values():
                if not life.trail or life.free:
                    continue
                at, stimulus, _ = _trail(life)[-1]
                covers = chain.reached.get(life.epoch, chain.last)
                ended = life.condition in OVER
                lives.append(
                    LoggedJob(number, life.job, life.submitted, _access_point(life), ended, at, stimulus, covers)
                )
            if self.sources.kind(number) == "eventlog" and not chain.epoch:
                hosts = frozenset(_access_point(life) for life in chain.lives.values()) - {""}
                spans.append(LogCoverage(number, chain.first, chain.last, hosts))
        for lost, end, at, absent in find_lost_ends(lives, spans, self._ads):
            where = "{}:{}".format(*self.sources.place(end))
            words = f"it ended, says {where}, and this log, which goes on, does not tell of it"
            if absent:
                words = f"it ended, and {self.sources.path(absent)}, which covers its time, tells nothing of it"
            chain = self._chains[lost.chain]
            story = [*_story(chain.lives[lost.job]), (at, end, "its end")]
            self.audit.lost.append(finding(self.sources, _name(lost.job), "lost", words, story, of=-2))

    def _look_for(self, chain: _EventLog, life: _JobHistory) -> None:
        if life.free or life.epoch != chain.epoch:
            return
        words, since = "", 0
        if life.condition in ON_A_SLOT and life.rival is not None:
            words, since = "its slot was given to another job, and nothing says that it had ended", life.rival[1]
        elif life.condition == "Disconnected":
            words, since = "its shadow lost the connection to it, and nothing says what became of it", _last_told(life)
        if words and chain.last - since > LEASE:
            self.audit.lost.append(finding(self.sources, _name(life.job), "lost", words, _story(life)))

    def _found(
        self, chain: _EventLog, to: list[AuditFinding], life: _JobHistory, event: e.JobLogged, rule: str, words: str
    ) -> None:
        chain.parts.add(to, self._finding(life, event, rule, words))

    def _finding(self, life: _JobHistory, event: e.JobLogged, rule: str, words: str) -> AuditFinding:
        story = _story(life)
        if not story or story[-1][1] != event.stimulus:
            story.append((event.at, event.stimulus, words_of(event.number)))
        return finding(self.sources, _name(life.job), rule, words, story)


def _renew(chain: _EventLog) -> None:
    chain.reached[chain.epoch] = chain.last
    chain.epoch += 1
    chain.slots.clear()
    chain.aside = None


def _name(job: _Job) -> str:
    return f"{job[0]}.{job[1]}"


def _access_point(life: _JobHistory) -> str:
    """Return the address of the access point without the part that changes at a restart."""
    return life.host.partition("?")[0].strip("<>")


def _trail(life: _JobHistory) -> list[tuple[int, str, int]]:
    return [(at, f"{source}:{line}", number) for at, source, line, number in _told.iter_unpack(life.trail)]


def _story(life: _JobHistory) -> list[tuple[int, str, str]]:
    return [(at, stimulus, words_of(number)) for at, stimulus, number in _trail(life)]


def _last_told(life: _JobHistory) -> int:
    trail = _trail(life)
    return trail[-1][0] if trail else 0


def _words(number: int, before: str) -> str:
    return f"{words_of(number)}, though it was {DESCRIPTIONS[before]}"


ENDED_AGAIN: Final = _words(5, "Completed")


def _seconds(span: int) -> str:
    return f"{span / 1e6:g} s"


def _became(chain: _EventLog) -> Iterator[tuple[_Job, int, int, bool, str]]:
    """Yield the outcome of each job of a chain: job, submitted, last heard of, ended, outcome."""
    lives = [(life.job, life.submitted, _last_told(life), life.condition) for life in chain.lives.values()]
    for job, submitted, at, condition in (*chain.became, *lives):
        yield job, submitted, at, condition in OVER, OUTCOMES[condition]
