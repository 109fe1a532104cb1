"""Add the events of a decision to the outboxes of the peers that they concern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import events as e
from ..decision.draft import Draft
from ..had.replication import is_replicated
from ..state.peers import ACCESS_POINT, MANAGER, Outbox, peer_of_slot, role_of
from ..state.state import AccessPoint, ExecutionPoint, LogState, acts_as
from .sent_forms import FORMS, next_digest


def send_events(draft: Draft[Any]) -> None:
    """Emit the outbox entries that result from the draft's events."""
    state: LogState = draft.state
    if acts_as(state, ExecutionPoint):
        _grant_claims(draft)
    first = state.position - len(draft.events) + 1
    entries: dict[str, list[tuple[int, e.Event]]] = {}
    (role,) = state.roles
    for position, event in enumerate(draft.events, first):
        for peer in _receivers(state, role, event):
            form = FORMS[role, role_of(peer)].get(type(event))
            sent = None if form is None else form(event, _number(state, peer))
            if sent is not None:
                entries.setdefault(peer, []).append((position, sent))
    for peer, contents in entries.items():
        positions, events = zip(*contents, strict=True)
        outbox = state.peers.outboxes.get(peer, Outbox())
        version = outbox.version + 1
        digest = next_digest(outbox.digest, version, positions, events)
        draft.emit(e.Sent(*draft.header("sent"), peer, version, positions, digest))


def _number(state: LogState, peer: str) -> int:
    followed = state.peers.followed.get(peer)
    return 0 if followed is None else followed.number


def _receivers(state: LogState, role: str, event: e.Event) -> Iterator[str]:
    """Yield the peers that an event may concern."""
    if role == MANAGER:
        if isinstance(event, e.CycleHeld):
            yield from (peer for peer in state.peers.followed if role_of(peer) == ACCESS_POINT)
        elif isinstance(event, e.MatchNotified):
            yield peer_of_slot(event.slot)
        elif isinstance(event, e.PeerCommanded):
            yield event.peer
        elif is_replicated(state, event):
            yield MANAGER
        return
    yield MANAGER
    if role == ACCESS_POINT:
        if isinstance(event, e.SlotEvent | e.JobActivated):
            if "@" in event.slot and not event.slot.startswith("local@"):
                yield peer_of_slot(event.slot)
        elif isinstance(event, e.JobSignalled | e.JobsEdited) and isinstance(state, AccessPoint):
            yield from _execution_points(state, event)
    elif isinstance(event, e.ClaimGranted | e.ClaimRejected):
        yield event.holder
    elif isinstance(event, e.SlotEvent):
        holders = state.peers.shown.get(event.slot, {})
        claim = getattr(event, "claim", "")
        yield from dict.fromkeys(holder for id, holder in holders.items() if not claim or id == claim)


def _execution_points(state: AccessPoint, event: e.JobSignalled | e.JobsEdited) -> Iterator[str]:
    """Yield the execution points on which the jobs of an event run."""
    ranges = ((event.proc, event.proc),) if isinstance(event, e.JobSignalled) else event.procs
    for first, last in ranges:
        runs = [
            state.by_job[event.cluster, proc] for proc in state.running_procs(event.cluster, range(first, last + 1))
        ]
        yield from dict.fromkeys(peer_of_slot(run.slot) for run in runs if state.runs_elsewhere(run))


def _grant_claims(draft: Draft[ExecutionPoint]) -> None:
    """Show the slots of new claims to the claims' holders. A claim that has ended in the same decision, or was
    withdrawn while it waited, is reported as rejected."""
    state = draft.state
    for event in [*draft.events]:
        if not isinstance(event, e.ClaimMade | e.ClaimWithdrawn):
            continue
        holder = state.peers.shown.get(event.slot, {}).get(event.claim)
        if holder is None:
            continue
        slot = state.slots.get(event.slot)
        claim = None if slot is None else slot.claim
        if slot is None or claim is None or claim.id != event.claim:
            draft.emit(
                e.ClaimRejected(*draft.header("claim_failed"), event.slot, event.claim, holder, "the claim ended")
            )
        elif isinstance(event, e.ClaimMade):
            ad = {name: text for name, text in slot.ad.items() if _is_published(name)}
            draft.emit(
                e.ClaimGranted(
                    *draft.header("claimed"), slot.name, claim.id, holder, slot.machine, slot.kind, slot.state_activity,
                    ad, claim.weight, claim.rank, claim.lease,
                )
            )  # fmt: skip


def _is_published(name: str) -> bool:
    from ..startd.public_ad import is_published

    return is_published(name)
