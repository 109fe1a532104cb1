"""The jobs that wait, in the order in which they are served, and which of them are alike.

Order: of one submitter's jobs by JobPrio, higher first, then by submission (cluster, process); submitters take turns,
beginning with the one who has used least (a full fair share is the negotiator's, later). Jobs are alike for a match if
all the attributes are equal that their own Requirements and Rank and the slots' expressions may read of them: such jobs
form an autocluster, and what was found for one holds for all.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Container, Iterable, Iterator, Sequence

from ..classad import ClassAd, parse, symmetric_match
from ..job_ad import LIVED
from ..policy.view import matched_by, moment, static, view
from ..state import IDLE, Cluster, Slot, State
from ..texts import ad_of
from .draft import Draft

Signature = tuple[tuple[str, str], ...]
"""The significant attributes of a job that it has, with their texts: equal for jobs that are alike."""

ALWAYS_SIGNIFICANT = ("Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")
_SLOT_EXPRESSIONS = ("Start", "Requirements", "WithinResourceLimits", "Rank")


def _prio(cluster: Cluster, proc: int) -> int:
    try:
        return int(cluster.value(proc, "JobPrio", "0"))
    except ValueError:
        return 0


def idle_procs(cluster: Cluster, state: State) -> Iterator[int]:
    """The processes of a cluster that wait and have nothing left of an earlier run."""
    proc = cluster.next_idle()
    while proc >= 0:
        if (cluster.id, proc) not in state.by_job:  # a job whose processes are still ending waits for that first
            yield proc
        proc = cluster.next_idle(proc)


Entry = tuple[int, int, Cluster]
"""A cluster, or its jobs of one priority: the negated JobPrio, the cluster's number, the cluster."""


def _plain_prio(cluster: Cluster) -> bool:
    """Whether all jobs of the cluster have one JobPrio."""
    return "JobPrio" not in cluster.variants.names and "jobprio" not in cluster.edited


def _queues(state: State) -> dict[str, list[Entry]]:
    """Each submitter's clusters in their order: kept until a cluster comes or goes or is edited."""
    known: tuple[int, dict[str, list[Entry]]] | None = state.kept.get("queues")
    if known is None or known[0] != state.queued:
        known = state.kept["queues"] = (state.queued, _sorted(state.clusters.values()))
    return known[1]


def _sorted(clusters: Iterable[Cluster]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for cluster in clusters:
        if not cluster.local:
            prio = -_prio(cluster, 0) if _plain_prio(cluster) else 0
            found.setdefault(cluster.submitter, []).append((prio, cluster.id, cluster))
    for entries in found.values():
        entries.sort(key=lambda entry: entry[:2])
    return found


def _of_one(state: State, entries: list[Entry], skipped: Container[int]) -> Iterator[tuple[Cluster, int]]:
    """The waiting jobs of one submitter, first come first."""
    plain = [entry for entry in entries if entry[2].counts[IDLE]]
    edited = [cluster for _, _, cluster in plain if not _plain_prio(cluster)]
    if not edited:
        return ((cluster, proc) for _, _, cluster in plain for proc in _unskipped(cluster, state, skipped))
    each = [
        sorted((-_prio(cluster, proc), cluster.id, proc) for proc in idle_procs(cluster, state)) for cluster in edited
    ]
    rest = (
        (prio, number, proc)
        for prio, number, cluster in plain
        if _plain_prio(cluster)
        for proc in _unskipped(cluster, state, skipped)
    )
    return ((state.clusters[number], proc) for _, number, proc in heapq.merge(rest, *each))


def _unskipped(cluster: Cluster, state: State, skipped: Container[int]) -> Iterator[int]:
    for proc in idle_procs(cluster, state):
        if cluster.id in skipped:
            return
        yield proc


def waiting(
    state: State, submitter: str | None = None, clusters: Sequence[int] = (), skipped: Container[int] = ()
) -> Iterator[tuple[Cluster, int]]:
    """The jobs that wait for a slot (of one submitter, of some clusters), first come first; of several submitters, one
    job of each in turn, beginning with who has used least. A cluster that comes to be in `skipped` while this is read
    is left; the state must not change."""
    queues = _sorted(state.clusters[n] for n in clusters if n in state.clusters) if clusters else _queues(state)
    if submitter is not None:
        yield from _of_one(state, queues.get(submitter, []), skipped)
        return
    turns = sorted(queues, key=lambda name: (state.usage.get(name, 0), queues[name][0][1], name))
    jobs = [_of_one(state, queues[name], skipped) for name in turns]
    while jobs:
        left = []
        for mine in jobs:
            job = next(mine, None)
            if job is not None:
                yield job
                left.append(mine)
        jobs = left


def significance(state: State) -> Significance:
    """The significance of attributes in this state: kept for as long as no slot reads others."""
    stamp = (len(state.slots), max((slot.version for slot in state.slots.values()), default=0))
    known: tuple[tuple[int, int], Significance] | None = state.kept.get("significance")
    if known is not None and known[0] == stamp:
        return known[1]
    found = Significance(state)
    if known is not None and known[1].names == found.names:
        found = known[1]
    state.kept["significance"] = (stamp, found)
    return found


class Significance:
    """Which attributes are significant, and by them each job's signature."""

    def __init__(self, state: State) -> None:
        names = {name.lower(): name for name in ALWAYS_SIGNIFICANT}
        for texts in {tuple(slot.ad.get(name, "") for name in _SLOT_EXPRESSIONS) for slot in state.slots.values()}:
            for text in filter(None, texts):
                for name in _read(text).external:
                    short = name.rpartition(".")[2]
                    names.setdefault(short.lower(), short)
        self.names = names
        self._of_cluster: dict[int, tuple[Cluster, int, Signature]] = {}

    def signature(self, cluster: Cluster, proc: int) -> Signature:
        """The signature of one job."""
        variants = cluster.variants
        known = self._of_cluster.get(cluster.id)
        if known is not None and known[0] is cluster and known[1] == len(cluster.edited):
            return known[2]
        texts = {**cluster.ad, **variants.of(proc), **cluster.changes(proc)}
        lower = {name.lower(): name for name in texts}
        wanted = list(self.names)
        seen = set(wanted)
        found: list[tuple[str, str]] = []
        for name in wanted:  # grows: what a significant attribute reads is significant
            spelled = lower.get(name)
            if spelled is None or not texts[spelled]:
                continue
            text = texts[spelled]
            found.append((name, text))
            for read in _names_in(text):
                if read not in seen:
                    seen.add(read)
                    wanted.append(read)
        signature = tuple(sorted(found))
        own = {name.lower() for name in variants.names}
        if seen.isdisjoint(own) and seen.isdisjoint(cluster.edited) and seen.isdisjoint(LIVED):
            self._of_cluster[cluster.id] = (cluster, len(cluster.edited), signature)
        else:
            self._of_cluster.pop(cluster.id, None)
        return signature

    def uniform(self, cluster: Cluster) -> bool:
        """Whether all jobs of the cluster have the signature that was found for one of them: no attribute that counts
        differs between them."""
        return cluster.id in self._of_cluster


_REFERENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}


class _Read:
    __slots__ = ("external", "internal")

    def __init__(self, internal: tuple[str, ...], external: tuple[str, ...]) -> None:
        self.internal, self.external = internal, external


def _read(text: str) -> _Read:
    """The attributes that an expression reads, of its own ad and of the other. What is kept is a cache."""
    known = _REFERENCES.get(text)
    if known is None:
        found = parse(text).references(ClassAd())
        known = (tuple(found.internal), tuple(found.external))
        if len(_REFERENCES) > 5000:
            _REFERENCES.clear()
        _REFERENCES[text] = known
    return _Read(*known)


def _names_in(text: str) -> Iterator[str]:
    """The attributes of the job's own ad that an expression in it may read: lower case, without a scope. An unscoped
    name may mean either ad, so it counts."""
    if text.isdigit() or text.startswith('"'):
        return
    read = _read(text)
    for name in (*read.internal, *read.external):
        scope, _, short = name.rpartition(".")
        if scope.lower() != "target":
            yield short.lower()


_FITS_KEPT = 10_000


def fits(draft: Draft, slot: Slot, cluster: Cluster, proc: int, signature: Signature) -> bool:
    """Whether job and slot accept each other now. The answer for jobs alike is kept for this second."""
    kept: dict[tuple[Signature, str, int, int], bool] = draft.state.kept.setdefault("fits", {})
    key = (signature, slot.name, slot.version, draft.now // 1_000_000)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _FITS_KEPT:
            kept.clear()
        slot_now = slot_ad(draft, slot, words(signature))
        found = kept[key] = symmetric_match(job_ad(cluster, proc), slot_now, draft.context)
    return found


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def words(signature: Signature) -> frozenset[str]:
    """What the jobs of a signature may read of a slot, and more: all words of their significant attributes, in small
    letters."""
    return frozenset(word.lower() for _, text in signature for word in _WORD.findall(text))


def slot_ad(draft: Draft, slot: Slot, also: frozenset[str]) -> ClassAd:
    """The ad of a slot at this moment as a match sees it: with the attributes of the moment that its own expressions
    read, and those of ``also``. While its machine drains, START is what the drain says."""
    found = moment(draft.state, slot, draft.sense, draft.now, draft.context)
    return view(found, only=matched_by(static(draft.state, slot), also | _ALWAYS_READ))


_ALWAYS_READ = frozenset({"state", "activity"})


def job_ad(cluster: Cluster, proc: int) -> ClassAd:
    return ad_of(cluster.attributes(proc))
