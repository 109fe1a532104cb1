"""The tolerances of the audit, in microseconds: how far apart two sources may be that say the same."""

from __future__ import annotations

from typing import Final

ANY: Final = 1 << 62
"""A bound that is none."""
SECOND: Final = 1_000_000
ROUNDED: Final = SECOND // 100
"""What printing a number takes from it."""
NEAR: Final = 2 * SECOND
"""Between the clocks and the buffers of the daemons of one machine: each writes whole seconds, at its own moment."""
FAR: Final = 5 * SECOND
"""Between the clocks of two machines, the time that a message needs included."""
MINUTE: Final = 60 * SECOND
LINGERING: Final = 5 * MINUTE
"""So long a shadow may stay after its run was over, if files could not be moved or the starter does not go."""
LEASE: Final = 2400 * SECOND
"""JobLeaseDuration's default: so long a job that is removed may be out of reach before its end is known."""
