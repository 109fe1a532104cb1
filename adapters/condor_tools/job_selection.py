"""Select jobs by ids, owners and constraints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .cells import Setting, number, text
from .dag_nodes import id_of, is_in
from .formats import parsed
from .options import UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context, Expression

_ID = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)


class ClusterOrJob(NamedTuple):
    """A cluster, or one job of it."""

    cluster: int
    proc: int | None = None

    def __str__(self) -> str:
        return f"{self.cluster}" if self.proc is None else f"{self.cluster}.{self.proc}"


def read_job_id(word: str) -> ClusterOrJob | None:
    """Parse an id such as ``12`` or ``12.3``; return None for any other word, which is a user's name.
    Raise `UsageError` for a number that can be no id."""
    found = _ID.fullmatch(word)
    if found is None:
        if word[:1].isdigit() or word[:1] == ".":
            raise UsageError(f"{word!r} is no job: a job is cluster.proc (12.3), a cluster a number (12)")
        return None
    cluster, proc = found.groups()
    if int(cluster) == 0:
        raise UsageError(f"{word!r} is no job: clusters are numbered from 1")
    return ClusterOrJob(int(cluster), None if proc is None else int(proc))


class Selection(NamedTuple):
    """Jobs by id or owner, and the constraints on each. A job belongs to it if it has one of the ids or owners and
    every constraint is true for it."""

    ids: tuple[ClusterOrJob, ...] = ()
    owners: tuple[str, ...] = ()
    constraints: tuple[Expression, ...] = ()
    nodes: bool = False  #: whether the id of a DAG also selects its nodes

    @property
    def everything(self) -> bool:
        """Tell whether all jobs are selected."""
        return not (self.ids or self.owners or self.constraints)

    def names(self, cluster: int, owner: str) -> bool:
        """Tell whether a whole cluster of this owner is selected by its number, by its owner, or as all are."""
        by_id = any(wanted.cluster == cluster and wanted.proc is None for wanted in self.ids)
        return by_id or owner in self.owners or not (self.ids or self.owners)

    def has(self, ad: ClassAd, context: Context) -> bool:
        named = []
        if self.ids:
            cluster, proc = number(ad, "ClusterId"), number(ad, "ProcId")
            by_id = any(wanted.cluster == cluster and wanted.proc in (None, proc) for wanted in self.ids)
            named.append(
                by_id or (self.nodes and any(not wanted.proc and is_in(ad, wanted.cluster) for wanted in self.ids))
            )
        if self.owners:
            named.append(text(ad, "Owner") in self.owners)
        if named and not any(named):
            return False
        return all(holds(constraint, ad, context) for constraint in self.constraints)


def holds(constraint: Expression, ad: ClassAd, context: Context) -> bool:
    """Tell whether a constraint is true for an ad: true, or a number but 0."""
    from ...domain.classad import EvaluationError

    try:
        value = constraint.evaluate(ad, None, context)
    except EvaluationError:
        return False
    return isinstance(value, bool | int | float) and value != 0


def select(words: Iterable[str], constraints: Iterable[str]) -> Selection:
    """Return the selection of words (ids and owners) and the values of -constraint options. Raise `UsageError` if a
    word is no id and no name, or a constraint is no expression."""
    meant = [(word, read_job_id(word)) for word in words]
    ids = tuple(wanted for _, wanted in meant if wanted is not None)
    owners = tuple(word for word, wanted in meant if wanted is None)
    return Selection(ids, owners, tuple(parsed("-constraint", constraint) for constraint in constraints))


def in_order(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """Sort jobs by cluster and proc."""
    return sorted(ads, key=id_of)


def chosen_jobs(selection: Selection, ads: Iterable[ClassAd], setting: Setting) -> list[ClassAd]:
    """Return the jobs of a selection, by cluster and proc."""
    context = setting.context()
    return in_order([ad for ad in ads if selection.everything or selection.has(ad, context)])
