"""``poolbook q -autocluster``, ``-group-by`` and ``-hold-codes``: jobs that are alike, counted, as condor_q shows them.

Each group is an ad: what its jobs have in common of the attributes that count, its number, and how many jobs it has.
Groups are numbered by their first jobs: the negotiator's own numbers are forgotten again and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .cells import HELD, CellContext, job_id, number, shown
from .formats import attribute_list, bare_json, old_lines, whole_ads
from .job_selection import JobSelector, chosen_jobs
from .layout import Column, Layout, lines, with_appended
from .options import Arguments, UsageError
from .print_format import own_table

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Signature = tuple[tuple[str, str], ...]
"""The attributes that count of a job, in small letters, with their texts."""
Signing = Callable[[Mapping[str, str]], Signature]
"""Returns what counts of a job's ad, whose attributes are given as texts."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


_SIGNIFICANT = ("Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")
"""What counts of a job that does not say it (AutoClusterAttrs, as a schedd has it) where nobody says it of all."""


class AutoclusterQuery(Protocol):
    """What is read here of a ``queue_table.QueueQuery``."""

    @property
    def arguments(self) -> Arguments: ...
    @property
    def view(self) -> str: ...
    @property
    def selection(self) -> JobSelector: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def layout(self) -> Layout | None: ...
    @property
    def more(self) -> tuple[Column, ...]: ...


def table(
    jobs: Iterable[ClassAd], query: AutoclusterQuery, setting: CellContext, signing: Signing | None = None
) -> Iterator[str]:
    """Yield the jobs that are alike, as a query prints them.

    :param signing: what counts for the negotiator; None: what the jobs' own ads say of it
    """
    found = _asked(jobs, query, signing or by_their_ads, setting)[: query.limit]
    if query.view in ("long", "json", "jsonl", "xml"):
        yield from whole_ads(query.view, found, attribute_list(query.arguments), bare=bare_json(query.arguments))
    elif query.layout is not None:
        yield from lines(query.layout, found, setting)
    else:
        columns = own_table("q", "autocluster").layout.columns
        yield from lines(Layout(with_appended(columns, query.more), trimmed=True), found, setting)


def _asked(jobs: Iterable[ClassAd], query: AutoclusterQuery, signing: Signing, setting: CellContext) -> list[ClassAd]:
    if query.arguments.has("autocluster"):  # a constraint is about the groups
        named = query.selection._replace(constraints=())
        found = alike(filter(_negotiated, chosen_jobs(named, jobs, setting)), signing, "AutoClusterId")
        wanted, context = JobSelector(constraints=query.selection.constraints), setting.context()
        return [ad for ad in found if wanted.has(ad, context)]
    sources = [source for given in query.arguments.every("af", "autoformat") for source in given.values]
    sources += [given.values[1] for given in query.arguments.every("format")]
    names = {name.lower() for source in sources for name in _NAME.findall(source)}
    names |= {name.lower() for name in attribute_list(query.arguments) or ()}
    if not names:
        raise UsageError("poolbook q: -group-by needs attributes: -af Owner RequestCpus JobCount, or -attributes")
    return alike(chosen_jobs(query.selection, jobs, setting), _by(names), "Id")


def _negotiated(job: ClassAd) -> bool:
    """Tell whether a job is in an autocluster: a held one that was never matched is in none."""
    return number(job, "JobStatus") != HELD or bool(number(job, "NumJobMatches")) or "AutoClusterId" in job


def _by(names: Container[str]) -> Signing:
    return lambda texts: tuple(sorted((name.lower(), text) for name, text in texts.items() if name.lower() in names))


def by_their_ads(texts: Mapping[str, str]) -> Signature:
    """Return what counts of a job by its own ad."""
    names = texts.get("AutoClusterAttrs", ",".join(_SIGNIFICANT)).strip('"').lower().split(",")
    return _by(names)(texts)


def grouped(jobs: Iterable[ClassAd], signing: Signing) -> dict[Signature, list[ClassAd]]:
    """Return the jobs that are alike, in the order of their first jobs."""
    written = old_lines()
    members: dict[Signature, list[ClassAd]] = {}
    for job in jobs:
        texts = {one: written(job, one).partition(" = ")[2].rstrip("\n") for one in job}
        members.setdefault(signing(texts), []).append(job)
    return members


def alike(jobs: Iterable[ClassAd], signing: Signing, name: str) -> list[ClassAd]:
    """Return an ad for each group of like jobs, in the order of their first jobs. ``name`` is its number's, which is
    the jobs' own if they have one."""
    from ...domain.state.caches import ad_of

    found = []
    for at, (signature, own) in enumerate(grouped(jobs, signing).items(), 1):
        spelled = {one.lower(): one for one in own[0]}
        ad = ad_of({spelled.get(one, one): text for one, text in signature})
        ad[name], ad["JobCount"], ad["JobIds"] = int(number(own[0], name) or at), len(own), _ids(own)
        found.append(ad)
    return sorted(found, key=lambda ad: int(number(ad, name) or 0))


def _ids(jobs: Sequence[ClassAd]) -> str:
    first, last = job_id(jobs[0]) or "", job_id(jobs[-1]) or ""
    return first if len(jobs) == 1 else f"{first} ... {last}" if len(jobs) > 2 else f"{first} {last}"


def hold_code_table(jobs: Iterable[ClassAd], setting: CellContext) -> Iterator[str]:
    """Yield the heading and a line for each code and subcode."""
    from ...domain.classad import ClassAd

    kinds: dict[tuple[Any, Any], list[ClassAd]] = {}
    for ad in sorted(jobs, key=_order):
        kinds.setdefault((number(ad, "HoldReasonCode"), number(ad, "HoldReasonSubCode")), []).append(ad)
    rows = [ClassAd({**ads[0], "JobCount": len(ads)}) for ads in kinds.values()]
    return lines(own_table("q", "hold-codes").layout, rows, setting)


def _order(ad: ClassAd) -> tuple[str, str, int, int]:
    """By the texts of code and subcode, then by id."""
    code, subcode = (shown(ad.eval(name)) for name in ("HoldReasonCode", "HoldReasonSubCode"))
    return code, subcode, int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)
