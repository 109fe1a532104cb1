"""The final report of `run` and `resume`: the results of each cluster's jobs, the first failed job with the end of its
stderr, the first held job with its reason, the jobs that no slot can run, and suggested commands."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from attrs import define, frozen

from ...domain.classad.argument_syntax import QuotingError, split
from ...domain.events import Ad, ClusterSubmitted, Event, JobActivated, JobExecuting, JobExited
from ...domain.names import JobId, SlotName
from ...domain.state.job_ad import unquoted
from ...domain.state.proc_ads import Variants
from ...domain.state_machines.hold_codes import hold_advice
from ...replay.narration.rejection_words import misfit_text
from ...replay.narration.unmatchable_jobs import misfit, undivided_slots
from ...replay.outcomes import HoldReason, Outcomes, ProcessEnd, outcome_text, outcomes_of
from ...replay.why.rejections import fits_none
from ..condor_tools.layout import Column, Layout, lay_out
from ..condor_tools.terminal import as_one_line, print_colored, width_of, wrap_text
from ..runtime.engine import Engine
from ..stores.location import locate, safe_url
from .common import suggested_commands


@define
class LastRun:
    slot: str = ""
    began: int = 0
    ended: int = 0
    code: int | None = None
    signal: int | None = None
    cpu: int = 0
    memory: int = 0

    def seconds(self) -> float | None:
        """Return how long the job's own process ran, or None if it never started or has not ended."""
        return max(0, self.ended - self.began) / 1e6 if self.began and self.ended else None


@frozen
class ClusterResult:
    """A cluster at the end of the run: its submission, its events, and the results of its jobs."""

    number: int
    submitted: ClusterSubmitted
    events: Sequence[Event]
    outcomes: Outcomes

    def ad_of(self, proc: int) -> Ad:
        """Return a job's ad as submitted."""
        return {**self.submitted.ad, **Variants(self.submitted.columns).of_proc(proc)}

    def repeated_runs(self) -> dict[int, int]:
        """Return the number of starts of each job that was started more than once, by proc."""
        runs = Counter(event.proc for event in self.events if isinstance(event, JobActivated))
        return {proc: count for proc, count in sorted(runs.items()) if count > 1}

    def rows(self) -> dict[int, LastRun]:
        """Return the last run of each job, by proc."""
        rows = {proc: LastRun() for proc in self.outcomes.status}
        for event in self.events:
            if isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
                _update_last_run(rows[event.proc], event)
        return rows


def _update_last_run(row: LastRun, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.code, row.signal = event.code, event.signal


def cluster_results(engine: Engine, clusters: Iterable[int]) -> Iterator[ClusterResult]:
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        submission = next(event for event in events if isinstance(event, ClusterSubmitted))
        yield ClusterResult(number, submission, events, outcomes_of(events))


MAX_TABLE_ROWS = 40
"""The maximum number of jobs in the table."""
_MAX_COMMAND_LENGTH = 48
_MAX_REPEATED_JOBS = 10
"""The maximum number of jobs listed as started more than once."""


def report(
    engine: Engine, url: str, clusters: Sequence[int], seconds: float, as_json: bool, was_interrupted: bool = False
) -> None:
    """Print the results of the clusters' jobs: a table, the counts by outcome, the first failure or hold with its
    reason, and suggested commands; or all jobs as JSON."""
    results = list(cluster_results(engine, clusters))
    if as_json:
        _print_json(results)
        return
    for result in results:
        _print_job_table(result)
    where = safe_url(locate(url).place)
    summary = f"{outcome_text([result.outcomes for result in results])} in {seconds:.1f} s"
    print_colored("\n" + wrap_text(f"{summary}; every state change is recorded in {where}", width_of()))
    again = [f"{r.number}.{proc} ({runs} times)" for r in results for proc, runs in r.repeated_runs().items()]
    if again:
        more_text = f", and {len(again) - _MAX_REPEATED_JOBS:,} more" if len(again) > _MAX_REPEATED_JOBS else ""
        print_colored(
            wrap_text(f"started more than once: {', '.join(again[:_MAX_REPEATED_JOBS])}{more_text}", width_of())
        )
    unmatchable_jobs = {r.number: job for r in results if (job := unmatchable_job(engine, r)) is not None}
    paragraphs, useful_calls = failures(results, unmatchable_jobs, was_interrupted)
    for paragraph in paragraphs:
        print_colored("\n" + wrap_text(paragraph, width_of()))
    calls_after_success = [
        (f"why {clusters[0]}.0", "explain what happened to this job"),
        ("history", "list the jobs that have left the queue"),
        ("verify", "check the log's seal and every transition"),
    ]
    print("\n" + suggested_commands(useful_calls or calls_after_success, url))


def _print_json(results: Iterable[ClusterResult]) -> None:
    """Print the jobs as a JSON list of objects, with HTCondor's attribute names where they exist."""
    jobs = [
        {
            "ClusterId": result.number,
            "ProcId": proc,
            "Slot": row.slot,
            "State": _STATE_NAMES.get(result.outcomes.status[proc], result.outcomes.status[proc]),
            "ExitCode": row.code,
            "ExitSignal": row.signal,
            "RunTime": row.seconds(),
            "RemoteCpu": row.cpu / 1e6,
            "ResidentSetSize": row.memory,
        }
        for result in results
        for proc, row in result.rows().items()
    ]
    print(json.dumps(jobs, indent=2))


_STATE_NAMES = {"failed": "completed"}
"""HTCondor's name of the job state for each outcome that has another name."""
_HEADS = ("ID", "SLOT", "STATE", "EXIT", "RUN TIME", "CPU", "MEMORY", "COMMAND")
_WIDTHS = (-8, -18, -11, 6, 9, 8, 9)
"""The widths of the columns (negative: left-aligned) if the output is not a terminal; otherwise the cells decide."""


def _print_job_table(result: ClusterResult) -> None:
    rows = [_job_cells(result, proc, row) for proc, row in islice(result.rows().items(), MAX_TABLE_ROWS)]
    width = width_of()
    columns = [Column("", "", wide if width is None else wide // abs(wide), grow=width is not None) for wide in _WIDTHS]
    layout = Layout((*columns, Column("", "", -1)), headed=False, trimmed=True, limit=width, after_row="")
    print()
    for line in lay_out(layout, [(*row[:-1], " " + row[-1]) for row in (_HEADS, *rows)]):
        print_colored(line)
    more_counts = Counter(islice(result.outcomes.status.values(), MAX_TABLE_ROWS, None))
    if more_counts:
        rest_text = ", ".join(f"{count:,} more {status}" for status, count in more_counts.items())
        print(f"... and {rest_text}: {_command_listing(result, more_counts)}")


def _command_listing(result: ClusterResult, more_statuses: Collection[str]) -> str:
    if set(more_statuses) == {"held"}:
        return f"poolbook q {result.number} -hold"
    has_unfinished = any(status in more_statuses for status in ("held", "idle", "running", "suspended"))
    return f"poolbook {'q' if has_unfinished else 'history'} {result.number}"


def _job_cells(result: ClusterResult, proc: int, row: LastRun) -> tuple[str, ...]:
    run_seconds, code = row.seconds(), "" if row.code is None else str(row.code)
    return (
        f"{result.number}.{proc}",
        SlotName.parse(row.slot).slot,
        result.outcomes.status[proc],
        code if row.signal is None else f"sig {row.signal}",
        "" if run_seconds is None else f"{run_seconds:.2f} s",
        "" if run_seconds is None else f"{row.cpu / 1e6:.2f} s",
        f"{row.memory / 1024:.1f} MiB" if row.memory else "",
        _command_line(result.ad_of(proc))[:_MAX_COMMAND_LENGTH],
    )


def _command_line(ad: Mapping[str, str]) -> str:
    name = unquoted(ad.get("Cmd", "")).rpartition("/")[2]
    arguments_text = unquoted(ad.get("Arguments", ""))
    try:
        arguments = shlex.join(split(arguments_text)) if arguments_text else unquoted(ad.get("Args", ""))
    except QuotingError:  # the log was edited
        arguments = arguments_text
    return as_one_line(f"{name} {arguments}".strip())


STDERR_LINES = 5
"""The number of lines of a job's stderr that are printed."""
_TAIL_BYTES = 8192
_MAX_LINE_LENGTH = 200
_UNFINISHED = ("idle", "running", "suspended")
_OUTPUT_ATTRIBUTES = ("Out", "Err")

Calls = list[tuple[str, str]]


class UnmatchableJob(NamedTuple):
    """The reason why no slot can run a cluster's first idle job, and the number of similar jobs."""

    words: str
    jobs: int = 1


def failures(
    results: Sequence[ClusterResult], unmatchable_jobs: Mapping[int, UnmatchableJob], was_interrupted: bool
) -> tuple[list[str], Calls]:
    """Return the problems as paragraphs, and suggested commands; both are empty if there are no problems.

    :param unmatchable_jobs: the jobs that no slot can run, by cluster
    :param was_interrupted: whether a user stopped the run; otherwise it stopped because none of the remaining jobs
    could run
    """
    paragraphs: list[str] = []
    worth: Calls = []
    failure_text = next(_first_failures(results), None)
    if failure_text is not None:
        result, proc, ended = failure_text
        name = f"{result.number}.{proc}"
        paragraphs.append(f"{name} failed ({ended.text}){_stderr_tail(result, proc)}")
        worth.append((f"why {name}", "explain why it failed"))
    for result in results:
        if result.outcomes.held:
            paragraphs.append(_hold_text(result))
            worth += [
                (f"why {result.number}.{result.outcomes.first_job('held')}", "explain why it is held"),
                (f"release {result.number}", "then `poolbook resume` runs them"),
            ]
            break
    for number, unmatchable in unmatchable_jobs.items():
        outcomes = next(result.outcomes for result in results if result.number == number)
        name = f"{number}.{outcomes.first_job('idle')}"
        paragraphs.append(f"{name} is idle: {unmatchable.words}.")
        worth += [(f"why {name}", "compare its requests with the slots"), (f"rm {number}", "remove it")]
    left_count = sum(status in _UNFINISHED for result in results for status in result.outcomes.status.values())
    left_count -= sum(unmatchable.jobs for unmatchable in unmatchable_jobs.values())
    jobs, pronoun = ("1 job is left", "it") if left_count == 1 else (f"{left_count:,} jobs are left", "them")
    if left_count > 0 and was_interrupted:
        paragraphs.append(f"{jobs}: `poolbook resume` continues with {pronoun}.")
        worth.insert(0, ("resume", "continue with the remaining jobs"))
    elif left_count > 0 and not unmatchable_jobs:
        paragraphs.append(f"{jobs}: no slot accepts {pronoun} now.")
        waiting_jobs = [f"{r.number}.{first}" for r in results if (first := r.outcomes.first_job("idle")) is not None]
        worth += [(f"why {name}", "explain what it is waiting for") for name in waiting_jobs[:1]]
    return paragraphs, worth


def unmatchable_job(engine: Engine, result: ClusterResult) -> UnmatchableJob | None:
    """Return why no slot could ever match a cluster's first idle job, or None if a slot could, or no job is idle."""
    proc = result.outcomes.first_job("idle")
    why = "" if proc is None else unmatchable_reason(engine, result.number, proc)
    if not why:
        return None
    refusing_slots = (
        reason.jobs
        for name, reason in engine.state.rejections.get(result.number, {}).items()
        if fits_none(reason) and unmatchable_reason(engine, *JobId.parse(name))
    )
    return UnmatchableJob(why, min(max(1, sum(refusing_slots)), list(result.outcomes.status.values()).count("idle")))


def unmatchable_reason(engine: Engine, cluster: int, proc: int) -> str:
    """Return a sentence that explains why no slot could ever match a queued job, or an empty string if one could, or
    none is needed."""
    state = engine.state
    jobs = state.clusters.get(cluster)
    if jobs is None or proc not in jobs or jobs.is_local:
        return ""
    conflict = misfit(jobs.attributes(proc), undivided_slots(state), state.at // 1_000_000, state.user_maps)
    return "" if conflict is None else misfit_text(conflict)


def _first_failures(results: Sequence[ClusterResult]) -> Iterator[tuple[ClusterResult, int, ProcessEnd]]:
    for result in results:
        proc = result.outcomes.first_job("failed")
        if proc is not None:
            yield result, proc, result.outcomes.failed[proc]


def _hold_text(result: ClusterResult) -> str:
    holds = result.outcomes.held
    proc, hold = next(iter(holds.items()))
    name = f"{result.number}.{proc}"
    reason = as_one_line(hold.text).rstrip(".")
    if len(holds) == 1:
        text = f"{name} is held: {reason}."
    elif result.outcomes.have_same_reason:
        text = f"{len(holds):,} jobs are held for the same reason; {name}: {reason}."
    else:
        text = f"{len(holds):,} jobs are held for several reasons; {name}: {reason}."
    return f"{text} {_hold_advice(result.ad_of(proc), hold, result.number, len(holds))}"


def _hold_advice(ad: Mapping[str, str], hold: HoldReason, number: int, jobs: int) -> str:
    if hold.code == _SUBMITTED_HELD:
        pronoun = "it" if jobs == 1 else "them"
        return f"You submitted {pronoun} on hold: `poolbook release {number}` and `poolbook resume` let {pronoun} run."
    folders = [os.path.dirname(path) for name in _OUTPUT_ATTRIBUTES if (path := _output_path(ad, name))]
    missing = next((folder for folder in folders if not os.path.isdir(folder)), "")
    if missing and hold.code in _FILE_HOLD_CODES:
        return f"`mkdir -p {shlex.quote(missing)}`, then `poolbook release {number}` and `poolbook resume`."
    return f"{hold_advice(hold.code, 'poolbook', str(number))}; `poolbook resume` runs the released jobs."


_SUBMITTED_HELD = "15"
"""HoldReasonCode of a job that was submitted on hold."""
_FILE_HOLD_CODES = ("7", "8")
"""HoldReasonCodes for an output or error file that could not be opened."""


def _output_path(ad: Mapping[str, str], name: str) -> str:
    path_text = unquoted(ad.get(name, ""))
    return os.path.join(unquoted(ad.get("Iwd", "")), path_text) if path_text and path_text != os.devnull else ""


def _stderr_tail(result: ClusterResult, proc: int) -> str:
    path = _output_path(result.ad_of(proc), "Err")
    if not path:
        return "; its stderr was not saved (its submit file has no `error =`)."
    lines = _last_printable_lines(path)
    if not lines:
        return "."
    shown_path = os.path.relpath(path)
    shown_path = as_one_line(path if shown_path.startswith("..") else shown_path)
    if result.submitted.count > 1 and "Err" not in Variants(result.submitted.columns).names:
        shown_path += ", which other jobs also write"
    return "\n".join([f"; the end of its stderr ({shown_path}):", *(f"    {line}" for line in lines)])


def _last_printable_lines(path: str) -> list[str]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return []
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = [as_one_line(line.rstrip()) for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    return [
        line if len(line) <= _MAX_LINE_LENGTH else f"...{line[3 - _MAX_LINE_LENGTH :]}"
        for line in lines[-STDERR_LINES:]
    ]
