"""Users edit jobs: condor_qedit, condor_prio.

Users edit their own jobs, queue super users all. All attributes are checked before anything is changed.
Source: ModifyAttrCheck and SetAttributeByConstraint (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from ..classad import ClassAd, ClassAdSyntaxError, parse
from ..decision.draft import Draft, Refusal, answer, ranges
from ..events import Ad, JobsEdited
from ..ports.action_results import ActionResult
from ..ports.stimuli import Edit
from ..state.cluster import Cluster
from ..state.pool_settings import ATTRIBUTE_LISTS, super_users
from ..state.runtime_attributes import RUNTIME_ATTRIBUTES
from ..state.state import AccessPoint
from .crontab import ATTRIBUTES
from .factories import KEPT, PAUSED
from .job_commands import allowed, constraint_of, missing, outcomes_of, selected
from .submitted_job import text_in
from .waiting_claims import withdraw_better_matches

# Who may set which attribute of a job, at submission and later.
#
# Immutable attributes stay as submitted. Only queue super users edit protected attributes. Only the schedd sets secure
# attributes; attempts to set them are ignored. In addition to HTCondor's rules, only the pool writes the attributes
# that change during a job's life, and a job's submitter is fixed at submission.
#
# Source: ModifyAttrCheck and SetAttribute (qmgmt.cpp) of HTCondor; its lists of attributes (param_info.in).

IMMUTABLE: Final = "immutable"
PROTECTED: Final = "protected"
SECURE: Final = "secure"
_LISTS: Final = {
    IMMUTABLE: ("IMMUTABLE_JOB_ATTRS", "SYSTEM_IMMUTABLE_JOB_ATTRS"),
    PROTECTED: ("PROTECTED_JOB_ATTRS", "SYSTEM_PROTECTED_JOB_ATTRS"),
    SECURE: ("SECURE_JOB_ATTRS", "SYSTEM_SECURE_JOB_ATTRS"),
}
_GROUP: Final = "accountinggroup"
OWN: Final = RUNTIME_ATTRIBUTES | KEPT | {"globaljobid"}
"""The attributes, in small letters, that only the pool writes."""
IDENTITY: Final = frozenset({"clusterid", "procid", "owner", "user"})
"""The attributes that cannot be edited in any configuration."""


def guard(name: str, settings: Mapping[str, str]) -> str:
    """Return the guard of an attribute by the settings: immutable, protected or secure; empty: none."""
    return _guards(tuple(settings.get(each, default) for each, default in ATTRIBUTE_LISTS.items())).get(
        name.lower(), ""
    )


@lru_cache(maxsize=8)
def _guards(lists: tuple[str, ...]) -> Mapping[str, str]:
    texts = dict(zip(ATTRIBUTE_LISTS, lists, strict=True))
    guards: dict[str, str] = {}
    for kind, names in _LISTS.items():
        for name in names:
            for word in texts[name].replace(",", " ").split():
                guards.setdefault(word.lower(), kind)
    return guards


def why_not_edit(name: str, user: str, settings: Mapping[str, str], *, is_super: bool) -> str:
    """Return why a user may not edit an attribute of a queued job, in condor_qedit's words; empty: the user may."""
    key = name.lower()
    kind = IMMUTABLE if key in IDENTITY else guard(name, settings)
    if kind in (IMMUTABLE, SECURE):
        return f'Update of {kind} attribute "{name}" is not allowed.'
    if kind == PROTECTED and not is_super:
        return f"Unauthorized setting of protected attribute {name} denied for {user}: a super user of the queue may"
    if key in OWN:
        return f"{name} cannot be changed: the pool itself keeps it"
    if key == _GROUP:
        reason = "it says for whom the jobs count from the start; remove them and submit them again"
        return f"{name} cannot be changed: {reason}"
    return ""


def unsettable(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the attributes, in small letters, that a job may not set: its owner may not edit them either."""
    guarded = _guards(tuple(settings.get(each, default) for each, default in ATTRIBUTE_LISTS.items()))
    return OWN | IDENTITY | {_GROUP} | guarded.keys()


def ignores_secure(settings: Mapping[str, str]) -> bool:
    """Check whether attempts to set secure attributes are ignored."""
    return settings.get("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS", "true").strip().lower() != "false"


_IDENTITY: Final = ("Owner", "User", "ClusterId")


def may_be_submitted(changes: Ad, ad: ClassAd, settings: Mapping[str, str]) -> Ad | None:
    """Return the changes by transforms that a submitted job may have; None: they set a forbidden attribute, and the
    submission fails."""
    same = {name.lower(): text_in(ad, name) for name in _IDENTITY}
    kept: Ad = {}
    for name, text in changes.items():
        key = name.lower()
        if guard(name, settings) == SECURE:
            if not ignores_secure(settings):
                return None
        elif key in same:
            if text != same[key] and (text != "undefined" or key == "clusterid"):
                return None
        elif key == "jobstatus":
            if text not in ("1", "5"):
                return None
            if text == "5":
                kept[name] = text
        elif key != "procid":
            kept[name] = text
    return kept


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_A_SCHEDULE = frozenset(map(str.lower, ATTRIBUTES))
Edited = tuple[Cluster, Ad, list[int]]
"""Jobs of a cluster, and what is set of them."""


def edit_jobs(draft: Draft[AccessPoint], command: Edit) -> None:
    """Set attributes of jobs, or add to numbers.

    :raises Refusal: an attribute that this user may not edit, or an invalid expression
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
                from .job_deferral import schedule

                schedule(draft, cluster, [proc for proc in group if cluster.status_of(proc) == "Idle"])
    outcomes += [ActionResult(cluster.id, ranges(group), "done", changes) for cluster, changes, group in edits]
    answer(draft, command, "edit", msgspec.json.encode(command.changes).decode(), [one.as_answer() for one in outcomes])


def _edit_factories(draft: Draft[AccessPoint], command: Edit) -> list[ActionResult]:
    """Edit the jobs that factories have not made yet, if whole clusters are edited."""
    from .factories import move, selected_factories

    outcomes: list[ActionResult] = []
    for cluster in selected_factories(draft, command.selection, constraint_of(command.selection.constraint)):
        if not allowed(draft, command.user, cluster):
            continue
        assert cluster.factory is not None
        first, last = cluster.factory.materialized, cluster.count - 1
        ((changes, _),) = _edits(command, cluster, [first])
        draft.emit(JobsEdited(*draft.why("user_edit"), cluster.id, ((first, last),), changes))
        paused = next((text for name, text in changes.items() if name.lower() == PAUSED.lower()), "")
        if paused:
            action = "release" if paused.strip() in ("0", "false", "undefined") else "hold"
            move(draft, cluster, action, "user_edit", "")
        outcomes.append(ActionResult(cluster.id, ((first, last),), "done", changes))
    return outcomes


def _check(draft: Draft[AccessPoint], command: Edit) -> None:
    settings = draft.state.settings
    is_super = command.user in super_users(settings)
    for name, text in command.changes.items():
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name: letters, digits and _, and no digit first")
        why = why_not_edit(name, command.user, settings, is_super=is_super)
        if why:
            raise Refusal(why, guard(name, settings) if name.lower() not in IDENTITY else IMMUTABLE)
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"{name} = {text}: {error}") from None


def _edits(command: Edit, cluster: Cluster, procs: list[int]) -> list[tuple[Ad, list[int]]]:
    spelled = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names)}
    edits = {spelled.get(name.lower(), name): text for name, text in command.changes.items()}
    if not command.add:
        return [(edits, procs)]
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for proc in procs:
        sums = tuple((name, _sum(cluster.value(proc, name, "0"), more)) for name, more in edits.items())
        groups.setdefault(sums, []).append(proc)
    return [(dict(changes), group) for changes, group in groups.items()]


def _sum(text: str, more: str) -> str:
    """Return the sum of two numbers; if one is not a plain number, the sum as an expression."""
    try:
        return str(int(text) + int(more))
    except ValueError:
        return f"({text}) + ({more})"
