"""Compare the logs of one pool's roles, which quote each other.

For each entry of an outbox that a role has read (`events.Followed`), the sender's log must have the entry with the same
digest, and what the role recorded as a copy must equal the event that was sent. A log that was not given is named, and
a log that ends before an entry that was read from it is only noted, because it may have been copied earlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from attrs import define, field
from msgspec.structs import replace

from ...domain import events as e
from ...domain.names import JOBS_PER_ACCESS_POINT
from ...domain.peers.sent_forms import FORMS
from ...domain.ports.log import EventStore
from ...domain.ports.run_reports import decode_report, ends_run
from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER, role_of
from ...domain.units import SECOND
from ..audit_result import Audit, AuditFinding
from .transition_rules import ALSO_WRITTEN, owner_of

TOLERANCE: Final = SECOND
"""How long two runs of a job must overlap, in microseconds, to be reported."""


_UNKNOWN: Final = 1 << 62


@define
class _RoleLog:
    """The log of a role, and the outboxes in it."""

    name: str  #: as in findings
    log: EventStore
    audit: Audit
    peer: str = ""  #: the role's name
    ended: int = 0  #: the time of its last event
    numbers: dict[str, int] = field(factory=dict)  #: the numbers of the access points that it reads, by their logs
    logs: dict[str, str] = field(factory=dict)  #: by peer: the log that it has read last
    delays: dict[str, int] = field(factory=dict)
    """By log: the shortest time between an entry and its reading, each by its own clock."""
    entries: dict[tuple[str, str], list[tuple[int, e.Sent]]] = field(factory=dict)
    """By peer and the peer's log: each entry with its position."""

    def read_outboxes(self) -> None:
        for position, event in self.log.read():
            self.ended = event.at
            if isinstance(event, e.PoolFounded) and len(event.roles) == 1:
                self.peer = event.roles[0] if event.roles[0] == MANAGER else f"{event.roles[0]}/{event.name}"
            elif isinstance(event, e.Sent):
                log = "" if event.peer == MANAGER else self.logs.get(event.peer, "")
                self.entries.setdefault((event.peer, log), []).append((position, event))
            elif isinstance(event, e.Followed) and self.logs.get(event.peer) != event.log:
                if event.peer not in self.logs and event.peer != MANAGER:  # the peer reads what was sent before, too
                    self.entries[event.peer, event.log] = self.entries.setdefault((event.peer, ""), [])
                self.logs[event.peer] = event.log
                if role_of(event.peer) == ACCESS_POINT:
                    self.numbers[event.log] = len(self.numbers) + 1

    def outbox_for(self, reader: _RoleLog) -> list[tuple[int, e.Sent]]:
        """Return the entries that a role can read, each with its position. Each log of a role has its own outbox, but
        all logs of the manager have the same."""
        if reader.peer == MANAGER:
            return self.entries.get((MANAGER, ""), [])
        known = self.entries.get((reader.peer, reader.log.id))
        return self.entries.get((reader.peer, ""), []) if known is None else known

    def sent_events(self, reader: _RoleLog, first: int, last: int) -> Iterator[tuple[int, e.Event]]:
        """Yield the events in the entries of an outbox, with their positions, in the form in which they were sent."""
        forms, number = FORMS[role_of(self.peer), role_of(reader.peer)], self.numbers.get(reader.log.id, 0)
        for _, entry in self.outbox_for(reader)[first - 1 : last]:
            for position in entry.positions:
                for _, event in self.log.read(position - 1, 1):
                    form = forms.get(type(event))
                    sent = None if form is None else form(event, number)
                    if sent is not None:
                        yield position, sent

    def is_behind(self, event: e.Event) -> bool:
        """Return True if the log ends before another log's event, so that it may have been copied earlier."""
        return self.ended <= event.at

    def report(self, position: int, event: e.Event, rule: str, words: str, noted: bool = False) -> None:
        finding = AuditFinding(event.stream, rule, words, event.at, self.name, position, ())
        (self.audit.noted if noted else self.audit.violations).append(finding)


def compare_logs(logs: Sequence[tuple[str, EventStore, Audit]]) -> None:
    """Add what contradicts the other logs to each log's audit. Logs of whole pools are not compared.

    :param logs: each log's name, the log, and its audit
    """
    roles = [_RoleLog(*each) for each in logs]
    for role in roles:
        role.read_outboxes()
    by_id = {role.log.id: role for role in roles if role.peer}
    runs = _Runs()
    for role in by_id.values():
        _compare_quotes(role, by_id)
        _compare_requests(role, by_id)
        runs.add_log(role)
    runs.report_overlaps(by_id)


def _compare_quotes(role: _RoleLog, by_id: Mapping[str, _RoleLog]) -> None:
    """Compare all that a role read with the senders' logs."""
    read: dict[str, tuple[str, int]] = {}  # by peer: its log, and the last entry that was read
    for _, group in groupby(role.log.read(), key=lambda logged: logged[1].stimulus):
        decision = [*group]
        for index, (position, event) in enumerate(decision):
            if not isinstance(event, e.Followed):
                continue
            log, version = read.get(event.peer, ("", 0))
            first = version + 1 if log == event.log else 1
            read[event.peer] = event.log, event.version
            source = by_id.get(event.log)
            if source is None:
                role.audit.unchecked.setdefault(event.peer, event.log)
            elif _has_entry(role, source, position, event):
                sent = [*source.sent_events(role, first, event.version)]
                _compare_copies(role, source, sent, decision[index + 1 :])


def _has_entry(role: _RoleLog, source: _RoleLog, position: int, event: e.Followed) -> bool:
    """Return True if the sender's log has the entry that was read. Otherwise report that it was truncated or forked."""
    entries = source.outbox_for(role)
    if not event.version:
        return True  # a new log without entries
    if event.version > len(entries):
        last = entries[-1][0] if entries else 0
        words = (
            f"entry {event.version} of {source.name} was read, but its outbox ends with entry {len(entries)} "
            f"(position {last})"
        )
        role.report(position, event, "quotes", words, source.is_behind(event))
        return False
    place, entry = entries[event.version - 1]
    if entry.digest != event.digest:
        words = f"entry {event.version} of {source.name} differs from the entry that was read (position {place})"
        role.report(position, event, "quotes", words)
        return False
    delay = event.at - entry.at
    role.delays[event.log] = min(delay, role.delays.get(event.log, delay))
    return True


def _compare_copies(
    role: _RoleLog, source: _RoleLog, sent: list[tuple[int, e.Event]], results: list[tuple[int, e.Event]]
) -> None:
    """Compare the copies in a decision with the events that were sent."""
    if any(isinstance(event, e.PeerRejected) for _, event in results):
        return
    role_name = role_of(role.peer)
    number = role.numbers.get(source.log.id, 0) if role_name == MANAGER else 0
    due = Counter(repr(_normalized(event, number)) for _, event in sent)
    quoted = [
        (position, event)
        for position, event in results
        if owner_of(type(event)) == role_of(source.peer) and type(event).__name__ not in ALSO_WRITTEN.get(role_name, ())
    ]
    for position, event in quoted:
        if isinstance(event, e.SlotCreated | e.ClaimMade | e.CycleHeld) and role_name != MANAGER:
            continue  # decided from what was sent
        text = repr(_normalized(event, 0))
        due[text] -= 1
        if due[text] < 0:
            role.report(position, event, "quotes", f"{source.name} did not send this {type(event).__name__}")
    if role_name == MANAGER:
        for place, event in sent:
            text = repr(_normalized(event, number))
            if due[text] > 0 and type(event).__name__ not in ALSO_WRITTEN.get(role_name, ()):
                words = f"{type(event).__name__} at {place} of {source.name} was read, but has no copy"
                role.report(results[0][0] if results else 0, event, "quotes", words)
                due[text] -= 1
    for position, event in results:
        check = _DECIDED.get(type(event))
        if check is not None and (words := check(event, sent)):
            role.report(position, event, "quotes", f"{words} {source.name}")


def _normalized(event: e.Event, number: int) -> e.Event:
    """Return an event without the fields in which its copy differs.

    :param number: of the access point that sent it to the manager; 0 if the event is a copy
    """
    changes: dict[str, Any] = {"at": 0, "stimulus": ""}
    if isinstance(event, e.ClaimMade | e.ClusterSubmitted):
        changes["factor"] = 0.0
    if isinstance(event, e.ClusterEvent) and number:
        changes["cluster"] = event.cluster + number * JOBS_PER_ACCESS_POINT
    return replace(event, **changes)


def _compare_requests(role: _RoleLog, by_id: Mapping[str, _RoleLog]) -> None:
    """Check that access points requested the claims that an execution point made, and started the jobs on them."""
    holders: dict[str, _RoleLog] = {}  # by claim
    requests: dict[str, set[str]] = {}  # by log: the claims that it requested
    logs: dict[str, str] = {}  # by peer: the log that was read last
    if role_of(role.peer) != EXECUTION_POINT:
        return
    for position, event in role.log.read():
        if isinstance(event, e.Followed):
            logs[event.peer] = event.log
        elif isinstance(event, e.ClaimMade) and logs.get(event.holder) in by_id:
            source = holders[event.claim] = by_id[logs[event.holder]]
            if source.log.id not in requests:
                events = (other for _, other in source.log.read())
                requests[source.log.id] = {other.claim for other in events if isinstance(other, e.ClaimRequested)}
            if event.claim not in requests[source.log.id]:
                role.report(
                    position, event, "quotes", f"{source.name} did not request its claim", source.is_behind(event)
                )
        elif isinstance(event, e.ClaimActivated) and event.claim in holders:
            source = holders[event.claim]
            at_key = int(event.key) if event.key.isdecimal() else 0
            started = next((other for _, other in source.log.read(at_key - 1, 1)), None) if at_key else None
            terms = (event.job, event.slot, event.claim)
            if not isinstance(started, e.JobActivated) or terms != (
                f"{started.cluster}.{started.proc}", started.slot, started.claim
            ):  # fmt: skip
                words = f"{source.name} did not start job {event.job} on it at position {event.key}"
                role.report(position, event, "quotes", words, source.is_behind(event))


# What a role decided from what it read: what is wrong with it, given the events that were sent


def _match_problem(event: e.CycleHeld, sent: list[tuple[int, e.Event]]) -> str:
    matches = {match for _, cycle in sent if isinstance(cycle, e.CycleHeld) for match in cycle.matches}
    return "" if matches.issuperset(event.matches) else "its matches were not made in"


def _grant_problem(event: e.ClaimMade, sent: list[tuple[int, e.Event]]) -> str:
    grants = {
        (grant.claim, grant.slot, grant.weight, grant.rank, grant.lease)
        for _, grant in sent
        if isinstance(grant, e.ClaimGranted)
    }
    terms = event.claim, event.slot, event.weight, event.rank, event.lease
    return "" if event.holder or terms in grants else "its claim was not granted with these terms in"


def _end_problem(event: e.JobExited, sent: list[tuple[int, e.Event]]) -> str:
    ends = [
        (getattr(report, "code", None), getattr(report, "signal", None))
        for _, reported in sent
        if isinstance(reported, e.RunReported) and reported.key == event.key
        for report in [decode_report(reported)]
        if ends_run(report)
    ]
    is_known = event.outcome == "lost" or (event.code, event.signal) in ends
    return "" if is_known else "its end was not reported like this in"


_DECIDED: Final[dict[type[e.Event], Callable[[Any, list[tuple[int, e.Event]]], str]]] = {
    e.CycleHeld: _match_problem,
    e.ClaimMade: _grant_problem,
    e.JobExited: _end_problem,
}


# Runs on several execution points


@define
class _Run:
    role: _RoleLog
    position: int
    event: e.ClaimActivated
    until: int  #: the last instant at which it certainly ran


@define
class _Runs:
    """The runs of access points' jobs, by access point, its log, and job."""

    by_job: dict[tuple[str, str, str], list[_Run]] = field(factory=dict)

    def add_log(self, role: _RoleLog) -> None:
        holders: dict[str, tuple[str, str]] = {}  # by claim: its holder, and the holder's log
        logs: dict[str, str] = {}  # by peer: the log that was read last
        running: dict[str, _Run] = {}  # by slot
        for position, event in role.log.read():
            if isinstance(event, e.Followed):
                logs[event.peer] = event.log
            elif isinstance(event, e.ClaimMade):
                holders[event.claim] = event.holder, logs.get(event.holder, "")
            elif isinstance(event, e.ClaimActivated) and role_of(role.peer) != MANAGER:
                run = running[event.slot] = _Run(role, position, event, event.at)
                self.by_job.setdefault((*holders.get(event.claim, ("", "")), event.job), []).append(run)
            elif isinstance(event, e.RunReported) and event.slot in running:
                report = decode_report(event)
                run = running[event.slot]
                if report.key == run.event.key and not getattr(report, "lost", False):
                    run.until = max(run.until, getattr(report, "at", event.at))

    def report_overlaps(self, by_id: Mapping[str, _RoleLog]) -> None:
        """Report the runs of a job that certainly overlapped. The clocks of two logs may differ, but each has exchanged
        entries with the access point's log, which were never read before they were sent."""
        for (holder, log, job), runs in self.by_job.items():
            runs.sort(key=lambda run: int(run.event.key) if run.event.key.isdecimal() else 0)  # as their activations
            for first, second in pairwise(runs):
                latest_start = second.event.at - _clock_lead(second.role, by_id.get(log))[0]
                earliest_end = first.until - _clock_lead(first.role, by_id.get(log))[1]
                if latest_start < earliest_end - TOLERANCE:
                    words = (
                        f"job {job} of {holder} starts on {second.event.slot} while it runs on {first.event.slot} "
                        f"({first.role.name}, position {first.position})"
                    )
                    second.role.report(second.position, second.event, "once", words)
                if second.event.key == first.event.key:
                    words = f"job {job} of {holder} was already started for the same activation, on {first.event.slot}"
                    second.role.report(second.position, second.event, "once", words)


def _clock_lead(role: _RoleLog, source: _RoleLog | None) -> tuple[int, int]:
    """Return how much a log's clock is at least and at most ahead of another log's. Nothing is known if a clock was
    set meanwhile."""
    if source is None:
        return 0, 0
    least, most = -source.delays.get(role.log.id, 0), role.delays.get(source.log.id, 0)
    return (least, most) if least <= most else (-_UNKNOWN, _UNKNOWN)
