"""The places of ``poolbook top``: what each shows of a pool, as sentences and rows. No terminal is needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple

from ...domain.units import SECOND
from ...replay.forensics.daemon_tables import NotKnown
from ...replay.listing.members import members
from ...replay.narration.formatting import counted, instant, interval
from ..condor_tools.terminal import as_one_line
from ..overview import periods, pool
from ..overview.records import JOB_STYLES
from ..overview.shares import shares
from ..runtime.queries import NotRecorded

if TYPE_CHECKING:
    from ..overview.records import ClusterBar, LoadPoint
    from ..runtime.queries import Queries

BAR: Final = "Jobs"  #: the heading of the column with the letters of statuses
NUMBERS: Final = frozenset(
    {
        "Cluster", "Entitled cores", "Used cores", "Jobs waiting", "Won (24 h)", "Lost (24 h)", "Slots", "Busy",
        "Claimed", "Draining", "Cores", "Memory (GiB)",
    }
)  # fmt: skip
"""The headings of columns with numbers, which are aligned to the right."""
BAR_WIDTH: Final = 24
LOG_EVENTS: Final = 300  #: the number of events that the log shows
_DAY: Final = 86_400 * SECOND
_SECONDS: Final = 19  #: the length of a time with seconds
_LEVELS: Final = " ▁▂▃▄▅▆▇█"


class Row(NamedTuple):
    """A row of a table: ``key`` is the job, cluster or slot that it is about; empty: none."""

    key: str
    cells: tuple[str, ...]


class PlaceView(NamedTuple):
    """What a place shows: lines of text, and a table."""

    lines: list[str]
    headings: tuple[str, ...]
    rows: list[Row]

    def matching(self, text: str) -> list[Row]:
        """Return the rows that contain a text, in any case."""
        return [row for row in self.rows if text.lower() in " ".join(row.cells).lower()]


def _pool(queries: Queries, zone: tzinfo) -> PlaceView:
    overview = pool.pool_overview(queries, findings=100)
    states = [f"{count.letter} {count.state}/{count.activity}: {count.slots:,}" for count in overview.slots]
    jobs = [f"{JOB_STYLES[name].letter} {name}: {number:,}" for name, number in overview.jobs.items() if number]
    lines = [overview.sentence, "Slots  " + "   ".join(states), "Jobs   " + "   ".join(jobs)]
    if not queries.imported:
        points = periods.load(queries, overview.at - _DAY, overview.at + 1).points
        lines.append(f"Busy slots in the last 24 h  {curve(points, overview.at - _DAY, overview.at)}")
    if not overview.jobs and not overview.slots:
        lines.append("Submit a job: poolbook submit FILE.sub; start the pool: poolbook serve")
    rows = [
        Row(finding.subject, (instant(finding.at, zone)[:_SECONDS], finding.kind, as_one_line(finding.sentence)))
        for finding in overview.findings
    ]
    return PlaceView([*lines, *overview.missing], ("Time", "Finding", "What happened"), rows)


def curve(points: list[LoadPoint], since: int, until: int, width: int = 48) -> str:
    """Return the share of busy slots over time as a row of blocks, each with the last value of its part of the time."""
    values: list[float] = [0.0] * width
    for point, end in zip(points, [*(later.at for later in points[1:]), until], strict=True):
        first, last = ((at - since) * width // max(1, until - since) for at in (point.at, end))
        values[first : last + 1] = [point.busy / max(1, point.slots)] * len(values[first : last + 1])
    return "".join(_LEVELS[round(value * (len(_LEVELS) - 1))] for value in values)


def job_bar(bar: ClusterBar, width: int = BAR_WIDTH) -> str:
    """Return a cluster's jobs as letters of their statuses; each status with jobs has at least one letter."""
    lengths = {name: max(1, jobs * width // max(1, bar.total)) for name, jobs in bar.jobs.items() if jobs}
    ordered = sorted(lengths, key=lambda name: list(JOB_STYLES).index(name))
    return "".join(JOB_STYLES[name].letter * lengths[name] for name in ordered)[:width]


def _jobs(queries: Queries, zone: tzinfo) -> PlaceView:
    bars = pool.cluster_bars(queries)
    rows = []
    for bar in bars:
        numbers = ", ".join(f"{number:,} {name}" for name, number in bar.jobs.items())
        cells = str(bar.cluster), bar.owner, job_bar(bar), numbers, as_one_line(bar.reason or bar.batch)
        rows.append(Row(str(bar.cluster), cells))
    letters = "  ".join(f"{style.letter} {name}" for name, style in JOB_STYLES.items())
    lines = [f"{counted(len(bars), 'cluster')}. {periods.waits(queries).sentence}", letters]
    return PlaceView(lines, ("Cluster", "Owner", BAR, "Number", "Reason or batch"), rows)


def _shares(queries: Queries, zone: tzinfo) -> PlaceView:
    answer = shares(queries)
    rows = []
    for share in answer.shares:
        kind, entitled = "group" if share.is_group else "user", share.entitled
        counts = f"{share.waiting:,}", str(share.won), str(share.lost)
        cells = share.name, kind, "-" if entitled is None else f"{entitled:.1f}", f"{share.used:g}", *counts
        rows.append(Row("", cells))
    headings = ("Name", "Kind", "Entitled cores", "Used cores", "Jobs waiting", "Won (24 h)", "Lost (24 h)")
    return PlaceView([answer.sentence, *answer.missing], headings, rows)


def _machines(queries: Queries, zone: tzinfo) -> PlaceView:
    machines = pool.machines(queries)
    busy, slots = (sum(getattr(machine, name) for machine in machines) for name in ("busy", "slots"))
    verb = "is" if busy == 1 else "are"
    sentence = f"{counted(len(machines), 'machine')} with {counted(slots, 'slot')}, of which {busy:,} {verb} busy."
    rows = []
    for machine in machines:
        counts = [f"{getattr(machine, name):,}" for name in ("slots", "busy", "claimed", "draining")]
        sizes = f"{machine.cores:g}", f"{machine.memory / 1024:.1f}"
        joined = instant(machine.joined, zone)[:_SECONDS] if machine.joined else "-"
        rows.append(Row("", (machine.machine, *counts, *sizes, joined)))
    headings = ("Machine", "Slots", "Busy", "Claimed", "Draining", "Cores", "Memory (GiB)", "Joined")
    return PlaceView([sentence], headings, rows)


def _log(queries: Queries, zone: tzinfo) -> PlaceView:
    log = queries.log
    rows = []
    for position, event in log.read(max(0, log.head.position - LOG_EVENTS)):
        for member in members(position, event):
            change = f"{member.source} -> {member.target}" if member.target else ""
            cause = as_one_line(member.cause_text)
            cells = instant(member.at, zone)[:_SECONDS], member.thing, member.what, member.letter, change, cause
            rows.append(Row(member.thing, cells))
    lines = [f"The last of {counted(log.head.position, 'event')}; Enter explains a job or slot."]
    return PlaceView(lines, ("Time", "Subject", "What", "Letter", "Transition", "Cause"), rows[::-1][:LOG_EVENTS])


PLACES: Final[dict[str, Callable[[Queries, tzinfo], PlaceView]]] = {
    "Pool": _pool, "Jobs": _jobs, "Shares": _shares, "Machines": _machines, "Log": _log,
}  # fmt: skip


def place_view(place: str, queries: Queries, zone: tzinfo) -> PlaceView:
    """Return what a place shows. What the records do not show is explained in its text."""
    try:
        return PLACES[place](queries, zone)
    except (NotKnown, NotRecorded) as error:
        return PlaceView([f"The records do not show this: {error}."], (), [])


def explanation(queries: Queries, name: str, zone: tzinfo) -> list[str]:
    """Return the sentences of `why` about a job, cluster or slot, or the reason why there are none."""
    from ...replay.narration.sentences import UnknownThingError, dated_line

    try:
        answer = queries.why(name, queries.at, zone)
    except (ValueError, UnknownThingError) as error:
        return [str(error)]
    return [*answer.texts, "", *(dated_line(sentence, zone) for sentence in answer.life)]


def time_text(at: int | None, now: int, zone: tzinfo) -> str:
    """Return the moment that is shown: now, or a past time and how long ago it was."""
    return "now" if at is None else f"at {instant(at, zone)[:_SECONDS]}, {interval(max(0, now - at))} ago"
