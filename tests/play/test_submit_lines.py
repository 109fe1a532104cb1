"""Specification: `submit` lines of a scenario take submit commands; lines of one instant are simultaneous."""

from __future__ import annotations

import pytest

from poolbook.adapters.simulation import PlayEvent, ScenarioMachines, Simulation, StepWarning, play
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.state.proc_ads import Variants
from poolbook.replay.scenario import PlayError, parse_scenario

from ..together import together

POOL = "machine w cores=4 memory=4000 disk=50000000\nuntil 1h\n"


def play_text(text: str) -> tuple[Simulation, list[PlayEvent]]:
    """Return the simulation of a scenario at its end, and its reports."""
    scenario, reports = parse_scenario(text), list[PlayEvent]()
    simulation = Simulation(scenario, ScenarioMachines(scenario), open_log("memory:", create=True), reports.append)
    play(simulation)
    return simulation, reports


def events_of(text: str) -> list[e.Event]:
    return [event for _, event in play_text(text)[0].log.read()]


def submitted_ad(commands: str) -> e.ClusterSubmitted:
    (event,) = (
        submission
        for submission in events_of(f"{POOL}at 0:10 submit ann {commands}")
        if isinstance(submission, e.ClusterSubmitted)
    )
    return event


@together(
    ("commands", "attribute", "text"),
    [
        ("request_memory=2GB", "RequestMemory", "2048"),
        ("memory=400", "RequestMemory", "400"),
        ("request_cpus=3", "RequestCpus", "3"),
        ("request_disk=1GB", "RequestDisk", "1048576"),
        ("accounting_group=g", "AccountingGroup", '"g.ann"'),
        ("accounting_group=g accounting_group_user=bob", "AccountingGroup", '"g.bob"'),
        ("max_retries=3", "JobMaxRetries", "3"),
        ("concurrency_limits=XSW,b:2", "ConcurrencyLimits", '"b:2,xsw"'),
        ("periodic_hold=true", "PeriodicHold", "true"),
        ('periodic_hold=true periodic_hold_reason="too big"', "PeriodicHoldReason", '"too big"'),
        ("priority=9", "JobPrio", "9"),
        ("nice_user=true", "AccountingGroup", '"nice-user.ann"'),
        ("rank=Memory", "Rank", "Memory"),
        ("+Foo=3", "Foo", "3"),
        ('ConcurrencyLimits="XSW"', "ConcurrencyLimits", '"XSW"'),
        ('arguments="1 2"', "Arguments", '"1 2"'),
        ("universe=local", "JobUniverse", "12"),
        ("kill_sig=SIGINT", "KillSig", '"SIGINT"'),
    ],
)
def test_a_submit_command_acts_as_in_a_submit_file(commands: str, attribute: str, text: str) -> None:
    assert submitted_ad(commands).ad[attribute] == text


def test_macros_of_the_submit_language_are_expanded_for_each_job() -> None:
    variants = Variants(submitted_ad("count=3 priority=$(Process)").columns)
    assert [variants.of_proc(proc)["JobPrio"] for proc in range(3)] == ["0", "1", "2"]


def test_a_job_submitted_on_hold_stays_held() -> None:
    simulation, _ = play_text(f"{POOL}at 0:10 submit ann hold=true\nat 30:00 expect 1.0 Held")
    assert simulation.engine.state.clusters[1].status_of(0) == "Held"


def test_a_job_with_max_retries_runs_again_until_they_are_used_up() -> None:
    events = events_of(f"{POOL}at 0:10 submit ann run=1:00 code=1 max_retries=2")
    assert sum(isinstance(event, e.JobActivated) for event in events) == 3


def test_a_line_that_condor_submit_rejects_is_an_error_with_its_line() -> None:
    with pytest.raises(PlayError, match="line 3: priority = high: ") as error:
        play_text(f"{POOL}at 0:10 submit ann priority=high")
    assert error.value.line == 3


def test_a_warning_of_condor_submit_is_reported_once_for_a_line_that_repeats() -> None:
    _, reports = play_text(f"{POOL}at 0:10 every 10:00 submit ann manifest=true")
    assert [report.text for report in reports if isinstance(report, StepWarning)] == [
        "manifest is kept in the ad and not acted on yet"
    ]


def test_a_misspelled_setting_in_a_set_line_is_reported() -> None:
    _, reports = play_text(f"{POOL}at 0:10 set STRAT = False")
    assert [report.text for report in reports if isinstance(report, StepWarning)] == [
        "scenario:3: STRAT: no such setting; did you mean START?"
    ]


# One instant


def first_cycle(lines: str) -> list[str]:
    """Return the jobs that the first cycle with any job matched or rejected, after these lines at 0:10."""
    events = events_of(f"config\nuse FEATURE : StaticSlots\nend\nmachine w cores=1\nuntil 5:00\n{lines}")
    cycles = (event for event in events if isinstance(event, e.CycleHeld))
    first = next(cycle for cycle in cycles if cycle.matches)
    return sorted([*(match.job for match in first.matches), *(reason.job for reason in first.unmatched)])


@together(
    ("lines", "jobs"),
    [
        ("at 0:10 submit ann\nat 0:10 submit bob", ["1.0", "2.0"]),
        ("at 0:10 submit ann\nat 0:20 LoadAvg=0\nat 0:10 submit bob", ["1.0", "2.0"]),
        ("at 0:10 submit ann\nat 10s submit bob", ["1.0", "2.0"]),
        ("at 0:10 every 1:00 until 5:00 submit ann\nat 0:10 submit bob", ["1.0", "2.0"]),
        ("at 0:10 submit ann\nat 0:10 hold 1.0\nat 0:10 submit bob", ["2.0"]),
        ("at 0:10 submit ann\nat 0:10 remove 1.0\nat 0:10 submit bob", ["2.0"]),
        ("at 0:10 submit ann\nat 0:10 edit 1.0 RequestCpus=1\nat 0:10 LoadAvg=0\nat 0:10 submit bob", ["1.0", "2.0"]),
    ],
)
def test_the_pool_negotiates_after_the_last_line_of_an_instant(lines: str, jobs: list[str]) -> None:
    assert first_cycle(lines) == jobs


@together(
    ("lines", "status"),
    [
        ("at 0:10 submit ann run=30:00\nat 0:10 drain", "Idle"),
        ("at 0:10 submit ann run=30:00\nat 0:10 off", "Idle"),
        ("at 0:10 submit ann run=30:00\nat 0:10 set START = False", "Idle"),
        ("at 0:10 submit ann run=30:00\nat 0:10 hold 1.0\nat 0:10 release 1.0", "Running"),
    ],
)
def test_a_job_does_not_start_before_the_other_lines_of_its_instant(lines: str, status: str) -> None:
    simulation, _ = play_text(f"machine w cores=1\nuntil 5:00\n{lines}")
    assert simulation.engine.state.clusters[1].status_of(0) == status
