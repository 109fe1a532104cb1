"""The load of jobs and machines: what slots publish of it, also on a machine without any other readings."""

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.testing import play


def test_a_slot_publishes_that_the_load_of_an_evicted_job_has_ended_so_that_the_job_is_matched_again() -> None:
    report = play("""
        until 12min
        machine node
        config
            use FEATURE : StaticSlots
            RUNBENCHMARKS = False
            START = LoadAvg < 0.3
            WANT_SUSPEND = False
            PREEMPT = LoadAvg > 0.8
        end
        at 0:10 submit alice run=30:00 load=1.0
    """)
    starts = [event for _, event in report.events if type(event).__name__ == "JobActivated"]
    assert len(starts) > 2


def test_each_slots_ad_shows_the_load_and_the_console_of_its_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, log = tmp_path / "load.play", str(tmp_path / "load.db")
    scenario.write_text("""
        machine node cores=2
        config
            use FEATURE : StaticSlots
            RUNBENCHMARKS = False
            SLOTS_CONNECTED_TO_CONSOLE = 1
            DISCONNECTED_KEYBOARD_IDLE_BOOST = 0
        end
        at 0:10 claim slot2 by alice load=0.5 run=1h
        at 1:00 LoadAvg=1.25
        at 2:00 ConsoleIdle=0
        until 20:00
    """)
    assert main(["play", str(scenario), "-log", log, "-quiet"]) == 0
    capsys.readouterr()
    loads = ("TotalLoadAvg", "TotalCondorLoadAvg", "ConsoleIdle")
    assert main(["status", "-log", log, "-at", "2026-11-02T08:10Z", "-af", "Name", *loads]) == 0
    assert capsys.readouterr().out.splitlines() == ["slot1@node 1.75 0.5 480", "slot2@node 1.75 0.5 600"]
