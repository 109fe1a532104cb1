"""``poolbook rm, hold, release, vacate, prio, qedit, suspend, continue``: send requests about jobs and slots; print the
results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..condor_tools import actions, job_edits, job_priorities
from ..condor_tools.actions import ALREADY_DONE, BAD_STATUS, DENIED, LIMIT_EXCEEDED, NOT_FOUND, SUCCESS, Result
from ..condor_tools.job_selection import ClusterOrJob, Selection
from ..machine.host import user_name
from ..runtime.commands import ask
from ..runtime.requests import Refused, new_id
from .common import called_tool, log_of

# Poolbook's outcome of a job, by the status in which the command found it, to HTCondor's number of a result.
_RESULTS = {"done": SUCCESS, "not found": NOT_FOUND, "permission denied": DENIED, "release limit": LIMIT_EXCEEDED}
_ALREADY = {"hold": {"Held"}, "remove": {"Removed"}}
_DENIED = {"hold": {"Removed", "Completed"}}
"""The statuses in which HTCondor's schedd answers that the action is done already, or not permitted; in others, that it
does not fit."""
_ACTIONS = {"rm": "remove", "rm -forcex": "remove now", "vacate -fast": "vacate"}
"""Actions that a request names otherwise than the command does."""


def _act(command: str, argv: Sequence[str]) -> int:
    request = actions.read(command, argv, *(["condor_"] if called_tool() else []))
    action = request.action.command
    action = _ACTIONS.get(action, action)
    url = log_of(request.arguments, "name", "pool", "addr")
    fast = request.arguments.has("fast")
    body = {
        "kind": "Act",
        "user": user_name(),
        "action": action,
        "reason": request.reason,
        "subcode": request.subcode or 0,
        "fast": fast,
    }
    single: list[Result] = []
    if request.ids:
        chosen = {"jobs": [(job.cluster, job.proc) for job in request.ids]}
        outcomes = ask(url, {**body, "id": new_id(), "selection": chosen})
        found = {(o["cluster"], proc): o["result"] for o in outcomes for proc in procs_of(o)}
        single += [Result(job, result_of(action, found[job.cluster, job.proc or 0])) for job in request.ids]
    single += [Result(slot, _of_slot(url, action, slot, fast)) for slot in request.slots]
    selected = None
    if request.selection is not None:
        outcomes = ask(url, {**body, "id": new_id(), "selection": _selection(request.selection, request.held)})
        selected = _count(action, outcomes)
    return _printed(actions.answer(request, single, selected))


remove = partial(_act, "rm")
hold = partial(_act, "hold")
release = partial(_act, "release")
vacate = partial(_act, "vacate")
suspend = partial(_act, "suspend")
go_on = partial(_act, "continue")


def _printed(answer: actions.Answer) -> int:
    sys.stdout.write(answer.out)
    sys.stderr.write(answer.err)
    return answer.exit_code


# Action -> the request about a slot, and the answer's key of the slots that it affected.
_SLOTS = {
    "vacate": ("VacateSlot", "vacated"),
    "suspend": ("SuspendClaim", "suspended"),
    "continue": ("ContinueClaim", "continued"),
}


def _of_slot(url: str, action: str, slot: str, fast: bool) -> int:
    kind, done = _SLOTS[action]
    body = {"kind": kind, "id": new_id(), "user": user_name(), "slot": slot}
    try:
        answer = ask(url, {**body, "fast": fast} if action == "vacate" else body)
    except Refused as refused:
        return NOT_FOUND if "no slot" in str(refused) else DENIED
    return SUCCESS if answer[done] else BAD_STATUS


def result_of(action: str, outcome: str) -> int:
    """Return HTCondor's number of a result."""
    if outcome in _RESULTS:
        return _RESULTS[outcome]
    if outcome in _DENIED.get(action, ()):
        return DENIED
    return ALREADY_DONE if outcome in _ALREADY.get(action, ()) else BAD_STATUS


def procs_of(outcome: Mapping[str, Any]) -> Iterator[int]:
    """The processes that an outcome is about."""
    return (proc for first, last in outcome["procs"] for proc in range(first, last + 1))


def _count(action: str, outcomes: Iterable[dict[str, Any]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for outcome in outcomes:
        number = result_of(action, outcome["result"])
        jobs = max(1, sum(last - first + 1 for first, last in outcome["procs"]))
        counts[number] = counts.get(number, 0) + jobs
    return counts


def _selection(selection: Selection, held: bool = False) -> dict[str, Any]:
    constraints = [f"({constraint})" for constraint in selection.constraints]
    if held:
        constraints.append("JobStatus == 5")
    named = bool(selection.ids or selection.owners)
    return {
        "clusters": [job.cluster for job in selection.ids if job.proc is None],
        "jobs": [(job.cluster, job.proc) for job in selection.ids if job.proc is not None],
        "owners": list(selection.owners),
        "everything": not (named or constraints),
        "constraint": " && ".join(constraints),
    }


def prio(argv: Sequence[str]) -> int:
    request = job_priorities.read(argv)
    absolute = request.priority is not None
    body = {
        "kind": "Edit",
        "id": new_id(),
        "user": user_name(),
        "selection": _selection(request.selection),
        "changes": {"JobPrio": str(request.priority if absolute else request.step)},
        "add": not absolute,
    }
    outcomes = ask(log_of(request.arguments, "name", "pool"), body)
    denied = [outcome for outcome in outcomes if outcome["result"] == "permission denied"]
    changed = [
        (ClusterOrJob(outcome["cluster"], proc), int(outcome["changes"]["JobPrio"]))
        for outcome in outcomes
        if outcome["result"] == "done"
        for proc in procs_of(outcome)
    ]
    exit_code = _printed(job_priorities.answer(request, changed))
    for outcome in denied:
        print(f"Permission denied to change the priority of cluster {outcome['cluster']}", file=sys.stderr)
    return exit_code or int(bool(denied))


def qedit(argv: Sequence[str]) -> int:
    try:
        request = job_edits.read(argv)
    except job_edits.EditError as error:
        return _printed(actions.Answer("", str(error), 1))
    try:
        outcomes = ask(log_of(request.arguments, "name", "pool"), {**request.edit, "id": new_id(), "user": user_name()})
    except Refused as refused:
        words = str(refused)
        if words.startswith("Update of "):
            return _printed(actions.Answer("", f"{words}\n{job_edits.NOTHING_SET}", 1))
        return _printed(job_edits.failed(request, why=f"{words}\n"))
    return _printed(job_edits.answer(request, outcomes))
