"""``poolbook usage``: who used how much.

Without a window, by user, group or cluster: what the history has of the jobs that have left the queue, which the views
keep added up. Else the runs themselves are added up, as far as the log tells of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...projections.imported_ads import BY
from ...replay.narration.formatting import EVER, instant, iso
from ..condor_tools.cells import length_of
from ..condor_tools.layout import text_table
from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..runtime.queries import Queries
from .common import log_of

if TYPE_CHECKING:
    from ...domain.ports.log import EventStore
    from ...projections.imported_ads import Spent
    from ...replay.usage.usage_sums import Sum

COMMAND = command_table("usage")

_HEADS = ("JOBS", "WALL_TIME", "CPU_TIME", "SLOT_TIME")
_OF_RUNS = ("JOBS", "RUNS", "TIME", "GOOD", "WASTED", "EVICTIONS")


def usage(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    by = arguments.value("by", "user")
    if by not in BY or arguments.has("from", "to"):
        return _of_runs(arguments, by)
    with Queries(log_of(arguments)) as queries:
        found = queries.usage(by)
    words = set(arguments.words)
    rows = [row for row in found if _wanted((row.name,), words)]
    rows.sort(key=lambda row: (-row.slot_time, -row.wall, row.name))
    if arguments.has("json"):
        from json import dumps

        print(dumps([row._asdict() for row in rows], indent=2))
    else:
        print("\n".join(_table(by, rows)))
    return 0


def _wanted(names: Sequence[str], words: set[str]) -> bool:
    """Whether a row is asked for: one of its names, with or without its domain, or no name is given."""
    return not words or any(name in words or name.partition("@")[0] in words for name in names)


def _of_runs(arguments: Arguments, said: str) -> int:
    """What the runs in a window used."""
    import json

    from ...replay.usage.eviction_costs import unknown_as_dict
    from ...replay.usage.run_columns import of_open, of_unknown
    from ...replay.usage.usage_sums import BY as KEYS
    from ...replay.usage.usage_sums import names, sums
    from .time_window import here, window_of

    by = said.split(",")
    if not set(by) <= set(KEYS) or len(set(by)) < len(by):
        raise UsageError(f"poolbook usage -by {said}: usage is told by {', '.join(KEYS)}, or several: machine,user")
    with Queries(log_of(arguments)) as queries:
        window = window_of("usage", arguments, "from", "to", queries.log)
        found = queries.runs(*window, here())
        span = "" if found.runs else _span(queries.log)
    words = set(arguments.words)
    runs = [run for run in found.runs if _wanted(names(run), words)]
    rows, total = sums(runs, by, *window, here())
    if words and not runs:
        raise ToolError(f"poolbook usage: no run{window.words(here())} is of {' or '.join(arguments.words)}")
    order = sorted(rows.items(), key=lambda row: (-row[1].used, row[0]))
    if arguments.has("json"):
        told_rows = [dict(zip(by, keys, strict=True)) | row.as_dict() for keys, row in order]
        begin, end = (iso(at) if 0 < at < EVER else None for at in window)
        answer = {"from": begin, "to": end, "rows": told_rows, "total": total.as_dict()}
        print(json.dumps(answer | {"unknown": unknown_as_dict(found.unknown)}, indent=2))
        return 0
    if runs:
        print("\n".join(_rows(by, order, total)))
    elif not found.unknown.silent:
        print(f"There are no runs{window.words(here())}{span}.")
    for line in (*of_open(runs), *of_unknown(found.unknown)):
        print(line)
    return 0


def _rows(by: Sequence[str], order: Sequence[tuple[tuple[str, ...], Sum]], total: Sum) -> Iterator[str]:
    """The rows of what runs used, and their sum."""
    cells = [
        (*keys, str(len(row.jobs)), str(row.runs), *map(length_of, row.times), str(row.evictions))
        for keys, row in [*order, (("total", *[" "] * (len(by) - 1)), total)]
    ]
    cells = [tuple(cell or "(none)" for cell in row) for row in cells]
    return text_table((*map(str.upper, by), *_OF_RUNS), cells, right=range(len(by), len(by) + len(_OF_RUNS)))


def _span(log: EventStore) -> str:
    """The time of which a log tells, as the rest of a sentence; empty where it tells of none."""
    from ...replay.forensics.imported_log import time_span
    from .time_window import here

    first, last = time_span(log)
    return f"; the log tells of {instant(first, here())} to {instant(last, here())}" if last else ""


def _table(by: str, rows: Sequence[Spent]) -> Iterator[str]:
    """The rows and their sum; lengths of time as condor_history prints them."""
    total = [sum(amounts) for amounts in zip(*(row[1:] for row in rows), strict=True)] or [0, 0, 0, 0]
    texts = [
        (name, str(amounts[0]), *map(length_of, amounts[1:]))
        for name, amounts in [*((row.name or "(none)", row[1:]) for row in rows), ("total", total)]
    ]
    return text_table((by.upper(), *_HEADS), texts, right=range(1, 1 + len(_HEADS)))
