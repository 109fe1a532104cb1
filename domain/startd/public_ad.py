"""What a slot's ad says to others: the pool's matchmaking, and whoever asks for the slots' status.

The startd's own ad holds its policy; others see of it what matches are made with. START stands in Requirements, and is
published beside it; one that is locally true may be left out of both (``Dialect.hides_true_start``). A slot that is not
to be matched says that its Requirements are false: in Matched and Preempting, when a better match waits for it, and on
a machine that drains (unless the drain has a START of its own) or is shut down. Sources: the manual, "condor_startd
Policy Configuration", "Matched State" and "Preempting State"; the real startd's ads for what it leaves out.
"""

from __future__ import annotations

from typing import Final

from ..events import Ad
from ..state_machines import Dialect
from .settings import PRIVATE

_USUAL: Final = "Start && WithinResourceLimits"
REFUSING: Final = frozenset({"Matched", "Preempting"})
"""The states in which a slot is not to be matched."""
_KEPT_TO_ITSELF: Final = PRIVATE | {"claim_worklife"}
_SETTINGS, _VARIANTS = "modify_request_expr_", "_vanilla"


def shown(name: str) -> bool:
    """Return whether an attribute of a slot's own ad is published."""
    lower = name.lower()
    return lower not in _KEPT_TO_ITSELF and not lower.startswith(_SETTINGS) and not lower.endswith(_VARIANTS)


_UNSAID: Final[Ad] = {"Rank": "0.0"}
"""What is published of a slot whose own ad does not say it (Resource::publish: so that nobody takes a job's Rank for
the slot's)."""


def with_unsaid(ad: Ad) -> Ad:
    """An ad with what is published although the slot does not say it."""
    said = {name.lower() for name in ad}
    return {name: text for name, text in _UNSAID.items() if name.lower() not in said} | ad


def published(
    ad: Ad, dialect: Dialect, state: str, *, closed: bool = False, start: str = "", willing: bool | None = None
) -> Ad:
    """What is published of a slot's ad.

    :param closed: the machine drains or is shut down, or a better match waits for the slot
    :param start: what START is while the machine drains, if the drain has one
    :param willing: the value of START without a job; None: it has none
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
