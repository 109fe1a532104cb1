"""A replay of a log is its pool at any moment: what the pool's state was, and what a read model had folded by then."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Behaviour, Log, LogError, Pool, events, import_pool
from poolbook.adapters.runtime import snapshot
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.state import State
from poolbook.replay import Replay

from ..pool.test_snapshot import content

TRACES = Path(__file__).parent.parent / "data" / "traces"
START = 1_800_000_000


class Kinds:
    """Counts the events, by kind."""

    def __init__(self) -> None:
        self.counts = Counter[str]()

    def fold(self, position: int, event: events.Event) -> None:
        self.counts[type(event).__name__] += 1


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of a pool on which jobs of two users ran for some minutes."""
    path = str(tmp_path_factory.mktemp("replay") / "pool.db")
    with Pool.open(path, user="alice", uid_domain="x", behave=lambda _: Behaviour(seconds=90), start=START) as pool:
        pool.add_machine("node1", cpus=2, memory="4 GB")
        for user in ("alice", "bob"):
            pool.submit({"executable": "/bin/work", "arguments": "$(Process)"}, count=3, user=user)
        pool.advance(100)
        pool.hold("2.2", user="bob")
        pool.add_machine("node2", cpus=1, memory="1 GB")
        pool.advance(500)
    return path


@pytest.fixture
def log(url: str) -> Iterator[Log]:
    with Log.open(url) as log:
        yield log


def folded(log: Log, position: int) -> State:
    return fold(log._log.read(0, position))


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_the_state_at_any_position_is_that_of_a_pool_which_folded_only_these_events(url: str, data: Any) -> None:
    with Log.open(url) as log:
        replay = Replay(log)
        for position in data.draw(st.lists(st.integers(0, log.position + 2), min_size=1, max_size=6)):
            replay.to_position(position)
            assert content(replay.state) == content(folded(log, min(position, log.position)))


def test_a_time_means_the_last_event_at_or_before_it(log: Log) -> None:
    times = [event.at for _, event in log.events()]
    for at in sorted({0, *times, *(at - 1 for at in times), *(at + 1 for at in times)}):
        assert Replay(log).to(at / 1_000_000).position == sum(time <= at for time in times)


def test_a_time_can_be_a_datetime_with_a_time_zone(log: Log) -> None:
    an_hour_east = datetime.fromtimestamp(START + 60, UTC).astimezone() + timedelta()
    assert Replay(log).to(an_hour_east).position == Replay(log).to(START + 60).position


@pytest.mark.parametrize("time", [datetime(2027, 1, 15), float("nan"), True], ids=["no time zone", "nan", "a bool"])
def test_an_invalid_time_is_an_error(log: Log, time: Any) -> None:
    with pytest.raises(ValueError, match=r"seconds since the epoch|time zone"):
        Replay(log).to(time)


def test_steps_visit_each_event_once_and_fold_it(log: Log) -> None:
    replay = Replay(log)
    visited = []
    while (pair := replay.step()) is not None:
        assert replay.position == replay.state.position == pair[0]
        visited.append(pair)
    assert visited == list(log.events())
    assert content(replay.state) == content(folded(log, log.position))


def test_steps_continue_from_the_position_to_which_the_replay_went(log: Log) -> None:
    replay = Replay(log).to_position(5)
    assert [position for position, _ in replay] == list(range(6, log.position + 1))
    replay.to_position(3)
    assert replay.step() == list(log.events())[3]


def test_a_replay_of_an_open_pool_sees_what_the_pool_appends_later() -> None:
    with Pool.open("memory:", user="alice", uid_domain="x", behave=lambda _: Behaviour(seconds=60)) as pool:
        replay = Replay(pool)
        assert len(list(replay)) == replay.position
        assert replay.step() is None
        pool.add_machine("node1")
        assert [type(event).__name__ for _, event in replay][:1] == ["MachineJoined"]


def test_own_read_models_follow_the_replay_forwards_and_backwards(log: Log) -> None:
    every = Counter(type(event).__name__ for _, event in log.events())
    replay = Replay(log, Kinds).to(START + 1000)
    assert replay.projection(Kinds).counts == every
    assert replay.to_position(7).projection(Kinds).counts.total() == 7
    assert replay.to_position(0).projection(Kinds).counts.total() == 0


def test_asking_for_a_read_model_that_the_replay_lacks_is_an_error(log: Log) -> None:
    with pytest.raises(LookupError, match=r"pass it to `Replay\(log, ...\)`"):
        Replay(log).projection(Kinds)


class Busy:
    """Counts the runs that have not ended."""

    def __init__(self) -> None:
        self.jobs = 0

    def fold(self, position: int, event: events.Event) -> None:
        self.jobs += isinstance(event, events.JobActivated) - isinstance(event, events.JobExited)


def test_own_read_models_also_work_on_imported_logs_in_chronological_order(tmp_path: Path) -> None:
    imported = str(tmp_path / "audit.db")
    import_pool(str(TRACES / "01-plain"), imported, zone="UTC")
    with Log.open(imported) as log:
        replay = Replay(log, Busy, Kinds)
        busy = []
        times = []
        for _, event in replay:
            busy.append(replay.projection(Busy).jobs)
            times.append(event.at)
        assert times == sorted(times)
        assert max(busy) > 0 and busy[-1] == 0
        assert replay.projection(Kinds).counts["JobExited"] == len(log.history())
        middle = times[len(times) // 2]
        assert replay.to(middle / 1_000_000).position == sum(time <= middle for time in times)


def test_an_imported_log_has_no_state_and_the_error_says_what_to_use(tmp_path: Path) -> None:
    imported = str(tmp_path / "audit.db")
    import_pool(str(TRACES / "01-plain"), imported, zone="UTC")
    with Log.open(imported) as log, pytest.raises(LogError, match="give `Replay` a projection"):
        _ = Replay(log).state


# -- snapshots ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAST_EVENTS", 5)


def stored(url: str) -> list[str]:
    folder = Path(url).parent
    return sorted(path.name for path in folder.glob("*.snapshot-*"))


@pytest.fixture
def copied(url: str, tmp_path: Path, frequent_snapshots: None) -> str:
    """A copy of the log with snapshots at many of its positions."""
    path = tmp_path / "copy.db"
    path.write_bytes(Path(url).read_bytes())
    with Log.open(path) as log:
        Replay(log).to(START + 1000)
    assert len(stored(str(path))) > 3
    return str(path)


def test_a_replay_that_uses_snapshots_reaches_the_same_states(copied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log.open(copied) as log:
        for position in range(log.position + 1):
            expected = content(folded(log, position))
            assert content(Replay(log).to_position(position).state) == expected


def test_a_replay_begins_with_the_last_snapshot_before_its_goal(copied: str) -> None:
    positions = sorted(int(name.rpartition("-")[2]) for name in stored(copied))
    with Log.open(copied) as log:
        for goal in (*positions, *(position + 1 for position in positions)):
            last = max(position for position in positions if position <= goal)
            assert snapshot.PastSnapshots(copied).load(log._log, goal).position == last


@pytest.mark.parametrize("damage", ["cut off", "another log", "writable by others", "another version"])
def test_a_snapshot_that_cannot_be_trusted_is_ignored(
    copied: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in stored(copied):
        path = Path(copied).parent / name
        if damage == "cut off":
            path.write_bytes(path.read_bytes()[:-20])
        elif damage == "another log":
            header, _, state = path.read_bytes().partition(b"\n")
            path.write_bytes(header.replace(b'"digest":"', b'"digest":"0') + b"\n" + state)
        elif damage == "writable by others":
            os.chmod(path, 0o666)
    if damage == "another version":
        monkeypatch.setattr(snapshot, "code_version", lambda: "other")
    with Log.open(copied) as log:
        assert snapshot.PastSnapshots(copied).load(log._log, log.position).position == 0
        assert content(Replay(log).to_position(30).state) == content(folded(log, 30))


def test_the_number_of_snapshots_is_bounded(copied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_PAST", 4)
    monkeypatch.setattr(snapshot, "PAST_EVENTS", 2)
    with Log.open(copied) as log:
        for position in range(log.position):
            Replay(log).to_position(position)
        assert 0 < len(stored(copied)) <= max(5, len(stored(copied)) // 2)
        assert content(Replay(log).to_position(20).state) == content(folded(log, 20))
