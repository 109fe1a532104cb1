"""What daemons' logs tell of a job: the negotiator's matches and refusals, shadows, and what its slots did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....domain.units import SECOND
from ...narration.formatting import counted, instant, interval
from ...runs.daemon_deaths import killed
from ...runs.job_run import EVICTED
from ..audit.exit_statuses import STATUSES, StatusRule
from . import record_words as tables
from .job_history import BEGIN, Record
from .job_life import BEGUN, OVER, Fact, JobLife
from .match_runs import run_after, unled_matches


def read_report(life: JobLife, record: Record) -> None:
    """Tell of what a daemon reported."""
    say = _SAY.get(record.what)
    if say is not None:
        say(life, record)


def before(life: JobLife, record: Record) -> None:
    """Tell of what was gathered before a record."""
    if record.what in (BEGIN, "matched", "shadow_began"):
        # What the cycle that gave it a slot refused was for others like it.
        life.rejected = [rejected for rejected in life.rejected if rejected.at // SECOND < record.at // SECOND]
        life.given = record.at // SECOND
    if record.what != "rejected":
        _tell_rejections(life)
    if record.what not in ("rejected", "matched"):
        _tell_unled(life)


def tell_gathered(life: JobLife) -> None:
    """Tell of what was gathered to the end."""
    _tell_rejections(life)
    _tell_unled(life)


def on_matched(life: JobLife, record: Record) -> None:
    """A match that led to a run, of this job or one like it, is told with the run."""
    if not life.matches.led_to_run(record):
        life.unled.append(record)


def _tell_unled(life: JobLife) -> None:
    """Matches in a row that led to no run of its cluster, in a sentence or two: those by which it ran, as its slot's
    log tells, and the others."""
    unled, life.unled = life.unled, []
    own = [match for match in unled if _ran_by(life, match)]
    for match in own:
        life.told.add(match.position)
        life.tell_match(match)
    unled = [match for match in unled if match not in own]
    for sort in unled_matches(unled, life.slots, life.zone):
        last, begun = sort.records[-1], sort.begun
        at = max([last.at, *(one.at for one in begun)])  # those who ran there began later
        stimuli = (sort.records[0].event.stimulus, last.event.stimulus, *(one.stimulus for one in begun))
        life.tell(at, last.position, last.event.stimulus, sort.code, *stimuli, **sort.facts)


def _ran_by(life: JobLife, match: Record) -> bool:
    begun = run_after(life.slots, match.facts, match.at)
    return begun is not None and begun.job == life.name


def on_begun_there(life: JobLife, record: Record) -> None:
    """A run whose beginning its own records do not have."""
    slot, by_slot = record.facts["slot"], life.places.kind(record.event.stimulus) == "startlog"
    life.tell_match_of(slot, record.at)
    life.begin_run(slot, record.at, "over_there" if by_slot else "run_over")
    life.becomes("running", life.say(record, "started_there" if by_slot else "log_started", slot=slot))


def on_over_there(life: JobLife, record: Record) -> None:
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
        life.becomes("idle" if evicted else "", sentence)


def on_rejected(life: JobLife, record: Record) -> None:
    if life.status not in ("running", "suspended") and record.at // SECOND != life.given:
        life.rejected.append(record)


def _tell_rejections(life: JobLife) -> None:
    """What the negotiator refused in a row, in one sentence."""
    if not life.rejected:
        return
    first, last = life.rejected[0], life.rejected[-1]
    why = last.facts.get("words", "") or "no reason given"
    count = len(life.rejected)
    since, until = instant(first.at, life.zone), instant(last.at, life.zone)
    times = f"{counted(count, 'time')} from {since} until {until}" if count > 1 else ""
    life.rejected = []
    life.refused = life.say(last, "nothing_for_it", first.event.stimulus, times=times, reason=why)


def on_shadow(life: JobLife, record: Record) -> None:
    pid, slot = record.facts.get("shadow", ""), record.facts.get("slot", "")
    life.called = life.called or record.facts.get("user", "")
    before = record.facts.get("before", "")
    if not before:
        life.tell_match_of(slot, record.at)
    sentence = life.say(record, "shadow_goes_on" if before else "shadow_began", pid=pid, slot=slot, before=before)
    if slot and life.status not in ("running", "suspended"):  # one that looks for its job again names no slot
        life.slot, life.run = slot, life.slots.run(slot, life.name, record.at)
    if not life.logged:
        life.began = record.at
        life.becomes("running", sentence)


def on_shadow_gone(life: JobLife, record: Record) -> None:
    """Told where the job's own log is silent."""
    run = life.ended_by(record)
    if life.is_logged(run):
        return
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


def on_terminated(life: JobLife, record: Record) -> None:
    """Told where the job's own log is silent, as all that shadows and starters write of its end."""
    if not life.is_logged(life.ended_by(record)):
        facts = {"ran": life.after(record.at), "slot": life.last_slot(), "how": tables.ending(record.facts)}
        life.becomes("completed", life.say(record, "shadow_saw_end", **facts))


def on_evicting(life: JobLife, record: Record) -> None:
    """What becomes of it is not said: it may be held, or removed."""
    run = life.ended_by(record)
    if not life.is_logged(run):
        why, also = life.why(run, record.at)
        facts: dict[str, Fact] = {"slot": record.facts.get("slot", ""), "ran": life.after(record.at), **why}
        life.becomes("", life.say_of(run, record, "shadow_left", *also, **facts))


def on_holding(life: JobLife, record: Record) -> None:
    if not life.is_logged(life.ended_by(record)):
        number = record.facts.get("code", "")
        facts = {"reason": record.facts.get("reason", "") or "no reason given", "named": tables.code_words(number)}
        life.becomes("held", life.say_end(record, "log_held", hold_code=number, **facts))


def on_requeuing(life: JobLife, record: Record) -> None:
    if not life.is_logged(life.ended_by(record)):
        reason = record.facts.get("reason", "")
        life.becomes("idle", life.say_end(record, "shadow_requeued", reason=reason))


def on_removing(life: JobLife, record: Record) -> None:
    if not life.is_logged(life.ended_by(record)):
        reason = record.facts.get("reason", "") or "no reason given"
        life.becomes("removed", life.say_end(record, "log_removed", reason=reason))


def on_process_ended(life: JobLife, record: Record) -> None:
    """What becomes of it is not said: its starter tells of its process alone."""
    checkpoint = life.is_checkpoint(record)
    if checkpoint or not life.is_logged(life.ended_by(record)):
        code = "starter_saw_checkpoint" if checkpoint else "starter_saw_end"
        facts = {"slot": record.facts.get("slot", ""), "how": tables.ending(record.facts)}
        life.say(record, code, ran=life.after(record.at), **facts)


_SAY: Final[dict[str, Callable[[JobLife, Record], None]]] = {
    "matched": on_matched,
    "rejected": on_rejected,
    "shadow_began": on_shadow,
    "shadow_gone": on_shadow_gone,
    "terminated": on_terminated,
    "evicting": on_evicting,
    "holding": on_holding,
    "requeuing": on_requeuing,
    "removing": on_removing,
    "process_ended": on_process_ended,
    BEGUN: on_begun_there,
    OVER: on_over_there,
}
