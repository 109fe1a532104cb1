"""What users do with jobs: hold, release, remove, vacate, suspend, continue, edit.

A command over many jobs is one event for each group of them in the same status. Each job that the command does not
apply to keeps its status, and the answer says why. Users act on their own jobs, QUEUE_SUPER_USERS on all.

What ends, suspends or continues a run is imported where a job runs: it brings all of the startd, and most jobs that are
held or removed do not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from attrs import Factory, frozen

from ..classad import ERROR, UNDEFINED, ClassAd, ClassAdSyntaxError, EvaluationError, Expression, parse
from ..classad.match import accepts
from ..decision.command_results import answer
from ..decision.draft import Draft, Refusal, ranges
from ..events import Ad, JobsEdited
from ..ports.stimuli import Act, Edit, Selection
from ..state.cluster import Cluster
from ..state.expression_cache import ad_of
from ..state.job_ad import LIVED, OF_A_HOLD, quoted
from ..state.settings import super_users
from ..state.state import RUNS, Slot
from .accounting_group import GROUP
from .waiting_claims import withdraw_better_matches

HELD_BY_USER = 1
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@frozen
class Outcome:
    """What became of a range of jobs: ``done``, or the reason why not (``not found``, ``permission denied``, or the
    status that the command does not apply to). ``changes``: what an edit set."""

    cluster: int
    first: int
    last: int
    result: str
    changes: Ad = Factory(dict)


# Selecting


def selected(draft: Draft, selection: Selection) -> Iterator[tuple[Cluster, list[int]]]:
    """Each cluster that the command means, with its processes."""
    state = draft.state
    constraint = _constraint(selection.constraint)
    wanted: dict[int, set[int] | None] = dict.fromkeys(selection.clusters)
    for number, proc in selection.jobs:
        procs = wanted.setdefault(number, set())
        if procs is not None:
            procs.add(proc)
    only_constraint = constraint is not None and not (wanted or selection.owners)
    for cluster in list(state.clusters.values()):
        if cluster.id in wanted:
            named = wanted[cluster.id]
            procs_ = list(cluster.procs()) if named is None else sorted(p for p in named if p in cluster)
        elif selection.everything or only_constraint or state.owner(cluster) in selection.owners:
            procs_ = list(cluster.procs())
        else:
            continue
        if constraint is not None:
            procs_ = [proc for proc in procs_ if _meets(draft, constraint, ad_of(cluster.attributes(proc)))]
        if procs_:
            yield cluster, procs_


def _constraint(text: str) -> Expression | None:
    if not text:
        return None
    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise Refusal(f"invalid constraint {text!r}: {error}") from None


def _meets(draft: Draft, constraint: Expression, job: ClassAd) -> bool:
    try:
        value = constraint.evaluate(job, None, draft.context)
    except EvaluationError:
        return False
    return value not in (UNDEFINED, ERROR) and accepts(value)


def _missing(draft: Draft, selection: Selection) -> list[Outcome]:
    clusters = draft.state.clusters
    gone = [Outcome(number, 0, -1, "not found") for number in selection.clusters if number not in clusters]
    for number, proc in selection.jobs:
        if number not in clusters or proc not in clusters[number]:
            gone.append(Outcome(number, proc, proc, "not found"))
    return gone


def _allowed(draft: Draft, user: str, cluster: Cluster) -> bool:
    return user in super_users(draft.state.settings) or user == draft.state.owner(cluster)


# Acting


def act_on_jobs(draft: Draft, command: Act) -> None:
    """Do with each selected job what the command says, and answer what became of each."""
    rule = _ACTIONS.get(command.action)
    if rule is None:
        raise Refusal(f"{command.action!r} is nothing that can be done with jobs; there are {', '.join(_ACTIONS)}")
    outcomes = _missing(draft, command.selection)
    for cluster, procs in list(selected(draft, command.selection)):
        if not _allowed(draft, command.user, cluster):
            outcomes += _outcomes(cluster, procs, "permission denied")
            continue
        for (status, running), group in _groups(draft, cluster, procs).items():
            done = rule(draft, command, cluster, group, status, running)
            outcomes += _outcomes(cluster, group, "done" if done else status)
    arguments = msgspec.json.encode(command.selection).decode()
    answer(draft, command, command.action, arguments, outcomes)


def _groups(draft: Draft, cluster: Cluster, procs: list[int]) -> dict[tuple[str, bool], list[int]]:
    groups: dict[tuple[str, bool], list[int]] = {}
    running = draft.state.by_job
    for proc in procs:
        groups.setdefault((cluster.status_of(proc), (cluster.id, proc) in running), []).append(proc)
    return groups


def _outcomes(cluster: Cluster, procs: list[int], result: str) -> list[Outcome]:
    return [Outcome(cluster.id, first, last, result) for first, last in ranges(procs)]


def _reason(command: Act, verb: str) -> str:
    how = command.reason or f"via condor_{verb}"
    return quoted(f"{how} (by user {command.user})")


def _stop_all(draft: Draft, cluster: Cluster, procs: list[int], cause: str) -> None:
    found = (draft.state.by_job.get((cluster.id, proc)) for proc in procs)
    running = [activation for activation in found if activation is not None]
    if running:
        from .claims import stop

        for activation in running:
            stop(draft, activation, cause)


def _hold(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status in ("Held", "Removed", "Completed"):
        return False
    changes = {
        "HoldReason": _reason(command, "hold"),
        "HoldReasonCode": str(HELD_BY_USER),
        "HoldReasonSubCode": str(command.subcode),
    }
    draft.move_jobs(cluster, ranges(procs), "hold", "user_hold", status, changes)
    withdraw_better_matches(draft, cluster.id, procs)
    _stop_all(draft, cluster, procs, "user_hold")
    return True


def _release(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status != "Held":
        return False
    by_held: dict[tuple[str, ...], list[int]] = {}
    for proc in procs:
        by_held.setdefault(tuple(cluster.value(proc, name) for name in OF_A_HOLD), []).append(proc)
    for held, group in by_held.items():
        changes: Ad = {f"Last{name}": text for name, text in zip(OF_A_HOLD, held, strict=True) if text}
        changes |= dict.fromkeys(OF_A_HOLD, "")
        changes["ReleaseReason"] = _reason(command, "release")
        draft.move_jobs(cluster, ranges(group), "release", "user_release", status, changes)
    return True


def _remove(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status == "Removed":
        return False
    changes = {"RemoveReason": _reason(command, "rm")}
    draft.move_jobs(cluster, ranges(procs), "remove", "user_remove", status, changes)
    withdraw_better_matches(draft, cluster.id, procs)
    if running:
        _stop_all(draft, cluster, procs, "user_remove")
    return True


def _remove_now(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    """Do not wait for jobs that are being removed: what runs of them is killed, and of which nothing runs, those leave
    the queue whatever their LeaveJobInQueue says."""
    if status != "Removed":
        return False
    if not running:
        draft.move_jobs(cluster, ranges(procs), "remove_x", "user_remove", status, {})
        return True
    from .claims import signal

    for proc in procs:
        signal(draft, draft.state.by_job[cluster.id, proc], "hard", "user_remove")
    return True


def _vacate(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    """Its user gives up a retirement time that the job may have: condor_vacate_job deactivates the claim."""
    if status not in RUNS:
        return False
    from .claims import signal, vacate

    for proc in procs:
        activation = draft.state.by_job[cluster.id, proc]
        slot = draft.state.slots.get(activation.slot)
        if slot is not None:
            vacate(draft, slot, command.fast, "user_vacate")
        if slot is None or not command.fast:
            signal(draft, activation, "hard" if command.fast else "soft", "user_vacate")
    return True


def _suspend(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status != "Running":
        return False
    from ..startd.vacating import suspend_claim

    return _pause(draft, cluster, procs, ("Claimed/Busy", "Claimed/Retiring"), suspend_claim)


def _continue(draft: Draft, command: Act, cluster: Cluster, procs: list[int], status: str, running: bool) -> bool:
    if status != "Suspended":
        return False
    from ..startd.vacating import continue_claim

    return _pause(draft, cluster, procs, ("Claimed/Suspended",), continue_claim)


def _pause(
    draft: Draft, cluster: Cluster, procs: list[int], pairs: tuple[str, ...], rule: Callable[[Draft, Slot], bool]
) -> bool:
    """Suspend or continue the slots of these jobs, if all of them are where that can be."""
    if cluster.local:
        return False  # without a slot there is nobody to suspend it
    slots = [draft.state.slots[draft.state.by_job[cluster.id, proc].slot] for proc in procs]
    if any(slot.state_activity not in pairs for slot in slots):
        return False
    done = [rule(draft, slot) for slot in slots]
    return all(done)


_ACTIONS: dict[str, Callable[[Draft, Act, Cluster, list[int], str, bool], bool]] = {
    "hold": _hold,
    "release": _release,
    "remove": _remove,
    "remove now": _remove_now,
    "vacate": _vacate,
    "suspend": _suspend,
    "continue": _continue,
}


# Editing

IMMUTABLE = frozenset({"clusterid", "procid", "owner", "user", "qdate", "jobstatus", "mytype", "globaljobid"})


def edit_jobs(draft: Draft, command: Edit) -> None:
    """Set attributes of jobs, or add to numbers."""
    for name, text in command.changes.items():
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name: letters, digits and _, and no digit first")
        if name.lower() in IMMUTABLE or name.lower() in LIVED:
            raise Refusal(f"{name} cannot be changed: the pool itself keeps it")
        if name.lower() == GROUP.lower():
            words = "it says for whom the jobs count from the start; remove them and submit them again"
            raise Refusal(f"{name} cannot be changed: {words}")
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"{name} = {text}: {error}") from None
    outcomes = _missing(draft, command.selection)
    for cluster, procs in list(selected(draft, command.selection)):
        if not _allowed(draft, command.user, cluster):
            outcomes += _outcomes(cluster, procs, "permission denied")
            continue
        for changes, group in _edits(command, cluster, procs):
            draft.emit(JobsEdited(*draft.why("user_edit"), cluster.id, ranges(group), changes))
            withdraw_better_matches(draft, cluster.id, group)
            outcomes += [Outcome(cluster.id, first, last, "done", changes) for first, last in ranges(group)]
    answer(draft, command, "edit", msgspec.json.encode(command.changes).decode(), outcomes)


def _edits(command: Edit, cluster: Cluster, procs: list[int]) -> list[tuple[Ad, list[int]]]:
    spelled = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names)}
    wanted = {spelled.get(name.lower(), name): text for name, text in command.changes.items()}
    if not command.add:
        return [(wanted, procs)]
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for proc in procs:
        sums = tuple((name, _sum(cluster.value(proc, name, "0"), more)) for name, more in wanted.items())
        groups.setdefault(sums, []).append(proc)
    return [(dict(changes), group) for changes, group in groups.items()]


def _sum(text: str, more: str) -> str:
    """Two numbers' sum; for what is no plain number, the sum as an expression."""
    try:
        return str(int(text) + int(more))
    except ValueError:
        return f"({text}) + ({more})"
