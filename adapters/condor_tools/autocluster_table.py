"""Groups of jobs: by significant attributes (``q -autocluster``, ``-group-by``), hold code, or job factory.

The ad of a group contains the significant attributes that its jobs share, its number, and the number of its jobs. The
order of their first jobs numbers the groups, since the negotiator often discards its own numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...domain.state.job_ad import quoted
from .cells import HELD, IDLE, RUNNING, CellContext, job_id, number, value_text
from .formats import attribute_list, line_writer
from .job_selection import JobSelector, chosen_jobs
from .options import Arguments, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...projections.views import FactoryRow

Signature = tuple[tuple[str, str], ...]
"""The significant attributes of a job, in lower case, with their texts."""
Signing = Callable[[Mapping[str, str]], Signature]
"""A function that returns the significant attributes of a job's ad, given as texts."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


_SIGNIFICANT = ("Requirements", "Rank", "RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs")
"""The default significant attributes of a job without AutoClusterAttrs, as in a schedd."""


def requested_groups(
    jobs: Iterable[ClassAd], arguments: Arguments, selection: JobSelector, display: CellContext, signing: Signing | None
) -> list[ClassAd]:
    """Return an ad for each group of jobs with equal attributes, for -autocluster or -group-by.

    :param signing: returns the significant attributes for the negotiator; None: take them from the jobs' ads
    """
    if arguments.has("autocluster"):  # a constraint applies to the groups
        chosen_ads = chosen_jobs(selection._replace(constraints=()), jobs, display)
        groups = autocluster_ads(filter(_has_autocluster, chosen_ads), signing or signature_from_ad, "AutoClusterId")
        constraint, context = JobSelector(constraints=selection.constraints), display.context()
        return [ad for ad in groups if constraint.has(ad, context)]
    sources = [source for option in arguments.all_given("af", "autoformat") for source in option.values]
    sources += [option.values[1] for option in arguments.all_given("format")]
    names = {name.lower() for source in sources for name in _NAME.findall(source)}
    names |= {name.lower() for name in attribute_list(arguments) or ()}
    if not names:
        raise UsageError("poolbook q: -group-by needs attributes: -af Owner RequestCpus JobCount, or -attributes")
    return autocluster_ads(chosen_jobs(selection, jobs, display), _signing_by(names), "Id")


def _has_autocluster(job: ClassAd) -> bool:
    """Return True if a job is in an autocluster; a held job that was never matched is not."""
    return number(job, "JobStatus") != HELD or bool(number(job, "NumJobMatches")) or "AutoClusterId" in job


def _signing_by(names: Container[str]) -> Signing:
    return lambda texts: tuple(sorted((name.lower(), text) for name, text in texts.items() if name.lower() in names))


def signature_from_ad(texts: Mapping[str, str]) -> Signature:
    names = texts.get("AutoClusterAttrs", ",".join(_SIGNIFICANT)).strip('"').lower().split(",")
    return _signing_by(names)(texts)


def group_jobs(jobs: Iterable[ClassAd], signing: Signing) -> dict[Signature, list[ClassAd]]:
    """Return the jobs grouped by equal attributes, in the order of their first jobs."""
    write_line = line_writer()
    members: dict[Signature, list[ClassAd]] = {}
    for job in jobs:
        texts_by_name = {name: write_line(job, name).partition(" = ")[2].rstrip("\n") for name in job}
        members.setdefault(signing(texts_by_name), []).append(job)
    return members


def autocluster_ads(jobs: Iterable[ClassAd], signing: Signing, name: str) -> list[ClassAd]:
    """Return an ad for each group of equal jobs, in the order of their first jobs. The attribute ``name`` contains the
    group's number; if the jobs have this attribute, use its value."""
    from ...domain.state.caches import ad_from_attributes

    ads = []
    for at, (signature, alike) in enumerate(group_jobs(jobs, signing).items(), 1):
        spellings = {spelling.lower(): spelling for spelling in alike[0]}
        ad = ad_from_attributes({spellings.get(name, name): text for name, text in signature})
        ad[name], ad["JobCount"], ad["JobIds"] = (int(number(alike[0], name) or at), len(alike), _id_range(alike))
        ads.append(ad)
    return sorted(ads, key=lambda ad: int(number(ad, name) or 0))


def _id_range(jobs: Sequence[ClassAd]) -> str:
    first, last = job_id(jobs[0]) or "", job_id(jobs[-1]) or ""
    return first if len(jobs) == 1 else f"{first} ... {last}" if len(jobs) > 2 else f"{first} {last}"


def hold_code_ads(jobs: Iterable[ClassAd]) -> list[ClassAd]:
    """Return the first job for each hold code and subcode, with the number of such jobs."""
    from ...domain.classad import ClassAd

    kinds: dict[tuple[Any, Any], list[ClassAd]] = {}
    for ad in sorted(jobs, key=_hold_reason_key):
        kinds.setdefault((number(ad, "HoldReasonCode"), number(ad, "HoldReasonSubCode")), []).append(ad)
    return [ClassAd({**ads[0], "JobCount": len(ads)}) for ads in kinds.values()]


def _hold_reason_key(ad: ClassAd) -> tuple[str, str, int, int]:
    code, subcode = (value_text(ad.eval(name)) for name in ("HoldReasonCode", "HoldReasonSubCode"))
    return code, subcode, int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)


_MODES = {"Paused": 1, "Removed": 3}
_ALL_MADE = 2


def factory_ads(rows: Iterable[FactoryRow]) -> list[ClassAd]:
    """Return the clusters' ads, with the number of queued jobs and the state of the factory."""
    from ...domain.state.caches import ad_from_attributes

    ads = []
    for row in rows:
        attributes = {
            "ClusterId": str(row.cluster),
            "JobFactoryPaused": str(_ALL_MADE if row.made == row.total else _MODES.get(row.mode, 0)),
            "JobMaterializeNextProcId": str(row.made),
            "JobsHeld": str(row.counts.get(HELD, 0)),
            "JobsIdle": str(row.counts.get(IDLE, 0)),
            "JobsPresent": str(sum(row.counts.values())),
            "JobsRunning": str(row.counts.get(RUNNING, 0)),
            "JobStatus": "1",
        }
        if row.mode == "Paused":
            attributes |= {"JobMaterializePaused": "1", "JobMaterializePauseReason": quoted(row.reason)}
        ads.append(ad_from_attributes({**json.loads(row.ad), **json.loads(row.changes), **attributes}))
    return ads
