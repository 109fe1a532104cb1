"""Check the events of a role with its own log: what it sends to the roles elsewhere, and what it reads from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast, get_args

from ...domain import events as e
from ...domain.decision.draft import Draft
from ...domain.names import JOBS_PER_ACCESS_POINT, JobId, SlotName
from ...domain.peers.outboxes import send_events
from ...domain.ports.messages import MachineCommand
from ...domain.state.had_state import REPLICATION
from ...domain.state.peers import (
    ACCESS_POINT,
    EXECUTION_POINT,
    MANAGER,
    ROLES,
    Outbox,
    outbox_of,
    peer_of_slot,
    role_of,
)
from ...domain.state.pool_settings import super_users
from ...domain.state.records import Activation, Slot
from ...domain.state_machines.machine import had_machine
from .accounting_checks import check_initial_factor
from .judged_pool import JudgedPool, job_of, known_slot, rule, rule_of
from .run_checks import is_waiting_for_slot, run_of
from .transition_rules import ALSO_WRITTEN, owner_of

COMMANDS = ("vacate", "vacate_fast", "suspend", "continue", "release", "withdraw")


def _check_peer(pool: JudgedPool, event: e.PeerEvent) -> None:
    role, _, name = event.peer.partition("/")
    is_other_manager = role == MANAGER and (bool(name) or isinstance(event, e.Sent))  # all managers read one outbox
    if not is_other_manager and (role not in ROLES or role in pool.state.roles or bool(name) is (role == MANAGER)):
        pool.report(event.stream, "peers", f"{event.peer} is not a role with a separate log")


class _SentAgain:
    """The draft of a decision whose events are in the log, to which the role adds its outbox entries again."""

    def __init__(self, pool: JudgedPool) -> None:
        self.state = pool.state
        self.events = [*pool.decision]
        self.entries: dict[str, e.Sent] = {}  #: by peer
        self.answers: list[e.Event] = []  #: the answers to claim requests

    def header(self, cause: str) -> tuple[int, str, str]:
        return self.events[-1].at, cause, self.events[-1].stimulus

    def emit(self, event: e.Event) -> None:
        if isinstance(event, e.Sent):
            self.entries[event.peer] = event
        else:
            self.answers.append(event)


def _send_again(pool: JudgedPool) -> dict[str, e.Sent]:
    """Return the outbox entries that the events of this decision need, by peer. Report missing answers to claims."""
    if len(pool.state.roles) != 1 or not pool.decision:
        return {}
    draft = _SentAgain(pool)
    try:
        send_events(cast("Draft[Any]", draft))
    except Exception as error:  # the log may contain anything
        pool.report("log", "peers", f"it is unclear which of these events concern other roles: {error!r}")
    for answer in draft.answers:
        if answer not in draft.events:
            pool.report(answer.stream, "peers", f"the decision lacks a {type(answer).__name__} for the claim's holder")
    return draft.entries


@rule(e.Sent)
def check_sent(pool: JudgedPool, event: e.Sent) -> None:
    _check_peer(pool, event)
    if pool.to_send is None:
        pool.to_send = _send_again(pool)
    due = pool.to_send.pop(event.peer, None)
    last = pool.state.peers.outboxes.get(event.peer, Outbox()).version
    if event.version != last + 1:
        pool.report(event.stream, "peers", f"entry {event.version} follows entry {last}")
    if due is None or due.positions != event.positions:
        due_text = "no events" if due is None else f"the events {due.positions}"
        pool.report(event.stream, "peers", f"it has the events {event.positions}, but {due_text} concern the peer")
    elif due.digest != event.digest:
        pool.report(event.stream, "peers", f"the digest of entry {event.version} does not match its events")


def settle_outboxes(pool: JudgedPool) -> None:
    """Check at the end of a decision that all its events that concern peers are in their outboxes."""
    to_send = _send_again(pool) if pool.to_send is None else pool.to_send
    for peer, entry in to_send.items():
        pool.report(f"peer/{peer}", "peers", f"its outbox lacks the events {entry.positions}")
    pool.to_send = None
    pool.decision.clear()


@rule(e.Followed)
def check_followed(pool: JudgedPool, event: e.Followed) -> None:
    _check_peer(pool, event)
    pool.answered = True  # what users asked of the peer is answered there
    known = pool.state.peers.followed.get(event.peer)
    if known is None or known.log != event.log:
        return
    if event.version <= known.version:
        pool.report(event.stream, "peers", f"entry {event.version} is read after entry {known.version}")
    if event.epoch < known.epoch:
        pool.report(event.stream, "peers", f"epoch {event.epoch} is read after epoch {known.epoch}")


@rule(e.PeerRejected)
def check_peer_rejected(pool: JudgedPool, event: e.PeerRejected) -> None:
    _check_peer(pool, event)


@rule(e.FlockingChanged)
def check_flocking_changed(pool: JudgedPool, event: e.FlockingChanged) -> None:
    if not 0 <= event.level <= len(event.managers):
        pool.report(event.stream, "value", f"level {event.level} is not a number of {len(event.managers)} managers")
    if role_of(event.peer) != ACCESS_POINT:
        pool.report(event.stream, "peers", f"{event.peer} is not an access point")


@rule(e.PeerCommanded)
def check_peer_commanded(pool: JudgedPool, event: e.PeerCommanded) -> None:
    _check_peer(pool, event)
    name = event.peer.partition("/")[2]
    chosen = {"BeginDrain": pool.to_drain, "EndDrain": pool.to_cancel}.get(event.command, set())
    chosen.discard(name)  # by a poll of the defragmentation in this decision
    if event.command not in {kind.__name__ for kind in get_args(MachineCommand)}:
        pool.report(event.stream, "value", f"{event.command!r} is not a command to an execution point")
    if name not in pool.state.machines:
        pool.report(event.stream, "reference", f"the pool has no machine {name}")


# The events of other roles, which their own logs judge


def check_copy(pool: JudgedPool, event: e.Event) -> None:
    """Check what a role that copies an event of another role knows about it."""
    (role,) = pool.state.roles
    if type(event).__name__ not in ALSO_WRITTEN.get(role, ()):
        pool.copies.setdefault(_owner(pool, event), event)
    check = _COPIES.get((role, type(event)))
    if check is not None:
        check(pool, event)


def _owner(pool: JudgedPool, event: e.Event) -> str:
    """Return the peer that decided an event, or only its role if the event does not show the peer."""
    owner = owner_of(type(event))
    if owner == MANAGER:
        return MANAGER
    if isinstance(event, e.SlotEvent):
        return peer_of_slot(event.slot)
    if isinstance(event, e.MachineEvent):
        return f"{owner}/{event.machine}"
    if isinstance(event, e.ClusterEvent):
        number, followed = event.cluster // JOBS_PER_ACCESS_POINT, pool.state.peers.followed
        peers = (peer for peer, known in followed.items() if role_of(peer) == owner and known.number == number)
        return next(peers, owner)
    return event.peer if isinstance(event, e.FlockingChanged) else owner


def settle_copies(pool: JudgedPool) -> None:
    """Check at the end of a decision that it has read an outbox of each peer whose events it copied, or whose jobs it
    started."""
    read = {outbox_of(event.peer) for event in pool.decision if isinstance(event, e.Followed)}
    for peer, event in pool.copies.items():
        if peer not in read:
            pool.report(f"peer/{peer}", "peers", f"its {type(event).__name__} is recorded without reading its outbox")
    pool.copies.clear()
    pool.released.clear()


def _check_shown_slot(pool: JudgedPool, event: e.SlotCreated) -> None:
    if event.slot in pool.state.slots:
        pool.report_slot(event.slot, "reference", "it is shown, but already exists")
        pool.folds = None


def _check_shown_move(pool: JudgedPool, event: e.SlotTransitioned) -> None:
    slot = known_slot(pool, event)
    if slot is not None and event.row and event.source != slot.state_activity:
        pool.report(slot, "source", f"a transition begins in {event.source}, but it is {slot.state_activity}")


def _check_granted_claim(pool: JudgedPool, event: e.ClaimMade) -> None:
    request, slot = pool.state.claim_requests.get(event.claim), known_slot(pool, event)
    parents = event.slot, str(SlotName.parse(event.slot).parent)  # a part of the requested slot may have been carved
    terms = event.submitter, event.job, event.limits, event.negotiator
    if request is None:
        pool.report_slot(event.slot, "claim", f"claim {event.claim} is made, but was not requested")
    elif request.slot not in parents or terms != (
        request.submitter, request.job, request.limits, request.negotiator,
    ):  # fmt: skip
        pool.report_slot(event.slot, "claim", "the terms of its claim differ from the request")
    if slot is None or slot.claim is not None:
        pool.report_slot(event.slot, "claim", "it is claimed already, or unknown")
        pool.folds = None


def _check_ended_claim(pool: JudgedPool, event: e.ClaimEnded) -> None:
    slot = known_slot(pool, event)
    claim = None if slot is None else slot.claim
    if claim is None or (claim.id, claim.submitter) != (event.claim, event.submitter):
        pool.report_slot(event.slot, "claim", f"claim {event.claim} ends, but is not its claim")
    elif event.usage != (event.at - claim.since) * claim.weight:
        usage = (event.at - claim.since) * claim.weight
        pool.report_slot(event.slot, "usage", f"the claim used {usage}, but {event.usage} is charged")


def _note_preempted(pool: JudgedPool, event: e.MatchNotified) -> None:
    pool.preempted.update(dict.fromkeys(event.preempts, event.job))


def _check_factor(pool: JudgedPool, event: e.ClaimMade | e.ClusterSubmitted) -> None:
    check_initial_factor(pool, event.submitter, event.factor, getattr(event, "negotiator", ""))


_COPIES: Final[dict[tuple[str, type[e.Event]], Callable[[JudgedPool, Any], object]]] = {
    (ACCESS_POINT, e.SlotCreated): _check_shown_slot,
    (ACCESS_POINT, e.SlotTransitioned): _check_shown_move,
    (ACCESS_POINT, e.ClaimMade): _check_granted_claim,
    (ACCESS_POINT, e.ClaimEnded): _check_ended_claim,
    (ACCESS_POINT, e.SlotDestroyed): known_slot,
    (ACCESS_POINT, e.SlotAdChanged): known_slot,
    (ACCESS_POINT, e.ClaimFlagged): known_slot,
    (EXECUTION_POINT, e.MatchNotified): _note_preempted,
    (MANAGER, e.ClaimMade): _check_factor,
    (MANAGER, e.ClusterSubmitted): _check_factor,
}
"""What is checked of a copied event, by the role that copies it."""


# The claims of access points on slots elsewhere


@rule(e.ClaimRequested)
def check_claim_requested(pool: JudgedPool, event: e.ClaimRequested) -> None:
    job = job_of(event.job)
    if job is None or not (JobId(*job) in pool.state.matches.get(event.slot, ()) or job in pool.state.reservations):
        pool.report_slot(event.slot, "match", f"it is requested for job {event.job}, which was not matched with it")
    if job is None or event.claim in pool.state.claim_requests:
        pool.report_slot(event.slot, "claim", f"claim {event.claim} is already requested, or for no job")
        pool.folds = None


@rule_of(e.ClaimGranted, known_slot)
def check_claim_granted(pool: JudgedPool, slot: Slot, event: e.ClaimGranted) -> None:
    claim = slot.claim
    if claim is None or (claim.id, claim.holder) != (event.claim, event.holder):
        pool.report(slot, "claim", f"claim {event.claim} is granted to {event.holder}, which does not hold it")
        return
    shown = slot.machine, slot.kind, slot.state_activity, claim.weight, claim.rank, claim.lease
    if shown != (event.machine, event.kind, event.state_activity, event.weight, event.rank, event.lease):
        pool.report(slot, "claim", f"it is shown to {event.holder} otherwise than it is")


@rule(e.ClaimRejected)
def check_claim_rejected(pool: JudgedPool, event: e.ClaimRejected) -> None:
    slot = pool.state.slots.get(event.slot)
    if slot is not None and slot.claim is not None and slot.claim.id == event.claim:
        pool.report(slot, "claim", f"claim {event.claim} is rejected, but was made")


@rule(e.ClaimCommanded)
def check_claim_commanded(pool: JudgedPool, event: e.ClaimCommanded) -> None:
    slot, request = pool.state.slots.get(event.slot), pool.state.claim_requests.get(event.claim)
    claim = None if slot is None else slot.claim
    is_known = claim is not None and claim.id == event.claim
    if event.command == "withdraw":
        is_known = request is not None and request.slot == event.slot
    if not is_known:
        pool.report_slot(event.slot, "claim", f"the command {event.command} names {event.claim}, not its claim")
    if event.command not in COMMANDS:
        pool.report_slot(event.slot, "value", f"{event.command!r} is not a command: {', '.join(COMMANDS)}")


@rule(e.MatchNotified)
def check_match_notified(pool: JudgedPool, event: e.MatchNotified) -> None:
    name = event.part or event.slot
    if name not in pool.state.slot_matches:
        pool.report_slot(name, "match", "its startd is notified of a match, but there is none")


@rule(e.MatchTaken)
def check_match_taken(pool: JudgedPool, event: e.MatchTaken) -> None:
    if event.job not in pool.state.slot_matches.get(event.slot, ()):
        pool.report_slot(event.slot, "match", f"its match with job {event.job} is over, but there was none")


@rule(e.MachineExpired)
def check_machine_expired(pool: JudgedPool, event: e.MachineExpired) -> None:
    machine = pool.state.machines.get(event.machine)
    if machine is None:
        pool.report(event.machine, "reference", f"the pool has no machine {event.machine}")
        pool.folds = None
    elif (machine.expired, machine.gone) == (event.expired, event.gone):
        pool.report(event.machine, "peers", "its execution point already is silent, or already answers")


@rule(e.SlotAbsent)
def check_slot_absent(pool: JudgedPool, event: e.SlotAbsent) -> None:
    if event.slot in pool.state.slots and pool.state.slots[event.slot].machine != event.machine:
        pool.report_slot(event.slot, "reference", f"it is not a slot of {event.machine}")
    if event.until <= event.at:
        pool.report_slot(event.slot, "value", "its absent ad is forgotten before the slot is absent")


@rule(e.OfflineMatched)
def check_offline_matched(pool: JudgedPool, event: e.OfflineMatched) -> None:
    if event.slot not in pool.state.offline:
        pool.report(event.slot, "reference", "a job is matched with its offline ad, but there is none")
    job = job_of(event.job)
    if job is None or not is_waiting_for_slot(pool, *job):
        pool.report(event.job, "match", f"it is matched with the offline slot {event.slot}, but is not idle")


@rule_of(e.JobDisconnected, run_of)
def check_job_disconnected(pool: JudgedPool, run: Activation, event: e.JobDisconnected) -> None:
    if run.key in pool.state.disconnected:
        pool.report(event, "lease", "its execution point is already recorded as silent")
    if role_of(peer_of_slot(run.slot)) in pool.state.roles:
        pool.report(event, "lease", "its execution point has no separate log")
    if event.until < event.at:
        pool.report(event, "value", "its lease ends before its execution point was silent")


@rule_of(e.JobReconnected, run_of)
def check_job_reconnected(pool: JudgedPool, run: Activation, event: e.JobReconnected) -> None:
    if run.key not in pool.state.disconnected:
        pool.report(event, "lease", "its execution point answers again, but was not silent")


# Several managers


@rule(e.HadTransitioned)
def check_had_transition(pool: JudgedPool, event: e.HadTransitioned) -> None:
    state = pool.state.had.state
    if event.source != state:
        pool.report("had", "source", f"a transition begins in {event.source}, but it is {state or 'off'}")
    if not had_machine().allows(event.source, event.row, event.target):
        pool.report("had", "row", f"{event.row} does not lead from {event.source} to {event.target}")


@rule(e.ManagerHeard)
def check_manager_heard(pool: JudgedPool, event: e.ManagerHeard) -> None:
    if (event.peer in pool.state.had.silent) != event.heard:
        pool.report(event.stream, "had", "it already is silent, or already is heard")
    if event.last > event.at:
        pool.report(event.stream, "value", "it was last heard in the future")


@rule(e.SettingConflicted)
def check_setting_conflicted(pool: JudgedPool, event: e.SettingConflicted) -> None:
    values = pool.state.had.values.get(event.submitter, {})
    if not any(each.at == event.own_set_at for each in values.values()):
        pool.report(event.stream, "reference", f"{event.name} of {event.submitter} was not set here at that time")
    if event.since > max(event.own_set_at, event.set_at):
        pool.report(event.stream, "value", "both were set before the silence")


@rule(e.SettingWithheld)
def check_setting_withheld(pool: JudgedPool, event: e.SettingWithheld) -> None:
    pool.copies.setdefault(MANAGER, event)
    if pool.state.had.replicates(event.peer):
        pool.report(event.stream, "had", "a change is withheld, but REPLICATION is on at both managers")


@rule(e.DaemonsSwitched)
def check_daemons_switched(pool: JudgedPool, event: e.DaemonsSwitched) -> None:
    if event.manager:
        pool.copies.setdefault(MANAGER, event)
    elif event.user not in super_users(pool.state.settings):
        pool.report("daemons", "granted", f"switched by {event.user or 'an unknown user'}, who is not the pool's owner")
    if event.on and REPLICATION in event.daemons:
        pool.released = {(change.peer, change.event().at) for change in pool.state.had.withheld}
