"""Convert ads to documents for a search engine, with condor_adstash's names and types of fields.

Source: condor_adstash's documents; adstash/ad_converters/.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from ...domain.classad import ERROR, UNDEFINED, AbsTime, ClassAd, Context, Expression, ListValue, RelTime, unparse
from ...domain.classad.tree import AdExpression, ListExpression, Literal, TimeLiteral
from .fields import CONVERSIONS, EPOCHS, HISTORY, KEYWORD_LENGTH, TEXTS, Fields

Document = dict[str, Any]
_STATUSES: Final = ("Unexpanded", "Idle", "Running", "Removed", "Completed", "Held", "Error")
_UNIVERSES: Final = {
    1: "Standard", 2: "Pipe", 3: "Linda", 4: "PVM", 5: "Vanilla", 6: "PVMD", 7: "Scheduler", 8: "MPI", 9: "Grid",
    10: "Java", 11: "Parallel", 12: "Local",
}  # fmt: skip
_TIMES: Final = {HISTORY: ("CompletionDate", "EnteredCurrentStatus")}
_OF_EPOCHS: Final = ("EpochWriteDate",)
_OF_TRANSFERS: Final = ("ScheddName", "StartdSlot", "StartdName")
_UNKNOWN: Final = "UNKNOWN"


def document(ad: ClassAd, fields: Fields, now: int) -> Document:
    """Return the document of an ad.

    :param now: the time in seconds, if the ad contains no time
    """
    context = Context(now=now)
    times = (_number(ad, name, context) for name in _TIMES.get(fields.kind, _OF_EPOCHS))
    time = next(filter(None, times), now)
    result: Document = {}
    for name, expression in ad.items():
        result.update(_fields(fields, name, expression, ad, context))
    about = _about_job(ad, context)
    result |= about if fields.kind in (HISTORY, EPOCHS) else {name: about[name] for name in _OF_TRANSFERS}
    return {"RecordTime": time, "@timestamp": time, **result}


def _about_job(ad: ClassAd, context: Context) -> Document:
    last_host = _string(ad, "LastRemoteHost", context, f"{_UNKNOWN}@{_UNKNOWN}")
    host, status = _string(ad, "RemoteHost", context, last_host), ad.eval("JobStatus", context=context)
    return {
        "ScheddName": _string(ad, "GlobalJobId", context, _UNKNOWN).partition("#")[0],
        "StartdSlot": host.partition("@")[0],
        "StartdName": host.rpartition("@")[2],
        "Status": _STATUSES[status] if type(status) is int and 0 <= status < len(_STATUSES) else "Unknown",
        "Universe": _UNIVERSES.get(_number(ad, "JobUniverse", context), "Unknown"),
    }


def _fields(
    fields: Fields, name: str, expression: Expression, ad: ClassAd, context: Context, keeps_case: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an attribute, unless its value cannot have the field's type. ``keeps_case``: the ad is the
    value of a known attribute, so the names in it remain as they are."""
    if fields.is_ignored(name):
        return
    field, of_type, is_known = fields.field(name)
    field = name if keeps_case and not is_known else field
    value = expression.evaluate(ad, None, context)
    if isinstance(value, ListValue) and isinstance(expression, ListExpression):
        is_nested = is_known and of_type == "nested"
        yield (
            (field, _plain(value, context))
            if is_nested
            else (field.lower(), _shortened(json.dumps(_plain(value, context))))
        )
    elif isinstance(value, ClassAd):
        if is_known and of_type in TEXTS:
            yield field, _shortened(json.dumps(_plain(value, context)))
        elif not is_known or of_type == "object":
            for inner in value:
                inner_name = f"{field if is_known else name}.{inner}"
                yield from _fields(fields, inner_name, value[inner], value, context, is_known)
    elif value is UNDEFINED or value is ERROR:
        if not isinstance(expression, Literal):
            yield f"{field}_EXPR", _shortened(unparse(expression))
    else:
        try:
            yield field, _shortened(CONVERSIONS[of_type](_plain(value, context)))
        except (KeyError, TypeError, ValueError, OverflowError):
            return


def _plain(value: Any, context: Context) -> Any:
    """Return a value as Python's: of a list, the members that are no constants as texts; of an ad, the values."""
    if isinstance(value, ListValue):
        constants = Literal, ListExpression, AdExpression, TimeLiteral
        members = zip(value.expressions, value, strict=True)
        return [_plain(each, context) if isinstance(member, constants) else unparse(member) for member, each in members]
    if isinstance(value, ClassAd):
        names = sorted(value, key=str.lower)
        return {name: _plain(value[name].evaluate(value, None, context), context) for name in names}
    if isinstance(value, AbsTime):
        return str(datetime.fromtimestamp(value.seconds, UTC))
    if isinstance(value, RelTime):
        return value.seconds
    return None if value is UNDEFINED or value is ERROR else value


def _shortened(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > KEYWORD_LENGTH
    return f"{value[: KEYWORD_LENGTH - 3]}..." if is_long else value


def _string(ad: ClassAd, name: str, context: Context, default: str) -> str:
    value = ad.eval(name, context=context)
    return value if isinstance(value, str) else default


def _number(ad: ClassAd, name: str, context: Context) -> int:
    value = ad.eval(name, context=context)
    return value if type(value) is int and value > 0 else 0
