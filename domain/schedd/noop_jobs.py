"""Jobs that complete without running (noop_job).

An idle job whose IsNoopJob is true completes at the next decision about its cluster, as if its process had ended with
NoopJobExitCode, or else by the signal NoopJobExitSignal. HTCondor 25 reads IsNoopJob only after an edit of the job.
Source: the manual's page "Submit Description File Commands"; count_a_job (schedd.cpp) and IsNoopJob (qmgmt.cpp) of
HTCondor.
"""

from __future__ import annotations

from ..classad.value_evidence import integer_of, truth_of
from ..decision.draft import Draft, ranges
from ..events import Ad
from ..events.base import ClusterEvent
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster
from ..state.records import NOOP
from ..state.state import AccessPoint
from .waiting_claims import withdraw_better_matches

_CODE, _SIGNAL = "NoopJobExitCode", "NoopJobExitSignal"


def complete_noop_jobs(draft: Draft[AccessPoint]) -> None:
    """Complete the idle noop jobs of the clusters that this decision has changed."""
    state = draft.state
    changed = {event.cluster for event in draft.events if isinstance(event, ClusterEvent)}
    for number in sorted(changed & state.noop):
        cluster = state.clusters[number]
        if not state.dialect.completes_submitted_noop_jobs and NOOP.lower() not in cluster.edited_names:
            continue
        groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
        proc = cluster.next_idle()
        while proc >= 0:
            if (number, proc) not in state.by_job and (changes := _changes(draft, cluster, proc)):
                groups.setdefault(tuple(changes.items()), []).append(proc)
            proc = cluster.next_idle(proc)
        for items, procs in groups.items():
            draft.move_jobs(cluster, ranges(procs), "complete", "noop", "Idle", dict(items))
            withdraw_better_matches(draft, number, procs)


def _changes(draft: Draft[AccessPoint], cluster: Cluster, proc: int) -> Ad:
    """Return the end of a noop job as changes to its ad; empty for any other job."""
    if not cluster.requested_value(proc, NOOP):
        return {}
    ad = ad_from_attributes(cluster.attributes(proc))
    expressions = {name: ad.get(name) for name in (NOOP, _CODE, _SIGNAL)}
    condition = expressions[NOOP]
    if condition is None or not truth_of(condition, ad, None, draft.context):
        return {}
    code, signal = (
        None if (tree := expressions[name]) is None else integer_of(tree, ad, None, draft.context)
        for name in (_CODE, _SIGNAL)
    )
    ended = {"CompletionDate": str(draft.now // 1_000_000)}
    if code is None and signal:
        return ended | {"ExitBySignal": "true", "ExitSignal": str(signal)}
    return ended | {"ExitBySignal": "false", "ExitCode": str(code or 0)}
