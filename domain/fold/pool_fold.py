"""How events about a log as a whole change any role's state: its pool, its settings, its writers and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..state.pool_settings import as_founded
from ..state.slot_fold import change
from ..state.state import LogState
from ..state_machines import dialect_named

ANSWERS_KEPT = 10_000
ANSWERS_SIZE = 8_000_000


def _founded(state: LogState, event: e.PoolFounded) -> None:
    state.name, state.dialect = event.name, dialect_named(event.dialect)
    state.founded = as_founded(event.uid_domain, event.settings)
    state.settings = dict(state.founded)
    state.configured = state.position


def _pool_configured(state: LogState, event: e.PoolConfigured) -> None:
    state.settings = dict(state.settings)  # those before are kept by submitters of older logs
    change(state.settings, event.settings)
    state.configured = state.position


def _writer(state: LogState, event: e.WriterBegan) -> None:
    state.epoch, state.served_since = event.epoch, event.at


def _answered(state: LogState, event: e.RequestAnswered) -> None:
    answers = state.answers
    answers[event.stimulus] = event.answer
    state.answers_size += len(event.answer)
    while len(answers) > ANSWERS_KEPT or (state.answers_size > ANSWERS_SIZE and len(answers) > 1):
        state.answers_size -= len(answers.pop(next(iter(answers))))


FOLDS: dict[type[e.Event], Callable[[LogState, Any], None]] = {
    e.PoolFounded: _founded,
    e.PoolConfigured: _pool_configured,
    e.WriterBegan: _writer,
    e.RequestAnswered: _answered,
    e.EvaluationRecorded: lambda state, event: None,
}
