"""Job attributes as text, without building ads: a value shared by all jobs in a range is computed once.

Values are printed the way ``-autoformat`` prints them: strings without quotes, other values as ClassAd literals, and
``undefined`` for a missing attribute. Literals are not evaluated. Other expressions are evaluated once per range if
they read only shared attributes, and otherwise for each job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..domain.names import global_id
from .job_ads import Attributes, ClusterAds, Clusters, ads, attributes
from .job_query import ProcRange

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Context

UNDEFINED = "undefined"
Column = str | Iterable[str]  #: one text for all jobs in a range, or one text for each job
QUEUE_ATTRIBUTES: dict[str, Callable[[ProcRange], Column]] = {
    "clusterid": lambda job_range: str(job_range.cluster),
    "procid": lambda job_range: map(str, range(job_range.first, job_range.last + 1)),
    "jobstatus": lambda job_range: str(job_range.status),
}
"""The attributes that are columns of a row, so that neither ads nor changes need to be read."""
_LITERAL = re.compile(r'"([^"\\\n]*)"|-?[1-9][0-9]{0,17}|0|true|false|undefined')
# These functions may read attributes that are not named in the text of the call.
_OPAQUE = re.compile(r"eval|unparse", re.IGNORECASE)


def column_text(value: Any) -> str:
    """Return a value as ``-autoformat`` prints it."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    from ..domain.classad.unparse import unparse_old

    return unparse_old(value)


def literal(text: str) -> str | None:
    """Return what ``-autoformat`` prints for a literal, or None if the text is any other expression."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    return text if match[1] is None else match[1]


class Columns:
    """Formats the values of some attributes, for ranges of jobs in any order."""

    def __init__(self, clusters: Clusters, names: Sequence[str], context: Context | None = None) -> None:
        self._clusters = clusters
        self._names = [name.lower() for name in names]
        self._context = context
        self._unpacked: tuple[int, dict[str, list[str]]] = (0, {})
        self._changes: tuple[str, Attributes] = ("", {})

    def rows(self, job_ranges: Iterable[ProcRange]) -> Iterator[tuple[str, ...]]:
        """Yield a row of attribute texts for each job."""
        for job_range in job_ranges:
            count = job_range.last - job_range.first + 1
            columns = [QUEUE_ATTRIBUTES.get(name, partial(self._column, name))(job_range) for name in self._names]
            yield from zip(
                *[repeat(column, count) if isinstance(column, str) else column for column in columns], strict=True
            )

    def _column(self, name: str, job_range: ProcRange) -> Column:
        cluster = self._clusters[job_range.cluster]
        if name == "globaljobid":
            pool, qdate = self._clusters.pool, cluster.row.qdate
            return [
                global_id(pool, job_range.cluster, proc, qdate) for proc in range(job_range.first, job_range.last + 1)
            ]
        changes = self._changed(job_range.changes)
        if name not in changes and cluster.variants is not None:
            texts = self._variants(cluster).get(name)
            if texts is not None:
                return self._varied_texts(name, texts[job_range.first : job_range.last + 1], job_range)
        _, text = changes.get(name) or cluster.attributes.get(name) or ("", "")
        value = literal(text) if text else UNDEFINED
        return self._evaluated(name, job_range, cluster) if value is None else value

    def _changed(self, text: str) -> Attributes:
        if self._changes[0] != text:
            self._changes = text, attributes(json.loads(text))
        return self._changes[1]

    def _variants(self, cluster: ClusterAds) -> dict[str, list[str]]:
        """Return a cluster's per-job columns by lower-case name; the last cluster's are cached."""
        number = cluster.row.cluster
        if self._unpacked[0] != number:
            from ..domain.state.proc_ads import unpack

            assert cluster.variants is not None
            columns = unpack(cluster.variants.chunks)
            self._unpacked = number, {name.lower(): texts for name, texts in columns.items()}
        return self._unpacked[1]

    def _varied_texts(self, name: str, texts: Sequence[str], job_range: ProcRange) -> list[str]:
        values = [literal(text) if text else UNDEFINED for text in texts]
        if None not in values:
            return values  # type: ignore[return-value]
        return list(self._each(name, job_range))

    def _evaluated(self, name: str, job_range: ProcRange, cluster: ClusterAds) -> Column:
        if job_range.first == job_range.last or not _differs(
            name, next(ads(self._clusters, job_range)), job_range, cluster
        ):
            return next(self._each(name, job_range))
        return self._each(name, job_range)

    def _each(self, name: str, job_range: ProcRange) -> Iterator[str]:
        for ad in ads(self._clusters, job_range):
            yield column_text(ad.eval(name, None, self._context))


def _differs(name: str, ad: ClassAd, job_range: ProcRange, cluster: ClusterAds) -> bool:
    """Return True if an attribute's value may differ between the jobs in a range. `ad` is the first job's ad."""
    from ..domain.classad import EvaluationError

    if _OPAQUE.search(cluster.row.ad) or _OPAQUE.search(job_range.changes):
        return True
    try:
        read = ad[name].references(ad)
    except (EvaluationError, KeyError):
        return True
    varying = {"procid", "globaljobid"}
    if cluster.variants is not None:
        varying.update(name.lower() for name in cluster.variants.names)
    return not varying.isdisjoint(name.rpartition(".")[2].lower() for name in (*read.internal, *read.external))
