"""Format an attribute's value for a column: times, sizes, commands, states' letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context, Expression


class CellContext(NamedTuple):
    """What a command knows beyond its ads."""

    now: int  #: the time, in seconds since the epoch
    timezone: tzinfo = UTC  #: the zone in which times are shown
    schedd: str = "localhost"  #: the name of the queue, for titles
    address: str = "<127.0.0.1:0>"  #: its address, of which what follows a question mark is not shown
    me: str = ""  #: the user, ``alice@localhost``; empty for none, who sees all jobs
    source: str = ""  #: what the ads are from, for titles, where they are of no queue
    submitter: str = ""  #: whose jobs -submitter asks for, for titles
    width: int | None = None  #: the columns of the terminal; None if the output is no terminal, and nothing is cut

    @property
    def longest(self) -> int | None:
        """Return the length of the longest line; None if nothing is cut."""
        return None if self.width is None else self.width - 1

    @property
    def owner(self) -> str:
        """Return the Owner of the user's jobs."""
        return self.me.partition("@")[0]

    def context(self) -> Context:
        """Return the context of the expressions that this command evaluates."""
        from ...domain.classad import Context

        # random() must not give two answers in one listing's two passes: it is drawn from the time.
        return Context(now=self.now, timezone=self.timezone, seed=self.now)


Cell = Callable[["ClassAd", CellContext], str | None]
"""Returns a column's text for an ad; None if the ad has no value for it."""

# -- values --------------------------------------------------------------------------------------------------------


def number(ad: ClassAd, name: str) -> int | float | None:
    """Return an attribute's number (a boolean counts as 0 or 1); None if it has no finite one."""
    value = _value(ad, name)
    return value if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else None


def text(ad: ClassAd, name: str) -> str | None:
    """Return an attribute's string; None if it has none."""
    value = _value(ad, name)
    return value if isinstance(value, str) else None


def _value(ad: ClassAd, name: str) -> Any:
    from ...domain.classad import ERROR, EvaluationError

    try:
        return ad.eval(name)
    except EvaluationError:
        return ERROR


def flag(ad: ClassAd, name: str) -> bool:
    return bool(number(ad, name) or 0)


_PARSED: dict[str, Expression] = {}


def evaluate(ad: ClassAd, source: str, context: Context) -> Any:
    """Return the value of an attribute, or of an expression if the ad has no attribute of that name. An evaluation that
    fails is an error value, which the table shows."""
    from ...domain.classad import ERROR, EvaluationError, parse

    try:
        if source in ad:
            return ad.eval(source, None, context)
        expression = _PARSED.get(source)
        if expression is None:
            expression = _PARSED[source] = parse(source)
        return expression.evaluate(ad, None, context)
    except EvaluationError:
        return ERROR


def shown(value: Any) -> str:
    """Return a value as ``%v`` prints it: strings bare, all else as ClassAd text."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    from ...domain.classad.unparse import unparse_old

    return unparse_old(value)


# -- times and sizes -----------------------------------------------------------------------------------------------


def length(seconds: float) -> str:
    """Format a duration as days+hours:minutes:seconds, in 12 columns."""
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    return f"{days:3d}+{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def length_of(microseconds: int) -> str:
    """Format a duration in microseconds, in as many columns as it needs."""
    return length(microseconds // 1_000_000).strip()


LAST_YEAR = 253370764800  # 9999 begins


def date(seconds: float, zone: tzinfo) -> str:
    """Format an instant as month/day hour:minute, in 11 columns; question marks before 1970 and after the year 9998."""
    if not 0 <= seconds < LAST_YEAR:
        return "    ???    "
    at = datetime.fromtimestamp(int(seconds), zone)
    return f"{at.month:2d}/{at.day:<2d} {at.hour:02d}:{at.minute:02d}"


def hold_reason(ad: ClassAd, _: object = None) -> str | None:
    """Return why a job is held; of an endless expression the beginning."""
    from ...replay.narration.formatting import in_part

    reason = text(ad, "HoldReason")
    return None if reason is None else in_part(reason)


def metric(size: float) -> str:
    """Format a size in bytes with its unit: 23.5 GB."""
    units = ["B ", "KB", "MB", "GB", "TB"]
    while size > 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}"


# -- slots ---------------------------------------------------------------------------------------------------------

STATE_CODES = {
    "Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Shutdown": "S", "Delete": "X",
    "Backfill": "F", "Drained": "D",
}  # fmt: skip
ACTIVITY_CODES = {
    "Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s", "Benchmarking": "e", "Killing": "k",
    "Cleaning": "c",
}  # fmt: skip
"""The letters of the column ST: the state's and the activity's; ``*`` if the slots differ."""
_ARCHITECTURES = {"X86_64": "x64", "X86": "x86"}


def short_platform(ad: ClassAd, _: Any = None) -> str | None:
    """Return the platform in short: x64/Debian13."""
    system = text(ad, "OpSys")
    name = text(ad, "OpSysShortName" if system == "WINDOWS" else "OpSysAndVer")
    arch = text(ad, "Arch") or ""
    return None if name is None else f"{_ARCHITECTURES.get(arch, arch)}/{name}"


# -- jobs ----------------------------------------------------------------------------------------------------------

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING_OUTPUT, SUSPENDED = range(1, 8)
"""HTCondor's numbers of the job states (manual: Job ClassAd Attributes, JobStatus)."""

STATUS_LETTERS = " IRXCH>SFBP"
"""The letter of each state, by its number."""

UNIVERSES = {1: "Standard", 5: "Vanilla", 7: "Scheduler", 8: "MPI", 9: "Grid", 10: "Java", 11: "Parallel", 12: "Local"}


def job_id(ad: ClassAd, _: CellContext | None = None) -> str | None:
    cluster, proc = number(ad, "ClusterId"), number(ad, "ProcId")
    return None if cluster is None else f"{cluster}.{-1 if proc is None else proc}"


def job_status(ad: ClassAd, _: CellContext) -> str | None:
    """Return the state's letter, or the file transfer's: ``<`` in, ``>`` out, ``q`` waiting."""
    status = number(ad, "JobStatus")
    if status is None:
        return None
    letters = f"{STATUS_LETTERS[int(status)] if 0 < status < len(STATUS_LETTERS) else ' '} "
    queued = "q" if flag(ad, "TransferQueued") else " "
    if flag(ad, "TransferringInput"):
        letters = "<" + queued
    if flag(ad, "TransferringOutput") or status == TRANSFERRING_OUTPUT:
        letters = queued + ">"
    return letters


def memory(ad: ClassAd) -> float | None:
    """Return the job's memory in MB; before it was measured, its image size."""
    used, image = number(ad, "MemoryUsage"), number(ad, "ImageSize")
    if used is not None:
        return float(int(used))
    return None if image is None else image / 1024


def memory_usage(ad: ClassAd, _: CellContext) -> str | None:
    """Return the job's memory as the column SIZE shows it."""
    used = memory(ad)
    return None if used is None else f"{used:.1f}"


def description(ad: ClassAd, _: CellContext) -> str | None:
    """Return the job's description in brackets, else the program's last name and its arguments."""
    program = text(ad, "Cmd")
    if program is None:
        return None
    own = text(ad, "MATCH_EXP_JobDescription") or text(ad, "JobDescription")
    if own:
        return f"({own})"
    arguments = text(ad, "Arguments")
    if arguments is None:
        arguments = text(ad, "Args")
    return program.rpartition("/")[2] + (f" {arguments}" if arguments else "")


def wall_time(ad: ClassAd, setting: CellContext, current: bool = False) -> float | None:
    """Return the job's run time in seconds: its finished runs and the present one, or the ``current`` one alone. The
    current run of a job that does not run is its last one. (Manual: condor_q, -currentrun.)"""
    if number(ad, "RemoteUserCpu") is None:
        return None
    status, since = number(ad, "JobStatus"), number(ad, "ShadowBday")
    past = 0.0 if current else number(ad, "RemoteWallClockTime") or 0.0
    if status in (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED) and since:
        return past + setting.now - since
    if current and status in (IDLE, HELD):
        return number(ad, "LastRemoteWallClockTime") or 0.0
    return past
