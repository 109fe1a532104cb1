"""What a print format's PRINTAS names: functions that write a column's value in their own way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .cells import (
    UNIVERSES,
    Cell,
    Setting,
    date,
    description,
    evaluate,
    job_id,
    job_status,
    length,
    memory_usage,
    metric,
    number,
    shown,
    text,
    text_of,
    wall_time,
)
from .status_compact import ACTIVITIES, STATES
from .status_totals import short_platform

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Written = Callable[[Any, "ClassAd", Setting], str | None]


class Function(NamedTuple):
    """Returns the text of a column's value, of its ad; None if there is none."""

    written: Written
    late: bool = False  #: whether the column's heading is as wide as it is written alone, and not as its data


def cell_of(source: str, function: Function) -> Cell:
    """Return the column of an expression that a function writes."""
    return lambda ad, setting: function.written(evaluate(ad, source, setting.context()), ad, setting)


def _of_number(write: Callable[[float, Setting], str]) -> Written:
    def written(value: Any, _: ClassAd, setting: Setting) -> str | None:
        return write(value, setting) if isinstance(value, int | float) else None

    return written


def _of_ad(cell: Cell) -> Written:
    return lambda _, ad, setting: cell(ad, setting)


def _readable(unit: int) -> Written:
    return lambda value, *_: metric(value * unit) if isinstance(value, int | float) else " " * 8


def _run_time(_: Any, ad: ClassAd, setting: Setting) -> str | None:
    seconds = wall_time(ad, setting)
    return None if seconds is None else length(seconds)


def _since(write: Callable[[float, float], float], *clocks: str) -> Written:
    """Write a length of time that ends at the ad's own clock."""

    def written(value: Any, ad: ClassAd, _: Setting) -> str | None:
        now = next((time for time in (number(ad, clock) for clock in clocks) if time is not None), None)
        return None if now is None else length(write(now, value if isinstance(value, int | float) else 0))

    return written


def _due(value: Any, ad: ClassAd, setting: Setting) -> str | None:
    heard = number(ad, "LastHeardFrom")
    return None if heard is None else date(heard + (value if isinstance(value, int | float) else 0), setting.timezone)


def _items(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    if isinstance(value, bool | int | float) or not hasattr(value, "__len__"):
        return None
    return [shown(item) for item in value]


def _state_code(ad: ClassAd, _: Setting) -> str | None:
    state, activity = STATES.get(text(ad, "State") or ""), ACTIVITIES.get(text(ad, "Activity") or "")
    return None if state is None and activity is None else (state or " ") + (activity or " ")


def _of_items(write: Callable[[list[str]], str]) -> Written:
    def written(value: Any, *_: Any) -> str | None:
        items = _items(value)
        return None if items is None else write(items)

    return written


def _version(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    return words[1] if len(words) > 1 else None


def _condor_platform(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    if len(words) < 2:
        return None
    name = re.split(r"[ .$]", words[1])[0].replace("-", "_")
    return "x" + name[1:] if name.startswith("X") else name


_RAW = {1: "Idle   ", 2: "Running", 3: "Removed", 4: "Complet", 5: "Held   ", 6: "XFerOut", 7: "Suspend",
        8: "Failed ", 9: "Blocked"}  # fmt: skip


def _command(_: Any, ad: ClassAd, setting: Setting) -> str | None:
    return description(ad, setting)


_FACTORY_MODES = {-1: "Errs", 0: "Norm", 1: "Held", 2: "Done", 3: "Gone"}

_OWNER = Function(_of_ad(text_of("Owner")))
_DATE = _of_number(lambda seconds, setting: date(seconds, setting.timezone))
_TIME = _of_number(lambda seconds, _: length(seconds))

FUNCTIONS: dict[str, Function] = {
    "ACTIVITY_CODE": Function(_of_ad(_state_code)),
    "ACTIVITY_TIME": Function(_since(lambda now, value: max(0, now - value), "MyCurrentTime", "LastHeardFrom")),
    "CONDOR_PLATFORM": Function(_condor_platform),
    "CONDOR_VERSION": Function(_version),
    "CPU_TIME": Function(_run_time),
    "DAG_OWNER": _OWNER,
    "DATE": Function(_DATE, late=True),
    "DUE_DATE": Function(_due),
    "ELAPSED_TIME": Function(_since(lambda now, value: now - value, "LastHeardFrom")),
    "JOB_COMMAND": Function(_command),
    "JOB_DESCRIPTION": Function(_command),
    "JOB_FACTORY_MODE": Function(_of_number(lambda mode, _: _FACTORY_MODES.get(int(mode), "Unk"))),
    "JOB_ID": Function(_of_ad(job_id)),
    "JOB_STATUS": Function(_of_ad(job_status)),
    "JOB_STATUS_RAW": Function(_of_number(lambda status, _: _RAW.get(int(status), "Unk    ")), late=True),
    "JOB_UNIVERSE": Function(_of_number(lambda which, _: UNIVERSES.get(int(which), "Unknown")), late=True),
    "LOAD_AVG": Function(_of_number(lambda load, _: f"{load:.3f}"), late=True),
    "MEMBER_COUNT": Function(_of_items(lambda items: str(len(items)))),
    "MEMORY_USAGE": Function(_of_ad(memory_usage)),
    "OWNER": _OWNER,
    "PLATFORM": Function(_of_ad(short_platform)),
    "QDATE": Function(_DATE),
    "READABLE_BYTES": Function(_readable(1), late=True),
    "READABLE_KB": Function(_readable(1024), late=True),
    "READABLE_MB": Function(_readable(1024 * 1024), late=True),
    "REMOTE_HOST": Function(lambda _, ad, __: text(ad, "RemoteHost") or None),
    "RUNTIME": Function(_TIME, late=True),
    "STRINGS_FROM_LIST": Function(_of_items(", ".join)),
    "TIME": Function(_TIME, late=True),
    "UNIQUE": Function(_of_items(lambda items: ", ".join(sorted(set(items))))),
}

NOT_FOLLOWED: dict[str, str] = {
    **dict.fromkeys(("GRID_JOB_ID", "GRID_RESOURCE", "GRID_STATUS"), "there are no grid jobs"),
    "ACTIVITY_OR_OCU": "ACTIVITY_CODE and the attribute Activity say what a slot does",
    "BATCH_NAME": "the attribute JobBatchName has the name",
    "BUFFER_IO_MISC": "-io shows transfers",
    "UNHEALTH": "health checks are not reported yet",
}
"""Functions of HTCondor's that are refused: why, or what to do instead."""
