"""Jobs' ads, from rows: what is the cluster's is shared by all its jobs, what a range has in common by the range.

An attribute's text is read as the pool reads it when it decides, one attribute at a time: a text that is no expression
costs its ad that attribute alone. Names are equal in any case of letters, and the later has precedence: the cluster's
ad, the columns of the submission, the changes since, and at last what the queue itself keeps (ClusterId, ProcId,
JobStatus, GlobalJobId). An empty text is an attribute that is gone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .job_query import ProcRange

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Expression
    from ..domain.state.proc_ads import Variants

_KEPT = 256  # clusters, or distinct texts times 64, that are remembered

Attributes = dict[str, tuple[str, str]]
"""Attributes by their names in small letters, each with its name as it was written last, and its text."""


def attributes(texts: Mapping[str, str]) -> Attributes:
    return {name.lower(): (name, text) for name, text in texts.items()}


def global_id(pool: str, cluster: int, proc: int, qdate: int) -> str:
    """GlobalJobId: the queue's name, the job's id, and when it was submitted (manual: Job ClassAd Attributes)."""
    return f"{pool}#{cluster}.{proc}#{qdate}"


class ClusterRow(NamedTuple):
    """A row of the clusters, with its ad as JSON."""

    cluster: int
    submitter: str
    owner: str
    batch: str
    qdate: int
    submitted: int
    ad: str


class ClusterAds:
    """A cluster as its jobs' ads need it."""

    def __init__(self, row: ClusterRow, variants: Variants | None) -> None:
        self.row = row
        self.attributes = attributes(json.loads(row.ad))
        self.variants = variants
        self._ads: dict[frozenset[str], ClassAd] = {}

    def ad(self, without: frozenset[str]) -> ClassAd:
        """The cluster's ad without some attributes. It is shared: not to be changed."""
        hidden = without.intersection(self.attributes)
        ad = self._ads.get(hidden)
        if ad is None:
            ad = self._ads[hidden] = ad_of({k: v for k, v in self.attributes.items() if k not in hidden})
        return ad


class Clusters:
    """The clusters of a database, read when they are first asked for; the last ones are remembered."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, ClusterAds] = {}
        row = connection.execute("SELECT name FROM pool").fetchone()
        self.pool: str = row[0] if row else ""

    def __getitem__(self, number: int) -> ClusterAds:
        cluster = self._known.get(number)
        if cluster is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            row = self._connection.execute("SELECT * FROM clusters WHERE cluster=?", (number,)).fetchone()
            cluster = self._known[number] = ClusterAds(ClusterRow(*row), self._variants(number))
        return cluster

    def _variants(self, number: int) -> Variants | None:
        statement = "SELECT chunk FROM chunks WHERE cluster=? ORDER BY number"
        chunks = [chunk for (chunk,) in self._connection.execute(statement, (number,))]
        if not chunks:
            return None
        from ..domain.state.proc_ads import Variants

        return Variants(chunks)


def parse_cached(text: str) -> Expression | None:
    """The expression that an attribute's text is, or None if it is none."""
    from ..domain.state.caches import parse_cached as meaning

    return meaning(text)


def set_attributes(ad: ClassAd, texts: Attributes) -> None:
    """Set those attributes of an ad whose texts are expressions."""
    for name, text in texts.values():
        if text:
            value = parse_cached(text)
            if value is not None:
                ad[name] = value


def ad_of(texts: Attributes) -> ClassAd:
    """An ad from texts."""
    from ..domain.classad import ClassAd

    ad = ClassAd()
    set_attributes(ad, texts)
    return ad


def ads(clusters: Clusters, stretch: ProcRange, backwards: bool = False) -> Iterator[ClassAd]:
    """The ads of a stretch's jobs: of each proc over what the stretch has in common over the cluster's."""
    from ..domain.classad import ClassAd

    cluster = clusters[stretch.cluster]
    changes = attributes(json.loads(stretch.changes))
    own = cluster.variants
    replaced = frozenset(changes) | (frozenset(name.lower() for name in own.names) if own else frozenset())
    common = ClassAd(chained=cluster.ad(replaced))
    set_attributes(common, changes)
    common["ClusterId"], common["JobStatus"] = stretch.cluster, stretch.status
    pool, qdate = clusters.pool, cluster.row.qdate
    procs = range(stretch.first, stretch.last + 1)
    for proc in reversed(procs) if backwards else procs:
        ad = ClassAd(chained=common)
        if own is not None:
            set_attributes(ad, {key: cell for key, cell in attributes(own.of(proc)).items() if key not in changes})
        ad["ProcId"] = proc
        ad["GlobalJobId"] = global_id(pool, stretch.cluster, proc, qdate)
        yield ad
