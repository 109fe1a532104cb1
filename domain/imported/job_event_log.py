"""Read the entries of a job event log: the table of their types, and the facts that each states.

An entry's text is what follows its time: the rest of the header line, then the lines of the body, indented by any
white space: HTCondor's reader skips it, and terminals and mails turn tabs into blanks.
``facts`` reads it on demand, by the table ``SHAPES``. A part that is missing or makes no sense states no fact; no text
is an error. Facts are texts; CPU times are in microseconds. The shapes were read in HTCondor's ``condor_event.cpp``
(25.14) and compared with what ``htcondor2.JobEventLog`` reads in real logs.
"""

from __future__ import annotations

import re
from pkgutil import get_data
from typing import Final, NamedTuple


class EntryType(NamedTuple):
    """A type of entry: HTCondor's name for it, and what happened to the job."""

    name: str
    words: str


def _entry_types(data: bytes | None) -> dict[int, EntryType]:
    assert data is not None
    lines = (line.split(" ", 2) for line in data.decode().splitlines() if not line.startswith("#"))
    return {int(number): EntryType(name, words) for number, name, words in lines}


ENTRIES: Final = _entry_types(get_data(__package__, "entry_types.txt"))
"""Every type of entry that HTCondor 25 knows, by its number."""

OF_EXECUTION_POINTS: Final = 100
"""Types from this number on are of execution points, not of jobs."""


def words_of(number: int) -> str:
    """Describe a type of entry in words."""
    return ENTRIES[number].words if number in ENTRIES else f"something that is written as {number:03}"


def _shape(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which ``\\n\\t`` stands for a new line with any indentation (possessive, so that a negative
    lookahead behind it sees the first word)."""
    return re.compile(re.sub(r"\\n(?:\\t)+", r"\\n[ \\t]*+", pattern))


_TERMINATED: Final = (
    r"(?:\n\t\(1\) Normal termination \(return value (?P<code>-?\d+)\)"
    r"|\n\t\(0\) Abnormal termination \(signal (?P<signal>-?\d+)\)"
    r"(?:\n\t\(1\) Corefile in: (?P<core>.*)|\n\t\(0\) No core file)?)?"
)
_CODES: Final = r"(?:\n\tCode (?P<code>-?\d+) Subcode (?P<subcode>-?\d+))?"
_REASON: Final = r"(?:\n\t(?P<reason>.+))?"
_NOTES: Final = r"(?P<notes>(?:\n\t(?!WARNING: ).*)*)(?:\n\tWARNING: (?:Committed .*?: )?(?P<warnings>.*))?"

SHAPES: Final[dict[int, re.Pattern[str]]] = {
    number: _shape(shape)
    for number, shape in {
        0: r"Job submitted from host: (?P<host>.*)" + _NOTES,
        1: r"Job executing on host: (?P<host>.*)(?:\n\tSlotName: (?P<slot>.*))?",
        2: r"\((?P<code>\d+)\) (?P<reason>.*)",
        4: r"Job was evicted\.(?: Code (?P<reason_code>-?\d+) Subcode (?P<reason_subcode>-?\d+))?"
        r"(?:\n\t\((?P<checkpointed>\d)\) (?P<requeued>Job terminated and was requeued)?.*)?"
        r"(?:\n\tUsr.*|\n\t\d+ +- .*)*" + _TERMINATED + r"(?:\n\t(?!Partitionable )(?:Reason: )?(?P<reason>.+))?",
        5: r"Job terminated\." + _TERMINATED,
        6: r"Image size of job updated: (?P<image>-?\d+)",
        7: r"Shadow exception!" + _REASON,
        8: r"(?P<remark>.*)",
        9: r"Job was aborted[^\n]*" + _REASON,
        10: r"Job was suspended\.(?:\n\tNumber of processes actually suspended: (?P<processes>\d+))?",
        12: r"Job was held\.(?:\n\tReason unspecified|(?:\n\t(?!Code \d+ Subcode \d+$)(?P<reason>.+))?)" + _CODES,
        13: r"Job was released\." + _REASON,
        14: r"Node (?P<node>\d+) executing on host: (?P<host>.*)(?:\n\tSlotName: (?P<slot>.*))?",
        15: r"Node (?P<node>\d+) terminated\." + _TERMINATED,
        16: r"POST Script terminated\." + _TERMINATED + r"(?:\n\tDAG Node: (?P<node>.*))?",
        21: r"(?P<severity>Error|Message) from (?P<daemon>\S+) on (?P<slot>.*):"
        r"(?:\n\t(?P<reason>.*(?:\n\t(?!Code -?\d+ Subcode).*)*))?" + _CODES,
        22: r"Job disconnected.*(?:\n\t(?P<reason>.*))?(?:\n\tTrying to reconnect to (?P<slot>\S+) (?P<host>\S+))?",
        23: r"Job reconnected to (?P<slot>.*)(?:\n\tstartd address: (?P<host>.*))?"
        r"(?:\n\tstarter address: (?P<starter>.*))?",
        24: r"Job reconnection failed(?:\n\t(?P<reason>.*))?(?:\n\tCan not reconnect to (?P<slot>.*), resched.*)?",
        25: r"Grid Resource Back Up(?:\n\tGridResource: (?P<resource>.*))?",
        26: r"Detected Down Grid Resource(?:\n\tGridResource: (?P<resource>.*))?",
        27: r"Job submitted to grid resource(?:\n\tGridResource: (?P<resource>.*))?"
        r"(?:\n\tGridJobId: (?P<grid_id>.*))?",
        33: r"(?:Changing|Setting) job attribute (?P<name>\S+)(?: from (?P<old>.*?))? to (?P<new>.*)",
        34: r"PRE script return value is PRE_SKIP value(?:\n\t(?P<notes>.*))?",
        35: r"Cluster submitted from host: (?P<host>.*)" + _NOTES,
        36: r"Cluster removed(?:\n\tMaterialized (?P<jobs>\d+) jobs from (?P<items>\d+) items\.\s*(?P<completion>.*))?"
        r"(?:\n\t(?P<notes>.*))?",
        37: r"Job Materialization Paused(?:\n\t(?!PauseCode|HoldCode)(?P<reason>.+))?(?:\n\tPauseCode (?P<code>-?\d+))?"
        r"(?:\n\tHoldCode (?P<hold_code>-?\d+))?",
        38: r"Job Materialization Resumed" + _REASON,
        40: r"(?P<what>.*)(?:\n\tSeconds spent in queue: (?P<queued>\d+))?(?:\n\tTransferring to host: (?P<host>.*))?",
        41: r"(?:.*\n\tBytes reserved: (?P<bytes>\d+))?(?:\n?[ \t]*Reservation Expiration: (?P<expires>\d+))?"
        r"(?:\n\tReservation UUID: (?P<uuid>.*))?(?:\n\tTag: (?P<tag>.*))?",
        42: r".*\n\tReservation UUID: (?P<uuid>.*)",
        43: r".*\n\tBytes: (?P<bytes>\d+)(?:\n\tChecksum Value: (?P<checksum>.*))?"
        r"(?:\n\tChecksum Type: (?P<checksum_type>.*))?(?:\n\tUUID: (?P<uuid>.*))?",
        44: r".*\n\tChecksum Value: (?P<checksum>.*)(?:\n\tChecksum Type: (?P<checksum_type>.*))?"
        r"(?:\n\tTag: (?P<tag>.*))?",
        45: r".*\n\tBytes: (?P<bytes>\d+)(?:\n\tChecksum Value: (?P<checksum>.*))?"
        r"(?:\n\tChecksum Type: (?P<checksum_type>.*))?(?:\n\tTag: (?P<tag>.*))?",
        46: r"Dataflow job was skipped\." + _REASON,
        47: r"Common files event: (?P<what>.*)",
    }.items()
}
"""Type -> the shape of its text, whose named groups are facts. A type without one states only words and attributes."""

_TRAILING: Final = re.compile(r"[ \t](?:\n|$)")

# Lines that can stand anywhere in a body; each is read for the types to which it belongs.
_ATTRIBUTE: Final = re.compile(r"^[ \t]*([A-Za-z_]\w*) = (.*)$", re.MULTILINE)
_CPU: Final = re.compile(
    r"^[ \t]*Usr +(\d{1,9}) (\d\d?):(\d\d?):(\d\d?), Sys +(\d{1,9}) (\d\d?):(\d\d?):(\d\d?)"
    r" +- +((?:Run|Total) \w+) Usage",
    re.MULTILINE,
)
_AMOUNT: Final = re.compile(r"^[ \t]*(\d+) +- +(\w+(?: Bytes \w+)?)", re.MULTILINE)
_TABLE: Final = re.compile(r"^[ \t]*(?:Partitionable )?Resources +:(.*)((?:\n[ \t]+\w[^:\n]*:.*)*)", re.MULTILINE)

_CPU_NAMES: Final = {
    "Run Remote": ("user_cpu", "system_cpu"),
    "Run Local": ("local_user_cpu", "local_system_cpu"),
    "Total Remote": ("total_user_cpu", "total_system_cpu"),
    "Total Local": ("total_local_user_cpu", "total_local_system_cpu"),
}
_AMOUNT_NAMES: Final = {
    "Run Bytes Sent": "sent",
    "Run Bytes Received": "received",
    "Total Bytes Sent": "total_sent",
    "Total Bytes Received": "total_received",
    "MemoryUsage": "memory",
    "ResidentSetSize": "resident",
    "ProportionalSetSize": "proportional",
}
_COLUMNS: Final = {"Usage": "used", "Request": "requested", "Allocated": "allocated", "Assigned": "assigned"}

WITH_ATTRIBUTES: Final = frozenset({1, 14, 28, *range(OF_EXECUTION_POINTS, 200)})
"""Types whose lines "Name = value" are facts under the attribute's own name, the value as an expression."""
WITH_CPU: Final = frozenset({3, 4, 5, 15})
WITH_AMOUNTS: Final = frozenset({3, 4, 5, 6, 7, 15})
WITH_TABLE: Final = frozenset({4, 5, 15})


def facts(number: int, text: str) -> dict[str, str]:
    """Return the facts of an entry. ``words``, its first line, is always there; missing facts are absent."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) if _TRAILING.search(text) else text
    first, _, body = text.partition("\n")
    found = {"words": first}
    shape = SHAPES.get(number)
    if shape is not None and (match := shape.match(text)):
        found |= {name: value for name, value in match.groupdict().items() if value is not None}
    _tidy(number, found)
    if number in WITH_ATTRIBUTES:
        for name, value in _ATTRIBUTE.findall(body):
            found.setdefault(name, value)
    if number in WITH_CPU:
        _cpu_times(body, found)
    if number in WITH_AMOUNTS:
        for amount, name in _AMOUNT.findall(body):
            if name in _AMOUNT_NAMES:
                found.setdefault(_AMOUNT_NAMES[name], amount)
    if number in WITH_TABLE and (table := _TABLE.search(body)):
        _resources(table[1], table[2], found)
    return found


def _tidy(number: int, found: dict[str, str]) -> None:
    """Convert facts whose text is not yet their value."""
    if "notes" in found:
        found["notes"] = "\n".join(line.strip() for line in found["notes"].strip().split("\n"))
        if not found["notes"]:
            del found["notes"]
    if number == 4 and "checkpointed" in found:
        found["checkpointed"] = "true" if found["checkpointed"] == "1" else "false"
        found["requeued"] = "true" if "requeued" in found else "false"
    if number == 21 and "reason" in found:
        found["reason"] = re.sub(r"\n(?:\t| +)", "\n", found["reason"])


def _cpu_times(body: str, found: dict[str, str]) -> None:
    for *numbers, name in _CPU.findall(body):
        if name in _CPU_NAMES:
            for fact, parts in zip(_CPU_NAMES[name], (numbers[:4], numbers[4:]), strict=True):
                days, hours, minutes, seconds = map(int, parts)
                found.setdefault(fact, str((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000))


def _resources(heading: str, rows: str, found: dict[str, str]) -> None:
    """Read the table of resources.

    A column's value ends where the column's name ends, counted from the colon; only the assigned resources begin where
    their column's name begins, and end with the line.
    """
    words = [word for word in re.finditer(r"\w+", heading) if word[0] in _COLUMNS]
    ends = [(_COLUMNS[word[0]], word.start(), word.end()) for word in words]
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
                found.setdefault(f"{name}_{column}", cell.strip())
