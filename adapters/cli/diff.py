"""``poolbook diff``: what changed in a pool between two times."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..condor_tools.layout import text_table
from ..condor_tools.options import UsageError, command_table, parse
from ..runtime.compare_times import changes_between
from ..runtime.queries import Queries
from .common import selected_log
from .time_window import parse_instant, time_in_log

if TYPE_CHECKING:
    from ...replay.moments.changes import Change

COMMAND = command_table("diff")
_HEADS = ("KIND", "NAME", "CHANGE", "BEFORE", "AFTER")


def diff(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if len(arguments.words) < 2:
        raise UsageError("poolbook diff: give two times, such as 3:00 and 4:00, or '10 min' and now")
    begin, end, *words = arguments.words
    url = selected_log(arguments)
    with Queries(url) as present, ExitStack() as opened:
        first = parse_instant("diff", begin, present.log)
        last = None if end == "now" else parse_instant("diff", end, present.log, first)
        if last is not None and last < first:
            raise UsageError(f"poolbook diff: {end} is before {begin}; give the earlier time first")
        opened.enter_context(time_in_log("diff"))
        earlier = opened.enter_context(Queries(url, present.log, first))
        later = opened.enter_context(Queries(url, present.log, last))
        rows = [
            row for row in changes_between(earlier, later) if not words or any(_is_about(row, word) for word in words)
        ]
    if arguments.has("json"):
        print(json.dumps([row._asdict() for row in rows], indent=2))
    elif rows:
        print("\n".join(text_table(_HEADS, [row[:5] for row in rows])))
    else:
        print("Nothing changed.")
    return 0


def _is_about(row: Change, word: str) -> bool:
    """Return True if a change concerns the job, slot, machine or user that a word names."""
    if row.kind == "job" and (job := re.fullmatch(r"(\d+)(?:\.(\d+))?", word)):
        cluster, _, procs = row.thing.partition(".")
        first, _, last = procs.partition("-")
        return cluster == job[1] and (job[2] is None or int(first) <= int(job[2]) <= int(last or first))
    return any(word in (name, *name.split("@")) for name in (row.thing, row.user) if name)
