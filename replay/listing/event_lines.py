"""Format the members of an event: its changes to each job, slot, machine or other subject."""

from __future__ import annotations

import re
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
from ...domain.state.offline_ads import is_offline
from ...domain.state_machines import DIALECTS
from ...domain.state_machines.job_rows import UNSUBMITTED
from ...domain.state_machines.slot_rows import UNLETTERED
from ..narration import defrag_words
from ..narration.formatting import counted, excerpt, instant, interval, memory, shorten_text
from ..narration.sentence_tables import cause_words, tables

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


class Row(NamedTuple):
    """The columns of a line. ``source`` and ``target`` are the states of a transition, and ``letter`` is its letter."""

    what: str
    details: str = ""
    source: str = ""
    target: str = ""
    letter: str = ""


def _ad(changes: e.Ad) -> str:
    return shorten_text(", ".join(f"{name} = {text}" if text else f"{name} gone" for name, text in changes.items()))


def _report_name(kind: str) -> str:
    return REPORT_KINDS[kind].name if kind in REPORT_KINDS else kind


_FORMS: Final[dict[str, Callable[[Any], str]]] = {
    "ad": _ad,
    "ads": lambda count: counted(count, "ad"),
    "busy": lambda is_busy: "busy" if is_busy else "not busy",
    "cause": cause_words,
    "chunks": lambda columns: f"{len(columns)} chunks",
    "facts": lambda facts: shorten_text(", ".join(f"{name} {value}" for name, value in facts.items())),
    "everywhere": lambda _: " at all managers",
    "executable": lambda ad: ad.get("Executable", ""),
    "instant": instant,
    "instant_or_unknown": lambda at: instant(at) if at else "?",
    "joined": ", ".join,
    "kept": lambda ad: "offline" if is_offline(ad) else "absent",
    "names": lambda names: shorten_text(", ".join(names), 60) or "nothing",
    "settings": lambda ad: shorten_text(", ".join(f"{name} = {text or 'its default'}" for name, text in ad.items())),
    "numbers": lambda numbers: shorten_text(", ".join(map(str, numbers)), 60),
    "on": lambda is_on: "on" if is_on else "off",
    "priorities": lambda values: shorten_text(", ".join(f"{name} {value:.6g}" for name, value in values.items())),
    "report": _report_name,
    "seconds": lambda seconds: interval(seconds * 1_000_000),
    "short": shorten_text,
    "start": lambda text: shorten_text(text, 60),
    "usage": lambda usage: f"{usage / 1e9:g} s",
    "weight": lambda weight: f"{weight / 1000:g}",
}


def _column_formatter(template: str) -> Callable[[e.Event], str]:
    parts = [(bool(index % 2), _pieces(text)) for index, text in enumerate(re.split(r"\[(.*?)\]", template))]
    return lambda event: "".join(
        text + show(field(event))
        for is_optional, pieces in parts
        if not is_optional or all(field(event) for _, field, _ in pieces)
        for text, field, show in pieces
    )


def _pieces(template: str) -> list[tuple[str, Callable[[Any], Any], Callable[[Any], str]]]:
    """Return the parts of a template: a text, and the field after it with its format."""
    return [
        (text, attrgetter(name), _FORMS.get(form or "") or methodcaller("__format__", form)) if name
        else (text, lambda event: True, lambda _: "")
        for text, name, form, _ in Formatter().parse(template)
    ]  # fmt: skip


def _row_formatter(row: str) -> Callable[[e.Event], Row]:
    columns = [_column_formatter(template) for template in row.split(" | ")]
    return lambda event: Row(*[column(event) for column in columns])


_LINES: Final = tables(get_data(__package__, "event_lines.txt"))


# Lines for each job of an event about jobs


def _submission_row(event: e.ClusterSubmitted) -> Row:
    row = "submit_on_hold" if event.status == "Held" else "submit"
    user = unquoted(event.ad.get("User", "")) or event.submitter
    counts = f", for {event.submitter}" if user != event.submitter else ""
    return Row(row, f"by {user}{counts}", UNSUBMITTED, event.status)


_REASONS = ("HoldReason", "ReleaseReason", "RemoveReason")


def _job_transition_row(event: e.JobsTransitioned) -> Row:
    details = [excerpt(unquoted(event.changes[name])) for name in _REASONS if event.changes.get(name)]
    if event.changes.get("HoldReasonCode"):
        details.append(f"code {event.changes['HoldReasonCode']}")
    return Row(event.row, ", ".join(details), event.source, event.target)


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


def _client_end_row(event: e.BackfillExited) -> Row:
    details = [client_end(event), shorten_text(event.reason)]
    details += [f"not again before {instant(event.retry)} UTC"] if event.retry else []
    if event.user_cpu or event.system_cpu:
        details.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return Row("backfill over", ", ".join(filter(None, details)))


def _job_end_row(event: e.JobExited) -> Row:
    details = [event.outcome, ending(event), f"on {event.slot}"]
    if event.changes.get("HoldReason"):
        details.append(excerpt(unquoted(event.changes["HoldReason"])))
    if event.user_cpu or event.system_cpu:
        details.append(f"CPU {interval(event.user_cpu + event.system_cpu)}")
    return Row(event.row or "exit", ", ".join(details), event.source, event.target)


def _edit_row(event: e.JobsEdited) -> Row:
    details = [_ad(event.changes)] if event.changes else []
    return Row("edited", "; ".join([*details, *map(shorten_text, event.notes)]))


def _usage_row(event: e.JobMeasured) -> Row:
    cpu = interval(event.user_cpu + event.system_cpu)
    return Row("measured", f"memory {memory(event.resident)}, disk {memory(event.disk)}, CPU {cpu}")


def _entry_row(event: e.JobLogged) -> Row:
    kind = ENTRIES.get(event.number)
    return Row(kind.name if kind else f"entry {event.number:03}", shorten_text(event.text.partition("\n")[0].strip()))


def _job_start_row(event: e.JobActivated) -> Row:
    wait = event.deferred - event.at
    text = f", to be started in {interval(wait)}" if wait > 0 else ", too late for its time" if event.deferred else ""
    return Row("activate", f"on {event.slot}{text}", "Idle", "Running")


def _transfer_row(event: e.JobTransferEnded) -> Row:
    files = f"{event.files} file{'' if event.files == 1 else 's'}"
    result = "failed" if event.failed else "kept" if event.kept else "done"
    return Row("transfer", f"{event.way} {result}: {files}, {event.size} bytes")


OF_JOBS: dict[type[e.Event], Callable[[Any], Row]] = {
    e.ClusterSubmitted: _submission_row,
    e.JobsTransitioned: _job_transition_row,
    e.JobsEdited: _edit_row,
    e.JobsDeferred: lambda event: Row("deferred", f"in {interval(event.until - event.at)}"),
    e.JobActivated: _job_start_row,
    e.MailDue: lambda event: Row("mail due", f"to {', '.join(event.to) or 'no one'}: {shorten_text(event.subject)}"),
    e.Mailed: lambda event: Row("mailed", shorten_text(event.failure) or "sent"),
    e.CheckpointsDeleted: lambda event: Row(
        "cleanup", shorten_text(event.failure) or f"checkpoints {', '.join(map(str, event.numbers))} deleted"
    ),
    e.JobTransferEnded: _transfer_row,
    e.JobMeasured: _usage_row,
    e.JobExited: _job_end_row,
    e.JobLogged: _entry_row,
}
OF_JOBS.update((getattr(e, kind), _row_formatter(row)) for kind, row in _LINES["jobs"].items())
MANY_JOBS = (e.ClusterSubmitted, e.JobsMaterialized, e.JobsTransitioned, e.JobsEdited, e.JobsDeferred)


# Lines for all other events: the subject and the line


def _slot_transition_row(event: e.SlotTransitioned) -> Row:
    reason = event.reason or (f"evidence {event.evidence}" if event.evidence else "")
    return Row(event.row or "no row", reason, event.source, event.target, LETTERS.get(event.row, ""))


def _poll_row(event: e.DefragPolled) -> Row:
    details = [defrag_words.poll_sentence(event), defrag_words.poll_result(event)]
    return Row("polled", shorten_text("; ".join(filter(None, details)), 240))


def _claim_flags_row(event: e.ClaimFlagged) -> Row:
    code = f" (code {event.code}, subcode {event.subcode})" if event.code else ""
    flags = ", ".join(event.flags)
    return Row("marked", f"{flags}{': ' if flags and event.reason else ''}{shorten_text(event.reason)}{code}")


def _holder_row(event: e.ClaimHolderSilent) -> Row:
    if not event.until:
        return Row("heard", "the holder, again")
    return Row("unheard", f"the lease ends at {instant(event.until)} UTC")


def _expired_row(event: e.MachineExpired) -> Row:
    if event.gone:
        return Row("expired", "its execution point is silent, and its ads are gone")
    return Row("expired", "its execution point is silent") if event.expired else Row("heard", "its execution point")


def _manager_row(event: e.ManagerHeard) -> Row:
    last = f"last heard at {instant(event.last)} UTC" if event.last else "not heard yet"
    return Row("heard", f"again; {last}") if event.heard else Row("silent", last)


def _quotas_row(event: e.QuotasAssigned) -> Row:
    quotas = ", ".join(f"{group.name} {group.quota:.6g}" for group in event.groups)
    return Row(
        "quotas", shorten_text(f"{event.total:.6g} cores: {quotas}" if quotas else "there are no groups any more")
    )


def _submitter_row(event: e.SubmitterSet) -> Row:
    user_text = f"by {event.user}"
    if event.until > event.at:
        return Row("lent", f"{event.name} {event.value:g} until {instant(event.until)} UTC, {user_text}")
    if event.until:
        return Row("lease ended", f"{event.name}, {user_text}")
    return Row("set", f"{event.name} {event.value:g}, {user_text}")


def _table_row(event: e.TableWritten) -> Row:
    keys = _FORMS["names"](list(dict.fromkeys(key for _, key, _, _ in event.operations)))
    return Row("written", f"transaction {event.number}: {counted(len(event.operations), 'operation')} on {keys}")


def _answer_row(event: e.RequestAnswered) -> Row:
    return Row("asked", shorten_text(f"{event.request} {event.arguments}: answered {event.answer}"))


def _evaluation_row(event: e.EvaluationRecorded) -> Row:
    return Row("noted", f"{shorten_text(f'{event.name} = {event.expression}')} is {event.value}")


_OF_ONE: dict[type[e.Event], tuple[str, Callable[[Any], Row]]] = {
    # kind: (the field with the subject's name, or a fixed name), the function that formats the line
    e.QuotasAssigned: ("negotiator", _quotas_row),
    e.SubmitterSet: (".submitter", _submitter_row),
    e.ManagerHeard: (".peer", _manager_row),
    e.RequestAnswered: (".user", _answer_row),
    e.EvaluationRecorded: ("evidence", _evaluation_row),
    e.DefragPolled: ("defrag", _poll_row),
    e.BackfillExited: (".machine", _client_end_row),
    e.SlotTransitioned: (".slot", _slot_transition_row),
    e.ClaimFlagged: (".slot", _claim_flags_row),
    e.ClaimHolderSilent: (".slot", _holder_row),
    e.MachineExpired: (".machine", _expired_row),
    e.TableWritten: (".kind", _table_row),
}
for _kind, _row in _LINES["things"].items():
    _thing, _, _columns = _row.partition(" | ")
    _OF_ONE[getattr(e, _kind)] = _thing, _row_formatter(_columns)


KINDS = frozenset({*OF_JOBS, *_OF_ONE, e.CycleHeld, e.JobsLogged})  #: the kinds of events that are listed


def _cycle_rows(event: e.CycleHeld) -> Iterator[tuple[str, Row]]:
    for match in event.matches:
        reason_text = f", by {match.reason}" if match.reason else ""
        reason_text += f", preempting {', '.join(match.preempts)}" if match.preempts else ""
        yield match.job, Row("match", f"with {match.slot}, rank {match.rank:g}{reason_text}")
    for reason in event.unmatched:
        alike_text = f"{counted(reason.jobs, 'job')} like it, " if reason.jobs > 1 else ""
        slots_left = reason.clauses[-1].left if reason.clauses else reason.slots
        yield (
            reason.job,
            Row("no match", f"{alike_text}{slots_left} of {counted(reason.slots, 'slot')} meet its Requirements"),
        )


def rows_by_subject(event: e.Event) -> Iterator[tuple[str, Row]]:
    """Yield the subject and the row of each line of an event."""
    kind = type(event)
    jobs = job_procs(event)
    if jobs is not None and kind in OF_JOBS:
        cluster, procs = jobs
        row = OF_JOBS[kind](event)
        if isinstance(event, e.ClusterSubmitted) and event.factory:
            return iter([(f"{cluster}.", Row(row.what, f"{row.details}, a factory of {event.count} jobs"))])
        return ((f"{cluster}.{proc}", row) for first, last in procs for proc in range(first, last + 1))
    if isinstance(event, e.CycleHeld):
        return _cycle_rows(event)
    named, read_event = _OF_ONE[kind]
    if isinstance(event, e.FactoryTransitioned):
        return iter([(f"{event.cluster}.", read_event(event))])
    return iter([(getattr(event, named[1:]) if named[0] == "." else named, read_event(event))])
