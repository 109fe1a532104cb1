"""The tolerances of the audit: how much two agreeing sources may differ, in microseconds."""

from __future__ import annotations

from typing import Final

from ....domain.units import SECOND

ANY: Final = 1 << 62  #: no limit
ROUNDED: Final = SECOND // 100  #: the rounding error of a printed number
NEAR: Final = 2 * SECOND  #: between daemons on one machine, each of which writes whole seconds at a different moment
FAR: Final = 5 * SECOND  #: between the clocks of two machines, including the time of a message
MINUTE: Final = 60 * SECOND
LINGERING: Final = 5 * MINUTE
"""How long a shadow may outlive its run if files cannot be moved or the starter does not exit."""
LEASE: Final = 2400 * SECOND
"""The default of JobLeaseDuration: how long a removed job may be disconnected before its end is known."""
UNSAVED: Final = MINUTE  #: how much of its job_queue.log a killed schedd may lose
AFTERWARDS: Final = 5 * MINUTE  #: how long after its restart it repeats the lost actions
