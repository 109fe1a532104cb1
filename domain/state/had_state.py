"""What a manager's log says about the other managers of its pool."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field

from ..events import TOPICS, DaemonsSwitched, Event

HAD: Final = "HAD"
REPLICATION: Final = "REPLICATION"


class SetValue(Struct, frozen=True):
    """A submitter's value that an administrator set."""

    at: int  #: in microseconds, by the clock of the manager where it was set
    value: float
    user: str
    manager: str = ""  #: the peer at which it was set; empty: this manager


class WithheldChange(NamedTuple):
    """A change of a submitter's settings that awaits replication."""

    peer: str  #: the manager where it was made
    topic: str
    change: str  #: the event, as JSON

    def event(self) -> Event:
        event: Event = msgspec.json.decode(self.change, type=TOPICS[self.topic])
        return event


class Had(Struct):
    state: str = ""  #: a state of the table `had`; empty: this manager is the only one
    since: int = 0  #: when it entered that state, in microseconds
    cause: str = ""  #: why, as in `HadTransitioned`
    manager: str = ""
    heard: int = 0
    silent: dict[str, int] = field(default_factory=dict)  #: the managers that are silent, and when they were last heard
    contacts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By manager: when it was last heard before its last silence, and when it was heard again."""
    values: dict[str, dict[str, SetValue]] = field(default_factory=dict)
    """The values that administrators set, by account name and by name."""
    off: dict[str, DaemonsSwitched] = field(default_factory=dict)  #: the parts of this manager that are turned off
    not_replicating: set[str] = field(default_factory=set)  #: the managers whose REPLICATION is turned off
    withheld: list[WithheldChange] = field(default_factory=list)

    def replicates(self, peer: str) -> bool:
        """Return True if REPLICATION is on at both this manager and another one."""
        return REPLICATION not in self.off and peer not in self.not_replicating
