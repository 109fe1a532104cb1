"""Specification: one table lists what to do about each hold; `why` and docs/job-policy.md read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.condor_files.importing.session import import_pool
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.state_machines import HOLD_CODES
from poolbook.domain.state_machines.hold_codes import hold_advice
from poolbook.replay.why.answer import why

from .hold_page import PAGE, fill
from .virtual_point import PointPool

RELEASES = sorted(set(HOLD_CODES) - {2, 16, 17})


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page) == page, "docs/job-policy.md is out of date: run python docs/generate.py"


@pytest.mark.parametrize("code", HOLD_CODES)
def test_every_hold_code_has_advice_without_open_fields(code: int) -> None:
    advice = hold_advice(str(code), "condor", "7.3")
    assert advice
    assert "{" not in advice
    assert ("`condor_release 7.3`" in advice) == (code in RELEASES)


@pytest.mark.parametrize("code", ["", "999", "x", "-1"])
def test_an_unknown_code_has_the_advice_of_an_unspecified_hold(code: str) -> None:
    assert hold_advice(code, "poolbook", "1.0") == hold_advice("0", "poolbook", "1.0")


QUEUE = """107 1 CreationTimestamp 1763853165
103 0.0 NextClusterNum 2
101 01.-1 Job Machine
101 1.0 Job Machine
103 1.0 ClusterId 1
103 1.0 ProcId 0
103 1.0 JobUniverse 5
103 1.0 QDate 1763853169
103 01.-1 Owner "ann"
103 01.-1 User "ann@example"
103 1.0 JobStatus 5
103 1.0 HoldReason "because"
103 1.0 HoldReasonCode CODE
103 1.0 EnteredCurrentStatus 1763853170
"""
EVENT_LOG = """000 (1.000.000) 2025-11-22 23:12:49 Job submitted from host: <10.0.0.1:9618?alias=ap.example>
...
012 (1.000.000) 2025-11-22 23:12:50 Job was held.
\tbecause
\tCode CODE Subcode 0
...
"""


def last_line(folder: Path, name: str, text: str) -> str:
    """Return the advice of `why 1.0` after the import of one file."""
    (folder / "source").mkdir(parents=True)
    (folder / "source" / name).write_text(text)
    import_pool(folder / "source", folder / "a.db", zone="UTC")
    log = open_log(str(folder / "a.db"), create=False)
    try:
        return why(log, "1.0").texts[-1]
    finally:
        log.close()


@pytest.mark.parametrize("code", [1, 3, 6, 13, 16, 26, 34])
def test_why_gives_the_advice_for_the_hold_code_of_an_imported_job(tmp_path: Path, code: int) -> None:
    advice = hold_advice(str(code), "condor", "1.0")[1:]
    for name, text in (("job_queue.log", QUEUE), ("EventLog", EVENT_LOG)):
        line = last_line(tmp_path / name, name, text.replace("CODE", str(code)))
        assert line.startswith("In that pool, ")
        assert advice in line


def test_why_advises_no_release_while_input_is_being_spooled(tmp_path: Path) -> None:
    line = last_line(tmp_path, "job_queue.log", QUEUE.replace("CODE", "16"))
    assert "condor_release" not in line
    assert line.startswith("In that pool, wait until its input files have arrived")


def held_job(*lines: str, **settings: str) -> str:
    """Return the advice of `why 1.0` in a pool after these lines."""
    pool = PointPool("manual", **settings)
    for line in ("machine h Cpus=1 Memory=2048", *lines):
        pool.say(line)
    return why(pool.log, "1.0").texts[-1]


def test_why_gives_the_advice_for_the_hold_code_of_the_pools_own_job() -> None:
    assert held_job("submit alice 1", "hold alice 1") == f"{hold_advice('1', 'poolbook', '1.0')}."


def test_why_does_not_advise_a_release_that_system_max_releases_forbids() -> None:
    second_hold = ("hold alice 1", "release alice 1", "hold alice 1")
    assert held_job("submit alice 1", *second_hold, SYSTEM_MAX_RELEASES="1") == (
        "It was held 2 times, more than SYSTEM_MAX_RELEASES (1) allows: only a queue super user can run "
        "`poolbook release 1.0`; `poolbook rm 1.0` removes it."
    )
    assert "only a queue super user" not in held_job("submit alice 1", *second_hold, SYSTEM_MAX_RELEASES="2")
