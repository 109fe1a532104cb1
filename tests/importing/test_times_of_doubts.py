"""Specification: the readers' doubts have the time of the records, not that of the import."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.condor_files.importing.session import import_pool
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.forensics.audit.examine import examine

COMPLETED = 1763853170


def history() -> str:
    """Return the history of four jobs, as a daemon writes it, without the ad of the second."""
    text, offset, ads = "", 0, []
    for number in range(1, 5):
        time_offsets = {"QDate": -60, "JobStartDate": -50, "CompletionDate": number, "EnteredCurrentStatus": number}
        facts = {"ClusterId": number, "ProcId": 0, "Owner": '"ann"', "MyType": '"Job"', "JobStatus": 4}
        facts |= {name: COMPLETED + seconds for name, seconds in time_offsets.items()}
        facts |= {"GlobalJobId": f'"ap#{number}.0#{COMPLETED - 60}"', "Cmd": f'"/bin/{"a" * 900}"'}
        ad = "".join(f"{name} = {value}\n" for name, value in facts.items())
        begins = len(text) + len(ad)
        ads.append(
            f'{ad}*** Offset = {offset} ClusterId = {number} ProcId = 0 Owner = "ann" CompletionDate = {COMPLETED}\n'
        )
        text, offset = text + ads[-1], begins
    return "".join(ads[:1] + ads[2:])


@pytest.mark.parametrize("kind", ["history", "startd_history"])
def test_a_removed_ad_is_reported_at_a_time_of_the_history(tmp_path: Path, kind: str) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / kind).write_text(history())
    import_pool(tmp_path / "source", tmp_path / "a.db", zone="UTC")
    log = open_log(str(tmp_path / "a.db"), create=False)
    try:
        (doubt,) = [
            event for _, event in log.read() if isinstance(event, e.DaemonReported) and event.said == "displaced"
        ]
        audit = examine(log)
    finally:
        log.close()
    assert doubt.at == (COMPLETED + 4) * 1_000_000
    assert [(violation.rule, violation.at) for violation in audit.violations if violation.rule == "displaced"] == [
        ("displaced", doubt.at)
    ]
    assert audit.ended == doubt.at
