"""condor_watch_q: follow jobs by their job event logs, until a condition holds or Ctrl-C."""

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
from ..condor_tools.layout import Column, Layout, laid_out
from ..condor_tools.options import Arguments
from ..condor_tools.tool_options import ToolEnded, read, tool, usage_of
from ..machine.host import user_name
from .common import pool_log, setting

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
    """Return the job state after an entry of a job event log; None if the entry does not change it."""
    if entry.number != _FILE_TRANSFER:
        return _BY_EVENT.get(entry.number)
    match = re.search(r"started transferring (input|output)", entry.text, re.IGNORECASE)
    return match[1].upper() if match else None


class Watched(NamedTuple):
    """The jobs of a cluster: their job event log, their batch's name, and their states by process."""

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


class WatchRow(NamedTuple):
    """A line of the table: its name, its jobs by state, all of them, and the ids of those in the queue."""

    name: str
    counts: Counter[str]
    total: int
    ids: str


def rows(groups: Mapping[str, Sequence[Watched]]) -> list[WatchRow]:
    """Return the lines of groups of clusters: those with jobs in the queue first, each kind by its first cluster."""
    first = {name: min(watched.cluster for watched in clusters) for name, clusters in groups.items()}
    names = sorted(groups, key=lambda name: (all(watched.done for watched in groups[name]), first[name]))
    return [_row(name, groups[name]) for name in names]


def _row(name: str, clusters: Iterable[Watched]) -> WatchRow:
    states = [(watched.cluster, proc, state) for watched in clusters for proc, state in watched.states.items()]
    ids = [f"{cluster}.{proc}" for cluster, proc, state in sorted(states) if state in ACTIVE]
    shown = ", ".join(ids) if len(ids) < 3 else f"{ids[0]} ... {ids[-1]}"
    return WatchRow(name, Counter(state for *_, state in states), sum(watched.total for watched in clusters), shown)


def table(heading: str, rows: Sequence[WatchRow], columns: int, bars: bool) -> Iterator[str]:
    """Yield the lines of the table, cut or filled with bars to so many columns."""
    shown = [state for state in STATES if state in _ALWAYS or any(row.counts[state] for row in rows)]
    heads = [heading, *shown, "TOTAL", "JOB_IDS"]
    cells = [
        [f"{word} " for word in (row.name, *(str(row.counts[s] or "-") for s in shown), str(row.total), row.ids)]
        for row in rows
    ]
    fixed = (0, len(heads) - 1)
    layout = tuple(Column("", "", None if at in fixed else 0, grow=True) for at in range(len(heads)))
    head, *texts = laid_out(Layout(layout, before="  ", after_row="", headed=False), [heads, *cells])
    yield head.rstrip()
    for row, text in zip(rows, texts, strict=True):
        room = columns - len(text)
        yield text + bar(row.counts, row.total, room) if bars and room > 10 else text[:columns]


def bar(counts: Mapping[str, int], total: int, width: int) -> str:
    """Return a bar of so many columns, a part for each state."""
    room = min(width, _WIDEST_BAR) - 2
    parts = [int(room * counts.get(state, 0) / total) if total else 0 for state, _ in _BAR]
    longest = parts.index(max(parts))
    parts[longest] += room - sum(parts)
    return f"[{''.join(sign * part for (_, sign), part in zip(_BAR, parts, strict=True))}]"


def summary(counts: Mapping[str, int], total: int, width: int, percentages: bool) -> str:
    """Return the line that sums up all jobs, its words cut to fit."""
    parts = [(word, sum(counts[state] for state in states)) for word, states in _SUMMARY]
    if percentages:
        texts = [f"{round(100 * count / total) if total else 0}% {word}" for word, count in parts]
        return f"Total: {total} jobs; {', '.join(texts)}"
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


TOOL = tool("watch_q")
_WRONG: Final = 2  #: the exit code of wrong usage
_ADVICE: Final = {
    "-totals": "to only print totals, try -no-table",
    "-userlog": "to track jobs from specific event logs, try -files {more}",
    "-nobatch": "to group by something other than batch name, try -groupby {{{{batch,log,cluster}}}}",
}
"""The advice about condor_q's options; {more} are the words after them."""
_GROUPS: Final = {"batch": "BATCH", "log": "LOG", "cluster": "CLUSTER"}
_GROUPERS: Final[dict[str, Callable[[Iterable[bool]], bool]]] = {
    "all": all, "any": any, "none": lambda found: not any(found),
}  # fmt: skip
_STATES_OF: Final = {
    "active": ACTIVE, "done": frozenset({"DONE"}), "idle": frozenset({"IDLE"}), "held": frozenset({"HELD"}),
}  # fmt: skip


class _Condition(NamedTuple):
    """When to end, and with which exit code."""

    grouper: str
    status: str
    code: int


def watch_q(argv: Sequence[str]) -> int:
    try:
        return _watch(argv)
    except ToolEnded as ended:
        if ended.exit_code != _WRONG:
            raise
        raise ToolEnded(_WRONG, _usage() + ended.err) from None


def _usage() -> str:
    return usage_of("watch_q").partition("\n\n")[0] + "\n"


def _not_understood(arguments: Sequence[str]) -> ToolEnded:
    """Return the error for unknown arguments, with HTCondor's advice about what may be meant."""
    first, *more = arguments
    advice = _ADVICE.get(first)
    if first.isdigit():
        advice = "to track specific cluster IDs, try -clusters " + " ".join((first, *filter(str.isdigit, more)))
    elif not first.startswith("-"):
        advice = "to track jobs from specific users, try -users " + " ".join(
            (first, *(word for word in more if not word.isdigit()))
        )
    if advice is None:
        return ToolEnded(_WRONG, f"condor_watch_q: error: unrecognized arguments: {' '.join(arguments)}\n")
    return ToolEnded(1, f"condor_watch_q: error: argument {first}: {advice.format(more=' '.join(more))}\n", _usage())


def _number(arguments: Arguments, name: str, otherwise: str, kind: type[int] | type[float]) -> float:
    text = arguments.value(name, otherwise)
    try:
        return kind(text)
    except ValueError:
        message = f"condor_watch_q: error: argument -{name}: invalid {kind.__name__} value: {text!r}\n"
        raise ToolEnded(_WRONG, message) from None


def _watch(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    if arguments.words:
        raise _not_understood(arguments.words)
    if arguments.has("clusters") and arguments.has("larger-than"):
        raise ToolEnded(1, "ERROR: Use of both -clusters and -larger-than flag is prohibited.\n")
    conditions = [_condition(text) for text in arguments.values("exit")]
    by = arguments.value("groupby", "batch")
    if by not in _GROUPS:
        known = ", ".join(map(repr, _GROUPS))
        raise ToolEnded(
            _WRONG, f"condor_watch_q: error: argument -groupby: invalid choice: {by!r} (choose from {known})\n"
        )
    pause = _number(arguments, "interval", "0.5", float)
    jobs = _Jobs(arguments, int(_number(arguments, "larger-than", "0", int)))
    if not jobs.logs:
        raise ToolEnded(0, "WARNING: No jobs found, exiting...\n")
    refreshes = sys.stdout.isatty() and not arguments.has("no-refresh")
    try:
        while True:
            jobs.read()
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            _show(jobs, arguments, by, now, refreshes, waits=not conditions)
            for condition in conditions:
                states = _STATES_OF[condition.status]
                if _GROUPERS[condition.grouper](state in states for state in jobs.states()):
                    reason = f'"{condition.grouper} {condition.status}" at {now}'
                    print(f"Exiting with code {condition.code} because of condition {reason}")
                    return condition.code
            time.sleep(pause)
    except KeyboardInterrupt:
        return 0


def _condition(text: str) -> _Condition:
    parts = text.split(",")
    if len(parts) not in (2, 3):
        raise ToolEnded(_WRONG, "condor_watch_q: error: invalid -exit specification\n")
    grouper, status, code = (*parts, "0")[:3]
    for kind, word, known in (("GROUPER", grouper, _GROUPERS), ("JOB_STATUS", status, _STATES_OF)):
        if word not in known:
            kinds = f"{{{', '.join(known)}}}"
            raise ToolEnded(_WRONG, f'condor_watch_q: error: invalid {kind} "{word}", must be one of {kinds}\n')
    if not code.lstrip("+-").isdigit():
        message = f'condor_watch_q: error: exit_status must be an integer, but was "{code}"\n'
        raise ToolEnded(_WRONG, message)
    return _Condition(grouper, status, int(code))


class _Jobs:
    """The watched clusters, and how far their logs have been read."""

    def __init__(self, arguments: Arguments, since: int) -> None:
        self.clusters: dict[int, Watched] = {}
        self.logs: dict[str, int] = {}  #: path -> how many bytes of it were read
        lists = {name: [word for given in arguments.every(name) for word in given.values]
                 for name in ("users", "clusters", "files", "batches")}  # fmt: skip
        if not any(lists.values()):
            lists["users"] = [user_name()]
        wrong = next((word for word in lists["clusters"] if not word.isdigit()), None)
        if wrong is not None:
            raise ToolEnded(1, f"ERROR: -clusters takes numbers of clusters, not {wrong!r}\n")
        self._only = {int(number) for number in lists["clusters"]} or None
        self._since = since
        self._names: dict[int, tuple[str, int]] = {}
        for path in lists["files"]:
            self._add(os.path.abspath(path))
        terms = [f'Owner == "{user}"' for user in lists["users"]]
        terms += [f"ClusterId == {number}" for number in lists["clusters"]]
        terms += [f'JobBatchName == "{batch}"' for batch in lists["batches"]]
        if terms:
            self._look_up(pool_log(arguments), " || ".join(terms), bool(lists["batches"]))

    def _look_up(self, url: str, constraint: str, of_batches: bool) -> None:
        """Take the logs of the jobs in the queue for which a constraint is true."""
        from ..condor_tools.job_selection import select
        from ..runtime.queries import Queries

        selection, context, warned = select((), [constraint]), setting().context(), set[int]()
        with Queries(url) as queries:
            for ad in queries.queue().ads:
                if not selection.has(ad, context):
                    continue
                cluster = int(str(ad.eval("ClusterId")))
                batch = str(ad.eval("JobBatchName")) if "JobBatchName" in ad else ""
                self._names[cluster] = batch, int(str(ad.eval("TotalSubmitProcs")))
                if of_batches:
                    self._only = {*(self._only or ()), cluster}
                if "UserLog" in ad:
                    self._add(os.path.join(str(ad.eval("Iwd")), str(ad.eval("UserLog"))))
                elif cluster not in warned:
                    warned.add(cluster)
                    what = "does not have a job event log file (set log=<path> in the submit description)"
                    print(f"WARNING: Cluster {cluster} {what}", file=sys.stderr)

    def _add(self, path: str) -> None:
        if path not in self.logs and not os.path.exists(path):
            why = "so it will be ignored. Reason: File path does not exist"
            print(f"WARNING: Could not open event log at {path} for reading, {why}", file=sys.stderr)
        elif path not in self.logs:
            self.logs[path] = 0

    def read(self) -> None:
        """Take in what the logs have gained."""
        for path, begin in self.logs.items():
            with open(path, "rb") as file:
                file.seek(begin)
                data = file.read()
            try:
                entries, taken = take_entries(data)
            except UnreadableEntry as problem:
                print(f"ERROR: Failed to parse event from {path}. Reason: {problem}", file=sys.stderr)
                taken, entries = len(data), []
            self.logs[path] += taken
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

    def groups(self, by: str) -> dict[str, list[Watched]]:
        groups: dict[str, list[Watched]] = {}
        for watched in self.clusters.values():
            name = {"batch": watched.batch, "log": short_path(watched.log), "cluster": str(watched.cluster)}[by]
            groups.setdefault(name, []).append(watched)
        return groups


def _show(jobs: _Jobs, arguments: Arguments, by: str, now: str, refreshes: bool, waits: bool) -> None:
    """Print the table, the bar, the summary and the time, as requested."""
    columns, lines = shutil.get_terminal_size()
    every = rows(jobs.groups(by))
    counts, total = sum((row.counts for row in every), Counter[str]()), sum(row.total for row in every)
    exited = {name for name, clusters in jobs.groups(by).items() if all(cluster.done for cluster in clusters)}
    shown = [row for row in every if not (arguments.has("no-display-exited") and row.name in exited)]
    percentages = arguments.value("summary-type") == "percentages"
    parts = {
        "table": list(table(_GROUPS[by], shown, columns, not arguments.has("no-row-progress"))),
        "progress": [f"Total Progress: {bar(counts, total, columns - 16)}"],
        "summary": [summary(counts, total, columns, percentages)],
        "updated-at": [f"Updated at {now}"],
    }
    text = [line for name, part in parts.items() if not arguments.has(f"no-{name}") for line in (*part, "")]
    if len(text) > lines:
        text = [*text[: lines - 3], "Insufficient terminal height to display full output!", ""]
    if refreshes:
        sys.stdout.write("\033[H\033[J")
    print("\n".join(text[:-1]) + ("" if refreshes else "\n...") + ("\nPress ^C to exit" if waits else ""), flush=True)
