"""Find a missing line among those that a startd writes before each transition of a kind.

``EXPECTED_LINES`` has the lines that preceded every such transition in all examined logs of real daemons (HTCondor 25):
21 recorded pools, and six that were made to fail. Lines that precede only most of them are left out: a claim is also
deactivated when its starter has ended already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ...audit_result import AuditFinding

LEAST_OTHERS: Final = 3  #: the number of other transitions that must have a line before one without it counts


class ExpectedLines(NamedTuple):
    """The words that precede transitions from one of `sources` to one of `targets` on the same slot: words of
    ``reports.OF_SLOTS``, "job" (its number), or the beginnings (one, or several separated by |) of one of the
    transition's reasons."""

    sources: str
    targets: str
    words: tuple[str, ...]


EXPECTED_LINES: Final = (
    ExpectedLines(
        "Unclaimed/Idle, Unclaimed/Benchmarking, Matched/Idle, Owner/Idle",
        "Claimed/Idle",
        ("requested", "accepted", "owner"),
    ),
    ExpectedLines("Preempting/Vacating, Preempting/Killing", "Claimed/Idle", ("owner", "preempting claim exists")),
    ExpectedLines("Claimed/Idle", "Claimed/Busy", ("Got activate_claim request", "activated", "job")),
    ExpectedLines("Claimed/Busy, Claimed/Retiring, Claimed/Suspended", "Claimed/Cleaning", ("job_over",)),
    ExpectedLines("Claimed/Cleaning", "Claimed/Idle, Preempting/Vacating", ("starter_gone", "starter exited")),
    ExpectedLines("Preempting/Vacating", "Owner/Idle, Claimed/Idle", ("starter_gone", "starter exited")),
    ExpectedLines("Claimed/Retiring", "Preempting/Vacating, Preempting/Killing", ("claim retirement ended",)),
    ExpectedLines(  # a claim that is older than CLAIM_WORKLIFE ends when its job is deactivated
        "Claimed/Busy",
        "Preempting/Vacating",
        ("preempting claim based on|Called deactivate_claim", "claim retirement ended|Called deactivate_claim"),
    ),
    ExpectedLines("Claimed/Suspended", "Preempting/Vacating", ("preempting claim based on|Called deactivate_claim",)),
    ExpectedLines(
        "Claimed/Busy",
        "Claimed/Retiring",
        ("retiring due to|PREEMPT is TRUE|received VACATE|Initiating|shutdown graceful",),
    ),
    ExpectedLines(
        "Claimed/Busy, Claimed/Idle, Claimed/Suspended",
        "Preempting/Killing",
        ("received|shutdown fast|claim lease expired|KILL|claiming protocol successful",),
    ),
    ExpectedLines("Owner/Idle, Owner/Retiring", "Unclaimed/Idle", ("IS_OWNER is false",)),
    ExpectedLines("Unclaimed/Idle", "Matched/Idle", ("match notification protocol successful",)),
    ExpectedLines("Drained/Retiring", "Drained/Idle", ("draining is complete",)),
    ExpectedLines("Drained/Idle, Drained/Retiring", "Owner/Idle, Owner/Retiring", ("slot is no longer draining",)),
)
_SAID: Final = tuple(
    (number, source, target, words)
    for number, saying in enumerate(EXPECTED_LINES)
    for source in saying.sources.split(", ")
    for target in saying.targets.split(", ")
    for words in saying.words
)
_BEFORE: Final = {
    step: [(number, words) for number, source, target, words in _SAID if (source, target) == step]
    for step in {(source, target) for _, source, target, _ in _SAID}
}
_NEEDS: Final = {
    "job": "activated", "starter_gone": "starter", "starter exited": "starter", "claim retirement ended": "starter",
}  # fmt: skip
"""Words that need others before them: of a job if there is one, of a starter's exit if a starter was told."""
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
class LineCensus:
    """The lines that one startd wrote before its slots' transitions."""

    _said: dict[_Key, int] = field(factory=dict)
    """How often words were written, by (dynamic slot, number of the expectation, words)."""
    _lacking: dict[_Key, list[AuditFinding]] = field(factory=dict)  #: the transitions without them, two at most

    def take(
        self, event: e.SlotTransitioned, dynamic: bool, said: set[str], finding: Callable[[str], AuditFinding]
    ) -> None:
        """Count a transition and the words since the slot's last one; `finding` makes a finding of words."""
        if "command_coalesce_slots" in event.reason:
            return  # for condor_now a startd ends claims and begins one without the usual lines
        for number, words in _BEFORE.get((event.source, event.target), ()):
            if words in _NEEDS and _NEEDS[words] not in said:
                continue
            key = (dynamic, number, words)
            if words in said or any(f"/ {one}" in f"/ {event.reason}" for one in words.split("|")):
                self._said[key] = self._said.get(key, 0) + 1
            elif len(lacking := self._lacking.setdefault(key, [])) < 2:
                name = _CALLED.get(words, " or ".join(map(repr, words.split("|"))))
                lacking.append(
                    finding(f"this startd tells of {name} before each other such transition: a line was taken out")
                )

    def missed(self) -> Iterator[AuditFinding]:
        """Yield the transitions before which a line is missing."""
        for key, lacking in self._lacking.items():
            if len(lacking) == 1 and self._said.get(key, 0) >= LEAST_OTHERS:
                yield lacking[0]


# Lines that announce a transition, which follows at once


class Announcement(NamedTuple):
    """Words after which a startd makes a transition at once; ``target`` begins the transition's target pair, and one of
    ``sources`` its source pair."""

    words: str
    target: str
    sources: tuple[str, ...] = ("",)


ANNOUNCEMENTS: Final = (
    Announcement("IS_OWNER is false", "Unclaimed/Idle", ("Owner/",)),
    Announcement("No preempting claim, returning to owner", "Owner/Idle", ("Preempting/",)),
    Announcement("claim-activation protocol successful", "Claimed/Busy", ("Claimed/Idle",)),
    Announcement("match notification protocol successful", "Backfill/Killing", ("Backfill/Busy",)),
    Announcement("match notification protocol successful", "Matched/Idle"),
    Announcement("match timed out", "Owner/Idle", ("Matched/",)),
    Announcement("entering Drained state", "Drained/Retiring"),
    Announcement("draining is complete", "Drained/Idle", ("Drained/",)),
    Announcement("slot is no longer draining", "Owner/", ("Drained/",)),
    Announcement("START_BACKFILL is TRUE", "Backfill/Idle", ("Unclaimed/",)),
    Announcement("Backfill starter exited", "Backfill/Idle", ("Backfill/",)),
    Announcement("SUSPEND is TRUE", "Claimed/Suspended", ("Claimed/",)),
    Announcement("KILL is TRUE", "Preempting/Killing", ("Preempting/",)),
    Announcement("unretiring because no preempting claim exists", "Claimed/Busy"),
)
REASONS: Final = (
    *ANNOUNCEMENTS,
    Announcement("PREEMPT is TRUE", "Claimed/Retiring", ("Claimed/",)),
    Announcement("CONTINUE is TRUE", "Claimed/", ("Claimed/Suspended",)),
    Announcement("IS_OWNER is true", "", ("Unclaimed/", "Matched/", "Claimed/", "Backfill/")),
    Announcement("IS_OWNER is TRUE", "", ("Unclaimed/", "Matched/", "Claimed/", "Backfill/")),
    Announcement("EVICT_BACKFILL is TRUE", "", ("Backfill/",)),
    Announcement("START is TRUE", "", ("Owner/",)),
    Announcement("idle claim shutting down", "Preempting/", ("Claimed/",)),
    Announcement("claim retirement ended", "Preempting/", ("Claimed/",)),
    Announcement("preempting claim exists", "", ("Preempting/",)),
    Announcement("received RELEASE_CLAIM command", "", ("Claimed/", "Preempting/", "Matched/")),
    Announcement("Called deactivate_claim", "", ("Claimed/", "Preempting/")),
    Announcement("starter exited", "", ("Claimed/", "Preempting/", "Backfill/")),
)
"""Words that give the reason of a transition. Not every one of these is followed by it at once. Those of Backfill are
from the startd's source: no recorded pool has it."""


def announced_target(words: str, source: str = "") -> str:
    """Return where the words lead, from ``source`` if they lead somewhere from there; "" if they announce nothing."""
    found = [said for said in ANNOUNCEMENTS if words.startswith(said.words)]
    here = [said for said in found if source.startswith(said.sources)]
    return (here or found)[0].target if found else ""


def announced_elsewhere(words: str, source: str, target: str) -> str:
    """Return where the words of a transition's reason belong, "from ... to ...", if not there; else ""."""
    found = [said for said in REASONS if words.startswith(said.words)]
    if not found or any(target.startswith(said.target) and source.startswith(said.sources) for said in found):
        return ""
    said = found[-1]
    sources = " or ".join(pair.rstrip("/") for pair in said.sources if pair)
    return " ".join(filter(None, (sources and f"from {sources}", said.target and f"to {said.target.rstrip('/')}")))
