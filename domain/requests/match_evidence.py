"""The evidence of a match: the job's Requirements, and the values that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..classad import UNDEFINED, ClassAd, Context, Expression, unparse
from ..classad.analysis import references_or_empty
from ..classad.evidence import evidence_text
from ..classad.scalar import evaluator_of_several
from ..classad.tree import Literal
from ..events import EvaluationRecorded
from ..state.caches import ad_of
from ..state.cluster import Cluster
from .autoclusters import Signature


def job_ad(cluster: Cluster, proc: int) -> ClassAd:
    """Return the ad of a job for matching."""
    return ad_of(cluster.attributes(proc))


class Reads(NamedTuple):
    """A job's Requirements: the text, and the names that they read of the job's ad and of the slot's."""

    text: str
    mine: tuple[str, ...]
    slots: tuple[str, ...]

    @classmethod
    def of(cls, job: ClassAd) -> Reads:
        """What the Requirements of a job read."""
        requirements = job["Requirements"]
        references = references_or_empty(requirements, job)
        return cls(
            unparse(requirements),
            tuple(references.internal),
            tuple(name.rpartition(".")[2] for name in references.external),
        )


class ReadsOfKinds(dict[Signature, Reads]):
    """What the Requirements read, for each group of jobs alike. It is also the same for jobs that differ only in plain
    values, which refer to nothing."""

    KEPT = 10_000

    def __init__(self) -> None:
        super().__init__()
        self._by_form: dict[tuple[tuple[str, int], ...], tuple[list[Expression], Reads]] = {}
        """By a job's expressions, which it keeps alive, and the names of its plain values."""

    def find(self, signature: Signature, job: ClassAd) -> Reads:
        reads = self.get(signature)
        if reads is None:
            if len(self) >= self.KEPT:
                self.clear()
            reads = self[signature] = self.of_form(job)
        return reads

    def of_form(self, job: ClassAd) -> Reads:
        """What the Requirements of a job read, found for one of this form."""
        cells = job._all().values()
        leads = [expression for _, expression in cells if type(expression) is not Literal]
        form = tuple([(name, 0 if type(expression) is Literal else id(expression)) for name, expression in cells])
        if form not in self._by_form:
            if len(self._by_form) >= self.KEPT:
                self._by_form.clear()
            self._by_form[form] = leads, Reads.of(job)
        return self._by_form[form][1]


def evidence(
    why: tuple[int, str, str], context: Context, job: ClassAd, slot: ClassAd, reads: Reads | None = None
) -> EvaluationRecorded:
    """What the job's Requirements read, of its own ad and of the best slot's.

    :param why: what its event begins with
    :param reads: what they read, if that is known
    """
    reads = reads or Reads.of(job)
    read = {f"MY.{name}": text for name, text in _values(job, reads.mine, slot, context)}
    read |= {f"TARGET.{name}": text for name, text in _values(slot, reads.slots, job, context) if name in slot}
    return EvaluationRecorded(*why, "Requirements", reads.text, "true", read)


def _values(ad: ClassAd, names: Iterable[str], other: ClassAd, context: Context) -> Iterator[tuple[str, str]]:
    value_of = evaluator_of_several(ad, other, context)
    for name in names:
        held = ad.get(name)
        if type(held) is Literal and type(held.value) is int:
            yield name, str(held.value)
        else:
            yield name, evidence_text(UNDEFINED if held is None else value_of(held))
