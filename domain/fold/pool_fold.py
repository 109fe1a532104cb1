"""How events about the pool as a whole change the state."""

from __future__ import annotations

from collections.abc import Callable

from .. import events as e
from ..state.defrag_state import polled, switched
from ..state.pool_settings import DEFRAG, as_founded
from ..state.slot_fold import change
from ..state.state import State
from ..state_machines import dialect_named

ANSWERS_KEPT = 10_000
ANSWERS_SIZE = 8_000_000
INTERVAL = "DEFRAG_INTERVAL"


def _founded(state: State, event: e.PoolFounded) -> None:
    state.name, state.dialect = event.name, dialect_named(event.dialect)
    state.founded = as_founded(event.uid_domain, event.settings)
    state.settings = dict(state.founded)
    state.configured = state.position
    _switch_defrag(state, event.settings)


def _pool_configured(state: State, event: e.PoolConfigured) -> None:
    state.settings = dict(state.settings)  # those before are kept by submitters of older logs
    change(state.settings, event.settings)
    state.configured = state.position
    _switch_defrag(state, event.settings)


def _switch_defrag(state: State, settings: e.Ad) -> None:
    """The defragmentation may have been switched on or off, or have got another name, which is another daemon."""
    if "DEFRAG_NAME" in settings:
        state.defrag = switched(state.defrag, bool(settings["DEFRAG_NAME"].strip()), state.at)
    state.defrag.configured = state.at


def _defrag_polled(state: State, event: e.DefragPolled) -> None:
    interval = state.settings.get(INTERVAL, DEFRAG[INTERVAL].default)
    schedule = state.settings.get("DEFRAG_DRAINING_SCHEDULE", DEFRAG["DEFRAG_DRAINING_SCHEDULE"].default)
    polled(state.defrag, event, int(interval), schedule)


def _writer(state: State, event: e.WriterBegan) -> None:
    state.epoch, state.served_since = event.epoch, event.at


def _answered(state: State, event: e.RequestAnswered) -> None:
    answers = state.answers
    answers[event.stimulus] = event.answer
    state.answers_size += len(event.answer)
    while len(answers) > ANSWERS_KEPT or (state.answers_size > ANSWERS_SIZE and len(answers) > 1):
        state.answers_size -= len(answers.pop(next(iter(answers))))


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.PoolFounded: _founded,
    e.PoolConfigured: _pool_configured,
    e.WriterBegan: _writer,
    e.RequestAnswered: _answered,
    e.EvaluationRecorded: lambda state, event: None,
    e.DefragPolled: _defrag_polled,
}
