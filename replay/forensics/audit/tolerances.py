"""The tolerances of the audit: how far two sources that agree may lie apart, in microseconds."""

from __future__ import annotations

from typing import Final

from ....domain.units import SECOND

ANY: Final = 1 << 62  #: no bound
ROUNDED: Final = SECOND // 100  #: lost by printing a number
NEAR: Final = 2 * SECOND  #: between the daemons of one machine: each writes whole seconds, at its own moment
FAR: Final = 5 * SECOND  #: between the clocks of two machines, with the time of a message
MINUTE: Final = 60 * SECOND
LINGERING: Final = 5 * MINUTE
"""How long a shadow may outlive its run, if files cannot be moved or the starter does not exit."""
LEASE: Final = 2400 * SECOND
"""JobLeaseDuration's default: how long a removed job may be disconnected before its end is known."""
UNSAVED: Final = MINUTE  #: how much of its job_queue.log a schedd that is killed may lose
AFTERWARDS: Final = 5 * MINUTE  #: how long after its restart it does what it lost
