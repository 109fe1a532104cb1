"""Turn the entries of a job event log that are XML or JSON ads into the text of the classic form.

What an ad leaves out is left out. The names and forms of the attributes are those of ``toClassAd`` in HTCondor's
``condor_event.cpp`` (25.14).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeGuard
from xml.etree import ElementTree

Values = dict[str, Any]  #: an ad's attributes: texts, numbers, booleans, None, nested ads, and ``ExpressionText``
Entry = tuple[int, int, int, int, str, str]  #: number, cluster, proc, subproc, time, text


class Unreadable(Exception):
    """An ad is no entry; the text says why."""


class ExpressionText(str):
    """The text of an expression."""


_ABOUT: Final = frozenset({"MyType", "EventTypeNumber", "EventTime", "Cluster", "Proc", "Subproc", "TargetType"})
_NOT_RESOURCES: Final = _ABOUT | {
    "Checkpointed", "TerminatedAndRequeued", "TerminatedNormally", "ReturnValue", "TerminatedBySignal", "CoreFile",
    "Reason", "ReasonCode", "ReasonSubCode", "Node", "ToE", "RunLocalUsage", "RunRemoteUsage", "TotalLocalUsage",
    "TotalRemoteUsage", "SentBytes", "ReceivedBytes", "TotalSentBytes", "TotalReceivedBytes",
}  # fmt: skip
_UNITS: Final = {"Memory": "(MB)", "Disk": "(KB)", "TimeExecute": "(s)", "TimeSlotBusy": "(s)"}


def entry_of_json(text: str) -> Entry:
    """Return a JSON object as an entry. Raise ``Unreadable``."""
    try:
        ad = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}") from None
    if not isinstance(ad, dict):
        raise Unreadable("it is no ad")
    return _entry(_plain(ad))


def entry_of_xml(text: str) -> Entry:
    """Return an XML ad as an entry. Raise ``Unreadable``."""
    try:
        tree = ElementTree.fromstring(text)
        return _entry(_xml_ad(tree))
    except (ElementTree.ParseError, ValueError, RecursionError, OverflowError) as error:
        raise Unreadable(f"it is no XML ad: {error}") from None


def _plain(value: Any) -> Any:
    """Return a JSON value with its expressions as ``ExpressionText``."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, str) and value.startswith("/Expr(") and value.endswith(")/"):
        return ExpressionText(value[6:-2])
    return value


def _xml_ad(tree: ElementTree.Element) -> Values:
    return {part.get("n", ""): _xml_value(part[0]) for part in tree if part.tag == "a" and len(part)}


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_XML_VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "s": lambda text: re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text),
    "i": int,
    "r": float,
    "e": ExpressionText,
}


def _xml_value(part: ElementTree.Element) -> Any:
    if part.tag == "b":
        return part.get("v") == "t"
    if part.tag == "c":
        return _xml_ad(part)
    if part.tag == "l":
        return [_xml_value(inner) for inner in part]
    return _XML_VALUES[part.tag](part.text or "") if part.tag in _XML_VALUES else None


def _entry(ad: Values) -> Entry:
    number, when = ad.get("EventTypeNumber"), ad.get("EventTime")
    ids = [ad.get(name, missing) for name, missing in (("Cluster", -1), ("Proc", -1), ("Subproc", 0))]
    if not _is_number(number) or not 0 <= number <= 999:
        raise Unreadable("it does not say what kind of entry it is")
    if not isinstance(when, str):
        raise Unreadable("it does not say when it was written")
    if not all(_is_number(part) and abs(part) < 10**9 for part in ids):
        raise Unreadable("it does not say of which job it is")
    try:
        text = _TEXTS.get(number, _other)(ad)
    except (ValueError, OverflowError, TypeError) as error:
        raise Unreadable(f"it makes no sense: {error}") from None
    return number, ids[0], ids[1], ids[2], when, text


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(ad: Values, name: str, before: str = "\n\t") -> str:
    """Return a text as a line of its own, or "". Line ends become ``|``, as in HTCondor's own writing."""
    value = ad.get(name)
    return "" if value in (None, "") else before + str(value).replace("\n", "|").replace("\r", " ")


def _amount(ad: Values, name: str, words: str) -> str:
    value = ad.get(name)
    return f"\n\t{int(value)}  -  {words}" if isinstance(value, int | float) else ""


_WORDS: Final = {None: "undefined", True: "true", False: "false"}


def _unparsed(value: Any) -> str:
    """Return a value as ClassAd text."""
    if isinstance(value, ExpressionText):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "[ " + "; ".join(f"{name} = {_unparsed(part)}" for name, part in value.items()) + " ]"
    if isinstance(value, list):
        return "{ " + ", ".join(map(_unparsed, value)) + " }"
    return _WORDS[value] if value is None or isinstance(value, bool) else str(value)


def _attributes(ad: Values, before: str = "\n\t") -> str:
    return "".join(f"{before}{name} = {_unparsed(ad[name])}" for name in sorted(ad, key=str.lower))


def _submitted(words: str, ad: Values) -> str:
    notes = ad.get("StructuredNotes")
    return (
        f"{words} submitted from host: {ad.get('SubmitHost', '')}"
        + (f"\n    {_unparsed(notes)}" if isinstance(notes, dict) else _text(ad, "LogNotes", "\n    "))
        + _text(ad, "UserNotes", "\n    ")
        + _text(ad, "Warnings", "\n    WARNING: ")
    )


def _executing(words: str, ad: Values) -> str:
    properties = ad.get("ExecuteProps")
    return (
        f"{words.format(**{'Node': 0} | ad)} executing on host: {ad.get('ExecuteHost', '')}"
        + _text(ad, "SlotName", "\n\tSlotName: ")
        + (_attributes(properties) if isinstance(properties, dict) else "")
    )


def _usage(ad: Values, *kinds: str) -> str:
    names = {kind: ad.get(kind.replace(" ", "") + "Usage") for kind in kinds}
    return "".join(f"\n\t\t{value}  -  {kind} Usage" for kind, value in names.items() if isinstance(value, str))


def _how_ended(ad: Values) -> str:
    if ad.get("TerminatedNormally") in (True, 1):
        return f"\n\t(1) Normal termination (return value {ad.get('ReturnValue', -1)})"
    core = _text(ad, "CoreFile", "\n\t(1) Corefile in: ") or "\n\t(0) No core file"
    return f"\n\t(0) Abnormal termination (signal {ad.get('TerminatedBySignal', -1)})" + core


def _resources(ad: Values) -> str:
    """Return the table of resources, from the attributes that HTCondor makes of it."""
    table: dict[str, list[str]] = {}
    for name in sorted(ad.keys() - _NOT_RESOURCES, key=str.lower):
        for column, (head, tail) in enumerate((("", "Usage"), ("Request", ""), ("", ""), ("Assigned", ""))):
            if name.startswith(head) and name.endswith(tail) and (head or tail or column == 2):
                resource = name[len(head) : len(name) - len(tail)].removesuffix("Average")
                table.setdefault(resource, [""] * 4)[column] = _cell(ad[name])
                break
    if not table:
        return ""
    width = max(10, *(len(cell) for cells in table.values() for cell in cells[:3]))
    heading = " ".join(f"{word:>{width}}" for word in ("Usage", "Request", "Allocated"))
    rows = [f"\n\tPartitionable Resources : {heading} Assigned"]
    for resource, (used, requested, allocated, assigned) in table.items():
        label = f"{resource} {_UNITS.get(resource, '')}".strip()
        rows.append(f"\n\t   {label:<20} : {used:>{width}} {requested:>{width}} {allocated:>{width}} {assigned}")
    return "".join(rows).rstrip()


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.2f}"
    return _unparsed(value)


def _bytes(ad: Values, of: str = "Job") -> str:
    amounts = (("", "Run", "Sent"), ("", "Run", "Received"), ("Total", "Total", "Sent"), ("Total", "Total", "Received"))
    return "".join(_amount(ad, f"{total}{way}Bytes", f"{span} Bytes {way} By {of}") for total, span, way in amounts)


def _evicted(ad: Values) -> str:
    codes = f" Code {ad['ReasonCode']} Subcode {ad.get('ReasonSubCode', 0)}" if ad.get("ReasonCode") else ""
    requeued = ad.get("TerminatedAndRequeued") in (True, 1)
    how = "(1) Job was checkpointed." if ad.get("Checkpointed") in (True, 1) else "(0) CPU times"
    how = "(0) Job terminated and was requeued" if requeued else how
    return (
        f"Job was evicted.{codes}\n\t{how}"
        + _usage(ad, "Run Remote", "Run Local")
        + _bytes(ad)
        + (_how_ended(ad) if requeued else "")
        + _text(ad, "Reason", "\n\t" if requeued else "\n\tReason: ")
        + _resources(ad)
    )


def _terminated(words: str, of: str, ad: Values) -> str:
    usage = _usage(ad, "Run Remote", "Run Local", "Total Remote", "Total Local")
    return words.format(**{"Node": 0} | ad) + _how_ended(ad) + usage + _bytes(ad, of) + _resources(ad)


def _image_size(ad: Values) -> str:
    return (
        f"Image size of job updated: {ad.get('Size', -1)}"
        + _amount(ad, "MemoryUsage", "MemoryUsage of job (MB)")
        + _amount(ad, "ResidentSetSize", "ResidentSetSize of job (KB)")
        + _amount(ad, "ProportionalSetSize", "ProportionalSetSize of job (KB)")
    )


def _codes(ad: Values) -> str:
    code, subcode = ad.get("HoldReasonCode"), ad.get("HoldReasonSubCode", 0)
    return "" if code is None else f"\n\tCode {code} Subcode {subcode}"


def _remote_error(ad: Values) -> str:
    severity = "Message" if ad.get("CriticalError") in (0, False) else "Error"
    lines = "".join(f"\n\t{line}" for line in str(ad.get("ErrorMsg", "")).splitlines())
    return f"{severity} from {ad.get('Daemon', '')} on {ad.get('ExecuteHost', '')}:{lines}{_codes(ad)}"


def _disconnected(ad: Values) -> str:
    return (
        "Job disconnected, attempting to reconnect"
        + _text(ad, "DisconnectReason", "\n    ")
        + f"\n    Trying to reconnect to {ad.get('StartdName', '')} {ad.get('StartdAddr', '')}"
    )


def _not_reconnected(ad: Values) -> str:
    where = f"\n    Can not reconnect to {ad.get('StartdName', '')}, rescheduling job"
    return "Job reconnection failed" + _text(ad, "Reason", "\n    ") + where


def _reconnected(ad: Values) -> str:
    return (
        f"Job reconnected to {ad.get('StartdName', '')}"
        + _text(ad, "StartdAddr", "\n    startd address: ")
        + _text(ad, "StarterAddr", "\n    starter address: ")
    )


def _changed(ad: Values) -> str:
    name, old = ad.get("Attribute", ""), ad.get("OldValue")
    begin = f"Setting job attribute {name}" if old is None else f"Changing job attribute {name} from {old}"
    return f"{begin} to {ad.get('Value', '')}"


def _other(ad: Values) -> str:
    """Return the words and attributes of an entry whose type has no form of its own here."""
    words = str(ad.get("EventHead") or ad.get("EventDescription") or ad.get("MyType") or "").split("\n")[0]
    return words + _attributes({name: value for name, value in ad.items() if name not in _ABOUT}, "\n")


_TEXTS: Final[dict[int, Callable[[Values], str]]] = {
    0: partial(_submitted, "Job"),
    1: partial(_executing, "Job"),
    3: lambda ad: "Job was checkpointed." + _usage(ad, "Run Remote", "Run Local") + _bytes(ad, "Job For Checkpoint"),
    4: _evicted,
    5: partial(_terminated, "Job terminated.", "Job"),
    6: _image_size,
    7: lambda ad: "Shadow exception!" + _text(ad, "Message") + _bytes(ad),
    8: lambda ad: str(ad.get("Info", "")),
    9: lambda ad: "Job was aborted." + _text(ad, "Reason"),
    10: lambda ad: f"Job was suspended.\n\tNumber of processes actually suspended: {ad.get('NumberOfPIDs', 0)}",
    11: lambda ad: "Job was unsuspended.",
    12: lambda ad: "Job was held." + (_text(ad, "HoldReason") or "\n\tReason unspecified") + _codes(ad),
    13: lambda ad: "Job was released." + _text(ad, "Reason"),
    14: partial(_executing, "Node {Node}"),
    15: partial(_terminated, "Node {Node} terminated.", "Node"),
    16: lambda ad: "POST Script terminated." + _how_ended(ad) + _text(ad, "DAGNodeName", "\n    DAG Node: "),
    21: _remote_error,
    22: _disconnected,
    23: _reconnected,
    24: _not_reconnected,
    28: lambda ad: "Job ad information event triggered." + _attributes(ad, "\n"),
    33: _changed,
    35: partial(_submitted, "Cluster"),
    38: lambda ad: "Job Materialization Resumed" + _text(ad, "Reason"),
    46: lambda ad: "Dataflow job was skipped." + _text(ad, "Reason"),
}
"""Event type -> the function that writes its text in the classic form."""
