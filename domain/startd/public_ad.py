"""The ad of a slot that others see: the negotiator, and condor_status.

The startd's own ad holds its policy; others see what matches are made with. START stands in Requirements, and is
published beside it; one that is locally true may be left out of both (``Dialect.hides_true_start``). A slot that must
not be matched has false Requirements: in Matched and Preempting, when a better match waits for it, and on a machine
that drains (unless the drain has a START of its own) or is shut down. Sources: the manual, "condor_startd Policy
Configuration", "Matched State" and "Preempting State"; the real startd's ads for what it leaves out.
"""

from __future__ import annotations

from typing import Final

from ..events import Ad
from ..state_machines import Dialect
from .settings import PRIVATE

_USUAL: Final = "Start && WithinResourceLimits"
REFUSING: Final = frozenset({"Matched", "Preempting"})
"""The states in which a slot must not be matched."""
_KEPT_TO_ITSELF: Final = PRIVATE | {"claim_worklife"}
_SETTINGS, _VARIANTS = "modify_request_expr_", "_vanilla"


def shown(name: str) -> bool:
    lower = name.lower()
    return lower not in _KEPT_TO_ITSELF and not lower.startswith(_SETTINGS) and not lower.endswith(_VARIANTS)


_UNSAID: Final[Ad] = {"Rank": "0.0"}
"""The attributes published of a slot whose own ad lacks them (Resource::publish: so that nobody takes a job's Rank for
the slot's)."""


def with_unsaid(ad: Ad) -> Ad:
    """Return an ad with the attributes that are published although the slot lacks them."""
    said = {name.lower() for name in ad}
    return {name: text for name, text in _UNSAID.items() if name.lower() not in said} | ad


def published(
    ad: Ad, dialect: Dialect, state: str, *, closed: bool = False, start: str = "", willing: bool | None = None
) -> Ad:
    """Return the published part of a slot's ad.

    :param closed: the machine drains or is shut down, or a better match waits for the slot :param start: START while
    the machine drains, if the drain has one :param willing: the value of START without a job; None: it has none
    """
    found = with_unsaid({name: text for name, text in ad.items() if shown(name)})
    if state in REFUSING or (closed and not start):
        found.pop("Start", None)
        return {**found, "Requirements": "false"}
    if start:
        found["Start"] = start
    elif dialect.hides_true_start and willing and found.get("Requirements") == _USUAL:
        found.pop("Start", None)
        found["Requirements"] = "WithinResourceLimits"
    return found
