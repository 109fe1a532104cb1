"""Golden: the log of every release still opens, verifies, and yields its events."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.fast_head import head_of
from poolbook.adapters.stores.opening import open_log, verify_seal
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import LogError
from poolbook.replay.validation import examine, validate
from poolbook.replay.virtual_world import VirtualWorld
from poolbook.replay.why.job import why_job

from ..job_commands import job_command
from ..projections.pools import folded
from .make import GOLDEN, content_of, one_of_each_kind, recorded_content, store_log

RELEASES = sorted(path.name.removesuffix(".db.gz") for path in GOLDEN.glob("*.db.gz"))
POOLS = [release for release in RELEASES if "-kinds" not in release and "-import" not in release]
"""The logs that have a pool's state: no samples of events, and no import."""


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def log(release: str, tmp_path: Path) -> Path:
    """The release's log, unpacked."""
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{release}.db.gz").read_bytes()))
    return path


def test_there_is_a_golden_log() -> None:
    assert RELEASES


def test_it_verifies_and_has_its_recorded_content(release: str, log: Path) -> None:
    assert verify_seal(str(log)) == []
    assert content_of(log) == recorded_content(release)


def test_every_event_is_read_and_belongs_to_its_stream(log: Path) -> None:
    reader = open_log(str(log), create=False, read_only=True)
    streams = [line.split("\t")[1] for line in content_of(log).splitlines()[:-1]]
    assert [repr(event.stream) for _, event in reader.read()] == streams
    assert head_of(str(log)) == (reader.head.epoch, reader.head.position, reader.head.digest)


def test_todays_version_can_continue_it(log: Path) -> None:
    writer = open_log(str(log), create=False)
    events = [event for _, event in writer.read()]
    epoch = writer.head.epoch
    assert writer.raise_epoch("today", events[-1].at, "s") == epoch + 1
    assert writer.append(events[:1]) == len(events) + 2
    writer.close()
    assert verify_seal(str(log)) == []


def test_a_release_stores_its_log_once(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    one_of_each_kind(path)
    store_log("9.9", path, tmp_path, is_story=False)
    assert recorded_content("9.9", tmp_path) == content_of(path)
    with pytest.raises(LogError, match="a log once released is not changed; name another release"):
        store_log("9.9", path, tmp_path)


@pytest.mark.parametrize("release", POOLS, indirect=True)
def test_it_folds_to_a_state_and_every_transition_is_legal(log: Path) -> None:
    reader = open_log(str(log), create=False, read_only=True)
    events = list(reader.read())
    reader.close()
    assert fold(iter(events)).position == len(events)
    assert list(validate(events)) == []


def test_a_job_that_left_the_queue_without_a_separate_event_is_gone(tmp_path: Path) -> None:
    """In logs of format 1 a job's leaving is part of the event that ended it; the live pool continues with the other
    jobs."""
    path = tmp_path / "log.db"
    path.write_bytes(gzip.decompress((GOLDEN / "0.2.0a1.db.gz").read_bytes()))
    log = open_log(str(path), create=False)
    events = list(log.read())
    state = fold(iter(events))
    statuses = {
        cluster.id: [cluster.status_of(proc) for proc in cluster.procs()] for cluster in state.clusters.values()
    }
    assert statuses == {3: ["Running"], 4: ["Held"], 6: ["Held", "Held"]}
    tables = folded(events)
    assert tables.execute("SELECT sum(last - first + 1) FROM history").fetchone() == (13,)
    assert tables.execute("SELECT sum(last - first + 1) FROM jobs").fetchone() == (4,)
    assert examine(events).jobs["leave"] == 13
    assert why_job(events, 1, 0).texts[1] == "Job 1.0 ended after 1 s on slot1_1@p, with code 0; it left the queue."
    assert not any("stays in the queue" in text for text in why_job(events, 2, 3).texts)
    world = VirtualWorld()
    world.clock = events[-1][1].at
    engine = Engine(log, world)
    (answer,) = engine.handle([job_command("rm", "bob", "remove", s.Selection(clusters=(6,)))])
    assert not answer.refusal
    assert 6 not in engine.state.clusters
    assert list(validate(log.read())) == []
