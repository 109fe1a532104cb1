"""What the judge keeps of a pool while it reads its log, and how it says what is wrong.

After a violation the books follow the event: one fault is told once, and not again for all that comes after it. Of each
thing the last events are kept, its story; of things that are gone only for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import frozen

from ...domain import events as e
from ...domain.state.cluster import LOCAL_UNIVERSE
from ...domain.state.job_ad import job_procs
from ...domain.state.state import State
from ...domain.state_machines import (
    HTCONDOR_25,
    MANUAL,
    Machine,
    claim_machine,
    job_machine,
    match_machine,
    slot_machine,
)
from ..listing import Member, line, member_of, members
from .rules import JOB_POLICY

KEPT = 8
"""So many events of a slot or an activation are its story."""
KEPT_OF_CLUSTER = 64
KEPT_GONE = 1024
"""So many things that are gone still have their story."""
MOST_JOBS = 1 << 26
"""No cluster has more jobs: a number beyond is none."""

NUMBERS = HTCONDOR_25.job_status_numbers
NAMES = {number: name for name, number in NUMBERS.items()}

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


class Drain:
    __slots__ = ("completion", "final", "had", "number", "start", "state")

    def __init__(self, event: e.DrainBegan, had: dict[str, str]) -> None:
        self.number, self.state, self.completion = event.drain, event.schedule, event.completion
        self.start = event.start
        self.final = False
        self.had = had
        """The claims that the machine had when it began, by their slots; not those that came in a drain before it."""


class Host:
    """A machine of the pool."""

    __slots__ = ("drain", "drains", "name", "settings", "shutdown", "slots")

    def __init__(self, event: e.MachineJoined) -> None:
        self.name = event.machine
        self.settings = dict(event.settings)
        self.slots: dict[str, None] = {}
        self.drain: Drain | None = None
        self.drains = 0
        self.shutdown = ""


class Claim:
    __slots__ = ("expected", "holder", "id", "marks", "rank", "reason", "since", "submitter", "until", "weight")

    def __init__(self, event: e.ClaimMade, expected: tuple[int, int] | None) -> None:
        self.id, self.submitter, self.weight, self.since = event.claim, event.submitter, event.weight, event.at
        self.expected = expected
        """The job that it was made for, until it is activated."""
        self.holder, self.rank = event.holder, event.rank
        self.until = 0
        self.marks: set[str] = set()
        self.reason = ""


class Stop(NamedTuple):
    """What processes were told last, and until when they have time (microseconds; 0: by the pool's settings)."""

    how: str
    until: int


class Stay:
    """A job on a slot: ``job`` is its id. Instants and ``suspended`` are in microseconds."""

    __slots__ = ("began", "charged", "job", "own", "plain", "position", "since", "stop", "suspended", "vacate")

    def __init__(self, position: int, at: int, job: str, own: tuple[int, int] | None, vacate: int) -> None:
        self.position, self.began, self.job, self.vacate = position, at, job, vacate
        self.own = own
        """Which job of the pool's own queue it is; None for one of a holder outside of this pool."""
        self.suspended = 0
        self.since = 0
        self.charged = False
        """Whether a drain was charged for it."""
        self.stop: Stop | None = None
        """What its starter was told, of a holder outside of this pool."""
        self.plain = True
        """Whether it is known to have no wish of its own how long it retires, and takes to end."""

    def ran(self, now: int) -> int:
        """For how long it has run, the time left out in which it was suspended."""
        return now - self.began - self.suspended - (now - self.since if self.since else 0)


class Slot:
    __slots__ = (
        "benchmarks",
        "busy",
        "carved",
        "claim",
        "cores",
        "have",
        "kind",
        "machine",
        "name",
        "notified",
        "pair",
        "parent",
        "policy",
        "stay",
        "story",
        "waiting",
        "weight",
        "whole",
    )

    def __init__(self, event: e.SlotCreated, pair: str) -> None:
        self.name, self.machine, self.kind, self.parent = event.slot, event.machine, event.kind, event.parent
        self.pair = pair
        self.claim: Claim | None = None
        self.waiting: e.ClaimQueued | None = None
        """The claim that waits until the present one has gone."""
        self.stay: Stay | None = None
        self.notified = False
        """Whether a negotiator outside of this pool matched it."""
        self.busy = False
        self.benchmarks = False
        """Whether benchmarks were begun of which there is no result yet."""
        self.policy: dict[str, str] = {}
        """The expressions of its policy by which its transitions are judged, by their names in small letters."""
        self.story: deque[Told] = deque(maxlen=KEPT)
        self.have: dict[str, int] = {}
        self.carved: dict[str, int] = {}
        """What its dynamic slots have."""
        self.whole: dict[str, int] = {}
        self.cores = 1.0
        self.weight: int | None = None
        """In thousandths; None where that takes the evaluation of an expression."""


_WISHES = frozenset({"maxjobretirementtime", "jobmaxvacatetime", "killsigtimeout"})


def wishes(ad: e.Ad) -> bool:
    """Whether a job's ad says how long it retires, or takes to end."""
    return any(name.lower() in _WISHES for name in ad)


def policy_of(ad: e.Ad) -> dict[str, str]:
    """What of a job's ad is its own policy."""
    return {name.lower(): text for name, text in ad.items() if name.lower() in JOB_POLICY}


class Run:
    """An activation."""

    __slots__ = ("executing", "key", "slot", "stop", "stopped", "story", "told")

    def __init__(self, key: int, slot: str) -> None:
        self.key, self.slot = str(key), slot
        self.executing = False
        self.stop = ""
        self.stopped = 0
        self.told: Stop | None = None
        self.story: deque[Told] = deque(maxlen=KEPT)


class Cluster:
    __slots__ = ("count", "id", "live", "local", "plain", "policy", "runs", "status", "story", "submitter")

    def __init__(self, event: e.ClusterSubmitted, count: int, status: int) -> None:
        self.id, self.submitter, self.count = event.cluster, event.submitter, count
        self.status = bytearray(bytes([status]) * count)
        """A number for each process, 0 for one that is gone."""
        self.live = count
        self.local = event.ad.get("JobUniverse") == LOCAL_UNIVERSE
        self.plain = not event.columns and not wishes(event.ad)
        """Whether its jobs are known to have no wishes of their own how they end."""
        self.policy: dict[str, str] | None = None if event.columns else policy_of(event.ad)
        """What its jobs' own policies are, by their names in small letters; None: not known to be the same for all."""
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
        self.vacate = 0
        """The pool's own MachineMaxVacateTime, in microseconds."""
        self.slot_table: Machine = slot_machine(MANUAL.name)
        self.job_table: Machine = job_machine(MANUAL.name)
        self.claim_table: Machine = claim_machine()
        self.match_table: Machine = match_machine()
        self.machines: dict[str, Host] = {}
        self.slots: dict[str, Slot] = {}
        self.clusters: dict[int, Cluster] = {}
        self.unused_clusters: list[tuple[int, int | None]] = [(1, None)]
        """Ranges of numbers that no cluster had yet, the last without an end."""
        self.matches: dict[str, tuple[int, int]] = {}
        self.matched: dict[tuple[int, int], str] = {}
        """The jobs that wait for a slot which they have been given, with the slot."""
        self.accounts = State()
        """What the accountant keeps, and nothing else: submitters, when they were updated, and the settings."""
        self.moves: dict[str, int] = {}
        self.job_moves: dict[str, int] = {}
        # What is looked at when all is done that follows from a stimulus:
        self.touched: dict[str, None] = {}
        self.drained: dict[str, None] = {}
        """The machines with a drain of which something was heard."""
        self.over: dict[int, None] = {}
        """The clusters with jobs that came to their end and have not been seen to leave the queue."""
        self.notes: dict[int, e.EvaluationRecorded] = {}
        """What was noted, by its position."""
        self.asked = ""
        self.answered = self.cycle = self.matched_any = False
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


def known_slot(books: Books, name: str) -> Slot | None:
    """The slot of which something is said; its event is part of its story from here on."""
    slot = books.slots.get(name)
    if slot is None:
        books.blame_slot(name, "reference", f"there is no slot {name}")
        return None
    if books.event is not None:
        slot.story.append((books.position, books.event))
    books.touched[name] = None
    return slot


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
