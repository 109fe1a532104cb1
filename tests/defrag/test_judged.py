"""property: what is told otherwise of a poll than it was decided, the judge finds, or the poll that is held again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..together import together
from .pools import DefragPool

SECOND = 1_000_000


@pytest.fixture(scope="module")
def story() -> list[e.Event]:
    pool = DefragPool(
        INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1", MAX_CONCURRENT_DRAINING=3
    )
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    assert examine(enumerate(pool.events(), 1)).violations == []
    return pool.events()


Lie = Callable[[e.DefragPolled], e.DefragPolled]


def changed(**fields: Any) -> Lie:
    return lambda poll: replace(poll, **fields)


def of_drain(**fields: Any) -> Lie:
    return lambda poll: replace(poll, drains=(evolve(poll.drains[0], **fields),))


LIES: list[tuple[str, Lie]] = [
    ("may drain 1 machines, but is said to drain 2", changed(wanted=2)),
    ("may drain 1 machines, but is said to drain 1", changed(stopped="rate")),
    ("1 machines are said to drain, but the polls so far make that others", changed(draining=1)),
    ("4 machines are said to be whole", changed(whole=4)),
    ("are said to drain from here on, or no longer, as they did before", changed(over_draining=("m2",))),
    ("nowhere is not a slot of m1", of_drain(slot="nowhere")),
    ("evidence is said to be 1, where the poll noted none", of_drain(evidence=(1,))),
    ("noted no DEFRAG_REQUIREMENTS that was true of it", of_drain(evidence=())),
    ("a machine is drained twice by one poll", lambda poll: replace(poll, drains=poll.drains * 2, wanted=2)),
    ("because the defragmentation chose it, but no poll did", changed(drains=())),
    ("but that did not end", lambda poll: replace(poll, cancels=(e.DefragCancel("m1", "slot1@m1", ()),))),
    ("not a number of 0 or more", changed(costs={"AvgDrainingBadput": -1.0})),
]


@together(("words", "lie"), LIES)
def test_the_judge_finds_a_poll_that_was_told_otherwise(story: list[e.Event], words: str, lie: Lie) -> None:
    place = next(at for at, event in enumerate(story) if isinstance(event, e.DefragPolled) and event.drains)
    told = [*story]
    told[place] = lie(story[place])  # type: ignore[arg-type]
    found = examine(enumerate(told, 1)).violations
    assert any(words in violation.words for violation in found), [violation.words for violation in found]


@together(
    "lie",
    [
        of_drain(rank=99.0),
        of_drain(badput=1),
        of_drain(machine="m2", slot="slot1@m2"),
        changed(candidates=7),
        changed(offset=3600, candidates=1),
        changed(costs={"AvgDrainingBadput": 0.5, "AvgDrainingUnclaimed": 0.0}),
    ],
)
def test_a_poll_that_comes_out_otherwise_is_found_when_it_is_held_again(story: list[e.Event], lie: Lie) -> None:
    place = next(at for at, event in enumerate(story) if isinstance(event, e.DefragPolled) and event.drains)
    told = [*story]
    told[place] = lie(story[place])  # type: ignore[arg-type]
    found = recheck(enumerate(told, 1))
    assert found.differences[0].position == place + 1
    assert found.differences[0].what.startswith("the poll")


def test_a_poll_too_early_or_of_a_pool_that_has_none_is_found(story: list[e.Event]) -> None:
    first = next(event for event in story if isinstance(event, e.DefragPolled))
    again = replace(story[-1], at=story[-1].at)
    early = replace(first, at=again.at + SECOND, stimulus="early")
    words = [violation.words for violation in examine(enumerate([*story, early], 1)).violations]
    assert any("after its last poll, too early" in each for each in words)
    without = [event for event in story if not isinstance(event, e.PoolConfigured)]
    words = [violation.words for violation in examine(enumerate(without, 1)).violations]
    assert any("DEFRAG is not in the pool's DAEMON_LIST" in each for each in words)


def test_nobody_drains_in_its_name(story: list[e.Event]) -> None:
    began = next(event for event in story if isinstance(event, e.DrainBegan))
    pool = DefragPool()
    pool.machines("m1")
    forged = replace(began, at=pool.events()[-1].at + SECOND, stimulus="forged")
    (found,) = [one for one in examine(enumerate([*pool.events(), forged], 1)).violations if one.rule == "defrag"]
    assert found.words == "it drains because the defragmentation chose it, but no poll did"
