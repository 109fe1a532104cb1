"""The negotiation cycle of a pool: emits the events of the matches that ``cycle`` decides on.

Before a cycle, sensor attributes that an idle job reads are published, so that the log contains everything that the
decision reads. Depending on the dialect, a dynamic slot is carved from a matched partitionable slot when the startd is
notified of the match, or when the access point claims the slot.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import EvaluationRecorded
from ..names import NEGOTIATOR
from ..ports.messages import CheckSensors, PublishReadings
from ..ports.sensor_readings import no_readings
from ..ports.slot_ads import Advertise
from ..ports.stimuli import Negotiate, NotifyMatch
from ..requests.match_evidence import RequirementsNamesCache, match_evidence
from ..state.state import Manager
from .cycle import CycleResult, hold_cycle
from .matchmaker import ChosenMatch
from .negotiator_view import view_of_negotiator
from .slot_table import SlotAdTable, public_ads_of
from .spins import attributes_read


def negotiate(draft: Draft[Manager], stimulus: Negotiate, advertise: Advertise) -> None:
    """Hold a cycle and emit its events. A cycle without matches or new rejection reasons emits no event.

    :raises Refusal: if the negotiator is turned off
    """
    state, negotiator = draft.state, stimulus.negotiator
    if (negotiator or NEGOTIATOR) in state.had.off:
        raise Refusal("the negotiator is turned off; turn it on with `poolbook on -negotiator`")
    if state.idle:
        _publish(draft, negotiator, advertise)
    offset = draft.context.utc_offset(draft.now // 1_000_000)
    cycle = hold_cycle(state, draft.caches, advertise, draft.header, draft.context, offset, negotiator=negotiator)
    if cycle.priorities is not None:
        draft.emit(cycle.priorities)
    if cycle.quotas is not None:
        draft.emit(cycle.quotas)
    for match in cycle.offline:
        draft.emit(match)
    if cycle.held is None:
        return
    for note in _evidence(draft, cycle, negotiator, advertise):
        draft.emit(note)
    draft.emit(cycle.held)
    for choice in cycle.choices if state.dialect.informs_startd_of_matches else ():
        part = choice.name if choice.name != choice.slot else ""
        if part or not choice.reason:
            ad = choice.cluster.attributes(choice.proc) if part else {}
            draft.send(NotifyMatch(draft.stimulus, choice.slot, part, ad, choice.preempts))


def _publish(draft: Draft[Manager], negotiator: str, advertise: Advertise) -> None:
    if draft.sense is no_readings or not draft.send(CheckSensors()):
        return
    view, caches = view_of_negotiator(draft.state, draft.caches, negotiator, draft.now)
    touched = frozenset(caches.get(SlotAdTable).stale_machines(draft.state))
    ads = public_ads_of(view, caches, draft.now, draft.context, attributes_read(view, caches), advertise)
    draft.send(PublishReadings(ads.attributes_read(), touched))


def _evidence(
    draft: Draft[Manager], cycle: CycleResult, negotiator: str, advertise: Advertise
) -> list[EvaluationRecorded]:
    """For the first match of each autocluster, return an event with the values that the job's Requirements read."""
    view, caches = view_of_negotiator(draft.state, draft.caches, negotiator, draft.now)
    table = public_ads_of(view, caches, draft.now, draft.context, (), advertise).table
    first: dict[int, ChosenMatch] = {}
    for choice in cycle.choices:
        first.setdefault(id(choice.request), choice)
    reads = draft.caches.get(RequirementsNamesCache)
    return [
        match_evidence(
            draft.header("negotiated"),
            draft.context,
            choice.request.job,
            choice.ad or table.ad(choice.row),
            reads.of_form(choice.request.job),
        )
        for choice in first.values()
    ]
