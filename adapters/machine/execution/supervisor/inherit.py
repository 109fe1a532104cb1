"""End the jobs that a killed predecessor left.

Only a parent learns exit codes, and that is gone, so going on would spend time on a result that cannot be trusted. The
jobs are killed, with all their descendants, and reported as lost. Until that is done nothing else happens, so that a
restarted job never runs twice at one time.
"""

from __future__ import annotations

import signal
import time

from . import processes
from .processes import Process
from .records import ActivationClaim

_UNMARKED_S = 0.1  #: how long a process may have been between fork and exec, unmarked, when its supervisor was killed
_PAUSE_S = 0.005

_RESTARTED = "the machine was restarted while it ran"
_UNWATCHED = "its supervisor was killed while it ran, so how it would have ended is unknown; its processes were ended"


def clear(claims: dict[str, ActivationClaim], execute: str, boot: str) -> dict[str, str]:
    """Kill what lives of these claims; return why each activation is lost."""
    lost = {key: _RESTARTED if claim.boot not in ("", boot) else _UNWATCHED for key, claim in claims.items()}
    mine = {key: claim for key, claim in claims.items() if lost[key] is _UNWATCHED}
    if any(claim.pid == 0 for claim in mine.values()):
        time.sleep(_UNMARKED_S)
    while mine and (living := _living(mine, execute)):
        for process in living:
            processes.send(process.pid, process.started, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    return lost


def _living(claims: dict[str, ActivationClaim], execute: str) -> list[Process]:
    """Return the claims' own processes, those that bear their numbers or marks, and all descendants of these."""
    table = {pid: process for pid in processes.pids() if (process := processes.read(pid)) is not None}
    own = {(claim.pid, claim.started) for claim in claims.values()}
    numbers = {claim.number for claim in claims.values() if claim.pid}

    def belongs(process: Process) -> bool:
        return (
            (process.pid, process.started) in own
            or processes.number(process.pid) in numbers
            or processes.mark(process.pid, execute) in claims
        )

    found = {process.pid for process in table.values() if belongs(process)}
    while more := {process.pid for process in table.values() if process.parent in found} - found:
        found |= more
    return [table[pid] for pid in sorted(found) if not table[pid].dead]
