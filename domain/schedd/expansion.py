"""Expand ``$$(Name)``, ``$$(Name:default)`` and ``$$([expression])`` in a job's ad from its slot's ad at the start.

The ad records the values as MATCH_Name and MATCH_EXP_Attribute; the attribute itself does not change.
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
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster
from ..state.job_ad import EXPANDED, hold_reason, parse_int
from ..state.state import AccessPoint
from ..state_machines.hold_codes import StopReason

_NONE: Final[Ad] = {}
MATCH_PREFIX: Final = "MATCH_"
_MACRO = re.compile(r"\$\$\((?:\[(?P<expression>.*?)\]|(?P<name>[A-Za-z0-9_]+)(?::(?P<default>[^)]*))?)\)", re.DOTALL)


class CannotExpandError(Exception):
    """A job cannot start, because its slot's ad lacks a value for a ``$$()``. The message is HTCondor's."""


def expand(ad: Ad, job: ClassAd, slot: ClassAd, context: Context) -> Ad:
    """Return the attribute changes for a job's ad; raise CannotExpandError if a macro has no value."""
    changes: Ad = {}

    def fill_in(match: re.Match[str]) -> str:
        if match["expression"] is not None:
            return _evaluate_macro(match["expression"], job, slot, context)
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
        changes[f"{MATCH_PREFIX}{name}"] = text
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text

    for name, text in ad.items():
        if "$$(" in text and not name.lower().startswith(MATCH_PREFIX.lower()):
            expanded = _MACRO.sub(fill_in, text)
            if expanded != text:
                changes[f"{EXPANDED}{name}"] = expanded
    return changes


def _evaluate_macro(text: str, job: ClassAd, slot: ClassAd, context: Context) -> str:
    unescaped = re.sub(r'\\(["\\])', r"\1", text)
    try:
        value = parse(f"string({unescaped})").evaluate(job, slot, context)
    except (ClassAdSyntaxError, EvaluationError):
        value = None
    if not isinstance(value, str):
        raise CannotExpandError(f"Cannot expand $$ expression ([{text}]).")
    return value


def expand_for_slot(
    draft: Draft[AccessPoint], slot: Callable[[], Mapping[str, str]], cluster: Cluster, proc: int, matched: Ad = _NONE
) -> Ad | None:
    """Return the changes to a job's ad from a slot's ad, or hold the job and return None if the slot lacks a value. The
    ads of jobs without ``$$()`` are not built.

    :param matched: the attributes that the negotiator added to the slot's ad, which the job's ad also receives
    """
    edited = cluster.changes(proc) if cluster.edit_count else {}
    changes = {f"{EXPANDED}{name}": text for name, text in matched.items()}
    if not any("$$(" in text for ad in (cluster.ad, cluster.variants.of_proc(proc), edited) for text in ad.values()):
        return changes
    job = cluster.attributes(proc)
    try:
        return changes | expand(job, ad_from_attributes(job), ad_from_attributes({**slot(), **matched}), draft.context)
    except CannotExpandError as error:
        hold = hold_reason(StopReason(0, 0, str(error)))
        hold["NumSystemHolds"] = str(parse_int(job.get("NumSystemHolds", "")) + 1)
        draft.move_jobs(cluster, ranges([proc]), "hold", "not_expanded", "Idle", hold)
        return None
