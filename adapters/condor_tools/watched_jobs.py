"""The jobs that condor_watch_q follows: their states, by their job event logs, and the table of them.

Source of states, columns and words: the reference's script.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from .job_log_waiting import LogEntry

STATES: Final = ("REMOVED", "HELD", "SUSPENDED", "IDLE", "INPUT", "RUN", "OUTPUT", "DONE")
"""The states, in the order of their columns."""
ACTIVE: Final = frozenset(STATES) - {"REMOVED", "DONE"}
_ALWAYS: Final = ("IDLE", "RUN", "DONE")
_BY_EVENT: Final = {0: "IDLE", 1: "RUN", 4: "IDLE", 5: "DONE", 7: "IDLE", 9: "REMOVED", 10: "SUSPENDED", 11: "IDLE",
                    12: "HELD", 13: "IDLE", 24: "IDLE"}  # fmt: skip
_FILE_TRANSFER: Final = 40
_BAR: Final = (("IDLE", "-"), ("INPUT", ">"), ("RUN", "="), ("OUTPUT", ">"), ("DONE", "#"), ("HELD", "!"),
               ("SUSPENDED", "!"), ("REMOVED", "!"))  # fmt: skip
_WIDEST_BAR: Final = 79
_SUMMARY: Final = (
    ("completed", ("DONE",)),
    ("removed", ("REMOVED",)),
    ("idle", ("IDLE",)),
    ("running", ("INPUT", "RUN", "OUTPUT")),
    ("held", ("HELD",)),
    ("suspended", ("SUSPENDED",)),
)


def state_after(entry: LogEntry) -> str | None:
    """Return the state that an entry of a job event log tells of; None if it tells of none."""
    if entry.number != _FILE_TRANSFER:
        return _BY_EVENT.get(entry.number)
    found = re.search(r"started transferring (input|output)", entry.text, re.IGNORECASE)
    return found[1].upper() if found else None


class Watched(NamedTuple):
    """The jobs of a cluster: the log that tells of them, their batch's name, and their states by process."""

    cluster: int
    log: str
    batch: str
    states: dict[int, str]
    known: int  #: how many there are, as the queue says; 0: it does not

    @property
    def total(self) -> int:
        return max(self.known, len(self.states))

    @property
    def done(self) -> bool:
        return not any(state in ACTIVE for state in self.states.values())


class Row(NamedTuple):
    """A line of the table: its name, its jobs by state, all of them, and the ids of those in the queue."""

    name: str
    counts: dict[str, int]
    total: int
    ids: str


def rows(groups: Mapping[str, Sequence[Watched]]) -> list[Row]:
    """Return the lines of groups of clusters: those with jobs in the queue first, each kind by its first cluster."""
    first = {name: min(one.cluster for one in clusters) for name, clusters in groups.items()}
    names = sorted(groups, key=lambda name: (all(one.done for one in groups[name]), first[name]))
    return [_row(name, groups[name]) for name in names]


def _row(name: str, clusters: Iterable[Watched]) -> Row:
    counts = dict.fromkeys(STATES, 0)
    ids, total = list[tuple[int, int]](), 0
    for one in clusters:
        total += one.total
        for proc, state in one.states.items():
            counts[state] += 1
            if state in ACTIVE:
                ids.append((one.cluster, proc))
    told = [f"{cluster}.{proc}" for cluster, proc in sorted(ids)]
    return Row(name, counts, total, ", ".join(told) if len(told) < 3 else f"{told[0]} ... {told[-1]}")


def table(heading: str, found: Sequence[Row], columns: int, bars: bool) -> Iterator[str]:
    """Yield the lines of the table, cut or filled with bars to so many columns."""
    shown = [state for state in STATES if state in _ALWAYS or any(row.counts[state] for row in found)]
    heads = [heading, *shown, "TOTAL", "JOB_IDS"]
    cells = [
        [f"{word} " for word in (row.name, *(str(row.counts[one] or "-") for one in shown), str(row.total), row.ids)]
        for row in found
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    left = {0, len(heads) - 1}

    def line(words: Sequence[str]) -> str:
        pairs = enumerate(zip(words, widths, strict=True))
        return "  ".join(word.ljust(width) if at in left else word.rjust(width) for at, (word, width) in pairs)

    yield line(heads).rstrip()
    for row, words in zip(found, cells, strict=True):
        text = line(words)
        room = columns - len(text)
        yield text + bar(row.counts, row.total, room) if bars and room > 10 else text[:columns]


def bar(counts: Mapping[str, int], total: int, width: int) -> str:
    """Return a bar of so many columns, a part for each state."""
    room = min(width, _WIDEST_BAR) - 2
    parts = [int(room * counts.get(state, 0) / total) if total else 0 for state, _ in _BAR]
    longest = parts.index(max(parts))
    parts[longest] += room - sum(parts)
    return f"[{''.join(sign * part for (_, sign), part in zip(_BAR, parts, strict=True))}]"


def added(found: Iterable[Row]) -> tuple[dict[str, int], int]:
    """Return the jobs of all lines by state, and their number."""
    counts, total = dict.fromkeys(STATES, 0), 0
    for row in found:
        total += row.total
        for state, count in row.counts.items():
            counts[state] += count
    return counts, total


def summary(counts: Mapping[str, int], total: int, width: int, percentages: bool) -> str:
    """Return the line that sums up all jobs, its words cut to fit."""
    parts = [(word, sum(counts[state] for state in states)) for word, states in _SUMMARY]
    if percentages:
        told = [f"{round(100 * count / total) if total else 0}% {word}" for word, count in parts]
        return f"Total: {total} jobs; {', '.join(told)}"
    for letters in range(10, 1, -1):
        text = f"Total: {total} jobs; " + ", ".join(f"{count} {word[:letters]}" for word, count in parts if count)
        if len(text) <= width:
            break
    return text


def short_path(path: str) -> str:
    """Return the shortest of a path's forms: absolute, below the home, below the current folder."""
    forms = [path, os.path.join("~", os.path.relpath(path, os.path.expanduser("~")))]
    here = os.path.relpath(path)
    if not here.startswith("../"):
        forms.append(os.path.join(".", here))
    return min(forms, key=len)
