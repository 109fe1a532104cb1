"""What a match was made of: the job's Requirements, and the values that they read."""

from __future__ import annotations

from ..classad import ClassAd, EvaluationError, unparse
from ..decision.draft import Draft
from ..events import EvaluationRecorded
from ..startd.evaluation import unparsed
from ..state.cluster import Cluster
from ..state.expression_cache import ad_of


def job_ad(cluster: Cluster, proc: int) -> ClassAd:
    """Return the ad of a job as a match sees it."""
    return ad_of(cluster.attributes(proc))


def evidence(draft: Draft, job: ClassAd, slot: ClassAd) -> EvaluationRecorded:
    """What the job's Requirements read, of its own ad and of the best slot's."""
    requirements = job["Requirements"]
    read: dict[str, str] = {}
    references = requirements.references(job)
    for name in references.internal:
        read[f"MY.{name}"] = _value(job, name, slot, draft)
    for name in references.external:
        short = name.rpartition(".")[2]
        if short in slot:
            read[f"TARGET.{short}"] = _value(slot, short, job, draft)
    return EvaluationRecorded(*draft.why("negotiated"), "Requirements", unparse(requirements), "true", read)


def _value(ad: ClassAd, name: str, other: ClassAd, draft: Draft) -> str:
    try:
        value = ad.eval(name, other, draft.context)
    except EvaluationError:
        return "error"
    return unparsed(value)
