"""Print the end of `run` and `resume`: the jobs, their outcomes, and the calls worth typing next."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from attrs import define, frozen

from ...domain.classad.argument_syntax import QuotingError, split
from ...domain.events import Ad, ClusterSubmitted, Event, JobActivated, JobExecuting, JobExited
from ...domain.state.job_ad import unquoted
from ...domain.state.proc_ads import Variants
from ...replay.outcomes import Outcomes, counts, outcomes_of
from ..condor_tools.layout import Column, Layout, laid_out
from ..condor_tools.terminal import folded, painted, visible, width_of
from ..runtime.engine import Engine
from ..stores.location import locate
from .common import calls, shown
from .failed_jobs import failures, unmatchable_job

MOST = 40
"""Jobs that the table lists."""
_COMMAND_MOST = 48


@define
class _Row:
    slot: str = ""
    began: int = 0
    ended: int = 0
    code: int | None = None
    signal: int | None = None
    cpu: int = 0
    memory: int = 0

    def seconds(self) -> float | None:
        """Return the seconds that its own process ran; None if it never ran or still runs."""
        return max(0, self.ended - self.began) / 1e6 if self.began and self.ended else None


@frozen
class Fared:
    """A cluster at the end: its submission, its events, and its jobs' outcomes."""

    number: int
    submitted: ClusterSubmitted
    events: Sequence[Event]
    outcomes: Outcomes

    def ad_of(self, proc: int) -> Ad:
        return {**self.submitted.ad, **Variants(self.submitted.columns).of(proc)}

    def rows(self) -> dict[int, _Row]:
        """Return the last run of each job, by process number."""
        rows = {proc: _Row() for proc in self.outcomes.status}
        for event in self.events:
            if isinstance(event, JobActivated | JobExecuting | JobExited) and event.proc in rows:
                _fold(rows[event.proc], event)
        return rows


def _fold(row: _Row, event: JobActivated | JobExecuting | JobExited) -> None:
    if isinstance(event, JobActivated):
        row.slot, row.began, row.ended = event.slot, 0, 0
    elif isinstance(event, JobExecuting):
        row.began = event.began or event.at
    else:
        row.ended, row.cpu, row.memory = event.ended or event.at, event.user_cpu + event.system_cpu, event.resident
        row.code, row.signal = event.code, event.signal


def fared(engine: Engine, clusters: Iterable[int]) -> Iterator[Fared]:
    """Yield the outcomes of these clusters according to the log."""
    for number in clusters:
        events = [event for _, event in engine.log.read_stream(f"cluster/{number}")]
        submitted = next(event for event in events if isinstance(event, ClusterSubmitted))
        yield Fared(number, submitted, events, outcomes_of(events))


def report(
    engine: Engine, url: str, clusters: Sequence[int], seconds: float, as_json: bool, interrupted: bool = False
) -> None:
    """Print a table of these clusters' jobs, the counts by outcome, the first failure or hold with its reason, and what
    to type next; or all jobs as JSON."""
    found = list(fared(engine, clusters))
    if as_json:
        _print_json(found)
        return
    for one in found:
        _table(one)
    where = shown(locate(url).place)
    said = f"{counts([one.outcomes for one in found])} in {seconds:.1f} s; every transition stands in the log {where}"
    print("\n" + painted(folded(said, width_of())))
    unmatchable = {one.number: vain for one in found if (vain := unmatchable_job(engine, one)) is not None}
    told, worth_typing = failures(found, unmatchable, interrupted)
    for paragraph in told:
        print("\n" + painted(folded(paragraph, width_of())))
    print("\n" + calls(worth_typing or _all_well(clusters[0]), url))


def _all_well(cluster: int) -> Sequence[tuple[str, str]]:
    return (
        (f"why {cluster}.0", "how this job came to its end, in sentences"),
        ("history", "the jobs that have left the queue"),
        ("verify", "the log's seal, and that every transition was legal"),
    )


def _print_json(found: Iterable[Fared]) -> None:
    """Print the jobs as a list of objects, with HTCondor's attribute names where it has them."""
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


def _table(one: Fared) -> None:
    rows = [_cells(one, proc, row) for proc, row in islice(one.rows().items(), MOST)]
    width = width_of()
    columns = [Column("", "", wide if width is None else wide // abs(wide), grow=width is not None) for wide in _WIDTHS]
    layout = Layout((*columns, Column("", "", -1)), headed=False, trimmed=True, limit=width, after_row="")
    print()
    for line in laid_out(layout, [(*row[:-1], " " + row[-1]) for row in (_HEADS, *rows)]):
        print(painted(line))
    more = Counter(islice(one.outcomes.status.values(), MOST, None))
    if more:
        print(f"... and {', '.join(f'{count:,} more {status}' for status, count in more.items())}: {_where(one, more)}")


def _where(one: Fared, more: Collection[str]) -> str:
    """Return the command that lists such jobs."""
    if set(more) == {"held"}:
        return f"poolbook q {one.number} -hold"
    left = any(status in more for status in ("held", "idle", "running", "suspended"))
    return f"poolbook {'q' if left else 'history'} {one.number}"


def _cells(one: Fared, proc: int, row: _Row) -> tuple[str, ...]:
    ran, code = row.seconds(), "" if row.code is None else str(row.code)
    return (
        f"{one.number}.{proc}",
        row.slot.partition("@")[0],
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
