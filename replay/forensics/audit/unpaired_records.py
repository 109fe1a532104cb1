"""Find records that one of two files lacks, or has at another time, though both files record the same things.

A match is in the MatchLog and the NegotiatorLog; a shadow's start in the SchedLog and the epoch history, its end
there, in the epoch history and the startd's history; an entry in the user's log and the EventLog; a job that left the
queue in job_queue.log and the history. Records of a job are paired by their times.

A suspicion alone is not reported: a pair of files is compared only if each exists once and has no gap, if they agree
on at least ``AGREED`` records, and if one change explains all differences. Records that may be missing because a daemon
died are left out, and so is the end of a log that may have been copied before the other one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from attrs import define, field

from ....domain.imported.record_sources import KINDS, NOT_SWITCHED
from ....domain.units import SECOND
from ...audit_result import AuditFinding
from ..imported_log import Sources
from .compared_facts import LETTERS
from .event_log_facts import JobRecord
from .findings import Misfits, finding
from .job_ad_facts import COMPLETED, REMOVED, Ad, date, text_of, whole
from .tolerances import ANY, FAR, LINGERING, MINUTE, NEAR

AGREED: Final = 3  #: records that both files have, before one that a file lacks counts
GOES_ON: Final = 5 * SECOND  #: how long records must continue behind one that a file lacks
LEAVING: Final = MINUTE
"""How long a shadow may stay after it wrote how its run ended: it waits for the starter (20 s) and for the startd."""
DYING: Final = SECOND  #: records so shortly before a daemon's last one may not have reached every file

Job = tuple[int, int]
_Position = tuple[int, int]  #: an instant and a line
Deaths = dict[str, list[tuple[int, int]]]
"""The deaths of daemons by the letters of their logs: each from the daemon's last record to its next start, or to the
instant that its master logged."""


class PairRule(NamedTuple):
    """Two kinds of sources (letters) that record the same thing, its name, and how far their times may be apart.
    `required`: whether the second must have each record of the first, and the first each of the second. `daemons`: the
    letters of the daemons whose death may lose a record. `least`: how many records the two must agree on."""

    first: str
    second: str
    what: str
    slack: int
    daemons: str
    required: tuple[bool, bool] = (True, True)
    least: int = AGREED


PAIRS: Final = {
    "matched": PairRule("N", "M", "a match", 0, "N", least=1),
    "rejected": PairRule("N", "M", "a rejection", 0, "N"),
    "began": PairRule("D", "P", "the start of a shadow", MINUTE, "D"),
    "ended": PairRule("D", "P", "the end of a shadow's run", LINGERING, "D"),
    "ran": PairRule("D", "S", "the end of a run", LINGERING, "DL", (True, False)),
    "entry": PairRule("E", "U", "an entry", NEAR, "D"),
    "left": PairRule("Q", "H", "that the job left the queue", ANY, "D", (True, False)),
}
ENTRIES: Final = frozenset({0, 1, 4, 5, 9, 12, 13})
"""The entries that every job event log has."""
DONE: Final = frozenset({"100", "115"})
"""The exit statuses of a shadow whose job exited."""
OVER: Final = DONE | {"102", "103", "107", "112", "113"}  #: the exit statuses of a shadow whose run ended
SPAWNED: Final = OVER - {"112"} | {"108", "116"}
"""The exit statuses of a shadow that logged its start: one that cannot open the job's log holds the job before."""


class PairedRecord(NamedTuple):
    """A record that both files of a pair should have; ``key`` must be the same in both."""

    at: int
    key: str
    stimulus: str
    chain: int
    must: bool = True  #: the other file has it, too


class UnpairedRecord(NamedTuple):
    """A record that one of two files has, and the unpaired record of the same thing in the other file, if any."""

    rule: PairRule
    job: Job
    record: PairedRecord
    letter: str
    other: PairedRecord | None = None
    again: bool = False  #: the same file has another such record, which the other file has
    whole: bool = False  #: the other file has no record of the job


@define
class FileSpan:
    """The time that a file (of that letter) covers."""

    letter: str
    first: int
    last: int
    over: bool = False  #: its daemon has ended
    silences: list[tuple[int, int]] = field(factory=list)  #: the times without records

    def silent(self, until: int) -> None:
        """Note the time since the last record, if that is long."""
        if until - self.last > 2 * FAR:
            self.silences.append((self.last, until))

    def tells_of(self, at: int) -> bool:
        """Return True if the file has records around an instant, so that its daemon did not stand still then."""
        within = self.first - NEAR < at < self.last + NEAR
        return within and not any(since + NEAR < at < until - NEAR for since, until in self.silences)


@define
class UnpairedRecords:
    """Takes the records of each job (``take``); then ``finish`` yields the findings."""

    sources: Sources
    spans: Mapping[int, FileSpan]
    deaths: Deaths
    gaps: Mapping[int, Sequence[int]]
    ended: int  #: the last instant of all records
    agreed: dict[tuple[str, int, int], int] = field(factory=dict)
    alone: dict[tuple[str, int, int], list[UnpairedRecord]] = field(factory=dict)
    _chains: dict[str, set[int]] = field(factory=dict)
    noted: list[AuditFinding] = field(factory=list)
    _paired: dict[tuple[int, int], tuple[_Position, _Position]] = field(factory=dict)
    """The first and the last record of a file that another one has, too, by both chains."""
    _users: dict[str, dict[Job, tuple[set[int], list[PairedRecord]]]] = field(factory=dict)
    """The jobs of each user's log, by its path: the chains that have them, and what the EventLog has of them."""
    _unworded: Misfits = field(factory=Misfits)
    """The matches of a NegotiatorLog without the line that all other matches have."""

    def take(self, job: Job, heard: Sequence[JobRecord]) -> None:
        for r in heard:
            if r.letter == "N" and r.what == "matched" and r.chain not in self.gaps:
                self._unworded.judge(r.chain, "startd" in json.loads(r.body), partial(self._not_worded, job, r))
        paired = _paired_records(heard)
        ads = [json.loads(record.body) for record in heard if record.letter in "HQ"]
        if any("StageInStart" in ad for ad in ads):
            paired = {key: logs for key, logs in paired.items() if key[0] != "entry"}  # its log continues in the spool
        for name, rule in PAIRS.items():
            for letter in (rule.first, rule.second):
                self._chains.setdefault(letter, set()).update(paired.get((name, letter), ()))
            self._pair(name, rule, job, paired)
        log = next((path for ad in ads if (path := text_of(ad, "UserLog"))), "")
        pool_wide = list(paired.get(("entry", "E"), {}).values())
        if log and len(pool_wide) == 1:
            self._users.setdefault(log, {})[job] = {r.chain for r in heard if r.letter == "U"}, pool_wide[0]

    def _pair(
        self,
        name: str,
        rule: PairRule,
        job: Job,
        records: Mapping[tuple[str, str], dict[int, list[PairedRecord]]],
    ) -> None:
        mine, theirs = records.get((name, rule.first), {}), records.get((name, rule.second), {})
        if name == "entry" and not theirs:
            return  # a job need not have its own log
        for chain in mine or {0: []}:
            for other in theirs or {0: []}:
                first, second = mine.get(chain, []), theirs.get(other, [])
                both, first_left, second_left = _paired(first, second, rule.slack)
                key = (name, chain, other)
                self.agreed[key] = self.agreed.get(key, 0) + len(both)
                for pair in both:
                    self._reach(*pair)
                pairs = list(_alone(rule, job, first_left, second_left, first, second))
                if pairs:
                    self.alone.setdefault(key, []).extend(pairs)

    def _reach(self, record: PairedRecord, other: PairedRecord) -> None:
        """Extend the part of each file that the other one covers."""
        for mine, its in ((record, other), (other, record)):
            at = _position(mine)
            first, last = self._paired.get((mine.chain, its.chain), (at, at))
            self._paired[mine.chain, its.chain] = min(first, at), max(last, at)

    def finish(self) -> Iterator[AuditFinding]:
        self._absent()
        for name, rule in PAIRS.items():
            yield from self._judge(name, rule)
        yield from self._unworded.of_each_kind()

    def _judge(self, name: str, rule: PairRule) -> Iterator[AuditFinding]:
        pools = self._chains.get(rule.first, set()), self._chains.get(rule.second, set())
        if len(pools[0]) != 1 or (len(pools[1]) != 1 and name != "entry"):
            return  # several daemons of a kind: which one wrote a record is not certain
        (first,) = pools[0]
        noted: list[AuditFinding] = []
        for second in sorted(pools[1]):
            if first in self.gaps or second in self.gaps:
                continue
            unpaired = [
                alone
                for chain, other in ((first, second), (first, 0), (0, second))
                for alone in self.alone.get((name, chain, other), ())
            ]
            agreed = self.agreed.get((name, first, second), 0)
            if name == "entry":  # users' logs are all written alike
                agreed = sum(self.agreed.get((name, first, chain), 0) for chain in pools[1])
            moved = name == "entry" and _moved_alike(unpaired)
            lacks = {rule.first: second, rule.second: first}
            unpaired = [record for record in _without_disputed(unpaired) if moved or self._certain(record)]
            cut = [] if moved else [record for record in unpaired if self._may_be_cut(record, lacks[record.letter])]
            if agreed < rule.least:
                continue
            if (record := _single([record for record in unpaired if record not in cut], moved)) is not None:
                yield self._finding(record, lacks[record.letter])
            elif (record := _single(cut)) is not None:
                noted.append(self._finding(record, lacks[record.letter], ", unless the file was cut there"))
        self.noted += noted if len(noted) == 1 else []

    def _absent(self) -> None:
        """Note the jobs that a user's log lacks, though it has all others whose ads name it."""
        rule = PAIRS["entry"]
        for jobs in self._users.values():
            for chain in set[int]().union(*(chains for chains, _ in jobs.values())):
                lacking = [(job, records) for job, (chains, records) in jobs.items() if chain not in chains]
                if len(lacking) == 1 and len(jobs) > AGREED:
                    job, records = lacking[0]
                    entries = [UnpairedRecord(rule, job, record, rule.first, whole=True) for record in records]
                    inside = [record for record in entries if not self._may_be_cut(record, chain)]
                    self.alone.setdefault(("entry", records[0].chain, chain), []).append([*inside, *entries][0])

    def _not_worded(self, job: Job, match: JobRecord) -> AuditFinding:
        words = "the negotiator tells of each other match in a line 'Matched ...', too: that of this one was taken out"
        record = (match.at, f"{match.source}:{match.line}", words)
        return finding(self.sources, "{}.{}".format(*job), "unpaired", words, [record])

    def _may_be_cut(self, alone: UnpairedRecord, lacking: int) -> bool:
        """Return True if the file that lacks a record has nothing before it or nothing behind it: its older part may be
        gone, or it was copied earlier than the other file."""
        if alone.other is not None:
            return False
        at, span = alone.record.at, self.spans.get(lacking)
        if span is not None and span.first < at < span.last:
            return False
        first, last = self._paired.get((alone.record.chain, lacking), ((at, 0), (at, 0)))
        if alone.letter in "EMNU":  # a daemon writes both of its logs in the same order
            return not first < _position(alone.record) < last
        return not first[0] < at < last[0]

    def _certain(self, alone: UnpairedRecord) -> bool:
        """Return True if the other file, unless it was cut, would have the record."""
        at, rule = alone.record.at, alone.rule
        if not alone.record.must:
            return False
        if alone.other is not None:
            first_told, last_told = sorted((at, alone.other.at))
            waited = (death for letter in {*rule.daemons, "L"} for death in self.deaths.get(letter, ()))
            if any(since <= last_told and first_told <= until + DYING for since, until in waited):
                return False  # a daemon that died kept the other one waiting
            return rule is not PAIRS["entry"]  # the audit of facts has these
        stays = LEAVING if rule is PAIRS["ended"] and alone.letter == "P" else 0
        behind = 0 if alone.letter in "MN" else GOES_ON  # one daemon writes both, line by line
        if not rule.required[0 if alone.letter == rule.first else 1] or at + max(stays, behind) > self.ended:
            return False
        deaths = (death for letter in rule.daemons for death in self.deaths.get(letter, ()))
        return not any(since - max(stays, DYING) <= at <= until + DYING for since, until in deaths)

    def _finding(self, alone: UnpairedRecord, lacking: int, unless: str = "") -> AuditFinding:
        rule, record = alone.rule, alone.record
        mine, theirs = KINDS[LETTERS[alone.letter]].name, self.sources.path(lacking).rpartition("/")[2]
        what = f"{rule.what} {record.key}".rstrip()
        story = [(record.at, record.stimulus, f"{what}, says {mine}")]
        if alone.other is not None and alone.other.key != record.key:
            words = f"{what}, says {mine}; {alone.other.key}, says {theirs}: one of them was changed"
            story.append((alone.other.at, alone.other.stimulus, f"{alone.other.key}, says {theirs}"))
        elif alone.other is not None:
            by = abs(alone.other.at - record.at) / SECOND
            order = "after" if record.at > alone.other.at else "before"
            words = f"{what}: {mine} has it {by:g} s {order} {theirs}: the time of one was changed"
            story.append((alone.other.at, alone.other.stimulus, f"the same, says {theirs}"))
        elif alone.again:
            words = f"{what} stands in {mine} once more than in {theirs}: it was put in here, or taken out there"
        else:
            words = f"{what} is told by {mine}, and {theirs} lacks it: it was taken out there{unless}"
        return finding(self.sources, "{}.{}".format(*alone.job), "unpaired", words, story, of=0)


def _single(records: Sequence[UnpairedRecord], moved: bool = False) -> UnpairedRecord | None:
    """Return the only record, or the first of a job's entries that one file lacks altogether, or that were `moved`."""
    one_job = len({(alone.job, alone.letter) for alone in records if alone.rule is PAIRS["entry"]}) == 1
    return records[0] if len(records) == 1 or (one_job and (moved or records[0].whole)) else None


def _without_disputed(records: Sequence[UnpairedRecord]) -> list[UnpairedRecord]:
    """Leave out what both files tell at one time of different things: the audit of facts has that."""
    left = list(records)
    for alone in records:
        if alone.rule.what != "a match" or alone not in left:
            continue
        at = alone.record.at
        twin = next(
            (
                other
                for other in left
                if other.letter != alone.letter and other.other is None and abs(other.record.at - at) <= NEAR
            ),
            None,
        )
        if twin is not None and alone.other is None:
            left.remove(alone)
            left.remove(twin)
    return left


def _position(record: PairedRecord) -> _Position:
    return record.at, int(record.stimulus.partition(":")[2])


def _moved_alike(records: Sequence[UnpairedRecord]) -> bool:
    """Return True if one file has several entries of one job, and only these, at another time by the same amount."""
    moved = {(alone.job, alone.record.at - alone.other.at) for alone in records if alone.other is not None}
    return len(records) > 1 and len(moved) == 1 and all(alone.other is not None for alone in records)


def _paired(
    first: Sequence[PairedRecord], second: Sequence[PairedRecord], slack: int
) -> tuple[list[tuple[PairedRecord, PairedRecord]], list[PairedRecord], list[PairedRecord]]:
    """Pair records in the order of time; return the pairs, and what is left of each side."""
    both, left, right = list[tuple[PairedRecord, PairedRecord]](), list[PairedRecord](), list[PairedRecord]()
    for key in dict.fromkeys(record.key for record in (*first, *second)):
        # Of two at one time the one that the other file must have: a job held at its exit has two EPOCH ads.
        mine, theirs = (
            sorted((record for record in side if record.key == key), key=lambda record: (record.at, not record.must))
            for side in (first, second)
        )
        while mine and theirs:
            _leave_farther(theirs, right, mine)
            _leave_farther(mine, left, theirs)
            if abs(mine[0].at - theirs[0].at) <= slack:
                both.append((mine.pop(0), theirs.pop(0)))
            elif mine[0].at < theirs[0].at:
                left.append(mine.pop(0))
            else:
                right.append(theirs.pop(0))
        left += mine
        right += theirs
    return both, left, right


def _leave_farther(side: list[PairedRecord], unpaired: list[PairedRecord], others: Sequence[PairedRecord]) -> None:
    """Move records of which the other file has none, or may have none, out of the way of one that is nearer to its
    next."""
    at = others[0].at
    while (
        len(side) > 1 and (len(side) > len(others) or not side[0].must) and abs(side[1].at - at) < abs(side[0].at - at)
    ):
        unpaired.append(side.pop(0))


def _alone(
    rule: PairRule,
    job: Job,
    left: list[PairedRecord],
    right: list[PairedRecord],
    first: Sequence[PairedRecord],
    second: Sequence[PairedRecord],
) -> Iterator[UnpairedRecord]:
    theirs = list(right)
    for record in left:
        other = next((its for its in theirs if its.key == record.key), None)
        if other is None and rule is PAIRS["rejected"]:
            other = next((its for its in theirs if its.at == record.at), None)
        if other is not None:
            theirs.remove(other)
        again = sum(1 for its in first if its.key == record.key and its.at == record.at) > 1
        if record.must or (other is not None and other.must):
            yield UnpairedRecord(rule, job, record._replace(must=True), rule.first, other, again, not second)
    for record in theirs:
        again = sum(1 for its in second if its.key == record.key and its.at == record.at) > 1
        if record.must:
            yield UnpairedRecord(rule, job, record, rule.second, None, again, not first)


def _paired_records(heard: Iterable[JobRecord]) -> dict[tuple[str, str], dict[int, list[PairedRecord]]]:
    """Return what a job's records tell that other files tell, too: by the pair's name, the letter and the chain."""
    paired: dict[tuple[str, str], dict[int, list[PairedRecord]]] = {}

    def add(name: str, record: JobRecord, at: int, key: str = "", must: bool = True) -> None:
        pair = PairedRecord(at, key, f"{record.source}:{record.line}", record.chain, must)
        paired.setdefault((name, record.letter), {}).setdefault(record.chain, []).append(pair)

    starts: dict[tuple[int, str], PairedRecord] = {}
    killed: list[tuple[int, int]] = []
    for record in heard:
        if record.letter in "UE":
            if (number := int(record.what)) in ENTRIES:
                add("entry", record, record.at, f"{number:03}")
            continue
        facts = json.loads(record.body)
        if record.letter in "NM" and record.what == "matched":
            add("matched", record, record.at, f"of {facts.get('slot', '')}")
        elif record.letter in "NM" and record.what == "rejected":
            add("rejected", record, record.at, facts.get("words", ""))
        elif record.letter == "D" and record.what == "shadow_began":
            add("began", record, record.at, must=False)
            starts[record.chain, facts.get("shadow", "")] = paired["began", "D"][record.chain][-1]
        elif record.what == "shadow_gone" and facts.get("reason") == NOT_SWITCHED:
            paired.get(("began", "D"), {}).get(record.chain, [None]).pop()  # no shadow was started for it
        elif record.letter == "D" and record.what == "shadow_gone":
            how = facts.get("status") or facts.get("reason", "")
            start = starts.pop((record.chain, facts.get("shadow", "")), None)
            add("ended", record, record.at, must=how in OVER and start is not None)
            if how in DONE and start is not None:
                add("ran", record, record.at)
            if how in SPAWNED and start is not None:  # a shadow that was killed may have been so at once
                began = paired["began", "D"][record.chain]
                began[began.index(start)] = start._replace(must=True)
            if how.startswith("signal") and start is not None:
                killed.append((start.at, record.at))
        elif record.letter == "P":
            _of_epoch(record, facts, add)
        elif record.letter == "S" and (at := date(facts, "CompletionDate")) is not None:
            add("ran", record, at)
        elif record.letter == "H" or (record.what == "final" and whole(facts, "JobStatus") in (REMOVED, COMPLETED)):
            add("left", record, record.at)
    for records in (records for letter in "UE" for records in paired.get(("entry", letter), {}).values()):
        # A shadow writes an entry into one log after the other: it may have been killed in between.
        records[:] = [r._replace(must=not any(a <= r.at <= b for a, b in killed)) for r in records]
    return paired


def _of_epoch(record: JobRecord, ad: Ad, add: Any) -> None:
    kind, at = text_of(ad, "EpochAdType"), date(ad, "EpochWriteDate")
    if at is not None and kind == "SPAWN":
        add("began", record, at)
    elif at is not None and kind == "EPOCH":
        # Whether the shadow of a job that is held exits, and how, depends on who held the job.
        add("ended", record, at, must="HoldReasonCode" not in ad)
