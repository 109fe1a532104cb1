"""The settings of the defragmentation, under HTCondor's names, as the log has them (``PoolConfigured``).

A pool defragments while it has ``NAME``: whoever reads a configuration gives that one if DEFRAG stands in DAEMON_LIST.
Sources: the manual's page "Defrag Daemon Configuration Options"; param_info.in for the defaults.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..classad import ClassAdSyntaxError, parse


class DefragSetting(NamedTuple):
    """``kind``: text, whole (a whole number), limit (a whole number, -1 for none), rate, schedule or expression;
    ``needed``: an expression that may not be empty."""

    kind: str
    default: str
    words: str
    needed: bool = False


NAME: Final = "DEFRAG_NAME"
SCHEDULE: Final = "DEFRAG_DRAINING_SCHEDULE"
SCHEDULES: Final = ("graceful", "quick", "fast")

DEFRAG: Final[dict[str, DefragSetting]] = {
    NAME: DefragSetting("text", "", "whose drains they are: it stands in DrainReason"),
    "DEFRAG_INTERVAL": DefragSetting("whole", "600", "seconds between two looks at the pool; 0 or less: none"),
    "DEFRAG_UPDATE_INTERVAL": DefragSetting("whole", "300", "seconds between two updates of the Defrag ad"),
    "DEFRAG_DRAINING_MACHINES_PER_HOUR": DefragSetting("rate", "0", "how many machines are drained in an hour"),
    "DEFRAG_MAX_CONCURRENT_DRAINING": DefragSetting("limit", "-1", "while so many machines drain, none is added"),
    "DEFRAG_MAX_WHOLE_MACHINES": DefragSetting("limit", "-1", "while so many machines are whole, none is drained"),
    "DEFRAG_REQUIREMENTS": DefragSetting("expression", "", "which machines may be drained; empty: all"),
    "DEFRAG_CANCEL_REQUIREMENTS": DefragSetting(
        "expression", "Cpus == TotalSlotCpus", "of which machines the drain is canceled; empty: of none"
    ),
    "DEFRAG_WHOLE_MACHINE_EXPR": DefragSetting("expression", "Cpus == TotalSlotCpus", "which machines are whole", True),
    "DEFRAG_RANK": DefragSetting("expression", "-ExpectedMachineGracefulDrainingBadput", "which go first: the highest"),
    "DEFRAG_DRAINING_START_EXPR": DefragSetting("expression", "FALSE", "START of a machine while it drains gracefully"),
    SCHEDULE: DefragSetting("schedule", "graceful", "graceful, quick or fast"),
}


def unfit_for_defrag(name: str, text: str) -> str:
    """Return what is wrong with the text of one of these settings; empty: nothing."""
    setting = DEFRAG[name]
    if setting.kind in ("whole", "limit"):
        number = _whole(text)
        if number is None or (setting.kind == "limit" and number < -1):
            least = "" if setting.kind == "whole" else ", -1 or more,"
            return f"{name} = {text}: a whole number{least} is wanted"
    if setting.kind == "rate" and not _is_rate(text):
        return f"{name} = {text}: a number, 0 or more, is wanted"
    if setting.kind == "schedule" and text.strip().lower() not in SCHEDULES:
        return f"{name} = {text}: {', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]} is wanted"
    if setting.kind == "expression" and not text.strip():
        return f"{name} is empty: an expression is wanted" if setting.needed else ""
    if setting.kind == "expression":
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            return f"{name} = {text}: {error}"
    return ""


def _whole(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if abs(number) < 2**31 else None


def _is_rate(text: str) -> bool:
    try:
        return 0 <= float(text) < 1e9
    except ValueError:
        return False
