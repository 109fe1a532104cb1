"""Golden: which events follow from which stimulus, as short stories of a pool in virtual time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from poolbook.domain.decide.timers import next_timer
from poolbook.domain.events import (
    CycleHeld,
    Event,
    JobExited,
    JobSignalled,
    JobsTransitioned,
    RequestAnswered,
    SlotTransitioned,
)
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from ..job_commands import job_command
from ..together import together
from .pools import TestPool


def rows(pool: TestPool, slot: str) -> list[str]:
    """Return the numbers of a slot's transitions, in order."""
    return [event.row for event in pool.events() if isinstance(event, SlotTransitioned) and event.slot == slot]


def of_job(pool: TestPool, *kinds: type[Event]) -> list[Event]:
    return [event for event in pool.events() if isinstance(event, kinds)]


@pytest.mark.parametrize(
    ("dialect", "walk"),
    [
        ("manual", ["1", "6", "9", "11", "12", "10", "22", "1"]),
        ("htcondor-25", ["1", "5", "11", "12", "12a", "10", "25", "1"]),
    ],
)
def test_a_job_takes_a_static_slot_through_its_claim_and_back(dialect: str, walk: list[str]) -> None:
    pool = TestPool(dialect=dialect)
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(40)
    assert rows(pool, "slot1@h") == walk
    assert pool.status("1.0") == "ended"
    assert pool.state.usage == {"alice@example.org": 30_000_000 * 1000}


@pytest.mark.parametrize(
    ("dialect", "walk"),
    [
        ("manual", ["1", "6", "9", "11", "12", "10", "22", "1"]),
        ("htcondor-25", ["5a", "11", "12", "12a", "10", "25", "1"]),
    ],
)
def test_a_dynamic_slot_exists_for_its_claim_and_returns_its_resources(dialect: str, walk: list[str]) -> None:
    pool = TestPool(dialect=dialect)
    pool.machine(cpus=2, memory=2048)
    pool.submit(RequestMemory="200")
    pool.advance(1)
    assert pool.state.slots["slot1@h"].ad["Memory"] == str(2048 - 256)  # in steps of 128
    assert pool.state.slots["slot1_1@h"].ad["Memory"] == "256"
    pool.advance(40)
    assert rows(pool, "slot1_1@h") == walk
    assert set(pool.state.slots) == {"slot1@h"}
    assert pool.state.slots["slot1@h"].ad["Memory"] == "2048"


def test_a_claim_is_reused_for_the_next_fitting_job_of_its_holder() -> None:
    pool = TestPool()
    pool.machine(cpus=1, memory=1024)
    pool.submit(2)
    pool.submit(RequestMemory="512")  # more than was carved for the others: needs another slot
    pool.submit(user="bob")
    pool.advance(200)
    assert rows(pool, "slot1_1@h") == [
        *["1", "6", "9", "11", "12", "11", "12", "10", "22", "1"],  # 1.0, 1.1 on one claim
        *["1", "6", "9", "11", "12", "10", "22", "1"],  # 2.0
        *["1", "6", "9", "11", "12", "10", "22", "1"],  # 3.0, of another holder
    ]


def test_a_claim_older_than_its_worklife_is_not_reused() -> None:
    pool = TestPool(settings={"CLAIM_WORKLIFE": "20"})
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(70)
    assert rows(pool, "slot1@h").count("9") == 2


def test_a_users_jobs_are_matched_by_priority_then_submission_and_users_take_turns() -> None:
    pool = TestPool(settings={"CLAIM_WORKLIFE": "0"})
    pool.submit(2)
    pool.submit(1, JobPrio="5")
    pool.submit(1, user="bob")
    pool.edit("1.1", JobPrio="3")
    pool.machine(static=1, cpus=1)
    pool.advance(150)
    matched_jobs = [match.job for event in of_job(pool, CycleHeld) for match in event.matches]  # type: ignore[attr-defined]
    assert matched_jobs == ["2.0", "3.0", "1.1", "1.0"]


def test_rank_chooses_among_the_slots_that_match() -> None:
    pool = TestPool(settings={"NEGOTIATOR_PRE_JOB_RANK": ""})  # by default, the slot with less memory comes first
    pool.machine("small", cpus=1, memory=512, static=1)
    pool.machine("large", cpus=1, memory=4096, static=1)
    pool.submit(Rank="TARGET.Memory")
    pool.submit(Rank="-TARGET.Memory")
    assert {slot.name: slot.activation.cluster for slot in pool.state.slots.values() if slot.activation} == {
        "slot1@large": 1,
        "slot1@small": 2,
    }


def test_an_unmatchable_job_does_not_delay_the_next_one_and_the_log_says_why() -> None:
    pool = TestPool()
    pool.machine("a", memory=1024)
    pool.machine("b", memory=2048)
    pool.submit(3, RequestMemory="1500 * 2", JobPrio="9")
    pool.submit()
    pool.advance(1)
    assert pool.status("1.0") == "Idle"
    assert pool.status("2.0") == "Running"
    (cycle, *_) = of_job(pool, CycleHeld)
    assert isinstance(cycle, CycleHeld)
    (why,) = cycle.unmatched
    assert (why.job, why.jobs, why.slots) == ("1.0", 3, 2)
    assert [(clause.text, clause.alone, clause.left) for clause in why.clauses] == [
        ('TARGET.Arch == "X86_64"', 2, 2),
        ("TARGET.Memory >= RequestMemory", 0, 0),
    ]


def test_a_cycle_without_news_leaves_no_event() -> None:
    pool = TestPool()
    pool.machine()
    pool.submit(RequestMemory="9999")
    before = len(pool.events())
    pool.advance(600)
    assert len(pool.events()) == before


def test_a_running_job_that_is_held_ends_softly_and_its_claim_is_reused() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(30, grace=5))
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(1)
    pool.act("hold", "1.0")
    assert pool.status("1.0") == "Held"
    pool.advance(1)
    assert pool.status("1.1") == "Idle", "the slot is not free while the held job still ends"
    pool.advance(5)
    assert pool.status("1.1") == "Running"
    assert rows(pool, "slot1@h") == ["1", "6", "9", "11", "12", "11"]
    pool.act("release", "1.0")
    pool.advance(100)
    assert pool.status("1.0") == "ended"


def test_a_held_job_released_before_its_processes_are_gone_waits_for_them() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(30, grace=5))
    pool.machine(cpus=2)
    pool.submit()
    pool.advance(1)
    pool.act("hold", "1")
    pool.act("release", "1")
    pool.advance(1)
    assert pool.status("1.0") == "Idle"
    assert len(pool.state.activations) == 1, "never twice at one time"
    pool.advance(10)
    assert pool.status("1.0") == "Running"


def test_a_removed_job_leaves_the_queue_when_its_last_process_is_gone() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(300, grace=5))
    pool.machine(cpus=1)
    pool.submit(2)
    pool.advance(1)
    pool.act("remove", "1")
    assert pool.status("1.0") == "Removed"
    assert pool.status("1.1") == "ended", "it never ran"
    pool.advance(6)
    assert pool.status("1.0") == "ended"


@together(
    ("dialect", "grace", "fast", "walk"),
    [
        ("manual", 5.0, False, ["13", "18", "22", "1"]),
        ("manual", None, False, ["13", "18", "21", "25", "1"]),
        ("manual", None, True, ["13", "18", "25", "1"]),
        ("htcondor-25", 5.0, False, ["13", "18", "22", "1"]),
        ("htcondor-25", None, False, ["13", "18", "22", "1"]),  # HTCondor's activity stays Vacating
        ("htcondor-25", None, True, ["13b", "25", "1"]),
    ],
)
def test_vacating_signals_the_job_softly_then_kills_it_when_its_time_is_up(
    dialect: str, grace: float | None, fast: bool, walk: list[str]
) -> None:
    settings = {"MachineMaxVacateTime": "20", "NEGOTIATOR_INTERVAL": "1000"}
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(3000, grace=grace), settings=settings)
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    before = len(rows(pool, "slot1@h"))
    pool.act("vacate", "1.0", fast=fast)
    pool.act("hold", "1.0")  # so that it does not run again
    pool.advance(19)
    hard = [event for event in of_job(pool, JobSignalled) if event.how == "hard"]  # type: ignore[attr-defined]
    assert bool(hard) == fast
    pool.advance(40)
    assert rows(pool, "slot1@h")[before:] == walk
    (end,) = of_job(pool, JobExited)
    assert isinstance(end, JobExited)
    assert end.outcome == "evicted"
    assert end.signal == (15 if grace else 9)


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_user_who_vacates_a_job_gives_up_its_retirement_time_but_not_its_vacate_time(dialect: str) -> None:
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(3000, grace=None))
    pool.machine(static=1, cpus=1, MaxJobRetirementTime="1000", MachineMaxVacateTime="20")
    pool.submit()
    pool.advance(1)
    pool.act("vacate", "1.0")
    pool.advance(19)
    assert [event.how for event in of_job(pool, JobSignalled)] == ["soft"]  # type: ignore[attr-defined]
    pool.advance(2)
    assert [event.how for event in of_job(pool, JobSignalled)] == ["soft", "hard"]  # type: ignore[attr-defined]
    assert [event.outcome for event in of_job(pool, JobExited)] == ["evicted"]  # type: ignore[attr-defined]


def test_a_jobs_own_vacate_time_shortens_the_machines() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(3000, grace=None))
    pool.machine(static=1, cpus=1)
    pool.submit(JobMaxVacateTime="2 + 1")
    pool.advance(1)
    pool.vacate_slot("slot1@h")
    pool.advance(3)
    assert rows(pool, "slot1@h")[-4:-1] != ["13", "18", "21"]
    assert "21" in rows(pool, "slot1@h")


def test_processes_that_survive_a_kill_are_killed_again() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(3000, immortal=True), settings={"KILLING_TIMEOUT": "7"})
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    pool.vacate_slot("slot1@h", fast=True)
    pool.advance(15)
    assert [event.how for event in of_job(pool, JobSignalled)] == ["hard"] * 3  # type: ignore[attr-defined]


def test_a_vacated_job_runs_again_from_the_start() -> None:
    pool = TestPool()
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(20)
    pool.vacate_slot("slot1@h")
    pool.advance(29)
    assert pool.status("1.0") == "Running"
    pool.advance(5)
    assert pool.status("1.0") == "ended"


def test_a_suspended_job_pauses_and_continues_where_it_was() -> None:
    pool = TestPool()
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(20)
    pool.act("suspend", "1.0")
    assert pool.status("1.0") == "Suspended"
    pool.advance(500)
    pool.act("continue", "1.0")
    pool.advance(9)
    assert pool.status("1.0") == "Running"
    pool.advance(2)
    assert pool.status("1.0") == "ended"
    assert rows(pool, "slot1@h")[3:6] == ["11", "14", "15"]


def test_a_suspended_job_that_is_held_or_vacated_continues_to_receive_its_signal() -> None:
    for action in ("hold", "vacate", "remove"):
        pool = TestPool(behave=lambda launch: Behaviour(30, grace=1))
        pool.machine(static=1, cpus=1)
        pool.submit()
        pool.advance(10)
        pool.act("suspend", "1.0")
        pool.act(action, "1.0")
        pool.advance(3)
        assert not [a for a in pool.state.activations.values() if a.stop_signal], action


@pytest.mark.parametrize(
    ("behaviour", "outcome", "status"),
    [
        (Behaviour(failure="Failed to execute '/nowhere': No such file or directory"), "failed", "Held"),
        (Behaviour(1, lost=True), "lost", "Idle"),
        (Behaviour(1, code=3), "exited", "Completed"),
        (Behaviour(1, signal=11), "exited", "Completed"),
    ],
)
def test_a_jobs_next_status_depends_on_how_it_ends(behaviour: Behaviour, outcome: str, status: str) -> None:
    pool = TestPool(behave=lambda launch: behaviour)
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    end = of_job(pool, JobExited)[0]
    assert isinstance(end, JobExited)
    assert (end.outcome, end.target) == (outcome, status)
    if status == "Held":
        assert pool.state.clusters[1].value(0, "HoldReasonCode") == "6"


def test_a_command_over_a_cluster_is_one_event_for_each_status_of_its_jobs() -> None:
    pool = TestPool()
    pool.machine(cpus=2)
    pool.submit(100)
    pool.advance(1)
    pool.act("hold", "1.7")
    pool.act("hold", "1")
    transitions = [event for event in pool.events() if isinstance(event, JobsTransitioned)]
    assert [(event.source, event.procs) for event in transitions] == [
        ("Idle", ((7, 7),)),
        ("Running", ((0, 1),)),
        ("Idle", ((2, 6), (8, 99))),
    ]


@together(
    ("action", "steps", "user", "results"),
    [
        ("hold", ["1.0"], "alice", {"done"}),
        ("hold", ["1.9"], "alice", {"not found"}),
        ("hold", ["7"], "alice", {"not found"}),
        ("hold", ["1"], "bob", {"permission denied"}),
        ("hold", ["1"], "root", {"done"}),
        ("release", ["1.0"], "alice", {"Idle"}),
        ("suspend", ["1.0"], "alice", {"Idle"}),
        ("vacate", ["1.0"], "alice", {"Idle"}),
        ("remove", ["alice"], "alice", {"done"}),
        ("remove", [], "alice", {"done"}),
    ],
)
def test_a_command_answers_the_result_for_each_job(action: str, steps: list[str], user: str, results: set[str]) -> None:
    pool = TestPool()
    pool.submit(2)
    answer = pool.act(action, *steps, user=user)
    assert {outcome["result"] for outcome in answer.value} == results


def test_a_command_without_jobs_selects_none() -> None:
    pool = TestPool()
    pool.submit(3)
    assert pool.handle(job_command(pool.id(), "alice", "remove", s.Selection())).value == []
    assert [pool.status(f"1.{proc}") for proc in range(3)] == ["Idle"] * 3


def test_a_constraint_selects_jobs_by_their_ads() -> None:
    pool = TestPool()
    pool.submit(5, Kind='"a"')
    pool.submit(5, Kind='"b"')
    pool.act("remove", constraint='Kind == "a" && ProcId > 1')
    assert [pool.status(f"1.{proc}") for proc in range(5)] == ["Idle", "Idle", "ended", "ended", "ended"]
    assert pool.status("2.4") == "Idle"
    assert "constraint" in pool.act("remove", constraint="((").refusal


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda pool: pool.edit("1", ClusterId="7"), 'Update of immutable attribute "ClusterId" is not allowed.'),
        (lambda pool: pool.edit("1", Foo="(("), "Foo = (("),
        (lambda pool: pool.vacate_slot("slot9@h"), "there is no slot or machine slot9@h"),
        (lambda pool: pool.machine("h"), "machine h is already in the pool"),
        (lambda pool: pool.submit(0), "nothing to submit"),
    ],
)
def test_a_rejected_command_says_why_and_changes_nothing(refused, message: str) -> None:  # type: ignore[no-untyped-def]
    pool = TestPool()
    pool.machine()
    pool.submit()
    before = len(pool.events())
    assert message in refused(pool).refusal
    assert len(pool.events()) == before


def test_a_repeated_request_gets_the_first_answer_and_happens_once() -> None:
    from poolbook.domain.ports import stimuli as s

    from .pools import JOB

    pool = TestPool()
    request = s.Submit("same", "alice", 0, JOB, 3, ())
    first, second = pool.handle(request), pool.handle(request)
    assert first.value == second.value == {"cluster": 1, "count": 3}
    assert set(pool.state.clusters) == {1}


def test_a_machine_stays_in_owner_state_while_is_owner_is_true() -> None:
    pool = TestPool()
    pool.machine(Start="false", IS_OWNER="Start =?= false")
    pool.machine("i", Start="TARGET.JobPrio > 5", IS_OWNER="Start =?= false")
    assert {slot.name: slot.state_activity for slot in pool.state.slots.values()} == {
        "slot1@h": "Owner/Idle",
        "slot1@i": "Unclaimed/Idle",
    }


@pytest.mark.parametrize(("dialect", "rows"), [("manual", []), ("htcondor-25", ["5a", "5b"])])
def test_a_slot_in_owner_state_is_matched_only_if_its_dialect_has_a_transition_from_there(
    dialect: str, rows: list[str]
) -> None:
    pool = TestPool(dialect=dialect)
    pool.machine(static=1, IS_OWNER="true")
    pool.submit()
    pool.advance(30)
    assert [event.row for event in pool.events() if isinstance(event, SlotTransitioned)] == rows
    (cycle,) = [event for event in pool.events() if isinstance(event, CycleHeld)]
    assert len(cycle.matches) == len(rows) // 2


def test_jobs_of_one_cluster_are_distinguished_when_an_edit_separates_them() -> None:
    pool = TestPool()
    pool.submit(3, Requirements="TARGET.Memory >= (Wish ?: 99999)")
    pool.machine(cpus=3)
    assert {pool.status(f"1.{proc}") for proc in range(3)} == {"Idle"}
    pool.edit("1.1", Wish="10")
    assert [pool.status(f"1.{proc}") for proc in range(3)] == ["Idle", "Running", "Idle"]


def test_a_local_universe_job_runs_immediately_without_a_slot_and_obeys_commands() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(30, grace=2))
    pool.submit(3, JobUniverse="12")
    assert {pool.status(f"1.{proc}") for proc in range(3)} == {"Running"}
    assert not pool.state.slots
    pool.act("hold", "1.0")
    pool.act("vacate", "1.1")
    pool.act("remove", "1.2")
    assert pool.act("suspend", "1.1").value[0]["result"] == "Running"
    pool.advance(3)
    assert [pool.status(f"1.{proc}") for proc in range(3)] == ["Held", "Running", "ended"]
    pool.act("release", "1.0")
    pool.advance(40)
    assert not pool.state.clusters
    assert pool.state.usage == {}
    assert list(validate(pool.log.read())) == []


def test_a_drain_is_cancelled_only_by_its_own_number() -> None:
    pool = TestPool()
    pool.machine()
    pool.handle(s.Drain(pool.id(), "root", "h", "Graceful"))
    number = pool.state.machines["h"].drain.number
    second_refusal = pool.handle(s.CancelDrain(pool.id(), "root", "h", number + 1)).refusal
    assert second_refusal == f"No matching draining request id {number + 1} on h"
    assert pool.handle(s.CancelDrain(pool.id(), "root", "h", number)).refusal == ""
    refusal = pool.handle(s.CancelDrain(pool.id(), "root", "h", number)).refusal
    assert refusal == f"No matching draining request id {number} on h"


def test_a_change_of_a_submitter_is_answered_with_a_sentence() -> None:
    pool = TestPool()
    pool.machine()
    for value, duration, cancel in ((3.0, 60, False), (0.0, 0, True), (5.0, 0, False)):
        request = s.SetSubmitter(pool.id(), "root", "alice@x", "ceiling", value, duration, cancel=cancel)
        assert pool.handle(request).refusal == ""
    arguments = [event.arguments for event in pool.events() if isinstance(event, RequestAnswered)]
    assert arguments == ["alice@x ceiling 3 for 60 s", "alice@x ceiling lease ended", "alice@x ceiling 5"]


@pytest.mark.parametrize(("how", "patience"), [("soft", 600), ("hard", 30)])
def test_if_the_log_does_not_record_a_jobs_vacate_time_the_settings_give_it(how: str, patience: int) -> None:
    """As in logs of the first release."""
    pool = TestPool(behave=lambda launch: Behaviour(1000, immortal=True))
    pool.machine(static=1, cpus=1)
    pool.submit()
    pool.advance(1)
    pool.act("vacate" if how == "hard" else "hold", "1", fast=how == "hard")
    events = [replace(event, until=0) if isinstance(event, JobSignalled) else event for event in pool.events()]
    state = fold(enumerate(events, 1))
    (signal,) = [event for event in events if isinstance(event, JobSignalled)]
    assert (signal.how, next_timer(state)) == (how, signal.at + patience * 1_000_000)
