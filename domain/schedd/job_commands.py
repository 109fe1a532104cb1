"""User commands for jobs: hold, release, remove, vacate, suspend, continue.

A command is logged as one event per group of jobs with the same status. A job to which the command does not apply keeps
its status, and the answer contains the reason. Users act on their own jobs; QUEUE_SUPER_USERS act on all jobs.
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
from .job_actions import SPOOLING_HOLD_CODE, ActionReason, hold_jobs, release_jobs, remove_jobs

HELD_BY_USER = 1
PROTECTED_HOLD_CODES = ("1", SPOOLING_HOLD_CODE)
"""HoldReasonCodes that another hold does not replace: jobs held by a user, or until their input files are spooled."""


# Selecting jobs


def selected_jobs(draft: Draft[AccessPoint], selection: Selection) -> list[tuple[Cluster, list[int]]]:
    """Return the clusters that a command selects, each with its selected processes.

    :raises NeedsPreEvaluation: if the constraint must be evaluated individually for too many jobs
    """
    state = draft.state
    constraint = parse_constraint(selection.constraint)
    numbers: dict[int, set[int] | None] = dict.fromkeys(selection.clusters)
    for number, proc in selection.jobs:
        procs = numbers.setdefault(number, set())
        if procs is not None:
            procs.add(proc)
    only_constraint = constraint is not None and not (numbers or selection.owners)
    selected: list[tuple[Cluster, list[int]]] = []
    for cluster in state.clusters.values():
        if cluster.id in numbers:
            named = numbers[cluster.id]
            members = list(cluster.procs()) if named is None else sorted(p for p in named if p in cluster)
        elif selection.everything or only_constraint or state.owner(cluster) in selection.owners:
            members = list(cluster.procs())
        else:
            continue
        if members:
            selected.append((cluster, members))
    if constraint is not None:
        procs_of = select_matching(constraint, selected, draft.context, draft.caches.get(EvaluationBudget))
        selected = [(cluster, members) for (cluster, _), members in zip(selected, procs_of, strict=True) if members]
    return selected


def parse_constraint(text: str) -> Expression | None:
    if not text:
        return None
    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise Refusal(f"invalid constraint {text!r}: {error}") from None


def missing_jobs(draft: Draft[AccessPoint], selection: Selection) -> list[ActionResult]:
    clusters = draft.state.clusters
    not_found = [ActionResult(number, (), "not found") for number in selection.clusters if number not in clusters]
    for number, proc in selection.jobs:
        if number not in clusters or proc not in clusters[number]:
            not_found.append(ActionResult(number, ((proc, proc),), "not found"))
    return not_found


def may_act_on(draft: Draft[AccessPoint], user: str, cluster: Cluster) -> bool:
    return user in super_users(draft.state.settings) or user == draft.state.owner(cluster)


# Acting on jobs


def act_on_jobs(draft: Draft[AccessPoint], command: JobCommand) -> None:
    """Execute the command for each selected job, and answer with the result for each job."""
    statuses, rule = _RULES[type(command)]
    outcomes = missing_jobs(draft, command.selection)
    selected = selected_jobs(draft, command.selection)
    if draft.state.factories:
        outcomes += _move_factories(draft, command)
    for cluster, procs in selected:
        if not may_act_on(draft, command.user, cluster):
            outcomes += results_for(cluster, procs, "permission denied")
            continue
        if isinstance(command, Release):
            spooling = spooling_jobs(cluster, procs)
            outcomes += results_for(cluster, spooling, "Held")
            procs = sorted({*procs}.difference(spooling)) if spooling else procs
            over_limit = _over_release_limit(draft, command.user, cluster, procs)
            outcomes += results_for(cluster, over_limit, "release limit")
            if over_limit:
                procs = sorted({*procs}.difference(over_limit))
        elif isinstance(command, Hold) and cluster.status_counts[STATUS_NUMBERS["Held"]]:
            protected = [
                proc for proc in procs if cluster.status_of(proc) == "Held" and is_protected_hold(cluster, proc)
            ]
            outcomes += results_for(cluster, protected, "Held")
            procs = sorted({*procs}.difference(protected))
        for jobs in _group_by_status(draft, cluster, procs):
            succeeded = jobs.status in statuses and rule(draft, command, jobs)
            outcomes += results_for(cluster, jobs.procs, "done" if succeeded else jobs.status)
    arguments = msgspec.json.encode(command.selection, order="sorted").decode()
    answer(draft, command, command.action, arguments, [outcome.as_answer() for outcome in outcomes])


def _move_factories(draft: Draft[AccessPoint], command: JobCommand) -> list[ActionResult]:
    from .factories import move_factory, selected_factories

    command_name = {"hold": "hold", "release": "release", "remove": "rm"}.get(command.action)
    outcomes: list[ActionResult] = []
    for cluster in (
        selected_factories(draft, command.selection, parse_constraint(command.selection.constraint))
        if command_name
        else ()
    ):
        if not may_act_on(draft, command.user, cluster):
            outcomes += [] if cluster.live else [ActionResult(cluster.id, (), "permission denied")]
            continue
        reason = unquoted(_reason(command, command_name or ""))
        succeeded = move_factory(draft, cluster, command.action, f"user_{command.action}", reason)
        if succeeded and not cluster.live:
            outcomes.append(ActionResult(cluster.id, (), "done"))
    return outcomes


class _JobGroup(NamedTuple):
    cluster: Cluster
    procs: list[int]
    status: str
    running: bool


def _group_by_status(draft: Draft[AccessPoint], cluster: Cluster, procs: list[int]) -> list[_JobGroup]:
    running = {*draft.state.running_procs(cluster.id, procs)}
    statuses = bytes(map(cluster.status.__getitem__, procs))
    if statuses.count(statuses[:1]) == len(procs) and not running:
        return [_JobGroup(cluster, procs, cluster.status_of(procs[0]), False)] if procs else []
    groups: dict[tuple[str, bool], list[int]] = {}
    for proc in procs:
        groups.setdefault((cluster.status_of(proc), proc in running), []).append(proc)
    return [_JobGroup(cluster, group, *status_and_running) for status_and_running, group in groups.items()]


def results_for(cluster: Cluster, procs: list[int], result: str) -> list[ActionResult]:
    return [ActionResult(cluster.id, ranges(procs), result)] if procs else []


def _reason(command: JobCommand, command_name: str) -> str:
    reason = command.reason or f"via condor_{command_name}"
    return quoted(f"{reason} (by user {command.user})")


def _hold(draft: Draft[AccessPoint], command: Hold, jobs: _JobGroup) -> bool:
    changes = {
        "HoldReason": _reason(command, "hold"),
        "HoldReasonCode": str(HELD_BY_USER),
        "HoldReasonSubCode": str(command.subcode),
    }
    if jobs.status == "Held":
        draft.move_jobs(jobs.cluster, ranges(jobs.procs), "hold_again", "user_hold", jobs.status, changes)
    else:
        hold_jobs(draft, jobs.cluster, jobs.procs, jobs.status, changes, ActionReason("user_hold"))
    return True


def is_protected_hold(cluster: Cluster, proc: int) -> bool:
    """Check whether a job is held by a user or until its input is spooled; another hold does not change such a job."""
    return cluster.value(proc, "HoldReasonCode") in PROTECTED_HOLD_CODES


def _release(draft: Draft[AccessPoint], command: JobCommand, jobs: _JobGroup) -> bool:
    release_jobs(draft, jobs.cluster, jobs.procs, _reason(command, "release"), ActionReason("user_release"))
    return True


def _release_spooled(draft: Draft[AccessPoint], command: JobCommand, jobs: _JobGroup) -> bool:
    """Release jobs whose input files have arrived. No other command releases these jobs."""
    return spooling_jobs(jobs.cluster, jobs.procs) == jobs.procs and _release(draft, command, jobs)


def spooling_jobs(cluster: Cluster, procs: list[int]) -> list[int]:
    """Return the jobs that are held until their input files are spooled; users cannot release them."""
    held_procs = (proc for proc in procs if cluster.status_of(proc) == "Held")
    return [proc for proc in held_procs if cluster.value(proc, "HoldReasonCode") == SPOOLING_HOLD_CODE]


def _over_release_limit(draft: Draft[AccessPoint], user: str, cluster: Cluster, procs: list[int]) -> list[int]:
    maximum = job_limit(draft.state.settings, "SYSTEM_MAX_RELEASES")
    if maximum is None or maximum < 0 or user in super_users(draft.state.settings):
        return []
    held_procs = (proc for proc in procs if cluster.status_of(proc) == "Held")
    return [proc for proc in held_procs if parse_int(cluster.value(proc, "NumHolds")) > maximum]


def _remove(draft: Draft[AccessPoint], command: JobCommand, jobs: _JobGroup) -> bool:
    remove_jobs(draft, jobs.cluster, jobs.procs, jobs.status, _reason(command, "rm"), ActionReason("user_remove"))
    return True


def _remove_now(draft: Draft[AccessPoint], command: JobCommand, jobs: _JobGroup) -> bool:
    """Kill the processes of removed jobs. Jobs without processes leave the queue, whatever their LeaveJobInQueue."""
    if not jobs.running:
        draft.move_jobs(jobs.cluster, ranges(jobs.procs), "remove_x", "user_remove", jobs.status, {})
        return True
    for proc in jobs.procs:
        signal_job(draft, draft.state.by_job[jobs.cluster.id, proc], "hard", "user_remove")
    return True


def _vacate(draft: Draft[AccessPoint], command: Vacate, jobs: _JobGroup) -> bool:
    """Vacate jobs without retirement time, like condor_vacate_job. As in HTCondor, suspended jobs are not vacated."""
    for proc in jobs.procs:
        activation = draft.state.by_job[jobs.cluster.id, proc]
        if not jobs.cluster.is_local:
            draft.send(VacateClaim(activation.slot, command.fast, "user_vacate"))
        if jobs.cluster.is_local or not command.fast:
            signal_job(draft, activation, "hard" if command.fast else "soft", "user_vacate")
    return True


def _pause(draft: Draft[AccessPoint], command: Suspend | Continue, jobs: _JobGroup) -> bool:
    """Suspend or continue the slots of these jobs, if all slots are in a suitable state."""
    resume = isinstance(command, Continue)
    pairs = ("Claimed/Suspended",) if resume else ("Claimed/Busy", "Claimed/Retiring")
    if jobs.cluster.is_local:
        return False  # without a slot, no startd can suspend the job
    slots = [draft.state.by_job[jobs.cluster.id, proc].slot for proc in jobs.procs]
    visible = (draft.send(ShowSlot(slot)) for slot in slots)
    if any(slot is None or slot.state_activity not in pairs for slot in visible):
        return False
    succeeded = [draft.send(PauseJob(slot, resume)) for slot in slots]
    return all(succeeded)


_RULES: dict[type[JobCommand], tuple[Collection[str], Callable[[Draft[AccessPoint], Any, _JobGroup], bool]]] = {
    Hold: (STATUS_NUMBERS.keys() - {"Removed", "Completed"}, _hold),
    Release: ({"Held"}, _release),
    ReleaseSpooled: ({"Held"}, _release_spooled),
    Remove: (STATUS_NUMBERS.keys() - {"Removed"}, _remove),
    RemoveNow: ({"Removed"}, _remove_now),
    Vacate: (RUNS - {"Suspended"}, _vacate),
    Suspend: ({"Running"}, _pause),
    Continue: (RUNS, _pause),  # a deferred job on a suspended slot continues with status Running
}
"""The job statuses to which each command applies, and the function that executes the command."""
