"""``poolbook q -better-analyze:summary``: how many slots fit each kind of job, and how many jobs each slot.

Jobs are matched with the slots as these are now; the analysis of a job tells what a negotiation cycle found. Source:
queue.cpp and jobmatch.cpp of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .autoclusters import Signing, grouped
from .cells import IDLE, RUNNING, SUSPENDED, TRANSFERRING_OUTPUT, Setting, flag, job_id, number, text
from .options import Arguments, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_RUNS = (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED)
_QUALIFIERS = ("priority", "summary", "reverse")
_OF_JOBS = (
    ("", " Autocluster", "   Matches  ", "  Machine  ", "  Running  ", "  Serving ", "", ""),
    (" JobId", "Members/Idle", "Requirements", "Rejects Job", " Users Job ", "Other User", "Available", "Owner"),
    ("-" * 13, "-" * 12, "-" * 12, "-" * 11, "-" * 11, "-" * 10, "-" * 9, "-" * 5),
)
_OF_SLOTS = (
    ("", "Slot", "Slot's Req ", "  Job's Req ", "Both   "),
    ("Name", "Type", "Matches Job", "Matches Slot", "Match %"),
    ("-" * 16, "-" * 4, "-" * 12, "-" * 12, "-" * 10),
)


class Slots(NamedTuple):
    """The slots that jobs are matched with."""

    ads: Sequence[ClassAd]
    signing: Signing  #: what counts of a job for the negotiator


def asked(arguments: Arguments, names: Iterable[str]) -> frozenset[str]:
    """Return what is said behind the colon of an analysis: summary, reverse, priority.

    :raises UsageError: it is nothing of that
    """
    given = arguments.last(*names)
    words = [] if given is None or given.qualifier is None else given.qualifier.split(",")
    found = [next((one for one in _QUALIFIERS if word and one.startswith(word)), "") for word in words]
    if given is not None and "" in found:
        raise UsageError(f"{given.spelled}: there is no such analysis; there are: {', '.join(_QUALIFIERS)}")
    if "reverse" in found and "summary" not in found:
        raise UsageError("poolbook q: ask `poolbook why SLOT` why a slot has no job; :summary,reverse counts jobs")
    return frozenset(found)


def of_jobs(jobs: Iterable[ClassAd], slots: Slots, setting: Setting) -> Iterator[str]:
    """Yield a line for each kind of jobs: how many slots it accepts, how many of these refuse it, run it, or are
    free for it."""
    here = [ad for ad in slots.ads if not flag(ad, "DynamicSlot")]
    yield f"Analyzing matches for {len(here)} slots\n"
    for head in _OF_JOBS:
        yield "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n".format(*head)
    matches = _matching(setting)
    for members in _kinds(jobs, slots.signing):
        job, states = members[0], [number(one, "JobStatus") for one in members]
        accepted = [slot for slot in here if matches(job, slot)]
        both = [slot for slot in accepted if matches(slot, job)]
        users = [user for slot in both if (user := text(slot, "RemoteUser")) is not None]
        mine = users.count(text(job, "User") or "")
        runs = sum(state in _RUNS for state in states)
        yield "{:<13} {:<12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n".format(
            job_id(job) or "",
            f"{len(members)}/{states.count(IDLE)}",
            len(accepted),
            len(accepted) - len(both),
            (f"{runs}/" if runs else "") + str(mine),
            len(users) - mine,
            len(both) - len(users),
            text(job, "Owner") or "",
        )


def of_slots(jobs: Iterable[ClassAd], slots: Slots, setting: Setting) -> Iterator[str]:
    """Yield a line for each slot: how many jobs it accepts, how many accept it, and how many of all do both."""
    kinds = _kinds(jobs, slots.signing)
    total = sum(map(len, kinds))
    yield f"Analyzing matches for {total} jobs\n"
    here = [ad for ad in slots.ads if not flag(ad, "DynamicSlot")]
    width = max(16, *(len(text(ad, "Machine") or "") + 7 for ad in here), *(len(text(ad, "Name") or "") for ad in here))
    line = f"{{:<{width}.{width}}} {{:>4}} {{:>12.12}} {{:>12.12}} {{:>10.10}}\n"
    for head in _OF_SLOTS:
        yield line.format(*head)
    matches = _matching(setting)
    for slot in here:
        accepts = [len(kind) if matches(slot, kind[0]) else 0 for kind in kinds]
        accepted = [len(kind) if matches(kind[0], slot) else 0 for kind in kinds]
        both = sum(map(min, accepts, accepted))
        share = f"{100 * both / total:.2f}" if total else "0.00"
        kind = "Part" if flag(slot, "PartitionableSlot") else "Stat"
        yield line.format(text(slot, "Name") or "", kind, str(sum(accepts)), str(sum(accepted)), share)


def _kinds(jobs: Iterable[ClassAd], signing: Signing) -> list[list[ClassAd]]:
    """Return the jobs that are alike, by the numbers of their autoclusters if they have them."""
    return sorted(grouped(jobs, signing).values(), key=lambda own: int(number(own[0], "AutoClusterId") or 0))


def _matching(setting: Setting) -> Callable[[ClassAd, ClassAd], bool]:
    from ...domain.classad.match import requirements_met

    context = setting.context()
    return lambda my, target: requirements_met(my, target, context)
