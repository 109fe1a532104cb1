"""Turn parts of a manager off and on: its negotiators, DEFRAG, HAD and REPLICATION (``condor_off``, ``condor_on``).

The collector, and so the pool's view of its machines, stays on. A part that is off stays off until it is turned on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .. import events as e
from ..coverage.settings import DEFRAG
from ..decision.draft import Draft, Refusal, answer, check_super_user
from ..defrag.defrag_settings import policies_in_force
from ..events.base import TOPIC_OF
from ..ports.stimuli import Follow, SwitchDaemons
from ..state.had_state import HAD, REPLICATION
from ..state.negotiators import negotiator_names
from ..state.state import Manager
from .had_settings import controls_negotiator
from .replication import copy_setting

_WORDS: Final = {False: "turned_off", True: "turned_on"}


def parts_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the parts of a manager with these settings that can be turned off."""
    had = (HAD, REPLICATION) if settings.get("HAD_NAME") else ()
    defrag = (daemon or DEFRAG for daemon in policies_in_force(settings))
    return (*negotiator_names(settings), *defrag, *had)


def switch_daemons(draft: Draft[Manager], command: SwitchDaemons) -> None:
    """Turn a part of this manager off or on, or of all managers. HAD takes the negotiators that it controls along, as
    condor_had does when it ends.

    :raises Refusal: if the user may not do that, or this manager has no such part
    """
    name = command.daemon.upper()
    check_super_user(draft, command, f"turn {name} {'on' if command.on else 'off'}")
    parts = parts_of(draft.state.settings)
    if name not in parts:
        raise Refusal(f"there is no daemon {name} in this manager; it has {', '.join(parts)}")
    settings = draft.state.settings
    controlled = negotiator_names(settings) if name == HAD and controls_negotiator(settings) else ()
    daemons = (name, *controlled)
    _switch(draft, daemons, command.on, command.user, command.everywhere)
    fields = {"daemon": name, "on": command.on, "everywhere": command.everywhere}
    answer(draft, command, "switch daemon", f"{name} {'on' if command.on else 'off'}", fields)


def copy_switch(draft: Draft[Manager], stimulus: Follow, position: int, event: e.DaemonsSwitched) -> None:
    """Note a command that was given at another manager, and obey it if it is for all managers."""
    _switch(draft, event.daemons, event.on, event.user, event.everywhere, stimulus.peer)


def _switch(
    draft: Draft[Manager], daemons: tuple[str, ...], on: bool, user: str, everywhere: bool, manager: str = ""
) -> None:
    had = draft.state.had
    withheld = [*had.withheld]
    draft.emit(e.DaemonsSwitched(*draft.header(_WORDS[on]), daemons, on, user, everywhere, manager))
    for change in withheld:
        if had.replicates(change.peer):
            copy_setting(draft, change.peer, change.event())


def replicate(draft: Draft[Manager], stimulus: Follow, position: int, event: Any) -> None:
    """Apply a change that was made at another manager, or keep it until REPLICATION is on at both."""
    if draft.state.had.replicates(stimulus.peer):
        copy_setting(draft, stimulus.peer, event)
    else:
        text = msgspec.json.encode(event).decode()
        draft.emit(e.SettingWithheld(*draft.header("withheld"), stimulus.peer, TOPIC_OF[type(event)], text))
