"""The states of a manager that takes part in high availability. ``rows.txt`` contains the rows."""

from __future__ import annotations

from typing import Final

from .rows import table

PRE: Final = "PRE_STATE"  #: the state of a manager that has just started
PASSIVE: Final = "PASSIVE_STATE"
ELECTION: Final = "ELECTION_STATE"
LEADER: Final = "LEADER_STATE"  #: the state of the active manager
HAD: Final = table("had")
