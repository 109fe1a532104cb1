"""Golden: -aaf appends columns to the usual tables, as condor_q and condor_status print them."""

from __future__ import annotations

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table, status
from poolbook.domain.classad import ClassAd

from ..together import together
from .captures import capture, printed, surroundings_at

NOW = 1795652256  # 2026-11-26 00:17:36 UTC
SUBMITTED = 1795652170
# Cluster -> status, run time, size, command, cores.
JOBS = {
    4: (5, 0, 0, "/bin/sleep 300", 1),
    5: (2, 48, 8, "/bin/sleep 300", 1),
    8: (5, 6, 0, "/bin/cat hello.txt", 1),
    9: (1, 0, 0, "/bin/sleep 300", 99),
    10: (2, 3, 0, "/bin/sleep 300", 1),
    11: (1, 0, 0, "/bin/sleep 300", 1),
}
SLOTS = {"slot1": ("Unclaimed", "Idle", 23849, 49, 0, 3), "slot1_1": ("Claimed", "Busy", 128, 42, 1, 2),
         "slot1_2": ("Claimed", "Busy", 128, 1, 1, 3)}  # fmt: skip


def jobs(second: int) -> list[ClassAd]:
    ads = []
    for cluster, (state, seconds, size, command, cores) in JOBS.items():
        program, _, arguments = command.partition(" ")
        ad = {"ClusterId": cluster, "ProcId": 0, "Owner": "alice", "JobStatus": state, "MemoryUsage": size,
              "JobPrio": 0, "RemoteUserCpu": 0.0, "Cmd": program, "Args": arguments, "RequestCpus": cores}  # fmt: skip
        ad["QDate"] = SUBMITTED + (60 if cluster > 8 else 0)
        ad["ShadowBday" if state == 2 else "RemoteWallClockTime"] = NOW - seconds if state == 2 else float(seconds)
        ads.append(ClassAd(ad))
    return ads


def slots() -> list[ClassAd]:
    return [
        ClassAd({"Name": f"{name}@localhost", "Machine": "localhost", "OpSys": "LINUX", "Arch": "X86_64",
                 "State": state, "Activity": activity, "CondorLoadAvg": 0.0, "Memory": memory, "Cpus": cores,
                 "MyCurrentTime": NOW,
                 "EnteredCurrentActivity": NOW - seconds, "TotalSlots": count})
        for name, (state, activity, memory, seconds, cores, count) in SLOTS.items()
    ]  # fmt: skip


@together(("name", "second"), [("q_aaf", 0), ("q_aaf_printf", 2), ("q_aaf_quoted", 1)])
def test_chosen_columns_follow_the_table_of_jobs(name: str, second: int) -> None:
    expected = capture(name)
    surroundings = surroundings_at()._replace(now=NOW + second)
    assert (
        printed(queue_table.render(jobs(second), queue_table.parse_arguments(expected.argv), surroundings))
        == expected.out
    )


@together("name", ["status_aaf", "status_aaf_expression"])
def test_chosen_columns_follow_the_table_of_slots(name: str) -> None:
    expected = capture(name)
    assert printed(status.render(slots(), status.parse_arguments(expected.argv), surroundings_at())) == expected.out


@together("name", ["q_aaf_batch", "q_aaf_conflict", "q_aaf_letter", "q_aaf_none"])
def test_a_table_without_appended_columns_refuses_them(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = capture(name)
    monkeypatch.setattr("sys.argv", ["condor_q", *expected.argv])
    assert (main(), *capsys.readouterr()) == (expected.exit_code, expected.out, expected.err)
