"""Property and differential: pools that hypothesis writes (`pools.py`), on tables and by the scalar evaluation.

Each property is tested twice: with fixed examples, and as a soak with new ones each time, a quarter or an eighth of
POOLBOOK_SOAK_EXAMPLES (20000).
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from poolbook.domain.classad import DEFAULT, ClassAd, Context
from poolbook.domain.classad.table import SlotTable
from poolbook.domain.classad.tree import Literal

from ..sampling import soak_examples
from . import pools
from .pools import Pool, Step
from .tables import (
    WORLD,
    check_all,
    check_clauses,
    check_evaluation,
    check_matches,
    check_rank,
    texts_of,
)

# Pools that hypothesis writes ------------------------------------------------------------------

Test = Callable[..., None]


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def fixed(examples: int) -> Callable[[Test], Any]:
    """Use the same examples in every run. They are not shrunk, which would take minutes."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=SLOW,
    )


def soak(share: int = 4) -> Callable[[Test], Any]:
    """Use new examples in every run."""
    examples = settings(max_examples=soak_examples(share), deadline=None, suppress_health_check=SLOW)
    return lambda test: pytest.mark.soak(examples(test))


def job_of(pool: Pool) -> ClassAd:
    job = ClassAd(chained=pools.ad(pool.cluster)) if pool.cluster else ClassAd()
    job.update(pools.ad(pool.job))
    return job


def check_pool(pool: Pool, context: Context = DEFAULT) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    check_all(SlotTable(slots, context=context), slots, job_of(pool), pool.expressions)


@fixed(25)
@given(pools.pools())
def test_a_table_equals_the_scalar_evaluation_of_each_slot(pool: Pool) -> None:
    check_pool(pool)


@soak()
@given(pools.pools())
def test_many_tables_equal_the_scalar_evaluation_of_each_slot(pool: Pool) -> None:
    check_pool(pool)


# -- with a clock, random numbers, and custom functions


@fixed(12)
@given(pools.pools())
def test_a_table_sees_the_same_world_as_the_scalar_evaluation(pool: Pool) -> None:
    check_pool(pool, WORLD)


@soak(8)
@given(pools.pools())
def test_many_tables_see_the_same_world_as_the_scalar_evaluation(pool: Pool) -> None:
    check_pool(pool, WORLD)


# -- ads as a daemon sends them: read from lines, equal lines being the same objects


def check_read_pool(pool: Pool) -> None:
    slots = [ClassAd.from_old(pools.ad(texts).to_old()) for texts in pool.slots]
    check_all(SlotTable(slots), slots, job_of(pool), pool.expressions)


@fixed(12)
@given(pools.pools())
def test_ads_read_from_lines_make_the_same_table(pool: Pool) -> None:
    check_read_pool(pool)


@soak(8)
@given(pools.pools())
def test_many_ads_read_from_lines_make_the_same_tables(pool: Pool) -> None:
    check_read_pool(pool)


# -- several jobs, one after the other: what is cached for one must be right for the next


def check_turns(pool: Pool, others: Sequence[Pool]) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    table = SlotTable(slots)
    jobs = [job_of(table) for table in (pool, *others)]
    # A job that is like the first, except for some attributes.
    jobs.append(jobs[0].copy())
    jobs[-1].update(pools.ad({name: text for name, text in others[0].job.items() if name != "Requirements"}))
    for job in [*jobs, jobs[0]]:
        check_matches(table, slots, job)
        check_rank(table, slots, job)
        check_clauses(table, slots, job)
        for text in pool.expressions:
            check_evaluation(table, slots, job, pools.expression(text))


@fixed(12)
@given(pools.pools(), st.lists(pools.pools(), min_size=1, max_size=2))
def test_jobs_in_turn_get_the_answers_of_the_scalar_evaluation(pool: Pool, others: list[Pool]) -> None:
    check_turns(pool, others)


@soak(8)
@given(pools.pools(), st.lists(pools.pools(), min_size=1, max_size=2))
def test_many_jobs_in_turn_get_the_answers_of_the_scalar_evaluation(pool: Pool, others: list[Pool]) -> None:
    check_turns(pool, others)


# -- changes, with plans and the table's own cache kept over them


def changed(slots: list[ClassAd], table: SlotTable, step: Step) -> None:
    """Make a change in a list of ads and in the table of them."""
    places = sorted({place % len(slots) for place in step.places}) if slots else []
    ad = pools.ad(step.texts)
    match step.what:
        case "add":
            table.add(ad)
            slots.append(ad)
        case "update" if slots:
            table.update(places[0], ad)
            slots[places[0]] = ad
        case "merge" if slots:
            table.update(places[0], ad, merge=True)
            slots[places[0]] = slots[places[0]].copy()
            slots[places[0]].update(ad)
        case "remove":
            table.remove(places)
            for place in reversed(places):
                del slots[place]


def check_names(table: SlotTable, slots: Sequence[ClassAd]) -> None:
    names = [name.value if isinstance(name := slot.get("Name"), Literal) else None for slot in slots]
    for place, name in enumerate(names):
        if isinstance(name, str) and names.count(name) == 1:
            assert texts_of(table.ad(name)) == texts_of(slots[place])
    with pytest.raises(KeyError):
        table.ad("a name that no slot has")


def check_changes(pool: Pool) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    job = job_of(pool)
    table = SlotTable(slots)
    plan = table.plan(job)
    check_matches(table, slots, job, plan.matches)
    for step in pool.steps:
        changed(slots, table, step)
        check_matches(table, slots, job, plan.matches)
        check_all(table, slots, job, pool.expressions)
        check_names(table, slots)


@fixed(12)
@given(pools.pools(steps=True))
def test_a_changing_table_equals_the_scalar_evaluation(pool: Pool) -> None:
    check_changes(pool)


@soak()
@given(pools.pools(steps=True))
def test_many_changing_tables_equal_the_scalar_evaluation(pool: Pool) -> None:
    check_changes(pool)
