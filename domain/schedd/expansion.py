"""``$$(Name)``, ``$$(Name:default)`` and ``$$([expression])`` in a job's ad, which its slot fills in when it begins.

What was found is kept in the ad, as MATCH_Name and MATCH_EXP_Attribute; the attribute itself stays as it was submitted.
Source: the manual's "Substitutions and macros" (Submitting a Job), and dollarDollarExpand (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from ..classad import ClassAd, ClassAdSyntaxError, Context, EvaluationError, parse
from ..classad.unparse import unparse_old
from ..decision.draft import Draft, ranges
from ..events import Ad
from ..state.caches import ad_of
from ..state.cluster import Cluster
from ..state.job_ad import EXPANDED, parse_int, quoted
from ..state.state import AccessPoint

MATCH: Final = "MATCH_"
_MACRO = re.compile(r"\$\$\((?:\[(?P<expression>.*?)\]|(?P<name>[A-Za-z0-9_]+)(?::(?P<default>[^)]*))?)\)", re.DOTALL)


class CannotExpandError(Exception):
    """A job cannot begin: its slot has nothing to fill in. The text is what HTCondor says of it."""


def asks(ad: Mapping[str, str]) -> bool:
    """Check whether any attribute has something to fill in."""
    return any("$$(" in text for text in ad.values())


def expand(ad: Ad, job: ClassAd, slot: ClassAd, context: Context) -> Ad:
    """Return what changes in the ad. Raise `CannotExpandError`."""
    changes: Ad = {}

    def filled(match: re.Match[str]) -> str:
        if match["expression"] is not None:
            return _evaluated(match["expression"], job, slot, context)
        name = match["name"]
        if name.lower() == "dollardollar":
            return "$$"
        expression = slot.get(name)
        if expression is not None:
            text = unparse_old(expression)
        elif match["default"] is not None:
            text = f'"{match["default"]}"'
        else:
            raise CannotExpandError(f"Cannot expand $$ expression ({name}).")
        changes[f"{MATCH}{name}"] = text
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text

    for name, text in ad.items():
        if "$$(" in text and not name.lower().startswith(MATCH.lower()):
            expanded = _MACRO.sub(filled, text)
            if expanded != text:
                changes[f"{EXPANDED}{name}"] = expanded
    return changes


def _evaluated(text: str, job: ClassAd, slot: ClassAd, context: Context) -> str:
    plain = re.sub(r'\\(["\\])', r"\1", text)
    try:
        value = parse(f"string({plain})").evaluate(job, slot, context)
    except (ClassAdSyntaxError, EvaluationError):
        value = None
    if not isinstance(value, str):
        raise CannotExpandError(f"Cannot expand $$ expression ([{text}]).")
    return value


def expanded_by(
    draft: Draft[AccessPoint], slot: Callable[[], Mapping[str, str]], cluster: Cluster, proc: int
) -> Ad | None:
    """Return what a slot's ad fills in; None: it has nothing for it, and the job is held. Most jobs ask for nothing:
    their ads are not put together for it."""
    edited = cluster.changes(proc) if cluster.edit_count else {}
    if not any(asks(ad) for ad in (cluster.ad, cluster.variants.of(proc), edited)):
        return {}
    job = cluster.attributes(proc)
    try:
        return expand(job, ad_of(job), ad_of(slot()), draft.context)
    except CannotExpandError as error:
        hold = {"HoldReason": quoted(str(error)), "HoldReasonCode": "0", "HoldReasonSubCode": "0"}
        hold["NumSystemHolds"] = str(parse_int(job.get("NumSystemHolds", "")) + 1)
        draft.move_jobs(cluster, ranges([proc]), "hold", "not_expanded", "Idle", hold)
        return None
