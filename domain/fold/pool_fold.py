"""Fold events about the pool, its settings, writers and answers into the state of any role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..state.peers import ROLES
from ..state.pool_settings import founding_settings
from ..state.slot_fold import change_ad
from ..state.state import LogState
from ..state_machines import dialect_named

MAX_ANSWERS = 10_000
MAX_ANSWERS_SIZE = 8_000_000


def _fold_pool_founded(state: LogState, event: e.PoolFounded) -> None:
    state.name, state.dialect = event.name, dialect_named(event.dialect)
    state.founding_settings = founding_settings(event.uid_domain, event.settings)
    state.settings = dict(state.founding_settings)
    state.configured = state.position
    state.roles = frozenset(event.roles or ROLES)


def _fold_pool_configured(state: LogState, event: e.PoolConfigured) -> None:
    state.settings = dict(state.settings)  # submitters from older logs refer to the previous dict
    change_ad(state.settings, event.settings)
    state.configured = state.position


def _fold_writer_began(state: LogState, event: e.WriterBegan) -> None:
    state.epoch, state.served_since = event.epoch, event.at


def _fold_request_answered(state: LogState, event: e.RequestAnswered) -> None:
    answers = state.answers
    answers[event.stimulus] = event.answer
    state.answers_size += len(event.answer)
    while len(answers) > MAX_ANSWERS or (state.answers_size > MAX_ANSWERS_SIZE and len(answers) > 1):
        state.answers_size -= len(answers.pop(next(iter(answers))))


FOLDS: dict[type[e.Event], Callable[[LogState, Any], None]] = {
    e.PoolFounded: _fold_pool_founded,
    e.PoolConfigured: _fold_pool_configured,
    e.WriterBegan: _fold_writer_began,
    e.RequestAnswered: _fold_request_answered,
    e.EvaluationRecorded: lambda state, event: None,
    e.RequestsRejected: lambda state, event: None,
}
