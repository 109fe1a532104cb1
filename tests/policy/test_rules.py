"""Each rule of the policy fires when it should and not otherwise, in the order and at the time that the dialect
requires: the stories of ``cases``. Everything else in their logs is as it was recorded."""

from __future__ import annotations

import pytest

from poolbook.domain.startd.slot_policy_evaluation import SlotPolicyEvaluation
from poolbook.domain.startd.startd_settings import EXPRESSIONS
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.state_machines.slot_rules import CONDITIONS, FACTS
from poolbook.replay.validation import validate

from ..golden.decided import difference, events_of, stories
from ..together import together
from .cases import STORIES
from .stories import Story, moves, run_story

BOTH = [(story, dialect) for story in STORIES for dialect in DIALECTS]


@together(("story", "dialect"), BOTH)
def test_a_slot_follows_its_policy(story: Story, dialect: str) -> None:
    point = run_story(story, dialect)
    assert moves(point, story.slot) == story.expected(dialect)
    assert list(validate(point.log.read())) == []
    assert not difference(stories(f"policies-{dialect}")[story.of], events_of(point))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_rule_names_a_condition_and_every_condition_is_evaluated(dialect: str) -> None:
    conditions = {rule.when for dialect in DIALECTS.values() for row in dialect.rules.values() for rule in row}
    assert conditions == set(CONDITIONS)
    read = {name for condition in CONDITIONS.values() for name in condition.expressions}
    assert read <= set(EXPRESSIONS)


def test_a_slots_policy_answers_every_question_of_a_condition() -> None:
    questions = {test.question for condition in CONDITIONS.values() for test in condition.tests}
    assert questions == {*FACTS, "is_true", "is_locally_false", "is_set_to_false", "has_flag"}
    assert all(hasattr(SlotPolicyEvaluation, question) for question in questions)
