"""Build jobs' ads from rows. Jobs share their cluster's ad and the attributes that their range has in common.

Each attribute's text is parsed separately, as for decisions; an invalid expression is left out. Names are
case-insensitive. The precedence, from lowest to highest, is: the cluster's ad, the submission's per-job columns, later
changes, and the queue's own attributes (ClusterId, ProcId, JobStatus, GlobalJobId). An empty text removes an attribute.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..domain.names import global_id
from .job_query import ProcRange

if TYPE_CHECKING:
    from ..domain.classad import ClassAd, Expression
    from ..domain.state.proc_ads import Variants

_MAX_CACHED = 256  # clusters

Attributes = dict[str, tuple[str, str]]  #: lower-case name -> the name as last spelled, and the text


def attributes(texts: Mapping[str, str]) -> Attributes:
    return {name.lower(): (name, text) for name, text in texts.items()}


class ClusterRow(NamedTuple):
    """A row of the table of clusters, with its ad as JSON."""

    cluster: int
    submitter: str
    owner: str
    batch: str
    qdate: int
    submitted: int
    position: int
    ad: str
    job_set: str


class ClusterAds:
    """The attributes of a cluster that its jobs' ads share."""

    def __init__(self, row: ClusterRow, variants: Variants | None) -> None:
        self.row = row
        self.attributes = attributes(json.loads(row.ad))
        self.variants = variants
        self._ads: dict[frozenset[str], ClassAd] = {}

    def ad(self, without: frozenset[str]) -> ClassAd:
        """Return the cluster's ad without some attributes. The ad is shared: do not modify it."""
        hidden = without.intersection(self.attributes)
        ad = self._ads.get(hidden)
        if ad is None:
            ad = self._ads[hidden] = ad_from_texts({k: v for k, v in self.attributes.items() if k not in hidden})
        return ad


class Clusters:
    """The clusters of a database, read on demand and cached."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[int, ClusterAds] = {}
        row = connection.execute("SELECT name FROM pool").fetchone()
        self.pool: str = row[0] if row else ""

    def __getitem__(self, number: int) -> ClusterAds:
        cluster = self._known.get(number)
        if cluster is None:
            if len(self._known) >= _MAX_CACHED:
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
    """Parse an attribute's text. Return None if it is not an expression."""
    from ..domain.state.caches import parse_cached

    return parse_cached(text)


def set_attributes(ad: ClassAd, texts: Attributes) -> None:
    """Set the attributes whose texts are valid expressions."""
    for name, text in texts.values():
        if text:
            value = parse_cached(text)
            if value is not None:
                ad[name] = value


def ad_from_texts(texts: Attributes) -> ClassAd:
    """Return the ad with these attributes."""
    from ..domain.classad import ClassAd

    ad = ClassAd()
    set_attributes(ad, texts)
    return ad


def ads(clusters: Clusters, job_range: ProcRange, backwards: bool = False) -> Iterator[ClassAd]:
    """Yield the ads of a range's jobs. Each ad is chained to the range's common ad, which is chained to the
    cluster's."""
    from ..domain.classad import ClassAd

    cluster = clusters[job_range.cluster]
    changes = attributes(json.loads(job_range.changes))
    variants = cluster.variants
    replaced = frozenset(changes) | (frozenset(name.lower() for name in variants.names) if variants else frozenset())
    common = ClassAd(chained=cluster.ad(replaced))
    set_attributes(common, changes)
    common["ClusterId"], common["JobStatus"] = job_range.cluster, job_range.status
    pool, qdate = clusters.pool, cluster.row.qdate
    procs = range(job_range.first, job_range.last + 1)
    for proc in reversed(procs) if backwards else procs:
        ad = ClassAd(chained=common)
        if variants is not None:
            set_attributes(
                ad,
                {key: cell for key, cell in attributes(variants.of_proc(proc)).items() if key not in changes},
            )
        ad["ProcId"] = proc
        ad["GlobalJobId"] = global_id(pool, job_range.cluster, proc, qdate)
        yield ad
