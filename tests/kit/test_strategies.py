"""Property: the strategies of the test kit generate valid values only, and can be restricted."""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook import Pool
from poolbook.domain.classad import parse
from poolbook.testing import (
    MachinePlan,
    OwnerDay,
    PoolPlan,
    ads,
    configurations,
    expressions,
    owner_days,
    play,
    pools,
    scenarios,
    submit_descriptions,
)


@given(
    expressions(), expressions({}), expressions({"Cpus": "number"}, kind="number"), expressions(kind="string"),
    ads(), ads("job", users=["carol"], extra={"Mine": st.just("1 + 1")}),
)  # fmt: skip
def test_expressions_and_ads_are_valid(
    condition: str, constant: str, number: str, text: str, slot: dict[str, str], job: dict[str, str]
) -> None:
    for expression in (condition, constant, number, text, *slot.values(), *job.values()):
        parse(expression)
    assert job["Owner"] == '"carol"'


@settings(max_examples=8)
@given(pools(config=configurations(groups=""), max_machines=2), submit_descriptions(max_cpus=1))
def test_pools_accept_the_configurations_and_submissions(plan: PoolPlan, description: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with plan.open(user="alice") as pool:
            pool.submit(description, count=2)
            pool.advance(700)
            assert pool.judge() == []
            assert {slot["Machine"] for slot in pool.slots()} == {machine.name for machine in plan.machines}
    assert "GROUP_NAMES" not in plan.config


@settings(max_examples=5)
@given(scenarios(users=["dave"], max_steps=4))
def test_scenarios_can_be_played(text: str) -> None:
    report = play(text)
    assert report.warnings == ()
    assert {job.user for job in report.jobs.values()} <= {"dave@example.org"}


@given(owner_days(earliest=540, latest=1020))
def test_an_owner_types_between_the_given_times(day: OwnerDay) -> None:
    times = [minute for session in day.sessions for minute in session]
    assert times == sorted(set(times))
    assert all(540 <= minute <= 1020 for minute in times)
    assert [day.is_present(begin * 60) for begin, _ in day.sessions] == [True] * len(day.sessions)
    assert [second for second, _ in day.changes()] == [minute * 60 for minute in times]
    play("start 2026-11-02 00:00\nmachine desk\nuntil 1d\n" + "\n".join(day.lines("desk")))


def test_a_plan_has_the_lines_of_a_scenario_and_opens_a_pool() -> None:
    plan = PoolPlan((MachinePlan("node1", 2, 2048),), "START = True\n")
    assert plan.lines == ["machine node1 cores=2 memory=2048", "config", "START = True", "end"]
    pool = plan.open()
    assert isinstance(pool, Pool)
    assert [(slot["Name"], slot["Cpus"], slot["Memory"]) for slot in pool.slots()] == [("slot1@node1", 2, 2048)]
    pool.close()
