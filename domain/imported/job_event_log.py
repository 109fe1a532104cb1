"""Parse the entries of a job event log: their types, and the facts that each entry contains.

The text of an entry is everything after its time: the rest of the header line, then the lines of the body. These may be
indented by any white space, because HTCondor's reader skips it, and because terminals and mail programs convert tabs to
blanks. ``facts`` parses the text on demand, by the patterns in ``entry_shapes.txt``. Missing or invalid parts yield no
facts, so no text is an error. Facts are strings; CPU times are in microseconds. The patterns follow HTCondor's
``condor_event.cpp`` (25.14), and were compared with the results of ``htcondor2.JobEventLog`` for real logs.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..package_data import get_data, sections


class EntryType(NamedTuple):
    """A type of job event log entry: HTCondor's name for it, and a description of what happened to the job."""

    name: str
    words: str


_LINES: Final = get_data(__package__, "entry_types.txt").decode().splitlines()
ENTRIES: Final = {
    int(number): EntryType(name, description)
    for number, name, description in (line.split(" ", 2) for line in _LINES if not line.startswith("#"))
}
"""All types of entries in HTCondor 25, by number."""

OF_EXECUTION_POINTS: Final = 100
"""Entries whose type is this number or greater describe execution points, not jobs."""


def words_of(number: int) -> str:
    """Return a description of the entry type with this number."""
    return ENTRIES[number].words if number in ENTRIES else f"something that is written as {number:03}"


_TABLES: Final = {
    section.kind: dict(line.split(": ", 1) for line in section.lines)
    for section in sections(get_data(__package__, "entry_shapes.txt"))
}


def _compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern. Indentation is matched possessively, so that lookaheads see the first word of a line."""
    expanded = re.sub(r"<([A-Z]+)>", lambda part: _TABLES["parts"][part[1]], text)
    return re.compile(re.sub(r"\\n(?:\\t)+", r"\\n[ \\t]*+", expanded))


SHAPES: Final = {int(number): _compile_pattern(text) for number, text in _TABLES["shapes"].items()}
"""The shape of the text by type; its named groups are facts. Types without a shape have only words and attributes."""

_TRAILING: Final = re.compile(r"[ \t](?:\n|$)")

# Lines that can occur anywhere in a body; each pattern applies only to certain types (``WITH_...``).
_ATTRIBUTE: Final = re.compile(r"^[ \t]*([A-Za-z_]\w*) = (.*)$", re.MULTILINE)
_CPU: Final = re.compile(
    r"^[ \t]*Usr +(\d{1,9}) (\d\d?):(\d\d?):(\d\d?), Sys +(\d{1,9}) (\d\d?):(\d\d?):(\d\d?)"
    r" +- +((?:Run|Total) \w+) Usage",
    re.MULTILINE,
)
_AMOUNT: Final = re.compile(r"^[ \t]*(\d+) +- +(\w+(?: Bytes \w+)?)", re.MULTILINE)
_TABLE: Final = re.compile(r"^[ \t]*(?:Partitionable )?Resources +:(.*)((?:\n[ \t]+\w[^:\n]*:.*)*)", re.MULTILINE)

_AMOUNTS: Final = _TABLES["amounts"]
_COLUMNS: Final = _TABLES["columns"]
WITH_ATTRIBUTES: Final = frozenset({1, 14, 28, *range(OF_EXECUTION_POINTS, 200)})
"""Types whose lines "Name = value" are facts: the attribute's name, and its value as an expression."""
WITH_CPU: Final = frozenset({3, 4, 5, 15})
WITH_AMOUNTS: Final = frozenset({3, 4, 5, 6, 7, 15})
WITH_TABLE: Final = frozenset({4, 5, 15})


def facts(number: int, text: str) -> dict[str, str]:
    """Return the facts in an entry. ``words``, the first line, is always present; other facts may be missing."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) if _TRAILING.search(text) else text
    first, _, body = text.partition("\n")
    values = {"words": first}
    shape = SHAPES.get(number)
    if shape is not None and (match := shape.match(text)):
        values |= {name: value for name, value in match.groupdict().items() if value is not None}
    _tidy(number, values)
    if number in WITH_ATTRIBUTES:
        for name, value in _ATTRIBUTE.findall(body):
            values.setdefault(name, value)
    if number in WITH_CPU:
        _cpu_times(body, values)
    if number in WITH_AMOUNTS:
        for amount, name in _AMOUNT.findall(body):
            if name in _AMOUNTS:
                values.setdefault(_AMOUNTS[name], amount)
    if number in WITH_TABLE and (table := _TABLE.search(body)):
        _resources(table[1], table[2], values)
    return values


def _tidy(number: int, values: dict[str, str]) -> None:
    if "notes" in values:
        values["notes"] = "\n".join(line.strip() for line in values["notes"].strip().split("\n"))
        if not values["notes"]:
            del values["notes"]
    if number == 4 and "checkpointed" in values:
        values["checkpointed"] = "true" if values["checkpointed"] == "1" else "false"
        values["requeued"] = "true" if "requeued" in values else "false"
    if number == 21 and "reason" in values:
        values["reason"] = re.sub(r"\n(?:\t| +)", "\n", values["reason"])


def _cpu_times(body: str, values: dict[str, str]) -> None:
    for *numbers, name in _CPU.findall(body):
        if name in _TABLES["cpu"]:
            for fact, parts in zip(_TABLES["cpu"][name].split(), (numbers[:4], numbers[4:]), strict=True):
                days, hours, minutes, seconds = map(int, parts)
                values.setdefault(fact, str((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000))


def _resources(heading: str, rows: str, values: dict[str, str]) -> None:
    """Parse the table of resources.

    A value ends in the same position after the colon as its column's heading. Only the assigned resources are
    different: they begin where their heading begins, and extend to the end of the line.
    """
    headings = [word for word in re.finditer(r"\w+", heading) if word[0] in _COLUMNS]
    ends = [(_COLUMNS[word[0]], word.start(), word.end()) for word in headings]
    for row in rows.split("\n"):
        label, colon, cells = row.partition(":")
        if not colon:
            continue
        name = label.partition("(")[0].strip().lower()
        begin = 0
        for column, start, end in ends:
            cell = cells[start:] if column == "assigned" else cells[begin:end]
            begin = end
            if cell.strip():
                values.setdefault(f"{name}_{column}", cell.strip())
