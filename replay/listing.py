"""The log as people read it: a line for each transition, and for whatever else an event says.

* An event about many jobs is as many members, each with a position of its own: the event's, and the member's number in
  it, from 0. They are made one by one: the first line of a cluster of a million jobs is there at once.
* A slot's transition has the manual's number and letter, a job's the name of its row; source and target are states.
* ``Wanted`` names what is to be listed, as people say it: a slot, a cluster, one job of it, or any stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from typing import Any, NamedTuple

from attrs import evolve, frozen

from ..domain import events as e
from ..domain.imported.job_event_log import ENTRIES
from ..domain.imported.record_sources import KINDS as REPORT_KINDS
from ..domain.ports.log import Log
from ..domain.state.job_ad import job_procs, unquoted
from ..domain.state_machines import DIALECTS
from ..domain.state_machines.drain import OPEN
from ..domain.state_machines.job import UNSUBMITTED
from ..domain.state_machines.slot_rows import BORN
from .narration import defrag_words
from .narration.causes import cause_words
from .narration.wording import EVER, counted, instant, interval, iso, memory, shortened

LETTERS: dict[str, str] = {row.number: row.letter for dialect in DIALECTS.values() for row in dialect.slot_rows}
"""The letter of each numbered transition of slots; a number has the same in every dialect that knows it."""


def transition(row: str) -> str:
    """A numbered transition of slots in words, with its letter if it crosses from state to state."""
    letter = LETTERS.get(row, "")
    if not row:
        return "a transition that no rule allows"
    return f"transition {row} ({letter})" if letter else f"transition {row}"


@frozen
class Member:
    """What an event says of one thing. ``thing``: a slot's name, a job's id ...; ``what``: a transition's number or
    row, else what happened; ``source`` and ``target`` are empty where nothing moves."""

    position: int
    index: int
    several: bool  #: whether its event has other members, or could have
    at: int
    stream: str
    thing: str
    what: str
    letter: str
    source: str
    target: str
    cause: str
    details: str
    stimulus: str

    @property
    def number(self) -> str:
        """The member's position as people write it: "31", or "31.4" in an event of several."""
        return f"{self.position}.{self.index}" if self.several else str(self.position)

    @property
    def words(self) -> str:
        """The cause in words."""
        return cause_words(self.cause)


class _Part(NamedTuple):
    what: str
    details: str = ""
    source: str = ""
    target: str = ""
    letter: str = ""


def _ad(changes: e.Ad) -> str:
    return shortened(", ".join(f"{name} = {text}" if text else f"{name} gone" for name, text in changes.items()))


# What is said of each job of an event about jobs


def _submitted(event: e.ClusterSubmitted) -> _Part:
    row = "submit_on_hold" if event.status == "Held" else "submit"
    user = unquoted(event.ad.get("User", "")) or event.submitter
    counts = f", for {event.submitter}" if user != event.submitter else ""
    return _Part(row, f"by {user}{counts}", UNSUBMITTED, event.status)


def _transformed(event: e.JobsTransformed) -> _Part:
    ending = f"; {len(event.columns)} chunks of what differs" if event.columns else ""
    return _Part("transformed", f"by {event.transform}: {_ad(event.changes)}{ending}")


def _refused(event: e.SubmissionRefused) -> _Part:
    proof = f", evidence {event.evidence}" if event.evidence else ""
    return _Part("refused", f"cluster {event.cluster}, by {event.setting}: {shortened(event.reason)}{proof}")


_REASONS = ("HoldReason", "ReleaseReason", "RemoveReason")


def _moved(event: e.JobsTransitioned) -> _Part:
    said = [shortened(unquoted(event.changes[name])) for name in _REASONS if event.changes.get(name)]
    if event.changes.get("HoldReasonCode"):
        said.append(f"code {event.changes['HoldReasonCode']}")
    return _Part(event.row, ", ".join(said), event.source, event.target)


def ending(event: e.JobExited) -> str:
    """How a job's own process ended, in words."""
    if event.signal is not None:
        return f"signal {event.signal}"
    return "no exit code" if event.code is None else f"code {event.code}"


def client_end(event: e.BackfillExited) -> str:
    """How a backfill client ended, in words."""
    if event.signal is None and event.code is None:
        return event.outcome
    return f"{event.outcome}, {f'code {event.code}' if event.signal is None else f'signal {event.signal}'}"


def _client_gone(event: e.BackfillExited) -> _Part:
    said = [client_end(event), shortened(event.reason)]
    said += [f"not again before {instant(event.retry)} UTC"] if event.retry else []
    if event.user_cpu or event.system_cpu:
        said.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return _Part("backfill over", ", ".join(filter(None, said)))


def _exited(event: e.JobExited) -> _Part:
    said = [event.outcome, ending(event), f"on {event.slot}"]
    if event.changes.get("HoldReason"):
        said.append(shortened(unquoted(event.changes["HoldReason"])))
    if event.user_cpu or event.system_cpu:
        said.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return _Part(event.row or "exit", ", ".join(said), event.source, event.target)


def _edited(event: e.JobsEdited) -> _Part:
    said = [_ad(event.changes)] if event.changes else []
    return _Part("edited", "; ".join([*said, *map(shortened, event.notes)]))


def _measured(event: e.JobMeasured) -> _Part:
    cpu = interval(event.user_cpu + event.system_cpu)
    return _Part("measured", f"memory {memory(event.resident)}, disk {memory(event.disk)}, CPU {cpu}")


def _facts(event: e.DaemonReported | e.SlotReported | e.JobReported | e.SubmitterReported | e.CycleReported) -> str:
    return shortened(", ".join(f"{name} {value}" for name, value in event.facts.items()))


def _reported(event: e.SlotReported | e.JobReported | e.SubmitterReported | e.CycleReported) -> _Part:
    return _Part(event.said, _facts(event))


def _logged(event: e.JobLogged) -> _Part:
    kind = ENTRIES.get(event.number)
    return _Part(kind.name if kind else f"entry {event.number:03}", shortened(event.text.partition("\n")[0].strip()))


def _activated(event: e.JobActivated) -> _Part:
    waits = event.deferred - event.at
    later = (
        f", to be started in {interval(waits)}" if waits > 0 else ", too late for its time" if event.deferred else ""
    )
    return _Part("activate", f"on {event.slot}{later}", "Idle", "Running")


def _transferred(event: e.JobTransferEnded) -> _Part:
    files = f"{event.files} file{'' if event.files == 1 else 's'}"
    done = "failed" if event.failed else "kept" if event.kept else "done"
    return _Part("transfer", f"{event.way} {done}: {files}, {event.size} bytes")


_OF_JOBS: dict[type[e.Event], Callable[[Any], _Part]] = {
    e.ClusterSubmitted: _submitted,
    e.JobsTransformed: _transformed,
    e.JobsMaterialized: lambda event: _Part("made", "", "Unsubmitted", event.status),
    e.JobsTransitioned: _moved,
    e.JobsEdited: _edited,
    e.JobsDeferred: lambda event: _Part("deferred", f"in {interval(event.until - event.at)}"),
    e.JobActivated: _activated,
    e.JobDue: lambda event: _Part("due"),
    e.JobCooledDown: lambda event: _Part("cooled down"),
    e.MailDue: lambda event: _Part("mail due", f"to {', '.join(event.to) or 'nobody'}: {shortened(event.subject)}"),
    e.Mailed: lambda event: _Part("mailed", shortened(event.failure) or "sent"),
    e.JobTransferBegan: lambda event: _Part("transfer", f"{event.way} begins"),
    e.JobTransferEnded: _transferred,
    e.JobExecuting: lambda event: _Part("executing", f"pid {event.pid}"),
    e.JobMeasured: _measured,
    e.JobSignalled: lambda event: _Part("signalled", event.how),
    e.JobExited: _exited,
    e.JobLogged: _logged,
    e.JobReported: _reported,
}
_SETS = (e.ClusterSubmitted, e.JobsMaterialized, e.JobsTransitioned, e.JobsEdited, e.JobsDeferred)


# What is said of everything else: the thing and the part


def _born(event: e.SlotCreated) -> _Part:
    origin = f", of {event.parent}" if event.parent else ""
    return _Part("born", f"{event.kind}{origin}", "", BORN)


def _slot_moved(event: e.SlotTransitioned) -> _Part:
    said = event.reason or (f"evidence {event.evidence}" if event.evidence else "")
    return _Part(event.row or "no row", said, event.source, event.target, LETTERS.get(event.row, ""))


def _settings(settings: e.Ad) -> str:
    return shortened(", ".join(f"{name} = {text or 'its default'}" for name, text in settings.items()))


def _drain_began(event: e.DrainBegan) -> _Part:
    said = [f"drain {event.drain}", shortened(event.reason)]
    said += [f"then {event.completion}" * bool(event.completion), f"START = {event.start}" * bool(event.start)]
    return _Part("start", ", ".join(filter(None, said)), OPEN, event.schedule)


def _polled(event: e.DefragPolled) -> _Part:
    said = [defrag_words.seen(event), defrag_words.done(event)]
    return _Part("polled", shortened("; ".join(filter(None, said)), 240))


def _claim(event: e.ClaimMade | e.ClaimQueued) -> list[str]:
    """Who holds a claim or waits for it, and for which job, where it is not made and activated at once."""
    held = [f"by {event.submitter}"]
    held += [f"of {event.holder}"] if event.holder else []
    held += [f"for job {event.job}"] if event.job else []
    held += [f"lease {interval(event.lease * 1_000_000)}"] if event.lease else []
    return held


def _claim_made(event: e.ClaimMade) -> _Part:
    first, *rest = _claim(event)
    return _Part("claimed", ", ".join([first, f"weight {event.weight / 1000:g}", *rest]))


def _marked(event: e.ClaimFlagged) -> _Part:
    code = f" (code {event.code}, subcode {event.subcode})" if event.code else ""
    flags = ", ".join(event.flags)
    return _Part("marked", f"{flags}{': ' if flags and event.reason else ''}{shortened(event.reason)}{code}")


def _unheard(event: e.ClaimHolderSilent) -> _Part:
    if not event.until:
        return _Part("heard", "the holder, again")
    return _Part("unheard", f"the lease ends at {instant(event.until)} UTC")


def _priorities(event: e.PrioritiesUpdated) -> _Part:
    return _Part("updated", shortened(", ".join(f"{name} {value:.6g}" for name, value in event.priorities.items())))


def _quotas(event: e.QuotasAssigned) -> _Part:
    of = ", ".join(f"{one.name} {one.quota:.6g}" for one in event.groups)
    return _Part("quotas", shortened(f"{event.total:.6g} cores: {of}" if of else "there are no groups any more"))


def _submitter_set(event: e.SubmitterSet) -> _Part:
    by = f"by {event.user}"
    if event.until > event.at:
        return _Part("lent", f"{event.name} {event.value:g} until {instant(event.until)} UTC, {by}")
    if event.until:
        return _Part("lease ended", f"{event.name}, {by}")
    return _Part("set", f"{event.name} {event.value:g}, {by}")


def _table(event: e.TableWritten) -> _Part:
    keys = list(dict.fromkeys(key for _, key, _, _ in event.operations))
    return _Part(
        "written", f"transaction {event.number}: {counted(len(event.operations), 'operation')} on {_some(keys)}"
    )


def _some(names: list[str]) -> str:
    return shortened(", ".join(names), 60) or "nothing"


def _kept(event: e.AdsKept) -> _Part:
    kind = REPORT_KINDS.get(event.kind)
    return _Part("kept", f"{counted(event.count, 'ad')} of {kind.name if kind else event.kind}")


def _gap(event: e.SourceGap) -> _Part:
    times = [instant(at) if at else "?" for at in (event.since, event.until)]
    return _Part("gap", f"before line {event.line}: {event.words}, {times[0]} to {times[1]} UTC")


_OF_ONE: dict[type[e.Event], tuple[str, Callable[[Any], _Part]]] = {
    # kind: (the field that names the thing, or the name itself), what is said
    e.PoolFounded: (
        "pool",
        lambda event: _Part("founded", f"{event.name}, dialect {event.dialect}, version {event.version}"),
    ),
    e.PoolConfigured: ("pool", lambda event: _Part("configured", _settings(event.settings))),
    e.PrioritiesUpdated: ("accountant", _priorities),
    e.QuotasAssigned: ("negotiator", _quotas),
    e.SubmitterSet: (".submitter", _submitter_set),
    e.SubmittersReset: (
        "accountant",
        lambda event: _Part("reset", f"the usage of {_some(list(event.submitters))}, by {event.user}"),
    ),
    e.SubmissionRefused: (".user", _refused),
    e.SubmitterDeleted: (".submitter", lambda event: _Part("deleted", f"by {event.user}")),
    e.FactoryTransitioned: (
        ".cluster",
        lambda event: _Part("factory", event.reason, event.source, event.target),
    ),
    e.WriterBegan: ("pool", lambda event: _Part("writer", f"epoch {event.epoch}: {event.writer}")),
    e.RequestAnswered: (
        ".user",
        lambda event: _Part("asked", shortened(f"{event.request} {event.arguments}: answered {event.answer}")),
    ),
    e.EvaluationRecorded: (
        "evidence",
        lambda event: _Part("noted", f"{shortened(f'{event.name} = {event.expression}')} is {event.value}"),
    ),
    e.MachineJoined: (".machine", lambda event: _Part("joined", _settings(event.settings))),
    e.MachineConfigured: (".machine", lambda event: _Part("configured", _settings(event.settings))),
    e.BenchmarksRan: (".slot", lambda event: _Part("benchmarks", f"Mips {event.mips}, KFlops {event.kflops}")),
    e.CpuBusyChanged: (".slot", lambda event: _Part("busy" if event.busy else "not busy", "CpuBusy")),
    e.DrainBegan: (".machine", _drain_began),
    e.DrainTransitioned: (
        ".machine",
        lambda event: _Part(event.row, f"drain {event.drain}", event.source, event.target),
    ),
    e.DrainFinal: (".machine", lambda event: _Part("jobs gone", f"those of before drain {event.drain}")),
    e.DrainBadputAdded: (".slot", lambda event: _Part("badput", f"{event.badput:,} core-seconds")),
    e.DefragPolled: ("defrag", _polled),
    e.BackfillStarted: (
        ".machine",
        lambda event: _Part("backfill", f"{event.system}, {event.client.get('Executable', '')}, for {event.slot}"),
    ),
    e.BackfillExecuting: (".machine", lambda event: _Part("backfill runs", f"pid {event.pid}")),
    e.BackfillSignalled: (".machine", lambda event: _Part("backfill told", "hard")),
    e.BackfillExited: (".machine", _client_gone),
    e.BackfillLeaving: (".slot", lambda event: _Part("leaves for", event.destination)),
    e.ShutdownBegan: (".machine", lambda event: _Part("off", event.how)),
    e.MachineLeft: (".machine", lambda event: _Part("left")),
    e.SlotCreated: (".slot", _born),
    e.SlotTransitioned: (".slot", _slot_moved),
    e.SlotAdChanged: (".slot", lambda event: _Part("changed", _ad(event.changes))),
    e.SlotDestroyed: (".slot", lambda event: _Part("died")),
    e.ClaimMade: (".slot", _claim_made),
    e.ClaimQueued: (".slot", lambda event: _Part("waited for", ", ".join([*_claim(event), f"rank {event.rank:g}"]))),
    e.ClaimWithdrawn: (".slot", lambda event: _Part("withdrawn", "the better match that waited")),
    e.ClaimFlagged: (".slot", _marked),
    e.ClaimActivated: (".slot", lambda event: _Part("job begins", f"job {event.job}")),
    e.ClaimDeactivated: (".slot", lambda event: _Part("job gone", f"job {event.job}")),
    e.StarterSignalled: (".slot", lambda event: _Part("told", event.how)),
    e.ClaimHolderSilent: (".slot", _unheard),
    e.ClaimEnded: (
        ".slot",
        lambda event: _Part("claim over", f"of {event.submitter}, usage {event.usage / 1e9:g} s"),
    ),
    e.MatchVoided: (".slot", lambda event: _Part("match void", f"with job {event.job}")),
    e.SourceFound: ("source", lambda event: _Part("found", f"source {event.source}, {event.kind}: {event.path}")),
    e.SourceRead: (
        "source",
        lambda event: _Part("read", f"source {event.source}, up to line {event.lines}: {event.path}"),
    ),
    e.SourceRefused: (
        "source",
        lambda event: _Part("refused", f"line {event.line}: {event.words}: {shortened(event.text, 60)}"),
    ),
    e.SourceGap: ("source", _gap),
    e.DaemonReported: (".machine", lambda event: _Part(f"{event.daemon} {event.said}", _facts(event))),
    e.SlotReported: (".slot", _reported),
    e.SubmitterReported: (".submitter", _reported),
    e.CycleReported: ("negotiator", _reported),
    e.AdsKept: ("ads", _kept),
    e.TableWritten: (".kind", _table),
}


KINDS = frozenset({*_OF_JOBS, *_OF_ONE, e.CycleHeld, e.JobsLogged})  #: the kinds of event that have a line


def _cycle(event: e.CycleHeld) -> Iterator[tuple[str, _Part]]:
    for match in event.matches:
        by = f", by {match.reason}" if match.reason else ""
        by += f", for which {', '.join(match.preempts)} go" if match.preempts else ""
        yield match.job, _Part("match", f"with {match.slot}, rank {match.rank:g}{by}")
    for reason in event.unmatched:
        like = f"{counted(reason.jobs, 'job')} like it, " if reason.jobs > 1 else ""
        left = reason.clauses[-1].left if reason.clauses else reason.slots
        yield reason.job, _Part("no match", f"{like}{left} of {counted(reason.slots, 'slot')} meet its Requirements")


def _parts(event: e.Event) -> Iterator[tuple[str, _Part]]:
    """The members of an event: the thing, and what is said of it."""
    kind = type(event)
    jobs = job_procs(event)
    if jobs is not None and kind in _OF_JOBS:
        cluster, procs = jobs
        part = _OF_JOBS[kind](event)
        if isinstance(event, e.ClusterSubmitted) and event.factory:
            return iter([(f"{cluster}.", _Part(part.what, f"{part.details}, a factory of {event.count} jobs"))])
        return ((f"{cluster}.{proc}", part) for first, last in procs for proc in range(first, last + 1))
    if isinstance(event, e.CycleHeld):
        return _cycle(event)
    named, say = _OF_ONE[kind]
    if isinstance(event, e.FactoryTransitioned):
        return iter([(f"{event.cluster}.", say(event))])
    return iter([(getattr(event, named[1:]) if named[0] == "." else named, say(event))])


def members(position: int, event: e.Event) -> Iterator[Member]:
    """What the event at `position` says, thing by thing."""
    if isinstance(event, e.JobsLogged):
        yield from _entries(position, event)
        return
    several = isinstance(event, (*_SETS, e.CycleHeld))
    stream = event.stream
    for index, (thing, part) in enumerate(_parts(event)):
        yield Member(
            position, index, several, event.at, stream, thing, part.what, part.letter, part.source, part.target,
            event.cause, part.details, event.stimulus,
        )  # fmt: skip


def _entries(position: int, event: e.JobsLogged) -> Iterator[Member]:
    for index, entry in enumerate(event.logged()):
        for member in members(position, entry):
            yield evolve(member, index=index, several=True)


def member_of(position: int, event: e.Event, proc: int) -> Member | None:
    """What an event about jobs says of one process, without looking at the others; None if nothing."""
    jobs = job_procs(event)
    if jobs is None or type(event) not in _OF_JOBS:
        return None
    cluster, procs = jobs
    index = 0
    for first, last in procs:
        if first <= proc <= last:
            part = _OF_JOBS[type(event)](event)
            return Member(
                position, index + proc - first, isinstance(event, _SETS), event.at, event.stream, f"{cluster}.{proc}",
                part.what, part.letter, part.source, part.target, event.cause, part.details, event.stimulus,
            )  # fmt: skip
        index += last - first + 1
    return None


def line(member: Member, zone: tzinfo = UTC, place: str = "") -> str:
    """One line for people; times are those of `zone`. `place`: where the record stands that the event is made of."""
    way = f"{member.source} -> {member.target}".strip() if member.target else ""
    said = f"{member.words} ({member.details})" if member.details else member.words
    if member.cause == "reported":  # where it stands says who says so
        said = member.details
    text = (
        f"{member.number:>8}  {instant(member.at, zone)}  {member.thing:<16} {member.what:<10} {member.letter:<1} "
        f"{way:<40} {said} [{place or member.stimulus}]"
    )
    return text.rstrip()


def as_dict(member: Member, place: str = "") -> dict[str, object]:
    """The same for ``--json``: every field, with the instant in ISO 8601 (UTC) and the cause's words."""
    return ({"place": place} if place else {}) | {
        "position": member.position, "index": member.index, "at": iso(member.at), "stream": member.stream,
        "thing": member.thing, "what": member.what, "letter": member.letter, "source": member.source,
        "target": member.target, "cause": member.cause, "words": member.words, "details": member.details,
        "stimulus": member.stimulus,
    }  # fmt: skip


# What is to be listed


@frozen
class Wanted:
    """A stream of the log, and of a cluster's one process."""

    stream: str
    proc: int | None = None


_NAMED_STREAMS = ("pool", "requests", "evidence", "negotiator", "accountant", "defrag")
# The first that fits: what people say, and the stream that it means.
_SAID = (
    (re.compile(r"(?:cluster/)?(\d+)\.(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(r"(?:cluster/)?(\d+)", re.ASCII), "cluster/{}"),
    (re.compile(rf"({'|'.join(_NAMED_STREAMS)})"), "{}"),
    (re.compile(r"((?:slot|machine|submitter|source|ads|table)/.+)"), "{}"),
    (re.compile(r"([^/]+@.+)"), "slot/{}"),
)


def wanted(text: str) -> Wanted:
    """What `text` names: a slot, a cluster, a job, or a stream under its own name. Raises ValueError."""
    for pattern, stream in _SAID:
        found = pattern.fullmatch(text)
        if found:
            first, *proc = found.groups()
            number = str(int(first)) if stream == "cluster/{}" else first
            return Wanted(stream.format(number), int(proc[0]) if proc else None)
    raise ValueError(
        f"{text!r} names nothing that a log keeps: give a job (3.1), a cluster (3), a slot (slot1@host), "
        f"machine/NAME, submitter/NAME, or one of {', '.join(_NAMED_STREAMS)}; of an imported log also source/1, "
        "ads/history, table/queue and others of their kind"
    )


_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400,
            "day": 86_400, "w": 604_800, "week": 604_800}  # fmt: skip
_AGO = re.compile(r"-?(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+ago)?", re.ASCII)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}
_DAY = 86_400_000_000


def is_clock(text: str) -> bool:
    """Whether a text is a time of day alone."""
    return _CLOCK.fullmatch(text.strip()) is not None


def since(text: str, now: int, zone: tzinfo = UTC, after: int | None = None) -> int:
    """The instant that `text` means, in microseconds: a date or time of ISO 8601 (of `zone`, unless it says its own);
    how long before `now`: "10 min", "-2h"; "today" or "yesterday", its midnight; or a time of day, 3:00, the last one
    before `now`, or with `after` the first one from there on. Raises ValueError."""
    said = text.strip().lower()
    ago, clock = _AGO.fullmatch(said), _CLOCK.fullmatch(said)
    if ago and ago[2] in _SECONDS:
        return now - round(float(ago[1]) * _SECONDS[ago[2]] * 1_000_000)
    near = now if after is None or not clock else after
    day = datetime.fromtimestamp(near // 1_000_000, zone).replace(hour=0, minute=0, second=0)
    try:
        if clock:
            when = day.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
        else:
            when = day - timedelta(_DAYS[said]) if said in _DAYS else datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: give a date and time (2027-01-15T08:00), a time of day (3:00), today, yesterday, or "
            "how long ago (10 min, 2 h, 3 days)"
        ) from None
    at = round((when if when.tzinfo else when.replace(tzinfo=zone)).timestamp() * 1_000_000)
    if not clock:
        return at
    return at - _DAY * (at > now) if after is None else at + _DAY * (at < after)


def listed(
    events: Iterable[tuple[int, e.Event]], begin: int = 0, proc: int | None = None, end: int = EVER
) -> Iterator[Member]:
    """The members of `events` from the instant `begin` on, before `end`; of one process alone, if it is given."""
    recent = ((position, event) for position, event in events if begin <= event.at < end or type(event) is e.JobsLogged)
    if proc is None:
        found = chain.from_iterable(members(position, event) for position, event in recent)
    else:
        found = chain.from_iterable(_of_proc(position, event, proc) for position, event in recent)
    return (member for member in found if begin <= member.at < end)


def _of_proc(position: int, event: e.Event, proc: int) -> Iterator[Member]:
    if isinstance(event, e.JobsLogged):  # which may have several of one process
        thing = f"{event.cluster}.{proc}"
        return (member for member in _entries(position, event) if member.thing == thing)
    member = member_of(position, event, proc)
    return iter(() if member is None else (member,))


def entries(log: Log, what: Wanted | None = None, begin: int = 0, end: int = EVER) -> Iterator[Member]:
    """The entries of a log, or of `what` alone: one read of its stream. Those from `begin` on, before `end`."""
    if what is None:
        return listed(log.read(), begin, end=end)
    return listed(log.read_stream(what.stream), begin, what.proc, end)
