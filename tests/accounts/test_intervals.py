"""Property: in every log, each slot's time is divided without gaps and overlaps, and agrees with the runs.
Golden: the classes of small pools' slots."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from attrs import evolve

from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.names import SlotName
from poolbook.domain.ports.log import EventStore
from poolbook.replay.accounts.intervals import BADPUT, CLASSES, GOODPUT, SlotInterval, slot_intervals
from poolbook.replay.forensics.imported_log import is_imported
from poolbook.replay.runs.job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from poolbook.replay.runs.of_log import runs_of

from ..sampling import some, spread
from .logs import NAMES, SAMPLES, intervals_of, open_named

Span = tuple[int, int]
LOGS = some(NAMES, 0, always=SAMPLES)
KINDS = {COMPLETED: GOODPUT, EVICTED: BADPUT, RUNNING: "running", ENDED: "undetermined"}


def by_slot(intervals: list[SlotInterval]) -> dict[str, list[SlotInterval]]:
    slots: dict[str, list[SlotInterval]] = defaultdict(list)
    for interval in intervals:
        slots[interval.slot].append(interval)
    return slots


def lifetimes(log: EventStore, slot: str, last: int) -> list[Span]:
    """Return the times between a slot's creations and ends in a pool's own log."""
    spans: list[Span] = []
    begin = 0
    for _, event in log.read_stream(f"slot/{slot}"):
        if isinstance(event, e.SlotCreated):
            begin = event.at
        elif isinstance(event, e.SlotDestroyed):
            spans, begin = [*spans, (begin, event.at)], 0
    return united([*spans, (begin, last)] if begin else spans)


def united(spans: list[Span]) -> list[Span]:
    """Return the times that one or several spans cover."""
    joined: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def length(spans: list[Span]) -> int:
    return sum(end - begin for begin, end in spans)


def runs_on_slots(log: EventStore) -> dict[str, list[JobRun]]:
    slots: dict[str, list[JobRun]] = defaultdict(list)
    for run in runs_of(log).runs:
        if run.slot and SlotName.parse(run.slot).slot != "local":
            slots[run.slot].append(run)
    return slots


def ended_by_next(run: JobRun, runs: list[JobRun], last: int) -> JobRun:
    """Return a run; if no record shows its end, it ended when the slot's next run began."""
    if run.outcome != RUNNING:
        return run
    end = min((other.began for other in runs if other.began > run.began), default=last)
    return evolve(run, ended=end, outcome=RUNNING if end == last else ENDED)


@pytest.mark.parametrize("name", LOGS)
def test_every_second_of_every_slot_is_in_exactly_one_class(name: str) -> None:
    log = open_named(name)
    intervals = intervals_of(name)
    slots = by_slot(intervals)
    last = max((interval.end for interval in intervals), default=0)
    assert {interval.kind for interval in intervals} <= set(CLASSES)
    assert all(interval.begin < interval.end for interval in intervals)
    assert all(bool(interval.cause) == (interval.kind == BADPUT) for interval in intervals)
    for slot_name, of_slot in slots.items():
        assert all(first.end <= second.begin for first, second in pairwise(of_slot)), slot_name
        spans = united([(interval.begin, interval.end) for interval in of_slot])
        if not is_imported(log):
            assert spans == lifetimes(log, slot_name, last)
        elif not SlotName.parse(slot_name).dynamic and not log_creates(log, slot_name):
            assert len(spans) == 1


def log_creates(log: EventStore, slot: str) -> bool:
    return any(isinstance(event, e.SlotCreated) for _, event in log.read_stream(f"slot/{slot}"))


@pytest.mark.parametrize("name", LOGS)
def test_the_classes_agree_with_usage(name: str) -> None:
    log = open_named(name)
    intervals = intervals_of(name)
    slots, last = by_slot(intervals), max((interval.end for interval in intervals), default=0)
    external = {event.slot for _, event in log.read() if isinstance(event, e.ClaimActivated)}
    for slot_name, runs in runs_on_slots(log).items():
        runs = [ended_by_next(run, runs, last) for run in runs]
        spans = [(run.began, run.ended) for run in runs]
        with_jobs = [(one.begin, one.end) for one in slots[slot_name] if one.job]
        if slot_name in external:  # jobs of other access points, which may have the same numbers
            continue
        assert united(with_jobs) == united(spans)
        if length(united(spans)) != length(spans):
            continue
        expected: dict[tuple[str, str, str], int] = defaultdict(int)
        actual: dict[tuple[str, str, str], int] = defaultdict(int)
        for run, (begin, end) in zip(runs, spans, strict=True):
            if begin < end:
                expected[run.job, KINDS[run.outcome], run.cause.name if run.outcome == EVICTED else ""] += end - begin
        jobs = {run.job for run in runs}
        for one in slots[slot_name]:
            if one.job in jobs and one.kind != "suspended":
                actual[one.job, one.kind, one.cause] += one.end - one.begin
            elif one.job in jobs:
                run = next(run for run, span in zip(runs, spans, strict=True) if span[0] <= one.begin < span[1])
                cause = run.cause.name if run.outcome == EVICTED else ""
                actual[run.job, KINDS[run.outcome], cause] += one.end - one.begin
        assert actual == expected


@pytest.mark.parametrize("name", LOGS)
def test_the_cores_of_a_machine_add_up(name: str) -> None:
    log = open_named(name)
    totals: dict[str, dict[str, float]] = defaultdict(dict)
    first: dict[str, int] = {}
    reconfigured = {event.machine for _, event in log.read() if isinstance(event, e.MachineConfigured)}
    for _, event in log.read():
        if isinstance(event, e.SlotCreated) and not event.parent:
            totals[event.machine][event.slot] = float(event.ad.get("Cpus", "1"))
            first.setdefault(event.machine, event.at)
    changes: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    exists: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for one in intervals_of(name):
        assert one.cores >= 0
        if one.slot not in totals[one.machine] and not SlotName.parse(one.slot).dynamic:
            continue  # known only from a run, before the machine's slots were configured differently
        changes[one.machine][one.begin] += one.cores
        changes[one.machine][one.end] -= one.cores
        if one.slot in totals[one.machine]:
            exists[one.machine][one.begin] += totals[one.machine][one.slot]
            exists[one.machine][one.end] -= totals[one.machine][one.slot]
    for machine in totals.keys() - reconfigured:
        cores = total = 0.0
        for at in sorted(changes[machine].keys() | exists[machine].keys()):
            cores, total = cores + changes[machine].get(at, 0), total + exists[machine].get(at, 0)
            is_complete = total == sum(totals[machine].values()) and at >= first.get(machine, at + 1)
            if is_complete:  # otherwise the startd's records lack some slots, or only runs are known
                assert (machine, at, round(cores, 6)) == (machine, at, round(total, 6))


@pytest.mark.parametrize("name", spread(SAMPLES, 20))
def test_a_window_has_the_parts_of_the_intervals_in_it(name: str) -> None:
    log = open_named(name)
    intervals = intervals_of(name)
    begin = min((one.begin for one in intervals), default=0)
    end = max((one.end for one in intervals), default=0)
    since, until = begin + (end - begin) // 3, begin + (end - begin) // 2
    parts = [one._replace(begin=max(one.begin, since), end=min(one.end, until)) for one in intervals]
    assert list(slot_intervals(log, since, until)) == [one for one in parts if one.begin < one.end]


# Small logs: the events, and the intervals of slot1@h (begin and end in seconds, class, job).

S = 1_000_000
STATES = {"U": "Unclaimed/Idle", "C": "Claimed/Idle", "B": "Claimed/Busy", "S": "Claimed/Suspended", "O": "Owner/Idle"}


def created(at: int, slot: str = "slot1@h", kind: str = "static", cpus: str = "1", line: str = "s") -> e.Event:
    parent = str(SlotName.parse(slot).parent) if kind == "dynamic" else ""
    return e.SlotCreated(at * S, "configured", line, slot, "h", kind, parent, {"Cpus": cpus})


def moved(at: int, source: str, target: str, slot: str = "slot1@h", line: str = "s") -> e.Event:
    return e.SlotTransitioned(at * S, "evaluated", line, slot, "", STATES[source], STATES.get(target, target))


def activated(at: int, job: int = 0, slot: str = "slot1@h") -> e.Event:
    return e.JobActivated(at * S, "activated", "s", 1, job, slot, "c")


def exited(at: int, key: int, outcome: str = "exited", cause: str = "exited", job: int = 0) -> e.Event:
    return e.JobExited(at * S, cause, "s", 1, job, "slot1@h", str(key), outcome, "", "", {})


def startd(at: int, said: str, line: str) -> e.Event:
    return e.DaemonReported(at * S, "reported", line, "h", "startd", said, {})


OWN_LOGS = [
    ([created(10), moved(12, "O", "U"), created(20, "slot2@h")], [(10, 12, "owner", ""), (12, 20, "unclaimed", "")]),
    (
        [created(10), moved(10, "O", "B"), activated(11), exited(15, 5), moved(17, "B", "U"), created(20, "slot2@h")],
        [(10, 11, "claimed", ""), (11, 15, "goodput", "1.0"), (15, 17, "claimed", ""), (17, 20, "unclaimed", "")],
    ),
    (
        [
            created(10),
            moved(10, "O", "B"),
            activated(10),
            moved(12, "B", "S"),
            moved(14, "S", "B"),
            exited(15, 5, "evicted", "preempt"),
        ],
        [(10, 12, "badput", "1.0"), (12, 14, "suspended", "1.0"), (14, 15, "badput", "1.0")],
    ),
    ([created(10), moved(10, "O", "B"), activated(10), created(20, "slot2@h")], [(10, 20, "running", "1.0")]),
    (
        [
            created(10),
            moved(10, "O", "B"),
            e.ClaimMade(10 * S, "claimed", "s", "slot1@h", "c", "bob@x", 1000, holder="ap"),
            e.ClaimActivated(11 * S, "activated", "s", "slot1@h", "c", "7.0", {}, 0),
            e.ClaimDeactivated(15 * S, "deactivated", "s", "slot1@h", "c", "7.0"),
            created(16, "slot2@h"),
        ],
        [(10, 11, "claimed", ""), (11, 15, "undetermined", "7.0"), (15, 16, "claimed", "")],
    ),
    (
        [
            created(10),
            moved(10, "O", "U"),
            created(12, "slot2@h"),
            e.WriterBegan(20 * S, "writer", "serve", 2, "w"),
            created(22, "slot3@h"),
        ],
        [(10, 12, "unclaimed", ""), (12, 20, "unknown", ""), (20, 22, "unclaimed", "")],
    ),
    (
        [created(10), e.SlotDestroyed(12 * S, "left", "s", "slot1@h"), created(15), created(20, "slot2@h")],
        [(10, 12, "owner", ""), (15, 20, "owner", "")],
    ),
    (
        [
            created(10),
            moved(10, "O", "B"),
            activated(10),
            activated(15, 1),
            exited(18, 6, job=1),
            created(20, "slot2@h"),
        ],
        [(10, 15, "undetermined", "1.0"), (15, 18, "goodput", "1.1"), (18, 20, "claimed", "")],
    ),
]
IMPORTED_LOGS = [
    (
        [
            startd(1, "began", "1:1"),
            created(2, line="1:2"),
            moved(3, "O", "U", line="1:3"),
            startd(7, "began", "1:4"),
            created(9, line="1:5"),
            startd(12, "ended", "1:6"),
            e.DaemonReported(20 * S, "reported", "2:1", "h", "schedd", "began", {}),
        ],
        [(2, 3, "owner", ""), (3, 9, "unknown", ""), (9, 12, "owner", "")],
    ),
    (
        [
            moved(5, "U", "O", line="1:1"),
            e.SourceGap(99 * S, "read", "1:2", 1, 2, "", 0, 0),
            moved(9, "O", "U", line="1:3"),
            moved(10, "U", "O", line="1:4"),
        ],
        [(5, 9, "unknown", ""), (9, 10, "unclaimed", "")],
    ),
    (
        [
            created(2, line="1:2"),
            moved(3, "O", "U", line="1:3"),
            e.SourceGap(99 * S, "read", "1:2", 1, 2, "", 6 * S, 0),
            moved(9, "O", "U", line="1:3"),
        ],
        [(2, 3, "owner", ""), (3, 6, "unclaimed", ""), (6, 9, "unknown", "")],
    ),
    (
        [
            created(2, line="1:2"),
            e.SourceRefused(99 * S, "read", "1:3", 1, 3, "", "slot2: Changing state"),
            moved(5, "O", "U", line="1:4"),
            e.SourceRefused(99 * S, "read", "1:5", 1, 5, "", "slot1: Changing state"),
            moved(8, "U", "O", line="1:6"),
            moved(9, "O", "U", line="1:7"),
        ],
        [(2, 5, "owner", ""), (5, 8, "unknown", ""), (8, 9, "owner", "")],
    ),
]
SOURCES = ((1, "startlog"), (2, "schedlog"))


def log_with(events: list[e.Event], imported: bool) -> EventStore:
    log = open_log("memory:", create=True)
    log.append([e.PoolFounded(0, "founded", "s", "p", "manual", "x", "1", {"Imported": "true"} if imported else {})])
    log.raise_epoch("w", 0, "serve")
    if imported:
        log.append([e.SourceFound(0, "read", f"{n}:0", n, kind, kind, "h", "UTC") for n, kind in SOURCES])
    for event in events:
        if isinstance(event, e.WriterBegan):
            log.raise_epoch("w", event.at, "serve")
        else:
            log.append([event])
    return log


@pytest.mark.parametrize(
    ("events", "imported", "expected"),
    [
        *((events, False, expected) for events, expected in OWN_LOGS),
        *((events, True, expected) for events, expected in IMPORTED_LOGS),
    ],
)
def test_a_slots_time_is_divided_by_its_runs_and_states(
    events: list[e.Event], imported: bool, expected: list[tuple[int, int, str, str]]
) -> None:
    log = log_with(events, imported)
    intervals = [one for one in slot_intervals(log) if one.slot == "slot1@h"]
    assert [(one.begin // S, one.end // S, one.kind, one.job) for one in intervals] == expected


def test_a_dynamic_slot_whose_cores_are_given_away_has_only_what_is_left() -> None:
    log = log_with(
        [
            startd(1, "began", "1:1"),
            created(2, kind="partitionable", cpus="4", line="1:2"),
            created(3, "slot1_1@h", "dynamic", "3", "1:3"),
            moved(3, "O", "Claimed/Busy", "slot1_1@h", "1:4"),
            moved(5, "B", "Preempting/Killing", "slot1_1@h", "1:5"),
            created(5, "slot1_2@h", "dynamic", "2", "1:6"),
            moved(5, "O", "Claimed/Idle", "slot1_2@h", "1:7"),
            e.SlotDestroyed(7 * S, "reported", "1:8", "slot1_1@h"),
            startd(9, "ended", "1:9"),
        ],
        imported=True,
    )
    cores = [(one.slot.partition("@")[0], one.begin // S, one.end // S, one.cores) for one in slot_intervals(log)]
    assert cores == [
        ("slot1", 2, 3, 4), ("slot1", 3, 5, 1), ("slot1", 5, 7, 0), ("slot1", 7, 9, 2),
        ("slot1_1", 3, 5, 3), ("slot1_1", 5, 7, 2), ("slot1_2", 5, 9, 2),
    ]  # fmt: skip


def test_a_claim_belongs_to_its_user_and_group() -> None:
    ad = {"User": '"alice@x"', "AcctGroup": '"physics"'}
    log = log_with(
        [
            created(1),
            e.ClusterSubmitted(1, "submitted", "s", 1, "physics.alice@x", ad, 1, (), "Idle"),
            moved(2, "O", "C"),
            e.ClaimMade(2 * S, "claimed", "s", "slot1@h", "c", "physics.alice@x", 1000),
            activated(4),
            exited(6, 7),
            moved(8, "C", "U"),
            created(9, "slot2@h"),
        ],
        imported=False,
    )
    users = [(one.begin // S, one.kind, one.user, one.group) for one in slot_intervals(log) if one.slot == "slot1@h"]
    assert users == [
        (1, "owner", "", ""), (2, "claimed", "alice@x", "physics"), (4, "goodput", "alice@x", "physics"),
        (6, "claimed", "alice@x", "physics"), (8, "unclaimed", "", ""),
    ]  # fmt: skip
