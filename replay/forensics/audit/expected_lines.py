"""What a startd says before each transition of a kind: where it did not say it once, a line was taken out.

A startd says the same on each occasion, as long as its configuration is the same: what it logs is decided by the kind
of the record. So its occasions are counted from its beginning, or from where it read its configuration anew.
Lines are missed where one occasion alone lacks what at least ``ENOUGH`` others have; two that lack it may be another
way to the same transition, of which the table does not know.

``SAYINGS`` has what preceded each such transition in all logs of real daemons (HTCondor 25) that were looked at: 21
pools that were watched, and six that were made to fail. What only most of them have is not there: a claim is also
deactivated when its starter has ended already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from .verdict import Finding

ENOUGH: Final = 3
"""So many other occasions show what is said on each."""


class Saying(NamedTuple):
    """Transitions from one of `sources` to one of `targets`, and what is said before them on the same slot: words of
    ``reports.OF_SLOTS``, "job" (its number), or how one of the transition's reasons begins."""

    sources: str
    targets: str
    words: tuple[str, ...]


SAYINGS: Final = (
    Saying(
        "Unclaimed/Idle, Unclaimed/Benchmarking, Matched/Idle, Owner/Idle",
        "Claimed/Idle",
        ("requested", "accepted", "owner"),
    ),
    Saying("Preempting/Vacating, Preempting/Killing", "Claimed/Idle", ("owner", "preempting claim exists")),
    Saying("Claimed/Idle", "Claimed/Busy", ("Got activate_claim request", "activated", "job")),
    Saying("Claimed/Busy, Claimed/Retiring, Claimed/Suspended", "Claimed/Cleaning", ("job_over",)),
    Saying("Claimed/Cleaning", "Claimed/Idle, Preempting/Vacating", ("starter_gone", "starter exited")),
    Saying("Preempting/Vacating", "Owner/Idle, Claimed/Idle", ("starter_gone", "starter exited")),
    Saying("Claimed/Retiring", "Preempting/Vacating, Preempting/Killing", ("claim retirement ended",)),
    Saying("Owner/Idle, Owner/Retiring", "Unclaimed/Idle", ("IS_OWNER is false",)),
    Saying("Unclaimed/Idle", "Matched/Idle", ("match notification protocol successful",)),
    Saying("Drained/Retiring", "Drained/Idle", ("draining is complete",)),
    Saying("Drained/Idle, Drained/Retiring", "Owner/Idle, Owner/Retiring", ("slot is no longer draining",)),
)
_SAID: Final = tuple(
    (number, source, target, words)
    for number, saying in enumerate(SAYINGS)
    for source in saying.sources.split(", ")
    for target in saying.targets.split(", ")
    for words in saying.words
)
_BEFORE: Final = {
    step: [(number, words) for number, source, target, words in _SAID if (source, target) == step]
    for step in {(source, target) for _, source, target, _ in _SAID}
}
_NEEDS: Final = {"job": "activated", "starter_gone": "starter", "starter exited": "starter"}
"""What can only be said if something else was: of a job if there is one, and of the end of a starter that was told."""
_CALLED: Final = {
    "requested": "an access point's request",
    "accepted": "that the request was accepted",
    "owner": "the remote owner",
    "activated": "the claim's activation",
    "job": "the remote job's number",
    "job_over": "the starter's final word",
    "starter_gone": "the end of the starter's process",
}

_Key = tuple[bool, int, str]


@define
class Occasions:
    """What one startd said before its slots' transitions."""

    _said: dict[_Key, int] = field(factory=dict)
    """Whether the slot is a dynamic one, the number of the saying, the words -> how often they were said."""
    _lacking: dict[_Key, list[Finding]] = field(factory=dict)
    """Where they were not, up to two."""

    def take(self, event: e.SlotTransitioned, dynamic: bool, said: set[str], finding: Callable[[str], Finding]) -> None:
        """A transition of a slot, and what was said of the slot since the one before; `finding` makes one of words."""
        for number, words in _BEFORE.get((event.source, event.target), ()):
            if words in _NEEDS and _NEEDS[words] not in said:
                continue
            key = (dynamic, number, words)
            if words in said or f"/ {words}" in f"/ {event.reason}":
                self._said[key] = self._said.get(key, 0) + 1
            elif len(lacking := self._lacking.setdefault(key, [])) < 2:
                name = _CALLED.get(words, repr(words))
                lacking.append(
                    finding(f"this startd tells of {name} before each other such transition: a line was taken out")
                )

    def missed(self) -> Iterator[Finding]:
        """The transitions before which a line is missing."""
        for key, lacking in self._lacking.items():
            if len(lacking) == 1 and self._said.get(key, 0) >= ENOUGH:
                yield lacking[0]
