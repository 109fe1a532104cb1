"""Golden: the attributes that a job's life sets in its ad, as in the ads of HTCondor 25.14."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from poolbook.domain.events import Ad, JobActivated
from poolbook.domain.ports.world import Launch
from poolbook.domain.state.job_ad import unquoted
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .pools import TestPool

SUBMITTED_ON_HOLD = {
    "JobStatus": "5",
    "HoldReasonCode": "15",
    "HoldReason": '"submitted on hold at user\'s request"',
}


def pool_of(behaviour: Behaviour, **ad: str) -> TestPool:
    """Return a pool with one slot of two cores, on which a job runs."""
    pool = TestPool(behave=lambda launch: behaviour)
    pool.machine(static=1, cpus=2)
    pool.submit(1, **ad)
    pool.advance(4)
    return pool


def ad_of(pool: TestPool) -> Ad:
    assert examine(pool.log.read()).violations == []
    return dict(pool.state.clusters[1].attributes(0))


def hold_job(pool: TestPool) -> None:
    pool.act("hold", "1.0")
    pool.advance(3)


def held_twice(pool: TestPool) -> None:
    hold_job(pool)
    pool.act("release", "1.0")
    pool.advance(5)
    hold_job(pool)


def held_and_released(pool: TestPool) -> None:
    hold_job(pool)
    pool.act("release", "1.0")


def vacated(pool: TestPool) -> None:
    pool.act("vacate", "1.0")
    pool.act("hold", "1.0")  # after the vacate, which came first
    pool.advance(2)


def slot_vacated(pool: TestPool) -> None:
    pool.vacate_slot("slot1@h", fast=True)
    pool.advance(1)


def suspended(pool: TestPool) -> None:
    pool.act("suspend", "1.0")
    pool.advance(7)
    pool.act("continue", "1.0")


def removed_while_held(pool: TestPool) -> None:
    hold_job(pool)
    pool.act("remove", "1.0")


def released(pool: TestPool) -> None:
    pool.act("release", "1.0")
    pool.advance(2)


def nothing(pool: TestPool) -> None:
    pass


HOLD = "via condor_hold (by user alice)"


@together(
    ("act", "behaviour", "ad", "expected"),
    [
        (
            hold_job, Behaviour(900), {},
            {
                "NumHolds": "1", "NumHoldsByReason": "[ UserRequest = 1 ]", "NumVacates": "1",
                "NumVacatesByReason": "[ UserRequest = 1 ]", "VacateReason": HOLD, "VacateReasonCode": "1",
                "VacateReasonSubCode": "0", "LastReleaseReason": "", "LastHoldReason": "", "NumVacatesPreExecution": "",
            },
        ),
        (
            held_twice, Behaviour(900), {},
            {
                "NumHolds": "2", "NumHoldsByReason": "[ UserRequest = 2 ]", "NumVacates": "2",
                "NumVacatesByReason": "[ UserRequest = 2 ]", "ReleaseReason": "",
                "LastReleaseReason": "via condor_release (by user alice)", "LastHoldReason": HOLD,
                "LastHoldReasonCode": "1", "LastHoldReasonSubCode": "0",
            },
        ),
        (
            held_and_released, Behaviour(900), {},
            {"HoldReason": "", "LastHoldReason": HOLD, "NumHolds": "1", "VacateReasonCode": ""},
        ),
        (vacated, Behaviour(900), {}, {"VacateReason": "Job vacated by schedd", "VacateReasonCode": "1022"}),
        (
            hold_job, Behaviour(900), {},
            {"ExitBySignal": "true", "ExitSignal": "15", "ExitReason": "died on signal 15 (Terminated)"},
        ),
        (nothing, Behaviour(900), {}, {"JobLastStartDate": ""}),
        (held_twice, Behaviour(900), {}, {"JobLastStartDate": "1800000000"}),
        (
            suspended, Behaviour(900), {},
            {"TotalSuspensions": "1", "CumulativeSuspensionTime": "7", "LastSuspensionTime": "0"},
        ),
        (
            nothing, Behaviour(900), {"JobMachineAttrs": '"Arch, nothing"'},
            {"MachineAttrArch0": "X86_64", "MachineAttrnothing0": "undefined", "MachineAttrCpus0": "2"},
        ),
        (
            held_twice, Behaviour(900), {"JobMachineAttrs": '"arch"', "JobMachineAttrsHistoryLength": "2"},
            {"MachineAttrarch0": "X86_64", "MachineAttrarch1": "X86_64", "MachineAttrarch2": ""},
        ),
        (
            slot_vacated, Behaviour(900), {},
            {"NumVacatesByReason": "[ StartdVacateCommand = 1 ]", "NumHolds": ""},
        ),
        (
            removed_while_held, Behaviour(900), {"LeaveJobInQueue": "true"},
            {"HoldReason": "", "HoldReasonCode": "", "LastHoldReason": HOLD, "LastHoldReasonCode": "1"},
        ),
        (
            nothing, Behaviour(900), SUBMITTED_ON_HOLD,
            {"InitialJobStatus": "5", "NumHolds": "1", "NumHoldsByReason": "[ SubmittedOnHold = 1 ]"},
        ),
        (
            released, Behaviour(900), SUBMITTED_ON_HOLD,
            {
                "InitialJobStatus": "5", "NumHolds": "1", "HoldReason": "", "LastHoldReasonCode": "15",
                "LastHoldReason": "submitted on hold at user's request", "LastHoldReasonSubCode": "",
            },
        ),
        (
            nothing, Behaviour(0, failure="Failed to execute '/no'"), {},
            {
                "NumHoldsByReason": "[ FailedToCreateProcess = 1 ]", "VacateReasonCode": "6",
                "NumVacatesByReason": "[ FailedToCreateProcess = 1 ]", "NumVacatesPreExecution": "",
                "NumJobStarts": "1", "JobCurrentStartExecutingDate": "1800000000",
            },
        ),
        (
            nothing, Behaviour(2, code=3), {"LeaveJobInQueue": "true"},
            {
                "CpusProvisioned": "2", "MemoryProvisioned": "2048", "DiskProvisioned": "1000000",
                "GPUsProvisioned": "0", "MachineAttrCpus0": "2", "MachineAttrSlotWeight0": "2", "ExitStatus": "0",
                "ExitCode": "3", "CommittedTime": "2", "CommittedSlotTime": "4.0", "CumulativeSlotTime": "4.0",
                "RemoteWallClockTime": "2.0", "VacateReason": "", "NumVacates": "",
            },
        ),
        (nothing, Behaviour(2), {"OnExitHold": "true", "OnExitHoldSubCode": "7"}, {
            "NumHolds": "1", "NumHoldsByReason": "[ JobPolicy = 1 ]", "NumVacates": "", "CommittedSlotTime": "",
        }),
    ],
)  # fmt: skip
def test_an_ad_has_the_same_attributes_as_in_htcondor(
    act: Callable[[TestPool], None], behaviour: Behaviour, ad: dict[str, str], expected: dict[str, str]
) -> None:
    pool = pool_of(behaviour, **ad)
    act(pool)
    job_ad = ad_of(pool)
    assert {name: unquoted(job_ad.get(name, "")) for name in expected} == expected


@together(
    ("settings", "ad", "expected"),
    [
        ({"": "Arch Cpus"}, {}, {"Arch0": "X86_64", "Arch1": "", "Cpus0": "2", "SlotWeight0": ""}),
        ({"": " "}, {}, {"Cpus0": "", "Cpus1": "", "SlotWeight0": ""}),
        ({"_HISTORY_LENGTH": "2"}, {}, {"Cpus0": "2", "Cpus1": "2", "Cpus2": "", "SlotWeight1": "2"}),
        ({"": "nothing"}, {"JobMachineAttrs": '"Arch"'}, {"Arch0": "X86_64", "nothing0": "undefined", "Cpus0": ""}),
        ({"": "arch"}, {"JobMachineAttrs": '"Arch"'}, {"Arch0": "X86_64", "arch0": ""}),
        ({"_HISTORY_LENGTH": "1"}, {"JobMachineAttrsHistoryLength": "2"}, {"Cpus1": "2"}),
        ({"_HISTORY_LENGTH": "0"}, {}, {"Cpus0": "2", "Cpus1": ""}),
        ({"_HISTORY_LENGTH": "0"}, {"JobMachineAttrsHistoryLength": "0"}, {"Cpus0": ""}),
    ],
)
def test_all_jobs_record_the_machine_attributes_of_the_configuration(
    settings: dict[str, str], ad: dict[str, str], expected: dict[str, str]
) -> None:
    pool = TestPool(settings={f"SYSTEM_JOB_MACHINE_ATTRS{part}": text for part, text in settings.items()})
    pool.machine(static=1, cpus=2)
    pool.submit(1, **ad)
    pool.advance(4)
    held_twice(pool)
    job_ad = ad_of(pool)
    assert {name: unquoted(job_ad.get(f"MachineAttr{name}", "")) for name in expected} == expected


def test_a_run_that_records_other_attributes_than_configured_is_reported() -> None:
    pool = TestPool(settings={"SYSTEM_JOB_MACHINE_ATTRS": "OpSys"})
    pool.machine(static=1)
    pool.submit(1)
    pool.advance(4)
    events = [
        (position, structs.replace(event, recorded=("Arch",)) if isinstance(event, JobActivated) else event)
        for position, event in pool.log.read()
    ]
    (violation,) = examine(events).violations
    assert "it records other attributes of slot1" in str(violation)


def test_the_next_run_clears_why_the_last_one_was_vacated() -> None:
    pool = pool_of(Behaviour(900))
    held_and_released(pool)
    pool.advance(5)
    job_ad = ad_of(pool)
    assert job_ad["JobStatus"] == "2"
    assert "VacateReason" not in job_ad and "VacateReasonCode" not in job_ad
    assert job_ad["NumVacatesByReason"] == "[ UserRequest = 1 ]"


FILLED = {
    "Arguments": "\"-c echo' '$$(Cpus)' '$$(Memory)' '$$(Nope:dflt)\"",
    "Args": '"$$([Memory*2]) $$([Cpus+1])"',
    "Environment": '"M=$$(Cpus) $$(DOLLARDOLLAR)"',
}


def test_a_slot_expands_the_expressions_in_the_ad() -> None:
    launched: list[Ad] = []

    def behave(launch: Launch) -> Behaviour:
        launched.append(launch.job_ad)
        return Behaviour(900)

    pool = TestPool(behave=behave)
    pool.machine(static=1, cpus=1, memory=128)
    pool.submit(1, **FILLED)
    pool.advance(2)
    job_ad = ad_of(pool)
    assert {name: job_ad[name] for name in FILLED} == FILLED
    assert {name: text for name, text in job_ad.items() if name.startswith("MATCH_")} == {
        "MATCH_Cpus": "1",
        "MATCH_Memory": "128",
        "MATCH_Nope": '"dflt"',
        "MATCH_EXP_Arguments": "\"-c echo' '1' '128' 'dflt\"",
        "MATCH_EXP_Args": '"256 2"',
        "MATCH_EXP_Environment": '"M=1 $$"',
    }
    assert [launched[0][name] for name in FILLED] == [job_ad[f"MATCH_EXP_{name}"] for name in FILLED]


def test_a_job_whose_ad_a_slot_cannot_expand_is_held_and_the_next_one_runs() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(900))
    pool.machine(static=1, cpus=1)
    pool.submit(30, Args='"$$(NoSuchAttr)"')
    pool.submit(1)
    pool.advance(2)
    job_ad = ad_of(pool)
    assert unquoted(job_ad["HoldReason"]) == "Cannot expand $$ expression (NoSuchAttr)."
    assert (job_ad["HoldReasonCode"], job_ad["NumHoldsByReason"]) == ("0", "[ Unspecified = 1 ]")
    assert job_ad["NumSystemHolds"] == "1"
    assert {pool.status(f"1.{proc}") for proc in range(30)} == {"Held"}
    assert [event.cluster for event in pool.events() if isinstance(event, JobActivated)] == [2]


def test_a_local_universe_job_has_no_slot_that_could_expand_its_ad() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(900))
    pool.submit(1, JobUniverse="12", Args='"$$(Memory)"')
    pool.submit(1, JobUniverse="12", Args='"$$(Memory:7) $$([1 + ClusterId])"')
    pool.advance(2)
    assert [pool.status(job) for job in ("1.0", "2.0")] == ["Held", "Running"]
    attributes, runs = (cluster.attributes(0) for cluster in pool.state.clusters.values())
    assert unquoted(attributes["HoldReason"]) == "Cannot expand $$ expression (Memory)."
    assert runs["MATCH_EXP_Args"] == '"7 3"'
