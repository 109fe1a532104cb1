"""Events about high availability: which of a pool's managers is active, and what several of them set."""

from __future__ import annotations

from typing import ClassVar

from .base import Event, event
from .peers import PeerEvent


@event("had.transitioned")
class HadTransitioned(Event, frozen=True):
    """This manager's state in the election of the active manager changed. It is active in LEADER_STATE."""

    stream: ClassVar[str] = "had"
    row: str  #: the transition's name, such as win
    source: str  #: the state before it, such as ELECTION_STATE
    target: str  #: the state after it
    manager: str = ""  #: the other manager concerned: it was active, or has a higher priority (empty: none)
    heard: int = 0  #: when that manager was last heard, in microseconds (0: not since this manager started)


@event("manager.heard")
class ManagerHeard(PeerEvent, frozen=True):
    """Another manager has been silent for longer than an election takes, or is heard again."""

    heard: bool  #: False: it is silent
    last: int  #: when it was last heard before that, in microseconds


@event("daemons.switched")
class DaemonsSwitched(Event, frozen=True):
    """An administrator turned parts of a manager off or on: its negotiators, DEFRAG, HAD, REPLICATION."""

    stream: ClassVar[str] = "daemons"
    daemons: tuple[str, ...]  #: their names in DAEMON_LIST
    on: bool  #: False: they are off
    user: str  #: who did it
    everywhere: bool = False  #: at all of the pool's managers
    manager: str = ""  #: the peer at which the command was given (empty: here)


@event("submitter.withheld")
class SettingWithheld(PeerEvent, frozen=True):
    """A change that an administrator made at another manager is not applied until REPLICATION is on, here and there."""

    topic: str  #: the kind of the change
    change: str  #: its event, as JSON


@event("submitter.conflicted")
class SettingConflicted(PeerEvent, frozen=True):
    """Administrators set the same value of a submitter at this manager and at another one, while the managers had no
    contact or at nearly the same time. Both managers use the value that was set last; both logs contain both."""

    submitter: str  #: the submitter
    name: str  #: the value that was set; `account` if the submitter was deleted
    value: float  #: the other manager's value
    user: str  #: who set it there
    set_at: int  #: when it was set there, in microseconds
    own_value: float  #: this manager's value
    own_user: str  #: who set it here
    own_set_at: int  #: when it was set here, in microseconds
    since: int = 0  #: since when the managers had no contact, in microseconds (0: they had contact)
