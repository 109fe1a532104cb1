"""A start from a snapshot of the state is a start that folds the whole log, and a file that is no such snapshot of this
log is ignored."""

import gzip
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Behaviour, Pool, UnknownThingError
from poolbook.adapters.runtime import log_writer, snapshot
from poolbook.adapters.runtime.pickled_state import pickle_state, unpickle_state
from poolbook.adapters.runtime.snapshot import Snapshot
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state.state import State

from ..golden.make import GOLDEN
from ..golden.test_golden import POOLS
from ..peers.simulated import SimulatedPool


@pytest.fixture(autouse=True)
def small_logs_have_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "EVENTS", 1)


def pool_at(log: Path) -> Pool:
    return Pool.open(log, uid_domain="example.org", user="alice", behave=lambda launch: Behaviour(seconds=60))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A closed log with running, waiting, held and finished jobs, and its snapshot."""
    path = tmp_path / "pool.db"
    pool = pool_at(path)
    pool.add_machine("node1", cpus=2, memory="4 GB")
    pool.submit({"executable": "/bin/work", "arguments": "$(Process)", "request_memory": "1 GB"}, count=5)
    pool.submit({"executable": "/bin/work", "hold": "true"}, count=3)
    pool.advance(90)
    pool.close()
    return path


def state_in(log: Path) -> State:
    store = open_log(str(log), create=False, read_only=True)
    try:
        return Snapshot(str(log)).load_state(store)
    finally:
        store.close()


def folded(log: Path) -> State:
    store = open_log(str(log), create=False, read_only=True)
    try:
        return fold(store.read())
    finally:
        store.close()


def content(state: State) -> dict[str, Any]:
    """Return what a state contains, its jobs by their ads."""
    values = {field.name: getattr(state, field.name) for field in fields(State) if field.compare}
    clusters = state.clusters.values()
    jobs = {
        (c.id, proc): (c.status_of(proc), c.attributes(proc)) for c in clusters for proc in range(c.count) if proc in c
    }
    return {**values, "clusters": jobs}


def test_the_snapshot_of_a_closed_pool_is_the_state_that_its_log_folds_to(log: Path) -> None:
    assert state_in(log).position > 20
    assert content(state_in(log)) == content(folded(log))


def test_the_states_of_separate_roles_survive_a_snapshot() -> None:
    roles = SimulatedPool(execution_points=2)
    roles.submit(3, Args='"100"', JobLeaseDuration="60")
    roles.advance(30)
    roles.isolate("execution-point/ep1")
    roles.advance(40)
    assert roles.ap().state.disconnected
    for node in roles.nodes.values():
        state = unpickle_state(pickle_state(node.state))
        assert isinstance(state, State)
        assert content(state) == content(node.state)


def act(pool: Pool, command: str, number: int) -> None:
    commands: dict[str, Callable[[], object]] = {
        "advance": lambda: pool.advance(45),
        "submit": lambda: pool.submit({"executable": "/bin/work", "periodic_hold": "NumJobStarts > 2"}, count=2),
        "hold": lambda: pool.hold("1"),
        "release": lambda: pool.release("1"),
        "remove": lambda: pool.remove("1.0", "2.1"),
        "vacate": lambda: pool.vacate("1"),
        "edit": lambda: pool.edit("1", RequestMemory=2048),
        "add a machine": lambda: pool.add_machine(f"more{number}", cpus=1, memory="4 GB"),
    }
    with suppress(UnknownThingError):  # the job has left the queue, or was never submitted
        commands[command]()


COMMANDS = st.sampled_from(["advance", "submit", "hold", "release", "remove", "vacate", "edit", "add a machine"])


@settings(max_examples=10, deadline=None)
@given(st.lists(COMMANDS, max_size=10), st.lists(COMMANDS, max_size=6))
def test_a_pool_that_starts_from_a_snapshot_does_what_one_that_folds_its_log_does(
    before: list[str], after: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with pool_at(folder / "with.db") as pool:
            pool.add_machine("node1", cpus=2, memory="4 GB")
            pool.submit({"executable": "/bin/work"}, count=3)
            for number, command in enumerate(before):
                act(pool, command, number)
        shutil.copy(folder / "with.db", folder / "without.db")
        events = []
        for log in ("with.db", "without.db"):
            with pool_at(folder / log) as pool:
                for number, command in enumerate(after, len(before)):
                    act(pool, command, number)
                pool.advance(300)
                events.append(list(pool.events()))
        assert events[0] == events[1]


def test_a_start_from_a_snapshot_reads_only_the_events_after_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Path(f"{log}.snapshot").read_bytes()
    begin = folded(log).position
    with pool_at(log) as pool:
        pool.advance(60)
    end = folded(log).position
    Path(f"{log}.snapshot").write_bytes(old)
    reads: list[int] = []

    def count(events: Iterable[tuple[int, Event]], state: State) -> State:
        later = list(events)
        reads.extend(position for position, _ in later)
        return fold(later, state)

    monkeypatch.setattr(log_writer, "fold", count)
    pool_at(log).close()
    assert end > begin
    assert reads == list(range(begin + 1, end + 1))


@pytest.mark.parametrize("release", POOLS)
def test_the_states_of_all_stories_can_be_stored(release: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    state = folded(path)
    stored = unpickle_state(pickle_state(state))
    assert isinstance(stored, State)
    assert content(stored) == content(state)


def test_a_log_that_took_the_place_of_another_does_not_use_its_snapshot(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with pool_at(other) as pool:
        for number in range(40):
            pool.add_machine(f"node{number}", cpus=2, memory="4 GB")
    shutil.copy(f"{log}.snapshot", f"{other}.snapshot")
    assert state_in(other) == State()


def test_a_snapshot_that_another_version_of_the_code_wrote_is_ignored(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "code_version", lambda: "another")
    assert state_in(log) == State()


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[: len(content) // 2]
    for place in range(0, len(content), max(1, len(content) // 100)):
        yield content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_a_damaged_snapshot_is_ignored(log: Path) -> None:
    path = Path(f"{log}.snapshot")
    expected = [content(State()), content(folded(log))]
    for damage in list(damaged(path.read_bytes())):
        path.write_bytes(damage)
        assert content(state_in(log)) in expected


def test_a_snapshot_that_another_user_could_have_written_is_ignored(log: Path) -> None:
    os.chmod(f"{log}.snapshot", 0o666)
    assert state_in(log) == State()


class Command:
    """A value that runs a program where it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def test_a_forged_snapshot_runs_no_code(log: Path, tmp_path: Path) -> None:
    forged, marker = pickle.dumps(Command(tmp_path / "ran")), tmp_path / "ran"
    header, _, _ = Path(f"{log}.snapshot").read_bytes().partition(b"\n")
    fields = msgspec.json.decode(header) | {"checksum": blake2b(forged, digest_size=32).hexdigest()}
    Path(f"{log}.snapshot").write_bytes(msgspec.json.encode(fields) + b"\n" + forged)
    assert state_in(log) == State()
    assert not marker.exists()


def test_a_pool_whose_snapshot_cannot_be_written_closes_as_usual(log: Path) -> None:
    os.unlink(f"{log}.snapshot")
    os.mkdir(f"{log}.snapshot.new")
    with pool_at(log) as pool:
        pool.advance(60)
    assert not os.path.exists(f"{log}.snapshot")
