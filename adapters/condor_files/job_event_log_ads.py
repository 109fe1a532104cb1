"""Convert the entries of a job event log that are XML or JSON ads to the text of the classic format.

Missing attributes are omitted. The names and formats of the attributes come from ``toClassAd`` in HTCondor's
``condor_event.cpp`` (25.14).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeGuard
from xml.etree import ElementTree

Values = dict[str, Any]  #: an ad's attributes: strings, numbers, booleans, None, nested ads, and ``ExpressionText``
Entry = tuple[int, int, int, int, str, str]  #: number, cluster, proc, subproc, time, text


class Unreadable(Exception):
    """An ad is not a valid entry; the text is the reason."""


class ExpressionText(str):
    """The text of an expression."""


_HEADER_NAMES: Final = frozenset({"MyType", "EventTypeNumber", "EventTime", "Cluster", "Proc", "Subproc", "TargetType"})
_NOT_RESOURCES: Final = _HEADER_NAMES | {
    "Checkpointed", "TerminatedAndRequeued", "TerminatedNormally", "ReturnValue", "TerminatedBySignal", "CoreFile",
    "Reason", "ReasonCode", "ReasonSubCode", "Node", "ToE", "RunLocalUsage", "RunRemoteUsage", "TotalLocalUsage",
    "TotalRemoteUsage", "SentBytes", "ReceivedBytes", "TotalSentBytes", "TotalReceivedBytes",
}  # fmt: skip
_UNITS: Final = {"Memory": "(MB)", "Disk": "(KB)", "TimeExecute": "(s)", "TimeSlotBusy": "(s)"}


def entry_of_json(text: str) -> Entry:
    """Return the entry in a JSON object. Raise ``Unreadable``."""
    try:
        ad = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not valid JSON: {error}") from None
    if not isinstance(ad, dict):
        raise Unreadable("it is not an ad")
    return _entry(_without_expressions(ad))


def entry_of_xml(text: str) -> Entry:
    """Return the entry in an XML ad. Raise ``Unreadable``."""
    try:
        tree = ElementTree.fromstring(text)
        return _entry(_xml_ad(tree))
    except (ElementTree.ParseError, ValueError, RecursionError, OverflowError) as error:
        raise Unreadable(f"it is not a valid XML ad: {error}") from None


def _without_expressions(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_expressions(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_expressions(member) for member in value]
    if isinstance(value, str) and value.startswith("/Expr(") and value.endswith(")/"):
        return ExpressionText(value[6:-2])
    return value


def _xml_ad(tree: ElementTree.Element) -> Values:
    return {element.get("n", ""): _xml_value(element[0]) for element in tree if element.tag == "a" and len(element)}


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_XML_VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "s": lambda text: re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text),
    "i": int,
    "r": float,
    "e": ExpressionText,
}


def _xml_value(element: ElementTree.Element) -> Any:
    if element.tag == "b":
        return element.get("v") == "t"
    if element.tag == "c":
        return _xml_ad(element)
    if element.tag == "l":
        return [_xml_value(inner_element) for inner_element in element]
    return _XML_VALUES[element.tag](element.text or "") if element.tag in _XML_VALUES else None


def _entry(ad: Values) -> Entry:
    number, when = ad.get("EventTypeNumber"), ad.get("EventTime")
    ids = [ad.get(name, missing) for name, missing in (("Cluster", -1), ("Proc", -1), ("Subproc", 0))]
    if not _is_number(number) or not 0 <= number <= 999:
        raise Unreadable("the type of the entry is missing")
    if not isinstance(when, str):
        raise Unreadable("the time of the entry is missing")
    if not all(_is_number(id_part) and abs(id_part) < 10**9 for id_part in ids):
        raise Unreadable("the job's id is missing")
    try:
        was_requeued = number == 4 and ad.get("TerminatedAndRequeued") in (True, 1)
        text = _entry_texts().get("requeued" if was_requeued else str(number), "{=other}").format_map(_Fields(ad))
    except (ValueError, OverflowError, TypeError) as error:
        raise Unreadable(f"it has an invalid value: {error}") from None
    return number, ids[0], ids[1], ids[2], when, text


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


class _Piece:
    """The text that replaces a placeholder; its format follows the placeholder's colon."""

    def __init__(self, write_text: Callable[[str], str]) -> None:
        self._written = write_text

    def __format__(self, format_spec: str) -> str:
        return self._written(format_spec)


class _Fields:
    """The attributes of an ad, for a text from ``job_event_texts.txt``."""

    def __init__(self, ad: Values) -> None:
        self._ad = ad

    def __getitem__(self, name: str) -> _Piece:
        if name.startswith("="):
            return _Piece(partial(_PIECES[name[1:]], self._ad))
        return _Piece(partial(_amount if name.startswith("#") else _labelled_text, self._ad, name.lstrip("#")))


def _labelled_text(ad: Values, name: str, separator: str = "\n\t") -> str:
    """Return the attribute's text after ``separator``, or "". As in HTCondor, its line ends become ``|``."""
    value = ad.get(name, "" if separator else _DEFAULT_VALUES.get(name, ""))
    if not separator:
        return str(value)
    return "" if value in (None, "") else separator + str(value).replace("\n", "|").replace("\r", " ")


def _amount(ad: Values, name: str, label: str) -> str:
    value = ad.get(name)
    return f"\n\t{int(value)}  -  {label}" if isinstance(value, int | float) else ""


_VALUE_TEXTS: Final = {None: "undefined", True: "true", False: "false"}


def _as_classad_text(value: Any) -> str:
    if isinstance(value, ExpressionText):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "[ " + "; ".join(f"{name} = {_as_classad_text(member)}" for name, member in value.items()) + " ]"
    if isinstance(value, list):
        return "{ " + ", ".join(map(_as_classad_text, value)) + " }"
    return _VALUE_TEXTS[value] if value is None or isinstance(value, bool) else str(value)


def _attribute_lines(ad: Values, separator: str = "\n\t") -> str:
    return "".join(f"{separator}{name} = {_as_classad_text(ad[name])}" for name in sorted(ad, key=str.lower))


def _submit_notes(ad: Values, _: str) -> str:
    notes = ad.get("StructuredNotes")
    return f"\n    {_as_classad_text(notes)}" if isinstance(notes, dict) else _labelled_text(ad, "LogNotes", "\n    ")


def _execute_properties(ad: Values, _: str) -> str:
    properties = ad.get("ExecuteProps")
    return _attribute_lines(properties) if isinstance(properties, dict) else ""


def _cpu_usage(ad: Values, spans: str) -> str:
    kinds = [f"{span} {where}" for span in spans.split() for where in ("Remote", "Local")]
    names = {kind: ad.get(kind.replace(" ", "") + "Usage") for kind in kinds}
    return "".join(f"\n\t\t{value}  -  {kind} Usage" for kind, value in names.items() if isinstance(value, str))


def _how_ended(ad: Values, _: str) -> str:
    if ad.get("TerminatedNormally") in (True, 1):
        return f"\n\t(1) Normal termination (return value {ad.get('ReturnValue', -1)})"
    core = _labelled_text(ad, "CoreFile", "\n\t(1) Corefile in: ") or "\n\t(0) No core file"
    return f"\n\t(0) Abnormal termination (signal {ad.get('TerminatedBySignal', -1)})" + core


def _resource_table(ad: Values, _: str) -> str:
    """Return the table of resources, from the attributes into which HTCondor converts it."""
    table: dict[str, list[str]] = {}
    for name in sorted(ad.keys() - _NOT_RESOURCES, key=str.lower):
        for column, (head, heading_end) in enumerate((("", "Usage"), ("Request", ""), ("", ""), ("Assigned", ""))):
            if name.startswith(head) and name.endswith(heading_end) and (head or heading_end or column == 2):
                resource = name[len(head) : len(name) - len(heading_end)].removesuffix("Average")
                table.setdefault(resource, [""] * 4)[column] = _table_cell(ad[name])
                break
    if not table:
        return ""
    width = max(10, *(len(cell) for cells in table.values() for cell in cells[:3]))
    heading = " ".join(f"{word:>{width}}" for word in ("Usage", "Request", "Allocated"))
    rows = [f"\n\tPartitionable Resources : {heading} Assigned"]
    for resource, (used, request, allocated, assigned) in table.items():
        label = f"{resource} {_UNITS.get(resource, '')}".strip()
        rows.append(f"\n\t   {label:<20} : {used:>{width}} {request:>{width}} {allocated:>{width}} {assigned}")
    return "".join(rows).rstrip()


def _table_cell(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.2f}"
    return _as_classad_text(value)


def _transferred_bytes(ad: Values, of: str) -> str:
    amounts = (("", "Run", "Sent"), ("", "Run", "Received"), ("Total", "Total", "Sent"), ("Total", "Total", "Received"))
    return "".join(_amount(ad, f"{total}{verb}Bytes", f"{span} Bytes {verb} By {of}") for total, span, verb in amounts)


def _vacate_codes(ad: Values, _: str) -> str:
    return f" Code {ad['ReasonCode']} Subcode {ad.get('ReasonSubCode', 0)}" if ad.get("ReasonCode") else ""


def _hold_codes(ad: Values, _: str = "") -> str:
    code, subcode = ad.get("HoldReasonCode"), ad.get("HoldReasonSubCode", 0)
    return "" if code is None else f"\n\tCode {code} Subcode {subcode}"


def _remote_error(ad: Values, _: str) -> str:
    severity = "Message" if ad.get("CriticalError") in (0, False) else "Error"
    lines = "".join(f"\n\t{line}" for line in str(ad.get("ErrorMsg", "")).splitlines())
    return f"{severity} from {ad.get('Daemon', '')} on {ad.get('ExecuteHost', '')}:{lines}{_hold_codes(ad)}"


def _changed_attribute(ad: Values, _: str) -> str:
    name, old = ad.get("Attribute", ""), ad.get("OldValue")
    begin = f"Setting job attribute {name}" if old is None else f"Changing job attribute {name} from {old}"
    return f"{begin} to {ad.get('Value', '')}"


def _unknown_entry(ad: Values, _: str) -> str:
    head_text = str(ad.get("EventHead") or ad.get("EventDescription") or ad.get("MyType") or "").split("\n")[0]
    return head_text + _attribute_lines({name: ad[name] for name in ad if name not in _HEADER_NAMES}, "\n")


_PIECES: Final[dict[str, Callable[[Values, str], str]]] = {
    "attributes": _attribute_lines, "bytes": _transferred_bytes, "changed": _changed_attribute, "codes": _hold_codes,
    "ended": _how_ended, "notes": _submit_notes, "other": _unknown_entry, "properties": _execute_properties,
    "remote error": _remote_error, "resources": _resource_table, "usage": _cpu_usage, "vacate codes": _vacate_codes,
    "checkpointed": lambda ad, _: ("(0) CPU times", "(1) Job was checkpointed.")[ad.get("Checkpointed") in (True, 1)],
    "hold reason": lambda ad, _: _labelled_text(ad, "HoldReason") or "\n\tReason unspecified",
}  # fmt: skip
"""The parts of texts that are not a single attribute."""
_DEFAULT_VALUES: Final = {"Node": 0, "NumberOfPIDs": 0, "Size": -1}
"""The defaults of missing attributes that are not empty."""


@cache
def _entry_texts() -> dict[str, str]:
    text = Path(__file__).with_name("job_event_texts.txt").read_text(encoding="utf-8")
    rows = (row.partition("  ") for row in text.partition("\n\n")[2].splitlines())
    return {number: form.encode().decode("unicode_escape") for number, _, form in rows}
