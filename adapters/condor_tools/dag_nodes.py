"""The nodes of DAGs in the queue, which workflow engines mark by DAGManJobId and DAGNodeName."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .cells import Setting, number, text
from .layout import Column

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

SCHEDULER = 7
"""The JobUniverse of jobs that may stand for a DAG."""


def id_of(ad: ClassAd) -> tuple[int, int]:
    """Return a job's ClusterId and ProcId."""
    return int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)


def dag_of(ad: ClassAd) -> int | None:
    """Return the cluster of the DAG of which a job is a node: of 201, or "201.0"; None if it is not a node."""
    if "DAGManJobId" not in ad:
        return None
    found = re.match(r"\s*(\d+)(?:\.|$)", text(ad, "DAGManJobId") or "")
    dag = int(found[1]) if found else int(number(ad, "DAGManJobId") or 0)
    return dag if dag > 0 else None


def is_in(ad: ClassAd, dag: int) -> bool:
    """Return True if condor_q shows a job where its DAG's cluster is asked for."""
    return number(ad, "DAGManJobId") == dag or (text(ad, "JobBatchId") or "").partition(".")[0] == str(dag)


def node_of(ad: ClassAd) -> str | None:
    """Return the name of a node; None for any other job."""
    return text(ad, "DAGNodeName") if "DAGManJobId" in ad else None


def owner_or_node(ad: ClassAd) -> str:
    """Return a node's name, or the owner of any other job. A node without a name is reported on standard error."""
    name = node_of(ad)
    if name is None and "DAGManJobId" in ad:
        print("DAG node job with no DAGNodeName attribute!", file=sys.stderr)
    return name or text(ad, "Owner") or ""


def tree(jobs: Sequence[ClassAd], column: Column, width: int | None) -> tuple[list[ClassAd], Column]:
    """Return jobs, which are sorted by their ids, with nodes below their DAGs, and the column of their names.

    :param column: the column of owners
    :param width: the columns of the terminal; None if the output is not a terminal
    """
    by_id = {id_of(ad): ad for ad in jobs}
    depths: dict[tuple[int, int], int] = {}
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    before = 0
    for job, ad in by_id.items():
        parent = (dag_of(ad) or 0, 0)
        depths[job] = depths.get(parent, -1) + 1
        # As in condor_q, only the first job of a cluster follows its DAG.
        if parent in depths and (parent not in children or before != job[0]):
            children.setdefault(parent, []).append(job)
        before = job[0]
    ordered: dict[tuple[int, int], str] = {}

    def place(job: tuple[int, int]) -> None:
        if job in ordered:
            return
        mark = "" if dag_of(by_id[job]) is None else " " * depths[job] + "|-"
        ordered[job] = mark + owner_or_node(by_id[job])
        for child in children.get(job, ()):
            place(child)

    for job in by_id:
        place(job)
    room = 17 if width is None else min(max(map(len, ordered.values()), default=0), width - 63)

    def name(ad: ClassAd, _: Setting) -> str:
        return ordered[id_of(ad)]

    return [by_id[job] for job in ordered], column._replace(value=name, width=-max(17, room), cut=True)
