"""The exact text of each event in a user log.

An event is a header, a sentence, indented lines, and a line of three dots. All lines except the first are indented, so
text from outside cannot end an event if it stays on one line (``one_line``).

Source: the manual's "Job Event Log Codes" for the meaning of events; HTCondor's condor_event.cpp and logs of an
HTCondor pool for spaces and widths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

END = "...\n"  #: the line that closes an event
NOTE_LENGTH = 8191  #: maximum characters of a submission's notes; the rest is cut off
WARNING_LENGTH = 8110

Stamp = Callable[[int], str]  #: formats an instant, in microseconds, for a header
Numbers = tuple[int, int]
"""Microseconds of CPU time, user and system; or bytes of files, sent and received by the job."""
NOTHING_MOVED: Numbers = (0, 0)


def stamp_formatter(zone: tzinfo | None = None) -> Stamp:
    """Return a formatter of ISO dates with seconds in `zone`; None: in this process's local time, as HTCondor does."""
    last_stamp: tuple[int, str] = (-1, "")

    def stamp(at: int) -> str:
        nonlocal last_stamp
        second = at // 1_000_000
        if last_stamp[0] != second:
            last_stamp = (second, datetime.fromtimestamp(second, zone).strftime("%Y-%m-%d %H:%M:%S"))
        return last_stamp[1]

    return stamp


def one_line(text: str) -> str:
    """Return `text` without line breaks, which would end a line of an event."""
    return re.sub(r"\s*[\r\n]+\s*", " ", text).strip()


def header_parts(number: int, cluster: int, stamp: str) -> tuple[str, str]:
    """Return an event's header before and after the process number. Numbers have at least three digits."""
    return f"{number:03d} ({cluster:03d}.", f".000) {stamp} "


# Bodies: everything between the header and the closing line. The number is the event's.


def submitted_text(host: str, notes: Iterable[str], warning: str = "") -> str:
    """Return the text of event 000. A warning's lines are escaped, so that none of them can end the event."""
    lines = "".join(f"    {one_line(note)[:NOTE_LENGTH]}\n" for note in notes)
    if warning:
        lines += "    WARNING: " + warning[:WARNING_LENGTH].replace("\n...", "\n ...") + "\n"
    return f"Job submitted from host: {host}\n{lines}"


def cluster_submitted(host: str) -> str:
    """Return the text of event 035: a cluster with a factory was submitted."""
    return f"Cluster submitted from host: {host}\n"


def cluster_removed(made_count: int, complete: bool) -> str:
    """Return the text of event 036: a cluster with a factory has left the queue."""
    completion = "Complete" if complete else "Incomplete"
    return f"Cluster removed\n\tMaterialized {made_count} jobs from 0 items.\t{completion}\n"


def factory_paused(reason: str) -> str:
    """Return the text of event 037: a user held a cluster with a factory."""
    return f"Job Materialization Paused\n{_line('', reason)}\tPauseCode 1\n\tHoldCode 1\n"


def factory_resumed(reason: str) -> str:
    """Return the text of event 038: a user released a cluster with a factory."""
    return f"Job Materialization Resumed\n{_line('', reason)}"


def executing_text(host: str, slot: str, properties: Mapping[str, str]) -> str:
    """Return the text of event 001. ``properties``: expressions by attribute. An empty ``slot`` is the access point."""
    if not slot:
        return f"Job executing on host: {host}\n"
    lines = "".join(f"\t{name} = {properties[name]}\n" for name in sorted(properties, key=str.lower))
    return f"Job executing on host: {host}\n\tSlotName: {slot}\n{lines}"


def evicted_text(
    code: int, subcode: int, reason: str, usage: Numbers, table: str, moved: Numbers = NOTHING_MOVED
) -> str:
    """Return the text of event 004 for an evicted job."""
    code_text = f" Code {code} Subcode {subcode}" if code else ""
    return (
        f"Job was evicted.{code_text}\n\t(0) CPU times\n{_usage(('Run', usage))}{_bytes('Run', moved)}"
        f"{_line('Reason: ', reason)}{table}"
    )


def requeued_text(ending_text: str, reason: str, usage: Numbers, moved_bytes: Numbers = NOTHING_MOVED) -> str:
    """Return the text of event 004 for a job that exited and will run again."""
    return (
        f"Job was evicted.\n\t(0) Job terminated and was requeued\n{_usage(('Run', usage))}{_bytes('Run', moved_bytes)}"
        f"{ending_text}{_line('', reason)}"
    )


def terminated_text(
    ending_text: str,
    usage: Numbers,
    total: Numbers,
    table: str,
    moved_bytes: Numbers = NOTHING_MOVED,
    total_moved: Numbers = NOTHING_MOVED,
) -> str:
    """005. `usage` and `moved_bytes` are about this run, `total` and `total_moved` of all runs of the job."""
    times = _usage(("Run", usage), ("Total", total))
    return f"Job terminated.\n{ending_text}{times}{_bytes('Run', moved_bytes)}{_bytes('Total', total_moved)}{table}"


def ending(code: int | None, signal: int | None, core: str = "") -> str:
    """Return the sentence about the end of a job's process and its core file."""
    if signal is not None:
        core_line = f"(1) Corefile in: {one_line(core)}" if core else "(0) No core file"
        return f"\t(0) Abnormal termination (signal {signal})\n\t{core_line}\n"
    return f"\t(1) Normal termination (return value {code or 0})\n"


def transfer_began(direction: str, host: str) -> str:
    """Return the text of event 040 for the start of a file transfer. HTCondor names the other host only for input."""
    where = f"\tTransferring to host: {host}\n" if direction == "input" else ""
    return f"Started transferring {_WAYS[direction]} files\n{where}"


def transfer_ended(direction: str) -> str:
    """Return the text of event 040 for the end of a file transfer, successful or not."""
    return f"Finished transferring {_WAYS[direction]} files\n"


_WAYS = {"input": "input", "checkpoint": "output", "output": "output"}


def image_size(image: int, resident: int) -> str:
    """Return the text of event 006; both sizes are in KiB."""
    return (
        f"Image size of job updated: {image}\n"
        f"\t{megabytes(resident)}  -  MemoryUsage of job (MB)\n"
        f"\t{resident}  -  ResidentSetSize of job (KB)\n"
    )


def aborted_text(reason: str) -> str:
    """Return the text of event 009 (removed)."""
    return f"Job was aborted.\n{_line('', reason)}"


def suspended_text(processes: int) -> str:
    """Return the text of event 010."""
    return f"Job was suspended.\n\tNumber of processes actually suspended: {processes}\n"


DATAFLOW_SKIPPED = "Dataflow job was skipped.\n"  #: 046
UNSUSPENDED = "Job was unsuspended.\n"  #: 011


def held_text(reason: str, code: int, subcode: int) -> str:
    """Return the text of event 012."""
    return f"Job was held.\n\t{one_line(reason) or 'Reason unspecified'}\n\tCode {code} Subcode {subcode}\n"


def released_text(reason: str) -> str:
    """Return the text of event 013."""
    return f"Job was released.\n{_line('', reason)}"


def remote_error(slot: str, message: str, code: int, subcode: int) -> str:
    """Return the text of event 021, an error on the slot. Only this event's message may have several lines."""
    lines = "".join(f"\t{line.strip()}\n" for line in message.splitlines() if line.strip())
    return f"Error from starter on {slot}:\n{lines}\tCode {code} Subcode {subcode}\n"


def disconnected(slot: str, host: str, is_restart: bool) -> str:
    """Return the text of event 022. ``is_restart``: the access point was restarted."""
    reason = "Local schedd and job shadow died, schedd now running again"
    if not is_restart:
        reason = "Socket between submit and execute hosts closed unexpectedly"
    return f"Job disconnected, attempting to reconnect\n    {reason}\n    Trying to reconnect to {slot} {host}\n"


def reconnected(slot: str, host: str) -> str:
    """Return the text of event 023. The startd runs the job itself, so its address is also the starter's."""
    return f"Job reconnected to {slot}\n    startd address: {host}\n    starter address: {host}\n"


def reconnect_failed(slot: str, reason: str) -> str:
    """Return the text of event 024."""
    return f"Job reconnection failed\n    {one_line(reason)}\n    Can not reconnect to {slot}, rescheduling job\n"


def generic_text(note: str) -> str:
    """Return the text of event 008, which contains any text."""
    return f"{one_line(note)}\n"


def attribute_changed(name: str, value_before: str, value_after: str) -> str:
    """Return the text of event 033: a job set an attribute with condor_chirp."""
    if not value_before:
        return f"Setting job attribute {name} to {one_line(value_after)}\n"
    return f"Changing job attribute {name} from {one_line(value_before)} to {one_line(value_after)}\n"


def _line(label: str, text: str) -> str:
    text = one_line(text)
    return f"\t{label}{text}\n" if text else ""


def _usage(*usages: tuple[str, Numbers]) -> str:
    """Return the lines with CPU times. Local usage is 0, because the access point runs no process for a job."""
    lines = []
    for span, (user, system) in usages:
        for place, times in (("Remote", (user, system)), ("Local", (0, 0))):
            user_time, system_time = (_days(time // 1_000_000) for time in times)
            lines.append(f"\t\tUsr {user_time}, Sys {system_time}  -  {span} {place} Usage\n")
    return "".join(lines)


@lru_cache(1024)
def _days(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} {hours:02d}:{minutes:02d}:{seconds:02d}"


def _bytes(span: str, moved_bytes: Numbers) -> str:
    """Return the bytes transferred."""
    sent_bytes, received_bytes = moved_bytes
    return f"\t{sent_bytes}  -  {span} Bytes Sent By Job\n\t{received_bytes}  -  {span} Bytes Received By Job\n"


def megabytes(kibibytes: int) -> int:
    """Round KiB up to MiB, as in the attribute MemoryUsage."""
    return (kibibytes + 1023) // 1024


class Resource(NamedTuple):
    """A row of the table of resources. An empty text: unknown."""

    name: str
    usage: str = ""
    request: str = ""
    allocated: str = ""
    assigned: str = ""


_UNITS = {"Memory": " (MB)", "GpusMemory": " (MB)", "Disk": " (KB)", "TimeExecute": " (s)", "TimeSlotBusy": " (s)"}
_LABEL = 12  #: the length of a common resource's longest name with its unit
_NARROWEST = (8, 8, 9)  #: least widths of usage, request and allocation


def number(value: float) -> str:
    """Format a quantity: a whole number without decimals, any other number with two."""
    return str(int(value)) if value == int(value) else f"{value:.2f}"


@lru_cache
def partitionable_resources(unsorted_rows: tuple[Resource, ...]) -> str:
    """Return the table "Partitionable Resources" of events 004 and 005. In a column with a fraction, whole numbers are
    padded so that the units align. Short jobs of a cluster often use the same resources."""
    rows = sorted(unsorted_rows, key=lambda row: row.name.lower())
    columns = [_aligned([row[at] for row in rows]) for at in (1, 2, 3)]
    usage, request, width = (
        max(least_width, *map(len, column)) for least_width, column in zip(_NARROWEST, columns, strict=True)
    )
    label = max(_LABEL, *(len(row.name) for row in rows)) + 8
    assigned = "Assigned" if any(row.assigned for row in rows) else ""
    lines = [f"\tPartitionable Resources : {'Usage':>{usage}} {'Request':>{request}} {'Allocated':>{width}} {assigned}"]
    for row, *cells in zip(rows, *columns, strict=True):
        name = row.name + _UNITS.get(row.name, "")
        quantities = f"{cells[0]:>{usage}} {cells[1]:>{request}} {cells[2]:>{width}}"
        lines.append(f"\t   {name:<{label}} : {quantities} {row.assigned}")
    return "\n".join(lines) + "\n"


def _aligned(cells: list[str]) -> list[str]:
    if not any("." in cell for cell in cells):
        return cells
    return [f"{cell}   " if cell.isdigit() else cell for cell in cells]
