"""Select jobs by id, owner, constraint or DAG. Workflow engines mark the nodes of a DAG with DAGManJobId and
DAGNodeName."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .cells import CellContext, number, text
from .formats import parse_expression
from .layout import Column
from .options import UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context, Expression

SCHEDULER_UNIVERSE = 7
"""The JobUniverse of jobs that can represent a DAG."""


def id_of(ad: ClassAd) -> tuple[int, int]:
    return int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)


def dag_of(ad: ClassAd) -> int | None:
    """Return the cluster of a DAG node's DAG, from 201 or "201.0", or None if the job is not a DAG node."""
    if "DAGManJobId" not in ad:
        return None
    match = re.match(r"\s*(\d+)(?:\.|$)", text(ad, "DAGManJobId") or "")
    dag = int(match[1]) if match else int(number(ad, "DAGManJobId") or 0)
    return dag if dag > 0 else None


def is_node_of(ad: ClassAd, dag: int) -> bool:
    """Return True if condor_q shows this job when the cluster of its DAG is requested."""
    return number(ad, "DAGManJobId") == dag or (text(ad, "JobBatchId") or "").partition(".")[0] == str(dag)


def node_of(ad: ClassAd) -> str | None:
    """Return the name of a DAG node, or None for any other job."""
    return text(ad, "DAGNodeName") if "DAGManJobId" in ad else None


def owner_or_node(ad: ClassAd) -> str:
    """Return a DAG node's name, or another job's owner. Warn about a node without a name on standard error."""
    name = node_of(ad)
    if name is None and "DAGManJobId" in ad:
        print("DAG node job with no DAGNodeName attribute!", file=sys.stderr)
    return name or text(ad, "Owner") or ""


def dag_tree(jobs: Sequence[ClassAd], column: Column, width: int | None) -> tuple[list[ClassAd], Column]:
    """Return the jobs sorted by id, with DAG nodes below their DAGs, and the column of their names.

    :param column: the column of owners
    :param width: the terminal's width in columns, or None if the output is not a terminal
    """
    ads_by_id = {id_of(ad): ad for ad in jobs}
    depths: dict[tuple[int, int], int] = {}
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    depth_before = 0
    for job, ad in ads_by_id.items():
        parent = (dag_of(ad) or 0, 0)
        depths[job] = depths.get(parent, -1) + 1
        # As in condor_q, only the first job of a cluster is placed below its DAG.
        if parent in depths and (parent not in children or depth_before != job[0]):
            children.setdefault(parent, []).append(job)
        depth_before = job[0]
    names_by_id: dict[tuple[int, int], str] = {}

    def place(job: tuple[int, int]) -> None:
        if job in names_by_id:
            return
        mark = "" if dag_of(ads_by_id[job]) is None else " " * depths[job] + "|-"
        names_by_id[job] = mark + owner_or_node(ads_by_id[job])
        for child in children.get(job, ()):
            place(child)

    for job in ads_by_id:
        place(job)
    room_width = 17 if width is None else min(max(map(len, names_by_id.values()), default=0), width - 63)

    def name(ad: ClassAd, _: CellContext) -> str:
        return names_by_id[id_of(ad)]

    return [ads_by_id[job] for job in names_by_id], column._replace(value=name, width=-max(17, room_width), cut=True)


_JOB_ID = r"(?a)(\d+)(?:\.(\d+))?"


class ClusterOrJob(NamedTuple):
    cluster: int
    proc: int | None = None

    def __str__(self) -> str:
        return f"{self.cluster}" if self.proc is None else f"{self.cluster}.{self.proc}"


def read_job_id(word: str) -> ClusterOrJob | None:
    """Parse an id such as ``12`` or ``12.3``; return None for any other word, which is a user name. Raise `UsageError`
    for a number that is not a valid id."""
    match = re.fullmatch(_JOB_ID, word)
    if match is None:
        if word[:1].isdigit() or word[:1] == ".":
            raise UsageError(f"{word!r} is not a job: a job is cluster.proc (12.3), a cluster a number (12)")
        return None
    cluster, proc = match.groups()
    if int(cluster) == 0:
        raise UsageError(f"{word!r} is not a job: clusters are numbered from 1")
    return ClusterOrJob(int(cluster), None if proc is None else int(proc))


class JobSelector(NamedTuple):
    """Selects jobs. A job must match one of the ids or owners, if any, and satisfy every constraint."""

    ids: tuple[ClusterOrJob, ...] = ()
    owners: tuple[str, ...] = ()
    constraints: tuple[Expression, ...] = ()
    nodes: bool = False  #: whether the id of a DAG also selects its nodes

    def as_request(self, *more_fields: str) -> dict[str, Any]:
        """Return the selection as part of a request to the pool; ``more_fields`` are additional constraints."""
        constraints = [*(f"({constraint})" for constraint in self.constraints), *more_fields]
        return {
            "clusters": [job.cluster for job in self.ids if job.proc is None],
            "jobs": [(job.cluster, job.proc) for job in self.ids if job.proc is not None],
            "owners": list(self.owners),
            "everything": not (self.ids or self.owners or constraints),
            "constraint": " && ".join(constraints),
        }

    def names(self, cluster: int, owner: str) -> bool:
        """Return True if the whole cluster is selected: by its number, by its owner, or because all jobs are."""
        is_by_id = any(job.cluster == cluster and job.proc is None for job in self.ids)
        return is_by_id or owner in self.owners or not (self.ids or self.owners)

    def has(self, ad: ClassAd, context: Context) -> bool:
        reasons = []
        if self.ids:
            cluster, proc = number(ad, "ClusterId"), number(ad, "ProcId")
            is_by_id = any(job.cluster == cluster and job.proc in (None, proc) for job in self.ids)
            is_node = self.nodes and any(not job.proc and is_node_of(ad, job.cluster) for job in self.ids)
            reasons.append(is_by_id or is_node)
        if self.owners:
            reasons.append(text(ad, "Owner") in self.owners)
        if reasons and not any(reasons):
            return False
        return all(satisfies(constraint, ad, context) for constraint in self.constraints)


def satisfies(constraint: Expression, ad: ClassAd, context: Context) -> bool:
    """Return True if an ad satisfies a constraint: its value is true, or a number other than 0."""
    from ...domain.classad import EvaluationError

    try:
        value = constraint.evaluate(ad, None, context)
    except EvaluationError:
        return False
    return isinstance(value, bool | int | float) and value != 0


def select(words: Iterable[str], constraints: Iterable[str]) -> JobSelector:
    """Return the selection for words (ids and owners) and the values of -constraint options. Raise `UsageError` if a
    word is neither an id nor a name, or a constraint is invalid."""
    ids_by_word = [(word, read_job_id(word)) for word in words]
    ids = tuple(job for _, job in ids_by_word if job is not None)
    owners = tuple(word for word, job in ids_by_word if job is None)
    return JobSelector(ids, owners, tuple(parse_expression("-constraint", constraint) for constraint in constraints))


def chosen_jobs(selection: JobSelector, ads: Iterable[ClassAd], display: CellContext) -> list[ClassAd]:
    context = display.context()
    return sorted((ad for ad in ads if selection.has(ad, context)), key=id_of)
