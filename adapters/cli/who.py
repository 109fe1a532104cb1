"""condor_who: the jobs that run on this machine, with their processes and directories."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..condor_tools.cells import length, number, text
from ..condor_tools.formats import custom_layout, long_text
from ..condor_tools.layout import lines
from ..condor_tools.options import UsageError
from ..condor_tools.tool_options import Tool, ToolEnded, read
from .common import default_log, job_id, setting

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import Queries

TOOL = Tool(
    "who",
    lacking="Error: {option} requires an argument\n",
    lacking_all="Error: Argument {option} requires at least one attribute parameter\n"
    'Use "condor_who -help" for details\n',
    unknown="Error: {option} is not a valid argument\n",
    helped=1,
)  # fmt: skip
_HEADS = ("OWNER", "CLIENT", "SLOT", "JOB", "  RUNTIME", "PID", "JOB_DIR")


def who(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    if arguments.words:
        raise TOOL.ended("Error: {word} is not a valid argument\n", word=arguments.words[0])
    try:
        layout = custom_layout(arguments)
    except UsageError as wrong:
        raise ToolEnded(1, f"Error: {wrong}\n") from None
    from ..runtime.queries import Queries

    here = setting()
    with Queries(default_log()) as queries:
        ads = [ad for ad in queries.slots(here.now, here.timezone) if "JobId" in ad]
        if not ads:
            return 0
        if arguments.has("long"):
            sys.stdout.writelines(f"{long_text(ad)}\n" for ad in ads)
            return 0
        headed = layout is None or layout.headed
        machine = (text(ads[0], "Name") or "").rpartition("@")[2]
        if headed:
            print(f"\n--Startd : {machine} has {len(ads)} job(s) running:")
        if layout is None:
            sys.stdout.writelines(_table([_row(ad, queries) for ad in ads]))
        else:
            sys.stdout.writelines(lines(layout, ads, here))
        if headed:
            print()
    return 0


def _row(ad: ClassAd, queries: Queries) -> tuple[str, ...]:
    id = text(ad, "JobId") or ""
    job = job_id(id)
    run = None if job is None else queries.run(*job)
    slots = [number(ad, "SlotID"), *([number(ad, "DSlotId")] if "DSlotId" in ad else [])]
    return (
        text(ad, "RemoteOwner") or "",
        text(ad, "ClientMachine") or "",
        "_".join(map(str, slots)),
        id,
        f"{length(number(ad, 'TotalJobRunTime') or 0):>12}",
        str(run.pid) if run is not None and run.pid else "?",
        "" if run is None else _directory(run.pid) or run.scratch,
    )


def _directory(pid: int) -> str:
    """Return the directory in which a process is at work; empty if that cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of the table: each column as wide as its widest text."""
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    for row in (_HEADS, *rows):
        yield " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + "\n"
