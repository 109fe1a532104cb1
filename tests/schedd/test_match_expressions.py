"""Golden: the slot ads that jobs match, and the ads of matched jobs, have the attributes of NEGOTIATOR_MATCH_EXPRS."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.state.pool_settings import MATCH_ATTRIBUTES
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..together import together

SETTINGS = MATCH_ATTRIBUTES.as_settings({"NegotiatorName": '"Mine"', "NegotiatorMatchExprCores": "Cpus * 2"})
MINE = 'TARGET.NegotiatorMatchExprNegotiatorName == "Mine"'


def pool_of_matches(static: int = 0, settings: dict[str, str] = SETTINGS, start: str = "true") -> TestPool:
    pool = TestPool(settings=settings, behave=lambda launch: Behaviour(10))
    pool.machine(cpus=2, static=static, Start=start)
    return pool


def started(pool: TestPool) -> list[dict[str, str]]:
    """Return what the jobs' ads received from their slots when they started."""
    assert not examine(pool.log.read()).violations
    assert not recheck(pool.log.read()).differences
    return [event.expanded for event in pool.events() if isinstance(event, e.JobActivated)]


@together(
    ("attributes", "start", "expanded"),
    [
        ({}, "true", {}),
        ({"Requirements": MINE}, "true", {}),
        ({}, MINE.removeprefix("TARGET."), {}),
        ({"Requirements": "TARGET.NegotiatorMatchExprCores >= 2"}, "true", {}),
        ({"Args": '"$$(NegotiatorMatchExprNegotiatorName) $$(NegotiatorMatchExprOther:no)"'}, "true",
         {"MATCH_NegotiatorMatchExprNegotiatorName": '"Mine"', "MATCH_NegotiatorMatchExprOther": '"no"',
          "MATCH_EXP_Args": '"Mine no"'}),
    ],
)  # fmt: skip
def test_matched_jobs_have_the_attributes(attributes: dict[str, str], start: str, expanded: dict[str, str]) -> None:
    for static in (0, 2):
        pool = pool_of_matches(static, start=start)
        pool.submit(4, **attributes)
        pool.advance(60)
        matched = {
            "MATCH_EXP_NegotiatorMatchExprNegotiatorName": '"Mine"',
            "MATCH_EXP_NegotiatorMatchExprCores": "Cpus * 2",
        }
        assert started(pool) == [matched | expanded] * 4


def test_without_the_setting_the_attributes_are_undefined() -> None:
    pool = pool_of_matches(settings={})
    pool.submit(1, Requirements=MINE)
    pool.submit(1)
    pool.advance(60)
    assert started(pool) == [{}]
