"""The life of a drain: a machine is emptied of jobs, and opened again; ``rows.txt`` has the rows.

A drain is of a whole machine: each of its slots goes through rows 33 to 37. Its schedule says what running jobs get:
Graceful their retirement time, and the time to vacate; Quick the time to vacate; Fast nothing. It keeps its schedule.
"""

from __future__ import annotations

from typing import Final

from .rows import table

OPEN: Final = "Open"
"""The machine takes jobs."""

DRAIN: Final = table("drain")
