"""Fold events into what a manager knows about the other managers of its pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import events as e
from ..names import AccountName
from ..state.had_state import HAD, REPLICATION, SetValue, WithheldChange
from ..state.state import Manager
from ..state_machines.had import PRE

ACCOUNT: Final = "account"  #: the name of a deletion among a submitter's values
REPLICATED: Final = "replicated"  #: the cause of a change that was made at another manager
_RESTARTED_BY: Final = frozenset({"HAD_NAME", "HAD_LIST", "HAD_USE_PRIMARY", "HAD_CONTROLLEE"})


def _restart(state: Manager, event: e.WriterBegan | e.PoolFounded | e.PoolConfigured | e.DaemonsSwitched) -> None:
    """Return to the first state: the manager or HAD has started, or its place among the managers may have changed."""
    if isinstance(event, e.PoolConfigured) and not event.settings.keys() & _RESTARTED_BY:
        return
    had = state.had
    had.state = PRE if state.settings.get("HAD_NAME") else ""
    had.since, had.cause, had.manager, had.heard = event.at, event.cause, "", 0


def _fold_transition(state: Manager, event: e.HadTransitioned) -> None:
    had = state.had
    had.state, had.since, had.cause = event.target, event.at, event.cause
    had.manager, had.heard = event.manager, event.heard


def _fold_heard(state: Manager, event: e.ManagerHeard) -> None:
    had = state.had
    if event.heard:
        had.silent.pop(event.peer, None)
        had.contacts[event.peer] = event.last, event.at
    else:
        had.silent[event.peer] = event.last


def note_switch(off: dict[str, e.DaemonsSwitched], event: e.DaemonsSwitched) -> bool:
    """Update the parts of this manager that are turned off, each with the event that did it. Return False if the
    event concerns only another manager."""
    if event.manager and not event.everywhere:
        return False
    for daemon in event.daemons:
        if event.on:
            off.pop(daemon, None)
        else:
            off[daemon] = event
    return True


def _fold_switch(state: Manager, event: e.DaemonsSwitched) -> None:
    had = state.had
    if note_switch(had.off, event) and HAD in event.daemons:  # it takes part from the beginning when it is on again
        _restart(state, event)
    if event.manager and REPLICATION in event.daemons:
        turn = had.not_replicating.discard if event.on else had.not_replicating.add
        turn(event.manager)
    had.withheld = [change for change in had.withheld if not had.replicates(change.peer)]


def set_values(event: e.SubmitterSet | e.SubmittersReset | e.SubmitterDeleted) -> list[tuple[str, str, float]]:
    """Return what an event sets: account, name and value."""
    if isinstance(event, e.SubmittersReset):
        return [(str(AccountName(event.negotiator, name)), "usage", 0.0) for name in event.submitters]
    account = str(AccountName(event.negotiator, event.submitter))
    if isinstance(event, e.SubmitterDeleted):
        return [(account, ACCOUNT, 0.0)]
    return [(account, event.name, event.value)]


def _note_values(state: Manager, event: e.SubmitterSet | e.SubmittersReset | e.SubmitterDeleted) -> None:
    for account, name, value in set_values(event):
        values = state.had.values.setdefault(account, {})
        values[name] = SetValue(event.set_at or event.at, value, event.user, event.manager)


FOLDS: dict[type[e.Event], Callable[[Manager, Any], None]] = {
    e.PoolFounded: _restart,
    e.PoolConfigured: _restart,
    e.WriterBegan: _restart,
    e.HadTransitioned: _fold_transition,
    e.ManagerHeard: _fold_heard,
    e.SettingConflicted: lambda state, event: None,
    e.SettingWithheld: lambda state, event: state.had.withheld.append(
        WithheldChange(event.peer, event.topic, event.change)
    ),
    e.DaemonsSwitched: _fold_switch,
    e.SubmitterSet: _note_values,
    e.SubmittersReset: _note_values,
    e.SubmitterDeleted: _note_values,
}
