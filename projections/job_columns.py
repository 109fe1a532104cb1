"""Attributes of jobs as texts, without ads: what all jobs of a range share is looked up, and written, once.

A text is what ``-autoformat`` prints for the attribute: a string bare, else the value in the language's own words,
``undefined`` where there is none (manual: condor_q, -autoformat). Literals are taken as they stand. Anything else is
evaluated: once for a range, if nothing that it reads differs from job to job, else in each job's ad.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from .job_ads import Attributes, ClusterAds, Clusters, ads, attributes, global_id
from .job_query import ProcRange

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Context

UNDEFINED = "undefined"
Column = str | Iterable[str]
"""A text that holds for all jobs of a stretch, or a text for each."""
QUEUES_OWN: dict[str, Callable[[ProcRange], Column]] = {
    "clusterid": lambda stretch: str(stretch.cluster),
    "procid": lambda stretch: map(str, range(stretch.first, stretch.last + 1)),
    "jobstatus": lambda stretch: str(stretch.status),
}
"""What the queue keeps itself, told without a look at ads and changes."""
_LITERAL = re.compile(r'"([^"\\\n]*)"|-?[1-9][0-9]{0,17}|0|true|false|undefined')
# What these functions read cannot be told from the text.
_OPAQUE = re.compile(r"eval|unparse", re.IGNORECASE)


def column_text(value: Any) -> str:
    """A value as ``-autoformat`` prints it."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    from ..domain.classad.unparse import unparse_old

    return unparse_old(value)


def literal(text: str) -> str | None:
    """What a text that is a literal is shown as; None for any other expression."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    return text if match[1] is None else match[1]


class Columns:
    """The texts of some attributes, for stretches in the order in which they come."""

    def __init__(self, clusters: Clusters, names: Sequence[str], context: Context | None = None) -> None:
        self._clusters = clusters
        self._names = [name.lower() for name in names]
        self._context = context
        self._unpacked: tuple[int, dict[str, list[str]]] = (0, {})
        self._changes: tuple[str, Attributes] = ("", {})

    def rows(self, stretches: Iterable[ProcRange]) -> Iterator[tuple[str, ...]]:
        """A row for each job."""
        for stretch in stretches:
            count = stretch.last - stretch.first + 1
            columns = [QUEUES_OWN.get(name, partial(self._column, name))(stretch) for name in self._names]
            yield from zip(
                *[repeat(column, count) if isinstance(column, str) else column for column in columns], strict=True
            )

    def _column(self, name: str, stretch: ProcRange) -> Column:
        cluster = self._clusters[stretch.cluster]
        if name == "globaljobid":
            pool, qdate = self._clusters.pool, cluster.row.qdate
            return [global_id(pool, stretch.cluster, proc, qdate) for proc in range(stretch.first, stretch.last + 1)]
        changes = self._changed(stretch.changes)
        if name not in changes and cluster.variants is not None:
            texts = self._variants(cluster).get(name)
            if texts is not None:
                return self._varied(name, texts[stretch.first : stretch.last + 1], stretch)
        _, text = changes.get(name) or cluster.attributes.get(name) or ("", "")
        value = literal(text) if text else UNDEFINED
        return self._evaluated(name, stretch, cluster) if value is None else value

    def _changed(self, text: str) -> Attributes:
        """The attributes that changed; the last stretch's are remembered."""
        if self._changes[0] != text:
            self._changes = text, attributes(json.loads(text))
        return self._changes[1]

    def _variants(self, cluster: ClusterAds) -> dict[str, list[str]]:
        """The columns of a cluster by their names in small letters; the last cluster's are remembered."""
        number = cluster.row.cluster
        if self._unpacked[0] != number:
            from ..domain.state.proc_ads import unpack

            assert cluster.variants is not None
            columns = unpack(cluster.variants.chunks)
            self._unpacked = number, {name.lower(): texts for name, texts in columns.items()}
        return self._unpacked[1]

    def _varied(self, name: str, texts: Sequence[str], stretch: ProcRange) -> list[str]:
        values = [literal(text) if text else UNDEFINED for text in texts]
        if None not in values:
            return values  # type: ignore[return-value]
        return list(self._each(name, stretch))

    def _evaluated(self, name: str, stretch: ProcRange, cluster: ClusterAds) -> Column:
        if stretch.first == stretch.last or not _differs(name, next(ads(self._clusters, stretch)), stretch, cluster):
            return next(self._each(name, stretch))
        return self._each(name, stretch)

    def _each(self, name: str, stretch: ProcRange) -> Iterator[str]:
        for ad in ads(self._clusters, stretch):
            yield column_text(ad.eval(name, None, self._context))


def _differs(name: str, ad: ClassAd, stretch: ProcRange, cluster: ClusterAds) -> bool:
    """Whether an attribute's value may differ between the jobs of a stretch; `ad` is the first one's."""
    from ..domain.classad import EvaluationError

    if _OPAQUE.search(cluster.row.ad) or _OPAQUE.search(stretch.changes):
        return True
    try:
        read = ad[name].references(ad)
    except (EvaluationError, KeyError):
        return True
    varying = {"procid", "globaljobid"}
    if cluster.variants is not None:
        varying.update(name.lower() for name in cluster.variants.names)
    return not varying.isdisjoint(name.rpartition(".")[2].lower() for name in (*read.internal, *read.external))
