"""Repeat a cycle of the real negotiator, on the pool's state at that time. That state is folded from the pool's events
that the cycle had seen, the settings, the accounts' priorities, and the idle jobs. The negotiator knows the submitters
from their ads, which have their own delay. So the jobs are those of submitters that offered some, those of equal
priority are asked in the recorded order, and groups request the cores that its log shows. A change of a job within the
cycle's second counts if the job was offered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from attrs import frozen

from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, Context, EvaluationError, Expression
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.cycle import hold_cycle
from poolbook.domain.negotiator.negotiator_settings import settings_of
from poolbook.domain.negotiator.slot_table import public_ads_of
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches, ad_from_attributes
from poolbook.domain.state.state import State

from .account_walk import AccountedCycle
from .recording import VARIOUS, JobMove, NegotiatorRecording, RecordedCycle, RecordedMatch, RecordedSubmission
from .visibility import SECOND


@frozen
class DecidedCycle:
    """Our matches of a cycle, and the state on which they were decided."""

    state: State
    caches: Caches
    context: Context
    matches: tuple[RecordedMatch, ...]


def decide_again(
    record: NegotiatorRecording,
    moment: AccountedCycle,
    cycle: RecordedCycle,
    count: int,
    now: int,
    older: int = 0,
    clusters: Collection[int] | None = None,
    matched_once: bool = False,
) -> DecidedCycle:
    """Run a cycle on the pool's first ``count`` events, at the instant ``now``.

    :param older: how many events determine the remaining resources of partitionable slots (0: ``count``)
    :param clusters: the only clusters in the queue (None: all)
    :param once: partitionable slots without a consumption policy are matched once, as the real negotiator does
    """
    pool = record.pool[:count]
    settings = (event for event in record.settings if event.at <= moment.at)
    events = (*pool, *settings, *_jobs(record, cycle, clusters), moment.priorities)
    state = fold(enumerate(events, 1))
    for name, slot in fold(enumerate(record.pool[:older], 1)).slots.items() if older else ():
        if slot.kind == "partitionable" and name in state.slots:
            state.slots[name].ad = slot.ad
    context = Context(now=now // SECOND, seed=now // SECOND)
    caches = Caches()
    why = lambda cause: (now, cause, "")  # noqa: E731
    held = hold_cycle(
        state, caches, PublishedSlots, why, context, submitter_order=cycle.asked, once=matched_once, demand=cycle.demand
    ).held
    matches = () if held is None else tuple(_ours(state, now, match) for match in held.matches)
    return DecidedCycle(state, caches, context, matches)


def _ours(state: State, now: int, match: e.Match) -> RecordedMatch:
    """Return our match as a negotiator's log has it: of the partitionable slot, if it is split."""
    cluster = state.clusters[int(match.job.partition(".")[0])]
    slot = state.slots.get(match.slot)
    name = match.slot if slot is not None else parent(match.slot)
    holder = slot.claim.submitter if slot is not None and slot.claim is not None else VARIOUS if match.preempts else ""
    return RecordedMatch(now, cluster.submitter, name, holder, match.job)


def parent(slot: str) -> str:
    """Return the name of the partitionable slot from which a dynamic slot was cut; return other names unchanged."""
    slot_name, at_sign, machine = slot.partition("@")
    return (slot_name.rpartition("_")[0] or slot_name) + at_sign + machine


# -- The queue

_ROWS: Final = {"Idle": "release", "Running": "activate", "Held": "hold", "Completed": "complete"}


def _jobs(record: NegotiatorRecording, cycle: RecordedCycle, clusters: Collection[int] | None) -> Iterator[e.Event]:
    """Yield the jobs of the submitters asked, as the cycle found them."""
    for submission in record.queue:
        if clusters is not None and submission.event.cluster not in clusters:
            continue
        if submission.event.submitter in cycle.asked and _there(submission, cycle):
            yield submission.event
            statuses = _offered(_statuses(submission, cycle), cycle.again.get(submission.event.cluster, 0))
            for status, procs in sorted(
                statuses.items(), reverse=True
            ):  # Completed last: then it may have left the queue
                ranges = tuple((proc, proc) for proc in procs)
                row, source = _ROWS[status], submission.event.status
                yield e.JobsTransitioned(
                    cycle.at, "reported", "", submission.event.cluster, ranges, row, source, status, {}
                )


def _there(submission: RecordedSubmission, cycle: RecordedCycle) -> bool:
    """Return True if a submission precedes the cycle; within the cycle's second, if it was offered."""
    if submission.event.at // SECOND == cycle.at // SECOND:
        return any(job.startswith(f"{submission.event.cluster}.") for job in cycle.requested)
    return submission.event.at < cycle.at


def _statuses(submission: RecordedSubmission, cycle: RecordedCycle) -> Mapping[str, list[int]]:
    """Return status -> processes, without those still in the status of their submission."""
    last: dict[int, str] = {}
    for move in submission.moves:
        seconds_before = cycle.at // SECOND - move.at // SECOND
        if seconds_before > 0 or (seconds_before == 0 and _before(submission, move, last, cycle)):
            last[move.proc] = move.status
    last |= dict.fromkeys(_began(submission, cycle), "Idle")
    procs_by_status: dict[str, list[int]] = defaultdict(list)
    for proc, status in sorted(last.items()):
        if status != submission.event.status and proc < submission.event.count:
            procs_by_status[status].append(proc)
    return procs_by_status


def _offered(statuses: Mapping[str, list[int]], again: int) -> Mapping[str, list[int]]:
    """Return the processes, less as many running or completed ones as were offered ``again``: these represent the jobs
    whose match could not be used, and which wait again in the same cycle."""
    later_procs = [(name, proc) for name in ("Running", "Completed") for proc in statuses.get(name, ())]
    waiting = set(later_procs[:again])
    return {name: [proc for proc in procs if (name, proc) not in waiting] for name, procs in statuses.items()}


def status(submission: RecordedSubmission, cycle: RecordedCycle, proc: int) -> str:
    """Return a job's status at the start of the cycle."""
    return next(
        (name for name, procs in _statuses(submission, cycle).items() if proc in procs), submission.event.status
    )


def _began(submission: RecordedSubmission, cycle: RecordedCycle) -> set[int]:
    """Return the processes that began within the cycle's second on a slot that it matched: they were idle, whatever
    else happened to them in that second. On dynamic slots, as many as there are matches of their partitionable slot: a
    match may give a schedd more than one."""
    remaining = Counter(match.slot for match in cycle.matches if match.submitter == submission.event.submitter)
    procs: set[int] = set()
    for move in submission.moves:
        if move.at // SECOND != cycle.at // SECOND or move.status != "Running" or move.proc in procs:
            continue
        slot = move.slot if remaining[move.slot] else parent(move.slot)
        if remaining[slot]:
            remaining[slot] -= slot != move.slot
            procs.add(move.proc)
    return procs


def _before(submission: RecordedSubmission, move: JobMove, last: Mapping[int, str], cycle: RecordedCycle) -> bool:
    """Return True if a move within the cycle's second precedes it."""
    is_offered = f"{submission.event.cluster}.{move.proc}" in cycle.requested
    if move.status == "Running":
        return bool(move.slot) and all(move.slot != match.slot for match in cycle.matches) and not is_offered
    if move.status == "Idle":
        return is_offered
    return not is_offered or last.get(move.proc, submission.event.status) != "Idle"


# -- Ranks

Values = tuple[float, float, float]


def ranks(decided: DecidedCycle, job: str, slot: str) -> Values | None:
    """Return NEGOTIATOR_PRE_JOB_RANK, the job's Rank and NEGOTIATOR_POST_JOB_RANK for a slot (0 if no number), or None
    without the slot or job."""
    state, context = decided.state, decided.context
    pool = public_ads_of(state, decided.caches, (context.now or 0) * SECOND, context, (), PublishedSlots)
    number, _, proc = job.partition(".")
    cluster = state.clusters.get(int(number))
    if cluster is None or slot not in pool.row_of:
        return None
    job_ad = ad_from_attributes(cluster.attributes(int(proc)) if int(proc) in cluster else cluster.ad)
    slot_ad = pool.table.ad(pool.row_of[slot])
    rules = settings_of(state, decided.caches)
    pre, post = (_value(rank, slot_ad, job_ad, context) for rank in (rules.pre_job_rank, rules.post_job_rank))
    return pre, _value(job_ad.get("Rank"), job_ad, slot_ad, context), post


def _value(rank: Expression | None, my: ClassAd, target: ClassAd, context: Context) -> float:
    if rank is None:
        return 0.0
    try:
        value = rank.evaluate(my, target, context)
    except EvaluationError:
        return 0.0
    return float(value) if isinstance(value, int | float) else 0.0
