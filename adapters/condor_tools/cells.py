"""Format an attribute's value for a column: times, sizes, commands, state letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context


class CellContext(NamedTuple):
    """The context of a command's output, in addition to the ads."""

    now: int  #: the current time, in seconds since the epoch
    timezone: tzinfo = UTC  #: the time zone for printed times
    schedd: str = "localhost"  #: the name of the queue, for titles
    address: str = "<127.0.0.1:0>"  #: the queue's address; the part after a question mark is not printed
    me: str = ""  #: the user, ``alice@localhost``, or empty if there is none
    source: str = ""  #: the source of the ads, for titles, if the source is not a queue
    submitter: str = ""  #: the value of -submitter, for titles
    width: int | None = None  #: the terminal's width in columns; None (not a terminal): lines are not truncated

    @property
    def longest(self) -> int | None:
        """Return the maximum length of a line, or None if lines are not truncated."""
        return None if self.width is None else self.width - 1

    @property
    def owner(self) -> str:
        return self.me.partition("@")[0]

    def context(self) -> Context:
        from ...domain.classad import Context

        # random() must return the same values in both passes over a listing, so the time is its seed.
        return Context(now=self.now, timezone=self.timezone, seed=self.now)


Cell = Callable[["ClassAd", CellContext], str | None]
"""Return a column's text for an ad, or None if the ad has no value for it."""


def number(ad: ClassAd, name: str) -> int | float | None:
    """Return an attribute's number (1 or 0 for a boolean), or None if it has no finite number."""
    value = _value(ad, name)
    return value if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else None


def text(ad: ClassAd, name: str) -> str | None:
    """Return an attribute's string, or None if it is not a string."""
    value = _value(ad, name)
    return value if isinstance(value, str) else None


def _value(ad: ClassAd, name: str) -> Any:
    from ...domain.classad import ERROR, EvaluationError

    try:
        return ad.eval(name)
    except EvaluationError:
        return ERROR


def has_flag(ad: ClassAd, name: str) -> bool:
    return bool(number(ad, name) or 0)


def evaluate(ad: ClassAd, source: str, context: Context) -> Any:
    """Return the value of an attribute, or of an expression if the ad has no attribute with this name. If the
    evaluation fails, return an error value, which the table shows."""
    from ...domain.classad import ERROR, EvaluationError, parse

    try:
        return ad.eval(source, None, context) if source in ad else parse(source).evaluate(ad, None, context)
    except EvaluationError:
        return ERROR


def value_text(value: Any) -> str:
    """Return a value as ``%v`` prints it: strings unquoted, all other values as ClassAd text."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    from ...domain.classad.unparse import unparse_old

    return unparse_old(value)


def duration(seconds: float) -> str:
    """Format a duration as days+hours:minutes:seconds, in 12 columns."""
    days, remaining = divmod(int(seconds), 86400)
    hours, remaining = divmod(remaining, 3600)
    return f"{days:3d}+{hours:02d}:{remaining // 60:02d}:{remaining % 60:02d}"


def duration_of_us(microseconds: int) -> str:
    """Format a duration in microseconds, without padding."""
    return duration(microseconds // 1_000_000).strip()


LAST_YEAR = 253370764800  # 9999 begins


def short_date(seconds: float, zone: tzinfo) -> str:
    """Format a time as month/day hour:minute, in 11 columns; question marks before 1970 and after the year 9998."""
    if not 0 <= seconds < LAST_YEAR:
        return "    ???    "
    at = datetime.fromtimestamp(int(seconds), zone)
    return f"{at.month:2d}/{at.day:<2d} {at.hour:02d}:{at.minute:02d}"


def hold_reason(ad: ClassAd, _: object = None) -> str | None:
    """Return a job's hold reason; shorten a very long reason."""
    from ...replay.narration.formatting import excerpt

    reason = text(ad, "HoldReason")
    return None if reason is None else excerpt(reason)


def size_with_unit(size: float) -> str:
    """Format a size in bytes with a unit, as in 23.5 GB."""
    units = ["B ", "KB", "MB", "GB", "TB"]
    while size > 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}"


STATE_CODES = {
    "Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Shutdown": "S", "Delete": "X",
    "Backfill": "F", "Drained": "D",
}  # fmt: skip
ACTIVITY_CODES = {
    "Idle": "i", "Busy": "b", "Retiring": "r", "Vacating": "v", "Suspended": "s", "Benchmarking": "e", "Killing": "k",
    "Cleaning": "c",
}  # fmt: skip
"""The letters in the column ST for the state and the activity; ``*`` if the slots differ."""
_ARCHITECTURES = {"X86_64": "x64", "X86": "x86"}


def short_platform(ad: ClassAd, _: Any = None) -> str | None:
    """Return a short form of the platform, as in x64/Debian13."""
    system = text(ad, "OpSys")
    name = text(ad, "OpSysShortName" if system == "WINDOWS" else "OpSysAndVer")
    arch = text(ad, "Arch") or ""
    return None if name is None else f"{_ARCHITECTURES.get(arch, arch)}/{name}"


IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING_OUTPUT, SUSPENDED = range(1, 8)
"""HTCondor's numbers for the job states (manual: Job ClassAd Attributes, JobStatus)."""

STATUS_LETTERS = " IRXCH>SFBP"
"""The letter of each job state, by its number."""

UNIVERSES = {1: "Standard", 5: "Vanilla", 7: "Scheduler", 8: "MPI", 9: "Grid", 10: "Java", 11: "Parallel", 12: "Local"}


def job_id(ad: ClassAd, _: CellContext | None = None) -> str | None:
    cluster, proc = number(ad, "ClusterId"), number(ad, "ProcId")
    return None if cluster is None else f"{cluster}.{-1 if proc is None else proc}"


def job_status(ad: ClassAd, _: CellContext) -> str | None:
    """Return the letter of the job's state or file transfer: ``<`` input, ``>`` output, ``q`` waiting."""
    status = number(ad, "JobStatus")
    if status is None:
        return None
    letters = f"{STATUS_LETTERS[int(status)] if 0 < status < len(STATUS_LETTERS) else ' '} "
    queue_sign = "q" if has_flag(ad, "TransferQueued") else " "
    if has_flag(ad, "TransferringInput"):
        letters = "<" + queue_sign
    if has_flag(ad, "TransferringOutput") or status == TRANSFERRING_OUTPUT:
        letters = queue_sign + ">"
    return letters


def memory(ad: ClassAd) -> float | None:
    """Return the job's memory usage in MB, or its image size before the usage was measured."""
    used_memory, image = number(ad, "MemoryUsage"), number(ad, "ImageSize")
    if used_memory is not None:
        return float(int(used_memory))
    return None if image is None else image / 1024


def memory_usage(ad: ClassAd, _: CellContext) -> str | None:
    used_memory = memory(ad)
    return None if used_memory is None else f"{used_memory:.1f}"


def job_description(ad: ClassAd, _: CellContext) -> str | None:
    """Return the job's description in brackets, otherwise the base name of the program and its arguments."""
    program = text(ad, "Cmd")
    if program is None:
        return None
    job_description = text(ad, "MATCH_EXP_JobDescription") or text(ad, "JobDescription")
    if job_description:
        return f"({job_description})"
    arguments = text(ad, "Arguments")
    if arguments is None:
        arguments = text(ad, "Args")
    return program.rpartition("/")[2] + (f" {arguments}" if arguments else "")


def wall_time(ad: ClassAd, display: CellContext, current: bool = False) -> float | None:
    """Return the job's run time in seconds: of all its runs, or with ``current`` only of the current one. If the job is
    not running, the current run is the last one. (Manual: condor_q, -currentrun.)"""
    if number(ad, "RemoteUserCpu") is None:
        return None
    status, since = number(ad, "JobStatus"), number(ad, "ShadowBday")
    past_time = 0.0 if current else number(ad, "RemoteWallClockTime") or 0.0
    if status in (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED) and since:
        return past_time + display.now - since
    if current and status in (IDLE, HELD):
        return number(ad, "LastRemoteWallClockTime") or 0.0
    return past_time


Written = Callable[[Any, "ClassAd", CellContext], str | None]


class CellFunction(NamedTuple):
    """A function that formats a column's value; the result is None if there is no value."""

    written: Written
    late: bool = False  #: whether the column's data does not widen its heading


def cell_of(source: str, function: CellFunction) -> Cell:
    """Return the cell for an expression whose value is formatted by a function."""
    return lambda ad, setting: function.written(evaluate(ad, source, setting.context()), ad, setting)


def _number_function(write: Callable[[float, CellContext], str]) -> Written:
    def format_cell(value: Any, _: ClassAd, display: CellContext) -> str | None:
        return write(value, display) if isinstance(value, int | float) else None

    return format_cell


def _ad_function(cell: Cell) -> Written:
    return lambda _, ad, setting: cell(ad, setting)


def _size_function(unit: int) -> Written:
    return lambda value, *_: size_with_unit(value * unit) if isinstance(value, int | float) else " " * 8


def _run_time(_: Any, ad: ClassAd, display: CellContext) -> str | None:
    seconds = wall_time(ad, display)
    return None if seconds is None else duration(seconds)


def _first_time(ad: ClassAd, *names: str) -> float | None:
    return next((time for time in (number(ad, name) for name in names) if time is not None), None)


def _until_ad_time(write: Callable[[float, float], float], *clock_names: str) -> Written:
    def format_cell(value: Any, ad: ClassAd, _: CellContext) -> str | None:
        now = _first_time(ad, *clock_names)
        return None if now is None else duration(write(now, value if isinstance(value, int | float) else 0))

    return format_cell


def _until_now(*clock_names: str) -> Written:
    """Format the time from an attribute's time to the ad's time, or to now if the ad has none."""

    def format_cell(value: Any, ad: ClassAd, display: CellContext) -> str | None:
        at = _first_time(ad, *clock_names)
        return duration(max(0, (display.now if at is None else at) - value)) if isinstance(value, int | float) else None

    return format_cell


def _due_date(value: Any, ad: ClassAd, display: CellContext) -> str | None:
    heard = number(ad, "LastHeardFrom")
    seconds_left = value if isinstance(value, int | float) else 0
    return None if heard is None else short_date(heard + seconds_left, display.timezone)


def _list_items(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    if isinstance(value, bool | int | float) or not hasattr(value, "__len__"):
        return None
    return [value_text(item) for item in value]


def _state_code(ad: ClassAd, _: CellContext) -> str | None:
    state, activity = STATE_CODES.get(text(ad, "State") or ""), ACTIVITY_CODES.get(text(ad, "Activity") or "")
    return None if state is None and activity is None else (state or " ") + (activity or " ")


def _items_function(write: Callable[[list[str]], str]) -> Written:
    def format_cell(value: Any, *_: Any) -> str | None:
        items = _list_items(value)
        return None if items is None else write(items)

    return format_cell


def _version_number(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    return words[1] if len(words) > 1 else None


def _version_with_package(value: Any, *_: Any) -> str | None:
    """Return the version with the text that follows its date, as in ``25.14.1.PackageID:``."""
    words = value.split() if isinstance(value, str) else []
    if len(words) < 2:
        return None
    date_word = 3 if len(words) > 2 and words[2].count("-") == 2 else 5
    build_id = words[date_word] if len(words) > date_word else "$"
    return words[1] + ("." + build_id.partition("-")[0] if build_id != "$" else "")


def _activity_with_time(value: Any, ad: ClassAd, _: CellContext) -> str:
    if not isinstance(value, str):
        return "??"
    return "OCU" if value == "Idle" and number(ad, "OCU") else value


def transfer_state(ad: ClassAd, _: CellContext | None = None) -> str:
    """Return a job's file transfers for -io, or an empty string if there are none."""
    phases = [("TransferringInput", "in"), ("TransferringOutput", "out"), ("TransferQueued", "queued")]
    running_phases = [word for name, word in phases if has_flag(ad, name)]
    return " transfer=" + ",".join(running_phases) if running_phases else ""


def _condor_platform(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    if len(words) < 2:
        return None
    name = re.split(r"[ .$]", words[1])[0].replace("-", "_")
    return "x" + name[1:] if name.startswith("X") else name


_RAW_ATTRIBUTES = {1: "Idle   ", 2: "Running", 3: "Removed", 4: "Complet", 5: "Held   ", 6: "XFerOut", 7: "Suspend",
        8: "Failed ", 9: "Blocked"}  # fmt: skip


def _command_cell(_: Any, ad: ClassAd, display: CellContext) -> str | None:
    return job_description(ad, display)


_FACTORY_MODES = {-1: "Errs", 0: "Norm", 1: "Held", 2: "Done", 3: "Gone"}

_OWNER = CellFunction(lambda _, ad, __: text(ad, "Owner"))
_DATE = _number_function(lambda seconds, setting: short_date(seconds, setting.timezone))
_TIME = _number_function(lambda seconds, _: duration(seconds))

FUNCTIONS: dict[str, CellFunction] = {
    "ACTIVITY_CODE": CellFunction(_ad_function(_state_code)),
    "ACTIVITY_TIME": CellFunction(
        _until_ad_time(lambda now, value: max(0, now - value), "MyCurrentTime", "LastHeardFrom")
    ),
    "CONDOR_PLATFORM": CellFunction(_condor_platform),
    "CONDOR_VERSION": CellFunction(_version_number),
    "CPU_TIME": CellFunction(_run_time),
    "DAG_OWNER": _OWNER,
    "DATE": CellFunction(_DATE, late=True),
    "DUE_DATE": CellFunction(_due_date),
    "ELAPSED_TIME": CellFunction(_until_ad_time(lambda now, value: now - value, "LastHeardFrom")),
    "JOB_COMMAND": CellFunction(_command_cell),
    "JOB_DESCRIPTION": CellFunction(_command_cell),
    "JOB_FACTORY_MODE": CellFunction(_number_function(lambda mode, _: _FACTORY_MODES.get(int(mode), "Unk"))),
    "JOB_ID": CellFunction(_ad_function(job_id)),
    "JOB_STATUS": CellFunction(_ad_function(job_status)),
    "JOB_STATUS_RAW": CellFunction(
        _number_function(lambda status, _: _RAW_ATTRIBUTES.get(int(status), "Unk    ")), late=True
    ),
    "JOB_UNIVERSE": CellFunction(_number_function(lambda which, _: UNIVERSES.get(int(which), "Unknown")), late=True),
    "LOAD_AVG": CellFunction(_number_function(lambda load, _: f"{load:.3f}"), late=True),
    "MEMBER_COUNT": CellFunction(_items_function(lambda items: str(len(items)))),
    "MEMORY_USAGE": CellFunction(_ad_function(memory_usage)),
    "OWNER": _OWNER,
    "PLATFORM": CellFunction(_ad_function(short_platform)),
    "QDATE": CellFunction(_DATE),
    "READABLE_BYTES": CellFunction(_size_function(1), late=True),
    "READABLE_KB": CellFunction(_size_function(1024), late=True),
    "READABLE_MB": CellFunction(_size_function(1024 * 1024), late=True),
    "REMOTE_HOST": CellFunction(lambda _, ad, __: text(ad, "RemoteHost") or None),
    "RUNTIME": CellFunction(_TIME, late=True),
    "STRINGS_FROM_LIST": CellFunction(_items_function(", ".join)),
    "TIME": CellFunction(_TIME, late=True),
    "UNIQUE": CellFunction(_items_function(lambda items: ", ".join(sorted(set(items))))),
}

OWN_FUNCTIONS: dict[str, CellFunction] = {
    "activity": CellFunction(_activity_with_time),
    "bytes": CellFunction(_size_function(1)),
    "hold_reason": CellFunction(_ad_function(hold_reason)),
    "megabytes": CellFunction(_number_function(lambda size, _: size_with_unit(size * 1024 * 1024))),
    "since": CellFunction(_until_now("LastHeardFrom")),
    "since_activity": CellFunction(_until_now("MyCurrentTime", "LastHeardFrom")),
    "string": CellFunction(lambda value, *_: value if isinstance(value, str) else None),
    "transfer": CellFunction(_ad_function(transfer_state)),
    "version": CellFunction(_version_with_package),
}
"""Functions for the tools' built-in tables; print formats cannot use them."""

UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(("GRID_JOB_ID", "GRID_RESOURCE", "GRID_STATUS"), "Poolbook has no grid jobs"),
    "ACTIVITY_OR_OCU": "use ACTIVITY_CODE or the attribute Activity instead",
    "BATCH_NAME": "use the attribute JobBatchName instead",
    "BUFFER_IO_MISC": "-io shows transfers",
    "UNHEALTH": "Poolbook does not report health checks",
}
"""HTCondor functions that are rejected, with the reason or the alternative."""
