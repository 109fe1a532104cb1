"""Autoclusters: groups of jobs that are equivalent for matching.

Jobs belong to the same autocluster if their significant attributes are equal: the attributes that their own
Requirements and Rank read, and the attributes that the expressions of slots and of the negotiator may read. The setting
SIGNIFICANT_ATTRIBUTES replaces this list, and ADD_SIGNIFICANT_ATTRIBUTES and REMOVE_SIGNIFICANT_ATTRIBUTES modify it.
Requirements, Rank and the basic requests are always significant."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from msgspec import Struct, field

from ..classad import ClassAd, References, parse
from ..classad.analysis import references_or_empty
from ..classad.tree import Literal
from ..state.caches import Caches, parse_cached
from ..state.cluster import Cluster
from ..state.pool_settings import NEGOTIATOR
from ..state.proc_ads import decode
from ..state.records import Slot
from ..state.runtime_attributes import RUNTIME_ATTRIBUTES
from ..state.state import Manager

Signature = tuple[tuple[str, str], ...]
"""A job's significant attributes, each with its expression. All jobs in an autocluster have the same signature."""

ALWAYS_SIGNIFICANT = (
    "Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "ConcurrencyLimits",
)  # fmt: skip
_SLOT_EXPRESSIONS = ("Start", "Requirements", "WithinResourceLimits", "Rank", "SlotWeight")


def autoclusters_of(state: Manager, caches: Caches) -> Autoclusters:
    """Return the autoclusters of a negotiator's state, up to date."""
    autoclusters = caches.get(Autoclusters)
    autoclusters.process_changes(state)
    return autoclusters


class DeclaredAttributes(NamedTuple):
    """The settings for significant attributes (which replace the computed ones, are added, or are removed), and
    the negotiator's expressions about slots."""

    significant: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    expressions: tuple[str, ...]


_NEGOTIATOR_EXPRESSIONS = (
    "NEGOTIATOR_SLOT_CONSTRAINT", "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT", "NEGOTIATOR_PRE_JOB_RANK",
    "NEGOTIATOR_POST_JOB_RANK", "PREEMPTION_REQUIREMENTS", "PREEMPTION_RANK",
)  # fmt: skip


def declared_attributes(settings: Mapping[str, str]) -> DeclaredAttributes:
    """Return the settings for significant attributes, with defaults where they are not set."""

    def text(name: str) -> str:
        return settings.get(name, NEGOTIATOR[name].default)

    lists = (f"{prefix}SIGNIFICANT_ATTRIBUTES" for prefix in ("", "ADD_", "REMOVE_"))
    significant, added, removed = (tuple(text(name).replace(",", " ").split()) for name in lists)
    expressions = tuple(text(name) for name in _NEGOTIATOR_EXPRESSIONS if text(name).strip())
    return DeclaredAttributes(significant, added, removed, expressions)


_MAX_ENDED = 10_000
"""Autoclusters without queued jobs are removed if the others exceed this number plus two for each idle job."""


class _DifferingCluster(Struct):
    """A cluster whose jobs have several signatures. ``columns`` determine them, or is None if other attributes do,
    too."""

    cluster: Cluster
    edits: int
    columns: tuple[str, ...] | None
    signatures: dict[tuple[str, ...], Signature] = field(default_factory=dict)

    def is_current(self, cluster: Cluster) -> bool:
        return self.cluster is cluster and self.edits == cluster.edit_count


class Autoclusters:
    """The significant attributes, and each job's signature and autocluster number."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  #: significant attributes: lower-case name -> spelling
        self.whole = True  #: whether no attribute was declared insignificant: equal signatures then match equally
        self.generation = 0  #: how often all numbers and signatures were discarded
        self._seen = -1  #: number of processed changes of slots' ads
        self._renewed = 0  #: number of conditions that were added first or removed last
        self._configured = -1
        self._conditions: Counter[tuple[str, ...]] = Counter()
        self._of_slot: dict[str, tuple[str, ...]] = {}
        self._of_cluster: dict[int, tuple[Cluster, int, Signature]] = {}
        self._differing: dict[int, _DifferingCluster] = {}
        self._known: dict[Signature, Signature] = {}
        self._numbers: dict[int, int] = {}
        self._columns: dict[int, tuple[Cluster, int, array[int]]] = {}
        self._words: list[frozenset[str]] = []
        self._of_cluster_words: dict[int, tuple[Cluster, int, frozenset[str]]] = {}

    def process_changes(self, state: Manager) -> None:
        """Process changes of the attributes that slots and the negotiator read."""
        if len(self._numbers) > _MAX_ENDED + 2 * state.idle:
            self._discard_all()
        old_counts = len(self._conditions), self._renewed
        changed_slots = state.slot_ad_changes.since(self._seen)
        self._seen = state.slot_ad_changes.total
        if changed_slots is None:
            changed_slots = dict.fromkeys((*self._of_slot, *state.slots))
        for name in changed_slots:
            self._change(name, state.slots.get(name), state)
        is_changed = old_counts != (len(self._conditions), self._renewed)
        if is_changed or self._configured != state.configured or not self.names:
            self._configured = state.configured
            self._renew(declared_attributes(state.settings))

    def _change(self, name: str, slot: Slot | None, state: Manager) -> None:
        old = self._of_slot.pop(name, None)
        if old is not None:
            self._conditions[old] -= 1
            if not self._conditions[old]:
                del self._conditions[old]
                self._renewed += 1
        if slot is not None:
            texts = tuple([slot.ad.get(expression_name, "") for expression_name in _SLOT_EXPRESSIONS])
            machine = state.machines.get(slot.machine)
            if machine is not None and machine.drain is not None and machine.drain.start:
                texts = (*texts, machine.drain.start)
            texts = self._with_own(slot, texts)
            self._of_slot[name] = texts
            self._renewed += texts not in self._conditions
            self._conditions[texts] += 1

    def _with_own(self, slot: Slot, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """Return a slot's conditions, and the expressions that these read, because their job attributes matter too."""
        all_texts = set(conditions)
        pending_texts = list(all_texts)
        referenced = []
        while pending_texts:
            for key in _names_read(pending_texts.pop()):
                spelled = slot.ad.spelling(key)
                text = "" if spelled is None else slot.ad[spelled]
                if text not in all_texts:
                    all_texts.add(text)
                    parsed = parse_cached(text)
                    if parsed is not None and not isinstance(parsed, Literal):
                        referenced.append(text)
                        pending_texts.append(text)
        return (*conditions, *sorted(referenced)) if referenced else conditions

    def _renew(self, rules: DeclaredAttributes) -> None:
        names = {name.lower(): name for name in ALWAYS_SIGNIFICANT}
        self.whole = not rules.significant
        if rules.significant:
            names |= {name.lower(): name for name in rules.significant}
        else:
            texts = {text for condition in self._conditions for text in condition if text}
            for text in sorted(texts | set(rules.expressions)):
                for name in _references(text).external:
                    short = name.rpartition(".")[2]
                    names.setdefault(short.lower(), short)
        names |= {name.lower(): name for name in rules.added}
        always = {name.lower() for name in ALWAYS_SIGNIFICANT}
        for name in rules.removed:
            if name.lower() not in always and names.pop(name.lower(), None) is not None:
                self.whole = False
        if names.keys() != self.names.keys():
            self.names = names
            self._discard_all()

    def _discard_all(self) -> None:
        for cache in (self._of_cluster, self._differing, self._known, self._numbers, self._columns):
            cache.clear()
        self._of_cluster_words.clear()
        self._words.clear()
        self.generation += 1

    def discard_cluster(self, number: int) -> None:
        """Discard a cluster that has left the queue."""
        for cache in (self._of_cluster, self._differing, self._columns, self._of_cluster_words):
            cache.pop(number, None)

    def number(self, signature: Signature) -> int:
        """Return the number of the autocluster with this signature, from ``signature()``."""
        number = self._numbers.get(id(signature))
        if number is None:
            number = self._numbers[id(signature)] = len(self._numbers)
            self._words.append(slot_attribute_words(signature))
        return number

    def words_of(self, cluster: Cluster) -> frozenset[str]:
        """Return words that include every slot attribute that the jobs may read (see ``slot_attribute_words``)."""
        cached = self._of_cluster_words.get(cluster.id)
        edits = cluster.edit_count
        if cached is None or cached[0] is not cluster or cached[1] != edits:
            idle_proc = max(0, cluster.next_idle())
            number = self.number(self.signature(cluster, idle_proc))
            names = self._words[number]
            if not self.uniform(cluster):
                proc_numbers = self.numbers_by_proc(cluster)
                numbers = proc_numbers or (self.number(self.signature(cluster, proc)) for proc in cluster.procs())
                names = names.union(*(self._words[number] for number in set(numbers)))
            cached = self._of_cluster_words[cluster.id] = (cluster, edits, names)
        return cached[2]

    def numbers_by_proc(self, cluster: Cluster) -> array[int] | None:
        """Return the autocluster number of each process of a cluster, or None if each must be computed separately."""
        cached = self._columns.get(cluster.id)
        edits = cluster.edit_count
        if cached is not None and cached[0] is cluster and cached[1] == edits:
            return cached[2]
        differing = self._differing.get(cluster.id)
        columns = None if differing is None or not differing.is_current(cluster) else differing.columns
        if columns is None:
            return None
        numbers: dict[Any, int] = {}
        proc_numbers = array("i")
        for values in map(decode, cluster.variants.chunks):  # one chunk at a time needs little memory
            texts = [values[name] for name in columns]
            rows: list[Any] = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
            first_indexes: dict[Any, int] = {}
            for _ in map(first_indexes.setdefault, rows, count()):
                pass
            for row, index in first_indexes.items():
                if row not in numbers:
                    numbers[row] = self.number(self.signature(cluster, len(proc_numbers) + index))
            proc_numbers.extend(map(numbers.__getitem__, rows))
        self._columns[cluster.id] = (cluster, edits, proc_numbers)
        return proc_numbers

    def signature(self, cluster: Cluster, proc: int) -> Signature:
        """Return the signature of a job."""
        cached = self._of_cluster.get(cluster.id)
        edits = cluster.edit_count
        if cached is not None and cached[0] is cluster and cached[1] == edits:
            return cached[2]
        differing = self._differing.get(cluster.id)
        if differing is not None and differing.columns is not None and differing.is_current(cluster):
            own_values = cluster.variants.of_proc(proc)
            values = tuple([own_values[name] for name in differing.columns])
            signature = differing.signatures.get(values)
            if signature is None:
                signature = differing.signatures[values] = self._find(cluster, proc)[0]
            return signature
        signature, relevant_names = self._find(cluster, proc)
        spellings = {name.lower(): name for name in cluster.variants.names}
        self._of_cluster.pop(cluster.id, None)
        is_only_job = cluster.count == 1
        edited = relevant_names & cluster.edited_names
        is_stable = is_only_job or not edited or _equal_after_edits(cluster, edited, spellings)
        is_stable = is_stable and relevant_names.isdisjoint(RUNTIME_ATTRIBUTES)
        if is_stable and (is_only_job or relevant_names.isdisjoint(spellings)):
            self._of_cluster[cluster.id] = (cluster, edits, signature)
            return signature
        columns = tuple(spellings[name] for name in sorted(relevant_names & spellings.keys()))
        is_stable = is_stable and all(_is_literal_text(cluster.variants.of_proc(proc)[name]) for name in columns)
        determined = is_stable and self._all_plain(cluster, columns)
        self._differing[cluster.id] = _DifferingCluster(cluster, edits, columns if determined else None)
        return signature

    def _all_plain(self, cluster: Cluster, columns: tuple[str, ...]) -> bool:
        texts: set[str] = set()
        for values in map(decode, cluster.variants.chunks):
            texts.update(*(values[name] for name in columns))
        return all(map(_is_literal_text, texts))

    def _find(self, cluster: Cluster, proc: int) -> tuple[Signature, set[str]]:
        return self.signature_of({**cluster.ad, **cluster.variants.of_proc(proc), **cluster.changes(proc)})

    def signature_of(self, texts: Mapping[str, str]) -> tuple[Signature, set[str]]:
        """Return the signature of a job with this ad, and the lower-case names of attributes that may affect it."""
        spellings = {name.lower(): name for name in texts}
        pending_names = list(self.names)
        all_names = set(pending_names)
        pairs: list[tuple[str, str]] = []
        for name in pending_names:  # this list grows: whatever a significant attribute reads is significant
            spelled = spellings.get(name)
            if spelled is None or not texts[spelled]:
                continue
            text = texts[spelled]
            pairs.append((name, text))
            for name_read in _names_in(text):
                if name_read not in all_names:
                    all_names.add(name_read)
                    pending_names.append(name_read)
        signature = tuple(sorted(pairs))
        return self._known.setdefault(signature, signature), all_names

    def uniform(self, cluster: Cluster) -> bool:
        """Return True if all jobs of the cluster have the same signature, because what affects it is equal."""
        return cluster.id in self._of_cluster


FEW_COHORTS = 16
"""If a cluster has more differently edited groups of jobs than this, the groups are not compared with each other."""


def _equal_after_edits(cluster: Cluster, names: set[str], column_names: Mapping[str, str]) -> bool:
    if not names.isdisjoint(column_names):
        return False
    edited_values = set()
    for changes in cluster.all_changes(FEW_COHORTS):
        edits = ((name.lower(), text) for name, text in changes.items())
        edited_values.add(tuple(sorted(edit for edit in edits if edit[0] in names)))
        if len(edited_values) > 1:
            return False
    return len(edited_values) == 1


@lru_cache(maxsize=5000)
def _references(text: str) -> References:
    return references_or_empty(parse(text), ClassAd())


def _is_literal_text(text: str) -> bool:
    return text.isdigit() or (text.startswith('"') and text.count('"') == 2)


def _names_in(text: str) -> Iterator[str]:
    """Return the lower-case names, without scope, of the attributes that an expression may read from its own ad.
    Unscoped names are included, because they may refer to either ad."""
    if text.isdigit() or text.startswith('"'):
        return
    references = _references(text)
    for name in (*references.internal, *references.external):
        scope, _, short = name.rpartition(".")
        if scope.lower() != "target":
            yield short.lower()


@lru_cache(maxsize=5000)
def _names_read(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(_names_in(text)))) if text else ()


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


_WITHOUT_DEVICES = frozenset({"cpus", "memory", "disk"})


@lru_cache(maxsize=5000)
def slot_attribute_words(signature: Signature) -> frozenset[str]:
    """Return a signature's words, in lower case. They include every slot attribute that the jobs may read, and the
    lists of devices that they may take."""
    words = frozenset(word.lower() for _, text in signature for word in _WORD.findall(text))
    requests = (name.lower().removeprefix("request") for name, _ in signature if name.lower().startswith("request"))
    return words.union(f"available{name}" for name in requests if name not in _WITHOUT_DEVICES)
