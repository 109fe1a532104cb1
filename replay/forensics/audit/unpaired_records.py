"""Find records that are missing from one of two files that record the same things, or that have another time there.

A match is in the MatchLog and the NegotiatorLog. A shadow's start is in the SchedLog and the epoch history, and its end
is in the SchedLog, the epoch history and the startd's history. An event log entry is in the user's log and the
EventLog. A job that left the queue is in job_queue.log and the history. Records of a job are paired by their times.

To report only certain findings, a pair of files is compared only if there is one file of each kind without gaps, if the
files agree on at least ``LEAST_AGREED`` records, and if one change explains all differences. Records that may be
missing because a daemon died are left out, and so is the end of a log that may have been copied before the other one.
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
from .job_ad_facts import COMPLETED, REMOVED, Ad, date, int_of, text_of
from .tolerances import ANY, FAR, LINGERING, MINUTE, NEAR

LEAST_AGREED: Final = 3  #: how many records must be in both files before a missing one is reported
WRITE_DELAY: Final = 5 * SECOND  #: how long a file must continue after a missing record
LEAVING: Final = MINUTE
"""How long a shadow may run after it wrote its run's end: it waits for the starter (20 s) and for the startd."""
DYING: Final = SECOND  #: records this shortly before a daemon's last one may be missing from a file

Job = tuple[int, int]
_Position = tuple[int, int]  #: an instant and a line
Deaths = dict[str, list[tuple[int, int]]]
"""The deaths of daemons, by the letters of their logs: each from the daemon's last record to its next start, or to the
instant that its master logged."""


class PairRule(NamedTuple):
    """Two kinds of sources (letters) that record the same thing, its name, and how much their times may differ.
    `required`: whether each record of the first must be in the second, and vice versa. `daemons`: the letters of the
    daemons whose death may lose a record. `least`: the number of records on which the two must agree."""

    first: str
    second: str
    what: str
    slack: int
    daemons: str
    required: tuple[bool, bool] = (True, True)
    least: int = LEAST_AGREED


PAIRS: Final = {
    "matched": PairRule("N", "M", "a match", 0, "N", least=1),
    "rejected": PairRule("N", "M", "a rejection", 0, "N"),
    "began": PairRule("D", "P", "the start of a shadow", MINUTE, "D"),
    "ended": PairRule("D", "P", "the end of a shadow's run", LINGERING, "D"),
    "ran": PairRule("D", "S", "the end of a run", LINGERING, "DL", (True, False)),
    "entry": PairRule("E", "U", "an entry", NEAR, "D"),
    "left": PairRule("Q", "H", "the job's departure from the queue", ANY, "D", (True, False)),
}
ENTRIES: Final = frozenset({0, 1, 4, 5, 9, 12, 13})  #: the types of entries that are in every job event log
DONE: Final = frozenset({"100", "115"})  #: the exit statuses of a shadow whose job exited
OVER: Final = DONE | {"102", "103", "107", "112", "113"}  #: the exit statuses of a shadow whose run ended
SPAWNED: Final = OVER - {"112"} | {"108", "116"}
"""The exit statuses of a shadow that logged its start. A shadow that cannot open the job's log holds the job before
that."""


class PairedRecord(NamedTuple):
    """A record that should be in both files of a pair, with the same ``key``."""

    at: int
    key: str
    stimulus: str
    chain: int
    is_required: bool = True  #: the other file must contain it, too


class UnpairedRecord(NamedTuple):
    """A record without a partner in the other file of its pair, and the other file's unpaired record of the same thing,
    if any."""

    rule: PairRule
    job: Job
    record: PairedRecord
    letter: str
    other: PairedRecord | None = None
    is_repeated: bool = False  #: the same file has another such record, which is paired
    is_whole_job: bool = False  #: the other file contains no record of the job


@define
class FileSpan:
    """The time that a file of one kind (letter) covers."""

    letter: str
    first: int
    last: int
    over: bool = False  #: its daemon has ended
    silences: list[tuple[int, int]] = field(factory=list)  #: the times without records

    def note_silence(self, silence_end: int) -> None:
        """Add the time since the last record to the silences, if it is long."""
        if silence_end - self.last > 2 * FAR:
            self.silences.append((self.last, silence_end))

    def covers(self, at: int) -> bool:
        """Return True if the file has records around an instant, so its daemon was not stalled then."""
        is_covered = self.first - NEAR < at < self.last + NEAR
        return is_covered and not any(since + NEAR < at < until - NEAR for since, until in self.silences)


@define
class UnpairedRecords:
    """Compares pairs of files: call ``take`` with the records of each job, then ``finish`` yields the findings."""

    sources: Sources
    spans: Mapping[int, FileSpan]
    deaths: Deaths
    gaps: Mapping[int, Sequence[int]]
    ended: int  #: the last instant of all records
    agreements: dict[tuple[str, int, int], int] = field(factory=dict)
    unpaired: dict[tuple[str, int, int], list[UnpairedRecord]] = field(factory=dict)
    _chains: dict[str, set[int]] = field(factory=dict)
    noted: list[AuditFinding] = field(factory=list)
    _paired: dict[tuple[int, int], tuple[_Position, _Position]] = field(factory=dict)
    """The first and the last record of a file that have a partner in another file, by the two files' chains."""
    _users: dict[str, dict[Job, tuple[set[int], list[PairedRecord]]]] = field(factory=dict)
    """The jobs of each user's log, by the log's path: the chains that contain each job, and the job's records in the
    EventLog."""
    _unworded: Misfits = field(factory=Misfits)
    """The matches in a NegotiatorLog without the additional line that all other matches have."""

    def check_job(self, job: Job, records: Sequence[JobRecord]) -> None:
        for r in records:
            if r.letter == "N" and r.what == "matched" and r.chain not in self.gaps:
                self._unworded.count_record(
                    r.chain, "startd" in json.loads(r.body), partial(self._unworded_match, job, r)
                )
        paired_records = _paired_records(records)
        ads = [json.loads(record.body) for record in records if record.letter in "HQ"]
        if any("StageInStart" in ad for ad in ads):
            paired_records = {
                key: logs for key, logs in paired_records.items() if key[0] != "entry"
            }  # its log continues in the spool
        for name, rule in PAIRS.items():
            for letter in (rule.first, rule.second):
                self._chains.setdefault(letter, set()).update(paired_records.get((name, letter), ()))
            self._pair(name, rule, job, paired_records)
        log = next((path for ad in ads if (path := text_of(ad, "UserLog"))), "")
        pool_log_records = list(paired_records.get(("entry", "E"), {}).values())
        if log and len(pool_log_records) == 1:
            self._users.setdefault(log, {})[job] = ({r.chain for r in records if r.letter == "U"}, pool_log_records[0])

    def _pair(
        self, name: str, rule: PairRule, job: Job, records: Mapping[tuple[str, str], dict[int, list[PairedRecord]]]
    ) -> None:
        first, second = records.get((name, rule.first), {}), records.get((name, rule.second), {})
        if name == "entry" and not second:
            return  # a job need not have its own log
        for first_chain in first or {0: []}:
            for chain2 in second or {0: []}:
                first_list, second_list = first.get(first_chain, []), second.get(chain2, [])
                both, unpaired_first, unpaired_second = _pair_by_time(first_list, second_list, rule.slack)
                key = (name, first_chain, chain2)
                self.agreements[key] = self.agreements.get(key, 0) + len(both)
                for pair in both:
                    self._extend_paired(*pair)
                pairs = list(_unpaired_of_pair(rule, job, unpaired_first, unpaired_second, first_list, second_list))
                if pairs:
                    self.unpaired.setdefault(key, []).extend(pairs)

    def _extend_paired(self, record: PairedRecord, other: PairedRecord) -> None:
        for paired_record, partner in ((record, other), (other, record)):
            position = _position(paired_record)
            first, last = self._paired.get((paired_record.chain, partner.chain), (position, position))
            self._paired[paired_record.chain, partner.chain] = (min(first, position), max(last, position))

    def finish(self) -> Iterator[AuditFinding]:
        self._note_absent_jobs()
        for name, rule in PAIRS.items():
            yield from self._judge(name, rule)
        yield from self._unworded.only_of_each_kind()

    def _judge(self, name: str, rule: PairRule) -> Iterator[AuditFinding]:
        pools = self._chains.get(rule.first, set()), self._chains.get(rule.second, set())
        if len(pools[0]) != 1 or (len(pools[1]) != 1 and name != "entry"):
            return  # with several daemons of a kind, it is not certain which one wrote a record
        (first_chain,) = pools[0]
        findings: list[AuditFinding] = []
        for chain2 in sorted(pools[1]):
            if first_chain in self.gaps or chain2 in self.gaps:
                continue
            chain_pairs = ((first_chain, chain2), (first_chain, 0), (0, chain2))
            records = [record for chains in chain_pairs for record in self.unpaired.get((name, *chains), ())]
            agreed_count = self.agreements.get((name, first_chain, chain2), 0)
            if name == "entry":  # all users' logs are written in the same way
                agreed_count = sum(self.agreements.get((name, first_chain, chain), 0) for chain in pools[1])
            are_all_moved = name == "entry" and _are_shifted(records)
            lacking_chains = {rule.first: chain2, rule.second: first_chain}
            records = [record for record in _without_disputed(records) if are_all_moved or self._is_certain(record)]
            cut = [r for r in records if not are_all_moved and self._may_be_cut(r, lacking_chains[r.letter])]
            if agreed_count < rule.least:
                continue
            record = _only_finding([record for record in records if record not in cut], are_all_moved)
            if record is not None:
                yield self._finding(record, lacking_chains[record.letter])
            elif (record := _only_finding(cut)) is not None:
                findings.append(self._finding(record, lacking_chains[record.letter], ", unless the file was cut there"))
        self.noted += findings if len(findings) == 1 else []

    def _note_absent_jobs(self) -> None:
        """Note each job that is missing from a user's log that contains all other jobs whose ads name this log."""
        rule = PAIRS["entry"]
        for chains_by_job in self._users.values():
            for chain in set[int]().union(*(chains for chains, _ in chains_by_job.values())):
                other_jobs = [(job, records) for job, (chains, records) in chains_by_job.items() if chain not in chains]
                if len(other_jobs) == 1 and len(chains_by_job) > LEAST_AGREED:
                    job, records = other_jobs[0]
                    entries = [UnpairedRecord(rule, job, record, rule.first, is_whole_job=True) for record in records]
                    records_inside = [record for record in entries if not self._may_be_cut(record, chain)]
                    self.unpaired.setdefault(("entry", records[0].chain, chain), []).append(
                        [*records_inside, *entries][0]
                    )

    def _unworded_match(self, job: Job, match: JobRecord) -> AuditFinding:
        text = (
            "the negotiator also logged a line 'Matched ...' for every other match: the line for this one was removed"
        )
        record = (match.at, f"{match.source}:{match.line}", text)
        return finding(self.sources, "{}.{}".format(*job), "unpaired", text, [record])

    def _may_be_cut(self, unpaired: UnpairedRecord, lacking_chain: int) -> bool:
        """Return True if the file without the record has nothing before it or nothing after it: its older part may have
        been deleted, or the file may have been copied earlier than the other one."""
        if unpaired.other is not None:
            return False
        at, span = unpaired.record.at, self.spans.get(lacking_chain)
        if span is not None and span.first < at < span.last:
            return False
        first_paired, last_paired = self._paired.get((unpaired.record.chain, lacking_chain), ((at, 0), (at, 0)))
        if unpaired.letter in "EMNU":  # a daemon writes both of its logs in the same order
            return not first_paired < _position(unpaired.record) < last_paired
        return not first_paired[0] < at < last_paired[0]

    def _is_certain(self, unpaired: UnpairedRecord) -> bool:
        """Return True if the other file must contain the record, unless it was cut."""
        at, rule = unpaired.record.at, unpaired.rule
        if not unpaired.record.is_required:
            return False
        if unpaired.other is not None:
            earlier_time, later_time = sorted((at, unpaired.other.at))
            relevant_deaths = (death for letter in {*rule.daemons, "L"} for death in self.deaths.get(letter, ()))
            if any(since <= later_time and earlier_time <= until + DYING for since, until in relevant_deaths):
                return False  # the other daemon waited for a daemon that died
            return rule is not PAIRS["entry"]  # the comparison of facts reports these
        extra_wait = LEAVING if rule is PAIRS["ended"] and unpaired.letter == "P" else 0
        delay = 0 if unpaired.letter in "MN" else WRITE_DELAY  # one daemon writes both, line by line
        if not rule.required[0 if unpaired.letter == rule.first else 1] or at + max(extra_wait, delay) > self.ended:
            return False
        deaths = (death for letter in rule.daemons for death in self.deaths.get(letter, ()))
        return not any(since - max(extra_wait, DYING) <= at <= until + DYING for since, until in deaths)

    def _finding(self, unpaired: UnpairedRecord, lacking_chain: int, exception: str = "") -> AuditFinding:
        rule, record = unpaired.rule, unpaired.record
        file, other_file = (KINDS[LETTERS[unpaired.letter]].name, self.sources.path(lacking_chain).rpartition("/")[2])
        label = f"{rule.what} {record.key}".rstrip()
        story = [(record.at, record.stimulus, f"{label}, in {file}")]
        if unpaired.other is not None and unpaired.other.key != record.key:
            text = f"{label} in {file}, but {unpaired.other.key} in {other_file}: one of them was changed"
            story.append((unpaired.other.at, unpaired.other.stimulus, f"{unpaired.other.key}, in {other_file}"))
        elif unpaired.other is not None:
            gap = abs(unpaired.other.at - record.at) / SECOND
            order = "after" if record.at > unpaired.other.at else "before"
            text = f"{label} in {file} is {gap:g} s {order} that in {other_file}: the time of one of them was changed"
            story.append((unpaired.other.at, unpaired.other.stimulus, f"the same, in {other_file}"))
        elif unpaired.is_repeated:
            text = f"{label} is in {file} once more than in {other_file}: it was inserted here, or removed there"
        else:
            text = f"{label} is in {file}, but not in {other_file}: it was removed there{exception}"
        return finding(self.sources, "{}.{}".format(*unpaired.job), "unpaired", text, story, event_index=0)


def _only_finding(records: Sequence[UnpairedRecord], are_moved: bool = False) -> UnpairedRecord | None:
    """Return the only record, or the first of a job's entries if one file lacks all of them or if they `are_moved`."""
    is_one_job = len({(record.job, record.letter) for record in records if record.rule is PAIRS["entry"]}) == 1
    return records[0] if len(records) == 1 or (is_one_job and (are_moved or records[0].is_whole_job)) else None


def _without_disputed(records: Sequence[UnpairedRecord]) -> list[UnpairedRecord]:
    """Leave out records of different things in both files at the same time: the comparison of facts reports these."""
    remaining = list(records)
    for unpaired in records:
        if unpaired.rule.what != "a match" or unpaired not in remaining:
            continue
        at = unpaired.record.at
        others = (r for r in remaining if r.letter != unpaired.letter and r.other is None)
        twin_record = next((r for r in others if abs(r.record.at - at) <= NEAR), None)
        if twin_record is not None and unpaired.other is None:
            remaining.remove(unpaired)
            remaining.remove(twin_record)
    return remaining


def _position(record: PairedRecord) -> _Position:
    return record.at, int(record.stimulus.partition(":")[2])


def _are_shifted(records: Sequence[UnpairedRecord]) -> bool:
    """Return True if the times of several entries of one job, and no others, differ from the other file's by the same
    amount."""
    job_shifts = {(entry.job, entry.record.at - entry.other.at) for entry in records if entry.other is not None}
    return len(records) > 1 and len(job_shifts) == 1 and all(entry.other is not None for entry in records)


def _pair_by_time(
    first: Sequence[PairedRecord], second: Sequence[PairedRecord], slack_us: int
) -> tuple[list[tuple[PairedRecord, PairedRecord]], list[PairedRecord], list[PairedRecord]]:
    """Pair records in chronological order. Return the pairs, and the unpaired records of each side."""
    pairs, left, right = (list[tuple[PairedRecord, PairedRecord]](), list[PairedRecord](), list[PairedRecord]())
    for key in dict.fromkeys(record.key for record in (*first, *second)):
        # Of two records at the same time, use the required one: a job held at its exit has two EPOCH ads.
        starts, others = (
            sorted(
                (record for record in side if record.key == key), key=lambda record: (record.at, not record.is_required)
            )
            for side in (first, second)
        )
        while starts and others:
            _unpair_farther(others, right, starts)
            _unpair_farther(starts, left, others)
            if abs(starts[0].at - others[0].at) <= slack_us:
                pairs.append((starts.pop(0), others.pop(0)))
            elif starts[0].at < others[0].at:
                left.append(starts.pop(0))
            else:
                right.append(others.pop(0))
        left += starts
        right += others
    return pairs, left, right


def _unpair_farther(side: list[PairedRecord], unpaired: list[PairedRecord], partners: Sequence[PairedRecord]) -> None:
    """Unpair records whose partner may be missing from the other file, if another record is nearer to the next
    partner."""
    partner_time = partners[0].at
    while (
        len(side) > 1
        and (len(side) > len(partners) or not side[0].is_required)
        and abs(side[1].at - partner_time) < abs(side[0].at - partner_time)
    ):
        unpaired.append(side.pop(0))


def _unpaired_of_pair(
    rule: PairRule,
    job: Job,
    left: list[PairedRecord],
    right: list[PairedRecord],
    first: Sequence[PairedRecord],
    second: Sequence[PairedRecord],
) -> Iterator[UnpairedRecord]:
    remaining_second = list(right)
    for record in left:
        partner = next((other for other in remaining_second if other.key == record.key), None)
        if partner is None and rule is PAIRS["rejected"]:
            partner = next((other for other in remaining_second if other.at == record.at), None)
        if partner is not None:
            remaining_second.remove(partner)
        is_repeated = sum(1 for other in first if other.key == record.key and other.at == record.at) > 1
        if record.is_required or (partner is not None and partner.is_required):
            yield UnpairedRecord(
                rule, job, record._replace(is_required=True), rule.first, partner, is_repeated, not second
            )
    for record in remaining_second:
        is_repeated = sum(1 for other in second if other.key == record.key and other.at == record.at) > 1
        if record.is_required:
            yield UnpairedRecord(rule, job, record, rule.second, None, is_repeated, not first)


def _paired_records(job_records: Iterable[JobRecord]) -> dict[tuple[str, str], dict[int, list[PairedRecord]]]:
    """Return a job's records that should have a partner in another file, by the pair's name, the letter and the
    chain."""
    records_by_chain: dict[tuple[str, str], dict[int, list[PairedRecord]]] = {}

    def add(name: str, record: JobRecord, at: int, key: str = "", must: bool = True) -> None:
        pair = PairedRecord(at, key, f"{record.source}:{record.line}", record.chain, must)
        records_by_chain.setdefault((name, record.letter), {}).setdefault(record.chain, []).append(pair)

    starts: dict[tuple[int, str], PairedRecord] = {}
    kills: list[tuple[int, int]] = []
    for record in job_records:
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
            starts[record.chain, facts.get("shadow", "")] = records_by_chain["began", "D"][record.chain][-1]
        elif record.what == "shadow_gone" and facts.get("reason") == NOT_SWITCHED:
            records_by_chain.get(("began", "D"), {}).get(record.chain, [None]).pop()  # no shadow was started
        elif record.letter == "D" and record.what == "shadow_gone":
            end_text = facts.get("status") or facts.get("reason", "")
            start = starts.pop((record.chain, facts.get("shadow", "")), None)
            add("ended", record, record.at, must=end_text in OVER and start is not None)
            if end_text in DONE and start is not None:
                add("ran", record, record.at)
            if end_text in SPAWNED and start is not None:  # a killed shadow may not have logged its start
                begin_records = records_by_chain["began", "D"][record.chain]
                begin_records[begin_records.index(start)] = start._replace(is_required=True)
            if end_text.startswith("signal") and start is not None:
                kills.append((start.at, record.at))
        elif record.letter == "P":
            _add_epoch_records(record, facts, add)
        elif record.letter == "S" and (at := date(facts, "CompletionDate")) is not None:
            add("ran", record, at)
        elif record.letter == "H" or (record.what == "final" and int_of(facts, "JobStatus") in (REMOVED, COMPLETED)):
            add("left", record, record.at)
    for records in (records for letter in "UE" for records in records_by_chain.get(("entry", letter), {}).values()):
        # A shadow writes an entry to one log and then to the other, and may be killed in between.
        records[:] = [r._replace(is_required=not any(begin <= r.at <= end for begin, end in kills)) for r in records]
    return records_by_chain


def _add_epoch_records(record: JobRecord, ad: Ad, add_record: Any) -> None:
    kind, at = text_of(ad, "EpochAdType"), date(ad, "EpochWriteDate")
    if at is not None and kind == "SPAWN":
        add_record("began", record, at)
    elif at is not None and kind == "EPOCH":
        # Whether and how the shadow of a held job exits depends on who held the job.
        add_record("ended", record, at, must="HoldReasonCode" not in ad)
