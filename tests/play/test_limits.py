"""Specification: in a play, a job that uses more than its slot's limits is killed and held, as on a real machine."""

from __future__ import annotations

import pytest

from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.replay.scenario import PlayError, parse_scenario
from poolbook.replay.why.answer import why

from ..together import together

SCENARIO = """config
    {settings}
end
machine w cores=1 memory=1000 disk=4000
at 0:10 submit ann memory=500 disk=2000 run=10:00
at 1:00 measure 1.0 {usage}
until 2:00
"""
STATIC = "use FEATURE : StaticSlots"
MEMORY = "The job used more memory than the {} MiB that it was given"
DISK = "The job used more disk than the {} KiB that it was given"
CUSTOM = "CGROUP_MEMORY_LIMIT_POLICY = custom\n    CGROUP_HARD_MEMORY_LIMIT_EXPR = 2 * TARGET.RequestMemory - 300"


def simulation(settings: str, usage: str = "memory=1") -> Simulation:
    scenario = parse_scenario(SCENARIO.format(settings=settings, usage=usage))
    return Simulation(scenario, ScenarioMachines(scenario), open_log("memory:", create=True), lambda _: None)


@together(
    ("settings", "usage", "expected"),
    [
        ("", "memory=513", MEMORY.format(512)),
        ("", "memory=512", ""),
        ("", "disk=3000", DISK.format(2048)),
        ("CGROUP_MEMORY_LIMIT_POLICY = none", "memory=900", ""),
        (CUSTOM, "memory=701", MEMORY.format(700)),
        (CUSTOM, "memory=700", ""),
        (STATIC, "memory=2000", ""),
        (STATIC, "disk=5000", ""),
        (f"{STATIC}\n    STARTD_ENFORCE_DISK_LIMITS = true", "disk=5000", DISK.format(4000)),
        (f"{STATIC}\n    STARTD_ENFORCE_DISK_LIMITS = true", "disk=3000", ""),
    ],
)  # fmt: skip
def test_a_job_over_a_limit_is_held_with_the_reason_of_a_real_machine(settings: str, usage: str, expected: str) -> None:
    played = simulation(settings, usage)
    play(played)
    texts = why(played.log, "1.0").texts
    assert (
        next((reason for text in texts for reason in text.removesuffix(".").split("it is held: ")[1:]), "") == expected
    )


def test_limits_that_no_job_of_a_scenario_can_reach_are_reported() -> None:
    warnings = simulation("MAX_TRANSFER_INPUT_MB = 10").machines.new_warnings()
    assert warnings == ["MAX_TRANSFER_INPUT_MB has no effect in a scenario, whose jobs have no files"]


def test_an_unknown_policy_is_an_error() -> None:
    with pytest.raises(PlayError, match="CGROUP_MEMORY_LIMIT_POLICY: hrad is unknown; use hard, soft, custom, none"):
        play(simulation("CGROUP_MEMORY_LIMIT_POLICY = hrad"))
