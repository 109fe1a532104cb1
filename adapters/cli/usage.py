"""``poolbook usage``: usage by user, machine etc.; ``log -evicted``, ``audit -preemptions``: runs that were evicted.

Usage by user, group or cluster without a window comes from the history of the jobs that have left the queue; the views
store the sums. All other usage is the sum of the runs that the log records. Evictions are listed with their causes;
preemptions with their beneficiary, whether that user used the slot, and what was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...domain.units import SECOND
from ...projections.imported_ads import USAGE_STATEMENTS
from ...replay.narration.formatting import EVER, counted, excerpt, instant, interval, iso
from ..condor_tools.cells import duration_of_us
from ..condor_tools.layout import text_table
from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..condor_tools.terminal import width_of, wrap_text
from ..runtime.queries import Queries
from .common import selected_log

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...domain.ports.log import EventStore
    from ...projections.imported_ads import Spent
    from ...replay.listing.members import StreamFilter
    from ...replay.runs.job_run import JobRun
    from ...replay.usage.eviction_costs import Share
    from ...replay.usage.preemptions import Preemption
    from ...replay.usage.usage_sums import Sum
    from .time_window import Window

COMMAND = command_table("usage")

_HEADS = ("JOBS", "WALL_TIME", "CPU_TIME", "SLOT_TIME")
_OF_RUNS = ("JOBS", "RUNS", "TIME", "GOOD", "WASTED", "EVICTIONS")


def usage(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    grouping = arguments.value("by", "user")
    if grouping not in USAGE_STATEMENTS or arguments.has("from", "to"):
        return _print_run_usage(arguments, grouping)
    with Queries(selected_log(arguments, "name", "pool")) as queries:
        usages = queries.usage(grouping)
    names = set(arguments.words)
    rows = [row for row in usages if _is_requested_row((row.name,), names)]
    rows.sort(key=lambda row: (-row.slot_time, -row.wall, row.name))
    if arguments.has("json"):
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        print("\n".join(_usage_table(grouping, rows)))
    return 0


def _is_requested_row(names: Sequence[str], given_names: set[str]) -> bool:
    """Check whether a row is requested: no names were given, or one of the row's names, with or without its domain."""
    return not given_names or any(name in given_names or name.partition("@")[0] in given_names for name in names)


def _print_run_usage(arguments: Arguments, groups_text: str) -> int:
    from ...replay.usage.eviction_costs import open_lines, unknown_as_dict, unknown_lines
    from ...replay.usage.usage_sums import BY as KEYS
    from ...replay.usage.usage_sums import names, sums
    from ..machine.local_time import local_time
    from .time_window import window_of

    group_names = groups_text.split(",")
    if not set(group_names) <= set(KEYS) or len(set(group_names)) < len(group_names):
        raise UsageError(
            f"poolbook usage -by {groups_text}: unknown key; use {', '.join(KEYS)}, or several, such as machine,user"
        )
    with Queries(selected_log(arguments, "name", "pool")) as queries:
        window = window_of("usage", arguments, "from", "to", queries.log)
        report = queries.runs(*window, local_time())
        span = "" if report.runs else _log_time_span(queries.log)
    given_names = set(arguments.words)
    runs = [run for run in report.runs if _is_requested_row(names(run), given_names)]
    rows, total = sums(runs, group_names, *window, local_time())
    if given_names and not runs:
        names_text = " or ".join(arguments.words)
        raise ToolError(
            f"poolbook usage: no run{window.words(local_time())} belongs to {names_text}; omit it to list all runs"
        )
    order = sorted(rows.items(), key=lambda row: (-row[1].used, row[0]))
    if arguments.has("json"):
        json_rows = [dict(zip(group_names, keys, strict=True)) | row.as_dict() for keys, row in order]
        begin, end = (iso(at) if 0 < at < EVER else None for at in window)
        answer = {"from": begin, "to": end, "rows": json_rows, "total": total.as_dict()}
        print(json.dumps(answer | {"unknown": unknown_as_dict(report.unknown)}, indent=2))
        return 0
    if runs:
        print("\n".join(_usage_rows(group_names, order, total)))
    elif not report.unknown.silent:
        print(f"There are no runs{window.words(local_time())}{span}.")
    for line in (*open_lines(runs), *unknown_lines(report.unknown)):
        print(line)
    return 0


def _usage_rows(by: Sequence[str], order: Sequence[tuple[tuple[str, ...], Sum]], total: Sum) -> Iterator[str]:
    cells = [
        (*keys, str(len(row.jobs)), str(row.runs), *map(duration_of_us, row.times), str(row.evictions))
        for keys, row in [*order, (("total", *[" "] * (len(by) - 1)), total)]
    ]
    cells = [tuple(cell or "(none)" for cell in row) for row in cells]
    return text_table((*map(str.upper, by), *_OF_RUNS), cells, right=range(len(by), len(by) + len(_OF_RUNS)))


def _log_time_span(log: EventStore) -> str:
    """Return the time that a log covers, as the end of a sentence, or an empty string if the log has no events."""
    from ...replay.forensics.imported_log import time_span
    from ..machine.local_time import local_time

    first, last = time_span(log)
    return f"; the log covers {instant(first, local_time())} to {instant(last, local_time())}" if last else ""


def _usage_table(grouping: str, rows: Sequence[Spent]) -> Iterator[str]:
    total = [sum(amounts) for amounts in zip(*(row[1:] for row in rows), strict=True)] or [0, 0, 0, 0]
    cells = [
        (name, str(amounts[0]), *map(duration_of_us, amounts[1:]))
        for name, amounts in [*((row.name or "(none)", row[1:]) for row in rows), ("total", total)]
    ]
    return text_table((grouping.upper(), *_HEADS), cells, right=range(1, 1 + len(_HEADS)))


def print_evictions(queries: Queries, stream: StreamFilter | None, window: Window, zone: tzinfo, as_json: bool) -> int:
    """Print the evictions in a window, only evictions of `stream` if it is given, and return the exit code.

    :raises UsageError: `stream` is not a job, cluster or slot
    """
    from ...replay.usage import eviction_costs

    try:
        eviction_costs.check_stream(stream)
    except ValueError as error:
        raise UsageError(f"poolbook log -evicted: {error}") from None
    answer = queries.runs(*window, zone, evicted=True)
    ended = eviction_costs.runs_of_stream(answer.runs, stream)
    runs = [run for run in ended if run.is_eviction_by_pool]
    other_shares = eviction_costs.by_cause([run for run in ended if not run.is_eviction_by_pool])
    place = queries.places() if queries.imported else str
    shares = eviction_costs.by_cause(runs)
    if as_json:
        report = {
            "evictions": [eviction_costs.as_dict(run, place(run.stimulus)) for run in runs],
            "causes": [eviction_costs.share_as_dict(share) for share in shares],
            "apart": [eviction_costs.share_as_dict(share) for share in other_shares],
            "unknown": eviction_costs.unknown_as_dict(answer.unknown),
        }
        print(json.dumps(report, indent=2))
        return 0
    width = width_of()
    if runs:
        rows = [_row(run, zone, place(run.stimulus)) for run in runs]
        for line in text_table(("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE"), rows, right=(4,)):
            print(_fit_to_terminal(line, width))
        print()
    unknown = eviction_costs.unknown_lines(answer.unknown)
    for line in (*_summary(runs, shares, window.words(zone)), *_omitted_evictions(other_shares), *unknown):
        print(wrap_text(line, width))
    return 0


_INDENT = 4
"""The indentation of continuation lines."""


def _fit_to_terminal(line: str, width: int | None) -> str:
    """Return a line of the table, folded to the terminal's width, without columns if necessary."""
    if width is not None and len(line) > width:
        line = re.sub(r" {2,}", "  ", line)
    return wrap_text(line, width, _INDENT)


def _row(run: JobRun, zone: tzinfo, place: str) -> tuple[str, ...]:
    reason = f" ({excerpt(run.reason_text.rstrip('.'))})" if run.reason_text else ""
    where = f" [{place}]" if place else ""
    lost_text = interval(run.duration)
    return (instant(run.ended, zone), run.job, run.user, run.slot, lost_text, f"{run.cause.clause}{reason}{where}")


def _summary(runs: Sequence[JobRun], shares: Sequence[Share], when: str) -> Iterator[str]:
    lost_time = sum(run.duration for run in runs)
    if not runs:
        yield f"There were no evictions{when}."
        return
    yield f"{counted(len(runs), 'eviction')}{when}: {interval(lost_time)} on slots lost."
    rows = [(str(share.evictions), duration_of_us(share.lost), share.cause.clause) for share in shares]
    yield from text_table(("COUNT", "TIME", "CAUSE"), rows, right=(0, 1))


def _omitted_evictions(shares: Sequence[Share]) -> Iterator[str]:
    if shares:
        counts = " and ".join(f"{share.evictions:,} {share.cause.name}" for share in shares)
        yield f"Not counted: runs whose jobs were held or removed ({counts}; {interval(sum(s.lost for s in shares))})."


_PREEMPTION_HEADS = ("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE", "FOR", "USED")


def print_preemptions(queries: Queries, zone: tzinfo, as_json: bool) -> int:
    from ...replay.usage import preemptions

    evictions = queries.preemptions()
    if as_json:
        totals = preemptions.totals(evictions)
        report = {
            "evictions": [preemptions.as_dict(eviction) for eviction in evictions],
            "lost_core_seconds": totals.lost / SECOND,
            "unused": totals.unused,
            "in_vain_core_seconds": totals.in_vain / SECOND,
        }
        print(json.dumps(report, indent=2))
        return 0
    width = width_of()
    if evictions:
        rows = [_preemption_row(eviction, zone) for eviction in evictions]
        for line in text_table(_PREEMPTION_HEADS, rows, right=(4,)):
            print(wrap_text(line, width, 4))
        print()
    for line in _totals(evictions):
        print(wrap_text(line, width))
    return 0


def _preemption_row(eviction: Preemption, zone: tzinfo) -> tuple[str, ...]:
    run = eviction.run
    of_user = f" of {eviction.user}" if eviction.user else ""
    beneficiary = f"{eviction.beneficiary_job}{of_user}" if eviction.beneficiary_job else "?"
    ended, use_length, use_text = instant(run.ended, zone), interval(run.duration), _use_of_freed_slot(eviction)
    return (ended, run.job, run.user, run.slot, use_length, run.cause.name, beneficiary, use_text)


def _use_of_freed_slot(eviction: Preemption) -> str:
    """Return how the freed slot was used; a dash if it was not freed for a job."""
    if eviction.began:
        length_text = f" for {interval(eviction.lasted)}" if eviction.lasted else ""
        return f"{eviction.used}{length_text}" if eviction.user or eviction.lasted else eviction.used
    return eviction.used or "-"


def _totals(evictions: Sequence[Preemption]) -> Iterator[str]:
    from ...replay.usage.preemptions import totals

    if not evictions:
        yield "There were no evictions."
        return
    sums = totals(evictions)
    yield f"{counted(sums.evictions, 'eviction')}: {interval(sums.lost)} of cores lost."
    if sums.unused:
        vain = interval(sums.in_vain)
        yield f"In vain: {sums.unused:,}, which lost {vain}: the slot was not used by the job that it was for."
