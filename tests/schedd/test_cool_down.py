"""Golden: a job whose run was interrupted waits for SYSTEM_ON_VACATE_COOL_DOWN seconds, as in HTCondor 25.14."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.pool_settings import schedd_seconds
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..domain.pools import TestPool
from ..together import together
from .policy_pool import PolicyPool


def pool_of(expression: str, behaviour: Behaviour | None = None) -> TestPool:
    pool = TestPool(
        behave=lambda launch: behaviour or Behaviour(600), settings={"SYSTEM_ON_VACATE_COOL_DOWN": expression}
    )
    pool.machine()
    pool.submit(1)
    pool.advance(10)
    return pool


def start_times(pool: TestPool) -> list[int]:
    first = pool.events()[0].at
    return [(event.at - first) // SECOND for event in pool.events() if isinstance(event, e.JobActivated)]


@together(
    ("expression", "rests"),  # at least SYSTEM_COOLDOWN_DURATION, 20, as recorded
    [
        ("37", 37), ("37.9", 37), ("ifThenElse(VacateReasonCode == 1022, 20, 0)", 20), ("NumJobStarts * 30", 30),
        ("10", 20), ("true", 20),
        ("0", 0), ("false", 0), ("-5", 0), ("undefined", 0), ("1/0", 0), ('"60"', 0),
        ("ifThenElse(VacateReasonCode == 1010, 20, 0)", 0),
    ],
)  # fmt: skip
def test_a_vacated_job_gets_no_slot_in_its_cool_down(expression: str, rests: int) -> None:
    pool = pool_of(expression)
    pool.act("vacate", "1.0")
    pool.advance(100)
    _, second_run = start_times(pool)
    assert second_run == (11 + rests if rests else 10)
    ad = pool.state.clusters[1].attributes(0)
    assert (ad.get("NumJobCoolDowns"), ad.get("JobCoolDownExpiration")) == (
        ("1", str(1_800_000_010 + rests)) if rests else (None, None)
    )
    assert not pool.state.cool_downs
    assert not examine(pool.log.read()).violations


def test_the_shortest_cool_down_is_configured() -> None:
    pool = PolicyPool("SYSTEM_COOLDOWN_DURATION = 7\nSYSTEM_ON_VACATE_COOL_DOWN = 3")
    assert schedd_seconds(pool.engine.state.settings, "SYSTEM_COOLDOWN_DURATION") == 7


def test_each_interruption_counts() -> None:
    pool = pool_of("20 + 10 * (NumJobCoolDowns ?: 0)")
    for _ in range(3):
        pool.act("vacate", "1.0")
        pool.advance(60)
    assert pool.state.clusters[1].attributes(0)["NumJobCoolDowns"] == "3"
    assert start_times(pool) == [0, 31, 101, 171]


@together(("action", "behaviour"), [("hold", Behaviour(600)), ("remove", Behaviour(600)), ("", Behaviour(20))])
def test_a_job_that_is_held_or_removed_or_ends_does_not_cool_down(action: str, behaviour: Behaviour) -> None:
    pool = pool_of("60", behaviour)
    if action:
        pool.act(action, "1.0")
    pool.advance(30)
    assert not pool.state.cool_downs


def test_a_job_whose_transform_prevents_a_hold_runs_again_immediately() -> None:
    body = {"TransformOnEvict": '"A"', "TransformBody_A": '"SET RequestMemory 130"'}
    pool = TestPool(behave=lambda launch: Behaviour(600), settings={"SYSTEM_ON_VACATE_COOL_DOWN": "60"})
    pool.machine()
    pool.submit(1, **body)
    pool.advance(10)
    ((key, _),) = pool.state.activations.items()
    pool.handle(s.ActivationEnded("end", key, pool.world.clock, hold_reason="too much", hold_code=34, hold_subcode=102))
    pool.advance(5)
    assert (pool.status("1.0"), pool.state.cool_downs) == ("Running", {})


def test_another_job_of_its_submitter_takes_the_slot_meanwhile() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(600), settings={"SYSTEM_ON_VACATE_COOL_DOWN": "300"})
    pool.machine(static=1, cpus=1)
    pool.submit(2)
    pool.advance(10)
    pool.act("vacate", "1.0")
    pool.advance(100)
    assert (pool.status("1.0"), pool.status("1.1")) == ("Idle", "Running")


def test_a_job_that_leaves_the_queue_in_its_cool_down_is_forgotten() -> None:
    pool = pool_of("60")
    pool.act("vacate", "1.0")
    pool.advance(5)
    pool.act("remove", "1.0")
    pool.advance(100)
    assert not pool.state.cool_downs
    assert not examine(pool.log.read()).violations


def test_a_pool_with_only_a_cooling_job_is_not_done() -> None:
    pool = pool_of("60")
    pool.act("vacate", "1.0")
    pool.advance(5)
    assert pool.engine.busy()


def test_why_reports_until_when_a_job_cools_down() -> None:
    pool = pool_of("ifThenElse(VacateReasonCode == 1022, 20, 0)")
    pool.act("vacate", "1.0")
    pool.advance(40)
    life = [explained.full for explained in why_job(pool.log.read(), 1, 0).life]
    (sentence,) = [text for text in life if "cools down" in text]
    assert "it is idle again, and cools down until 2027-01-15 08:00:31" in sentence
    assert "SYSTEM_ON_VACATE_COOL_DOWN = ifThenElse(VacateReasonCode == 1022,20,0) was 20" in sentence
    assert "Job 1.0 had cooled down." in life


@together(("universe", "second_run"), [("12", 41), ("7", 10)])
def test_a_local_job_cools_down_and_one_of_the_scheduler_universe_does_not(universe: str, second_run: int) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(600), settings={"SYSTEM_ON_VACATE_COOL_DOWN": "30"})
    pool.submit(1, JobUniverse=universe)
    pool.advance(10)
    pool.act("vacate", "1.0")
    pool.advance(100)
    assert start_times(pool) == [0, second_run]
    assert not examine(pool.log.read()).violations


@together(
    ("code", "settings", "ad", "second_run", "counted"),
    [
        (4, {}, {}, 311, "1"),
        (4, {"SCHEDULER_UNIVERSE_COOL_DOWN_DURATION": "20"}, {}, 31, "1"),
        (4, {"SCHEDULER_UNIVERSE_COOL_DOWN_DURATION": "0"}, {}, 10, None),
        (4, {}, {"DisableCoolDown": "true"}, 10, None),
        (0, {}, {}, 10, None),
        (4, {"SYSTEM_ON_VACATE_COOL_DOWN": "30"}, {"JobUniverse": "12"}, 41, "1"),
    ],
)
def test_a_failed_scheduler_universe_job_that_waits_again_cools_down(
    code: int, settings: dict[str, str], ad: dict[str, str], second_run: int, counted: str | None
) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(10, code=code), settings=settings)
    pool.submit(1, **{"JobUniverse": "7", "OnExitRemove": "NumJobStarts > 1", **ad})
    pool.advance(15)
    assert pool.state.clusters[1].attributes(0).get("NumJobCoolDowns") == counted
    pool.advance(400)
    assert start_times(pool) == [0, second_run]
    assert (pool.state.clusters, pool.state.cool_downs) == ({}, {})
    assert not examine(pool.log.read()).violations


def test_a_cooling_job_that_has_left_the_queue_is_logged_and_delays_no_other() -> None:
    """As recorded (tests/data/beside/scheduler.sub)."""
    pool = TestPool(behave=lambda launch: Behaviour(10, code=4))
    pool.submit(1, JobUniverse="7", LeaveJobInQueue="true")
    pool.advance(11)
    ad = pool.state.clusters[1].attributes(0)
    assert (ad["JobStatus"], ad["NumJobCoolDowns"], ad["JobCoolDownExpiration"]) == ("4", "1", "1800000310")
    assert not pool.engine.busy()


@together(
    ("configuration", "expected"),
    [
        ("", None),
        ("SYSTEM_ON_VACATE_COOL_DOWN = 0", None),
        ("SYSTEM_ON_VACATE_COOL_DOWN = 8", "8"),
        ("SYSTEM_ON_VACATE_COOL_DOWN = ifThenElse(NumVacates > 2, (60), 5 * (1 + (NumJobCoolDowns ?: 0)))",
         "ifThenElse(NumVacates > 2, (60), 5 * (1 + (NumJobCoolDowns ?: 0)))"),
        ("SYSTEM_ON_VACATE_COOL_DOWN = 8\nSYSTEM_ON_VACATE_COOL_DOWN = $(SYSTEM_ON_VACATE_COOL_DOWN) + 1", "8 + 1"),
    ],
)  # fmt: skip
def test_the_cool_down_is_what_the_configuration_sets(configuration: str, expected: str | None) -> None:
    """HTCondor's own template, which it always uses, redefines the setting around the configured value."""
    assert PolicyPool(configuration).engine.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN") == expected
