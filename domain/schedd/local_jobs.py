"""Jobs of the local and the scheduler universe: the access point runs them itself, at once, without a match or a slot.

One begins when START_LOCAL_UNIVERSE (START_SCHEDULER_UNIVERSE) is true of it in the schedd's ad, and its own
Requirements are true with that ad in the place of a slot's. Of one owner's scheduler universe jobs
MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER run at a time. Source: Scheduler::IsLocalJobEligibleToRun (schedd.cpp) of the
reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from ..classad import Expression, unparse
from ..classad.analysis import references_or_empty
from ..classad.evidence import truth_of, value_text, values_read
from ..classad.tree import Literal
from ..decision.draft import Draft
from ..events import JobActivated
from ..ports.messages import ShowHost, TellLikeness
from ..requests.idle_jobs import queues_of, unmatched_procs
from ..state.caches import ad_of, parse_cached
from ..state.cluster import SCHEDULER_UNIVERSE, Cluster
from ..state.job_ad import STATUS_NUMBERS
from ..state.pool_settings import START_SETTINGS, job_limit
from ..state.records import RUNS
from ..state.state import AccessPoint
from .expansion import expanded_by
from .job_deferral import deferral, sleeps
from .policy_kinds import attributes_read, kinds
from .schedd_ad import HARDWARE, running_of, schedd_ad

INTERVAL: Final = 300_000_000
"""Microseconds from one look to the next where it is a matter of the time: HTCondor's SCHEDD_INTERVAL by default."""
_TRUE: Final = Literal(True)


def start_local_jobs(draft: Draft[AccessPoint]) -> None:
    """Start the jobs that may begin, in the order of submission."""
    state = draft.state
    if not state.idle_local:
        return
    gate = _Gate(draft)
    for number in list(queues_of(state, draft.caches, draft.send(TellLikeness())).local):
        cluster = state.clusters[number]
        for proc in gate.let_in(cluster):
            expanded = expanded_by(draft, dict, cluster, proc)
            if expanded is None:
                continue
            draft.fire("job", "Idle", "activate")
            place, until = f"local@{state.name}", deferral(draft, cluster, proc)
            evidence = gate.evidence(cluster, proc)
            began = JobActivated(*draft.why("local"), cluster.id, proc, place, "", expanded=expanded, deferred=until)
            draft.emit(replace(began, evidence=evidence) if evidence else began)
            gate.began(cluster)


def next_look(state: AccessPoint, now: int) -> int | None:
    """When the time alone may let another job begin; None: it does not. Requirements that name the clock are
    ``job_deferral``'s."""
    if not state.idle_local or not any(_names_clock(_start(state, universe)) for universe in START_SETTINGS):
        return None
    return (now // INTERVAL + 1) * INTERVAL


def _names_clock(condition: Expression) -> bool:
    text = str(condition).lower()
    return "time" in text or "date" in text


class _Gate:
    """Which jobs may begin. What it says holds until one has begun."""

    def __init__(self, draft: Draft[AccessPoint]) -> None:
        self._draft, self._ad = draft, schedd_ad(draft.state, draft.send(ShowHost()))
        self._knows_machine = all(name in self._ad for name in HARDWARE)
        self._starts = {universe: _start(draft.state, universe) for universe in START_SETTINGS}
        read = {universe: references_or_empty(start, self._ad).external for universe, start in self._starts.items()}
        self._for_all = {universe: not names for universe, names in read.items()}
        """The universes of whose jobs none is read: if it is false of one, it is of all."""
        self._most_of_owner = job_limit(draft.state.settings, "MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER") or 0
        self._of_owner: Counter[str] | None = None

    def let_in(self, cluster: Cluster) -> Iterator[int]:
        """Yield the jobs of a cluster that may begin. The caller starts each before it takes the next."""
        universe, state = cluster.universe, self._draft.state
        if self._closed(cluster):
            return
        procs = list(unmatched_procs(cluster, state))
        if not procs:
            return
        conditions = [self._starts[universe], *_requirements(cluster, procs)]
        for alike in kinds(cluster, procs, attributes_read(conditions, cluster, procs[0])):
            for proc in alike:
                if self._closed(cluster):
                    return
                if sleeps(cluster, proc, self._draft.now, self._draft.context.timezone):
                    continue
                if not self._meets(cluster, proc):
                    break
                yield proc

    def evidence(self, cluster: Cluster, proc: int) -> int:
        """Where the log has the expression that let a job in; 0: HTCondor's default did, or one that reads nothing."""
        setting, _ = START_SETTINGS[cluster.universe]
        if setting not in self._draft.state.settings:
            return 0
        start, context = self._starts[cluster.universe], self._draft.context
        job = None if self._for_all[cluster.universe] else ad_of(cluster.attributes(proc))
        read = values_read(start, self._ad, job, context)
        return self._draft.note(setting, unparse(start), value_text(start.evaluate(self._ad, job, context)), read)

    def began(self, cluster: Cluster) -> None:
        """Count a job of this cluster as one that runs."""
        name = running_of(cluster.universe)
        count = self._ad[name]
        assert isinstance(count, Literal) and isinstance(count.value, int)
        self._ad[name] = Literal(count.value + 1)
        if self._of_owner is not None:
            self._of_owner[self._draft.state.owner(cluster)] += 1

    def _closed(self, cluster: Cluster) -> bool:
        """Whether none of the cluster's jobs may begin, whatever it says."""
        universe = cluster.universe
        if universe == SCHEDULER_UNIVERSE and self._running_of(cluster) >= self._most_of_owner:
            return True
        return self._for_all[universe] and not truth_of(self._starts[universe], self._ad, None, self._draft.context)

    def _running_of(self, cluster: Cluster) -> int:
        state = self._draft.state
        if self._of_owner is None:
            self._of_owner = Counter()
            for each in state.clusters.values():
                if each.universe == SCHEDULER_UNIVERSE:
                    running = sum(each.status_counts[STATUS_NUMBERS[name]] for name in RUNS)
                    self._of_owner[state.owner(each)] += running
        return self._of_owner[state.owner(cluster)]

    def _meets(self, cluster: Cluster, proc: int) -> bool:
        job, context = ad_of(cluster.attributes(proc)), self._draft.context
        start = self._starts[cluster.universe]
        if not self._for_all[cluster.universe] and not truth_of(start, self._ad, job, context):
            return False
        met = truth_of(job.get("Requirements") or _TRUE, job, self._ad, context)
        return bool(met) or (met is None and not self._knows_machine)


def _start(state: AccessPoint, universe: str) -> Expression:
    setting, default = START_SETTINGS[universe]
    meaning = parse_cached(state.settings.get(setting) or default)
    assert meaning is not None
    return meaning


def _requirements(cluster: Cluster, procs: list[int]) -> Iterator[Expression]:
    """The Requirements that these jobs of a cluster have."""
    together = cluster.is_uniform("Requirements")
    for text in dict.fromkeys(
        cluster.requested_value(proc, "Requirements") for proc in (procs[:1] if together else procs)
    ):
        meaning = parse_cached(text) if text else None
        if meaning is not None:
            yield meaning
