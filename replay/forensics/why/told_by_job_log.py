"""What a job's own event log tells of it, entry by entry; the slots' logs say why a run was ended or stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ....domain import events as e
from ....domain.imported import job_event_log
from ....domain.imported.record_sources import SCHEDD_DIED
from ....domain.units import SECOND
from ...narration.formatting import instant
from ...runs.run_end_causes import meaning
from ...runs.slot_records import NEAR, moves, moves_from
from . import record_words as tables
from .job_history import BEGIN, ERROR, Record
from .job_life import JobLife
from .record_words import ad_ending, code_words, disagreement, ending, host_of, usage


def read_entry(life: JobLife, record: Record) -> None:
    """Tell of an entry; of one without words of its own, by its name."""
    say = _SAY.get(record.what)
    if record.what == ERROR:
        life.failed = record.facts.get("slot", "")
    if record.what in FORGOTTEN.get(life.status, ()):
        tell_forgotten(life, record)
    if say is not None:
        say(life, record)
    elif isinstance(record.event, e.JobLogged) and record.event.number not in tables.SILENT:
        reason = record.facts.get("reason", "")
        words = job_event_log.words_of(record.event.number)
        life.say(record, "entry", words=capital(words), reason=reason)


def tell_forgotten(life: JobLife, record: Record) -> None:
    """Say that the access point does again, or against, what it had done: its schedd lost the end of its table."""
    assert life.since is not None
    death = life.deaths.forgetting(life.name, life.since.at, record.at)
    if death is not None:
        life.say(record, "schedd_forgot", status=life.status, died=death)


def on_submitted(life: JobLife, record: Record) -> None:
    host = host_of(record.facts.get("host", ""))
    life.submitted = True
    user, also = life.user()
    life.becomes("idle", life.say(record, "log_submitted", *also, user=user, host=host))


def on_begun(life: JobLife, record: Record) -> None:
    slot = record.facts.get("slot", "") or host_of(record.facts.get("host", "")) or "a slot"
    life.tell_match_of(slot, record.at)
    also = disagreement(record, life.places, "slot")
    life.begin_run(slot, record.at)
    life.becomes("running", life.say(record, "log_started", slot=slot, also=also))


def on_evicted(life: JobLife, record: Record) -> None:
    facts, run = record.facts, life.ended_by(record)
    failed, life.failed = life.failed, ""  # the access point may have given it another slot in the same second
    why, also = life.why(run, record.at)
    why |= life.cause(run, why)
    said, known = facts.get("reason", ""), not why.keys().isdisjoint(("why", "next", "died"))
    code = code_words(facts.get("reason_code", ""))
    if (said or code) and not (known and said.startswith(tables.SAYS_NOTHING)):
        why["said" if known else "log"] = f"{said or 'no reason'}{f' ({code})' if code else ''}"
    slot = (run.slot if run is not None else "") or failed or life.slot or "its slot"
    told = "log_requeued" if facts.get("requeued") == "true" else "log_evicted"
    life.becomes("idle", life.say_of(run, record, told, *also, slot=slot, ran=life.after(record.at), **why))


def on_ended(life: JobLife, record: Record) -> None:
    how = ending(record.facts)
    seen = [one for one in life.seen if max(life.began, record.at - NEAR) <= one.at <= record.at + NEAR]
    seen = [*{life.places.chain(one.event.stimulus): one for one in seen if not life.is_checkpoint(one)}.values()]
    also = (
        _otherwise(life, seen, how)
        + disagreement(record, life.places, "code", "signal")
        + _history_disagrees(life, how)
    )
    facts = {"ran": life.after(record.at) if life.slot else "", "slot": life.last_slot(), "how": how or "no exit code"}
    places = [one.event.stimulus for one in seen]
    sentence = life.say(record, "log_ended", *places, used=usage(record, life.size), also=also, **facts)
    life.becomes("completed", sentence)


def _otherwise(life: JobLife, seen: Iterable[Record], how: str) -> str:
    """What its shadow and its starter say otherwise of how it ended."""
    said = [(one, ending(one.facts)) for one in seen]
    return "".join(
        f"; but {life.places.name(one.event.stimulus)} says {theirs}" for one, theirs in said if how and theirs != how
    )


def _history_disagrees(life: JobLife, how: str) -> str:
    ad = next((ad for ad in life.ads if ad.kind == "history"), None)
    theirs = ad_ending(ad) if ad is not None else ""
    if ad is None or not theirs or not how or theirs == how:
        return ""
    return f"; but {tables.said_by(ad.kind)} says {theirs} ({life.places.name(ad.stimulus)})"


def on_held(life: JobLife, record: Record) -> None:
    also = disagreement(record, life.places, "code")
    number = record.facts.get("code", "")
    facts = {"reason": record.facts.get("reason", "") or "no reason given", "named": code_words(number)}
    facts |= {"hold_code": number, "also": also}
    life.becomes("held", life.say_end(record, "log_held", **facts))


def on_released(life: JobLife, record: Record) -> None:
    life.becomes("idle", life.say(record, "log_released", reason=record.facts.get("reason", "no reason given")))


def on_removed(life: JobLife, record: Record) -> None:
    reason = record.facts.get("reason", "no reason given")
    life.becomes("removed", life.say_end(record, "log_removed", reason=reason))


def on_suspended(life: JobLife, record: Record) -> None:
    _stopped(life, record, "suspended", "log_suspended", moves(life.run, "Suspended"))


def on_resumed(life: JobLife, record: Record) -> None:
    """Also one that has to leave is continued: it could not end otherwise."""
    _stopped(life, record, "running", "log_continued", moves_from(life.run, "Suspended"))


def _stopped(
    life: JobLife, record: Record, status: str, code: str, moved: list[tuple[int, e.SlotTransitioned]]
) -> None:
    near = [event for _, event in moved if abs(event.at - record.at) <= 5 * SECOND]
    event = next((event for event in near if event.reason), None)
    said = event.reason.rstrip(".") if event else ""
    facts = {"why": meaning(said) or said, "said": said, "slot": life.slot}
    life.becomes(status, life.say(record, code, *([event.stimulus] if event else []), **facts))


def on_measured(life: JobLife, record: Record) -> None:
    life.size = record


def on_exception(life: JobLife, record: Record) -> None:
    _gave_up(life, record, "shadow_gave_up")


def _gave_up(life: JobLife, record: Record, code: str) -> None:
    """Tell that its shadow ended its run; the daemon that died says more than what the shadow wrote."""
    run, reason = life.ended_by(record), record.facts.get("reason", "")
    why, also = life.why(run, record.at)
    told = also if "died" in why else []
    facts = {"ran": life.after(record.at), "reason": reason}
    life.becomes("idle", life.say_of(run, record, code, *told, died=why.get("died"), **facts))


def on_disconnected(life: JobLife, record: Record) -> None:
    reason = record.facts.get("reason", "")
    life.slot = record.facts.get("slot", "") or life.slot
    schedd = reason.startswith(SCHEDD_DIED)
    died = life.schedd_died(record.at) if schedd else life.died(record.at)
    sentence = life.say(record, "shadow_lost", slot=life.slot or "its slot", died=died, reason=reason)
    life.lost = life.lost or sentence


def on_reconnected(life: JobLife, record: Record) -> None:
    """The slot is the one where it ran all the time: where its beginning was not read, this entry names it."""
    life.slot, life.attended = life.slot or record.facts.get("slot", ""), record.at
    life.becomes("running", life.say(record, "shadow_found", slot=life.slot))


def on_not_reconnected(life: JobLife, record: Record) -> None:
    _gave_up(life, record, "shadow_did_not_find")


def tell_gap(life: JobLife, position: int, gap: e.SourceGap) -> None:
    """Say that records are missing where they may have told more."""
    at = gap.since or gap.at
    if life.chain and at <= life.last:
        until = instant(gap.until, life.zone) if gap.until else ""
        life.tell(at, position, gap.stimulus, "records_missing", until=until, words=gap.words)


def capital(text: str) -> str:
    """Begin a sentence with what an entry of a job's log is called."""
    return text[:1].upper() + text[1:]


_AFTER_THE_END: Final = frozenset({BEGIN, "4", "5", "9", "12", "13"})
FORGOTTEN: Final = {
    "held": frozenset({BEGIN, "12"}),
    "completed": _AFTER_THE_END,
    "removed": _AFTER_THE_END,
}  # fmt: skip
"""Where a job is -> the entries that its schedd writes only if it has forgotten that."""

_SAY: Final[dict[str, Callable[[JobLife, Record], None]]] = {
    "0": on_submitted,
    BEGIN: on_begun,
    "4": on_evicted,
    "5": on_ended,
    "6": on_measured,
    "7": on_exception,
    "9": on_removed,
    "10": on_suspended,
    "11": on_resumed,
    "12": on_held,
    "13": on_released,
    "22": on_disconnected,
    "23": on_reconnected,
    "24": on_not_reconnected,
}
