"""Users edit jobs: condor_qedit, condor_prio.

Everybody edits own jobs, super users of the queue all. What may be edited is asked before anything is changed
(``edit_rights``). Source: ModifyAttrCheck and SetAttributeByConstraint (qmgmt.cpp) of the reference.
"""

from __future__ import annotations

import re

import msgspec

from ..classad import ClassAdSyntaxError, parse
from ..decision.command_results import answer
from ..decision.draft import Draft, Refusal, ranges
from ..events import Ad, JobsEdited
from ..ports.stimuli import Edit
from ..state.cluster import Cluster
from ..state.settings import super_users
from .crontab import ATTRIBUTES
from .edit_rights import why_not_edit
from .factory_limits import PAUSED
from .job_commands import Outcome, allowed, constraint_of, missing, outcomes_of, selected
from .waiting_claims import withdraw_better_matches

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_A_SCHEDULE = frozenset(map(str.lower, ATTRIBUTES))
Edited = tuple[Cluster, Ad, list[int]]
"""Jobs of a cluster, and what is set of them."""


def edit_jobs(draft: Draft, command: Edit) -> None:
    """Set attributes of jobs, or add to numbers.

    :raises Refusal: an attribute that this user may not edit, or a text that is no expression
    """
    _check(draft, command)
    outcomes = missing(draft, command.selection)
    jobs = selected(draft, command.selection)
    if draft.state.factories and not command.dry:
        outcomes += _edit_factories(draft, command)
    edits: list[Edited] = []
    for cluster, procs in jobs:
        if allowed(draft, command.user, cluster):
            edits += [(cluster, changes, group) for changes, group in _edits(command, cluster, procs)]
        elif not command.own:
            outcomes += outcomes_of(cluster, procs, "permission denied")
    if not (command.dry or (command.together and any(one.result != "done" for one in outcomes))):
        for cluster, changes, group in edits:
            draft.emit(JobsEdited(*draft.why("user_edit"), cluster.id, ranges(group), changes))
            withdraw_better_matches(draft, cluster.id, group)
            if not _OF_A_SCHEDULE.isdisjoint(map(str.lower, changes)):
                from .deferral import schedule

                schedule(draft, cluster, [proc for proc in group if cluster.status_of(proc) == "Idle"])
    outcomes += [Outcome(cluster.id, ranges(group), "done", changes) for cluster, changes, group in edits]
    answer(draft, command, "edit", msgspec.json.encode(command.changes).decode(), outcomes)


def _edit_factories(draft: Draft, command: Edit) -> list[Outcome]:
    """Change what the jobs will say that are still to come, where whole clusters are edited."""
    from .factories import meant, move

    outcomes: list[Outcome] = []
    for cluster in meant(draft, command.selection, constraint_of(command.selection.constraint)):
        if not allowed(draft, command.user, cluster):
            continue
        assert cluster.factory is not None
        first, last = cluster.factory.made, cluster.count - 1
        ((changes, _),) = _edits(command, cluster, [first])
        draft.emit(JobsEdited(*draft.why("user_edit"), cluster.id, ((first, last),), changes))
        paused = next((text for name, text in changes.items() if name.lower() == PAUSED.lower()), "")
        if paused:
            action = "release" if paused.strip() in ("0", "false", "undefined") else "hold"
            move(draft, cluster, action, "user_edit", "")
        outcomes.append(Outcome(cluster.id, ((first, last),), "done", changes))
    return outcomes


def _check(draft: Draft, command: Edit) -> None:
    settings = draft.state.settings
    is_super = command.user in super_users(settings)
    for name, text in command.changes.items():
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name: letters, digits and _, and no digit first")
        why = why_not_edit(name, command.user, settings, is_super=is_super)
        if why:
            raise Refusal(why)
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"{name} = {text}: {error}") from None


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
