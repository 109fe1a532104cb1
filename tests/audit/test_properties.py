"""Properties of the whole way from files to the verdict."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.importing.driver import Importer
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import EventStore
from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import TRACES, UTC, imported, write
from ..sampling import soak_examples

FOLDERS = ("01-plain", "07-drain", "12-submit-policy", "13-deferral-crontab")
GROWING = (
    "StartLog",
    "SchedLog",
    "EventLog",
    "job.log",
    "epoch_history",
    "startd_history",
    "NegotiatorLog",
    "MatchLog",
)


def files(folder: str) -> dict[str, bytes]:
    """Return name and content of each file of a trace, decompressed."""
    contents = {}
    for path in sorted(filter(Path.is_file, (TRACES / folder).iterdir())):
        data = path.read_bytes()
        contents[path.name.removesuffix(".gz")] = gzip.decompress(data) if path.suffix == ".gz" else data
    return contents


def comparable_audit(log: EventStore) -> dict[str, Any]:
    """Return the whole audit, except what depends on the number of imports."""
    return asdict(examine(log)) | {"events": 0}


def check_import_in_two_parts(folder: str, place: Path, data: st.DataObject) -> None:
    """Import a part of each file that grows, then all of it; the audit has to equal that of a single import."""
    contents = files(folder)
    log = open_log("memory:", create=True)
    importer = Importer(log, [str(place)], UTC)
    for name, content in contents.items():
        if name.endswith(GROWING):
            size = data.draw(st.integers(0, len(content)), label=name)
            write(place / name, content[:size])
    if data.draw(st.booleans(), label="by one importer"):
        importer.run()
    else:
        imported(place, log=log)
    for name, content in contents.items():
        write(place / name, content)
    imported(place, log=log)
    log_at_once, _ = imported(place)
    assert comparable_audit(log) == comparable_audit(log_at_once)


def check_import_with_rubbish(folder: str, place: Path, data: st.DataObject) -> None:
    """Put rubbish into each file, replacing some bytes or none; the rest has to be read and audited."""
    for name, content in files(folder).items():
        at = data.draw(st.integers(0, len(content)), label=name)
        rubbish = data.draw(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), label="rubbish")
        write(place / name, content[:at] + rubbish + content[at + data.draw(st.integers(0, 200)) :])
    log, _ = imported(place)
    assert sum(examine(log).transitions.values()) > 0


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=1, deadline=None)
@given(data=st.data())
def test_an_import_in_two_parts_equals_a_single_import(
    folder: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    check_import_in_two_parts(folder, tmp_path_factory.mktemp("pool"), data)


@pytest.mark.parametrize("folder", ["02-owner-return", "12-submit-policy"])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_rubbish_anywhere_in_any_file_does_not_stop_the_audit(
    folder: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    check_import_with_rubbish(folder, tmp_path_factory.mktemp("pool"), data)


BUSY = sorted(path.name for path in TRACES.iterdir() if (path / "EventLog.gz").exists())


@pytest.mark.soak
@settings(  # to shrink an example takes minutes
    max_examples=soak_examples(200), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(
    folder=st.sampled_from(BUSY),
    act=st.sampled_from([check_import_in_two_parts, check_import_with_rubbish]),
    data=st.data(),
)
def test_any_recorded_pool_is_readable_in_parts_and_with_rubbish(
    folder: str,
    act: Callable[[str, Path, st.DataObject], None],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    act(folder, tmp_path_factory.mktemp("pool"), data)


@pytest.mark.parametrize(
    "kind", ["StartLog", "EventLog", "job.log", "history", "job_queue.log", "SchedLog", "userprio.txt"]
)
@settings(max_examples=4, deadline=None)
@given(rubbish=st.binary(max_size=3000))
def test_a_file_of_only_rubbish_does_not_stop_the_import(
    kind: str, tmp_path_factory: pytest.TempPathFactory, rubbish: bytes
) -> None:
    place = tmp_path_factory.mktemp("pool")
    write(place / kind, rubbish)
    log, _ = imported(place)
    assert examine(log).violations == []


def test_the_order_of_imported_folders_does_not_matter(tmp_path: Path) -> None:
    for folder in ("01-plain", "03-kill"):
        for name, content in files(folder).items():
            write(tmp_path / folder / name, content)
    in_order, _ = imported(tmp_path / "01-plain", tmp_path / "03-kill")
    other, _ = imported(tmp_path / "03-kill")
    imported(tmp_path / "01-plain", log=other)
    assert comparable_audit(in_order) == comparable_audit(other)
