"""condor_check_userlogs: whether job event logs make sense: each job submitted once, and ended once.

Source of the rules and words: ``condor_check_userlogs.cpp`` and ``check_events.cpp`` of the reference.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from ...domain.imported.job_event_log import ENTRIES
from ..bounded_text import read_text
from ..condor_tools.job_log_entries import LogEntry, UnreadableEntry, take_entries
from ..condor_tools.tool_options import ToolEnded, usage_of

_SUBMIT, _EXECUTE, _ERROR, _TERMINATED, _ABORTED, _HELD = 0, 1, 2, 5, 9, 12
_ENDS: Final = (_ERROR, _TERMINATED, _ABORTED)
_LONGEST: Final = 1024  #: letters of the final list of faults, at least


def check_userlogs(argv: Sequence[str]) -> int:
    if not argv or argv[0] == "-usage":
        raise ToolEnded(0, out=usage_of("check_userlogs"))
    entries = list(_entries(argv))
    submitted, ended = defaultdict[str, int](int), defaultdict[str, int](int)
    faults = 0
    for entry in entries:
        job = "({}.{}.{})".format(*entry.job)
        submitted[job] += entry.number == _SUBMIT
        ended[job] += entry.number in _ENDS
        print(f"Log event: ULOG_{ENTRIES[entry.number].name} {job}{_details(entry)}")
        if entry.number in (_SUBMIT, *_ENDS):
            total = sum(submitted.values())
            print(f" Total submitted: {total}; net submitted: {total - sum(ended.values())}\n")
        for fault in _faults(entry.number, submitted[job], ended[job]):
            faults += 1
            print(f"BAD EVENT: job {job} {fault}", file=sys.stderr)
    print("Log outcome: ULOG_NO_EVENT ")
    told = [
        f"BAD EVENT: job {job} ended, {what} count != 1 ({count})"
        for job in submitted
        for what, count in (("submit", submitted[job]), ("total end", ended[job]))
        if count != 1
    ]
    if told:
        print(_cut(told), "CheckAllJobs() result: EVENT_ERROR", sep="\n", file=sys.stderr)
    print("Log(s) have error(s)" if told or faults else "Log(s) are okay")
    return 1 if told or faults else 0


def _entries(paths: Sequence[str]) -> Iterator[LogEntry]:
    """Yield the whole entries of logs; those of a log that is missing or unreadable are none."""
    for path in paths:
        try:
            yield from take_entries(read_text(path).encode("utf-8", "surrogateescape"))[0]
        except FileNotFoundError:
            continue
        except (OSError, UnreadableEntry) as problem:
            raise ToolEnded(1, f"Error monitoring log file {path}: {problem}\n") from None


def _details(entry: LogEntry) -> str:
    if entry.number == _SUBMIT:
        notes = re.search(r"^    (?!\[)(.*)", entry.text, re.MULTILINE)
        return f' ("{notes[1] if notes else ""}")'
    if entry.number == _HELD and (code := re.search(r"Code (\d+) Subcode (\d+)", entry.text)):
        return f" (code={code[1]} subcode={code[2]})"
    return ""


def _faults(number: int, submitted: int, ended: int) -> Iterator[str]:
    """Yield what is wrong with an event, by how often its job was submitted and ended, this event counted."""
    if number == _SUBMIT:
        if submitted != 1:
            yield f"submitted, submit count != 1 ({submitted})"
        if ended:
            yield f"submitted, total end count != 0 ({ended})"
    elif number == _EXECUTE:
        if submitted < 1:
            yield f"executing, submit count < 1 ({submitted})"
        if ended:
            yield f"executing, total end count != 0 ({ended})"
    elif number in _ENDS:
        if submitted < 1:
            yield f"ended, submit count < 1 ({submitted})"
        if ended != 1:
            yield f"ended, total end count != 1 ({ended})"


def _cut(told: Sequence[str]) -> str:
    text = told[0]
    for more in told[1:]:
        if len(text) > _LONGEST:
            return f"{text} ..."
        text += f"; {more}"
    return text
