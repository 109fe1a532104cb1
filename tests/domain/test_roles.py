"""A role's rule can access only the state of its role; it affects another role by a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from poolbook.domain.decide import delivery
from poolbook.domain.decide.decide import _RULES
from poolbook.domain.decision.draft import Draft, Tables
from poolbook.domain.defrag import poll
from poolbook.domain.negotiator import matches
from poolbook.domain.ports import messages as m
from poolbook.domain.ports import stimuli as s
from poolbook.domain.schedd import deferred_starts, factories, job_submission, notification, run_now
from poolbook.domain.startd import periodic_evaluation, shutdown
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.state import AccessPoint, ExecutionPoint, LogState, Manager, Queue, Slots, State

from ..golden.decided import by_story, crowds, stories
from ..golden.test_decided import check_equal

ROLES: dict[str, type[LogState]] = {
    "schedd": AccessPoint, "startd": ExecutionPoint, "negotiator": Manager, "defrag": Manager,
}  # fmt: skip


def names(role: type[LogState]) -> set[str]:
    return {field.name for field in fields(role)} - {field.name for field in fields(LogState)}


class OneRole:
    """A pool's state, of which only one role's part can be read."""

    def __init__(self, state: State, role: type[LogState]) -> None:
        self._state, self._role = state, role

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        has = hasattr(self._role, name) or name in {field.name for field in fields(self._role)}
        assert has, f"a rule of an {self._role.__name__} reads {name}"
        return getattr(self._state, name)


def _published(state: Any, *arguments: Any) -> PublishedSlots:
    """Return the ads that a startd publishes for a manager."""
    return PublishedSlots(state._state if isinstance(state, OneRole) else state, *arguments)


def of_one_role(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a rule so that its draft has only the state of the rule's role; the rules of delivery see everything."""
    role = ROLES.get(rule.__module__.split(".")[2])

    def decide(draft: Draft[Any], *arguments: object) -> Any:
        before = draft.state
        whole_state = before._state if isinstance(before, OneRole) else before
        draft.state = whole_state if role is None else OneRole(whole_state, role)
        try:
            return rule(draft, *(_published if argument is PublishedSlots else argument for argument in arguments))
        finally:
            draft.state = before

    return decide


@pytest.fixture
def separated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every rule only the state of its role, for each message and sender."""
    for rules_by_kind in (_RULES, delivery._RULES):
        for kind in rules_by_kind.names:
            monkeypatch.setitem(rules_by_kind, kind, of_one_role(rules_by_kind[kind]))
    rules = [
        (job_submission, "submit"),
        (run_now, "update_reservations"),
        (notification, "notify"),
        (factories, "materialize"),
    ]
    rules += [
        (deferred_starts, "end_signalled_jobs"),
        (shutdown, "finish_drains_and_shutdowns"),
        (periodic_evaluation, "publish_changed_slots"),
    ]
    rules += [(matches, "negotiate"), (poll, "defragment")]
    for module, name in rules:
        monkeypatch.setattr(module, name, of_one_role(getattr(module, name)))


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_rules_that_see_only_their_own_role_make_the_same_decisions(separated: None, dialect: str) -> None:
    check_equal({"0": stories(f"crowds-{dialect}")["0"]}, by_story(crowds(dialect, [0])))


def test_the_roles_states_share_only_what_is_published_to_a_manager() -> None:
    assert not names(AccessPoint) & names(ExecutionPoint)
    assert names(Manager) & names(AccessPoint) == names(Queue)
    assert names(Manager) & names(ExecutionPoint) == names(Slots)
    assert names(State) == names(AccessPoint) | names(ExecutionPoint) | names(Manager)


@pytest.mark.parametrize(
    ("rule", "reads"),
    [("schedd", "slots"), ("startd", "next_cluster"), ("startd", "submitters"), ("negotiator", "mails")],
)
def test_a_rule_that_reads_another_roles_state_is_detected(rule: str, reads: str) -> None:
    def looks(draft: Draft[Any]) -> object:
        return getattr(draft.state, reads)

    looks.__module__ = f"poolbook.domain.{rule}.somewhere"
    draft: Draft[State] = Draft(State(), "test", 0, Tables())
    with pytest.raises(AssertionError, match=f"reads {reads}"):
        of_one_role(looks)(draft)
    assert looks(draft) is getattr(draft.state, reads)


def test_every_message_has_a_receiver() -> None:
    def kinds(kind: type[Any]) -> set[type[Any]]:
        return {kind for sub in kind.__subclasses__() for kind in ({sub} | kinds(sub))}

    assert {*delivery._ROLES} == kinds(m.Message) | kinds(s.SlotMessage)
