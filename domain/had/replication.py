"""Replicate what administrators set for submitters: at every manager, the last change of each value wins.

Everything else in the accounts is computed at each manager, from the events of all roles."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from .. import events as e
from ..decision.draft import Draft
from ..fold.had_fold import ACCOUNT, REPLICATED, set_values
from ..negotiator.accounting import first_factor
from ..state.had_state import REPLICATION, Had, SetValue
from ..state.peers import MANAGER
from ..state.state import LogState, Manager
from .had_settings import is_set

CONFLICTED = "conflicted"
SETTINGS = (e.SubmitterSet, e.SubmittersReset, e.SubmitterDeleted)


def is_replicated(state: LogState, event: e.Event) -> bool:
    """Return True if an event is sent to the other managers: an administrator's change that was made here."""
    if isinstance(event, e.DaemonsSwitched):
        return not event.manager and (event.everywhere or REPLICATION in event.daemons)
    return isinstance(event, SETTINGS) and not event.manager and is_set(state.settings, "HAD_USE_REPLICATION")


def copy_setting(draft: Draft[Manager], peer: str, event: Any) -> None:
    """Apply a change that was made at another manager, unless a later one is known. Record a conflict if one of them
    was made without knowledge of the other."""
    if not is_set(draft.state.settings, "HAD_USE_REPLICATION"):
        return
    here = f"{MANAGER}/{draft.state.name}"
    why, winners = draft.header(CONFLICTED), list[str]()
    for account, name, value in set_values(event):
        own = _last_change(draft.state.had, account, name)
        is_later = own is None or (event.at, peer) > (own.at, own.manager or here)
        since = _silent_since(draft.state.had, peer, event.at)
        if own is not None and own.manager != peer and not (is_later and not 0 < since <= own.at):
            draft.emit(
                e.SettingConflicted(
                    *why, peer, account, name, value, event.user, event.at, own.value, own.user, own.at, since
                )
            )  # fmt: skip
        if is_later:
            winners.append(account)
    if not winners:
        return
    changes: dict[str, Any] = {"at": draft.now, "cause": REPLICATED, "stimulus": draft.stimulus}
    changes |= {"set_at": event.at, "manager": peer}
    state, negotiator = draft.state, event.negotiator
    if isinstance(event, e.SubmittersReset):
        names = tuple(name for (account, _, _), name in zip(set_values(event), event.submitters, strict=True)
                      if account in winners)  # fmt: skip
        factors = {name: factor for name in names if (factor := first_factor(state, name, negotiator))}
        changes |= {"submitters": names, "factors": factors}
    elif isinstance(event, e.SubmitterSet):
        changes["factor"] = first_factor(state, event.submitter, negotiator)
    elif winners[0] not in state.submitters:
        return  # there is nothing to delete
    draft.emit(replace(event, **changes))


def _last_change(had: Had, account: str, name: str) -> SetValue | None:
    """Return the last change that a change of this value would replace: a deletion replaces all values."""
    values = had.values.get(account, {})
    changes = [values.get(ACCOUNT), *(values.values() if name == ACCOUNT else [values.get(name)])]
    return max((each for each in changes if each is not None), key=lambda each: each.at, default=None)


def _silent_since(had: Had, peer: str, at: int) -> int:
    """Return when the manager was last heard, if a change was made there during a silence; else 0."""
    since, until = (had.silent[peer], at) if peer in had.silent else had.contacts.get(peer, (0, 0))
    return since if since <= at <= until else 0
