"""Which jobs are alike: autoclusters.

Jobs are alike for a match if all significant attributes are equal: those that their own Requirements and Rank read, and
those that the slots' or the negotiator's expressions may read of them. SIGNIFICANT_ATTRIBUTES replaces this list, ADD_
and REMOVE_SIGNIFICANT_ATTRIBUTES change it; Requirements, Rank and the basic requests are always significant.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from attrs import define, field

from ..classad import ClassAd, References, parse
from ..classad.analysis import references_or_empty
from ..classad.tree import Literal
from ..state.caches import Caches, parse_cached
from ..state.cluster import Cluster
from ..state.pool_settings import NEGOTIATOR
from ..state.proc_ads import unpack
from ..state.records import Slot
from ..state.runtime_attributes import RUNTIME_ATTRIBUTES
from ..state.state import Manager

Signature = tuple[tuple[str, str], ...]
"""The significant attributes of a job that it has, with their texts: equal for jobs that are alike."""

ALWAYS_SIGNIFICANT = (
    "Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "ConcurrencyLimits",
)  # fmt: skip
_SLOT_EXPRESSIONS = ("Start", "Requirements", "WithinResourceLimits", "Rank", "SlotWeight")


def significance(state: Manager, caches: Caches) -> SignificantAttributes:
    """Return the significant attributes in this state: kept as long as slots read the same attributes."""
    known = caches.of(SignificantAttributes)
    known.follow(state)
    return known


class Declared(NamedTuple):
    """The settings of significance: attributes that replace the computed ones, are added or removed, and the texts of
    the negotiator's expressions about slots."""

    significant: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    asked: tuple[str, ...]


_ASKED = (
    "NEGOTIATOR_SLOT_CONSTRAINT", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "NEGOTIATOR_PRE_JOB_RANK",
    "NEGOTIATOR_POST_JOB_RANK", "PREEMPTION_REQUIREMENTS", "PREEMPTION_RANK",
)  # fmt: skip


def declared(settings: Mapping[str, str]) -> Declared:
    """Return the significance in these settings, with the defaults for those that are not set."""

    def text(name: str) -> str:
        return settings.get(name, NEGOTIATOR[name].default)

    lists = (f"{which}SIGNIFICANT_ATTRIBUTES" for which in ("", "ADD_", "REMOVE_"))
    significant, added, removed = (tuple(text(name).replace(",", " ").split()) for name in lists)
    return Declared(significant, added, removed, tuple(text(name) for name in _ASKED if text(name).strip()))


_KEPT = 10_000
"""How many autoclusters of ended jobs are kept before they are cleaned up."""


@define
class _Differing:
    """A cluster whose jobs differ since the submission by the values of these attributes (``columns``; None: by more),
    and the signatures of the values."""

    cluster: Cluster
    edits: int
    columns: tuple[str, ...] | None
    found: dict[tuple[str, ...], Signature] = field(factory=dict)

    def holds(self, cluster: Cluster) -> bool:
        return self.cluster is cluster and self.edits == cluster.edit_count


class SignificantAttributes:
    """The significant attributes, and each job's signature by them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  #: the attributes' names in small letters, each with its spelling
        self.whole = True  #: jobs with one signature are alike: no attribute was declared insignificant
        self.generation = 0  #: how often all numbers and signatures were forgotten
        self._seen = -1  #: how many changes of slots' ads it has processed
        self._renewed = 0  #: how many conditions came as the first, or went as the last, of their kind
        self._configured = -1
        self._conditions: Counter[tuple[str, ...]] = Counter()
        self._of_slot: dict[str, tuple[str, ...]] = {}
        self._of_cluster: dict[int, tuple[Cluster, int, Signature]] = {}
        self._differing: dict[int, _Differing] = {}
        self._known: dict[Signature, Signature] = {}
        self._numbers: dict[int, int] = {}
        self._columns: dict[int, tuple[Cluster, int, array[int]]] = {}
        self._words: list[frozenset[str]] = []
        self._of_cluster_words: dict[int, tuple[Cluster, int, frozenset[str]]] = {}

    def follow(self, state: Manager) -> None:
        """Update to what slots, and the negotiator, now read."""
        if self._has_old(state):
            self._forget()
        before = len(self._conditions), self._renewed
        changed = state.slot_ad_changes.since(self._seen)
        self._seen = state.slot_ad_changes.total
        if changed is None:
            changed = dict.fromkeys((*self._of_slot, *state.slots))
        for name in changed:
            self._change(name, state.slots.get(name), state)
        if before != (len(self._conditions), self._renewed) or self._configured != state.configured or not self.names:
            self._configured = state.configured
            self._renew(declared(state.settings))

    def _change(self, name: str, slot: Slot | None, state: Manager) -> None:
        old = self._of_slot.pop(name, None)
        if old is not None:
            self._conditions[old] -= 1
            if not self._conditions[old]:
                del self._conditions[old]
                self._renewed += 1
        if slot is not None:
            texts = tuple([slot.ad.get(one, "") for one in _SLOT_EXPRESSIONS])
            machine = state.machines.get(slot.machine)
            if machine is not None and machine.drain is not None and machine.drain.start:
                texts = (*texts, machine.drain.start)
            texts = self._with_own(slot, texts)
            self._of_slot[name] = texts
            self._renewed += texts not in self._conditions
            self._conditions[texts] += 1

    def _with_own(self, slot: Slot, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """Return a slot's conditions, and the slot's further expressions that they refer to: what these read of jobs
        is significant too."""
        seen = set(conditions)
        pending = list(seen)
        further = []
        while pending:
            for key in _own_names(pending.pop()):
                spelled = slot.ad.spelling(key)
                text = "" if spelled is None else slot.ad[spelled]
                if text not in seen:
                    seen.add(text)
                    if not _settled(text):
                        further.append(text)
                        pending.append(text)
        return (*conditions, *sorted(further)) if further else conditions

    def _renew(self, rules: Declared) -> None:
        names = {name.lower(): name for name in ALWAYS_SIGNIFICANT}
        self.whole = not rules.significant
        if rules.significant:
            names |= {name.lower(): name for name in rules.significant}
        else:
            texts = {text for condition in self._conditions for text in condition if text}
            for text in sorted(texts | set(rules.asked)):
                for name in _read(text).external:
                    short = name.rpartition(".")[2]
                    names.setdefault(short.lower(), short)
        names |= {name.lower(): name for name in rules.added}
        always = {name.lower() for name in ALWAYS_SIGNIFICANT}
        for name in rules.removed:
            if name.lower() not in always and names.pop(name.lower(), None) is not None:
                self.whole = False
        if names.keys() != self.names.keys():
            self.names = names
            self._forget()

    def _has_old(self, state: Manager) -> bool:
        """Return whether most known autoclusters have only ended jobs."""
        return len(self._numbers) > _KEPT + 2 * state.idle

    def _forget(self) -> None:
        for cache in (self._of_cluster, self._differing, self._known, self._numbers, self._columns):
            cache.clear()
        self._of_cluster_words.clear()
        self._words.clear()
        self.generation += 1

    def drop(self, number: int) -> None:
        """Forget a cluster that has left the queue."""
        for cache in (self._of_cluster, self._differing, self._columns, self._of_cluster_words):
            cache.pop(number, None)

    def number(self, signature: Signature) -> int:
        """Return the number of an autocluster; ``signature`` is from ``signature()``."""
        number = self._numbers.get(id(signature))
        if number is None:
            number = self._numbers[id(signature)] = len(self._numbers)
            self._words.append(words(signature))
        return number

    def words_of(self, cluster: Cluster) -> frozenset[str]:
        """Return a superset of the slot attributes that a cluster's jobs may read: see ``words``."""
        known = self._of_cluster_words.get(cluster.id)
        edits = cluster.edit_count
        if known is None or known[0] is not cluster or known[1] != edits:
            first = max(0, cluster.next_idle())
            number = self.number(self.signature(cluster, first))
            names = self._words[number]
            if not self.uniform(cluster):
                kinds = self.kinds(cluster)
                each = kinds or (self.number(self.signature(cluster, proc)) for proc in cluster.procs())
                names = names.union(*(self._words[number] for number in set(each)))
            known = self._of_cluster_words[cluster.id] = (cluster, edits, names)
        return known[2]

    def kinds(self, cluster: Cluster) -> array[int] | None:
        """Return the autocluster numbers of all jobs of a cluster, by process; None: they cannot be computed at
        once."""
        known = self._columns.get(cluster.id)
        edits = cluster.edit_count
        if known is not None and known[0] is cluster and known[1] == edits:
            return known[2]
        differing = self._differing.get(cluster.id)
        columns = None if differing is None or not differing.holds(cluster) else differing.columns
        if columns is None:
            return None
        values = unpack(cluster.variants.chunks)
        numbers: dict[tuple[str, ...], int] = {}
        kinds = array("i", bytes(4 * cluster.count))
        for proc, mine in enumerate(zip(*(values[name] for name in columns), strict=True)):
            number = numbers.get(mine)
            if number is None:
                number = numbers[mine] = self.number(self.signature(cluster, proc))
            kinds[proc] = number
        self._columns[cluster.id] = (cluster, edits, kinds)
        return kinds

    def signature(self, cluster: Cluster, proc: int) -> Signature:
        """Return the signature of one job."""
        known = self._of_cluster.get(cluster.id)
        edits = cluster.edit_count
        if known is not None and known[0] is cluster and known[1] == edits:
            return known[2]
        differing = self._differing.get(cluster.id)
        if differing is not None and differing.columns is not None and differing.holds(cluster):
            own_values = cluster.variants.of(proc)
            values = tuple([own_values[name] for name in differing.columns])
            signature = differing.found.get(values)
            if signature is None:
                signature = differing.found[values] = self._find(cluster, proc)[0]
            return signature
        signature, seen = self._find(cluster, proc)
        own = {name.lower(): name for name in cluster.variants.names}
        self._of_cluster.pop(cluster.id, None)
        alone = cluster.count == 1
        edited = seen & cluster.edited_names
        lasting = (alone or not edited or _alike_by_edits(cluster, edited, own)) and seen.isdisjoint(RUNTIME_ATTRIBUTES)
        if lasting and (alone or seen.isdisjoint(own)):
            self._of_cluster[cluster.id] = (cluster, edits, signature)
        elif lasting and all(_plain(cluster.variants.of(proc)[own[name]]) for name in seen & own.keys()):
            columns = tuple(own[name] for name in sorted(seen & own.keys()))
            self._differing[cluster.id] = _Differing(
                cluster, edits, columns if self._all_plain(cluster, columns) else None
            )
        else:
            self._differing[cluster.id] = _Differing(cluster, edits, None)
        return signature

    def _all_plain(self, cluster: Cluster, columns: tuple[str, ...]) -> bool:
        """Return whether these attributes are plain values in every job, which read nothing further."""
        values = unpack(cluster.variants.chunks)
        return all(_plain(text) for name in columns for text in set(values[name]))

    def _find(self, cluster: Cluster, proc: int) -> tuple[Signature, set[str]]:
        """Return the signature, and the names, in small letters, of all attributes that may affect it."""
        return self.signature_of({**cluster.ad, **cluster.variants.of(proc), **cluster.changes(proc)})

    def signature_of(self, texts: Mapping[str, str]) -> tuple[Signature, set[str]]:
        """Return the signature of a job with this ad, and the names (in small letters) that may affect it."""
        lower = {name.lower(): name for name in texts}
        pending = list(self.names)
        seen = set(pending)
        pairs: list[tuple[str, str]] = []
        for name in pending:  # grows: what a significant attribute reads is significant
            spelled = lower.get(name)
            if spelled is None or not texts[spelled]:
                continue
            text = texts[spelled]
            pairs.append((name, text))
            for read in _names_in(text):
                if read not in seen:
                    seen.add(read)
                    pending.append(read)
        signature = tuple(sorted(pairs))
        return self._known.setdefault(signature, signature), seen

    def uniform(self, cluster: Cluster) -> bool:
        """Return whether all jobs of the cluster have the signature of one of them: no attribute that affects it
        differs between them."""
        return cluster.id in self._of_cluster


FEW_COHORTS = 16
"""The maximum number of sets of changes in a cluster that are compared."""


def _alike_by_edits(cluster: Cluster, names: set[str], own: Mapping[str, str]) -> bool:
    """Return whether edits left these attributes equal in all jobs of a cluster, if they were equal at submission."""
    if not names.isdisjoint(own):
        return False
    edited = set()
    for changes in cluster.all_changes(FEW_COHORTS):
        edited.add(tuple(sorted((name.lower(), text) for name, text in changes.items() if name.lower() in names)))
        if len(edited) > 1:
            return False
    return len(edited) == 1


@lru_cache(maxsize=5000)
def _read(text: str) -> References:
    """Return the attributes that an expression reads, of its own ad and of the other."""
    return references_or_empty(parse(text), ClassAd())


def _settled(text: str) -> bool:
    """Return whether an expression is a plain value, which reads nothing."""
    meaning = parse_cached(text)
    return meaning is None or isinstance(meaning, Literal)


def _plain(text: str) -> bool:
    return text.isdigit() or (text.startswith('"') and text.count('"') == 2)


def _names_in(text: str) -> Iterator[str]:
    """Return the attributes of the job's own ad that an expression in it may read: lower case, without a scope. An
    unscoped name may mean either ad, so it is included."""
    if text.isdigit() or text.startswith('"'):
        return
    read = _read(text)
    for name in (*read.internal, *read.external):
        scope, _, short = name.rpartition(".")
        if scope.lower() != "target":
            yield short.lower()


@lru_cache(maxsize=5000)
def _own_names(text: str) -> tuple[str, ...]:
    """Return the names, in small letters, that an expression may read in its own ad."""
    return tuple(sorted(set(_names_in(text)))) if text else ()


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@lru_cache(maxsize=5000)
def words(signature: Signature) -> frozenset[str]:
    """Return a superset of the slot attributes that jobs of a signature may read: all words of their significant
    attributes, in small letters."""
    return frozenset(word.lower() for _, text in signature for word in _WORD.findall(text))
