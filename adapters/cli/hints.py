"""Hints on standard error about answers that are right but hardly what was wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression


def tell_unknown(command: str, constraints: Iterable[Expression], ads: Iterable[ClassAd]) -> None:
    """Say on standard error which attributes of the constraints no job has, with similar spellings.

    :param ads: the jobs; they are read until each attribute was found
    """
    names = {name.lower(): name for constraint in constraints for name in _read(constraint)}
    if not names:
        return
    from ...domain.state.job_ad import LIVED
    from ...domain.suggestions import did_you_mean

    missing = {lower: name for lower, name in names.items() if lower not in LIVED}
    known: dict[str, str] = {}
    for ad in ads:
        if not missing:
            return
        known |= {name.lower(): name for name in ad}
        missing = {lower: name for lower, name in missing.items() if lower not in known}
    for name in missing.values() if known else ():
        hint = did_you_mean(name, known.values(), most=1, likeness=0.8)
        told = "; ".join(filter(None, [f"no job has the attribute {name}", hint]))
        print(f"poolbook {command}: {told}", file=sys.stderr)


def _read(constraint: Expression) -> Iterable[str]:
    from ...domain.classad import ClassAd, EvaluationError

    try:
        names = constraint.references(ClassAd()).external
    except EvaluationError:
        return ()
    scoped = (name.rpartition(".") for name in names)
    return (name for scope, _, name in scoped if scope.lower() in ("", "my"))
