"""Add a sentence to a job's history for each of its records: entries of job event logs, and reports of daemons
(negotiator, shadows, starters). The slots' logs show why a run ended or was suspended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from ...domain import events as e
from ...domain.imported import job_event_log
from ...domain.imported.record_sources import KINDS, SCHEDD_DIED
from ...domain.units import SECOND
from ..forensics.audit.exit_statuses import STATUSES, StatusRule
from ..forensics.imported_log import PlaceNames, host_of
from ..narration.formatting import counted, instant, interval, resources
from ..narration.sentence_tables import code_words
from ..runs.daemon_deaths import kill_reason
from ..runs.job_run import EVICTED
from ..runs.run_end_causes import reason_meaning
from ..runs.slot_records import NEAR, moves, moves_from
from .job_facts import HELD, IDLE, REMOVED
from .job_life import BEGUN, OVER, Fact, ImportedJob
from .job_records import BEGIN, ERROR, Place, Record
from .match_runs import run_after, sort_fruitless_matches

Step = Callable[[ImportedJob, Record], None]


def read_record(job: ImportedJob, record: Record) -> None:
    """Add the sentence of a record. An entry without its own template is named as in the log."""
    job.last = max(job.last, record.at)
    before(job, record)
    step = _STEPS.get(record.what)
    if record.what == ERROR:
        job.failed = record.facts.get("slot", "")
    if record.what in FORGOTTEN.get(job.status, ()):
        add_forgotten_step(job, record)
    if step is not None:
        step(job, record)
    elif isinstance(record.event, e.JobLogged) and record.event.number not in SILENT:
        reason = record.facts.get("reason", "")
        entry_words = job_event_log.words_of(record.event.number)
        job.add_cited(record, "entry", words=entry_words[:1].upper() + entry_words[1:], reason=reason)


def add_forgotten_step(job: ImportedJob, record: Record) -> None:
    """Add that the schedd repeats or reverts a step, because it died and lost the end of its job_queue.log."""
    assert job.since is not None
    death = job.deaths.death_before_repetition(job.name, job.since.at, record.at)
    if death is not None:
        job.add_cited(record, "schedd_forgot", status=job.status, died=death)


def on_submitted(job: ImportedJob, record: Record) -> None:
    host = host_of(record.facts.get("host", ""))
    job.submitted = True
    user, citations = job.user()
    job.set_status(IDLE, job.add_cited(record, "submitted", *citations, user=user, host=host))


def on_begun(job: ImportedJob, record: Record) -> None:
    slot = record.facts.get("slot", "") or host_of(record.facts.get("host", "")) or "a slot"
    job.add_match_before(slot, record.at)
    citations = _disagreement(record, job.places, "slot")
    job.begin_run(slot, record.at)
    job.set_status("running", job.add_cited(record, "started", slot=slot, also=citations))


def on_evicted(job: ImportedJob, record: Record) -> None:
    facts, run = record.facts, job.ended_by(record)
    failed_slot, job.failed = job.failed, ""  # the access point may have started it on another slot in the same second
    why_facts, citations = job.end_facts(run, record.at)
    why_facts |= job.cause_facts(run, why_facts)
    text, is_known = facts.get("reason", ""), not why_facts.keys().isdisjoint(("why", "next", "died"))
    code = code_words(facts.get("reason_code", ""))
    if (text or code) and not (is_known and text.startswith(SAYS_NOTHING)):
        why_facts["said" if is_known else "log"] = f"{text or 'no reason'}{f' ({code})' if code else ''}"
    slot = (run.slot if run is not None else "") or failed_slot or job.slot or "its slot"
    sentence = "requeued" if facts.get("requeued") == "true" else "evicted"
    job.set_status(
        IDLE, job.add_run_end(run, record, sentence, *citations, slot=slot, ran=job.run_time(record.at), **why_facts)
    )


def on_ended(job: ImportedJob, record: Record) -> None:
    ending = record.ending
    exits = [end for end in job.seen if max(job.began, record.at - NEAR) <= end.at <= record.at + NEAR]
    exits = [*{job.places.chain(end.stimulus): end for end in exits if not job.is_checkpoint(end)}.values()]
    citations = _differing_endings(job, exits, ending) + _disagreement(record, job.places, "code", "signal")
    citations += _history_disagrees(job, ending)
    facts = {"slot": job.last_slot(), "how": ending or "no exit code"}
    facts["ran"] = job.run_time(record.at) if job.slot else ""
    places = [seen_end.stimulus for seen_end in exits]
    sentence = job.add_cited(record, "exited", *places, used=_usage_text(record, job.size), also=citations, **facts)
    job.set_status("completed", sentence)


def _differing_endings(job: ImportedJob, exits: Iterable[Record], end_text: str) -> str:
    differing_exits = [record for record in exits if end_text and record.ending != end_text]
    return "".join(f"; but {job.places.name(record.stimulus)} says {record.ending}" for record in differing_exits)


def _history_disagrees(job: ImportedJob, end_text: str) -> str:
    ad = next((ad for ad in job.ads if ad.kind == "history"), None)
    ad_end = ad.ending() if ad is not None else ""
    if ad is None or not ad_end or not end_text or ad_end == end_text:
        return ""
    return f"; but {KINDS[ad.kind].name} says {ad_end} ({job.places.name(ad.stimulus)})"


def _hold_or_removal_step(code: str, status: str) -> Step:
    """Return the step for a hold, release or removal with a reason. If the job is on a slot, this ends its run."""

    def add_step(job: ImportedJob, record: Record) -> None:
        number = record.facts.get("code", "")
        done_code, facts = job.code_with_user(code, record.facts.get("reason", "") or "no reason given")
        facts |= {"named": code_words(number), "hold_code": number}
        job.set_status(status, job.add_step(record, done_code, also=_disagreement(record, job.places, "code"), **facts))

    return add_step


def on_suspended(job: ImportedJob, record: Record) -> None:
    _add_suspension(job, record, "suspended", "suspended", moves(job.run, "Suspended"))


def on_resumed(job: ImportedJob, record: Record) -> None:
    _add_suspension(job, record, "running", "continued", moves_from(job.run, "Suspended"))


def _add_suspension(
    job: ImportedJob, record: Record, status: str, code: str, slot_moves: list[tuple[int, e.SlotTransitioned]]
) -> None:
    near_moves = [event for _, event in slot_moves if abs(event.at - record.at) <= 5 * SECOND]
    event = next((event for event in near_moves if event.reason), None)
    reason = event.reason.rstrip(".") if event else ""
    facts = {"why": reason_meaning(reason) or reason, "said": reason, "slot": job.slot}
    job.set_status(status, job.add_cited(record, code, *([event.stimulus] if event else []), **facts))


def on_measured(job: ImportedJob, record: Record) -> None:
    job.size = record


def _add_failed_shadow(job: ImportedJob, record: Record, code: str) -> None:
    """Add that the job's shadow gave up. If a daemon's death is known, it is cited instead of the slot's log."""
    run, reason = job.ended_by(record), record.facts.get("reason", "")
    why_facts, citations = job.end_facts(run, record.at)
    places = citations if "died" in why_facts else []
    facts = {"ran": job.run_time(record.at), "reason": reason}
    job.set_status(IDLE, job.add_run_end(run, record, code, *places, died=why_facts.get("died"), **facts))


def on_disconnected(job: ImportedJob, record: Record) -> None:
    reason = record.facts.get("reason", "")
    job.slot = record.facts.get("slot", "") or job.slot
    schedd = reason.startswith(SCHEDD_DIED)
    death = job.schedd_death(record.at) if schedd else job.disconnecting_death(record.at)
    sentence = job.add_cited(record, "shadow_lost", slot=job.slot or "its slot", died=death, reason=reason)
    job.lost = job.lost or sentence


def on_reconnected(job: ImportedJob, record: Record) -> None:
    job.slot, job.attended = job.slot or record.facts.get("slot", ""), record.at
    job.set_status("running", job.add_cited(record, "shadow_found", slot=job.slot))


def add_gap(job: ImportedJob, position: int, gap: e.SourceGap) -> None:
    """Add that records are missing, unless the gap is after the job's last record."""
    at = gap.since or gap.at
    if job.chain and at <= job.last:
        until = instant(gap.until, job.zone) if gap.until else ""
        job.add_cited(Place(at, position, gap.stimulus), "records_missing", until=until, words=gap.words)


SAYS_NOTHING = "Unspecified"  #: HTCondor's reason begins with this word if the user gave none
SILENT = frozenset({8, 28, 40, 43, 44, 45, 47})  #: entries that do not explain a job's status
_AFTER_THE_END: Final = frozenset({BEGIN, "4", "5", "9", "12", "13"})
FORGOTTEN: Final = {"held": frozenset({BEGIN, "12"}), "completed": _AFTER_THE_END, "removed": _AFTER_THE_END}
"""A status -> the entries that a schedd writes only if it has forgotten that status."""


def _usage_text(record: Record, size: Record | None) -> str:
    cpu = sum(int(record.facts.get(name, "0")) for name in ("user_cpu", "system_cpu"))
    resident = size.facts.get("resident", "") if size is not None else ""
    return resources(cpu, int(resident) if resident.isdecimal() else 0)


def _disagreement(record: Record, places: PlaceNames, *names: str) -> str:
    """Return which other sources of the same entry have different values for these facts, or "" if none has."""
    text = ""
    for other_record in record.others:
        other_facts = {name: other_record.facts[name] for name in names if name in other_record.facts}
        if other_facts and other_facts != {name: record.facts[name] for name in names if name in record.facts}:
            other_text = ", ".join(f"{name} {value}" for name, value in other_facts.items())
            text += f"; but {places.name(other_record.stimulus) or 'another record'} says {other_text}"
    return text


def before(job: ImportedJob, record: Record) -> None:
    """Add the matches and rejections that precede a record."""
    if record.what in (BEGIN, "matched", "shadow_began"):
        # Rejections in the cycle that matched the job were of other jobs in its autocluster.
        job.rejected = [rejection for rejection in job.rejected if rejection.at // SECOND < record.at // SECOND]
        job.given = record.at // SECOND
    if record.what != "rejected":
        _add_rejections(job)
    if record.what not in ("rejected", "matched"):
        _add_fruitless_matches(job)


def add_collected(job: ImportedJob) -> None:
    """Add the remaining matches and rejections."""
    _add_rejections(job)
    _add_fruitless_matches(job)


def on_matched(job: ImportedJob, record: Record) -> None:
    """Collect a match that led to no run; any other match is reported with its run."""
    if not job.matches.led_to_run(record):
        job.fruitless_matches.append(record)


def _add_fruitless_matches(life: ImportedJob) -> None:
    """Add the collected matches: one sentence for each match after which the job ran on the slot according to the
    slot's log, and summaries of the others."""
    matches, life.fruitless_matches = life.fruitless_matches, []
    own_matches = [match for match in matches if _ran_after(life, match)]
    for match in own_matches:
        life.reported_positions.add(match.position)
        life.add_match(match)
    matches = [match for match in matches if match not in own_matches]
    for sort in sort_fruitless_matches(matches, life.slots, life.zone):
        last_record, begun_job = sort.records[-1], sort.begun
        at = max([last_record.at, *(job.at for job in begun_job)])  # the jobs that ran there began later
        stimuli = (sort.records[0].event.stimulus, last_record.stimulus, *(job.stimulus for job in begun_job))
        life.add_cited(Place(at, last_record.position, last_record.stimulus), sort.code, *stimuli, **sort.facts)


def _ran_after(job: ImportedJob, match: Record) -> bool:
    begun_job = run_after(job.slots, match.facts, match.at)
    return begun_job is not None and begun_job.job == job.name


def on_begun_there(job: ImportedJob, record: Record) -> None:
    slot, is_startd_record = record.facts["slot"], job.places.kind(record.stimulus) == "startlog"
    job.add_match_before(slot, record.at)
    job.begin_run(slot, record.at, "over_there" if is_startd_record else "run_over")
    job.set_status("running", job.add_cited(record, "started_there" if is_startd_record else "started", slot=slot))


def on_over_there(job: ImportedJob, record: Record) -> None:
    """Add the end of a run that is missing from the job's own records."""
    run = next(run for run in job.runs if (run.slot, run.ended) == (record.facts["slot"], record.at))
    why_facts, citations = job.end_facts(run, record.at)
    was_evicted = run.outcome == EVICTED
    if not run.ends:
        sentence = job.add_run_end(
            run, record, "end_unknown", *citations, slot=run.slot or job.slot, died=why_facts.get("died")
        )
    else:
        facts: dict[str, Fact] = {"ran": interval(run.duration), "did": "was ended" if was_evicted else "ended"}
        facts |= {"slot": run.slot or job.slot, **why_facts, **job.cause_facts(run, why_facts)}
        sentence = job.add_run_end(run, record, job.over, *citations, **facts)
    if job.lost is None:  # otherwise its access point still waits for a reconnection
        job.set_status(IDLE if was_evicted else "", sentence)


def on_rejected(job: ImportedJob, record: Record) -> None:
    if job.status not in ("running", "suspended") and record.at // SECOND != job.given:
        job.rejected.append(record)


def _add_rejections(job: ImportedJob) -> None:
    if not job.rejected:
        return
    first_rejection, last_rejection = job.rejected[0], job.rejected[-1]
    reason = last_rejection.facts.get("words", "") or "no reason given"
    count = len(job.rejected)
    since, until = instant(first_rejection.at, job.zone), instant(last_rejection.at, job.zone)
    times = f"{counted(count, 'time')} from {since} until {until}" if count > 1 else ""
    job.rejected = []
    job.refused = job.add_cited(
        last_rejection, "rejected_by_negotiator", first_rejection.stimulus, times=times, reason=reason
    )


def on_shadow(job: ImportedJob, record: Record) -> None:
    pid, slot = record.facts.get("shadow", ""), record.facts.get("slot", "")
    job.logged_user = job.logged_user or record.facts.get("user", "")
    before = record.facts.get("before", "")
    if not before:
        job.add_match_before(slot, record.at)
    sentence = job.add_cited(record, "shadow_reused" if before else "shadow_began", pid=pid, slot=slot, before=before)
    if slot and job.status not in ("running", "suspended"):  # a shadow that reconnects names no slot
        job.slot, job.run = slot, job.slots.run(slot, job.name, record.at)
    if not job.logged:
        job.began = record.at
        job.set_status("running", sentence)


def on_shadow_gone(job: ImportedJob, record: Record) -> None:
    run = job.ended_by(record)
    status, reason = record.facts.get("status", ""), record.facts.get("reason", "")
    rule = STATUSES.get(status or reason, StatusRule("", ""))
    new_status, words = rule.became, rule.meaning
    number = f"with status {status}" if status else f"for reason {reason}" if reason else ""
    verb = "ended"
    if signal := kill_reason(record.event):
        new_status, words, number, verb = "idle", signal, "", "died"
    slot = run.slot if run is not None else job.slot
    ran = job.run_time(record.at) if slot == job.slot else ""
    why_facts, citations = job.end_facts(run, record.at) if new_status in ("", "idle") else ({}, [])
    if verb == "died":
        why_facts.pop("died", None)
    facts: dict[str, Fact] = {"did": verb, "ran": ran, "number": number, "words": words, "slot": slot, **why_facts}
    sentence = job.add_run_end(run, record, "shadow_gone", *citations, **facts)
    if new_status != job.status:
        job.set_status(new_status, sentence)


def on_terminated(job: ImportedJob, record: Record) -> None:
    facts = {"ran": job.run_time(record.at), "slot": job.last_slot(), "how": record.ending}
    job.set_status("completed", job.add_cited(record, "shadow_saw_end", **facts))


def on_evicting(job: ImportedJob, record: Record) -> None:
    """Add that the shadow evicts the job, whose next status is unknown, because it may be held or removed."""
    run = job.ended_by(record)
    why_facts, citations = job.end_facts(run, record.at)
    facts: dict[str, Fact] = {"slot": record.facts.get("slot", ""), "ran": job.run_time(record.at), **why_facts}
    job.set_status("", job.add_run_end(run, record, "shadow_left", *citations, **facts))


def on_process_ended(job: ImportedJob, record: Record) -> None:
    """Add the end of the job's process. The status stays unknown, because the starter reports only the process."""
    checkpoint = job.is_checkpoint(record)
    if checkpoint or not job.is_logged(job.ended_by(record)):
        code = "starter_saw_checkpoint" if checkpoint else "starter_saw_end"
        facts = {"slot": record.facts.get("slot", ""), "how": record.ending}
        job.add_cited(record, code, ran=job.run_time(record.at), **facts)


def _unless_logged(step: Step) -> Step:
    """Return a step that is skipped if the job's own log has the end of the same run."""

    def add_step(job: ImportedJob, record: Record) -> None:
        if not job.is_logged(job.ended_by(record)):
            step(job, record)

    return add_step


_STEPS: Final[dict[str, Step]] = {
    "0": on_submitted,
    BEGIN: on_begun,
    "4": on_evicted,
    "5": on_ended,
    "6": on_measured,
    "7": partial(_add_failed_shadow, code="shadow_gave_up"),
    "9": _hold_or_removal_step("removed", REMOVED),
    "10": on_suspended,
    "11": on_resumed,
    "12": _hold_or_removal_step("held", HELD),
    "13": _hold_or_removal_step("released", IDLE),
    "22": on_disconnected,
    "23": on_reconnected,
    "24": partial(_add_failed_shadow, code="shadow_did_not_find"),
    "matched": on_matched,
    "rejected": on_rejected,
    "shadow_began": on_shadow,
    "shadow_gone": _unless_logged(on_shadow_gone),
    "terminated": _unless_logged(on_terminated),
    "evicting": _unless_logged(on_evicting),
    "holding": _unless_logged(_hold_or_removal_step("held", HELD)),
    "requeuing": _unless_logged(_hold_or_removal_step("shadow_requeued", IDLE)),
    "removing": _unless_logged(_hold_or_removal_step("removed", REMOVED)),
    "process_ended": on_process_ended,
    BEGUN: on_begun_there,
    OVER: on_over_there,
}
"""The number of a job event log entry, or the name of a daemon's report -> its step."""
