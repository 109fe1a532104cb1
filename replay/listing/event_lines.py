"""Format the members of an event: its changes to each job, slot, machine or other subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter, methodcaller
from string import Formatter
from typing import Any, Final, NamedTuple

from ...domain import events as e
from ...domain.imported.job_event_log import ENTRIES
from ...domain.imported.record_sources import KINDS as REPORT_KINDS
from ...domain.package_data import get_data
from ...domain.state.job_ad import unquoted
from ...domain.state.job_procs import job_procs
from ...domain.state_machines import DIALECTS
from ...domain.state_machines.drain import INITIAL_DRAIN_STATE
from ...domain.state_machines.job_rows import UNSUBMITTED
from ...domain.state_machines.slot_rows import INITIAL_PAIR, UNLETTERED
from ..narration import defrag_words
from ..narration.formatting import counted, excerpt, instant, interval, memory, shortened
from ..narration.sentence_tables import tables

LETTERS: dict[str, str] = {
    row.number: row.letter.strip(UNLETTERED) for dialect in DIALECTS.values() for row in dialect.slot_rows
}
"""The letter of each numbered slot transition; empty if it has none. A number has the same letter in all dialects that
contain it."""


def transition(row: str) -> str:
    """Return a description of a numbered slot transition, with its letter if the state changes."""
    letter = LETTERS.get(row, "")
    if not row:
        return "a transition that no rule allows"
    return f"transition {row} ({letter})" if letter else f"transition {row}"


class Part(NamedTuple):
    what: str
    details: str = ""
    source: str = ""
    target: str = ""
    letter: str = ""


def _ad(changes: e.Ad) -> str:
    return shortened(", ".join(f"{name} = {text}" if text else f"{name} gone" for name, text in changes.items()))


_FORMS: Final[dict[str, Callable[[Any], str]]] = {
    "ad": _ad,
    "facts": lambda facts: shortened(", ".join(f"{name} {value}" for name, value in facts.items())),
    "executable": lambda ad: ad.get("Executable", ""),
    "names": lambda names: shortened(", ".join(names), 60) or "nothing",
    "settings": lambda ad: shortened(", ".join(f"{name} = {text or 'its default'}" for name, text in ad.items())),
    "priorities": lambda values: shortened(", ".join(f"{name} {value:.6g}" for name, value in values.items())),
    "start": lambda text: shortened(text, 60),
    "usage": lambda usage: f"{usage / 1e9:g} s",
}


def _column(template: str) -> Callable[[e.Event], str]:
    pieces = [
        (text, attrgetter(name or "at"), _FORMS.get(form or "", methodcaller("__format__", form)) if name else _nothing)
        for text, name, form, _ in Formatter().parse(template)
    ]
    return lambda event: "".join(text + show(field(event)) for text, field, show in pieces)


def _nothing(_: object) -> str:
    return ""


def _part(row: str) -> Callable[[e.Event], Part]:
    columns = [_column(template) for template in row.split(" | ")]
    return lambda event: Part(*[column(event) for column in columns])


_LINES: Final = tables(get_data(__package__, "event_lines.txt"))


# Lines for each job of an event about jobs


def _submitted(event: e.ClusterSubmitted) -> Part:
    row = "submit_on_hold" if event.status == "Held" else "submit"
    user = unquoted(event.ad.get("User", "")) or event.submitter
    counts = f", for {event.submitter}" if user != event.submitter else ""
    return Part(row, f"by {user}{counts}", UNSUBMITTED, event.status)


def _transformed(event: e.JobsTransformed) -> Part:
    suffix = f"; {len(event.columns)} chunks of what differs" if event.columns else ""
    return Part("transformed", f"by {event.transform}: {_ad(event.changes)}{suffix}")


def _refused(event: e.SubmissionRefused) -> Part:
    proof = f", evidence {event.evidence}" if event.evidence else ""
    return Part("refused", f"cluster {event.cluster}, by {event.setting}: {shortened(event.reason)}{proof}")


_REASONS = ("HoldReason", "ReleaseReason", "RemoveReason")


def _moved(event: e.JobsTransitioned) -> Part:
    details = [excerpt(unquoted(event.changes[name])) for name in _REASONS if event.changes.get(name)]
    if event.changes.get("HoldReasonCode"):
        details.append(f"code {event.changes['HoldReasonCode']}")
    return Part(event.row, ", ".join(details), event.source, event.target)


def ending(event: e.JobExited) -> str:
    """Return a description of how a job's process ended."""
    if event.signal is not None:
        return f"signal {event.signal}"
    return "no exit code" if event.code is None else f"code {event.code}"


def client_end(event: e.BackfillExited) -> str:
    """Return a description of how a backfill client ended."""
    if event.signal is None and event.code is None:
        return event.outcome
    return f"{event.outcome}, {f'code {event.code}' if event.signal is None else f'signal {event.signal}'}"


def _client_gone(event: e.BackfillExited) -> Part:
    details = [client_end(event), shortened(event.reason)]
    details += [f"not again before {instant(event.retry)} UTC"] if event.retry else []
    if event.user_cpu or event.system_cpu:
        details.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return Part("backfill over", ", ".join(filter(None, details)))


def _exited(event: e.JobExited) -> Part:
    details = [event.outcome, ending(event), f"on {event.slot}"]
    if event.changes.get("HoldReason"):
        details.append(excerpt(unquoted(event.changes["HoldReason"])))
    if event.user_cpu or event.system_cpu:
        details.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return Part(event.row or "exit", ", ".join(details), event.source, event.target)


def _edited(event: e.JobsEdited) -> Part:
    details = [_ad(event.changes)] if event.changes else []
    return Part("edited", "; ".join([*details, *map(shortened, event.notes)]))


def _measured(event: e.JobMeasured) -> Part:
    cpu = interval(event.user_cpu + event.system_cpu)
    return Part("measured", f"memory {memory(event.resident)}, disk {memory(event.disk)}, CPU {cpu}")


def _logged(event: e.JobLogged) -> Part:
    kind = ENTRIES.get(event.number)
    return Part(kind.name if kind else f"entry {event.number:03}", shortened(event.text.partition("\n")[0].strip()))


def _activated(event: e.JobActivated) -> Part:
    wait = event.deferred - event.at
    text = f", to be started in {interval(wait)}" if wait > 0 else ", too late for its time" if event.deferred else ""
    return Part("activate", f"on {event.slot}{text}", "Idle", "Running")


def _transferred(event: e.JobTransferEnded) -> Part:
    files = f"{event.files} file{'' if event.files == 1 else 's'}"
    result = "failed" if event.failed else "kept" if event.kept else "done"
    return Part("transfer", f"{event.way} {result}: {files}, {event.size} bytes")


OF_JOBS: dict[type[e.Event], Callable[[Any], Part]] = {
    e.ClusterSubmitted: _submitted,
    e.JobsTransformed: _transformed,
    e.JobsTransitioned: _moved,
    e.JobsEdited: _edited,
    e.JobsDeferred: lambda event: Part("deferred", f"in {interval(event.until - event.at)}"),
    e.JobActivated: _activated,
    e.ReservationEnded: lambda event: Part("reservation over", f"on {event.slot}" if event.slot else ""),
    e.MailDue: lambda event: Part("mail due", f"to {', '.join(event.to) or 'no one'}: {shortened(event.subject)}"),
    e.Mailed: lambda event: Part("mailed", shortened(event.failure) or "sent"),
    e.JobTransferEnded: _transferred,
    e.JobMeasured: _measured,
    e.JobExited: _exited,
    e.JobLogged: _logged,
}
OF_JOBS.update((getattr(e, kind), _part(row)) for kind, row in _LINES["jobs"].items())
SETS = (e.ClusterSubmitted, e.JobsMaterialized, e.JobsTransitioned, e.JobsEdited, e.JobsDeferred)


# Lines for all other events: the subject and the line


def _born(event: e.SlotCreated) -> Part:
    origin = f", of {event.parent}" if event.parent else ""
    return Part("born", f"{event.kind}{origin}", "", INITIAL_PAIR)


def _slot_moved(event: e.SlotTransitioned) -> Part:
    reason = event.reason or (f"evidence {event.evidence}" if event.evidence else "")
    return Part(event.row or "no row", reason, event.source, event.target, LETTERS.get(event.row, ""))


def _drain_began(event: e.DrainBegan) -> Part:
    details = [f"drain {event.drain}", shortened(event.reason)]
    details += [f"then {event.completion}" * bool(event.completion), f"START = {event.start}" * bool(event.start)]
    return Part("start", ", ".join(filter(None, details)), INITIAL_DRAIN_STATE, event.schedule)


def _polled(event: e.DefragPolled) -> Part:
    details = [defrag_words.poll_sentence(event), defrag_words.poll_result(event)]
    return Part("polled", shortened("; ".join(filter(None, details)), 240))


def _claim(event: e.ClaimMade | e.ClaimQueued) -> list[str]:
    """Return the details of a claim: its user, holder, job (if it is not activated immediately) and lease."""
    holder_parts = [f"by {event.submitter}"]
    holder_parts += [f"of {event.holder}"] if event.holder else []
    holder_parts += [f"for job {event.job}"] if event.job else []
    holder_parts += [f"lease {interval(event.lease * 1_000_000)}"] if event.lease else []
    return holder_parts


def _claim_made(event: e.ClaimMade) -> Part:
    first_part, *other_parts = _claim(event)
    return Part("claimed", ", ".join([first_part, f"weight {event.weight / 1000:g}", *other_parts]))


def _marked(event: e.ClaimFlagged) -> Part:
    code = f" (code {event.code}, subcode {event.subcode})" if event.code else ""
    flags = ", ".join(event.flags)
    return Part("marked", f"{flags}{': ' if flags and event.reason else ''}{shortened(event.reason)}{code}")


def _unheard(event: e.ClaimHolderSilent) -> Part:
    if not event.until:
        return Part("heard", "the holder, again")
    return Part("unheard", f"the lease ends at {instant(event.until)} UTC")


def _quotas(event: e.QuotasAssigned) -> Part:
    quotas = ", ".join(f"{group.name} {group.quota:.6g}" for group in event.groups)
    return Part("quotas", shortened(f"{event.total:.6g} cores: {quotas}" if quotas else "there are no groups any more"))


def _submitter_set(event: e.SubmitterSet) -> Part:
    user_text = f"by {event.user}"
    if event.until > event.at:
        return Part("lent", f"{event.name} {event.value:g} until {instant(event.until)} UTC, {user_text}")
    if event.until:
        return Part("lease ended", f"{event.name}, {user_text}")
    return Part("set", f"{event.name} {event.value:g}, {user_text}")


def _table(event: e.TableWritten) -> Part:
    keys = _FORMS["names"](list(dict.fromkeys(key for _, key, _, _ in event.operations)))
    return Part("written", f"transaction {event.number}: {counted(len(event.operations), 'operation')} on {keys}")


def _kept(event: e.AdsKept) -> Part:
    kind = REPORT_KINDS.get(event.kind)
    return Part("kept", f"{counted(event.count, 'ad')} of {kind.name if kind else event.kind}")


def _asked(event: e.RequestAnswered) -> Part:
    return Part("asked", shortened(f"{event.request} {event.arguments}: answered {event.answer}"))


def _noted(event: e.EvaluationRecorded) -> Part:
    return Part("noted", f"{shortened(f'{event.name} = {event.expression}')} is {event.value}")


def _gap(event: e.SourceGap) -> Part:
    times = [instant(at) if at else "?" for at in (event.since, event.until)]
    return Part("gap", f"before line {event.line}: {event.words}, {times[0]} to {times[1]} UTC")


_OF_ONE: dict[type[e.Event], tuple[str, Callable[[Any], Part]]] = {
    # kind: (the field with the subject's name, or a fixed name), the function that formats the line
    e.QuotasAssigned: ("negotiator", _quotas),
    e.SubmitterSet: (".submitter", _submitter_set),
    e.SubmissionRefused: (".user", _refused),
    e.RequestAnswered: (".user", _asked),
    e.EvaluationRecorded: ("evidence", _noted),
    e.CpuBusyChanged: (".slot", lambda event: Part("busy" if event.busy else "not busy", "CpuBusy")),
    e.DrainBegan: (".machine", _drain_began),
    e.DefragPolled: ("defrag", _polled),
    e.BackfillExited: (".machine", _client_gone),
    e.SlotCreated: (".slot", _born),
    e.SlotTransitioned: (".slot", _slot_moved),
    e.ClaimMade: (".slot", _claim_made),
    e.ClaimQueued: (".slot", lambda event: Part("waited for", ", ".join([*_claim(event), f"rank {event.rank:g}"]))),
    e.ClaimFlagged: (".slot", _marked),
    e.ClaimHolderSilent: (".slot", _unheard),
    e.SourceGap: ("source", _gap),
    e.AdsKept: ("ads", _kept),
    e.TableWritten: (".kind", _table),
}
for _kind, _row in _LINES["things"].items():
    _thing, _, _columns = _row.partition(" | ")
    _OF_ONE[getattr(e, _kind)] = _thing, _part(_columns)


KINDS = frozenset({*OF_JOBS, *_OF_ONE, e.CycleHeld, e.JobsLogged})  #: the kinds of events that are listed


def _cycle(event: e.CycleHeld) -> Iterator[tuple[str, Part]]:
    for match in event.matches:
        reason_text = f", by {match.reason}" if match.reason else ""
        reason_text += f", preempting {', '.join(match.preempts)}" if match.preempts else ""
        yield match.job, Part("match", f"with {match.slot}, rank {match.rank:g}{reason_text}")
    for reason in event.unmatched:
        alike_text = f"{counted(reason.jobs, 'job')} like it, " if reason.jobs > 1 else ""
        slots_left = reason.clauses[-1].left if reason.clauses else reason.slots
        yield (
            reason.job,
            Part("no match", f"{alike_text}{slots_left} of {counted(reason.slots, 'slot')} meet its Requirements"),
        )


def parts(event: e.Event) -> Iterator[tuple[str, Part]]:
    """Yield the members of an event: the subject, and the rest of its line."""
    kind = type(event)
    jobs = job_procs(event)
    if jobs is not None and kind in OF_JOBS:
        cluster, procs = jobs
        part = OF_JOBS[kind](event)
        if isinstance(event, e.ClusterSubmitted) and event.factory:
            return iter([(f"{cluster}.", Part(part.what, f"{part.details}, a factory of {event.count} jobs"))])
        return ((f"{cluster}.{proc}", part) for first, last in procs for proc in range(first, last + 1))
    if isinstance(event, e.CycleHeld):
        return _cycle(event)
    named, read_event = _OF_ONE[kind]
    if isinstance(event, e.FactoryTransitioned):
        return iter([(f"{event.cluster}.", read_event(event))])
    return iter([(getattr(event, named[1:]) if named[0] == "." else named, read_event(event))])
