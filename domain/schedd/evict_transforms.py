"""The transforms of a job's own, which change it at the end of a run that is to hold it: TransformOnEvict.

So a job that used more memory than it had asked for asks for more, and waits again instead (``retry_request_memory``).
TransformOnEvict names them in their order; the attribute TransformBody_NAME has the lines of one. The first that
changes a request which slots are matched by is the last, and the hold is left out. What the others changed stays.

Source: Scheduler::shadowExitCode and TransformOnEvict (schedd.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from typing import Final

from ..classad import EvaluationError
from ..decision.draft import Draft, ranges
from ..events import Ad, JobExited, JobsEdited
from ..ports.messages import TellLikeness
from ..state.caches import ad_of, parse_cached
from ..state.cluster import ON_EVICT, Cluster
from ..state.job_ad import ad_at_exit
from ..state.state import AccessPoint
from .job_edits import why_not_edit
from .job_transforms import Applied, Transform, TransformError, TransformMacros, apply, read_transform
from .submitted_job import GONE, SubmittedJob

BODY: Final = "TransformBody_"
_SEPARATOR: Final = "\x1e"
_REQUEST: Final = "request"


def requests_otherwise(draft: Draft[AccessPoint], cluster: Cluster, exited: JobExited) -> bool:
    """Change a job whose run ends with a hold, as ``exited`` tells, by its transforms; return whether it now asks for
    something else of a slot, so that it need not be held."""
    proc = exited.proc
    kept_changes = {name: text for name, text in exited.changes.items() if not name.startswith("HoldReason")}
    for name in _names(cluster, proc):
        ad = ad_at_exit(cluster.attributes(proc), exited) | kept_changes
        transform = _transform(name, cluster.requested_value(proc, f"{BODY}{name}"))
        job = SubmittedJob(ad_of(ad), {}, ad)
        if transform is None or not transform.is_for(job, draft.context):
            continue
        try:
            done = apply(transform, job, TransformMacros(job, {}, draft.context), draft.context)
        except TransformError:
            continue
        changes = {name: text for name, text in job.changes().items() if text != (ad.get(name) or GONE)}
        refused = [attr for attr in changes if why_not_edit(attr, "", draft.state.settings, is_super=True)]
        done.skipped += [f"{attr} is not a user's to set" for attr in refused]
        _tell(draft, cluster, proc, done, {attr: text for attr, text in changes.items() if attr not in refused}, ad)
        significant = draft.send(TellLikeness()).names
        if any(attr.lower().startswith(_REQUEST) and attr.lower() in significant for attr in changes):
            return True
    return False


def _names(cluster: Cluster, proc: int) -> list[str]:
    names = parse_cached(cluster.requested_value(proc, ON_EVICT) or "undefined")
    try:
        value = None if names is None else names.evaluate(ad_of(cluster.attributes(proc)), None)
    except EvaluationError:
        value = None
    return re.split(r"[,\s]+", value.strip()) if isinstance(value, str) and value.strip() else []


def _transform(name: str, text: str) -> Transform | None:
    """The transform that a TransformBody_ has; None: it is none."""
    transform = parse_cached(text or "undefined")
    try:
        lines = None if transform is None else transform.evaluate(ad_of({}), None)
        return read_transform(name, lines.replace(_SEPARATOR, "\n")) if isinstance(lines, str) else None
    except (EvaluationError, TransformError):
        return None


def _tell(draft: Draft[AccessPoint], cluster: Cluster, proc: int, done: Applied, changes: Ad, before: Ad) -> None:
    notes = [
        draft.note(f"{BODY}{done.name} {one.what}".rstrip(), one.text, one.value, dict(one.read))
        for one in done.evaluations
    ]
    draft.emit(
        JobsEdited(
            *draft.why("evict_transform"), cluster.id, ranges([proc]), changes,
            transform=done.name,
            before={name: before.get(name, "") for name in changes},
            noted=tuple(note for note in notes if note),
            skipped=tuple(done.skipped),
        )
    )  # fmt: skip
