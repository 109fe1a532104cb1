"""A log's answers as plain values: stored next to each golden log, and compared with the answers of later versions.

 They contain the meaning of a log, and no name of a class or topic: an event is its fields, and kinds of event are
numbered in the order of their first occurrence. So an event may be renamed with an upcast, and the answers stay.
Sentences may be reworded; they are stored as their basis: the event, its cause, row and evidence.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from poolbook import Log, PoolbookError
from poolbook.adapters.stores.opening import open_log, verify_seal
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.accounting import accountant_settings, initial_factor
from poolbook.domain.state.records import Submitter
from poolbook.replay.narration.sentences import Explanation, Sentence, UnknownThingError
from poolbook.replay.why.answer import why

from ..event_fields import fields_of

Answers = dict[str, Any]
Positioned = tuple[int, Any]
"""An event with its position."""

FIELDS: dict[str, str] = {"marks": "flags"}
"""Fields of events that have been renamed: the name in the answers -> today's."""
MERGED_FIELDS: frozenset[str] = frozenset()
"""Fields that an upcast sets to a value other than the default, because it merged several kinds of event."""
_TIME_DEPENDENT = {
    "KeyboardIdle", "ConsoleIdle", "MyCurrentTime", "ClockMin", "ClockDay", "ExpectedMachineGracefulDrainingBadput",
    "ExpectedMachineGracefulDrainingCompletion", "ExpectedMachineQuickDrainingBadput",
    "ExpectedMachineQuickDrainingCompletion",
}  # fmt: skip
"""Attributes of slots that are computed from the time of the query."""


def today(name: str, kind: type[Any]) -> str:
    """Return today's name of a field of an event of this kind."""
    return name if name in fields_of(kind) else FIELDS.get(name, name)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes as their digest."""
    if fields := fields_of(type(value)):
        return {name: plain(getattr(value, name)) for name in fields}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return f"sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, str | int | float | None):
        return value
    return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]


# A log's answers


def events_of(events: Iterable[Positioned]) -> list[tuple[int, dict[str, Any]]]:
    """Return each event's kind, by number, and its fields."""
    kinds: dict[type[Any], int] = {}
    return [(kinds.setdefault(type(event), len(kinds)), plain(event)) for _, event in events]


def folded_state(events: Iterable[Positioned]) -> Answers:
    """Return the live state that the one fold makes of a pool's own log."""
    state = fold(iter(events))
    return {
        "position": state.position,
        "epoch": state.epoch,
        "settings": state.settings,
        "next_cluster": state.next_cluster,
        "jobs": {
            f"{cluster.id}.{proc}": cluster.status_of(proc)
            for cluster in state.clusters.values()
            for proc in cluster.procs()
        },
        "slots": {
            slot.name: [
                slot.state_activity,
                slot.claim.submitter if slot.claim else "",
                bool(slot.queued_claim),
                bool(slot.activation),
            ]
            for slot in state.slots.values()
        },
        "machines": {
            machine.name: [machine.drain.state if machine.drain else "", machine.shutdown, machine.badput]
            for machine in state.machines.values()
        },
        "submitters": {
            name: [
                account.priority,
                _factor(account),
                account.slots,
                account.weighted_in_use,
                account.weighted_usage,
                account.ended_usage,
            ]
            for name, account in state.submitters.items()
        },
    }


def _factor(account: Submitter) -> float:
    """Return the priority factor that was set, or the submitter's initial one; older logs lack it."""
    return account.factor or initial_factor(account.name, accountant_settings(account.appeared_under or {}))


def view_answers(log: Log) -> Answers:
    """Return the output of `q`, `status`, `history`, `userprio` and `usage`."""
    return {
        "queue": _or_none(log.jobs),
        "slots": [{name: text for name, text in ad.items() if name not in _TIME_DEPENDENT} for ad in log.slots()],
        "history": log.history(),
        "submitters": _or_none(lambda: plain(log.submitters())),
        "usage": {group_by: plain(log.usage(group_by)) for group_by in ("user", "group", "cluster")},
    }


def _or_none(ask: Any) -> Any:
    try:
        return ask()
    except PoolbookError:  # an imported log has no records of it
        return None


def audit_answers(log: Log) -> Answers:
    """Return what `verify` and `audit` count and find: codes and places, no texts."""
    verification, audit = log.verify(decisions=True), log.audit()
    return {
        "sound": verification.sound,
        "imported": verification.imported,
        "events": verification.verdict.events,
        "slots": verification.verdict.slots,
        "jobs": verification.verdict.jobs,
        "cycles": verification.decisions.taken if verification.decisions else 0,
        "verdict": audit.verdict,
        "transitions": audit.transitions,
        "letters": audit.letters,
        "beyond": audit.beyond,
        "fates": sorted(audit.jobs.values()),
        "sources": [[Path(file).name, lines] for file, _, lines in audit.sources] if log.imported else [],
        "findings": [
            [len(findings), [[finding.thing, finding.rule, finding.at, finding.line] for finding in findings]]
            for findings in (audit.violations, audit.lost, audit.repeated)
        ],
        "contradictions": [[finding.thing, finding.fact, finding.at, finding.run] for finding in audit.contradictions],
        "unread": [len(audit.quarantined), len(audit.gaps), len(audit.torn)],
        "unaccounted": [[finding.slot, finding.since, finding.until] for finding in audit.unaccounted],
    }


def explanations(store: Any, names: Iterable[str]) -> Answers:
    """Return the explanation of each of these things, at the log's end and at half its length; None: not known at that
    time."""
    events = dict(store.read())
    halfway = events[(len(events) + 1) // 2].at
    return {name: [_reasons(store, events, name, at) for at in (None, halfway)] for name in names}


def _reasons(store: Any, events: dict[int, Any], name: str, at: int | None) -> list[list[Any]] | None:
    try:
        answer = why(store, name, at)
    except UnknownThingError:
        return None
    sentences = _sentences(answer)
    assert all(sentence.text for sentence in sentences), name
    return [
        [sentence.at, sentence.position, sentence.cause, sentence.stimulus, *_basis(events.get(sentence.position))]
        for sentence in sentences
    ]


def _sentences(answer: Explanation) -> list[Sentence]:
    """Return the basis of an answer: the thing's state, a cycle's rejection, and the life; for a cluster the counts,
    and the state of its first jobs."""
    head, *lines = answer.lines
    if head.code == "cluster":
        return [head, *(line for line in lines if line.code == "ends_unknown" or line.code.startswith("job_"))]
    life = [line for line in answer.life if line.code != "omitted"]
    return [head, *sorted(life, key=lambda one: one.code != "refused")]


def _basis(event: Any) -> list[Any]:
    """Return an event's row, and the position of its evidence."""
    if event is None:
        return ["", 0]
    return [getattr(event, today("row", type(event)), ""), getattr(event, today("evidence", type(event)), 0)]


def thing_names(store: Any) -> list[str]:
    """Return the names of all slots, clusters and jobs with events in a log."""
    names: dict[str, None] = {}
    for _, event in store.read():
        kind, _, name = event.stream.partition("/")
        if kind == "slot" or (kind == "cluster" and name not in names):
            names[name] = None
            if kind == "cluster":
                names.update(dict.fromkeys(_jobs(store, name)))
    return list(names)


def _jobs(store: Any, cluster: str) -> Iterator[str]:
    for proc in range(1000):
        try:
            why(store, f"{cluster}.{proc}")
        except UnknownThingError:
            return
        yield f"{cluster}.{proc}"


def answers_of(path: Path, is_story: bool) -> Answers:
    """Return the answers of the log in this file. Without `is_story`, its events are no story, and the only answer."""
    assert verify_seal(str(path)) == []
    with closing(open_log(str(path), create=False, read_only=True)) as store:
        answers: Answers = {"events": events_of(store.read())}
        if is_story:
            answers["why"] = explanations(store, thing_names(store))
            with Log.open(path) as log:
                answers |= {"judged": audit_answers(log), "viewed": view_answers(log)}
                if not log.imported:
                    answers["folded"] = folded_state(store.read())
    return answers


def store_answers(path: Path, answers: Answers) -> None:
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0))


def stored_answers(path: Path) -> Answers:
    answers: Answers = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))
    return answers


def as_stored(answers: Any) -> Any:
    """Return answers as they are read back from a file."""
    return json.loads(json.dumps(answers))


# Comparing an event with the stored one


def differences(stored: Any, event: Any, where: str = "") -> Iterator[str]:
    """Yield each field in which an event differs from its stored copy: a field added since has its default."""
    if fields := fields_of(type(event)):
        before = {today(name, type(event)): value for name, value in stored.items()}
        for name in sorted(before.keys() | fields.keys()):
            place = f"{where}.{name}"
            if name not in fields:
                yield f"{place} is gone: it was {before[name]!r}"
            elif name in before:
                yield from differences(before[name], getattr(event, name), place)
            elif name not in MERGED_FIELDS and getattr(event, name) != fields[name]:
                yield f"{place} is new, and not its default: {getattr(event, name)!r}"
    elif isinstance(event, list | tuple) and not hasattr(event, "_asdict"):
        if len(stored) != len(event):
            yield f"{where} has {len(event)} and not {len(stored)}"
        for number, (stored_value, new) in enumerate(zip(stored, event, strict=False)):
            yield from differences(stored_value, new, f"{where}[{number}]")
    elif stored != as_stored(plain(event)):
        yield f"{where} is {event!r} and not {stored!r}"
