"""Decide what a role reads in the outbox of a peer.

``RULES`` has a rule for each kind of event that a role receives. A rule emits the event itself, which the receiver's
state and views need, or decides it like a stimulus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .. import events as e
from ..decide.rules import Rules
from ..decision.draft import Draft
from ..ports.stimuli import Follow, OutboxEntry
from ..state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER, role_of
from ..state.state import LogState
from .sent_forms import FORMS, next_digest

_AT_END: Final = Rules({Follow: "peers.at_access_point.end_runs_without_claim"})
Rule = Callable[[Draft[Any], Follow, int, Any], None]
"""Decides an event of a peer, given its position in the peer's log."""

RULES: Final[Mapping[tuple[str, str], Rules]] = {
    (ACCESS_POINT, EXECUTION_POINT): Rules({
        e.ClaimRequested: "peers.at_execution_point.request_claim",
        e.ClaimCommanded: "peers.at_execution_point.obey_command",
        e.JobActivated: "peers.at_execution_point.activate_claim",
        e.JobSignalled: "peers.at_execution_point.deactivate_claim",
        e.JobsEdited: "peers.at_execution_point.edit_job",
    }),
    (EXECUTION_POINT, ACCESS_POINT): Rules({
        e.ClaimGranted: "peers.at_access_point.accept_grant",
        e.ClaimRejected: "peers.at_access_point.accept_rejection",
        e.ClaimEnded: "peers.at_access_point.end_claim",
        e.SlotDestroyed: "peers.at_access_point.forget_slot",
        e.SlotTransitioned: "peers.at_access_point.move_slot",
        e.ClaimFlagged: "peers.at_access_point.copy_slot_event",
        e.SlotAdChanged: "peers.at_access_point.copy_slot_event",
        e.StarterSignalled: "peers.at_access_point.signal_job",
        e.RunReported: "peers.at_access_point.decide_report",
    }),
    (MANAGER, ACCESS_POINT): Rules({e.CycleHeld: "peers.at_access_point.accept_matches"}),
    (MANAGER, EXECUTION_POINT): Rules({
        e.MatchNotified: "peers.at_execution_point.notify_match",
        e.PeerCommanded: "peers.at_execution_point.obey_manager",
    }),
    (MANAGER, MANAGER): Rules({
        **dict.fromkeys(FORMS[MANAGER, MANAGER], "had.switching.replicate"),
        e.DaemonsSwitched: "had.switching.copy_switch",
    }),
    (EXECUTION_POINT, MANAGER): Rules(
        dict.fromkeys(FORMS[EXECUTION_POINT, MANAGER], "peers.at_manager.copy_slot_event")
    ),
    (ACCESS_POINT, MANAGER): Rules({
        e.MatchVoided: "peers.at_manager.void_match",
        e.FlockingChanged: "peers.at_manager.note_flocking",
        **dict.fromkeys(
            (
                e.ClusterSubmitted, e.JobsMaterialized, e.FactoryTransitioned, e.JobsTransitioned, e.JobsEdited,
                e.JobsDeferred,
            ),
            "peers.at_manager.copy_job_event",
        ),
    }),
}  # fmt: skip
"""The rules for the events of each peer role (first) that a role (second) receives."""


def follow(draft: Draft[Any], stimulus: Follow) -> None:
    """Decide the next entries of a peer's outbox. Entries that were already read are skipped. If the outbox contradicts
    what was read before, nothing is decided, and the reason is recorded."""
    (role,) = draft.state.roles
    entries, problem = _next_entries(draft, stimulus)
    if problem:
        if draft.state.peers.rejected.get(stimulus.peer) != problem:
            draft.emit(e.PeerRejected(*draft.header("rejected"), stimulus.peer, stimulus.log, problem))
        return
    known = draft.state.peers.followed.get(stimulus.peer)
    is_new_log = known is not None and known.log != stimulus.log
    if not entries and not (is_new_log and stimulus.base[0] == 0):
        return
    if is_new_log:
        from . import new_logs

        new_logs.forget(draft, stimulus.peer, role)
    last = (entries[-1].version, entries[-1].digest) if entries else (0, "")
    draft.emit(e.Followed(*draft.header("followed"), stimulus.peer, stimulus.log, stimulus.epoch, *last))
    rules = RULES[role_of(stimulus.peer), role]
    for entry in entries:
        for position, event in zip(entry.positions, entry.events, strict=True):
            if type(event) in rules.names:
                rules[type(event)](draft, stimulus, position, event)
            else:
                reject(draft, stimulus, f"it sent {type(event).__name__}, which a role of its kind does not send")
    if role == ACCESS_POINT:
        _AT_END[Follow](draft)


def _next_entries(draft: Draft[LogState], stimulus: Follow) -> tuple[list[OutboxEntry], str]:
    """Return the entries that were not read yet, or why they are rejected."""
    known = draft.state.peers.followed.get(stimulus.peer)
    version, digest = 0, ""
    if known is not None and known.log == stimulus.log:
        version, digest = known.version, known.digest
        if stimulus.epoch < known.epoch:
            return [], f"its epoch is {stimulus.epoch}, but an entry of epoch {known.epoch} was read before"
        if stimulus.last < version:
            return [], f"its outbox ends at entry {stimulus.last}, but entry {version} was read before: it is truncated"
    if stimulus.base[0] == version and stimulus.base[1] != digest:
        return [], f"entry {version} of its outbox differs from the entry that was read before: its log is forked"
    entries: list[OutboxEntry] = []
    for entry in stimulus.entries:
        if entry.version > version + 1:
            break
        if entry.version == version + 1:
            version, digest = entry.version, next_digest(digest, entry.version, entry.positions, entry.events)
            if digest != entry.digest:
                return [], f"entry {version} of its outbox does not have the digest that its log recorded"
            entries.append(entry)
    return entries, ""


def reject(draft: Draft[Any], stimulus: Follow, reason: str) -> None:
    """Record that an event of a peer was rejected."""
    draft.emit(e.PeerRejected(*draft.header("rejected"), stimulus.peer, stimulus.log, reason))
