"""Properties of the whole way from files to the verdict."""

from __future__ import annotations

import gzip
import os
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
    """Name and content of each file of a trace, decompressed."""
    found = {}
    for path in sorted(filter(Path.is_file, (TRACES / folder).iterdir())):
        data = path.read_bytes()
        found[path.name.removesuffix(".gz")] = gzip.decompress(data) if path.suffix == ".gz" else data
    return found


def verdict(log: EventStore) -> dict[str, Any]:
    """The whole audit but for what depends on how often the import was asked."""
    return asdict(examine(log)) | {"events": 0}


def cut_somewhere(folder: str, place: Path, data: st.DataObject) -> None:
    """Import a part of each file that grows, then all of it; the audit has to be that of one import."""
    contents = files(folder)
    log = open_log("memory:", create=True)
    importer = Importer(log, [str(place)], UTC)
    for name, content in contents.items():
        if name.endswith(GROWING):
            cut = data.draw(st.integers(0, len(content)), label=name)
            write(place / name, content[:cut])
    if data.draw(st.booleans(), label="by one importer"):
        importer.run()
    else:
        imported(place, log=log)
    for name, content in contents.items():
        write(place / name, content)
    imported(place, log=log)
    whole, _ = imported(place)
    assert verdict(log) == verdict(whole)


def spoil(folder: str, place: Path, data: st.DataObject) -> None:
    """Put rubbish into each file, in the place of something or nothing; the rest has to be read and judged."""
    for name, content in files(folder).items():
        at = data.draw(st.integers(0, len(content)), label=name)
        rubbish = data.draw(st.binary(max_size=300) | st.text(max_size=100).map(str.encode), label="rubbish")
        write(place / name, content[:at] + rubbish + content[at + data.draw(st.integers(0, 200)) :])
    log, _ = imported(place)
    assert sum(examine(log).transitions.values()) > 0


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=1, deadline=None)
@given(data=st.data())
def test_an_import_in_two_parts_cut_anywhere_gives_the_audit_of_one_import(
    folder: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    cut_somewhere(folder, tmp_path_factory.mktemp("pool"), data)


@pytest.mark.parametrize("folder", ["02-owner-return", "12-submit-policy"])
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_rubbish_anywhere_in_any_file_stops_nothing(
    folder: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    spoil(folder, tmp_path_factory.mktemp("pool"), data)


SOAK_EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // 200
BUSY = sorted(path.name for path in TRACES.iterdir() if (path / "EventLog.gz").exists())


@pytest.mark.soak
@settings(  # to make an example smaller takes minutes
    max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(folder=st.sampled_from(BUSY), act=st.sampled_from([cut_somewhere, spoil]), data=st.data())
def test_any_recorded_pool_is_read_in_parts_and_with_rubbish(
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
def test_a_file_of_nothing_but_rubbish_stops_nothing(
    kind: str, tmp_path_factory: pytest.TempPathFactory, rubbish: bytes
) -> None:
    place = tmp_path_factory.mktemp("pool")
    write(place / kind, rubbish)
    log, _ = imported(place)
    assert examine(log).violations == []


def test_what_was_imported_by_parts_of_many_folders_in_any_order_is_the_same(tmp_path: Path) -> None:
    for folder in ("01-plain", "03-kill"):
        for name, content in files(folder).items():
            write(tmp_path / folder / name, content)
    one, _ = imported(tmp_path / "01-plain", tmp_path / "03-kill")
    other, _ = imported(tmp_path / "03-kill")
    imported(tmp_path / "01-plain", log=other)
    assert verdict(one) == verdict(other)
