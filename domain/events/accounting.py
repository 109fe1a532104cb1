"""Events of the accountant: priorities, and changes to submitters by administrators."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from .base import Event, event


@event("priorities.updated")
class PrioritiesUpdated(Event, frozen=True):
    """The accountant updated real priorities. The event contains those priorities that changed, for submitters with
    idle jobs or with usage since the last update; other submitters' priorities decay predictably from their last
    value."""

    stream: ClassVar[str] = "accountant"
    priorities: dict[str, float]  #: submitter -> real priority, to 12 significant digits
    negotiator: str = ""  #: the negotiator with the accounts, if there are several (empty: NEGOTIATOR)


class SubmitterEvent(Event, frozen=True):
    """An event about one submitter."""

    submitter: str  #: the submitter's name, such as alice@example.org

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@event("submitter.set")
class SubmitterSet(SubmitterEvent, frozen=True):
    """An administrator set one of a submitter's values, permanently or temporarily (a lease). If ``until`` is not later
    than ``at``, the lease is canceled."""

    user: str  #: the user who requested it
    name: str  #: the value that was set; one of `SET`
    value: float  #: the new value, in the unit given in `SET`
    until: int = 0  #: when the previous value returns, in microseconds (0: never)
    factor: float = 0.0  #: the priority factor, if the submitter is new (0: not new, or an older log)
    negotiator: str = ""  #: the negotiator with the account, if there are several (empty: NEGOTIATOR)
    set_at: int = 0  #: when it was set at another manager, in microseconds (0: it was set here)
    manager: str = ""  #: that manager (empty: it was set here)


@event("submitters.reset")
class SubmittersReset(Event, frozen=True):
    """An administrator reset the accumulated usage of these submitters to 0."""

    stream: ClassVar[str] = "accountant"
    submitters: tuple[str, ...]  #: the submitters
    user: str  #: the user who requested it
    factors: dict[str, float] = field(default_factory=dict)  #: the priority factors of new submitters
    negotiator: str = ""  #: the negotiator with the accounts, if there are several (empty: NEGOTIATOR)
    set_at: int = 0  #: when it was set at another manager, in microseconds (0: it was set here)
    manager: str = ""  #: that manager (empty: it was set here)


@event("submitter.deleted")
class SubmitterDeleted(SubmitterEvent, frozen=True):
    """An administrator deleted the submitter's account. A submitter with claims immediately receives a new account."""

    user: str  #: the user who requested it
    factor: float = 0.0  #: the priority factor of the new account (0: no claims and so no new account, or an older log)
    negotiator: str = ""  #: the negotiator with the account, if there are several (empty: NEGOTIATOR)
    set_at: int = 0  #: when it was set at another manager, in microseconds (0: it was set here)
    manager: str = ""  #: that manager (empty: it was set here)


SET: dict[str, str] = {
    "priority": "the real priority, at least 0.5",
    "factor": "the priority factor, at least 1",
    "floor": "the cores that it gets before other submitters (0: none)",
    "ceiling": "the most cores that it may have (-1: no limit)",
    "usage": "the accumulated weighted usage, in seconds",
    "begin": "when its usage began, in seconds since the epoch",
    "last": "when its usage ended, in seconds since the epoch",
}
"""The values of a submitter that can be set."""
