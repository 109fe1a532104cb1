"""Golden: the zone of a recording's local times is determined from the files, wherever they are imported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from poolbook.adapters.condor_files.importing.driver import Options
from poolbook.adapters.condor_files.importing.time_zones import ZoneSigns
from poolbook.domain.events import JobsLogged, SlotTransitioned
from poolbook.replay.forensics.audit.examine import examine

from ..sampling import some
from .folders import TRACES, entry, imported, source_events, write

HEADER = "008 (-01.-01.-01) {} Global JobLog: ctime=1795176000 id=0.1 sequence=1 size=0 events=0\n...\n"
"""ctime is 2026-11-20 12:00:00 UTC."""
RECORDINGS = sorted(path for path in TRACES.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", some(RECORDINGS, 3), ids=lambda path: path.name)
def test_a_recording_has_the_same_counts_under_every_time_zone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts_by_zone = []
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        monkeypatch.setenv("TZ", zone)
        log, _ = imported(folder, options=Options())
        audit = examine(log)
        times = [event.at for event in source_events(log) if isinstance(event, JobsLogged | SlotTransitioned)]
        counts_by_zone.append(
            (audit.verdict, audit.jobs, audit.transitions, Counter(map(type, source_events(log))), times)
        )
    assert counts_by_zone[0] == counts_by_zone[1] == counts_by_zone[2]


@pytest.mark.parametrize(
    ("stamp", "zone"),
    [
        ("11/20 12:00:00", "UTC"),
        ("11/20 06:00:00", "-06:00"),
        ("2026-11-20 17:45:00", "+05:45"),
        ("11/21 01:00:01", "+13:00"),
        ("11/20 13:00:00", "Europe/Madrid"),
        ("2026-11-20 12:00:00Z", "Europe/Madrid"),  # such a time includes its zone
        ("02/30 12:00:00", "Europe/Madrid"),
    ],
)
def test_the_event_log_determines_the_zone_of_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamp: str, zone: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Madrid")
    write(tmp_path / "EventLog", HEADER.format(stamp) + entry(0, "1.0", 0))
    _, result = imported(tmp_path, options=Options())
    assert result.zone == zone


def test_a_jobs_epochs_determine_the_zone_of_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for proc in range(3):
        write(tmp_path / f"job{proc}.log", entry(0, f"1.{proc}", proc))
    ads = "".join(
        f'ClusterId = 1\nProcId = {proc}\nQDate = {1795176000 + proc}\nJobStatus = 4\n*** Offset = 0 ClusterId = 1\n'
        for proc in range(3)
    )  # fmt: skip
    write(tmp_path / "history", ads)
    _, result = imported(tmp_path, options=Options())
    assert result.zone == "UTC"


def test_a_later_import_keeps_the_zone_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    write(tmp_path / "EventLog", HEADER.format("11/20 06:00:00") + entry(0, "1.0", 0))
    log, _ = imported(tmp_path, options=Options())
    write(tmp_path / "job.log", entry(0, "2.0", 0))
    _, result = imported(tmp_path, options=Options(), log=log)
    assert result.zone == "-06:00"


@pytest.mark.parametrize(
    ("stamps", "given_zone", "error"),
    [
        (["06:00:00"], "Asia/Tokyo", "-zone Asia/Tokyo: the files' local times are -06:00; give -zone -06:00"),
        (["06:00:00", "12:00:00"], "", r"several zones \(-06:00, UTC\): name the zone with -zone"),
    ],
)
def test_a_zone_that_the_files_contradict_is_rejected(
    tmp_path: Path, stamps: list[str], given_zone: str, error: str
) -> None:
    for stamp in stamps:
        write(tmp_path / stamp / "EventLog", HEADER.format(f"11/20 {stamp}") + entry(0, "1.0", 0))
    with pytest.raises(ValueError, match=error):
        imported(tmp_path, options=Options(given_zone))


def test_few_signs_do_not_determine_a_zone() -> None:
    signs = ZoneSigns()
    signs.scan_file_start(entry(0, "1.0", 0).encode(), 1795176000)
    signs.scan_file_start(b"ClusterId = 1\nProcId = 0\nQDate = 1795179600\n", 1795176000)
    assert signs.zone("UTC", given=False) == "UTC"
