"""Explain the state of a job of the pool's own log: why it waits, runs, is held, or ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple

import attrs

from ...domain import events as e
from ...domain.classad import Context
from ...domain.schedd.job_deferral import clauses_false_until, integer_attribute
from ...domain.state.caches import ad_from_attributes
from ...domain.state.job_ad import DEFERRAL_TIME, EXPIRATION
from ...domain.state.pool_settings import START_SETTINGS, job_limit
from ...domain.state_machines import SlotRow
from ...domain.state_machines.hold_codes import hold_advice
from ...domain.units import SECOND
from ..narration.defrag_words import poll_sentence as defrag_seen
from ..narration.formatting import instant, interval, memory
from ..narration.rejection_words import is_same, lacks_attribute, misfit_text, short_misfit
from ..narration.sentence_tables import step_name
from ..narration.sentences import Explanation, Sentence, UnknownThingError, events_until
from ..narration.unmatchable_jobs import Misfit, misfit
from ..runs.job_run import EVICTED
from ..runs.native_runs import own_runs
from .job_facts import COMPLETED, HAS_LEFT, HELD, IDLE, REMOVED, RUNNING, SUSPENDED, Situation
from .own_job import BY_POLICY, OwnJob
from .rejections import CONCURRENCY, NextCycle, Rejection, fits_none
from .submissions import refusal


def why_job(
    events: Iterable[e.LoggedEvent],
    cluster: int,
    proc: int,
    at: int | None = None,
    zone: tzinfo = UTC,
    read_log: Callable[[], Iterable[e.LoggedEvent]] | None = None,
) -> Explanation:
    """Explain the state of a job as of the instant `at` (None: the log's end). Times in sentences are in `zone`.

    :param events: the log's events, or the events that ``job_events`` selects
    :param read_log: reads all events, which the next cycle depends on; None: they are `events`
    :raises UnknownThingError: the log has no such job
    """
    job = OwnJob(cluster, proc, zone)
    replayed_events = list(events_until(events, at))
    for position, event in replayed_events:
        job.context.add_event(position, event)
    job.causes = {run.position: run.cause for run in own_runs(replayed_events) if run.outcome == EVICTED}
    for position, event in replayed_events:
        job.fold_event(position, event)
    if job.submitted is None:
        refusal_answer = refusal(replayed_events, cluster)
        if refusal_answer is not None:
            return refusal_answer
        moment = "" if at is None else f" at {instant(at, zone)}"
        text = f"the log has no job {cluster}.{proc}{moment}: `poolbook q` and `poolbook history` list its jobs"
        raise UnknownThingError(text)
    if job.status == IDLE:
        read = (lambda: replayed_events) if read_log is None else read_log
        situation = _idle_situation(job, NextCycle(lambda: events_until(read(), at)))
    else:
        situation = _SITUATIONS.get(job.status, _ended_situation)(job)
    cycles = [step for step in situation.steps if step.code == "refused"]
    sentences = sorted([*job.chain, *cycles], key=lambda sentence: sentence.position)
    advice_facts = {"slot": job.current_slot or job.match, **situation.advice_facts}
    result = job.answer(situation._replace(advice_facts=advice_facts), sentences)
    lines = (result.lines[0], *job.transformed, *result.lines[1:])
    return attrs.evolve(result, lines=lines if job.transformed else result.lines)


class RejectionAnalysis(NamedTuple):
    """Why a job is not matched: the last rejection of its autocluster, with the instant; its last match (0: never); and
    the pool's name. For an idle job also: the holders of the concurrency limits that it needs, the current reason, and,
    if an attribute is missing, why no slot can ever run it."""

    refusal: tuple[int, e.Unmatched] | None = None
    matched: int = 0
    pool: str = ""
    limits: Sequence[str] = ()
    now: str = ""
    lacking: str = ""


def analyze_rejection(
    events: Iterable[e.LoggedEvent], cluster: int, proc: int, next_cycle: NextCycle
) -> RejectionAnalysis:
    """Return why a job is not matched. `events`: the log's events, or the events that ``job_events`` selects."""
    job = OwnJob(cluster, proc, UTC)
    for position, event in events:
        job.fold_event(position, event)
    last_rejection = job.refusals.last_rejection(job.name, job.ad)
    if last_rejection is None:
        return RejectionAnalysis(None, job.matched_at)
    refusal = last_rejection[1].at, last_rejection[2]
    if job.status != IDLE:
        return RejectionAnalysis(refusal, job.matched_at)
    now, reason = job.refusals.reason_now(job.name, job.ad, next_cycle)
    limits = [] if reason is None else next_cycle.limits(reason)
    is_same_reason = reason is not None and is_same(last_rejection[2], reason)
    slot_misfit = _find_misfit(job, reason, next_cycle)
    lacking_text = misfit_text(slot_misfit) if slot_misfit is not None and lacks_attribute(slot_misfit) else ""
    return RejectionAnalysis(refusal, job.matched_at, "", limits, "" if is_same_reason else now, lacking_text)


def _last_step(job: OwnJob) -> Sentence:
    """Return the step that led to the job's status, or the slot's step with the same cause, which has the evidence."""
    assert job.since is not None
    position, step = job.shown
    return step if step is not None and position == job.since.position else job.since


def _end_steps(job: OwnJob) -> list[Sentence]:
    since = _last_step(job)
    if since.code in _ENDS and job.step is not None:
        return [since, job.step]
    return [since]


def _ended_situation(job: OwnJob) -> Situation:
    was_removed = job.status == REMOVED
    steps = [_last_step(job), *_remaining_processes(job)]
    if job.run is not None:
        advice = "forget_it" if was_removed else "wait_for_end"
        return Situation("job_removing" if was_removed else "job_ended", steps, advice)
    if not job.gone and job.status in HAS_LEFT:
        return Situation("job_removed" if was_removed else "job_completed", steps, "drop_from_queue")
    has_failed = _last_step(job).facts.get("how", "code 0") not in ("", "code 0")
    advice = "see_failure" if has_failed else "see_history"
    return Situation("job_removed" if was_removed else "job_completed", steps, advice)


def _held_situation(job: OwnJob) -> Situation:
    steps = [*_end_steps(job), *_remaining_processes(job)]
    max_releases, holds = job_limit(job.settings, "SYSTEM_MAX_RELEASES"), job.ad.get("NumHolds", "")
    if max_releases is not None and holds.isdecimal() and 0 <= max_releases < int(holds):
        return Situation("job_held", steps, "release_limit", {"holds": holds, "most": str(max_releases)})
    advice = hold_advice(job.ad.get("HoldReasonCode", ""), "poolbook", job.name)
    return Situation("job_held", steps, "hold_advice", {"advice": advice})


def _suspended_situation(job: OwnJob) -> Situation:
    since = _last_step(job)
    is_by_policy = step_name(since.code) in (SlotRow.SUSPEND, SlotRow.SUSPEND_RETIRING) or since.cause == "suspend"
    return Situation("job_suspended", [since], "wait_for_continue" if is_by_policy else "continue_it")


def _remaining_processes(job: OwnJob) -> list[Sentence]:
    since = _last_step(job)
    if job.run is not None:
        if job.signalled is not None:
            return [job.about_now("exit_requested", slot=job.run.slot, when=instant(job.signalled.at, job.zone))]
        return [job.about_now("not_ended", slot=job.run.slot)]
    sentences = []
    if job.end is not None and job.end.position != since.position:
        sentences.append(job.about_now("last_process_ended", when=instant(job.end.at, job.zone)))
    if not job.gone and job.status in HAS_LEFT:
        condition = next((text for name, text in job.ad.items() if name.lower() == "leavejobinqueue"), "")
        sentences.append(job.about_now("stays_in_queue", yet="" if condition else "yet", text=condition))
    return sentences


def _idle_situation(job: OwnJob, next_cycle: NextCycle) -> Situation:
    earlier_steps = [step for step in _end_steps(job) if step.code != "submitted"]
    if job.run is not None:
        return Situation("job_idle", [*_remaining_processes(job), *earlier_steps], "wait_for_end")
    if job.reservation is not None:
        earlier_steps.insert(0, job.reservation)
        if job.reservation.code == "reserved":
            return Situation("job_idle", earlier_steps, "wait_for_room")
    has_delay = job.ad.get("JobUniverse", "") not in START_SETTINGS and (job.match or "JOB_START_DELAY" in job.settings)
    delay = next_cycle.delayed_start() if has_delay else None  # which reads all events
    if delay is not None and (job.match or delay.has_idle_claims):
        facts = {"setting": delay.setting, "until": instant(delay.at, job.zone), "slot": job.match}
        return Situation("job_idle", [job.about_now("start_delayed", **facts), *earlier_steps], "wait_for_turn")
    if job.match:
        return Situation("job_idle", [job.about_now("is_matched", slot=job.match), *earlier_steps], "wait_for_start")
    deferral = _deferral_situation(job)
    if deferral is not None:
        return deferral._replace(steps=[*deferral.steps, *earlier_steps])
    if (cool_down_end := _cool_down_end(job)) > job.at:
        cooling = job.about_now("cools_down", until=instant(cool_down_end, job.zone))
        return Situation("job_idle", [cooling, *earlier_steps], "wait_for_time")
    start = START_SETTINGS.get(job.ad.get("JobUniverse", ""))
    if start is not None:
        return Situation(
            "job_idle", [job.about_now("awaits_access_point", setting=start[0]), *earlier_steps], "see_requirements"
        )
    if stop := job.stopped_negotiation():
        off = job.about_now("negotiator_off", user=stop.user, when=instant(stop.at, job.zone))
        return Situation("job_idle", [off, *earlier_steps], "turn_on")
    refusal = job.refusals.current_rejection(job.name, job.ad, _last_step(job).at, job.zone, next_cycle, job.settings)
    if refusal is not None:
        return _rejected_situation(job, refusal, next_cycle, [*_retiring_slots(job, next_cycle), *earlier_steps])
    last_cycle = job.refusals.last
    if last_cycle is None or last_cycle[0] < _last_step(job).position:
        return Situation("job_idle", [job.about_now("no_cycle"), *earlier_steps], "wait_for_cycle")
    others_first = job.about_now("others_first", when=instant(last_cycle[1], job.zone))
    return Situation("job_idle", [others_first, *earlier_steps], "wait_for_cycle")


def _cool_down_end(job: OwnJob) -> int:
    """Return when the job's cool-down ends (microseconds), or 0 if it has none."""
    expires = job.ad.get(EXPIRATION, "")
    return (int(expires) + 1) * SECOND if expires.isdecimal() else 0


def _deferral_situation(job: OwnJob) -> Situation | None:
    """Return the situation of a job with a deferral time whose Requirements are false until a later time, or None if
    they are not."""
    if DEFERRAL_TIME not in job.ad:
        return None
    ad = ad_from_attributes(job.ad)
    time = integer_attribute(ad, DEFERRAL_TIME, Context(now=job.at // SECOND, timezone=job.zone))
    sleep_end = None if time is None else clauses_false_until(job.ad.get("Requirements", ""), ad, job.at, job.zone)
    if time is None or sleep_end is None:
        return None
    facts = {"time": instant(time * SECOND, job.zone)}
    if sleep_end.until is None:
        return Situation("job_idle", [job.about_now("time_missed", **facts)], "fix_time")
    facts["when"] = instant(sleep_end.until * SECOND, job.zone)
    return Situation("job_idle", [job.about_now("deferred_until", **facts)], "wait_for_time")


def _retiring_slots(job: OwnJob, next_cycle: NextCycle) -> list[Sentence]:
    """Return a sentence about the slot that the job would get if the job there had no retirement time left; empty if
    there is no such slot."""
    refused_match = job.refusals.last_rejection(job.name, job.ad)
    slot = None if refused_match is None else next_cycle.retiring_slot(refused_match[1], job.name)
    return [] if slot is None else [job.about_now("others_retire", slot=slot[0], until=instant(slot[1], job.zone))]


def _rejected_situation(
    job: OwnJob, refused: Rejection, next_cycle: NextCycle, earlier_steps: list[Sentence]
) -> Situation:
    slot_misfit = _find_misfit(job, refused.reason, next_cycle)
    if slot_misfit is not None:
        short_text, full_text = short_misfit(slot_misfit), misfit_text(slot_misfit)
        step = job.about_now("waiting_reason", because=short_text, in_full="" if full_text == short_text else full_text)
    elif refused.is_over:
        facts = {name: refused.cycle.facts[name] for name in ("when", "negotiator")}
        step = job.about_now("reason_changed", **facts, then=refused.then, now=refused.now)
    else:
        step = job.about_now("waiting_reason", because=refused.now, in_full="")
    if job.poll is not None and slot_misfit is None and refused.reason is not None and fits_none(refused.reason):
        poll_facts = {"at": instant(job.poll.at, job.zone), "seen": defrag_seen(job.poll)}
        earlier_steps = [job.about_now("defrag_looked", **poll_facts), *earlier_steps]
    return Situation("job_idle", [step, *earlier_steps, refused.cycle], _advice(refused, slot_misfit))


def _advice(refused: Rejection, slot_misfit: Misfit | None) -> str:
    if slot_misfit is not None and slot_misfit.short:
        return "lower_request"
    if refused.reason is None:
        return "wait_for_cycle"
    if refused.kind == CONCURRENCY:
        return "see_limits"
    if refused.reason.limit in ("", "slots"):
        return "see_analysis"
    return "see_quotas" if refused.kind == "quota" else "see_shares"


def _find_misfit(life: OwnJob, reason: e.Unmatched | None, next_cycle: NextCycle) -> Misfit | None:
    if reason is None or not fits_none(reason):
        return None
    return misfit(life.ad, next_cycle.slots(), life.at // SECOND)


def _running_situation(job: OwnJob) -> Situation:
    assert job.run is not None
    steps = []
    if job.signalled is not None:
        steps.append(job.about_now("exit_requested", slot=job.run.slot, when=instant(job.signalled.at, job.zone)))
    if job.waiting:
        steps.append(job.about_now("waits_for_time", when=instant(job.waiting, job.zone)))
    elif job.moving is not None:
        transfer_begin = instant(job.moving.began or job.moving.at, job.zone)
        steps.append(job.about_now("transfer_running", way=job.moving.way, when=transfer_begin))
    elif job.executing is None:
        steps.append(job.about_now("not_begun", slot=job.run.slot))
    matches = [sentence for sentence in job.chain if sentence.code in _SLOT_RECEIVED and sentence.at <= job.run.at]
    steps += [_last_step(job), *matches[-1:]] if _last_step(job).code != "started" else [*matches[-1:], _last_step(job)]
    if job.measured is not None:
        cpu = interval(job.measured.user_cpu + job.measured.system_cpu)
        transfer_begin = instant(job.measured.at, job.zone)
        steps.append(job.about_now("uses", when=transfer_begin, memory=memory(job.measured.resident), cpu=cpu))
    is_suspendable = job.run.cause != "local" and job.signalled is None and job.status == RUNNING
    return Situation("job_running", steps, "stop_it" if is_suspendable else "stop_unsuspendable")


def _unmaterialized_situation(job: OwnJob) -> Situation:
    return Situation("job_unmaterialized", [_last_step(job)], "see_factory")


_ENDS = {"exited", "evicted", "held", "held_by_user", "held_by_slot", "removed", "removed_by_user", *BY_POLICY.values()}
_SLOT_RECEIVED = frozenset({"matched", "slots_combined"})  #: the codes of sentences about the slot that a job gets
_SITUATIONS: dict[str, Callable[[OwnJob], Situation]] = {
    "unmaterialized": _unmaterialized_situation,
    RUNNING: _running_situation,
    SUSPENDED: _suspended_situation,
    HELD: _held_situation,
    REMOVED: _ended_situation,
    COMPLETED: _ended_situation,
}
