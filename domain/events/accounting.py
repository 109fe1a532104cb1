"""What submitters are granted: their priorities, and what the administrator sets of them."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from .base import Event


@frozen
class PrioritiesUpdated(Event):
    """The real priorities of submitters, as of this instant, to 12 significant digits: of all that have used something
    since the last update, and of those that wait for slots, where the value has changed. The others' decay follows from
    their last one."""

    stream: ClassVar[str] = "accountant"
    priorities: dict[str, float]


@frozen
class SubmitterEvent(Event):
    """Of one submitter."""

    submitter: str

    @property
    def stream(self) -> str:
        return f"submitter/{self.submitter}"


@frozen
class SubmitterSet(SubmitterEvent):
    """An administrator (``user``) set one of ``SET`` of a submitter. ``until``: the instant at which it is again what
    it was before (0: for good); a lease whose ``until`` is not later than ``at`` is called off."""

    user: str
    name: str
    value: float
    until: int = 0


@frozen
class SubmittersReset(Event):
    """The usage that these submitters have accumulated counts from now on."""

    stream: ClassVar[str] = "accountant"
    submitters: tuple[str, ...]
    user: str


@frozen
class SubmitterDeleted(SubmitterEvent):
    """The submitter's record is gone: if it comes again, it comes as new."""

    user: str


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
