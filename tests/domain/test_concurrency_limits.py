"""Golden: which concurrency limits a job uses, from its match to its end, in a running pool."""

from __future__ import annotations

import json

import pytest

from poolbook import Behaviour, Pool, Refusal
from poolbook.domain import events as e
from poolbook.domain.negotiator.cycle import OF_LIMITS, RULES
from poolbook.domain.ports import stimuli as s
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..together import together
from .pools import TestPool

XSW = {"XSW_LIMIT": "2"}


def pool(seconds: int = 60, static: int = 4, **settings: str) -> TestPool:
    pool = TestPool(behave=lambda launch: Behaviour(seconds), settings=XSW | settings)
    pool.machine("h", cpus=static, memory=4096, static=static, Network='"NET_A"')
    return pool


def running(pool: TestPool) -> list[str]:
    return sorted(f"{cluster}.{proc}" for cluster, proc in pool.state.by_job)


def configure(pool: TestPool, **settings: str) -> None:
    pool.handle(s.ConfigurePool(pool.id(), settings))


def ends(pool: TestPool) -> list[str]:
    return [event.cause for event in pool.events() if isinstance(event, e.ClaimEnded)]


def test_as_many_jobs_run_as_there_are_units_and_the_next_one_after_an_end() -> None:
    limited = pool()
    limited.submit(3, ConcurrencyLimits='"xsw"')
    assert running(limited) == ["1.0", "1.1"]
    limited.advance(61)
    assert running(limited) == ["1.2"]
    limited.advance(61)
    assert (running(limited), limited.state.limits_in_use) == ([], {})


def test_a_lower_limit_ends_no_job_and_a_higher_one_lets_more_start() -> None:
    limited = pool(600)
    limited.submit(4, ConcurrencyLimits='"xsw"')
    configure(limited, XSW_LIMIT="1")
    limited.advance(120)
    assert (running(limited), ends(limited)) == (["1.0", "1.1"], [])
    configure(limited, XSW_LIMIT="3")
    limited.advance(1)
    assert running(limited) == ["1.0", "1.1", "1.2"]


def test_a_jobs_limits_are_fixed_at_its_match() -> None:
    limited = pool(600)
    limited.submit(2, ConcurrencyLimits='"xsw"')
    limited.edit("1", ConcurrencyLimits='"other"')
    limited.submit(1, ConcurrencyLimits='"xsw"')
    limited.advance(120)
    assert running(limited) == ["1.0", "1.1"]
    assert limited.state.limits_in_use == {"xsw": 2}


def test_a_held_or_evicted_job_releases_its_limits_with_its_claim() -> None:
    limited = pool(600)
    limited.submit(3, ConcurrencyLimits='"xsw"')
    limited.act("hold", "1.0")
    limited.advance(1)
    assert running(limited) == ["1.1", "1.2"]
    limited.vacate_slot("slot2@h", fast=True)
    limited.advance(1)
    assert limited.state.limits_in_use == {"xsw": 2}


def test_a_claim_is_reused_only_for_jobs_with_the_same_limits() -> None:
    limited = pool(60, static=1)
    limited.submit(1, ConcurrencyLimits='"xsw"')
    limited.submit(1)
    limited.submit(1, ConcurrencyLimits='"y"')
    limited.submit(1, ConcurrencyLimits='strcat("X", "sw")')
    limited.advance(61)
    assert running(limited) == ["4.0"]
    assert ends(limited) == []
    limited.advance(61)
    assert ends(limited) == ["no_more_jobs"]
    assert running(limited) == ["2.0"]


def test_a_claim_may_be_configured_to_be_reused_for_any_job() -> None:
    limited = pool(60, static=1, CLAIM_RECYCLING_CONSIDER_LIMITS="false")
    limited.submit(1, ConcurrencyLimits='"xsw"')
    limited.submit(1)
    limited.advance(61)
    assert (running(limited), ends(limited), limited.state.limits_in_use) == (["2.0"], [], {"xsw": 1})


def test_jobs_of_the_local_universe_use_no_limits() -> None:
    limited = pool(600, XSW_LIMIT="0")
    limited.submit(2, JobUniverse="12", ConcurrencyLimits='"xsw"')
    limited.submit(1, ConcurrencyLimits='"xsw"')
    assert running(limited) == ["1.0", "1.1"]
    assert limited.state.limits_in_use == {}


def test_a_claim_from_outside_of_the_pool_uses_the_limits_of_its_job() -> None:
    limited = pool(600)
    ad = {"ConcurrencyLimits": 'strcat("xsw:2 ", TARGET.Network)', "RequestCpus": "1", "RequestMemory": "100"}
    limited.handle(s.RequestClaim(limited.id(), "slot1@h", "c1", "eve@there", "ap", "7.0", ad, 0))
    assert limited.state.limits_in_use == {"xsw:2 NET_A": 1}
    limited.submit(1, ConcurrencyLimits='"xsw"')
    assert running(limited) == []


def test_a_slots_ad_shows_the_limits_of_its_claim() -> None:
    with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(600), settings=XSW) as opened_pool:
        opened_pool.add_machine("h", cpus=2, static=2)
        opened_pool.submit({"executable": "/bin/x", "concurrency_limits": "Y:2, XSW"}, count=1)
        opened_pool.submit({"executable": "/bin/x"}, count=1)
        assert [slot.get("ConcurrencyLimits") for slot in opened_pool.slots()] == ["xsw,y:2", None]
        assert [job.get("ConcurrencyLimits") for job in opened_pool.jobs()] == ["xsw,y:2", None]


def test_why_names_the_limit_that_a_job_waits_for_and_its_users() -> None:
    with Pool.open(
        "memory:", user="alice", behave=lambda launch: Behaviour(600), settings={"XSW_LIMIT": "3"}
    ) as opened_pool:
        opened_pool.add_machine("h", cpus=8, static=8)
        for count in (2, 1, 1, 2):
            opened_pool.submit(
                {"executable": "/bin/x", **({} if count == 1 else {"concurrency_limits": "xsw"})}, count=count
            )
        assert "A concurrency limit is reached: XSW: 3 of 3, held by 1.0, 1.1, 4.0." in opened_pool.why("4.1")
        assert any("concurrency limit xsw reached" in str(line) for line in opened_pool.why("4.1", verbose=True))


@together(
    ("limits", "message"),
    [
        ("1abc", "Invalid concurrency limit '1abc'"),
        ("a.b.c", "Invalid concurrency limit 'a.b.c'"),
        ("xsw, s-w", "Invalid concurrency limit 's-w'"),
        (".a", "Invalid concurrency limit '.a'"),
        ("a.", "Invalid concurrency limit 'a.'"),
        ("a.1", "Invalid concurrency limit 'a.1'"),
        (":2", "Invalid concurrency limit ':2'"),
    ],
)
def test_an_invalid_limit_name_is_rejected_at_submission(limits: str, message: str) -> None:
    with Pool.open("memory:", user="alice") as opened_pool, pytest.raises(Exception, match=message.replace(".", "[.]")):
        opened_pool.submit({"executable": "/bin/x", "concurrency_limits": limits})


def test_both_commands_together_are_rejected() -> None:
    with Pool.open("memory:", user="alice") as opened_pool, pytest.raises(Exception, match="use one of them"):
        opened_pool.submit({"executable": "/bin/x", "concurrency_limits": "a", "concurrency_limits_expr": "TARGET.B"})


@together(
    ("text", "limits"),
    [
        ("XSW_LIMIT = 3", {"XSW_LIMIT": "3"}),
        ("xsw_limit = 2 + 1", {"XSW_LIMIT": "3"}),
        ("XSW_LIMIT = 3\nNEGOTIATOR.Xsw_Limit = 2", {"XSW_LIMIT": "2"}),
        ("XSW_LIMIT = -1.5", {"XSW_LIMIT": "-1.5"}),
        ("XSW_LIMIT =", {}),
        ("Large.A_LIMIT = 4", {"LARGE.A_LIMIT": "4"}),
        ("CONCURRENCY_LIMIT_DEFAULT_large = 4", {"CONCURRENCY_LIMIT_DEFAULT_LARGE": "4"}),
        ("CONCURRENCY_LIMIT_DEFAULT = 0", {"CONCURRENCY_LIMIT_DEFAULT": "0"}),
        ("CONCURRENCY_LIMIT_DEFAULT = 2308032", {}),
        ("ARC_GAHP_COMMAND_LIMIT = 7\nEC2_GAHP_RATE_LIMIT = 3", {}),
    ],
)
def test_the_log_has_the_limits_that_a_configuration_sets(text: str, limits: dict[str, str]) -> None:
    with pytest.warns() if "GAHP" in text else pytest.MonkeyPatch.context():
        opened_pool = Pool.open("memory:", config=text)
    with opened_pool:
        assert {
            name: value
            for name, value in opened_pool.state.settings.items()
            if "LIMIT" in name and "PER_USER" not in name
        } == limits


def test_a_limit_that_is_not_a_number_is_rejected() -> None:
    with pytest.raises(Exception, match="XSW_LIMIT"):
        Pool.open("memory:", config="XSW_LIMIT = three")
    with pytest.raises((Refusal, ValueError), match="give a number"):
        Pool.open("memory:", settings={"XSW_LIMIT": "three"})


# Falsified logs


def log_of_limits() -> list[e.Event]:
    limited = pool(60)
    limited.submit(3, ConcurrencyLimits='"xsw"')
    limited.advance(150)
    return limited.events()


def test_cycles_with_limits_have_the_same_result_when_they_are_repeated() -> None:
    log = log_of_limits()
    rechecked = recheck(enumerate(log, 1))
    assert rechecked.sound
    assert (rechecked.others, rechecked.differences) == (0, [])
    assert {event.rules for event in log if isinstance(event, e.CycleHeld)} == {RULES + OF_LIMITS}
    assert examine(enumerate(log, 1)).violations == []


def test_a_log_with_a_lowered_limit_is_detected() -> None:
    text = json.dumps
    log = [
        e.PoolFounded(event.at, event.cause, event.stimulus, event.name, event.dialect, event.uid_domain, event.version,
                      event.settings | {"XSW_LIMIT": "1"})
        if isinstance(event, e.PoolFounded) else event
        for event in log_of_limits()
    ]  # fmt: skip
    assert recheck(enumerate(log, 1)).differing > 0
    (violation,) = {violation.rule for violation in examine(enumerate(log, 1)).violations}
    assert violation == "limit", text(violation)
