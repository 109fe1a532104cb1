"""Property: the recorded decision of a job's own policy is compared with its evidence, and with the policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..together import together

READS = {"OnExitHold": "ExitCode == 4", "OnExitRemove": "ExitCode == 0", "LeaveJobInQueue": "Fetched isnt true"}
CONSTANT = {"OnExitHold": "false", "OnExitRemove": "true", "LeaveJobInQueue": "false"}


def log_of(policy: dict[str, str], code: int) -> list[e.Event]:
    pool = TestPool(behave=lambda launch: Behaviour(1, code=code))
    pool.machine(static=1, cpus=1)
    pool.submit(1, **policy)
    pool.advance(1)
    pool.edit("1.0", Fetched="true")
    return pool.events()


def rules(events: list[e.Event]) -> set[str]:
    return {violation.rule for violation in examine(enumerate(events, 1)).violations}


def change_row(kind: type[e.Event], **changes: object) -> Callable[[list[e.Event]], list[e.Event]]:
    """Change the first event of a kind that has a row of the job's own policy."""

    def edit(events: list[e.Event]) -> list[e.Event]:
        rows = ("complete", "requeue", "hold", "leave")
        index = next(n for n, event in enumerate(events) if type(event) is kind and getattr(event, "row", "") in rows)
        return [*events[:index], replace(events[index], **changes), *events[index + 1 :]]

    return edit


def change_evidence(name: str, **changes: object) -> Callable[[list[e.Event]], list[e.Event]]:
    """Change the evidence for the expression."""

    def edit(events: list[e.Event]) -> list[e.Event]:
        index = next(
            n for n, event in enumerate(events) if isinstance(event, e.EvaluationRecorded) and event.name == name
        )
        return [*events[:index], replace(events[index], **changes), *events[index + 1 :]]

    return edit


@pytest.mark.parametrize("policy", [READS, CONSTANT, {}], ids=["reads", "constant", "none"])
@pytest.mark.parametrize("code", [0, 3, 4])
def test_the_pools_own_decisions_are_sound(policy: dict[str, str], code: int) -> None:
    assert rules(log_of(policy, code)) == set()


@together(
    ("policy", "code", "edit", "rule"),
    [
        # the row differs from the evidence
        (READS, 0, change_row(e.JobExited, row="requeue", target="Idle"), "evidence"),
        (READS, 3, change_row(e.JobExited, row="complete", target="Completed"), "evidence"),
        (READS, 4, change_row(e.JobExited, row="requeue", target="Idle"), "evidence"),
        (READS, 0, change_row(e.JobExited, row="hold", target="Held"), "evidence"),
        # the evidence is for another expression, or missing
        (READS, 0, change_row(e.JobExited, evidence=3), "evidence"),
        (READS, 3, change_evidence("OnExitRemove", value="true"), "decision"),
        (READS, 3, change_evidence("OnExitRemove", read={"MY.ExitCode": "0"}), "decision"),
        (READS, 3, change_evidence("OnExitRemove", expression="ExitCode == 1"), "evidence"),
        (READS, 0, change_evidence("LeaveJobInQueue", expression="Fetched is true", value="true"), "evidence"),
        # no evidence was needed, and the policy decides otherwise
        (CONSTANT, 0, change_row(e.JobExited, row="requeue", target="Idle"), "evidence"),
        (CONSTANT, 0, change_row(e.JobExited, row="hold", target="Held"), "evidence"),
        ({}, 0, change_row(e.JobExited, row="requeue", target="Idle"), "evidence"),
        ({"OnExitRemove": "false"}, 0, change_row(e.JobExited, row="complete", target="Completed"), "evidence"),
        ({"LeaveJobInQueue": "false"}, 0, change_row(e.JobExited, evidence=2), "evidence"),
    ],
)
def test_a_decision_that_the_policy_did_not_make_is_detected(
    policy: dict[str, str], code: int, edit: Callable[[list[e.Event]], list[e.Event]], rule: str
) -> None:
    assert rule in rules(edit(log_of(policy, code)))


def test_a_job_that_its_policy_keeps_may_not_leave() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1))
    pool.machine(static=1, cpus=1)
    pool.submit(1, LeaveJobInQueue="true")
    pool.advance(1)
    events = pool.events()
    departure = e.JobsTransitioned(
        events[-1].at, "left_queue", "leave-x", 1, ((0, 0),), "leave", "Completed", "Left", {}
    )
    assert rules(events) == set()
    assert rules([*events, departure]) == {"evidence"}
