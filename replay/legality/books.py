"""What the judge keeps of a pool while it reads its log, and how it says what is wrong.

After a violation the books follow the event: one fault is told once, and not again for all that comes after it. Of each
thing the last events are kept, its story; of things that are gone only for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from attrs import frozen

from ...domain import events as e
from ...domain.decide.slots import RESOURCES
from ...domain.job_ad import job_procs
from ...domain.lifecycle import HTCONDOR_25, MANUAL, STATUS_NUMBERS, Machine, job_machine, slot_machine
from ...domain.state import LOCAL_UNIVERSE
from ..listing import Member, line, member_of, members

KEPT = 8
"""So many events of a slot or an activation are its story."""
KEPT_OF_CLUSTER = 64
KEPT_GONE = 1024
"""So many things that are gone still have their story."""
MOST_JOBS = 1 << 26
"""No cluster has more jobs: a number beyond is none."""

NUMBERS = STATUS_NUMBERS[HTCONDOR_25]
NAMES = {number: name for name, number in NUMBERS.items()}
AMOUNTS = tuple(name for name, _, _ in RESOURCES)

Told = tuple[int, e.Event]


@frozen
class Violation:
    """Something in a log that was not allowed. ``rule`` is one of ``RULES``, ``words`` say what is wrong in this case,
    and ``story`` is what the log tells of the thing just before, the event itself last."""

    position: int
    thing: str
    rule: str
    words: str
    story: tuple[str, ...]


class Claim:
    __slots__ = ("expected", "id", "since", "submitter", "weight")

    def __init__(self, event: e.ClaimMade, expected: tuple[int, int] | None) -> None:
        self.id, self.submitter, self.weight, self.since = event.claim, event.submitter, event.weight, event.at
        self.expected = expected
        """The job that it was made for, until it is activated."""


class Slot:
    __slots__ = (
        "carved",
        "claim",
        "have",
        "job",
        "kind",
        "machine",
        "name",
        "pair",
        "parent",
        "story",
        "weight",
        "whole",
    )

    def __init__(self, event: e.SlotBorn, pair: str) -> None:
        self.name, self.machine, self.kind, self.parent = event.slot, event.machine, event.kind, event.parent
        self.pair = pair
        self.claim: Claim | None = None
        self.job: tuple[int, int] | None = None
        self.story: deque[Told] = deque(maxlen=KEPT)
        self.have: dict[str, int] = {}
        self.carved = dict.fromkeys(AMOUNTS, 0)
        """What its dynamic slots have."""
        self.whole: dict[str, int] = {}
        self.weight: int | None = None
        """In thousandths; None where that takes the evaluation of an expression."""


class Run:
    """An activation."""

    __slots__ = ("executing", "key", "slot", "stop", "stopped", "story")

    def __init__(self, key: int, slot: str) -> None:
        self.key, self.slot = str(key), slot
        self.executing = False
        self.stop = ""
        self.stopped = 0
        self.story: deque[Told] = deque(maxlen=KEPT)


class Cluster:
    __slots__ = ("count", "id", "live", "local", "runs", "status", "story", "submitter")

    def __init__(self, event: e.ClusterSubmitted, count: int, status: int) -> None:
        self.id, self.submitter, self.count = event.cluster, event.submitter, count
        self.status = bytearray(bytes([status]) * count)
        """A number for each process, 0 for one that is gone."""
        self.live = count
        self.local = event.ad.get("JobUniverse") == LOCAL_UNIVERSE
        self.runs: dict[int, Run] = {}
        self.story: deque[Told] = deque(maxlen=KEPT_OF_CLUSTER)


class Books:
    """A pool as its log tells it so far, and what is wrong with the event that is being read."""

    def __init__(self) -> None:
        self.position = 0
        self.event: e.Event | None = None
        self.founded = False
        self.dialect = MANUAL
        self.epoch = 0
        self.slot_table: Machine = slot_machine(MANUAL)
        self.job_table: Machine = job_machine(MANUAL)
        self.machines: dict[str, int] = {}
        """Machine -> how many slots it has."""
        self.slots: dict[str, Slot] = {}
        self.clusters: dict[int, Cluster] = {}
        self.unused_clusters: list[tuple[int, int | None]] = [(1, None)]
        """Ranges of numbers that no cluster had yet, the last without an end."""
        self.matches: dict[str, tuple[int, int]] = {}
        self.matched: set[tuple[int, int]] = set()
        self.moves: dict[str, int] = {}
        self.job_moves: dict[str, int] = {}
        # What is looked at when all is done that follows from a stimulus:
        self.touched: dict[str, None] = {}
        self.asked = ""
        self.answered = self.cycle = self.evidence = False
        self._gone: dict[str | int, tuple[Told, ...]] = {}
        self._found: list[Violation] = []

    # Saying what is wrong

    def blame(self, thing: str, rule: str, words: str) -> None:
        self._found.append(Violation(self.position, thing, rule, words, ()))

    def blame_slot(self, name: str, rule: str, words: str) -> None:
        slot = self.slots.get(name)
        told = self._gone.get(name, ()) if slot is None else slot.story
        self._found.append(Violation(self.position, name, rule, words, self._lines(told, None)))

    def blame_job(self, cluster: int, proc: int, rule: str, words: str) -> None:
        found = self.clusters.get(cluster)
        told = self._gone.get(cluster, ()) if found is None else tuple(found.story)
        if found is not None and proc in found.runs:
            told = tuple({position: (position, event) for position, event in (*told, *found.runs[proc].story)}.values())
        self._found.append(Violation(self.position, f"{cluster}.{proc}", rule, words, self._lines(told, proc)))

    def found(self) -> Iterator[Violation]:
        """What was found since this was asked last."""
        found, self._found = self._found, []
        return iter(found)

    def _lines(self, told: Iterable[Told], proc: int | None) -> tuple[str, ...]:
        last = () if self.event is None else ((self.position, self.event),)
        story = sorted({position: (position, event) for position, event in (*told, *last)}.values(), key=lambda t: t[0])
        lines: list[str] = []
        for position, event in story:
            member = next(members(position, event), None) if proc is None else _of(position, event, proc)
            if member is not None:
                lines.append(line(member))
        return tuple(lines[-KEPT:])

    # Things that go

    def forget_slot(self, slot: Slot) -> None:
        del self.slots[slot.name]
        self._keep(slot.name, tuple(slot.story))

    def forget_cluster(self, cluster: Cluster) -> None:
        del self.clusters[cluster.id]
        self._keep(cluster.id, tuple(cluster.story))

    def _keep(self, thing: str | int, story: tuple[Told, ...]) -> None:
        self._gone.pop(thing, None)
        self._gone[thing] = story
        if len(self._gone) > KEPT_GONE:
            del self._gone[next(iter(self._gone))]


def _of(position: int, event: e.Event, proc: int) -> Member | None:
    """What an event says of a job; of another kind of event, what it says first."""
    return member_of(position, event, proc) if job_procs(event) else next(members(position, event), None)


def amount(text: str) -> int | None:
    """A resource of a slot, a whole number; None if it is none."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def job_of(text: str) -> tuple[int, int] | None:
    """The cluster and process of a job's id; None if it is none."""
    cluster, point, proc = text.partition(".")
    if point and cluster.isascii() and cluster.isdigit() and proc.isascii() and proc.isdigit() and len(text) < 30:
        return int(cluster), int(proc)
    return None
