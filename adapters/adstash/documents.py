"""Convert ads to documents for a search engine, with condor_adstash's names and types of fields.

Source: condor_adstash's documents; adstash/convert.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...domain.classad import ERROR, UNDEFINED, ClassAd, Context, ListValue, unparse
from ...domain.state.job_ad import STATUS_NAMES
from .fields import CONVERSIONS, EPOCHS, HISTORY, IGNORED, Fields

Document = dict[str, Any]
_UNIVERSES: Final = {5: "Vanilla", 7: "Scheduler", 9: "Grid", 10: "Java", 11: "Parallel", 12: "Local", 13: "VM"}
_OF_ENDED_JOBS: Final = (3, 4, 6)
_OF_TRANSFERS: Final = ("ScheddName", "StartdSlot", "StartdName")
_UNKNOWN: Final = "UNKNOWN"


def document(ad: ClassAd, fields: Fields, now: int) -> Document:
    """Return the document of an ad.

    :param now: the time in seconds, if the ad contains no time
    """
    context = Context(now=now)
    time = _record_time(ad, now)
    result: Document = {"RecordTime": time, "@timestamp": time}
    about = _about_job(ad)
    result |= about if fields.kind in (HISTORY, EPOCHS) else {name: about[name] for name in _OF_TRANSFERS}
    for name, expression in ad.items():
        value = expression.evaluate(ad, None, context)
        result.update(_fields(fields, name, value, unparse(expression)))
    return result


def _about_job(ad: ClassAd) -> Document:
    slot, _, machine = (_string(ad, "RemoteHost") or _string(ad, "LastRemoteHost")).partition("@")
    return {
        "ScheddName": _string(ad, "GlobalJobId").partition("#")[0] or _UNKNOWN,
        "StartdSlot": slot or _UNKNOWN,
        "StartdName": machine or slot or _UNKNOWN,
        "Status": STATUS_NAMES.get(_number(ad, "JobStatus"), "Unknown"),
        "Universe": _UNIVERSES.get(_number(ad, "JobUniverse"), "Unknown"),
    }


def _record_time(ad: ClassAd, now: int) -> int:
    """Return the time of a document: when the job completed, the run ended, or the job's status last changed."""
    completed = _number(ad, "CompletionDate") if _number(ad, "JobStatus") in _OF_ENDED_JOBS else 0
    return completed or _number(ad, "EpochWriteDate") or _number(ad, "EnteredCurrentStatus") or now


def _fields(fields: Fields, name: str, value: Any, text: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, ClassAd):
        for inner in value:
            yield from _fields(fields, f"{name}.{inner}", value.eval(inner), unparse(value[inner]))
        return
    field, of_type = fields.field(name)
    if of_type == IGNORED:
        return
    if value is UNDEFINED or value is ERROR:
        if text.lower() != "undefined":
            yield f"{field}_EXPR", text
        return
    if isinstance(value, ListValue):
        value = unparse(value)
    try:
        yield field, CONVERSIONS[of_type](value)
    except (KeyError, TypeError, ValueError, OverflowError):
        yield f"{field}_STRING", str(value)


def _string(ad: ClassAd, name: str) -> str:
    value = ad.eval(name)
    return value if isinstance(value, str) else ""


def _number(ad: ClassAd, name: str) -> int:
    value = ad.eval(name)
    return value if type(value) is int and value > 0 else 0
