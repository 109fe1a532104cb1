"""The few words with which HTCondor's negotiator tells a schedd why a job was rejected."""

from __future__ import annotations

from ..events import Unmatched


def rejection_reason(refusal: Unmatched) -> str:
    """Return the reason that HTCondor's negotiator would have given to the schedd (``matchmaker.cpp``)."""
    if refusal.reached:
        return f"concurrency limit {', '.join(one.name for one in refusal.reached)} reached"
    if refusal.denied is not None and refusal.denied.policy:
        return "PREEMPTION_REQUIREMENTS == False"
    if refusal.denied is not None and refusal.denied.priority:
        return "insufficient priority"
    if refusal.limit == "quota":
        has = f"{refusal.group} has {refusal.used:g} of the {refusal.allowed:g} cores of its quota"
        return f"submitter limit exceeded: {has}"
    return "submitter limit exceeded" if refusal.limit in ("share", "ceiling") else "no match found"
