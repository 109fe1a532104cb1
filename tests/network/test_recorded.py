"""Golden: the recorded expectations of pools of several machines are complete and possible."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poolbook.domain.state_machines import HTCONDOR_25, classify

from .recorded import DATA, JobEvent, Transition, job_events, load, slot_transitions

SCENARIOS = sorted(path.stem for path in DATA.glob("0*.json") if "jobs" in load(path.stem))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_transitions_follow_each_other_and_are_rows_of_the_table(scenario: str) -> None:
    started = {slot for slot, lines in load(scenario)["slots"].items() if lines[0][1] == ""}
    for slot, lines in load(scenario)["slots"].items():
        assert slot in started or slot.partition("@")[2] in started
        for (_, _, before), (_, source, target) in pairwise(lines if slot not in started else []):
            assert source in (before, "Owner/Idle")  # Owner/Idle: the startd has started again
            assert classify(HTCONDOR_25, source, target), f"{slot}: {source} -> {target}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_jobs_begin_with_their_submission_and_run_one_at_a_time(scenario: str) -> None:
    for schedd, jobs in load(scenario)["jobs"].items():
        for job, lines in jobs.items():
            numbers = [number for _, number, _, _ in lines]
            assert numbers[0] == 0 and numbers.count(0) == 1, f"{job} of {schedd}"
            assert 5 not in numbers[:-1], f"{job} of {schedd} terminated, and more events follow"
            assert [time for time, *_ in lines] == sorted(time for time, *_ in lines)


def test_job_event_logs_are_reduced_to_slots_and_details() -> None:
    log = b"""\
001 (001.000.000) 2026-11-26 19:19:49 Job executing on host: <10.77.0.22:9618?alias=ep2.poola.example>
\tSlotName: slot1@ep2.poola.example
...
006 (001.000.000) 2026-11-26 19:20:04 Image size of job updated: 2600
...
004 (001.000.000) 2026-11-26 19:20:43 Job was evicted. Code 1008 Subcode 0
\t(0) CPU times
\tReason: Job not found at execution machine
...
005 (001.000.000) 2026-11-26 19:20:59 Job terminated.
\t(1) Normal termination (return value 3)
...
"""
    begin = 1795720789.0
    assert job_events(log) == [
        JobEvent("1.0", begin, 1, "slot1@ep2.poola.example", ""),
        JobEvent("1.0", begin + 54, 4, "", "Code 1008 Subcode 0: Job not found at execution machine"),
        JobEvent("1.0", begin + 70, 5, "", "return value 3"),
    ]


def test_startlogs_are_reduced_to_transitions_and_starts() -> None:
    log = b"""\
11/26/26 19:17:37 ** condor_startd (CONDOR_STARTD) STARTING UP
11/26/26 19:17:37 ** PID = 24 RealUID = 0
11/26/26 19:17:44 slot1: Changing state: Owner -> Unclaimed
11/26/26 19:17:45 slot1: Received match <10.77.0.21:9618>#1795720657#1#...
"""
    begin, machine = 1795720657.0, "ep1.poola.example"
    assert slot_transitions(log, machine) == [
        Transition(machine, begin, "", "the startd starts"),
        Transition(f"slot1@{machine}", begin + 7, "Owner/Idle", "Unclaimed/Idle"),
    ]
