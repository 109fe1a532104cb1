"""Hold a cycle of the real negotiator again, on the state in which it found the pool.

That state is folded from the pool's events that the cycle had seen, the settings, the accounts' priorities, and the
idle jobs. The negotiator knows the submitters from their ads, which have a delay of their own: so the jobs are those of
submitters that offered some, those of equal priority are asked in the recorded order, and groups request what its log
says. A change of a job within the cycle's second counts if the job was offered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from attrs import frozen

from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd, Context, EvaluationError, Expression
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.cycle import hold
from poolbook.domain.negotiator.negotiator_settings import settings_of
from poolbook.domain.negotiator.slot_table import public_ads_of
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches, ad_of
from poolbook.domain.state.state import State

from .account_walk import AccountedCycle
from .recording import VARIOUS, JobMove, NegotiatorRecording, RecordedCycle, RecordedMatch, RecordedSubmission
from .visibility import SECOND


@frozen
class DecidedCycle:
    """Our matches of a cycle, and the state that they were decided on."""

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
    once: bool = False,
) -> DecidedCycle:
    """Hold a cycle on the pool's first ``count`` events, at the instant ``now``.

    :param older: what is left of partitionable slots is as of so many events (0: as the others)
    :param clusters: the queue has these alone (None: all that were there)
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
    held = hold(state, caches, PublishedSlots, why, context, turns=cycle.asked, once=once, demand=cycle.demand).held
    matches = () if held is None else tuple(_ours(state, now, match) for match in held.matches)
    return DecidedCycle(state, caches, context, matches)


def _ours(state: State, now: int, match: e.Match) -> RecordedMatch:
    """Return a match of ours as a negotiator's log has it: of the partitionable slot, if it is split."""
    cluster = state.clusters[int(match.job.partition(".")[0])]
    slot = state.slots.get(match.slot)
    name = match.slot if slot is not None else parent(match.slot)
    holder = slot.claim.submitter if slot is not None and slot.claim is not None else VARIOUS if match.preempts else ""
    return RecordedMatch(now, cluster.submitter, name, holder, match.job)


def parent(slot: str) -> str:
    """Return the name of the partitionable slot that a dynamic one was cut from; any other name stays."""
    own, at_sign, machine = slot.partition("@")
    return (own.rpartition("_")[0] or own) + at_sign + machine


# -- The queue

_ROWS: Final = {"Idle": "release", "Running": "activate", "Held": "hold", "Completed": "complete"}


def _jobs(record: NegotiatorRecording, cycle: RecordedCycle, clusters: Collection[int] | None) -> Iterator[e.Event]:
    """Yield the jobs of the submitters asked, as the cycle found them."""
    for one in record.queue:
        if clusters is not None and one.event.cluster not in clusters:
            continue
        if one.event.submitter in cycle.asked and _there(one, cycle):
            yield one.event
            statuses = _offered(_statuses(one, cycle), cycle.again.get(one.event.cluster, 0))
            for status, procs in sorted(statuses.items(), reverse=True):  # Completed last: then it may be gone
                ranges = tuple((proc, proc) for proc in procs)
                row, source = _ROWS[status], one.event.status
                yield e.JobsTransitioned(cycle.at, "reported", "", one.event.cluster, ranges, row, source, status, {})


def _there(one: RecordedSubmission, cycle: RecordedCycle) -> bool:
    """Tell whether a submission precedes the cycle; within its second, whether it was offered."""
    if one.event.at // SECOND == cycle.at // SECOND:
        return any(job.startswith(f"{one.event.cluster}.") for job in cycle.requested)
    return one.event.at < cycle.at


def _statuses(one: RecordedSubmission, cycle: RecordedCycle) -> Mapping[str, list[int]]:
    """Return status -> processes, without those still in the status of their submission."""
    last: dict[int, str] = {}
    for move in one.moves:
        behind = cycle.at // SECOND - move.at // SECOND
        if behind > 0 or (behind == 0 and _before(one, move, last, cycle)):
            last[move.proc] = move.status
    last |= dict.fromkeys(_began(one, cycle), "Idle")
    found: dict[str, list[int]] = defaultdict(list)
    for proc, status in sorted(last.items()):
        if status != one.event.status and proc < one.event.count:
            found[status].append(proc)
    return found


def _offered(statuses: Mapping[str, list[int]], again: int) -> Mapping[str, list[int]]:
    """Return the processes without as many that ran or are done as were offered ``again``: these stand for the jobs
    whose match could not be used, and that wait once more in the same cycle."""
    others = [(name, proc) for name in ("Running", "Completed") for proc in statuses.get(name, ())]
    waiting = set(others[:again])
    return {name: [proc for proc in procs if (name, proc) not in waiting] for name, procs in statuses.items()}


def status(one: RecordedSubmission, cycle: RecordedCycle, proc: int) -> str:
    """Return the status of a job as the cycle found it."""
    return next((name for name, procs in _statuses(one, cycle).items() if proc in procs), one.event.status)


def _began(one: RecordedSubmission, cycle: RecordedCycle) -> set[int]:
    """Return the processes that began within the cycle's second on a slot that it matched: they waited for it, whatever
    else happened to them in that second. On dynamic slots, as many as there are matches of the slot that these were cut
    from: a match may give a schedd more than one."""
    left = Counter(told.slot for told in cycle.matches if told.submitter == one.event.submitter)
    found: set[int] = set()
    for move in one.moves:
        if move.at // SECOND != cycle.at // SECOND or move.status != "Running" or move.proc in found:
            continue
        slot = move.slot if left[move.slot] else parent(move.slot)
        if left[slot]:
            left[slot] -= slot != move.slot
            found.add(move.proc)
    return found


def _before(one: RecordedSubmission, move: JobMove, last: Mapping[int, str], cycle: RecordedCycle) -> bool:
    """Tell whether a move within the cycle's second precedes it."""
    offered = f"{one.event.cluster}.{move.proc}" in cycle.requested
    if move.status == "Running":
        return bool(move.slot) and all(move.slot != told.slot for told in cycle.matches) and not offered
    if move.status == "Idle":
        return offered
    return not offered or last.get(move.proc, one.event.status) != "Idle"


# -- Ranks

Values = tuple[float, float, float]


def ranks(found: DecidedCycle, job: str, slot: str) -> Values | None:
    """Return NEGOTIATOR_PRE_JOB_RANK, the job's Rank and NEGOTIATOR_POST_JOB_RANK for a slot (0 if no number), or None
    without the slot or job."""
    state, context = found.state, found.context
    pool = public_ads_of(state, found.caches, (context.now or 0) * SECOND, context, (), PublishedSlots)
    number, _, proc = job.partition(".")
    cluster = state.clusters.get(int(number))
    if cluster is None or slot not in pool.places:
        return None
    mine = ad_of(cluster.attributes(int(proc)) if int(proc) in cluster else cluster.ad)
    its = pool.table.ad(pool.places[slot])
    rules = settings_of(state, found.caches)
    pre, post = (_value(rank, its, mine, context) for rank in (rules.pre_job_rank, rules.post_job_rank))
    return pre, _value(mine.get("Rank"), mine, its, context), post


def _value(rank: Expression | None, my: ClassAd, target: ClassAd, context: Context) -> float:
    if rank is None:
        return 0.0
    try:
        value = rank.evaluate(my, target, context)
    except EvaluationError:
        return 0.0
    return float(value) if isinstance(value, int | float) else 0.0
