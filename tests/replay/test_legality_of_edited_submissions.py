"""Property: the validator detects every edit of a sound log of submissions under a policy. The edits that it cannot
detect are listed here, with the reason."""

from __future__ import annotations

from functools import cache

import pytest

from poolbook.domain import events as e
from poolbook.replay.validation import examine

from ..schedd.policy_pool import PolicyPool
from ..together import together
from .edits import Edit, change, drop, undetected_changes, undetected_omissions, undetected_repeats, violations_after

OF_POLICY: frozenset[type[e.Event]] = frozenset({e.JobsTransformed, e.SubmissionRefused})
"""The kinds of event that only a schedd with a policy writes."""

POLICY = """
SCHEDD_CLASSAD_USER_MAP_NAMES = Groups
CLASSAD_USER_MAPDATA_Groups = * alice physics
JOB_TRANSFORM_NAMES = Group, Small
JOB_TRANSFORM_Group @=end
  EVALSET Group userMap("Groups", Owner)
  SET Whose "$(MY.Owner)"
@end
JOB_TRANSFORM_Small @=end
  REQUIREMENTS RequestMemory < 100
  SET RequestMemory RequestCpus * 100
  DEFAULT Small true
@end
SUBMIT_REQUIREMENT_NAMES = NotBob, Warns
SUBMIT_REQUIREMENT_NotBob = Owner != "bob"
SUBMIT_REQUIREMENT_Warns = RequestCpus < 4
SUBMIT_REQUIREMENT_Warns_IS_WARNING = true
MAX_JOBS_PER_OWNER = 9
"""


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    pool = PolicyPool(POLICY, dialect)
    pool.submit()
    pool.submit(user="bob")
    pool.submit(count=3, columns={"RequestMemory": ["50", "500", "60"]}, RequestCpus="8")
    pool.submit(count=9)
    return tuple(pool.events)


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_unedited_history_is_sound_and_has_every_kind_of_policy_event(dialect: str) -> None:
    log = sound(dialect)
    assert examine(enumerate(log, 1)).violations == []
    assert {type(event) for event in log} >= OF_POLICY


NOT_REPEATED = "no event repeats it"
UNDETECTED_OMISSIONS: dict[type[e.Event], str] = {
    e.CycleHeld: "without a match it changes nothing",
    e.JobsTransformed: "after a transform, a job may no longer need it",
}
UNDETECTED_REPEATS: dict[type[e.Event], str] = {
    e.EvaluationRecorded: "any number is legal",
    e.CycleHeld: "without a match it changes nothing",
}
UNDETECTED_CHANGES: dict[tuple[type[e.Event], str], str] = {
    (e.JobsTransformed, "before"): NOT_REPEATED,
    (e.JobsTransformed, "evidence"): "a transform may have evaluated several expressions",
    **{(e.SubmissionRefused, field): NOT_REPEATED for field in ("job", "reason", "user")},
}


def test_an_omitted_event_is_detected() -> None:
    assert undetected_omissions(sound("manual")) == set(UNDETECTED_OMISSIONS)


def test_a_repeated_event_is_detected() -> None:
    assert undetected_repeats(sound("manual")) == set(UNDETECTED_REPEATS)


def test_a_changed_field_is_detected() -> None:
    assert undetected_changes(sound("manual"), OF_POLICY) == set(UNDETECTED_CHANGES)


FAULTS: list[tuple[str, Edit, str]] = [
    ("a transform is missing", drop(e.JobsTransformed), "policy"),
    ("a warning is missing", change(e.ClusterSubmitted, warnings=("none",)), "policy"),
    ("another requirement refuses the job", change(e.SubmissionRefused, setting="SUBMIT_REQUIREMENT_Other"), "policy"),
]


@together(("fault", "edit", "rule"), FAULTS)
def test_a_planted_fault_breaks_its_rule(fault: str, edit: Edit, rule: str) -> None:
    assert violations_after(sound("manual"), edit)[0].rule == rule
