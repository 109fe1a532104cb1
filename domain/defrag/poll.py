"""A defragmentation poll: emits the events of the decision (``choice``), with its evidence, and carries it out.

The decision (``decide_poll``) depends only on the log: on the published slot ads, the earlier polls, and the settings
in force at the time. So it can be recomputed from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..classad import Context
from ..coverage.settings import DEFRAG
from ..decision.draft import Draft, Refusal
from ..events import Ad, DefragCancel, DefragDrain, DefragPolled, EvaluationRecorded
from ..ports.messages import BeginDrain, EndDrain
from ..ports.slot_ads import Advertise
from ..state.caches import Caches
from ..state.state import Manager
from ..units import SECOND
from .choice import ChosenSlot, DialectRules, DrainDecision, DrainsBegun, EarlierPolls, choose, draining_costs
from .defrag_settings import DefragPolicy, policies_in_force, policy_in_force
from .drain_candidates import (
    ESTIMATES,
    PolicyConditions,
    candidate_slots,
    integer_attribute,
    policy_conditions,
    rank_evidence,
)

COMPLETION: Final = "resume"
"""The action when a drain completes, as with HTCondor's DRAIN_RESUME_ON_COMPLETION."""

Why = Callable[[str], tuple[int, str, str]]
"""A function that returns the first fields of an event with the given cause."""


class PollDecision(Struct, frozen=True):
    """The decision of a poll: its event, and the evidence events that precede it in the log."""

    notes: tuple[EvaluationRecorded, ...]
    event: DefragPolled


def defragment(draft: Draft[Manager], advertise: Advertise, daemon: str) -> None:
    """Evaluate a daemon's policy (empty: that of DEFRAG), cancel drains and begin others.

    :raises Refusal: if this daemon does not run
    """
    policy = policy_in_force(draft.state.settings, daemon)
    if policy is None:
        raise Refusal(f"the pool does not defragment: {daemon or DEFRAG} is not in its DAEMON_LIST")
    offset = draft.context.utc_offset(draft.now // SECOND)
    poll = decide_poll(draft.state, draft.caches, advertise, draft.header, draft.context, offset, policy, daemon)
    for event in (*poll.notes, poll.event):
        draft.emit(event)
    for cancel in poll.event.cancels:
        if not cancel.refused:
            draft.send(EndDrain(cancel.machine))
    for drain in poll.event.drains:
        if not drain.refused:
            draft.send(BeginDrain(drain.machine, policy.schedule, policy.reason, COMPLETION, policy.start))


def dialect_rules(state: Manager) -> DialectRules:
    """Return the rules for polls in the pool's dialect."""
    return DialectRules(state.dialect.defrag_exceeds_maxima, state.dialect.defrag_stops_at_long_intervals)


def earlier_polls(state: Manager, now: int, daemon: str) -> EarlierPolls:
    """Return the polls of a daemon before the time ``now``, in microseconds."""
    defrag = state.defrag.of(daemon)
    return EarlierPolls(defrag.last_poll // SECOND, DrainsBegun(*defrag.begun_in(now)))


def decide_poll(
    state: Manager,
    caches: Caches,
    advertise: Advertise,
    why: Why,
    context: Context,
    offset: int,
    policy: DefragPolicy,
    daemon: str = "",
) -> PollDecision:
    """Return the decision of a poll without carrying it out.

    :param advertise: returns the slot ads
    :param why: returns the first fields of the events: time in microseconds, cause and stimulus
    :param offset: the UTC offset of ``context``, in seconds
    :param daemon: the daemon whose policy it is (empty: DEFRAG)
    """
    now = why("polled")[0]
    joins_texts = state.dialect.defrag_joins_whole_machine_expr
    conditions = policy_conditions(policy, joins_texts)
    reads_all_slots = joins_texts and any(sign in policy.whole for sign in ("||", "?"))
    ads = advertise(state, caches, now, context)
    slots = candidate_slots(state, ads, conditions, reads_all_slots)
    decision = choose(
        policy, conditions, slots, earlier_polls(state, now, daemon), now // SECOND, context, dialect_rules(state),
        may_drain=lambda seen: ads.why_not_drained(seen.machine),
        may_cancel=lambda seen: ads.why_not_canceled(seen.machine),
    )  # fmt: skip
    notes = _Evidence(why, state.position + 1)
    event = DefragPolled(
        *why("polled"),
        wanted=decision.wanted,
        draining=len(decision.draining),
        whole=len(decision.whole),
        candidates=decision.candidates,
        stopped=decision.stopped,
        drains=tuple(_drain(notes, policy, conditions, chosen, now, context) for chosen in decision.drains),
        cancels=tuple(_cancel(notes, conditions, chosen, context) for chosen in decision.cancels),
        costs=draining_costs(state, ads, now, context),
        offset=offset,
        daemon=daemon,
    )
    return PollDecision(tuple(notes.made), _with_changes(state, event, decision))


def _with_changes(state: Manager, event: DefragPolled, decision: DrainDecision) -> DefragPolled:
    defrag = state.defrag.of(event.daemon)
    draining, whole = defrag.draining, defrag.whole
    return replace(
        event,
        began_draining=tuple(sorted(decision.draining - draining)),
        over_draining=tuple(sorted(draining - decision.draining)),
        became_whole=tuple(sorted(decision.whole - whole)),
        no_longer_whole=tuple(sorted(whole - decision.whole)),
    )


class _Evidence(Struct):
    """The evidence of a poll, without duplicates. ``first`` is the log position of the first evidence event."""

    why: Why
    first: int
    made: list[EvaluationRecorded] = field(default_factory=list)

    def record_evaluation(self, name: str, text: str, value: str, read: Ad) -> tuple[int, ...]:
        """Record an evaluation. Return its log position, or an empty tuple if the expression read no attributes."""
        if not read:
            return ()
        note = EvaluationRecorded(*self.why("evaluated"), name, text, value, read)
        if note not in self.made:
            self.made.append(note)
        return (self.first + self.made.index(note),)


def _drain(
    notes: _Evidence, policy: DefragPolicy, conditions: PolicyConditions, chosen: ChosenSlot, now: int, context: Context
) -> DefragDrain:
    seen = chosen.seen
    evidence = notes.record_evaluation(*conditions.drain.evaluation_record(seen, "true", context))
    if conditions.rank is not None:
        evidence += notes.record_evaluation(*rank_evidence(seen, conditions.rank, context))
    badput, completion = (integer_attribute(seen, name, context) for name in ESTIMATES[policy.schedule == "Graceful"])
    seconds = completion - now // SECOND
    return DefragDrain(seen.machine, seen.slot, chosen.rank, badput, seconds, evidence, chosen.refused)


def _cancel(notes: _Evidence, conditions: PolicyConditions, chosen: ChosenSlot, context: Context) -> DefragCancel:
    assert conditions.cancel is not None
    evidence = notes.record_evaluation(*conditions.cancel.evaluation_record(chosen.seen, "true", context))
    return DefragCancel(chosen.seen.machine, chosen.seen.slot, evidence, chosen.refused)


def next_polls(state: Manager) -> dict[str, int]:
    """Return when the next poll of each daemon that polls is due, in microseconds."""
    polls = {}
    for daemon, policy in policies_in_force(state.settings).items():
        if policy.interval > 0 and (daemon or DEFRAG) not in state.had.off:
            last = state.defrag.of(daemon).last_poll
            polls[daemon] = last + policy.interval * SECOND if last else state.at
    return polls
