"""What the daemons' lines say about slots and the ends of runs, as texts."""

from __future__ import annotations

from typing import Final

from ....domain import events as e
from ....domain.state.job_ad import unquoted
from ...machine.host import CONDOR_VERSION, condor_platform
from ..userlog.event_text import one_line

REMOVED: Final = "remove"  #: rows of the job table
HELD: Final = "hold"
REQUEUED: Final = "requeue"


def banner(daemon: str, pid: int | str) -> str:
    """Return the lines at the start of a daemon."""
    stars = "*" * 54
    lines = (
        stars, f"** condor_{daemon.lower()} (CONDOR_{daemon}) STARTING UP", f"** SubsystemInfo: name={daemon}",
        f"** {CONDOR_VERSION}", f"** {condor_platform()}", f"** PID = {pid}", stars,
    )  # fmt: skip
    return "\n".join(lines)


def owner_of(user: str) -> str:
    return user.partition("@")[0]


def move_line(verb: str, event: e.SlotTransitioned) -> str:
    (state, _, activity), (new_state, _, new_activity) = event.source.partition("/"), event.target.partition("/")
    if activity == new_activity:
        return f"{verb} state: {state} -> {new_state}"
    if state == new_state:
        return f"{verb} activity: {activity} -> {new_activity}"
    return f"{verb} state and activity: {event.source} -> {event.target}"


def resources_of(ad: e.Ad) -> str:
    """Return a slot's resources as the startd logs them."""
    names = unquoted(ad.get("MachineResources", '"Cpus Memory Disk Swap GPUs"')).split()
    ordered: list[str] = [name for name in ("Cpus", "Memory", "Swap", "Disk") if name in names]
    ordered += [name for name in names if name not in ordered]
    texts = {name: ad.get("VirtualMemory" if name == "Swap" else name, "0") for name in ordered}
    amounts = {name: text if text.replace(".", "", 1).isdigit() else "0" for name, text in texts.items()}
    cpus = {"Cpus": f"{float(amounts['Cpus']):.2f}"} if "Cpus" in amounts else {}
    return ", ".join(f"{name}: {text}" for name, text in (amounts | cpus).items())


def shadow_status(event: e.JobExited, stopping: str) -> str:
    """Return the exit status of the run's shadow (HTCondor's exit.h); `stopping` is the row of a job that was being
    removed or held."""
    if stopping:
        return "102" if event.cause != "held_by_machine" else "112"
    if event.row == "complete":
        return "100"
    if event.row == HELD:
        return "112"
    return "108" if event.outcome == "failed" and event.row == "evict" else "107"


def end_facts(event: e.JobExited, changes: e.Ad) -> dict[str, str]:
    """Return how a run ended, and why the job is held or requeued."""
    ad = changes | event.changes
    reason = ad.get("HoldReason") or ad.get("VacateReason") or ""
    ended = f"killed by signal {event.signal}" if event.signal is not None else f"exited with status {event.code or 0}"
    return {
        "ended": ended,
        "reason": one_line(unquoted(reason)) or "The job attribute OnExitRemove expression evaluated to FALSE",
        "code": ad.get("HoldReasonCode") or "0",
        "subcode": ad.get("HoldReasonSubCode") or "0",
    }
