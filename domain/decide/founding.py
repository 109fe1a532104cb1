"""Start a log. Its first event contains the pool's name, dialect and settings."""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import PoolFounded
from ..ports.stimuli import FoundPool
from ..state.negotiators import invalid_negotiators
from ..state.peers import ROLES
from ..state.pool_settings import complete_settings
from ..state.state import State
from ..state_machines import DIALECTS


def found_pool(draft: Draft[State], stimulus: FoundPool) -> None:
    if stimulus.dialect not in DIALECTS:
        raise Refusal(f"{stimulus.dialect} is not a valid dialect; use {', '.join(DIALECTS)}")
    try:
        effective = complete_settings(stimulus.settings)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if problem := invalid_negotiators(effective):
        raise Refusal(problem)
    names = stimulus.name, stimulus.dialect, stimulus.uid_domain, stimulus.version
    if unknown := set(stimulus.roles) - set(ROLES):
        raise Refusal(f"{min(unknown)} is not a role; use {', '.join(ROLES)}")
    draft.emit(PoolFounded(*draft.header("founded"), *names, effective, stimulus.log, stimulus.roles))
