"""Users' commands for jobs: hold, release, remove, vacate, suspend, continue.

A command for many jobs is logged as one event per group of jobs with the same status. A job that the command does not
apply to keeps its status, and the answer says why. Users act on their own jobs, QUEUE_SUPER_USERS on all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from ..classad import ClassAdSyntaxError, Expression, parse
from ..decision.draft import Draft, Refusal, answer, ranges
from ..ports.action_results import ActionResult
from ..ports.messages import PauseJob, ShowSlot, VacateClaim
from ..ports.stimuli import (
    Continue,
    Hold,
    JobCommand,
    Release,
    ReleaseSpooled,
    Remove,
    RemoveNow,
    Selection,
    Suspend,
    Vacate,
)
from ..state.cluster import Cluster
from ..state.job_ad import STATUS_NUMBERS, parse_int, quoted, unquoted
from ..state.pool_settings import job_limit, super_users
from ..state.records import RUNS
from ..state.state import AccessPoint
from .claims import signal_job
from .constraints import EvaluationBudget, select_matching
from .job_actions import SPOOLING, ActionReason, hold, release, remove

HELD_BY_USER = 1
PROTECTED_HOLD_CODES = ("1", SPOOLING)
"""HoldReasonCodes of jobs that cannot be held again: held by users, or until their input files are spooled."""


# Selecting


def selected(draft: Draft[AccessPoint], selection: Selection) -> list[tuple[Cluster, list[int]]]:
    """Each cluster that the command means, with its processes.

    :raises NeedsPreEvaluation: too many jobs have to be asked one by one whether they meet its constraint
    """
    state = draft.state
    constraint = constraint_of(selection.constraint)
    numbers: dict[int, set[int] | None] = dict.fromkeys(selection.clusters)
    for number, proc in selection.jobs:
        procs = numbers.setdefault(number, set())
        if procs is not None:
            procs.add(proc)
    only_constraint = constraint is not None and not (numbers or selection.owners)
    chosen: list[tuple[Cluster, list[int]]] = []
    for cluster in state.clusters.values():
        if cluster.id in numbers:
            named = numbers[cluster.id]
            procs_ = list(cluster.procs()) if named is None else sorted(p for p in named if p in cluster)
        elif selection.everything or only_constraint or state.owner(cluster) in selection.owners:
            procs_ = list(cluster.procs())
        else:
            continue
        if procs_:
            chosen.append((cluster, procs_))
    if constraint is not None:
        procs_of = select_matching(constraint, chosen, draft.context, draft.caches.of(EvaluationBudget))
        chosen = [(cluster, procs_) for (cluster, _), procs_ in zip(chosen, procs_of, strict=True) if procs_]
    return chosen


def constraint_of(text: str) -> Expression | None:
    if not text:
        return None
    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise Refusal(f"invalid constraint {text!r}: {error}") from None


def missing(draft: Draft[AccessPoint], selection: Selection) -> list[ActionResult]:
    clusters = draft.state.clusters
    gone = [ActionResult(number, (), "not found") for number in selection.clusters if number not in clusters]
    for number, proc in selection.jobs:
        if number not in clusters or proc not in clusters[number]:
            gone.append(ActionResult(number, ((proc, proc),), "not found"))
    return gone


def allowed(draft: Draft[AccessPoint], user: str, cluster: Cluster) -> bool:
    return user in super_users(draft.state.settings) or user == draft.state.owner(cluster)


# Acting


def act_on_jobs(draft: Draft[AccessPoint], command: JobCommand) -> None:
    """Execute the command for each selected job, and answer with the result for each."""
    statuses, rule = _RULES[type(command)]
    outcomes = missing(draft, command.selection)
    chosen = selected(draft, command.selection)
    if draft.state.factories:
        outcomes += _move_factories(draft, command)
    for cluster, procs in chosen:
        if not allowed(draft, command.user, cluster):
            outcomes += outcomes_of(cluster, procs, "permission denied")
            continue
        if isinstance(command, Release):
            arriving = spooling(cluster, procs)
            outcomes += outcomes_of(cluster, arriving, "Held")
            procs = sorted({*procs}.difference(arriving)) if arriving else procs
            spent = _spent(draft, command.user, cluster, procs)
            outcomes += outcomes_of(cluster, spent, "release limit")
            if spent:
                procs = sorted({*procs}.difference(spent))
        elif isinstance(command, Hold) and cluster.status_counts[STATUS_NUMBERS["Held"]]:
            firm = [proc for proc in procs if cluster.status_of(proc) == "Held" and is_firm(cluster, proc)]
            outcomes += outcomes_of(cluster, firm, "Held")
            procs = sorted({*procs}.difference(firm))
        for jobs in _groups(draft, cluster, procs):
            done = jobs.status in statuses and rule(draft, command, jobs)
            outcomes += outcomes_of(cluster, jobs.procs, "done" if done else jobs.status)
    arguments = msgspec.json.encode(command.selection, order="sorted").decode()
    answer(draft, command, command.action, arguments, [outcome.as_answer() for outcome in outcomes])


def _move_factories(draft: Draft[AccessPoint], command: JobCommand) -> list[ActionResult]:
    """Pause, resume or end the clusters' factories for a hold, a release or a removal of their jobs."""
    from .factories import move, selected_factories

    verb = {"hold": "hold", "release": "release", "remove": "rm"}.get(command.action)
    outcomes: list[ActionResult] = []
    for cluster in (
        selected_factories(draft, command.selection, constraint_of(command.selection.constraint)) if verb else ()
    ):
        if not allowed(draft, command.user, cluster):
            outcomes += [] if cluster.live else [ActionResult(cluster.id, (), "permission denied")]
            continue
        reason = unquoted(_reason(command, verb or ""))
        done = move(draft, cluster, command.action, f"user_{command.action}", reason)
        if done and not cluster.live:
            outcomes.append(ActionResult(cluster.id, (), "done"))
    return outcomes


class _Jobs(NamedTuple):
    """Jobs of a cluster that have the same status, and whether their processes run."""

    cluster: Cluster
    procs: list[int]
    status: str
    running: bool


def _groups(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int]) -> list[_Jobs]:
    running = {*draft.state.running_procs(cluster.id, procs)}
    statuses = bytes(map(cluster.status.__getitem__, procs))
    if statuses.count(statuses[:1]) == len(procs) and not running:
        return [_Jobs(cluster, procs, cluster.status_of(procs[0]), False)] if procs else []
    groups: dict[tuple[str, bool], list[int]] = {}
    for proc in procs:
        groups.setdefault((cluster.status_of(proc), proc in running), []).append(proc)
    return [_Jobs(cluster, group, *shared) for shared, group in groups.items()]


def outcomes_of(cluster: Cluster, procs: list[int], result: str) -> list[ActionResult]:
    return [ActionResult(cluster.id, ranges(procs), result)] if procs else []


def _reason(command: JobCommand, verb: str) -> str:
    how = command.reason or f"via condor_{verb}"
    return quoted(f"{how} (by user {command.user})")


def _hold(draft: Draft[AccessPoint], command: Hold, jobs: _Jobs) -> bool:
    changes = {
        "HoldReason": _reason(command, "hold"),
        "HoldReasonCode": str(HELD_BY_USER),
        "HoldReasonSubCode": str(command.subcode),
    }
    if jobs.status == "Held":
        draft.move_jobs(jobs.cluster, ranges(jobs.procs), "hold_again", "user_hold", jobs.status, changes)
    else:
        hold(draft, jobs.cluster, jobs.procs, jobs.status, changes, ActionReason("user_hold"))
    return True


def is_firm(cluster: Cluster, proc: int) -> bool:
    """Check whether a job is held by a user, or for its input files: a user's hold does not change such a hold."""
    return cluster.value(proc, "HoldReasonCode") in PROTECTED_HOLD_CODES


def _release(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    release(draft, jobs.cluster, jobs.procs, _reason(command, "release"), ActionReason("user_release"))
    return True


def _spooled(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    """Release jobs whose input files have arrived: the only release of jobs that are held for them."""
    return spooling(jobs.cluster, jobs.procs) == jobs.procs and _release(draft, command, jobs)


def spooling(cluster: Cluster, procs: list[int]) -> list[int]:
    """Return the jobs that are held until their input files are spooled; users cannot release them."""
    held = (proc for proc in procs if cluster.status_of(proc) == "Held")
    return [proc for proc in held if cluster.value(proc, "HoldReasonCode") == SPOOLING]


def _spent(draft: Draft[AccessPoint], user: str, cluster: Cluster, procs: list[int]) -> list[int]:
    """Return the held jobs that were held more than SYSTEM_MAX_RELEASES times: only super users can release them."""
    most = job_limit(draft.state.settings, "SYSTEM_MAX_RELEASES")
    if most is None or most < 0 or user in super_users(draft.state.settings):
        return []
    held = (proc for proc in procs if cluster.status_of(proc) == "Held")
    return [proc for proc in held if parse_int(cluster.value(proc, "NumHolds")) > most]


def _remove(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    remove(draft, jobs.cluster, jobs.procs, jobs.status, _reason(command, "rm"), ActionReason("user_remove"))
    return True


def _remove_now(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    """Do not wait for removed jobs: kill their processes. Jobs without processes leave the queue, whatever their
    LeaveJobInQueue is."""
    if not jobs.running:
        draft.move_jobs(jobs.cluster, ranges(jobs.procs), "remove_x", "user_remove", jobs.status, {})
        return True
    for proc in jobs.procs:
        signal_job(draft, draft.state.by_job[jobs.cluster.id, proc], "hard", "user_remove")
    return True


def _vacate(draft: Draft[AccessPoint], command: Vacate, jobs: _Jobs) -> bool:
    """Vacate jobs without retirement time: condor_vacate_job deactivates the claim. HTCondor's schedd rejects this for
    suspended jobs."""
    for proc in jobs.procs:
        activation = draft.state.by_job[jobs.cluster.id, proc]
        if not jobs.cluster.is_local:
            draft.send(VacateClaim(activation.slot, command.fast, "user_vacate"))
        if jobs.cluster.is_local or not command.fast:
            signal_job(draft, activation, "hard" if command.fast else "soft", "user_vacate")
    return True


def _suspend(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    return _pause(draft, jobs, ("Claimed/Busy", "Claimed/Retiring"), resume=False)


def _continue(draft: Draft[AccessPoint], command: JobCommand, jobs: _Jobs) -> bool:
    return _pause(draft, jobs, ("Claimed/Suspended",), resume=True)


def _pause(draft: Draft[AccessPoint], jobs: _Jobs, pairs: tuple[str, ...], resume: bool) -> bool:
    """Suspend or continue the slots of these jobs, if all of them are in a suitable state."""
    if jobs.cluster.is_local:
        return False  # without a slot no startd can suspend it
    slots = [draft.state.by_job[jobs.cluster.id, proc].slot for proc in jobs.procs]
    seen = (draft.send(ShowSlot(slot)) for slot in slots)
    if any(slot is None or slot.state_activity not in pairs for slot in seen):
        return False
    done = [draft.send(PauseJob(slot, resume)) for slot in slots]
    return all(done)


_RULES: dict[type[JobCommand], tuple[Collection[str], Callable[[Draft[AccessPoint], Any, _Jobs], bool]]] = {
    Hold: (STATUS_NUMBERS.keys() - {"Removed", "Completed"}, _hold),
    Release: ({"Held"}, _release),
    ReleaseSpooled: ({"Held"}, _spooled),
    Remove: (STATUS_NUMBERS.keys() - {"Removed"}, _remove),
    RemoveNow: ({"Removed"}, _remove_now),
    Vacate: (RUNS - {"Suspended"}, _vacate),
    Suspend: ({"Running"}, _suspend),
    Continue: (RUNS, _continue),  # a deferred job continues as Running on a suspended slot
}
"""The statuses of the jobs that a command applies to, and what it does with them."""
