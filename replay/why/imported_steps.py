"""Report each record of a job: the entries of its event log, and the reports of daemons (negotiator, shadows,
starters). The slots' logs say why a run was ended or stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...domain import events as e
from ...domain.imported import job_event_log
from ...domain.imported.record_sources import KINDS, SCHEDD_DIED
from ...domain.units import SECOND
from ..forensics.audit.exit_statuses import STATUSES, StatusRule
from ..forensics.imported_log import PlaceNames, host_of
from ..narration.formatting import counted, instant, interval, resources
from ..narration.sentence_tables import code_words
from ..runs.daemon_deaths import killed
from ..runs.job_run import EVICTED
from ..runs.run_end_causes import meaning
from ..runs.slot_records import NEAR, moves, moves_from
from .job_facts import HELD, IDLE, REMOVED
from .job_life import BEGUN, OVER, Fact, ImportedJob
from .job_records import BEGIN, ERROR, Place, Record
from .match_runs import run_after, sort_fruitless_matches

Step = Callable[[ImportedJob, Record], None]


def read_record(life: ImportedJob, record: Record) -> None:
    """Report an entry or a daemon's record; an entry without its own sentence by its name."""
    life.last = max(life.last, record.at)
    before(life, record)
    step = _STEPS.get(record.what)
    if record.what == ERROR:
        life.failed = record.facts.get("slot", "")
    if record.what in FORGOTTEN.get(life.status, ()):
        tell_forgotten(life, record)
    if step is not None:
        step(life, record)
    elif isinstance(record.event, e.JobLogged) and record.event.number not in SILENT:
        reason = record.facts.get("reason", "")
        words = job_event_log.words_of(record.event.number)
        life.tell(record, "entry", words=capital(words), reason=reason)


def tell_forgotten(life: ImportedJob, record: Record) -> None:
    """Say that the access point does again, or against, what it had done: its schedd lost the end of its table."""
    assert life.since is not None
    death = life.deaths.forgetting(life.name, life.since.at, record.at)
    if death is not None:
        life.tell(record, "schedd_forgot", status=life.status, died=death)


def on_submitted(life: ImportedJob, record: Record) -> None:
    host = host_of(record.facts.get("host", ""))
    life.submitted = True
    user, also = life.user()
    life.becomes(IDLE, life.tell(record, "submitted", *also, user=user, host=host))


def on_begun(life: ImportedJob, record: Record) -> None:
    slot = record.facts.get("slot", "") or host_of(record.facts.get("host", "")) or "a slot"
    life.tell_match_of(slot, record.at)
    also = _disagreement(record, life.places, "slot")
    life.begin_run(slot, record.at)
    life.becomes("running", life.tell(record, "started", slot=slot, also=also))


def on_evicted(life: ImportedJob, record: Record) -> None:
    facts, run = record.facts, life.ended_by(record)
    failed, life.failed = life.failed, ""  # the access point may have given it another slot in the same second
    why, also = life.why(run, record.at)
    why |= life.cause(run, why)
    text, known = facts.get("reason", ""), not why.keys().isdisjoint(("why", "next", "died"))
    code = code_words(facts.get("reason_code", ""))
    if (text or code) and not (known and text.startswith(SAYS_NOTHING)):
        why["said" if known else "log"] = f"{text or 'no reason'}{f' ({code})' if code else ''}"
    slot = (run.slot if run is not None else "") or failed or life.slot or "its slot"
    sentence = "requeued" if facts.get("requeued") == "true" else "evicted"
    life.becomes(IDLE, life.say_of(run, record, sentence, *also, slot=slot, ran=life.after(record.at), **why))


def on_ended(life: ImportedJob, record: Record) -> None:
    how = record.ending
    seen = [one for one in life.seen if max(life.began, record.at - NEAR) <= one.at <= record.at + NEAR]
    seen = [*{life.places.chain(one.stimulus): one for one in seen if not life.is_checkpoint(one)}.values()]
    also = (
        _differing_endings(life, seen, how)
        + _disagreement(record, life.places, "code", "signal")
        + _history_disagrees(life, how)
    )
    facts = {"ran": life.after(record.at) if life.slot else "", "slot": life.last_slot(), "how": how or "no exit code"}
    places = [ending.stimulus for ending in seen]
    sentence = life.tell(record, "exited", *places, used=_usage(record, life.size), also=also, **facts)
    life.becomes("completed", sentence)


def _differing_endings(life: ImportedJob, seen: Iterable[Record], how: str) -> str:
    """Return how its shadow and its starter differ about its ending."""
    endings = [(record.stimulus, record.ending) for record in seen]
    return "".join(
        f"; but {life.places.name(stimulus)} says {theirs}" for stimulus, theirs in endings if how and theirs != how
    )


def _history_disagrees(life: ImportedJob, how: str) -> str:
    ad = next((ad for ad in life.ads if ad.kind == "history"), None)
    theirs = ad.ending() if ad is not None else ""
    if ad is None or not theirs or not how or theirs == how:
        return ""
    return f"; but {KINDS[ad.kind].name} says {theirs} ({life.places.name(ad.stimulus)})"


def _done(code: str, status: str) -> Step:
    """Return how a record is read of what was done to the job with a reason, which ends its run if it is on a slot."""

    def read(life: ImportedJob, record: Record) -> None:
        number = record.facts.get("code", "")
        done, facts = life.done_to_it(code, record.facts.get("reason", "") or "no reason given")
        facts |= {"named": code_words(number), "hold_code": number}
        life.becomes(status, life.say_end(record, done, also=_disagreement(record, life.places, "code"), **facts))

    return read


def on_suspended(life: ImportedJob, record: Record) -> None:
    _stopped(life, record, "suspended", "suspended", moves(life.run, "Suspended"))


def on_resumed(life: ImportedJob, record: Record) -> None:
    """Also one that has to leave is continued: it could not end otherwise."""
    _stopped(life, record, "running", "continued", moves_from(life.run, "Suspended"))


def _stopped(
    life: ImportedJob, record: Record, status: str, code: str, moved: list[tuple[int, e.SlotTransitioned]]
) -> None:
    near = [event for _, event in moved if abs(event.at - record.at) <= 5 * SECOND]
    event = next((event for event in near if event.reason), None)
    reason = event.reason.rstrip(".") if event else ""
    facts = {"why": meaning(reason) or reason, "said": reason, "slot": life.slot}
    life.becomes(status, life.tell(record, code, *([event.stimulus] if event else []), **facts))


def on_measured(life: ImportedJob, record: Record) -> None:
    life.size = record


def on_exception(life: ImportedJob, record: Record) -> None:
    _gave_up(life, record, "shadow_gave_up")


def _gave_up(life: ImportedJob, record: Record, code: str) -> None:
    """Tell that its shadow ended its run; the daemon that died says more than what the shadow wrote."""
    run, reason = life.ended_by(record), record.facts.get("reason", "")
    why, also = life.why(run, record.at)
    places = also if "died" in why else []
    facts = {"ran": life.after(record.at), "reason": reason}
    life.becomes(IDLE, life.say_of(run, record, code, *places, died=why.get("died"), **facts))


def on_disconnected(life: ImportedJob, record: Record) -> None:
    reason = record.facts.get("reason", "")
    life.slot = record.facts.get("slot", "") or life.slot
    schedd = reason.startswith(SCHEDD_DIED)
    died = life.schedd_died(record.at) if schedd else life.died(record.at)
    sentence = life.tell(record, "shadow_lost", slot=life.slot or "its slot", died=died, reason=reason)
    life.lost = life.lost or sentence


def on_reconnected(life: ImportedJob, record: Record) -> None:
    """The slot is the one where it ran all the time: where its beginning was not read, this entry names it."""
    life.slot, life.attended = life.slot or record.facts.get("slot", ""), record.at
    life.becomes("running", life.tell(record, "shadow_found", slot=life.slot))


def on_not_reconnected(life: ImportedJob, record: Record) -> None:
    _gave_up(life, record, "shadow_did_not_find")


def tell_gap(life: ImportedJob, position: int, gap: e.SourceGap) -> None:
    """Report that records are missing that may have shown more."""
    at = gap.since or gap.at
    if life.chain and at <= life.last:
        until = instant(gap.until, life.zone) if gap.until else ""
        life.tell(Place(at, position, gap.stimulus), "records_missing", until=until, words=gap.words)


def capital(text: str) -> str:
    """Begin a sentence with what an entry of a job's log is called."""
    return text[:1].upper() + text[1:]


SAYS_NOTHING = "Unspecified"  #: the beginning of the reason of an eviction without a given reason
SILENT = frozenset({8, 28, 40, 43, 44, 45, 47})  #: entries that say nothing about why a job is where it is
_AFTER_THE_END: Final = frozenset({BEGIN, "4", "5", "9", "12", "13"})
FORGOTTEN: Final = {
    "held": frozenset({BEGIN, "12"}),
    "completed": _AFTER_THE_END,
    "removed": _AFTER_THE_END,
}  # fmt: skip
"""Where a job is -> the entries that its schedd writes only if it has forgotten that."""


def _usage(record: Record, size: Record | None) -> str:
    """Tell what a job used: CPU by the entry of its end, memory by the last that measured it."""
    cpu = sum(int(record.facts.get(name, "0")) for name in ("user_cpu", "system_cpu"))
    resident = size.facts.get("resident", "") if size is not None else ""
    return resources(cpu, int(resident) if resident.isdecimal() else 0)


def _disagreement(record: Record, places: PlaceNames, *names: str) -> str:
    """What other sources of the same entry say otherwise of the facts with these names."""
    text = ""
    for other in record.others:
        theirs = {name: other.facts[name] for name in names if name in other.facts}
        if theirs and theirs != {name: record.facts[name] for name in names if name in record.facts}:
            words = ", ".join(f"{name} {value}" for name, value in theirs.items())
            text += f"; but {places.name(other.stimulus) or 'another record'} says {words}"
    return text


def before(life: ImportedJob, record: Record) -> None:
    """Tell of what was gathered before a record."""
    if record.what in (BEGIN, "matched", "shadow_began"):
        # What the cycle that gave it a slot refused was for others like it.
        life.rejected = [rejected for rejected in life.rejected if rejected.at // SECOND < record.at // SECOND]
        life.given = record.at // SECOND
    if record.what != "rejected":
        _tell_rejections(life)
    if record.what not in ("rejected", "matched"):
        _tell_fruitless_matches(life)


def tell_gathered(life: ImportedJob) -> None:
    """Tell of what was gathered to the end."""
    _tell_rejections(life)
    _tell_fruitless_matches(life)


def on_matched(life: ImportedJob, record: Record) -> None:
    """A match that led to a run, of this job or one like it, is reported with the run."""
    if not life.matches.led_to_run(record):
        life.fruitless_matches.append(record)


def _tell_fruitless_matches(life: ImportedJob) -> None:
    """Matches in a row that led to no run of its cluster, in a sentence or two: those by which it ran, as its slot's
    log tells, and the others."""
    matches, life.fruitless_matches = life.fruitless_matches, []
    own = [match for match in matches if _ran_by(life, match)]
    for match in own:
        life.reported_positions.add(match.position)
        life.tell_match(match)
    matches = [match for match in matches if match not in own]
    for sort in sort_fruitless_matches(matches, life.slots, life.zone):
        last, begun = sort.records[-1], sort.begun
        at = max([last.at, *(job.at for job in begun)])  # the jobs that ran there began later
        stimuli = (sort.records[0].event.stimulus, last.stimulus, *(job.stimulus for job in begun))
        life.tell(Place(at, last.position, last.stimulus), sort.code, *stimuli, **sort.facts)


def _ran_by(life: ImportedJob, match: Record) -> bool:
    begun = run_after(life.slots, match.facts, match.at)
    return begun is not None and begun.job == life.name


def on_begun_there(life: ImportedJob, record: Record) -> None:
    """A run whose beginning its own records do not have."""
    slot, by_slot = record.facts["slot"], life.places.kind(record.stimulus) == "startlog"
    life.tell_match_of(slot, record.at)
    life.begin_run(slot, record.at, "over_there" if by_slot else "run_over")
    life.becomes("running", life.tell(record, "started_there" if by_slot else "started", slot=slot))


def on_over_there(life: ImportedJob, record: Record) -> None:
    """The end of a run of which its own records tell nothing, and perhaps no record does."""
    run = next(run for run in life.runs if (run.slot, run.ended) == (record.facts["slot"], record.at))
    why, also = life.why(run, record.at)
    evicted = run.outcome == EVICTED
    if not run.ends:
        sentence = life.say_of(run, record, "end_untold", *also, slot=run.slot or life.slot, died=why.get("died"))
    else:
        facts: dict[str, Fact] = {"ran": interval(run.lasted), "did": "was ended" if evicted else "ended"}
        facts |= {"slot": run.slot or life.slot, **why, **life.cause(run, why)}
        sentence = life.say_of(run, record, life.over, *also, **facts)
    if life.lost is None:  # else its access point waits for it yet
        life.becomes(IDLE if evicted else "", sentence)


def on_rejected(life: ImportedJob, record: Record) -> None:
    if life.status not in ("running", "suspended") and record.at // SECOND != life.given:
        life.rejected.append(record)


def _tell_rejections(life: ImportedJob) -> None:
    """What the negotiator refused in a row, in one sentence."""
    if not life.rejected:
        return
    first, last = life.rejected[0], life.rejected[-1]
    why = last.facts.get("words", "") or "no reason given"
    count = len(life.rejected)
    since, until = instant(first.at, life.zone), instant(last.at, life.zone)
    times = f"{counted(count, 'time')} from {since} until {until}" if count > 1 else ""
    life.rejected = []
    life.refused = life.tell(last, "nothing_for_it", first.stimulus, times=times, reason=why)


def on_shadow(life: ImportedJob, record: Record) -> None:
    pid, slot = record.facts.get("shadow", ""), record.facts.get("slot", "")
    life.called = life.called or record.facts.get("user", "")
    before = record.facts.get("before", "")
    if not before:
        life.tell_match_of(slot, record.at)
    sentence = life.tell(record, "shadow_goes_on" if before else "shadow_began", pid=pid, slot=slot, before=before)
    if slot and life.status not in ("running", "suspended"):  # one that looks for its job again names no slot
        life.slot, life.run = slot, life.slots.run(slot, life.name, record.at)
    if not life.logged:
        life.began = record.at
        life.becomes("running", sentence)


def on_shadow_gone(life: ImportedJob, record: Record) -> None:
    run = life.ended_by(record)
    status, reason = record.facts.get("status", ""), record.facts.get("reason", "")
    rule = STATUSES.get(status or reason, StatusRule("", ""))
    became, words = rule.became, rule.words
    number = f"with status {status}" if status else f"for reason {reason}" if reason else ""
    did = "ended"
    if signal := killed(record.event):
        became, words, number, did = "idle", signal, "", "died"
    slot = run.slot if run is not None else life.slot
    ran = life.after(record.at) if slot == life.slot else ""
    why, also = life.why(run, record.at) if became in ("", "idle") else ({}, [])
    if did == "died":
        why.pop("died", None)
    facts: dict[str, Fact] = {"did": did, "ran": ran, "number": number, "words": words, "slot": slot, **why}
    sentence = life.say_of(run, record, "shadow_gone", *also, **facts)
    if became != life.status:
        life.becomes(became, sentence)


def on_terminated(life: ImportedJob, record: Record) -> None:
    facts = {"ran": life.after(record.at), "slot": life.last_slot(), "how": record.ending}
    life.becomes("completed", life.tell(record, "shadow_saw_end", **facts))


def on_evicting(life: ImportedJob, record: Record) -> None:
    """Its next status is unknown: it may be held, or removed."""
    run = life.ended_by(record)
    why, also = life.why(run, record.at)
    facts: dict[str, Fact] = {"slot": record.facts.get("slot", ""), "ran": life.after(record.at), **why}
    life.becomes("", life.say_of(run, record, "shadow_left", *also, **facts))


def on_process_ended(life: ImportedJob, record: Record) -> None:
    """Its next status is unknown: its starter reports only its process."""
    checkpoint = life.is_checkpoint(record)
    if checkpoint or not life.is_logged(life.ended_by(record)):
        code = "starter_saw_checkpoint" if checkpoint else "starter_saw_end"
        facts = {"slot": record.facts.get("slot", ""), "how": record.ending}
        life.tell(record, code, ran=life.after(record.at), **facts)


def _unless_logged(step: Step) -> Step:
    """Take a step only where the job's own log does not have the end of the run that the record reports."""

    def read(life: ImportedJob, record: Record) -> None:
        if not life.is_logged(life.ended_by(record)):
            step(life, record)

    return read


_STEPS: Final[dict[str, Step]] = {
    "0": on_submitted,
    BEGIN: on_begun,
    "4": on_evicted,
    "5": on_ended,
    "6": on_measured,
    "7": on_exception,
    "9": _done("removed", REMOVED),
    "10": on_suspended,
    "11": on_resumed,
    "12": _done("held", HELD),
    "13": _done("released", IDLE),
    "22": on_disconnected,
    "23": on_reconnected,
    "24": on_not_reconnected,
    "matched": on_matched,
    "rejected": on_rejected,
    "shadow_began": on_shadow,
    "shadow_gone": _unless_logged(on_shadow_gone),
    "terminated": _unless_logged(on_terminated),
    "evicting": _unless_logged(on_evicting),
    "holding": _unless_logged(_done("held", HELD)),
    "requeuing": _unless_logged(_done("shadow_requeued", IDLE)),
    "removing": _unless_logged(_done("removed", REMOVED)),
    "process_ended": on_process_ended,
    BEGUN: on_begun_there,
    OVER: on_over_there,
}
"""An entry of the job's log, by its number, or a daemon's report -> how it is read."""
