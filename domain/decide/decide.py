"""Which rule decides what: one row for each kind of stimulus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..events import Event, PoolFounded
from ..lifecycle import DIALECTS
from ..settings import settings
from ..state import State
from . import stimuli as s
from .claims import claim_matches, start_local
from .draft import Draft, Refusal, Tables
from .jobs import act, edit, submit, vacate_slot
from .matching import negotiate
from .processes import ended, measured, started
from .slots import add_machine, remove_machine
from .timers import tick


def _found(draft: Draft, stimulus: s.Found) -> None:
    if stimulus.dialect not in DIALECTS:
        raise Refusal(f"{stimulus.dialect} is no dialect; there are {', '.join(DIALECTS)}")
    try:
        in_force = settings(stimulus.settings)
    except ValueError as error:
        raise Refusal(str(error)) from None
    draft.emit(
        PoolFounded(
            *draft.why("founded"), stimulus.name, stimulus.dialect, stimulus.uid_domain, stimulus.version, in_force
        )
    )


def _claim(draft: Draft, stimulus: s.ClaimMatches) -> None:
    claim_matches(draft)
    start_local(draft)


_RULES: dict[type[s.Stimulus], Callable[[Draft, Any], None]] = {
    s.Found: _found,
    s.AddMachine: add_machine,
    s.RemoveMachine: remove_machine,
    s.Submit: submit,
    s.Act: act,
    s.Edit: edit,
    s.VacateSlot: vacate_slot,
    s.Negotiate: lambda draft, stimulus: negotiate(draft, stimulus.clusters),
    s.ClaimMatches: _claim,
    s.Tick: lambda draft, _: tick(draft),
    s.Started: started,
    s.Measured: measured,
    s.Ended: ended,
}


def decide(state: State, stimulus: s.Stimulus, now: int, tables: Tables) -> list[Event]:
    """The events that follow from `stimulus` at the instant `now`, in microseconds. They are folded onto `state`
    already: throw it away if they cannot be appended.

    A command whose id was answered before is not decided again: the answer stands in ``state.answers``.

    :raises Refusal: nothing follows, and why
    :raises NotAllowed: a change that no row of the tables allows; the state may have been changed
    """
    if isinstance(stimulus, s.Command) and stimulus.id in state.answers:
        return []
    draft = Draft(state, stimulus.id, now, tables)
    _RULES[type(stimulus)](draft, stimulus)
    return draft.events
