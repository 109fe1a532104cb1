"""The one fold: how each kind of event changes the state. Live, at start, in replay and in tests it is this function.

It copies what events say and never refuses, never consults policy and never computes what a decision should have
computed: whether a thing was allowed was settled before the event was written, and whether it should have been is for
the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .. import events as e
from ..names import AccountName, JobId
from ..state_machines import LEFT, dialect_named
from . import slot_fold
from .caches import ChangeLog
from .cluster import Cluster
from .defrag import polled, switched
from .defrag_settings import DEFRAG, NAME, SCHEDULE
from .job_ad import DEFERRAL_TIME, EXPIRATION, TERMINAL, unquoted
from .proc_ads import Variants
from .settings import as_founded
from .slot_fold import MACHINE_FOLDS, PUBLISHED, change
from .state import NOTIFICATION, RUNS, Activation, BackfillClient, Claim, Machine, Slot, State

ANSWERS_KEPT = 10_000
ANSWERS_SIZE = 8_000_000
MATCHED = "Matched/Idle"
PREEMPTING = "Preempting/"
BACKFILL = "Backfill/"
INTERVAL = "DEFRAG_INTERVAL"


def _founded(state: State, event: e.PoolFounded) -> None:
    state.name, state.dialect = event.name, dialect_named(event.dialect)
    state.founded = as_founded(event.uid_domain, event.settings)
    state.settings = dict(state.founded)
    state.configured = state.position
    _switch_defrag(state, event.settings)


def _pool_configured(state: State, event: e.PoolConfigured) -> None:
    state.settings = dict(state.settings)  # those before are kept by submitters of older logs
    change(state.settings, event.settings)
    state.configured = state.position
    _switch_defrag(state, event.settings)


def _switch_defrag(state: State, settings: e.Ad) -> None:
    """The defragmentation may have been switched on or off, or have got another name, which is another daemon."""
    if NAME in settings:
        state.defrag = switched(state.defrag, bool(settings[NAME].strip()), state.at)
    state.defrag.configured = state.at


def _defrag_polled(state: State, event: e.DefragPolled) -> None:
    interval = state.settings.get(INTERVAL, DEFRAG[INTERVAL].default)
    polled(state.defrag, event, int(interval), state.settings.get(SCHEDULE, DEFRAG[SCHEDULE].default))


def _writer(state: State, event: e.WriterBegan) -> None:
    state.epoch, state.served_since = event.epoch, event.at


def _answered(state: State, event: e.RequestAnswered) -> None:
    answers = state.answers
    answers[event.stimulus] = event.answer
    state.answers_size += len(event.answer)
    while len(answers) > ANSWERS_KEPT or (state.answers_size > ANSWERS_SIZE and len(answers) > 1):
        state.answers_size -= len(answers.pop(next(iter(answers))))


def _touch(state: State, machine: Machine) -> None:
    """What all slots of a machine say has changed."""
    for slot in machine.slots:
        state.slot_changes.append(slot)


def _touch_ads(state: State, machine: Machine) -> None:
    """The conditions of all slots of a machine have changed."""
    for slot in machine.slots:
        state.slot_ad_changes.append(slot)


def _joined(state: State, event: e.MachineJoined) -> None:
    state.machines[event.machine] = slot_fold.joined(event)


def _machine_changed(kind: type[e.Event], conditions: bool = False) -> Callable[..., None]:
    """A fold of an event that changes one machine, and so what all of its slots say; with `conditions`, what their
    START is as well."""
    fold = MACHINE_FOLDS[kind]

    def folded(state: State, event: e.MachineConfigured) -> None:
        machine = state.machines[event.machine]
        fold(machine, event)
        _touch(state, machine)
        if conditions:
            _touch_ads(state, machine)

    return folded


def _drain_moved(state: State, event: e.DrainTransitioned) -> None:
    machine = state.machines[event.machine]
    MACHINE_FOLDS[e.DrainTransitioned](machine, event)
    if machine.drain is None:
        _touch_ads(state, machine)
    _touch(state, machine)


def _busy(state: State, event: e.CpuBusyChanged) -> None:
    slot_fold.busy(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def _backfill_started(state: State, event: e.BackfillStarted) -> None:
    key = str(state.position)
    machine = state.machines[event.machine]
    machine.backfill = BackfillClient(key, event.system, event.client, event.slot, event.at)
    state.clients[event.machine] = key
    _touch(state, machine)


def _backfill_exited(state: State, event: e.BackfillExited) -> None:
    _machine_changed(e.BackfillExited)(state, event)
    state.clients.pop(event.machine, None)


def _backfill_leaving(state: State, event: e.BackfillLeaving) -> None:
    slot_fold.leaving(state.slots[event.slot], event, state.position, "")
    state.destined.pop(event.slot, None)
    if event.destination == "Matched":
        state.destined[event.slot] = None


def _machine_left(state: State, event: e.MachineLeft) -> None:
    state.machines.pop(event.machine, None)
    state.clients.pop(event.machine, None)


def _born(state: State, event: e.SlotCreated) -> None:
    slot = state.slots[event.slot] = slot_fold.created(event, state.position)
    if event.machine in state.machines:
        state.machines[event.machine].slots[event.slot] = slot
    state.slot_changes.append(event.slot)
    state.slot_ad_changes.append(event.slot)


def _slot_moved(state: State, event: e.SlotTransitioned) -> None:
    slot_fold.moved(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    state.matched.pop(event.slot, None)
    state.preempting.pop(event.slot, None)
    if not event.target.startswith(BACKFILL):
        state.destined.pop(event.slot, None)
    if event.target == MATCHED:
        state.matched[event.slot] = None
    elif event.target.startswith(PREEMPTING):
        state.preempting[event.slot] = None


def _slot_changed(state: State, event: e.SlotAdChanged) -> None:
    slot_fold.ad_changed(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause != PUBLISHED:
        state.slot_ad_changes.append(event.slot)


def _slot_died(state: State, event: e.SlotDestroyed) -> None:
    slot = state.slots.pop(event.slot, None)
    parent = None if slot is None else state.slots.get(slot.parent)
    if slot is not None and parent is not None:
        slot_fold.merged(parent, slot)
    state.slot_ad_changes.append(event.slot)
    if slot is not None and slot.machine in state.machines:
        state.machines[slot.machine].slots.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    state.matched_by.pop(event.slot, None)
    for job in (state.matches.pop(event.slot, None), state.claim_ready.pop(event.slot, None), _awaited(slot)):
        _unpromise(state, event.slot, job)
    _leave_match_limits(state, event.slot)
    if slot is not None:
        _leave_limits(state, slot.claim, slot.waiting)
    state.matched.pop(event.slot, None)
    state.preempting.pop(event.slot, None)
    state.destined.pop(event.slot, None)
    state.silent_claims.pop(event.slot, None)


def _unpromise(state: State, slot: str, job: tuple[int, int] | None) -> None:
    """The job is promised the slot no longer."""
    if job is not None and state.reserved.get(job) == slot:
        del state.reserved[job]


def _leave_match_limits(state: State, slot: str) -> None:
    """Give back what a slot's match holds of concurrency limits."""
    state.hold_limits(state.matched_limits.pop(slot, ""), -1)


def _leave_limits(state: State, *claims: Claim | None) -> None:
    """Give back what claims, or such as wait, hold of concurrency limits."""
    for claim in claims:
        if claim is not None and claim.limits:
            state.hold_limits(claim.limits, -1)


def _awaited(slot: Slot | None) -> tuple[int, int] | None:
    """The job of the pool's own queue that waits for the slot's present claim to go."""
    return None if slot is None or slot.waiting is None else _job_of(slot.waiting)


def _job_of(claim: Claim | e.ClaimMade | e.ClaimQueued) -> JobId | None:
    """The job of the pool's own queue that a better match is for."""
    if claim.holder or not claim.job:
        return None
    return JobId.parse(claim.job)


def _user(state: State, event: e.ClaimMade | e.ClaimQueued, job: tuple[int, int] | None) -> str:
    """Whose the job is that a claim is made for."""
    cluster = state.clusters.get(job[0]) if job is not None else None
    return unquoted((event.ad if cluster is None else cluster.ad).get("User", ""))


def _claim_made(state: State, event: e.ClaimMade) -> None:
    slot, job = state.slots[event.slot], _job_of(event)
    matched = state.matches.pop(event.slot, None)
    for before in (matched, _awaited(slot)):
        _unpromise(state, event.slot, before)
    if job is not None:
        state.claim_ready[event.slot], state.reserved[job] = job, event.slot
    account = str(AccountName(event.negotiator, event.submitter))
    state.submitter(account, event.factor).take(event.weight, event.at)
    state.matched_by.pop(event.slot, None)
    _leave_match_limits(state, event.slot)
    _leave_limits(state, slot.claim, slot.waiting)
    state.hold_limits(event.limits, 1)
    state.slot_changes.append(event.slot)
    slot_fold.claimed(slot, event, state.position, _user(state, event, job or matched))
    if slot.claim is not None and matched is not None:
        slot.claim.regrouped = event.slot in state.regrouped


def _claim_waits(state: State, event: e.ClaimQueued) -> None:
    slot, job = state.slots[event.slot], _job_of(event)
    _unpromise(state, event.slot, _awaited(slot))
    regrouped = event.slot in state.matches and event.slot in state.regrouped
    if job is not None:
        _unpromise(state, event.slot, state.matches.pop(event.slot, None))
        state.reserved[job] = event.slot
    if job is not None:
        _leave_match_limits(state, event.slot)
    _leave_limits(state, slot.waiting)
    state.hold_limits(event.limits, 1)
    state.slot_changes.append(event.slot)
    slot_fold.claim_waits(slot, event, state.position, _user(state, event, job))
    if slot.waiting is not None:
        slot.waiting.regrouped = regrouped


def _claim_withdrawn(state: State, event: e.ClaimWithdrawn) -> None:
    slot = state.slots[event.slot]
    _unpromise(state, event.slot, _awaited(slot))
    _leave_limits(state, slot.waiting)
    slot_fold.claim_withdrawn(slot, event, state.position, "")
    state.slot_changes.append(event.slot)


def _claim_marked(state: State, event: e.ClaimFlagged) -> None:
    slot_fold.claim_flagged(state.slots[event.slot], event, state.position, "")


def _claim_unheard(state: State, event: e.ClaimHolderSilent) -> None:
    claim = state.slots[event.slot].claim
    if claim is not None:
        claim.until = event.until
    if event.until:
        state.silent_claims[event.slot] = None
    else:
        state.silent_claims.pop(event.slot, None)


def _claim_activated(state: State, event: e.ClaimActivated) -> None:
    slot_fold.claim_activated(state.slots[event.slot], event, state.position, unquoted(event.ad.get("User", "")))
    state.slot_changes.append(event.slot)


def _claim_deactivated(state: State, event: e.ClaimDeactivated) -> None:
    slot_fold.deactivated(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def _claim_ended(state: State, event: e.ClaimEnded) -> None:
    slot = state.slots[event.slot]
    weight = None if slot.claim is None else slot.claim.weight
    account = str(AccountName(event.negotiator, event.submitter))
    state.submitter(account).give_back(weight, event.usage, event.at)
    _leave_limits(state, slot.claim)
    slot_fold.claim_ended(slot, event, state.position, "")
    state.silent_claims.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    _unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))


def _cycle(state: State, event: e.CycleHeld) -> None:
    limited = state.matched_limits
    for match in event.matches:
        job = JobId.parse(match.job)
        _forget_rejection(state, job)
        _unpromise(state, match.slot, state.matches.get(match.slot))
        state.matches[match.slot] = job
        state.reserved[job] = match.slot
        if match.slot in limited:
            _leave_match_limits(state, match.slot)
        if match.limits:
            limited[match.slot] = match.limits
            state.limits_in_use[match.limits] += 1
        state.slots_matched.append(match.slot)
        if event.negotiator:
            state.matched_by[match.slot] = event.negotiator
        if match.job in event.regrouped:
            state.regrouped.add(match.slot)
        else:
            state.regrouped.discard(match.slot)
    for group in event.remainders:
        state.remainders[group] = event.at
    rejections = state.rejections
    if event.negotiator:
        rejections = state.further_rejections.setdefault(event.negotiator, {})
    for unmatched in event.unmatched:
        number = JobId.parse(unmatched.job)[0]
        rejections.setdefault(number, {})[unmatched.job] = unmatched
        _note_rejection(state, number, unmatched.job)


def _quotas_assigned(state: State, event: e.QuotasAssigned) -> None:
    state.quotas = event.groups


def _forget_rejection(state: State, job: tuple[int, int]) -> None:
    """The job has got something."""
    name = f"{job[0]}.{job[1]}"
    for rejections in (state.rejections, *state.further_rejections.values()):
        reasons = rejections.get(job[0])
        if reasons is not None and reasons.pop(name, None) is not None:
            _note_rejection(state, job[0], name)
            if not reasons:
                del rejections[job[0]]


def _note_rejection(state: State, number: int, job: str) -> None:
    """Why jobs like this one, of this cluster, got nothing is another thing than before."""
    state.rejection_changes.append((number, job))
    cluster = state.clusters.get(number)
    if cluster is not None:
        state.note_submitter(cluster.submitter)


def _match_voided(state: State, event: e.MatchVoided) -> None:
    _unpromise(state, event.slot, state.matches.pop(event.slot, None))
    state.matched_by.pop(event.slot, None)
    _leave_match_limits(state, event.slot)
    state.slot_changes.append(event.slot)


def _priorities(state: State, event: e.PrioritiesUpdated) -> None:
    for name, priority in event.priorities.items():
        state.submitter(str(AccountName(event.negotiator, name))).account(priority, event.at)
    if event.negotiator:
        state.accounted[event.negotiator] = event.at
    else:
        state.priorities_updated_at = event.at


def _submitter_set(state: State, event: e.SubmitterSet) -> None:
    submitter = state.submitter(str(AccountName(event.negotiator, event.submitter)), event.factor)
    if event.until > event.at:
        submitter.leases[event.name] = event.value, event.until
    elif event.until:
        submitter.leases.pop(event.name, None)
    elif event.name == "priority":
        submitter.account(event.value, event.at)
    elif event.name == "usage":
        submitter.count(event.at)
        before = submitter.weighted_usage
        submitter.weighted_usage = round(event.value * 1_000_000_000)
        submitter.usage_accounted += submitter.weighted_usage - before
    elif event.name in ("begin", "last"):
        setattr(submitter, event.name, round(event.value * 1_000_000))
    else:
        setattr(submitter, event.name, event.value)


def _submitters_reset(state: State, event: e.SubmittersReset) -> None:
    for name in event.submitters:
        submitter = state.submitter(str(AccountName(event.negotiator, name)), event.factors.get(name, 0.0))
        submitter.count(event.at)
        submitter.usage_accounted -= submitter.weighted_usage
        submitter.weighted_usage = submitter.unweighted_usage = 0
        submitter.begin = event.at


def _submitter_deleted(state: State, event: e.SubmitterDeleted) -> None:
    account = str(AccountName(event.negotiator, event.submitter))
    gone = state.submitters.pop(account, None)
    state.note_submitter(account)
    if gone is not None and gone.slots:  # what it has goes on to count
        again = state.submitter(account, event.factor)
        again.weighted_in_use, again.slots = gone.weighted_in_use, gone.slots


def _submitted(state: State, event: e.ClusterSubmitted) -> None:
    variants = Variants(event.columns)
    cluster = Cluster(
        event.cluster, event.submitter, event.ad, event.count, variants, event.status, factory=event.factory
    )
    if event.factory:
        state.factories[event.cluster] = None
    state.clusters[event.cluster] = cluster
    if not cluster.agree(NOTIFICATION) or cluster.wish(0, NOTIFICATION) not in ("", "0"):
        state.notifying.add(event.cluster)
    state.submitter(event.submitter, event.factor)
    state.note_cluster(cluster)
    state.unused_cluster_ids.discard(event.cluster)
    state.unused_cluster_ids.update(range(state.next_cluster, event.cluster))
    state.next_cluster = max(state.next_cluster, event.cluster + 1)


def _refused(state: State, event: e.SubmissionRefused) -> None:
    """The number of a submission that was refused is used up."""
    state.unused_cluster_ids.discard(event.cluster)
    state.unused_cluster_ids.update(range(state.next_cluster, event.cluster))
    state.next_cluster = max(state.next_cluster, event.cluster + 1)


def _ends(state: State, cluster: Cluster) -> None:
    """Jobs of the cluster have left the queue, perhaps its last."""
    if cluster.live or cluster.unmade:
        state.note_idle(cluster, -1)
        return
    state.note_cluster(cluster)
    del state.clusters[cluster.id]
    state.notifying.discard(cluster.id)
    state.factories.pop(cluster.id, None)
    for rejections in (state.rejections, *state.further_rejections.values()):
        rejections.pop(cluster.id, None)


def _materialized(state: State, event: e.JobsMaterialized) -> None:
    cluster = state.clusters[event.cluster]
    cluster.make(event.procs, event, event.status)
    if not cluster.unmade:
        state.factories.pop(event.cluster, None)
    state.note_idle(cluster, _one(event.procs))


def _factory_moved(state: State, event: e.FactoryTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if cluster.factory is not None:
        cluster.factory.mode, cluster.factory.reason = event.target, event.reason
    if event.target == "Removed":
        state.factories.pop(event.cluster, None)
        _ends(state, cluster)


def _jobs_moved(state: State, event: e.JobsTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if event.target == LEFT:
        cluster.end_all(event.procs)
        _ends(state, cluster)
        return
    cluster.edit_all(event.procs, event, event.target)
    state.note_idle(cluster, _one(event.procs))
    if event.left and event.target in TERMINAL:
        for first, last in event.procs:
            for proc in range(first, last + 1):
                if proc in cluster and (cluster.id, proc) not in state.by_job:
                    cluster.end(proc)
        _ends(state, cluster)


def _one(procs: e.Procs) -> int:
    """The process if it is one alone; else -1."""
    return procs[0][0] if len(procs) == 1 and procs[0][0] == procs[0][1] else -1


def _jobs_edited(state: State, event: e.JobsEdited) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    if cluster.factory is not None and event.procs[-1][1] == cluster.count - 1:
        cluster.factory.changes.update(event.changes)
    cluster.edited.update(name.lower() for name in event.changes)
    cluster.edits += 1
    if NOTIFICATION.lower() in cluster.edited:
        state.notifying.add(cluster.id)
    state.note_cluster(cluster)
    if event.number:
        state.by_job[event.cluster, event.procs[0][0]].chirped = event.number


def _deferred(state: State, event: e.JobsDeferred) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    cluster.edited.add(DEFERRAL_TIME.lower())
    cluster.edits += 1
    state.note_cluster(cluster)


def _activated(state: State, event: e.JobActivated) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit(event.proc, event, "Running")
    state.note_idle(cluster, event.proc)
    _forget_rejection(state, (event.cluster, event.proc))
    _unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))
    state.slot_changes.append(event.slot)
    user = unquoted(cluster.value(event.proc, "User"))
    activation = slot_fold.activation_of(event, state.position, user)
    state.activations[activation.key] = state.by_job[event.cluster, event.proc] = activation
    if activation.deferred:
        state.deferred[activation.key] = None
    slot = state.slots.get(event.slot)
    if slot is not None:  # a job of the local universe has none
        slot_fold.begin(slot, activation)


def _due(state: State, event: e.JobDue) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.deferred = 0
    state.deferred.pop(activation.key, None)


def _transfer_began(state: State, event: e.JobTransferBegan) -> None:
    state.by_job[event.cluster, event.proc].transfer = event.way
    _job_fact(state, event)


def _transfer_ended(state: State, event: e.JobTransferEnded) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.transfer = f"{event.way} done"
    activation.checkpoints = max(activation.checkpoints, event.number)
    _job_fact(state, event)


def _executing(state: State, event: e.JobExecuting) -> None:
    state.by_job[event.cluster, event.proc].executing = True
    _job_fact(state, event)


_OfARun = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured


def _job_fact(state: State, event: _OfARun) -> None:
    state.clusters[event.cluster].edit(event.proc, event, None)


def _measured(state: State, event: e.JobMeasured) -> None:
    state.by_job[event.cluster, event.proc].measured = event.at
    _job_fact(state, event)


def _signalled(state: State, event: e.JobSignalled) -> None:
    activation = state.by_job[event.cluster, event.proc]
    runs = state.clusters[event.cluster].status_of(event.proc) in RUNS
    state.ending.setdefault(activation.key, event.cause if runs else "")
    activation.vacated = activation.vacated or event.vacated
    _told(activation, event)


def _told(activation: Activation, event: e.JobSignalled | e.StarterSignalled) -> None:
    activation.stop, activation.told, activation.until = event.how, event.at, event.until
    activation.stopped = activation.stopped or event.at


def _starter_told(state: State, event: e.StarterSignalled) -> None:
    activation = state.slots[event.slot].activation
    if activation is not None:
        _told(activation, event)


def _exited(state: State, event: e.JobExited) -> None:
    if len(state.slot_changes) > ChangeLog.KEPT:
        state.trim_changes()  # also where nobody decides
    activation = state.by_job.pop((event.cluster, event.proc))
    del state.activations[activation.key]
    state.ending.pop(activation.key, None)
    state.deferred.pop(activation.key, None)
    slot = state.slots.get(event.slot)
    if slot is not None:
        slot_fold.deactivated(slot, event, state.position, "")
    state.slot_changes.append(event.slot)
    cluster = state.clusters[event.cluster]
    status = event.target or cluster.status_of(event.proc)
    if event.left and status in TERMINAL:
        cluster.end(event.proc)
        _ends(state, cluster)
        return
    if EXPIRATION in event.changes:
        state.cooling[event.cluster, event.proc] = int(event.changes[EXPIRATION])
    cluster.edit(event.proc, event, status)
    state.note_idle(cluster, event.proc)


def _cooled_down(state: State, event: e.JobCooledDown) -> None:
    del state.cooling[event.cluster, event.proc]
    cluster = state.clusters.get(event.cluster)
    if cluster is not None:
        state.note_cluster(cluster)


def _mail_due(state: State, event: e.MailDue) -> None:
    state.mails[state.position] = event


def _mailed(state: State, event: e.Mailed) -> None:
    del state.mails[event.mail]


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.PoolFounded: _founded,
    e.PoolConfigured: _pool_configured,
    e.WriterBegan: _writer,
    e.RequestAnswered: _answered,
    e.EvaluationRecorded: lambda state, event: None,
    e.MachineJoined: _joined,
    e.MachineConfigured: _machine_changed(e.MachineConfigured),
    e.MachineLeft: _machine_left,
    e.BenchmarksRan: _machine_changed(e.BenchmarksRan),
    e.CpuBusyChanged: _busy,
    e.DrainBegan: _machine_changed(e.DrainBegan, conditions=True),
    e.DrainTransitioned: _drain_moved,
    e.DrainFinal: _machine_changed(e.DrainFinal),
    e.DrainBadputAdded: _machine_changed(e.DrainBadputAdded),
    e.ShutdownBegan: _machine_changed(e.ShutdownBegan),
    e.BackfillStarted: _backfill_started,
    e.BackfillExecuting: _machine_changed(e.BackfillExecuting),
    e.BackfillSignalled: _machine_changed(e.BackfillSignalled),
    e.BackfillExited: _backfill_exited,
    e.BackfillLeaving: _backfill_leaving,
    e.SlotCreated: _born,
    e.SlotTransitioned: _slot_moved,
    e.SlotAdChanged: _slot_changed,
    e.SlotDestroyed: _slot_died,
    e.ClaimMade: _claim_made,
    e.ClaimQueued: _claim_waits,
    e.ClaimWithdrawn: _claim_withdrawn,
    e.ClaimFlagged: _claim_marked,
    e.ClaimActivated: _claim_activated,
    e.ClaimDeactivated: _claim_deactivated,
    e.ClaimHolderSilent: _claim_unheard,
    e.StarterSignalled: _starter_told,
    e.ClaimEnded: _claim_ended,
    e.CycleHeld: _cycle,
    e.QuotasAssigned: _quotas_assigned,
    e.DefragPolled: _defrag_polled,
    e.MatchVoided: _match_voided,
    e.PrioritiesUpdated: _priorities,
    e.SubmitterSet: _submitter_set,
    e.SubmittersReset: _submitters_reset,
    e.SubmitterDeleted: _submitter_deleted,
    e.JobsTransformed: lambda state, event: None,
    e.SubmissionRefused: _refused,
    e.ClusterSubmitted: _submitted,
    e.JobsMaterialized: _materialized,
    e.FactoryTransitioned: _factory_moved,
    e.JobsTransitioned: _jobs_moved,
    e.JobsEdited: _jobs_edited,
    e.JobsDeferred: _deferred,
    e.JobActivated: _activated,
    e.JobDue: _due,
    e.JobTransferBegan: _transfer_began,
    e.JobTransferEnded: _transfer_ended,
    e.JobExecuting: _executing,
    e.JobMeasured: _measured,
    e.JobSignalled: _signalled,
    e.JobExited: _exited,
    e.JobCooledDown: _cooled_down,
    e.MailDue: _mail_due,
    e.Mailed: _mailed,
}


def evolve(state: State, event: e.Event) -> None:
    """Bring `state` forward by `event`, the next of its log."""
    state.position += 1
    state.at = event.at
    FOLDS[type(event)](state, event)


def fold(events: Iterable[tuple[int, e.Event]], state: State | None = None) -> State:
    """The state after `events`, each with its position in the log."""
    state = state or State()
    folds = FOLDS
    for position, event in events:
        state.position, state.at = position, event.at
        folds[type(event)](state, event)
    return state
