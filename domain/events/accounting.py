"""What submitters are granted: their priorities, and what the administrator sets of them."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from .base import Event, event


@event("priorities.updated")
class PrioritiesUpdated(Event, frozen=True):
    """The real priorities of submitters, as of this instant: of all that have used something since the last update, and
    of those that wait for slots, where the value has changed. The others' decay follows from their last one."""

    stream: ClassVar[str] = "accountant"
    priorities: dict[str, float]  #: submitter -> real priority, to 12 significant digits
    negotiator: str = ""  #: in whose accounting, if there are several (empty: NEGOTIATOR's)


class SubmitterEvent(Event, frozen=True):
    """Of one submitter."""

    submitter: str  #: the submitter's name, as alice@example.org

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@event("submitter.set")
class SubmitterSet(SubmitterEvent, frozen=True):
    """An administrator set something of a submitter, for good or for a time (a lease). A lease whose ``until`` is not
    later than ``at`` is called off."""

    user: str  #: who asked for it
    name: str  #: what was set: one of `SET`
    value: float  #: what it is from now on, in the unit that `SET` says
    until: int = 0  #: the instant at which it is again what it was before, in microseconds (0: for good)
    factor: float = 0.0  #: the priority factor of a submitter that is new (0: it is not, or the log is older)
    negotiator: str = ""  #: in whose accounting, if there are several (empty: NEGOTIATOR's)


@event("submitters.reset")
class SubmittersReset(Event, frozen=True):
    """The usage that these submitters have accumulated counts from now on."""

    stream: ClassVar[str] = "accountant"
    submitters: tuple[str, ...]  #: whose usage restarts
    user: str  #: who asked for it
    factors: dict[str, float] = field(default_factory=dict)  #: the priority factors of new submitters
    negotiator: str = ""  #: in whose accounting, if there are several (empty: NEGOTIATOR's)


@event("submitter.deleted")
class SubmitterDeleted(SubmitterEvent, frozen=True):
    """The submitter's record is gone: if it comes again, it comes as new. It comes at once if it has claims."""

    user: str  #: who asked for it
    factor: float = 0.0  #: its priority factor from now on, if it has claims (0: it has none, or the log is older)
    negotiator: str = ""  #: in whose accounting, if there are several (empty: NEGOTIATOR's)


SET: dict[str, str] = {
    "priority": "the real priority, at least 0.5",
    "factor": "the priority factor, at least 1",
    "floor": "cores that it is to have before others get theirs (0: none)",
    "ceiling": "cores that it may have at most (-1: no limit)",
    "usage": "the weighted usage that it has accumulated, in seconds",
    "begin": "when it used something first, in seconds since the epoch",
    "last": "when it used something last, in seconds since the epoch",
}
"""What can be set of a submitter."""
