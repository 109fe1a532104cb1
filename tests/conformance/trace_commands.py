"""Map the commands to a startd, by the names and numbers in its log, to stimuli."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from poolbook.domain.ports import stimuli as s

HOLDER: Final = "schedd"
"""The holder of all claims: one access point, whose name the log lacks."""
ADMINISTRATOR: Final = "root"
SCHEDULES: Final = ((20, "Fast"), (10, "Quick"))
"""The lowest HowFast of each drain schedule; below them it is Graceful."""
COMPLETION_NUMBERS: Final = {"1": "resume", "2": "exit", "3": "restart", "4": "reconfig"}
"""The numbers of ResumeOnCompletion; any other has no meaning."""
COMMANDS: Final[Mapping[str, Callable[[str, str], s.Stimulus]]] = {
    "RELEASE_CLAIM": s.ReleaseClaim,
    "VACATE_CLAIM": lambda id, slot: s.VacateSlot(id, ADMINISTRATOR, slot),
    "VACATE_CLAIM_FAST": lambda id, slot: s.VacateSlot(id, ADMINISTRATOR, slot, fast=True),
    "SUSPEND_CLAIM": lambda id, slot: s.SuspendClaim(id, ADMINISTRATOR, slot),
    "CONTINUE_CLAIM": lambda id, slot: s.ContinueClaim(id, ADMINISTRATOR, slot),
    "DEACTIVATE_CLAIM": s.DeactivateClaim,
    "DEACTIVATE_CLAIM_FORCIBLY": lambda id, slot: s.DeactivateClaim(id, slot, fast=True),
    "MATCH_INFO": s.NotifyMatch,
}
"""The commands that a startd logs by name, whether it obeys ("received") or not ("ignoring")."""
