"""Why a job is where it is: its life since the submission, and what it waits for, runs on, is held for or ended by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple

import attrs

from ...domain import events as e
from ...domain.classad import Context
from ...domain.schedd.job_deferral import asleep, whole_of
from ...domain.state.caches import ad_of
from ...domain.state.job_ad import DEFERRAL_TIME
from ...domain.state.pool_settings import STARTS, limit
from ...domain.state_machines import SlotRow
from ...domain.state_machines.hold_codes import hold_advice
from ...domain.units import SECOND
from ..narration.defrag_words import poll_sentence as defrag_seen
from ..narration.formatting import instant, interval, memory
from ..narration.rejection_words import is_same, lacks_attribute, no_slot, no_slot_in_short
from ..narration.sentence_tables import step_name
from ..narration.sentences import Answer, Sentence, UnknownThingError, until
from ..narration.unmatchable_jobs import Misfit, misfit
from ..runs.job_run import EVICTED
from ..runs.native_runs import own_runs
from .job_facts import COMPLETED, HAS_LEFT, HELD, IDLE, REMOVED, RUNNING, SUSPENDED, Situation
from .own_job import BY_POLICY, OwnJob
from .rejections import CONCURRENCY, NextCycle, Refused, fits_none
from .submissions import refusal


def why_job(
    events: Iterable[e.LoggedEvent], cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC
) -> Answer:
    """Tell why the job is where it is (at the instant `at`, if one is given), and its life in order of time. Times
    within sentences are in `zone`.

    ``events`` are the log's, or the events that ``job_events`` selects. Raises ``UnknownThingError``.
    """
    life = OwnJob(cluster, proc, zone)
    known = list(until(events, at))
    for position, event in known:
        life.context.note(position, event)
    life.causes = {run.position: run.cause for run in own_runs(known) if run.outcome == EVICTED}
    for position, event in known:
        life.read(position, event)
    if life.submitted is None:
        refused = refusal(known, cluster)
        if refused is not None:
            return refused
        raise UnknownThingError(
            f"the log has no job {cluster}.{proc}{'' if at is None else f' at {instant(at, zone)}'}: "
            "`poolbook q` and `poolbook history` list those that it has"
        )
    if life.status == IDLE:
        situation = _waits(life, NextCycle(lambda: known))
    else:
        situation = _SITUATIONS.get(life.status, _is_over)(life)
    cycles = [step for step in situation.steps if step.code == "refused"]
    chain = sorted([*life.chain, *cycles], key=lambda sentence: sentence.position)
    about = {"slot": life.on or life.match, **situation.about}
    result = life.answer(situation._replace(about=about), chain)
    lines = (result.lines[0], *life.transformed, *result.lines[1:])
    return attrs.evolve(result, lines=lines if life.transformed else result.lines)


class Judged(NamedTuple):
    """The last rejection of a job or its like, with its instant; when it was matched last (0: never); the name of the
    pool; and of an idle job who holds the concurrency limits that are in its way, and what else stands there now, in
    words and as a cycle says it; and why no slot can ever run it, if an attribute is missing."""

    refusal: tuple[int, e.Unmatched] | None = None
    matched: int = 0
    pool: str = ""
    limits: Sequence[str] = ()
    now: str = ""
    reason: e.Unmatched | None = None
    lacking: str = ""


def judged(events: Iterable[e.LoggedEvent], cluster: int, proc: int, next_cycle: NextCycle) -> Judged:
    """Judge why a job is not matched. ``events`` are the log's, or the events that ``job_events`` selects."""
    life = OwnJob(cluster, proc, UTC)
    for position, event in events:
        life.read(position, event)
    last = life.refusals.last_of(life.name, life.ad)
    if last is None:
        return Judged(None, life.matched_at)
    refusal = last[1].at, last[2]
    if life.status != IDLE:
        return Judged(refusal, life.matched_at)
    now, reason = life.refusals.now(life.name, life.ad, next_cycle)
    limits = [] if reason is None else next_cycle.limits(reason)
    same = reason is not None and is_same(last[2], reason)
    none = _fits_nowhere(life, reason, next_cycle)
    lacking = no_slot(none) if none is not None and lacks_attribute(none) else ""
    return Judged(refusal, life.matched_at, "", limits, "" if same else now, reason, lacking)


def _since(life: OwnJob) -> Sentence:
    """Return the step that put it into its status: its slot's, if its own step says the same."""
    assert life.since is not None
    position, step = life.shown
    return step if step is not None and position == life.since.position else life.since


def _why_ended(life: OwnJob) -> list[Sentence]:
    """Tell the last run's end, and before it the step of its slot that led there."""
    since = _since(life)
    if since.code in _ENDS and life.step is not None:
        return [since, life.step]
    return [since]


def _is_over(life: OwnJob) -> Situation:
    removed = life.status == REMOVED
    steps = [_since(life), *_still_running(life)]
    if life.run is not None:
        advice = "forget_it" if removed else "wait_for_end"
        return Situation("job_removing" if removed else "job_ended", steps, advice)
    if not life.gone and life.status in HAS_LEFT:
        return Situation("job_removed" if removed else "job_completed", steps, "drop_from_queue")
    failed = _since(life).facts.get("how", "code 0") not in ("", "code 0")
    advice = "see_failure" if failed else "see_history"
    return Situation("job_removed" if removed else "job_completed", steps, advice)


def _is_held(life: OwnJob) -> Situation:
    steps = [*_why_ended(life), *_still_running(life)]
    most, holds = limit(life.settings, "SYSTEM_MAX_RELEASES"), life.ad.get("NumHolds", "")
    if most is not None and holds.isdecimal() and 0 <= most < int(holds):
        return Situation("job_held", steps, "release_limit", {"holds": holds, "most": str(most)})
    advice = hold_advice(life.ad.get("HoldReasonCode", ""), "poolbook", life.name)
    return Situation("job_held", steps, "hold_advice", {"advice": advice})


def _is_suspended(life: OwnJob) -> Situation:
    since = _since(life)
    by_policy = step_name(since.code) in (SlotRow.SUSPEND, SlotRow.SUSPEND_RETIRING) or since.cause == "suspend"
    return Situation("job_suspended", [since], "wait_for_continue" if by_policy else "continue_it")


def _still_running(life: OwnJob) -> list[Sentence]:
    since = _since(life)
    if life.run is not None:
        if life.signalled is not None:
            return [life.now("told_at", slot=life.run.slot, when=instant(life.signalled.at, life.zone))]
        return [life.now("not_ended", slot=life.run.slot)]
    sentences = []
    if life.end is not None and life.end.position != since.position:
        sentences.append(life.now("last_gone", when=instant(life.end.at, life.zone)))
    if not life.gone and life.status in HAS_LEFT:
        condition = next((text for name, text in life.ad.items() if name.lower() == "leavejobinqueue"), "")
        sentences.append(life.now("stays", yet="" if condition else "yet", text=condition))
    return sentences


def _waits(life: OwnJob, next_cycle: NextCycle) -> Situation:
    before = [step for step in _why_ended(life) if step.code != "submitted"]
    if life.run is not None:
        return Situation("job_idle", [*_still_running(life), *before], "wait_for_end")
    if life.earmark is not None:
        before.insert(0, life.earmark)
        if life.earmark.code == "earmarked":
            return Situation("job_idle", before, "wait_for_room")
    if life.match:
        return Situation("job_idle", [life.now("is_matched", slot=life.match), *before], "wait_for_start")
    deferred = _is_deferred(life)
    if deferred is not None:
        return deferred._replace(steps=[*deferred.steps, *before])
    start = STARTS.get(life.ad.get("JobUniverse", ""))
    if start is not None:
        return Situation("job_idle", [life.now("not_let_in", setting=start[0]), *before], "see_requirements")
    refusal = life.refusals.of(life.name, life.ad, life.zone, next_cycle)
    if refusal is not None:
        return _is_refused(life, refusal, next_cycle, [*_retiring(life, next_cycle), *before])
    last = life.refusals.last
    if last is None or last[0] < _since(life).position:
        return Situation("job_idle", [life.now("no_cycle"), *before], "wait_for_cycle")
    others = life.now("others_first", when=instant(last[1], life.zone))
    return Situation("job_idle", [others, *before], "wait_for_cycle")


def _is_deferred(life: OwnJob) -> Situation | None:
    """Explain a job that cannot be matched yet, since a clause of its Requirements reads the time alone and is not
    true; None: it can."""
    if DEFERRAL_TIME not in life.ad:
        return None
    ad = ad_of(life.ad)
    time = whole_of(ad, DEFERRAL_TIME, Context(now=life.at // SECOND, timezone=life.zone))
    sleep = None if time is None else asleep(life.ad.get("Requirements", ""), ad, life.at, life.zone)
    if time is None or sleep is None:
        return None
    facts = {"time": instant(time * SECOND, life.zone)}
    if sleep.until is None:
        return Situation("job_idle", [life.now("time_missed", **facts)], "mend_time")
    facts["when"] = instant(sleep.until * SECOND, life.zone)
    return Situation("job_idle", [life.now("sleeps", **facts)], "wait_for_time")


def _retiring(life: OwnJob, next_cycle: NextCycle) -> list[Sentence]:
    """Name the slot that it would get but for the retirement time of the job there."""
    refused = life.refusals.last_of(life.name, life.ad)
    slot = None if refused is None else next_cycle.retiring_slot(refused[1], life.name)
    return [] if slot is None else [life.now("others_retire", slot=slot[0], until=instant(slot[1], life.zone))]


def _is_refused(life: OwnJob, refused: Refused, next_cycle: NextCycle, before: list[Sentence]) -> Situation:
    none = _fits_nowhere(life, refused.reason, next_cycle)
    if none is not None:
        because, full = no_slot_in_short(none), no_slot(none)
        step = life.now("waits_because", because=because, in_full="" if full == because else full)
    elif refused.is_over:
        step = life.now("waited_because", when=refused.cycle.facts["when"], then=refused.then, now=refused.now)
    else:
        step = life.now("waits_because", because=refused.now, in_full="")
    if life.poll is not None and none is None and refused.reason is not None and fits_none(refused.reason):
        looked = {"at": instant(life.poll.at, life.zone), "seen": defrag_seen(life.poll)}
        before = [life.now("defrag_looked", **looked), *before]
    return Situation("job_idle", [step, *before, refused.cycle], _advice(refused, none))


def _advice(refused: Refused, none: Misfit | None) -> str:
    if none is not None and none.short:
        return "lower_request"
    if refused.reason is None:
        return "wait_for_cycle"
    if refused.kind == CONCURRENCY:
        return "see_limits"
    if refused.reason.limit in ("", "slots"):
        return "see_analysis"
    return "see_quotas" if refused.kind == "quota" else "see_shares"


def _fits_nowhere(life: OwnJob, reason: e.Unmatched | None, next_cycle: NextCycle) -> Misfit | None:
    """Find why no slot that there is now could ever have it; None: one could."""
    if reason is None or not fits_none(reason):
        return None
    return misfit(life.ad, next_cycle.slots(), life.at // SECOND)


def _runs(life: OwnJob) -> Situation:
    assert life.run is not None
    steps = []
    if life.signalled is not None:
        steps.append(life.now("told_at", slot=life.run.slot, when=instant(life.signalled.at, life.zone)))
    if life.waiting:
        steps.append(life.now("waits_for_time", when=instant(life.waiting, life.zone)))
    elif life.moving is not None:
        when = instant(life.moving.began or life.moving.at, life.zone)
        steps.append(life.now("moving", way=life.moving.way, when=when))
    elif life.executing is None:
        steps.append(life.now("not_begun", slot=life.run.slot))
    matched = [sentence for sentence in life.chain if sentence.code in _GIVEN and sentence.at <= life.run.at]
    steps += [_since(life), *matched[-1:]] if _since(life).code != "started" else [*matched[-1:], _since(life)]
    if life.measured is not None:
        cpu = interval(life.measured.user_cpu + life.measured.system_cpu)
        when = instant(life.measured.at, life.zone)
        steps.append(life.now("uses", when=when, memory=memory(life.measured.resident), cpu=cpu))
    suspendable = life.run.cause != "local" and life.signalled is None and life.status == RUNNING
    return Situation("job_running", steps, "stop_it" if suspendable else "stop_unsuspendable")


def _is_unmade(life: OwnJob) -> Situation:
    return Situation("job_unmade", [_since(life)], "see_factory")


_ENDS = {"exited", "evicted", "held", "held_by_user", "held_by_slot", "removed", "removed_by_user", *BY_POLICY.values()}
_GIVEN = frozenset({"matched", "put_together"})
"""Return the sentences about the slot on which a job begins."""
_SITUATIONS: dict[str, Callable[[OwnJob], Situation]] = {
    "unmade": _is_unmade,
    RUNNING: _runs,
    SUSPENDED: _is_suspended,
    HELD: _is_held,
    REMOVED: _is_over,
    COMPLETED: _is_over,
}
