"""condor_watch_q: follow jobs by their job event logs, until a condition is true or Ctrl-C."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ..condor_tools.job_log_entries import LogEntry, UnreadableEntry, take_entries
from ..condor_tools.layout import Column, Layout, lay_out
from ..condor_tools.options import Arguments
from ..condor_tools.tool_options import ToolEnded, parse_tool_arguments, tool, usage_of
from ..machine.host import user_name
from .common import display_context, pool_log

STATES: Final = ("REMOVED", "HELD", "SUSPENDED", "IDLE", "INPUT", "RUN", "OUTPUT", "DONE")
"""The job states, in the order of their columns."""
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
    """Return the job state after an entry of a job event log, or None if the entry does not change it."""
    if entry.number != _FILE_TRANSFER:
        return _BY_EVENT.get(entry.number)
    match = re.search(r"started transferring (input|output)", entry.text, re.IGNORECASE)
    return match[1].upper() if match else None


class Watched(NamedTuple):
    """The jobs of a cluster: their job event log, the name of their batch, and their states by proc."""

    cluster: int
    log: str
    batch: str
    states: dict[int, str]
    known: int  #: the number of its jobs in the queue; 0: unknown

    @property
    def total(self) -> int:
        return max(self.known, len(self.states))

    @property
    def done(self) -> bool:
        return not any(state in ACTIVE for state in self.states.values())


class WatchRow(NamedTuple):
    """A line of the table: a group's name, its jobs by state (``counts``), and the ids of those in the queue."""

    name: str
    counts: Counter[str]
    total: int
    ids: str


def rows(groups: Mapping[str, Sequence[Watched]]) -> list[WatchRow]:
    """Return the lines for groups of clusters by first cluster, those with jobs in the queue before the others."""
    first = {name: min(cluster.cluster for cluster in clusters) for name, clusters in groups.items()}
    names = sorted(groups, key=lambda name: (all(cluster.done for cluster in groups[name]), first[name]))
    return [_row(name, groups[name]) for name in names]


def _row(name: str, clusters: Iterable[Watched]) -> WatchRow:
    states = [(watched.cluster, proc, state) for watched in clusters for proc, state in watched.states.items()]
    ids = [f"{cluster}.{proc}" for cluster, proc, state in sorted(states) if state in ACTIVE]
    shown_ids = ", ".join(ids) if len(ids) < 3 else f"{ids[0]} ... {ids[-1]}"
    return WatchRow(name, Counter(state for *_, state in states), sum(watched.total for watched in clusters), shown_ids)


def table(heading: str, rows: Sequence[WatchRow], columns: int, with_bars: bool) -> Iterator[str]:
    """Yield the lines of the table, truncated to this many columns or filled with bars."""
    shown_states = [state for state in STATES if state in _ALWAYS or any(row.counts[state] for row in rows)]
    headings = [heading, *shown_states, "TOTAL", "JOB_IDS"]
    cells = [
        [f"{word} " for word in (row.name, *(str(row.counts[s] or "-") for s in shown_states), str(row.total), row.ids)]
        for row in rows
    ]
    fixed_columns = (0, len(headings) - 1)
    layout = tuple(Column("", "", None if at in fixed_columns else 0, grow=True) for at in range(len(headings)))
    head, *table_lines = lay_out(Layout(layout, before="  ", after_row="", headed=False), [headings, *cells])
    yield head.rstrip()
    for row, text in zip(rows, table_lines, strict=True):
        room_width = columns - len(text)
        yield text + bar(row.counts, row.total, room_width) if with_bars and room_width > 10 else text[:columns]


def bar(counts: Mapping[str, int], total: int, width: int) -> str:
    """Return a bar of this many columns, with a section for each state."""
    room_width = min(width, _WIDEST_BAR) - 2
    part_widths = [int(room_width * counts.get(state, 0) / total) if total else 0 for state, _ in _BAR]
    longest_part = part_widths.index(max(part_widths))
    part_widths[longest_part] += room_width - sum(part_widths)
    return f"[{''.join(bar_sign * part_width for (_, bar_sign), part_width in zip(_BAR, part_widths, strict=True))}]"


def summary_line(counts: Mapping[str, int], total: int, width: int, percentages: bool) -> str:
    """Return the line that summarizes all jobs, with words abbreviated to fit."""
    part_counts = [(word, sum(counts[state] for state in states)) for word, states in _SUMMARY]
    if percentages:
        part_texts = [f"{round(100 * count / total) if total else 0}% {word}" for word, count in part_counts]
        return f"Total: {total} jobs; {', '.join(part_texts)}"
    for letters in range(10, 1, -1):
        text = f"Total: {total} jobs; " + ", ".join(f"{count} {word[:letters]}" for word, count in part_counts if count)
        if len(text) <= width:
            break
    return text


def short_path(path: str) -> str:
    """Return the shortest notation of a path: absolute, relative to the home, or relative to the current directory."""
    forms = [path, os.path.join("~", os.path.relpath(path, os.path.expanduser("~")))]
    relative_path = os.path.relpath(path)
    if not relative_path.startswith("../"):
        forms.append(os.path.join(".", relative_path))
    return min(forms, key=len)


TOOL = tool("watch_q")
_WRONG: Final = 2  #: the exit code of invalid usage
_ADVICE: Final = {
    "-totals": "to only print totals, try -no-table",
    "-userlog": "to track jobs from specific event logs, try -files {more}",
    "-nobatch": "to group by something other than batch name, try -groupby {{{{batch,log,cluster}}}}",
}
"""The advice about condor_q's options; {more}: the words after the option."""
_GROUPS: Final = {"batch": "BATCH", "log": "LOG", "cluster": "CLUSTER"}
_GROUPERS: Final[dict[str, Callable[[Iterable[bool]], bool]]] = {
    "all": all, "any": any, "none": lambda found: not any(found),
}  # fmt: skip
_STATES_OF: Final = {
    "active": ACTIVE, "done": frozenset({"DONE"}), "idle": frozenset({"IDLE"}), "held": frozenset({"HELD"}),
}  # fmt: skip


class _ExitCondition(NamedTuple):
    grouper: str
    status: str
    code: int


def watch_q(argv: Sequence[str]) -> int:
    try:
        return _follow_jobs(argv)
    except ToolEnded as ended:
        if ended.exit_code != _WRONG:
            raise
        raise ToolEnded(_WRONG, _usage() + ended.err) from None


def _usage() -> str:
    return usage_of("watch_q").partition("\n\n")[0] + "\n"


def _unknown_arguments_error(arguments: Sequence[str]) -> ToolEnded:
    first, *more = arguments
    advice = _ADVICE.get(first)
    if first.isdigit():
        advice = "to track specific cluster IDs, try -clusters " + " ".join((first, *filter(str.isdigit, more)))
    elif not first.startswith("-"):
        names = (first, *(word for word in more if not word.isdigit()))
        advice = f"to track jobs from specific users, try -users {' '.join(names)}"
    if advice is None:
        return ToolEnded(_WRONG, f"condor_watch_q: error: unrecognized arguments: {' '.join(arguments)}\n")
    return ToolEnded(1, f"condor_watch_q: error: argument {first}: {advice.format(more=' '.join(more))}\n", _usage())


def _number(arguments: Arguments, name: str, default: str, kind: type[int] | type[float]) -> float:
    text = arguments.value(name, default)
    try:
        return kind(text)
    except ValueError:
        message = f"condor_watch_q: error: argument -{name}: invalid {kind.__name__} value: {text!r}\n"
        raise ToolEnded(_WRONG, message) from None


def _follow_jobs(argv: Sequence[str]) -> int:
    arguments = parse_tool_arguments(TOOL, argv)
    if arguments.words:
        raise _unknown_arguments_error(arguments.words)
    if arguments.has("clusters") and arguments.has("larger-than"):
        raise ToolEnded(1, "ERROR: Use of both -clusters and -larger-than flag is prohibited.\n")
    conditions = [_exit_condition(text) for text in arguments.values("exit")]
    grouping = arguments.value("groupby", "batch")
    if grouping not in _GROUPS:
        groups = ", ".join(map(repr, _GROUPS))
        problem = f"invalid choice: {grouping!r} (choose from {groups})"
        raise ToolEnded(_WRONG, f"condor_watch_q: error: argument -groupby: {problem}\n")
    pause = _number(arguments, "interval", "0.5", float)
    jobs = _Jobs(arguments, int(_number(arguments, "larger-than", "0", int)))
    if not jobs.logs:
        raise ToolEnded(0, "WARNING: No jobs found, exiting...\n")
    is_refreshing = sys.stdout.isatty() and not arguments.has("no-refresh")
    try:
        while True:
            jobs.read_new_entries()
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            _print_screen(jobs, arguments, grouping, now, is_refreshing, waits=not conditions)
            for condition in conditions:
                states = _STATES_OF[condition.status]
                if _GROUPERS[condition.grouper](state in states for state in jobs.states()):
                    reason = f'"{condition.grouper} {condition.status}" at {now}'
                    print(f"Exiting with code {condition.code} because of condition {reason}")
                    return condition.code
            time.sleep(pause)
    except KeyboardInterrupt:
        return 0


def _exit_condition(text: str) -> _ExitCondition:
    fields = text.split(",")
    if len(fields) not in (2, 3):
        raise ToolEnded(_WRONG, "condor_watch_q: error: invalid -exit specification\n")
    grouper, status, code = (*fields, "0")[:3]
    for kind, word, known_names in (("GROUPER", grouper, _GROUPERS), ("JOB_STATUS", status, _STATES_OF)):
        if word not in known_names:
            kinds = f"{{{', '.join(known_names)}}}"
            raise ToolEnded(_WRONG, f'condor_watch_q: error: invalid {kind} "{word}", must be one of {kinds}\n')
    if not code.lstrip("+-").isdigit():
        message = f'condor_watch_q: error: exit_status must be an integer, but was "{code}"\n'
        raise ToolEnded(_WRONG, message)
    return _ExitCondition(grouper, status, int(code))


class _Jobs:
    """The watched clusters, and the positions up to which their logs were read."""

    def __init__(self, arguments: Arguments, since: int) -> None:
        self.clusters: dict[int, Watched] = {}
        self.logs: dict[str, int] = {}  #: path -> number of bytes read
        lists = {name: [word for option in arguments.all_given(name) for word in option.values]
                 for name in ("users", "clusters", "files", "batches")}  # fmt: skip
        if not any(lists.values()):
            lists["users"] = [user_name()]
        wrong_word = next((word for word in lists["clusters"] if not word.isdigit()), None)
        if wrong_word is not None:
            raise ToolEnded(1, f"ERROR: -clusters takes numbers of clusters, not {wrong_word!r}\n")
        self._only = {int(number) for number in lists["clusters"]} or None
        self._since = since
        self._names: dict[int, tuple[str, int]] = {}
        for path in lists["files"]:
            self._add_log(os.path.abspath(path))
        terms = [f'Owner == "{user}"' for user in lists["users"]]
        terms += [f"ClusterId == {number}" for number in lists["clusters"]]
        terms += [f'JobBatchName == "{batch}"' for batch in lists["batches"]]
        if terms:
            self._add_queued_logs(pool_log(arguments), " || ".join(terms), bool(lists["batches"]))

    def _add_queued_logs(self, url: str, constraint: str, by_batch: bool) -> None:
        from ..condor_tools.job_selection import select
        from ..runtime.queries import Queries

        selection, context, warned_clusters = select((), [constraint]), display_context().context(), set[int]()
        with Queries(url) as queries:
            for ad in queries.queue().ads:
                if not selection.has(ad, context):
                    continue
                cluster = int(str(ad.eval("ClusterId")))
                batch = str(ad.eval("JobBatchName")) if "JobBatchName" in ad else ""
                self._names[cluster] = batch, int(str(ad.eval("TotalSubmitProcs")))
                if by_batch:
                    self._only = {*(self._only or ()), cluster}
                if "UserLog" in ad:
                    self._add_log(os.path.join(str(ad.eval("Iwd")), str(ad.eval("UserLog"))))
                elif cluster not in warned_clusters:
                    warned_clusters.add(cluster)
                    explanation = "does not have a job event log file (set log=<path> in the submit description)"
                    print(f"WARNING: Cluster {cluster} {explanation}", file=sys.stderr)

    def _add_log(self, path: str) -> None:
        if path not in self.logs and not os.path.exists(path):
            explanation = "so it will be ignored. Reason: File path does not exist"
            print(f"WARNING: Could not open event log at {path} for reading, {explanation}", file=sys.stderr)
        elif path not in self.logs:
            self.logs[path] = 0

    def read_new_entries(self) -> None:
        for path, begin in self.logs.items():
            with open(path, "rb") as file:
                file.seek(begin)
                data = file.read()
            try:
                entries, taken_size = take_entries(data)
            except UnreadableEntry as problem:
                print(f"ERROR: Failed to parse event from {path}. Reason: {problem}", file=sys.stderr)
                taken_size, entries = len(data), []
            self.logs[path] += taken_size
            for entry in entries:
                cluster, proc, _ = entry.job
                state = state_after(entry)
                if state is None or cluster < self._since or (self._only is not None and cluster not in self._only):
                    continue
                if cluster not in self.clusters:
                    batch, count = self._names.get(cluster, ("", 0))
                    self.clusters[cluster] = Watched(cluster, path, batch or f"ID: {cluster}", {}, count)
                self.clusters[cluster].states[proc] = state

    def states(self) -> Iterator[str]:
        return (state for cluster in self.clusters.values() for state in cluster.states.values())

    def groups(self, grouping: str) -> dict[str, list[Watched]]:
        groups: dict[str, list[Watched]] = {}
        for cluster in self.clusters.values():
            name = {"batch": cluster.batch, "log": short_path(cluster.log), "cluster": str(cluster.cluster)}[grouping]
            groups.setdefault(name, []).append(cluster)
        return groups


def _print_screen(jobs: _Jobs, arguments: Arguments, grouping: str, now: str, refreshes: bool, waits: bool) -> None:
    columns, lines = shutil.get_terminal_size()
    all_rows = rows(jobs.groups(grouping))
    counts, total = sum((row.counts for row in all_rows), Counter[str]()), sum(row.total for row in all_rows)
    exited = {name for name, clusters in jobs.groups(grouping).items() if all(cluster.done for cluster in clusters)}
    shown_rows = [row for row in all_rows if not (arguments.has("no-display-exited") and row.name in exited)]
    percentages = arguments.value("summary-type") == "percentages"
    parts = {
        "table": list(table(_GROUPS[grouping], shown_rows, columns, not arguments.has("no-row-progress"))),
        "progress": [f"Total Progress: {bar(counts, total, columns - 16)}"],
        "summary": [summary_line(counts, total, columns, percentages)],
        "updated-at": [f"Updated at {now}"],
    }
    text = [line for name, part_lines in parts.items() if not arguments.has(f"no-{name}") for line in (*part_lines, "")]
    if len(text) > lines:
        text = [*text[: lines - 3], "Insufficient terminal height to display full output!", ""]
    if refreshes:
        sys.stdout.write("\033[H\033[J")
    print("\n".join(text[:-1]) + ("" if refreshes else "\n...") + ("\nPress ^C to exit" if waits else ""), flush=True)
