"""The evidence of a match: the job's Requirements and the values that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..classad import UNDEFINED, ClassAd, Context, Expression, unparse
from ..classad.analysis import references_or_empty
from ..classad.scalar import evaluator_of_several
from ..classad.tree import Literal
from ..classad.value_evidence import evidence_text
from ..events import EvaluationRecorded
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster
from .autoclusters import Signature


def job_ad(cluster: Cluster, proc: int) -> ClassAd:
    """Return a job's ad for matching."""
    return ad_from_attributes(cluster.attributes(proc))


class RequirementsNames(NamedTuple):
    """The text of a job's Requirements, and the names that they read from the job's ad and from the slot's ad."""

    text: str
    job_names: tuple[str, ...]
    slot_names: tuple[str, ...]

    @classmethod
    def read_by_job(cls, job: ClassAd) -> RequirementsNames:
        """Return the names that a job's Requirements read."""
        requirements = job["Requirements"]
        references = references_or_empty(requirements, job)
        external = tuple(name.rpartition(".")[2] for name in references.external)
        return cls(unparse(requirements), tuple(references.internal), external)


class RequirementsNamesCache(dict[Signature, RequirementsNames]):
    """The names that Requirements read, by autocluster. Jobs that differ only in plain values share an entry."""

    MAX_ENTRIES = 10_000

    def __init__(self) -> None:
        super().__init__()
        self._by_form: dict[tuple[tuple[str, int], ...], tuple[list[Expression], RequirementsNames]] = {}
        """By the ids of a job's expressions, which the entry keeps alive, and the names of the job's plain values."""

    def find(self, signature: Signature, job: ClassAd) -> RequirementsNames:
        reads = self.get(signature)
        if reads is None:
            if len(self) >= self.MAX_ENTRIES:
                self.clear()
            reads = self[signature] = self.of_form(job)
        return reads

    def of_form(self, job: ClassAd) -> RequirementsNames:
        """Return the names that a job's Requirements read, cached for jobs that differ only in plain values."""
        cells = job._all().values()
        expressions = [expression for _, expression in cells if type(expression) is not Literal]
        form = tuple([(name, 0 if type(expression) is Literal else id(expression)) for name, expression in cells])
        if form not in self._by_form:
            if len(self._by_form) >= self.MAX_ENTRIES:
                self._by_form.clear()
            self._by_form[form] = expressions, RequirementsNames.read_by_job(job)
        return self._by_form[form][1]


def match_evidence(
    why: tuple[int, str, str], context: Context, job: ClassAd, slot: ClassAd, reads: RequirementsNames | None = None
) -> EvaluationRecorded:
    """Return an event with the values that the job's Requirements read from the job's ad and the slot's ad.

    :param why: the event's first fields
    :param reads: the names that the Requirements read, if they are known
    """
    reads = reads or RequirementsNames.read_by_job(job)
    values = {f"MY.{name}": text for name, text in _values(job, reads.job_names, slot, context)}
    values |= {f"TARGET.{name}": text for name, text in _values(slot, reads.slot_names, job, context) if name in slot}
    return EvaluationRecorded(*why, "Requirements", reads.text, "true", values)


def _values(ad: ClassAd, names: Iterable[str], other_ad: ClassAd, context: Context) -> Iterator[tuple[str, str]]:
    value_of = evaluator_of_several(ad, other_ad, context)
    for name in names:
        expression = ad.get(name)
        if type(expression) is Literal and type(expression.value) is int:
            yield name, str(expression.value)
        else:
            yield name, evidence_text(UNDEFINED if expression is None else value_of(expression))
