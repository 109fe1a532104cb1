"""What a log tells of itself, as plain values: kept beside each golden log, and asked of it again by later versions.

Here stands the meaning of a log, and no name of a class or topic: an event is its fields, and kinds of event are
counted in the order in which they first come. So an event may be renamed with an upcast, and the answers stay.
Sentences may change their words; they are kept as what they rest on: the event, its cause, row and evidence.
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
from poolbook.domain.negotiator.accounting import initial, terms
from poolbook.domain.state.records import Submitter
from poolbook.replay.why import Answer, Sentence, UnknownThingError
from poolbook.replay.why.answer import why

from ..event_fields import fields_of

Answers = dict[str, Any]
Told = tuple[int, Any]
"""An event with its position."""

FIELDS: dict[str, str] = {"marks": "flags"}
"""Fields of events that have another name by now: the name under which the answers know them -> today's."""
MERGED: frozenset[str] = frozenset()
"""Fields that an upcast fills with something else than the default, since it made one kind of event of several."""
_OF_NOW = {
    "KeyboardIdle", "ConsoleIdle", "MyCurrentTime", "ClockMin", "ClockDay", "ExpectedMachineGracefulDrainingBadput",
    "ExpectedMachineGracefulDrainingCompletion", "ExpectedMachineQuickDrainingBadput",
    "ExpectedMachineQuickDrainingCompletion",
}  # fmt: skip
"""Attributes of slots that are reckoned from the time at which somebody asks."""


def today(name: str, kind: type[Any]) -> str:
    """Return the name that a field of an event of this kind has by now."""
    return name if name in fields_of(kind) else FIELDS.get(name, name)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes as their digest."""
    if fields := fields_of(type(value)):
        return {name: plain(getattr(value, name)) for name in fields}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, bytes):
        return f"sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, str | int | float | None):
        return value
    return [plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]


# What a log tells


def events_of(events: Iterable[Told]) -> list[tuple[int, dict[str, Any]]]:
    """Return each event's kind, by number, and its fields."""
    kinds: dict[type[Any], int] = {}
    return [(kinds.setdefault(type(event), len(kinds)), plain(event)) for _, event in events]


def folded(events: Iterable[Told]) -> Answers:
    """Return what the one fold of the live state makes of a pool's own log."""
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
            name: [one.priority, _factor(one), one.slots, one.weighted_in_use, one.weighted_usage, one.ended_usage]
            for name, one in state.submitters.items()
        },
    }


def _factor(one: Submitter) -> float:
    """Return the priority factor that was set, or that the submitter began with; older logs do not tell it."""
    return one.factor or initial(one.name, terms(one.appeared_under or {}))


def viewed(log: Log) -> Answers:
    """Return what `q`, `status`, `history`, `userprio` and `usage` show."""
    return {
        "queue": _or_none(log.jobs),
        "slots": [{name: text for name, text in ad.items() if name not in _OF_NOW} for ad in log.slots()],
        "history": log.history(),
        "submitters": _or_none(lambda: plain(log.submitters())),
        "usage": {by: plain(log.usage(by)) for by in ("user", "group", "cluster")},
    }


def _or_none(ask: Any) -> Any:
    try:
        return ask()
    except PoolbookError:  # nothing that was imported tells of it
        return None


def judged(log: Log) -> Answers:
    """Return what `verify` and `audit` count and find: codes and places, no words."""
    verified, audit = log.verify(decisions=True), log.audit()
    return {
        "sound": verified.sound,
        "imported": verified.imported,
        "events": verified.verdict.events,
        "slots": verified.verdict.slots,
        "jobs": verified.verdict.jobs,
        "cycles": verified.decisions.taken if verified.decisions else 0,
        "verdict": audit.verdict,
        "transitions": audit.transitions,
        "letters": audit.letters,
        "beyond": audit.beyond,
        "fates": sorted(audit.jobs.values()),
        "sources": [[Path(file).name, lines] for file, _, lines in audit.sources] if log.imported else [],
        "findings": [
            [len(found), [[one.thing, one.rule, one.at, one.line] for one in found]]
            for found in (audit.violations, audit.lost, audit.repeated)
        ],
        "contradictions": [[one.thing, one.fact, one.at, one.run] for one in audit.contradictions],
        "unread": [len(audit.quarantined), len(audit.gaps), len(audit.torn)],
        "unaccounted": [[one.slot, one.since, one.until] for one in audit.unaccounted],
    }


def explained(store: Any, names: Iterable[str]) -> Answers:
    """Return why each of these things is where it is, at the log's end and at half its length; None: not known then."""
    events = dict(store.read())
    half = events[(len(events) + 1) // 2].at
    return {name: [_reasons(store, events, name, at) for at in (None, half)] for name in names}


def _reasons(store: Any, events: dict[int, Any], name: str, at: int | None) -> list[list[Any]] | None:
    try:
        found = why(store, name, at)
    except UnknownThingError:
        return None
    sentences = _sentences(found)
    assert all(one.text for one in sentences), name
    return [[one.at, one.position, one.cause, one.stimulus, *_ground(events.get(one.position))] for one in sentences]


def _sentences(found: Answer) -> list[Sentence]:
    """Return what an answer rests on: where the thing is, what a cycle refused, and the life; of a cluster the counts,
    and where the first of its jobs are."""
    head, *lines = found.lines
    if head.code == "cluster":
        return [head, *(one for one in lines if one.code == "ends_unknown" or one.code.startswith("job_"))]
    life = [one for one in found.life if one.code != "left_out"]
    return [head, *sorted(life, key=lambda one: one.code != "refused")]


def _ground(event: Any) -> list[Any]:
    """Return the row that was taken, and the position of the evidence for it."""
    if event is None:
        return ["", 0]
    return [getattr(event, today("row", type(event)), ""), getattr(event, today("evidence", type(event)), 0)]


def things(store: Any) -> list[str]:
    """Return the names of all slots, clusters and jobs that a log has events of."""
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


def answers_of(path: Path, told: bool) -> Answers:
    """Return all that the log in this file tells. Without `told` it is of events that make no story: they alone."""
    assert verify_seal(str(path)) == []
    with closing(open_log(str(path), create=False, read_only=True)) as store:
        answers: Answers = {"events": events_of(store.read())}
        if told:
            answers["why"] = explained(store, things(store))
            with Log.open(path) as log:
                answers |= {"judged": judged(log), "viewed": viewed(log)}
                if not log.imported:
                    answers["folded"] = folded(store.read())
    return answers


def keep_answers(path: Path, answers: Answers) -> None:
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0))


def kept_answers(path: Path) -> Answers:
    answers: Answers = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))
    return answers


def as_kept(answers: Any) -> Any:
    """Return answers as they come back from a file."""
    return json.loads(json.dumps(answers))


# Whether an event is the one that was kept


def differences(kept: Any, event: Any, where: str = "") -> Iterator[str]:
    """Yield each field in which an event differs from what was kept of it: a field that came since has its default."""
    if fields := fields_of(type(event)):
        before = {today(name, type(event)): value for name, value in kept.items()}
        for name in sorted(before.keys() | fields.keys()):
            place = f"{where}.{name}"
            if name not in fields:
                yield f"{place} is gone: it was {before[name]!r}"
            elif name in before:
                yield from differences(before[name], getattr(event, name), place)
            elif name not in MERGED and getattr(event, name) != fields[name]:
                yield f"{place} is new, and not its default: {getattr(event, name)!r}"
    elif isinstance(event, list | tuple) and not hasattr(event, "_asdict"):
        if len(kept) != len(event):
            yield f"{where} has {len(event)} and not {len(kept)}"
        for number, (old, new) in enumerate(zip(kept, event, strict=False)):
            yield from differences(old, new, f"{where}[{number}]")
    elif kept != as_kept(plain(event)):
        yield f"{where} is {event!r} and not {kept!r}"
