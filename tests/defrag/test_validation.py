"""property: validation or the recheck detects a poll that was altered after the decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..together import together
from .pools import DefragPool

SECOND = 1_000_000


@pytest.fixture(scope="module")
def valid_log() -> list[e.Event]:
    pool = DefragPool(
        INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1", MAX_CONCURRENT_DRAINING=3
    )
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    assert examine(enumerate(pool.events(), 1)).violations == []
    return pool.events()


Alteration = Callable[[e.DefragPolled], e.DefragPolled]


def alter(**fields: Any) -> Alteration:
    return lambda poll: replace(poll, **fields)


def alter_drain(**fields: Any) -> Alteration:
    return lambda poll: replace(poll, drains=(replace(poll.drains[0], **fields),))


ALTERATIONS: list[tuple[str, Alteration]] = [
    ("may drain 1 machines, but 2 is recorded", alter(wanted=2)),
    ("may drain 1 machines, but 1 is recorded", alter(stopped="rate")),
    ("1 machines are recorded to drain, but the polls give another number", alter(draining=1)),
    ("4 machines are recorded to be whole", alter(whole=4)),
    ("are recorded as starting or ceasing to drain, but did not change", alter(over_draining=("m2",))),
    ("nowhere is not a slot of m1", alter_drain(slot="nowhere")),
    ("the poll recorded no evidence at 1", alter_drain(evidence=(1,))),
    ("without recording a DEFRAG_REQUIREMENTS that was true", alter_drain(evidence=())),
    ("a machine is drained twice by one poll", lambda poll: replace(poll, drains=poll.drains * 2, wanted=2)),
    ("names the defragmentation as its cause, but no poll chose it", alter(drains=())),
    ("but that did not end", lambda poll: replace(poll, cancels=(e.DefragCancel("m1", "slot1@m1", ()),))),
    ("not a number of 0 or more", alter(costs={"AvgDrainingBadput": -1.0})),
]


@together(("message", "alteration"), ALTERATIONS)
def test_validation_detects_an_altered_poll(valid_log: list[e.Event], message: str, alteration: Alteration) -> None:
    index = next(i for i, event in enumerate(valid_log) if isinstance(event, e.DefragPolled) and event.drains)
    altered = [*valid_log]
    altered[index] = alteration(valid_log[index])  # type: ignore[arg-type]
    violations = examine(enumerate(altered, 1)).violations
    assert any(message in violation.words for violation in violations), [violation.words for violation in violations]


@together(
    "alteration",
    [
        alter_drain(rank=99.0),
        alter_drain(badput=1),
        alter_drain(machine="m2", slot="slot1@m2"),
        alter(candidates=7),
        alter(offset=3600, candidates=1),
        alter(costs={"AvgDrainingBadput": 0.5, "AvgDrainingUnclaimed": 0.0}),
    ],
)
def test_the_recheck_detects_an_altered_poll(valid_log: list[e.Event], alteration: Alteration) -> None:
    index = next(i for i, event in enumerate(valid_log) if isinstance(event, e.DefragPolled) and event.drains)
    altered = [*valid_log]
    altered[index] = alteration(valid_log[index])  # type: ignore[arg-type]
    result = recheck(enumerate(altered, 1))
    assert result.differences[0].position == index + 1
    assert result.differences[0].what.startswith("the poll")


def test_validation_detects_a_poll_too_early_or_without_defragmentation(valid_log: list[e.Event]) -> None:
    first = next(event for event in valid_log if isinstance(event, e.DefragPolled))
    early = replace(first, at=valid_log[-1].at + SECOND, stimulus="early")
    violations = examine(enumerate([*valid_log, early], 1)).violations
    assert any("after its last poll, too early" in violation.words for violation in violations)
    unconfigured = [event for event in valid_log if not isinstance(event, e.PoolConfigured)]
    violations = examine(enumerate(unconfigured, 1)).violations
    assert any("DEFRAG is not in the pool's DAEMON_LIST" in violation.words for violation in violations)


def test_validation_detects_a_drain_without_a_poll(valid_log: list[e.Event]) -> None:
    began = next(event for event in valid_log if isinstance(event, e.DrainBegan))
    pool = DefragPool()
    pool.machines("m1")
    forged = replace(began, at=pool.events()[-1].at + SECOND, stimulus="forged")
    violations = examine(enumerate([*pool.events(), forged], 1)).violations
    (message,) = [violation.words for violation in violations if violation.rule == "defrag"]
    assert message == "its drain names the defragmentation as its cause, but no poll chose it"
