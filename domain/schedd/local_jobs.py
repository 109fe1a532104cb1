"""Jobs of the local and scheduler universes, which the access point runs directly, without a match or a slot.

A job starts when START_LOCAL_UNIVERSE (or START_SCHEDULER_UNIVERSE), evaluated in the schedd's ad, and the job's
Requirements, evaluated against that ad instead of a slot's, are true. MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER limits the
running scheduler universe jobs of an owner. Source: Scheduler::IsLocalJobEligibleToRun (schedd.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from ..classad import Expression, unparse
from ..classad.analysis import references_or_empty
from ..classad.tree import Literal
from ..classad.value_evidence import truth_of, value_text, values_read
from ..decision.draft import Draft
from ..events import JobActivated
from ..ports.messages import ShowAutoclusters, ShowHost
from ..requests.idle_jobs import queues_of, unmatched_procs
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import STATUS_NUMBERS
from ..state.pool_settings import START_SETTINGS, job_limit
from ..state.records import RUNS
from ..state.state import AccessPoint
from .expansion import expand_for_slot
from .job_deferral import deferred_start, unmatchable_until
from .policy_kinds import attributes_read, group_alike
from .schedd_ad import HARDWARE, running_attribute, schedd_ad

INTERVAL: Final = 300_000_000
"""The interval, in microseconds, for evaluating a condition that reads the time: HTCondor's default SCHEDD_INTERVAL."""
_TRUE: Final = Literal(True)
_CLOCK: Final = re.compile("time|date", re.IGNORECASE)


def start_local_jobs(draft: Draft[AccessPoint]) -> None:
    """Start the local jobs that may start, in submission order."""
    state = draft.state
    if not state.idle_local:
        return
    conditions = _StartConditions(draft)
    for number in list(queues_of(state, draft.caches, draft.send(ShowAutoclusters())).local):
        cluster = state.clusters[number]
        for proc in conditions.procs_to_start(cluster):
            expanded = expand_for_slot(draft, dict, cluster, proc)
            if expanded is None:
                continue
            draft.fire("job", "Idle", "activate")
            slot_name, deferred = f"local@{state.name}", deferred_start(draft, cluster, proc, {})
            evidence = conditions.record_evidence(cluster, proc)
            why = draft.header("local")
            activated = JobActivated(*why, cluster.id, proc, slot_name, "", expanded=expanded, deferred=deferred)
            draft.emit(replace(activated, evidence=evidence) if evidence else activated)
            conditions.count_started(cluster)


def next_evaluation(state: AccessPoint, now: int) -> int | None:
    """Return when a start condition that reads the clock is next evaluated, in microseconds; None if there is none."""
    if not state.idle_local or not any(
        _CLOCK.search(str(_universe_start_condition(state, universe))) for universe in START_SETTINGS
    ):
        return None
    return (now // INTERVAL + 1) * INTERVAL


class _StartConditions:
    """The conditions for starting jobs, evaluated with the current numbers of running jobs."""

    def __init__(self, draft: Draft[AccessPoint]) -> None:
        self._draft, self._ad = draft, schedd_ad(draft.state, draft.send(ShowHost()))
        self._knows_machine = all(name in self._ad for name in HARDWARE)
        self._starts = {universe: _universe_start_condition(draft.state, universe) for universe in START_SETTINGS}
        read = {universe: references_or_empty(start, self._ad).external for universe, start in self._starts.items()}
        self._same_for_all = {universe: not names for universe, names in read.items()}
        """Whether each universe's condition reads no job attribute and is therefore the same for all jobs."""
        self._max_per_owner = job_limit(draft.state.settings, "MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER") or 0
        self._running_by_owner: Counter[str] | None = None

    def procs_to_start(self, cluster: Cluster) -> Iterator[int]:
        """Yield the jobs of a cluster that may start. The caller must start each job before requesting the next one."""
        universe, state = cluster.universe, self._draft.state
        if self._excludes_all(cluster):
            return
        procs = list(unmatched_procs(cluster, state))
        if not procs:
            return
        conditions = [self._starts[universe], *_requirements(cluster, procs)]
        for procs_alike in group_alike(cluster, procs, attributes_read(conditions, cluster, procs[0])):
            for proc in procs_alike:
                if self._excludes_all(cluster):
                    return
                if unmatchable_until(cluster, proc, self._draft.now, self._draft.context.timezone):
                    continue
                if not self._may_start(cluster, proc):
                    break
                yield proc

    def record_evidence(self, cluster: Cluster, proc: int) -> int:
        """Log the evaluation that allowed a job to start, and return its log position; 0 for the default condition."""
        setting, _ = START_SETTINGS[cluster.universe]
        if setting not in self._draft.state.settings:
            return 0
        start, context = self._starts[cluster.universe], self._draft.context
        job = None if self._same_for_all[cluster.universe] else ad_from_attributes(cluster.attributes(proc))
        read = values_read(start, self._ad, job, context)
        return self._draft.record_evaluation(
            setting, unparse(start), value_text(start.evaluate(self._ad, job, context)), read
        )

    def count_started(self, cluster: Cluster) -> None:
        """Count a job of this cluster as running."""
        name = running_attribute(cluster.universe)
        count = self._ad[name]
        assert isinstance(count, Literal) and isinstance(count.value, int)
        self._ad[name] = Literal(count.value + 1)
        if self._running_by_owner is not None:
            self._running_by_owner[self._draft.state.owner(cluster)] += 1

    def _excludes_all(self, cluster: Cluster) -> bool:
        """Check whether no job of the cluster may start, regardless of its attributes."""
        universe = cluster.universe
        if universe == SCHEDULER_UNIVERSE and self._running_of(cluster) >= self._max_per_owner:
            return True
        return self._same_for_all[universe] and not truth_of(
            self._starts[universe], self._ad, None, self._draft.context
        )

    def _running_of(self, cluster: Cluster) -> int:
        state = self._draft.state
        if self._running_by_owner is None:
            self._running_by_owner = Counter()
            for each in state.clusters.values():
                if each.universe == SCHEDULER_UNIVERSE:
                    running = sum(each.status_counts[STATUS_NUMBERS[name]] for name in RUNS)
                    self._running_by_owner[state.owner(each)] += running
        return self._running_by_owner[state.owner(cluster)]

    def _may_start(self, cluster: Cluster, proc: int) -> bool:
        job, context = ad_from_attributes(cluster.attributes(proc)), self._draft.context
        start = self._starts[cluster.universe]
        if not self._same_for_all[cluster.universe] and not truth_of(start, self._ad, job, context):
            return False
        requirements_met = truth_of(job.get("Requirements") or _TRUE, job, self._ad, context)
        return bool(requirements_met) or (requirements_met is None and not self._knows_machine)


def _universe_start_condition(state: AccessPoint, universe: str) -> Expression:
    setting, default = START_SETTINGS[universe]
    parsed = parse_cached(state.settings.get(setting) or default)
    assert parsed is not None
    return parsed


def _requirements(cluster: Cluster, procs: list[int]) -> Iterator[Expression]:
    is_uniform = cluster.is_uniform("Requirements")
    for text in dict.fromkeys(
        cluster.requested_value(proc, "Requirements") for proc in (procs[:1] if is_uniform else procs)
    ):
        parsed = parse_cached(text) if text else None
        if parsed is not None:
            yield parsed
