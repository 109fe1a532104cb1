"""Extract the facts of a job from the entries of job event logs. ``job_ad_facts`` does this for ads."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

from attrs import define, field

from ....domain.imported import job_event_log
from ....domain.state_machines.hold_codes import FIRST_VACATE_CODE
from ....domain.units import SECOND
from ...narration.formatting import instant
from .audit_statements import JobAccount, RecordedRun, Statement, StatementSource
from .compared_facts import FACTS
from .tolerances import ANY, LEASE, NEAR


class JobRecord(NamedTuple):
    order: int
    letter: str
    chain: int
    source: int
    line: int
    at: int
    what: str  #: the number of an entry, or the name of a daemon's report
    body: str  #: the text of an entry, or the attributes of an ad or a report


def facts_of_entries(records: Iterable[JobRecord], gaps: Iterable[int] = ()) -> list[JobAccount]:
    """Return the jobs according to one log's entries for one job number. `gaps`: the ``order`` of missing records."""
    logs: list[_EntryFacts] = []
    missing = sorted(gaps)
    for entry in records:
        number, origin = int(entry.what), StatementSource(entry.letter, entry.source, entry.line, entry.at)
        if not logs or number == 0:
            account = JobAccount(None, entry.at, entry.at, log=f"{entry.letter} {entry.chain}")
            logs.append(_EntryFacts(account, origin))
        elif bisect(missing, logs[-1].last) != bisect(missing, entry.order):
            logs[-1].reset_run()
        logs[-1].add_entry(number, origin, entry)
    return [log.finished_account() for log in logs]


_OF_JOBS: Final = {
    "user_cpu": "total_user_cpu", "system_cpu": "total_system_cpu", "sent": "total_sent", "received": "total_received",
}  # fmt: skip
_OF_RUNS: Final = {"run_user_cpu": "user_cpu", "run_system_cpu": "system_cpu"}
_OF_LAST_RUNS: Final = {
    "busy": "timeslotbusy_used", "executed": "timeexecute_used", "memory": "memory_used", "disk": "disk_used",
}  # fmt: skip
"""The names of facts in an entry."""


def _usage_statements(origin: StatementSource, facts: dict[str, str], names: dict[str, str]) -> list[Statement]:
    """Return the usage stated in an entry. Its times are whole seconds; `facts` has CPU times in microseconds."""
    statements = []
    for fact, name in names.items():
        text = facts.get(name, "")
        if text.isdecimal() and len(text) < 18:
            unit = SECOND if name.endswith("_used") and FACTS[fact].unit == "time" else 1
            statements.append(origin.value_statement(fact, int(text) * unit))
    return statements


COMPARED: Final = {
    4: frozenset({"code", "signal", *_OF_RUNS.values()}),
    5: frozenset({"code", "signal", *_OF_RUNS.values(), *_OF_LAST_RUNS.values(), *_OF_JOBS.values()}),
    1: frozenset({"slot"}),
    12: frozenset({"code"}),
}
"""The values of entries that are compared as separate facts."""
_Entry = tuple[int, StatementSource, dict[str, str]]
_Entries = dict[tuple[int, int], list[_Entry]]  #: the entries of a log by type and second


def differing_entries(accounts: Sequence[JobAccount]) -> list[tuple[Statement, Statement]]:
    """Return the differences between entries in the users' logs and in the pool-wide log that were written from the
    same event. Entries in the same second are compared if both logs have equally many of them."""
    logs: dict[str, _Entries] = {}
    torn_logs = {account.log for account in accounts if not account.seamless}
    for account in accounts:
        for entry in account.entries:
            number, origin, _ = entry
            logs.setdefault(account.log, {}).setdefault((number, origin.at // SECOND), []).append(entry)
    users, pools = ([log for log in logs if log.startswith(letter)] for letter in "UE")
    differences = []
    for user, pool in product(users, pools):
        user_entries, pool_entries = logs[user], logs[pool]
        for key, key_entries in user_entries.items():
            pool_key_entries = pool_entries.get(key, [])
            for entry in key_entries if len(key_entries) == len(pool_key_entries) else ():
                compared = [_first_difference(entry, pool_entry) for pool_entry in pool_key_entries]
                if compared and all(compared):
                    differences += [pair for pair in compared[-1:] if pair is not None]
        if not {user, pool} & torn_logs:
            differences += _shifted_entries(user_entries, pool_entries)
    return differences


def _shifted_entries(entries: _Entries, other_entries: _Entries) -> list[tuple[Statement, Statement]]:
    """Return the entries that two complete logs record in different seconds: each log lacks the other's entry in that
    second, and both have equally many entries of the type. Entries about a job's size are frequent and may be
    missing."""
    differences = []
    for number in sorted({number for number, _ in entries} - {6}):
        user_numbered, pool_numbered = (
            [entry for key in sorted(log) if key[0] == number for entry in log[key]] for log in (entries, other_entries)
        )
        unmatched = [entry for entry in user_numbered if (number, entry[1].at // SECOND) not in other_entries]
        other_unmatched = [entry for entry in pool_numbered if (number, entry[1].at // SECOND) not in entries]
        if len(user_numbered) != len(pool_numbered) or len(unmatched) != 1 or len(other_unmatched) != 1:
            continue
        _, origin, facts = unmatched[0]
        _, other_origin, other_facts = other_unmatched[0]
        if facts == other_facts and abs(origin.at - other_origin.at) > SECOND:
            text, other_text = (f"{number:03} at {instant(source.at)}" for source in (origin, other_origin))
            differences.append((origin.text_statement("entry", text), other_origin.text_statement("entry", other_text)))
    return differences


def _first_difference(entry: _Entry, other: _Entry) -> tuple[Statement, Statement] | None:
    """Return the first difference between two entries. Missing values do not count, because some log formats omit
    values."""
    number, origin, facts = entry
    _, other_origin, other_facts = other
    for name in sorted((facts.keys() & other_facts.keys()) - COMPARED.get(number, frozenset())):
        if facts[name] != other_facts[name]:
            label = f"{number:03} {name.replace('_', ' ')}: "
            return origin.text_statement("entry", label + facts[name]), other_origin.text_statement(
                "entry", label + other_facts[name]
            )
    return None


@define
class _EntryFacts:
    """Collects the facts of one job, from its submission to its end, from one log."""

    account: JobAccount
    place: StatementSource  #: the record of the last entry
    last: int = 0
    seamless: bool = True
    starts: int = 0
    wall: int = 0
    runs: int = 0
    holds: int = 0
    numbered: list[Statement] = field(factory=list)  #: the holds that have a number in the job's ads, too
    counted_twice: int = 0  #: holds that the schedd may count again when the shadow exits with status 107
    hold_entry: tuple[int, dict[str, str]] | None = None
    run: RecordedRun | None = None
    is_troubled: bool = False
    evicted_to_hold: bool = False  #: the end of the last run has the code of a hold
    is_running: bool = False  #: a run has started, and no entry shows its end
    closing_entry: tuple[str, StatementSource, dict[str, str]] | None = None

    def add_entry(self, number: int, origin: StatementSource, entry: JobRecord) -> None:
        self.place, self.last = origin, entry.order
        self.account.first, self.account.last = min(self.account.first, entry.at), max(self.account.last, entry.at)
        facts = job_event_log.facts(number, entry.body)
        self.account.entries.append((number, origin, facts))
        if number in _ON_ENTRY:
            _ON_ENTRY[number](self, origin, facts)

    def reset_run(self) -> None:
        """Reset the current run and hold: records are missing before the next entry, so either may have ended."""
        self.seamless = False
        self.run = None
        self.is_troubled = self.is_running = False

    def add_submission(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.account.submitted = origin.at
        self.account.address = facts.get("host", "").partition("?")[0]
        self.account.statements.append(origin.value_statement("submitted", origin.at))

    def add_execution(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.starts += 1
        self.account.is_restarted |= self.is_running
        self.is_troubled, self.is_running = False, True
        self.run = RecordedRun(began_at=origin.at)
        self.account.runs.append(self.run)
        slot_texts = origin.named_text("slot", facts.get("slot", ""))
        self.run.statements += [origin.value_statement("began", origin.at), *slot_texts]

    def note_trouble(self, origin: StatementSource, facts: dict[str, str]) -> None:
        """Note that no entry will show the run's end and usage to the second."""
        self.is_troubled, self.is_running = True, False

    def add_reconnection(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.is_troubled = self.account.reconnected = True

    def add_run_end(self, origin: StatementSource, facts: dict[str, str]) -> None:
        """Record the end of a run, from an entry 004 or 005."""
        self.evicted_to_hold = 0 < int(facts.get("reason_code", 0)) < FIRST_VACATE_CODE
        run = self.run
        self.run, self.is_running = None, False
        if run is None:  # the log begins during the run, or the job was placed but never started
            run = RecordedRun()
        if not self.is_troubled:
            run.stopped_at = origin.at
            run.statements.append(origin.value_statement("stopped", origin.at))
            if run.began_at is not None:
                run.statements += _usage_statements(origin, facts, _OF_RUNS)
                run.statements.append(origin.value_statement("run_wall", origin.at - run.began_at))
            if facts["words"].startswith("Job terminated"):
                run.statements += _usage_statements(origin, facts, _OF_LAST_RUNS)
        if run.began_at is None:
            if "code" in facts or "signal" in facts:
                run.stopped_at = origin.at
                self.account.runs.append(run)
        elif run.stopped_at is not None:
            self.wall += max(0, origin.at - run.began_at)
            self.runs += 1
        for word in ("code", "signal"):
            if word in facts and facts["words"].startswith("Job terminated"):
                run.statements.append(origin.text_statement("exit", f"{word} {facts[word]}"))

    def add_completion(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.add_run_end(origin, facts)
        self.closing_entry = ("completed", origin, facts)

    def add_removal(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.run, self.is_running = None, False
        self.account.hides_hold |= self.hold_entry is None and self.evicted_to_hold
        self.closing_entry = ("removed", origin, facts)

    def add_hold(self, origin: StatementSource, facts: dict[str, str]) -> None:
        evicted_to_hold, self.is_running, self.evicted_to_hold = self.evicted_to_hold, False, False
        if self.hold_entry is not None and origin.at - self.hold_entry[0] < SECOND and self.hold_entry[1] == facts:
            return  # both the schedd and the shadow logged this hold
        self.hold_entry = origin.at, facts
        self.holds += 1
        if not self.counted_twice:
            self.numbered.append(origin.text_statement("hold", facts.get("code", "0"), self.holds))
        self.counted_twice += evicted_to_hold

    def add_release(self, origin: StatementSource, facts: dict[str, str]) -> None:
        self.account.hides_hold |= self.hold_entry is None and (self.is_running or self.evicted_to_hold)
        self.hold_entry = None

    def finished_account(self) -> JobAccount:
        account, origin = self.account, self.place
        is_seamless = account.seamless = account.submitted is not None and self.seamless
        above = None if is_seamless and self.closing_entry is not None else ANY
        account.statements.append(origin.value_statement("starts", self.starts, above=above))
        most = self.counted_twice if above is None else above
        account.statements.append(origin.value_statement("holds", self.holds, above=most))
        if self.runs:
            account.statements.append(origin.value_statement("wall", self.wall, below=NEAR * self.runs))
        if is_seamless:
            account.statements += self.numbered
        if self.closing_entry is not None:
            self._close_account(account, *self.closing_entry)
        return account

    def _close_account(self, account: JobAccount, status: str, origin: StatementSource, facts: dict[str, str]) -> None:
        account.statements.append(origin.text_statement("became", status))
        below = LEASE if status == "removed" else None
        account.statements.append(origin.value_statement("ended", origin.at, below=below))
        account.statements += _usage_statements(origin, facts, _OF_JOBS)


_ON_ENTRY = {
    0: _EntryFacts.add_submission,
    1: _EntryFacts.add_execution,
    4: _EntryFacts.add_run_end,
    5: _EntryFacts.add_completion,
    7: _EntryFacts.note_trouble,
    9: _EntryFacts.add_removal,
    12: _EntryFacts.add_hold,
    13: _EntryFacts.add_release,
    21: _EntryFacts.note_trouble,
    22: _EntryFacts.add_reconnection,
    23: _EntryFacts.add_reconnection,
    24: _EntryFacts.add_reconnection,
}
ENTRIES: Final = frozenset(_ON_ENTRY) | {6}
