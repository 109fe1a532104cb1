"""The answers of an overview. msgspec encodes them as JSON. Instants are in microseconds since 1970, durations in
seconds, unless a field's description differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from ...domain.state.job_ad import STATUS_NAMES


class StateStyle(NamedTuple):
    """The letter and the colour of a state, which are the same everywhere. The colours are Okabe and Ito's,
    which colour-blind people can distinguish."""

    letter: str
    colour: str


_GREEN, _ORANGE, _SKY, _YELLOW, _BLUE, _RED, _PURPLE, _GREY = (
    "#009E73", "#E69F00", "#56B4E9", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#999999",
)  # fmt: skip
SLOT_STYLES: Final = {
    "Claimed/Busy": StateStyle("B", _GREEN),
    "Claimed/Suspended": StateStyle("S", _YELLOW),
    "Claimed": StateStyle("C", _SKY),
    "Preempting": StateStyle("P", _RED),
    "Matched": StateStyle("M", _BLUE),
    "Unclaimed": StateStyle("U", _GREY),
    "Owner": StateStyle("O", _ORANGE),
    "Drained": StateStyle("D", _PURPLE),
    "Backfill": StateStyle("F", _BLUE),
}
"""The styles of slots by state/activity, or by state for all other activities."""
JOB_STYLES: Final = {
    "completed": StateStyle("C", _BLUE),
    "running": StateStyle("R", _GREEN),
    "suspended": StateStyle("S", _YELLOW),
    "idle": StateStyle("I", _ORANGE),
    "held": StateStyle("H", _RED),
    "removed": StateStyle("X", _GREY),
    "unmaterialized": StateStyle("N", _PURPLE),
}
"""The styles of jobs by status."""


def slot_style(state: str, activity: str) -> StateStyle:
    """Return the style of a slot; the one of Unclaimed for an unknown state."""
    return SLOT_STYLES.get(f"{state}/{activity}") or SLOT_STYLES.get(state) or SLOT_STYLES["Unclaimed"]


class SlotCount(Struct, frozen=True):
    """The number of slots with a state and activity."""

    state: str
    activity: str
    letter: str
    colour: str
    slots: int


def slot_counts(counts: Iterable[tuple[str, str, int]]) -> list[SlotCount]:
    """Return the counts of slots, each by state and activity, with their styles."""
    return [SlotCount(state, activity, *slot_style(state, activity), slots) for state, activity, slots in counts]


def status_counts(counts: Mapping[int, int]) -> dict[str, int]:
    """Return the number of jobs by status in lower case, from those by status number."""
    names: Counter[str] = Counter()
    for status, jobs in sorted(counts.items()):
        name = STATUS_NAMES.get(status, str(status))
        names["running" if name == "TransferringOutput" else name.lower()] += jobs
    return {name: jobs for name, jobs in names.items() if jobs}


class WaitingReason(Struct, frozen=True):
    """Why jobs wait: the first of them, their number, and a clause such as "no slot has what it requests"."""

    job: str
    jobs: int
    submitter: str
    reason: str
    what: str  #: what they wait for in a word or two, such as memory or a free slot


class Finding(Struct, frozen=True):
    """An event to report. ``position`` is its position in the log (0: an import), and ``subject`` names the job,
    cluster, slot or machine; empty: none."""

    position: int
    at: int
    kind: str  #: hold, eviction, preemption, machine or rejection
    subject: str
    jobs: int
    user: str
    sentence: str


class PoolOverview(Struct, frozen=True):
    """A pool: ``sentence`` summarizes it. ``jobs`` counts the jobs in the queue by status (running, idle, held ...)."""

    at: int
    sentence: str
    slots: list[SlotCount]
    jobs: dict[str, int]
    waiting: list[WaitingReason]
    findings: list[Finding]
    missing: list[str]  #: what the records do not show, as sentences


class ClusterBar(Struct, frozen=True):
    """The jobs of a cluster by status, with the reason why jobs are held or wait; empty: none do, or it is unknown."""

    cluster: int
    owner: str
    batch: str
    submitted: int  #: when it was submitted
    total: int
    jobs: dict[str, int]  #: by status; without zeros
    reason: str


class Share(Struct, frozen=True):
    """The share of a user or accounting group, in cores. ``entitled`` is a group's quota, or what a user would have if
    cores were divided by priority among the users with jobs, within its group's quota. None: unknown, or no quota."""

    name: str
    group: str  #: the accounting group of a user, or the parent of a group; empty: none
    is_group: bool
    entitled: float | None
    used: float
    waiting: int  #: the number of idle jobs
    priority: float | None  #: the effective priority; a lower one is better
    won: int  #: how many claimed slots were matched with its jobs in the last day
    lost: int  #: how many of its claims were preempted for such matches


class Shares(Struct, frozen=True):
    sentence: str
    shares: list[Share]
    missing: list[str]


class Bin(Struct, frozen=True):
    """The number of jobs that waited less than ``until`` seconds, and not less than the bin before. None: no limit."""

    until: int | None
    jobs: int


class Waits(Struct, frozen=True):
    """How long jobs waited for their first start; quantiles by name (median, p90, p99, longest)."""

    sentence: str
    jobs: int
    bins: list[Bin]
    quantiles: dict[str, int]


class LoadPoint(Struct, frozen=True):
    """The jobs and slots from ``at`` until the next point."""

    at: int
    idle: int
    running: int
    held: int
    busy: int
    slots: int


class Load(Struct, frozen=True):
    points: list[LoadPoint]
    missing: list[str]
