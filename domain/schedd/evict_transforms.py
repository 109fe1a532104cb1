"""A job's own transforms (TransformOnEvict), which change the job when a run ends with a hold.

For example, a job that exceeded its memory requests more memory and becomes idle instead of held
(``retry_request_memory``). TransformOnEvict lists the transforms, and the attribute TransformBody_NAME contains the
lines of the transform NAME. The transforms are applied in order until one of them changes a request that matching reads
(such as RequestMemory), because the job may then run elsewhere instead of being held. The changes by earlier transforms
are kept.

Source: Scheduler::shadowExitCode and TransformOnEvict (schedd.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from typing import Final

from ..classad import EvaluationError
from ..decision.draft import Draft, ranges
from ..events import Ad, JobExited, JobsEdited
from ..ports.messages import ShowAutoclusters
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import ON_EVICT, Cluster
from ..state.job_ad import ad_at_exit
from ..state.state import AccessPoint
from .job_edits import edit_refusal
from .job_transforms import (
    AppliedTransform,
    Transform,
    TransformError,
    TransformMacros,
    apply_transform,
    read_transform,
    record_evaluations,
)
from .rounding import rounding_rules, with_rounding
from .submitted_job import DELETED_TEXT, SubmittedJob

BODY_PREFIX: Final = "TransformBody_"
_SEPARATOR: Final = "\x1e"
_REQUEST_PREFIX: Final = "request"


def apply_evict_transforms(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> bool:
    """Apply a job's transforms if ``exited`` would hold the job. Return True if this changed the job's resource
    requests, so that the hold is unnecessary."""
    proc = exited.proc
    run_changes = {name: text for name, text in exited.changes.items() if not name.startswith("HoldReason")}
    for name in _transform_names(cluster, proc):
        ad = ad_at_exit(cluster.attributes(proc), exited) | run_changes
        transform = _parse_transform(name, cluster.requested_value(proc, f"{BODY_PREFIX}{name}"))
        job = SubmittedJob(ad_from_attributes(ad), {}, ad)
        if transform is None or not transform.is_for(job, draft.context):
            continue
        try:
            applied = apply_transform(transform, job, TransformMacros(job, {}, draft.context), draft.context)
        except TransformError:
            continue
        changes = {name: text for name, text in job.changes().items() if text != (ad.get(name) or DELETED_TEXT)}
        rejected = [attr for attr in changes if edit_refusal(attr, "", draft.state.settings, is_super=True)]
        applied.skipped += [f"{attr} is not a user's to set" for attr in rejected]
        permitted = {attr: text for attr, text in changes.items() if attr not in rejected}
        _log_changes(draft, cluster, proc, applied, permitted, ad)
        significant = draft.send(ShowAutoclusters()).names
        if any(attr.lower().startswith(_REQUEST_PREFIX) and attr.lower() in significant for attr in changes):
            return True
    return False


def _transform_names(cluster: Cluster, proc: int) -> list[str]:
    names = parse_cached(cluster.requested_value(proc, ON_EVICT) or "undefined")
    try:
        value = None if names is None else names.evaluate(ad_from_attributes(cluster.attributes(proc)), None)
    except EvaluationError:
        value = None
    return re.split(r"[,\s]+", value.strip()) if isinstance(value, str) and value.strip() else []


def _parse_transform(name: str, text: str) -> Transform | None:
    transform = parse_cached(text or "undefined")
    try:
        lines = None if transform is None else transform.evaluate(ad_from_attributes({}), None)
        return read_transform(name, lines.replace(_SEPARATOR, "\n")) if isinstance(lines, str) else None
    except (EvaluationError, TransformError):
        return None


def _log_changes(
    draft: Draft[AccessPoint], cluster: Cluster, proc: int, applied: AppliedTransform, changes: Ad, before: Ad
) -> None:
    changes = with_rounding(rounding_rules(draft.state), changes)
    draft.emit(
        JobsEdited(
            *draft.header("evict_transform"), cluster.id, ranges([proc]), changes,
            transform=applied.name,
            before={name: before.get(name, "") for name in changes},
            noted=record_evaluations(draft, applied, BODY_PREFIX),
            skipped=tuple(applied.skipped),
        )
    )  # fmt: skip
