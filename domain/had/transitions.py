"""Write what the election and the contact with other managers decided to a manager's log."""

from __future__ import annotations

from .. import events as e
from ..decision.draft import Draft
from ..ports.stimuli import HadStep, ManagerSilence
from ..state.had_state import HAD
from ..state.state import Manager
from ..state_machines.had import LEADER
from ..state_machines.machine import had_machine
from .had_settings import controls_negotiator


def take_step(draft: Draft[Manager], stimulus: HadStep) -> None:
    source = draft.state.had.state
    target = had_machine().fire(source, stimulus.row)
    why = draft.header(stimulus.cause)
    draft.emit(e.HadTransitioned(*why, stimulus.row, source, target, stimulus.manager, stimulus.heard))


def note_silence(draft: Draft[Manager], stimulus: ManagerSilence) -> None:
    if (stimulus.peer in draft.state.had.silent) == stimulus.heard:
        cause = "heard" if stimulus.heard else "manager_silent"
        draft.emit(e.ManagerHeard(*draft.header(cause), stimulus.peer, stimulus.heard, stimulus.last))


def is_active(state: Manager) -> bool:
    """Return True if a manager may negotiate and defragment: it is the only one, the active one of several, or one
    whose negotiator HAD does not control, because HAD is off or controls another daemon."""
    had = state.had
    return had.state in ("", LEADER) or HAD in had.off or not controls_negotiator(state.settings)
