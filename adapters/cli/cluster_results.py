"""The end of `run` and `resume`: what became of the jobs of each cluster, and the calls worth typing next."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from attrs import define, frozen

from ...domain.classad.argument_syntax import QuotingError, split
from ...domain.events import Ad, ClusterSubmitted, Event, JobActivated, JobExecuting, JobExited
from ...domain.names import SlotName
from ...domain.state.job_ad import unquoted
from ...domain.state.proc_ads import Variants
from ...replay.outcomes import Outcomes, counts, outcomes_of
from ..condor_tools.layout import Column, Layout, laid_out
from ..condor_tools.terminal import folded, print_painted, visible, width_of
from ..runtime.engine import Engine
from ..stores.location import locate
from .common import calls, shown
from .failed_jobs import failures, unmatchable_job


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
        """Return how long its own process ran; None if it never did, or still does."""
        return max(0, self.ended - self.began) / 1e6 if self.began and self.ended else None


@frozen
class ClusterResult:
    """A cluster at the end: its submission, its events, and what became of its jobs."""

    number: int
    submitted: ClusterSubmitted
    events: Sequence[Event]
    outcomes: Outcomes

    def ad_of(self, proc: int) -> Ad:
        """Return a job's ad as it was submitted."""
        return {**self.submitted.ad, **Variants(self.submitted.columns).of(proc)}

    def repeated_runs(self) -> dict[int, int]:
        """Return how often each job was started that was started more than once, by process number."""
        runs = Counter(event.proc for event in self.events if isinstance(event, JobActivated))
        return {proc: count for proc, count in sorted(runs.items()) if count > 1}

    def rows(self) -> dict[int, LastRun]:
        """Return the last run of each job, by process number."""
        rows = {proc: LastRun() for proc in self.outcomes.status}
        for event in self.events:
            if isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
                _fold(rows[event.proc], event)
        return rows


def _fold(row: LastRun, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.code, row.signal = event.code, event.signal


def cluster_results(engine: Engine, clusters: Iterable[int]) -> Iterator[ClusterResult]:
    """Yield the result of each of these clusters, as the log has it."""
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        submitted = next(event for event in events if isinstance(event, ClusterSubmitted))
        yield ClusterResult(number, submitted, events, outcomes_of(events))


MOST = 40
"""Jobs that the table lists."""
_COMMAND_MOST = 48
_MOST_AGAIN = 10
"""Jobs that the list of those started more than once names."""


def report(
    engine: Engine, url: str, clusters: Sequence[int], seconds: float, as_json: bool, interrupted: bool = False
) -> None:
    """Print how the jobs of these clusters fared: a table, the counts by outcome, the first failure or hold with its
    reason, and what to type next; or all jobs as JSON."""
    found = list(cluster_results(engine, clusters))
    if as_json:
        _print_json(found)
        return
    for one in found:
        _table(one)
    where = shown(locate(url).place)
    said = f"{counts([one.outcomes for one in found])} in {seconds:.1f} s; every transition stands in the log {where}"
    print_painted("\n" + folded(said, width_of()))
    again = [f"{one.number}.{proc} ({runs} times)" for one in found for proc, runs in one.repeated_runs().items()]
    if again:
        more = f", and {len(again) - _MOST_AGAIN:,} more" if len(again) > _MOST_AGAIN else ""
        print_painted(folded(f"started more than once: {', '.join(again[:_MOST_AGAIN])}{more}", width_of()))
    unmatchable = {one.number: vain for one in found if (vain := unmatchable_job(engine, one)) is not None}
    told, worth_typing = failures(found, unmatchable, interrupted)
    for paragraph in told:
        print_painted("\n" + folded(paragraph, width_of()))
    print("\n" + calls(worth_typing or _all_well(clusters[0]), url))


def _all_well(cluster: int) -> Sequence[tuple[str, str]]:
    return (
        (f"why {cluster}.0", "how this job came to its end, in sentences"),
        ("history", "the jobs that have left the queue"),
        ("verify", "the log's seal, and that every transition was legal"),
    )


def _print_json(found: Iterable[ClusterResult]) -> None:
    """The jobs as a list of objects, under HTCondor's attribute names where it has them."""
    jobs = [
        {
            "ClusterId": one.number,
            "ProcId": proc,
            "Slot": row.slot,
            "State": _STATES.get(one.outcomes.status[proc], one.outcomes.status[proc]),
            "ExitCode": row.code,
            "ExitSignal": row.signal,
            "RunTime": row.seconds(),
            "RemoteCpu": row.cpu / 1e6,
            "ResidentSetSize": row.memory,
        }
        for one in found
        for proc, row in one.rows().items()
    ]
    print(json.dumps(jobs, indent=2))


_STATES = {"failed": "completed"}
"""HTCondor's state of a job by its outcome, where the names differ."""
_HEADS = ("ID", "SLOT", "STATE", "EXIT", "RUN TIME", "CPU", "MEMORY", "COMMAND")
_WIDTHS = (-8, -18, -11, 6, 9, 8, 9)
"""The columns' widths (negative: left-aligned) without a terminal; on one, the cells decide."""


def _table(one: ClusterResult) -> None:
    rows = [_cells(one, proc, row) for proc, row in islice(one.rows().items(), MOST)]
    width = width_of()
    columns = [Column("", "", wide if width is None else wide // abs(wide), grow=width is not None) for wide in _WIDTHS]
    layout = Layout((*columns, Column("", "", -1)), headed=False, trimmed=True, limit=width, after_row="")
    print()
    for line in laid_out(layout, [(*row[:-1], " " + row[-1]) for row in (_HEADS, *rows)]):
        print_painted(line)
    more = Counter(islice(one.outcomes.status.values(), MOST, None))
    if more:
        print(f"... and {', '.join(f'{count:,} more {status}' for status, count in more.items())}: {_where(one, more)}")


def _where(one: ClusterResult, more: Collection[str]) -> str:
    """The command that lists jobs which are so."""
    if set(more) == {"held"}:
        return f"poolbook q {one.number} -hold"
    left = any(status in more for status in ("held", "idle", "running", "suspended"))
    return f"poolbook {'q' if left else 'history'} {one.number}"


def _cells(one: ClusterResult, proc: int, row: LastRun) -> tuple[str, ...]:
    ran, code = row.seconds(), "" if row.code is None else str(row.code)
    return (
        f"{one.number}.{proc}",
        SlotName.parse(row.slot).slot,
        one.outcomes.status[proc],
        code if row.signal is None else f"sig {row.signal}",
        "" if ran is None else f"{ran:.2f} s",
        "" if ran is None else f"{row.cpu / 1e6:.2f} s",
        f"{row.memory / 1024:.1f} MiB" if row.memory else "",
        _command(one.ad_of(proc))[:_COMMAND_MOST],
    )


def _command(ad: Mapping[str, str]) -> str:
    name = unquoted(ad.get("Cmd", "")).rpartition("/")[2]
    given = unquoted(ad.get("Arguments", ""))
    try:
        words = shlex.join(split(given)) if given else unquoted(ad.get("Args", ""))
    except QuotingError:  # a log that was edited
        words = given
    return visible(f"{name} {words}".strip())
