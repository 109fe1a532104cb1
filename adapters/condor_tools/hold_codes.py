"""``poolbook q -hold-codes``: of the held jobs, how many are held for each code and subcode, with the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .cells import Setting, date_of, hold_reason, job_id, number, shown, text_of
from .layout import Column, Layout, lines

if TYPE_CHECKING:
    from ...domain.classad import ClassAd


def table(jobs: Iterable[ClassAd], setting: Setting) -> Iterator[str]:
    """Yield the heading and a line for each code and subcode."""
    kinds: dict[tuple[Any, Any], list[ClassAd]] = {}
    for ad in sorted(jobs, key=_order):
        kinds.setdefault((number(ad, "HoldReasonCode"), number(ad, "HoldReasonSubCode")), []).append(ad)
    counts = {id(ads[0]): len(ads) for ads in kinds.values()}
    columns = (
        Column("OWNER", text_of("Owner"), -14, missing="??"),
        Column("CODE", "HoldReasonCode", form="%4d", missing="?"),
        Column("/SUB", "HoldReasonSubCode", form="/%-3d", missing=" ", joined=True),
        Column("   COUNT ", lambda ad, _: f"{counts[id(ad)]:9d}"),
        Column("OLDEST_JOB_ID", job_id),
        Column("HELD_SINCE", date_of("EnteredCurrentStatus"), 11, missing="??"),
        Column("HOLD_REASON", hold_reason, 0),
    )
    return lines(Layout(columns), [ads[0] for ads in kinds.values()], setting)


def _order(ad: ClassAd) -> tuple[str, str, int, int]:
    """By the texts of code and subcode, then by id."""
    code, subcode = (shown(ad.eval(name)) for name in ("HoldReasonCode", "HoldReasonSubCode"))
    return code, subcode, int(number(ad, "ClusterId") or 0), int(number(ad, "ProcId") or 0)
