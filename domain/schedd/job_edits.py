"""Edits of jobs by users: condor_qedit, condor_prio.

Users can edit their own jobs; queue super users can edit all jobs. All attributes are checked before any is changed.
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
from .crontab import LOWER_ATTRIBUTES
from .factories import FACTORY_ATTRIBUTES, PAUSED
from .rounding import rounding_rules, with_rounding
from .submitted_job import attribute_text
from .waiting_claims import withdraw_better_matches

# Who may set which attribute of a job, at submission and later:
#
# Immutable attributes keep their submitted values. Only queue super users can edit protected attributes. Only the
# schedd sets secure attributes; attempts to set them are ignored. In addition to HTCondor's rules, only the pool sets
# the attributes that change while a job is in the queue, and a job's submitter is fixed at submission.
#
# Source: ModifyAttrCheck and SetAttribute (qmgmt.cpp) of HTCondor; its lists of attributes (param_info.in).

IMMUTABLE: Final = "immutable"
PROTECTED: Final = "protected"
SECURE: Final = "secure"
_SETTINGS: Final = {
    IMMUTABLE: ("IMMUTABLE_JOB_ATTRS", "SYSTEM_IMMUTABLE_JOB_ATTRS"),
    PROTECTED: ("PROTECTED_JOB_ATTRS", "SYSTEM_PROTECTED_JOB_ATTRS"),
    SECURE: ("SECURE_JOB_ATTRS", "SYSTEM_SECURE_JOB_ATTRS"),
}
_ACCOUNTING_GROUP: Final = "accountinggroup"
POOL_ATTRIBUTES: Final = RUNTIME_ATTRIBUTES | FACTORY_ATTRIBUTES | {"globaljobid", "jobsetid"}
"""The lower-case names of attributes that only the pool sets."""
IDENTITY: Final = frozenset({"clusterid", "procid", "owner", "user"})
"""The attributes that no configuration allows users to edit."""


def protection_of(name: str, settings: Mapping[str, str]) -> str:
    """Return an attribute's protection under the settings: immutable, protected, secure, or an empty string."""
    return protections(settings).get(name.lower(), "")


def protections(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the protection of each protected attribute, by its lower-case name."""
    return _protections(tuple(settings.get(each, default) for each, default in ATTRIBUTE_LISTS.items()))


@lru_cache(maxsize=8)
def _protections(lists: tuple[str, ...]) -> Mapping[str, str]:
    texts = dict(zip(ATTRIBUTE_LISTS, lists, strict=True))
    guards: dict[str, str] = {}
    for kind, names in _SETTINGS.items():
        for name in names:
            for word in texts[name].replace(",", " ").split():
                guards.setdefault(word.lower(), kind)
    return guards


def edit_refusal(name: str, user: str, settings: Mapping[str, str], *, is_super: bool) -> str:
    """Return why a user may not edit an attribute of a queued job, in condor_qedit's words; empty if the user may."""
    key = name.lower()
    kind = IMMUTABLE if key in IDENTITY else protection_of(name, settings)
    if kind in (IMMUTABLE, SECURE):
        return f'Update of {kind} attribute "{name}" is not allowed.'
    if kind == PROTECTED and not is_super:
        return f"Unauthorized setting of protected attribute {name} denied for {user}: a super user of the queue may"
    if key in POOL_ATTRIBUTES:
        return f"{name} cannot be changed: the pool itself keeps it"
    if key == _ACCOUNTING_GROUP:
        reason = "it says for whom the jobs count from the start; remove them and submit them again"
        return f"{name} cannot be changed: {reason}"
    return ""


def attributes_not_settable(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the lower-case names of attributes that neither a submission nor the job's owner may set."""
    guarded = _protections(tuple(settings.get(each, default) for each, default in ATTRIBUTE_LISTS.items()))
    return POOL_ATTRIBUTES | IDENTITY | {_ACCOUNTING_GROUP} | guarded.keys()


def ignores_secure(settings: Mapping[str, str]) -> bool:
    """Check whether attempts to set secure attributes are ignored."""
    return settings.get("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS", "true").strip().lower() != "false"


_SUBMITTER_ATTRIBUTES: Final = ("Owner", "User", "ClusterId")


def allowed_changes(changes: Ad, ad: ClassAd, settings: Mapping[str, str]) -> Ad | None:
    """Return the transforms' changes that take effect, or None if one is forbidden, which makes the submission fail."""
    submitter_values = {name.lower(): attribute_text(ad, name) for name in _SUBMITTER_ATTRIBUTES}
    allowed: Ad = {}
    for name, text in changes.items():
        key = name.lower()
        if protection_of(name, settings) == SECURE:
            if not ignores_secure(settings):
                return None
        elif key in submitter_values:
            if text != submitter_values[key] and (text != "undefined" or key == "clusterid"):
                return None
        elif key == "jobstatus":
            if text not in ("1", "5"):
                return None
            if text == "5":
                allowed[name] = text
        elif key != "procid":
            allowed[name] = text
    return allowed


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
Edited = tuple[Cluster, Ad, list[int]]
"""A cluster, the new attribute values, and the processes to change."""


def edit_jobs(draft: Draft[AccessPoint], command: Edit) -> None:
    """Set attributes of jobs, or add to their numeric values.

    :raises Refusal: if this user may not edit an attribute, or an expression is invalid
    """
    from . import job_commands  # a submission reads the protection of attributes, but needs no commands

    _check_edit(draft, command)
    outcomes = job_commands.missing_jobs(draft, command.selection)
    jobs = job_commands.selected_jobs(draft, command.selection)
    if draft.state.factories and not command.dry:
        outcomes += _edit_factories(draft, command)
    edits: list[Edited] = []
    rules = rounding_rules(draft.state)
    for cluster, procs in jobs:
        if job_commands.may_act_on(draft, command.user, cluster):
            edits += [(cluster, changes, group) for changes, group in _edits(command, cluster, procs)]
        elif not command.own:
            outcomes += job_commands.results_for(cluster, procs, "permission denied")
    if not (command.dry or (command.together and any(result.result != "done" for result in outcomes))):
        for cluster, changes, group in edits:
            draft.emit(JobsEdited(*draft.header("user_edit"), cluster.id, ranges(group), with_rounding(rules, changes)))
            withdraw_better_matches(draft, cluster.id, group)
            if not LOWER_ATTRIBUTES.isdisjoint(map(str.lower, changes)):
                from .job_deferral import schedule_runs

                schedule_runs(draft, cluster, [proc for proc in group if cluster.status_of(proc) == "Idle"])
    outcomes += [ActionResult(cluster.id, ranges(group), "done", changes) for cluster, changes, group in edits]
    changes_json = msgspec.json.encode(command.changes).decode()
    answer(draft, command, "edit", changes_json, [result.as_answer() for result in outcomes])


def _edit_factories(draft: Draft[AccessPoint], command: Edit) -> list[ActionResult]:
    from . import job_commands
    from .factories import move_factory, selected_factories

    outcomes: list[ActionResult] = []
    constraint = job_commands.parse_constraint(command.selection.constraint)
    for cluster in selected_factories(draft, command.selection, constraint):
        if not job_commands.may_act_on(draft, command.user, cluster):
            continue
        assert cluster.factory is not None
        first, last = cluster.factory.materialized, cluster.count - 1
        ((changes, _),) = _edits(command, cluster, [first])
        rounded = with_rounding(rounding_rules(draft.state), changes)
        draft.emit(JobsEdited(*draft.header("user_edit"), cluster.id, ((first, last),), rounded))
        paused_text = next((text for name, text in changes.items() if name.lower() == PAUSED.lower()), "")
        if paused_text:
            action = "release" if paused_text.strip() in ("0", "false", "undefined") else "hold"
            move_factory(draft, cluster, action, "user_edit", "")
        outcomes.append(ActionResult(cluster.id, ((first, last),), "done", changes))
    return outcomes


def _check_edit(draft: Draft[AccessPoint], command: Edit) -> None:
    settings = draft.state.settings
    is_super = command.user in super_users(settings)
    for name, text in command.changes.items():
        if not _NAME.fullmatch(name):
            raise Refusal(
                f"{name!r} is not a valid attribute name; use letters, digits and _, and do not start with a digit"
            )
        refusal = edit_refusal(name, command.user, settings, is_super=is_super)
        if refusal:
            raise Refusal(refusal, protection_of(name, settings) if name.lower() not in IDENTITY else IMMUTABLE)
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"{name} = {text}: {error}") from None


def _edits(command: Edit, cluster: Cluster, procs: list[int]) -> list[tuple[Ad, list[int]]]:
    spellings = {name.lower(): name for name in (*cluster.ad, *cluster.variants.names)}
    edits = {spellings.get(name.lower(), name): text for name, text in command.changes.items()}
    if not command.add:
        return [(edits, procs)]
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for proc in procs:
        sums = tuple((name, _sum(cluster.value(proc, name, "0"), addend)) for name, addend in edits.items())
        groups.setdefault(sums, []).append(proc)
    return [(dict(changes), group) for changes, group in groups.items()]


def _sum(text: str, addend: str) -> str:
    """Return the sum of two numbers; if they are not both plain numbers, return an expression."""
    try:
        return str(int(text) + int(addend))
    except ValueError:
        return f"({text}) + ({addend})"
