"""``poolbook q``: the jobs in the queue, in condor_q's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from . import job_selection
from .batches import BatchCluster, Census, batch_table, cluster_rows, count_statuses, totals_ad, totals_lines
from .cells import (
    HELD,
    IDLE,
    RUNNING,
    SUSPENDED,
    TRANSFERRING_OUTPUT,
    CellContext,
    duration,
    evaluate,
    memory,
    number,
    text,
    transfer_state,
    value_text,
    wall_time,
)
from .formats import ads_form, attribute_list, bare_json, custom_layout, plain_attributes, whole_ads
from .job_selection import JobSelector, chosen_jobs, select
from .layout import Column, Layout, layout_lines, with_appended
from .options import Arguments, UsageError, command_table, last_number, parse, with_width

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from .analyze import AnalyzedSlots, AutoclusterOf, Judge
    from .autocluster_table import Signing
    from .print_format import Format

UNAVAILABLE_IN_THE_PAST = (
    "`poolbook why JOB -at TIME` and `poolbook userprio -at TIME` show a past state, `poolbook log` all events"
)
"""Alternatives if the past queue is unknown."""

COMMAND = command_table("q")

VIEWS = ("jobs", "dag", "run", "hold", "idle", "io")
"""The tables with one line per job."""
WHOLE_AD_FORMS = ("long", "json", "jsonl", "xml")
"""The formats for complete ads."""

ANALYSES = ("better-analyze", "better-analyse", "analyze", "analyse")
EMPTY_TABLES = {
    "grid": " ID      OWNER          STATUS     GRID->MANAGER    HOST       GRID_JOB_ID",
}
"""Options for kinds of jobs that Poolbook does not have, and the headings of their tables."""
GROUPINGS = ("autocluster", "group-by")
"""Options that show groups of equal jobs with the number of jobs in each."""
WITHOUT_TOTALS = frozenset({"run", "idle"})

STATES = {
    "run": (("run",), (RUNNING, TRANSFERRING_OUTPUT, SUSPENDED)),
    "hold": (("hold", "held", "hold-codes"), (HELD,)),
    "idle": (("idle",), (IDLE,)),
}
"""Views of jobs in certain states: the options, which exclude each other, and the states."""


class QueueQuery(NamedTuple):
    arguments: Arguments
    view: str  #: ``batch``, ``totals``, ``analysis``, ``custom`` (-af, -format), a name in ``VIEWS``, or an ad format
    selection: JobSelector
    everyone: bool  #: whether to include other users' jobs
    limit: int | None
    layout: Layout | None  #: for the view ``custom``
    format: Format | None = None  #: the format of -print-format
    more: tuple[Column, ...] = ()  #: the columns that -aaf appends

    @property
    def analysis(self) -> frozenset[str]:
        """Return the qualifiers of the requested analysis: summary, reverse; empty: analyze each job."""
        return _analysis(self.arguments)

    @property
    def shows_part_of_cluster(self) -> bool:
        """Return True if only part of a cluster may be shown, so that the number of its completed jobs is unknown."""
        return bool(self.selection.constraints) or any(job.proc is not None for job in self.selection.ids)

    @property
    def statuses(self) -> tuple[int, ...] | None:
        """Return the states of the selected jobs, or None for all states."""
        return next((STATES[name][1] for name in _states(self.arguments)), None)

    @property
    def plain_attributes(self) -> list[str] | None:
        """Return the attributes for ``formats.join_lines`` if texts suffice to print them, or None if ads are needed.

        Each row is a job selected by ``selection`` (ids and owners), ``everyone``, ``statuses`` and ``limit``, in the
        order of cluster and proc.
        """
        if self.selection.constraints or self.arguments.has("io", "unmatchable", *EMPTY_TABLES, *GROUPINGS):
            return None
        return plain_attributes(self.arguments)

    @property
    def needs_only_counts(self) -> bool:
        """Return True if counts by cluster and status suffice, so that ``render_rows`` needs no ads."""
        is_partial = self.shows_part_of_cluster or self.limit is not None or self.statuses is not None
        is_partial = is_partial or self.arguments.has("io", "unmatchable", *EMPTY_TABLES)
        return self.view in ("batch", "totals") and not is_partial


def parse_arguments(argv: Sequence[str]) -> QueueQuery:
    """Parse a command line. Raise `UsageError` if options are invalid or contradict each other."""
    arguments = parse(COMMAND, argv)
    states = _states(arguments)
    if len(states) > 1:
        raise UsageError(f"poolbook q: -{states[0]} and -{states[1]} cannot be combined: a job has only one state")
    if arguments.has("currentrun") and arguments.has("cumulative-time"):
        raise UsageError("poolbook q: -currentrun and -cumulative-time cannot be combined")
    users = [name.removeprefix("nice-user.") for name in arguments.values("submitter")]
    if users and arguments.has("name", "addr"):
        raise UsageError("Cannot query both schedd's and submitters: leave out -submitter, or -name and -addr")
    selection = select(arguments.words, arguments.values("constraint"))
    selection = selection._replace(owners=(*selection.owners, *users))
    layout = custom_layout(arguments)
    form_file = _print_format(arguments)
    if form_file is not None:
        layout = None if arguments.has("totals") else form_file.layout
        where = () if form_file.where is None else (form_file.where,)
        selection = selection._replace(constraints=selection.constraints + where)
    form = ads_form(arguments)
    grouping = arguments.last_name("batch", "nobatch")
    if grouping == "batch" and layout is not None:
        raise UsageError("poolbook q: -batch defines all columns: use either it, or -af and -format")
    everyone = bool(arguments.words or users) or arguments.has("allusers", "all-users")
    view = form or ("custom" if layout is not None else _view(arguments, states, grouping != "nobatch"))
    if view == "analysis":
        _analysis(arguments)
    selection = selection._replace(nodes=view == "batch" or arguments.has("dag"))
    more_columns = _appended_columns(arguments, view)
    if more_columns and layout is not None:
        layout = layout._replace(columns=with_appended(layout.columns, more_columns))
    limit = last_number(COMMAND, arguments, "limit", least=1)
    return QueueQuery(arguments, view, selection, everyone, limit, layout, form_file, more_columns)


def _analysis(arguments: Arguments) -> frozenset[str]:
    from .analyze import analysis_options

    return analysis_options(arguments, ANALYSES)


def _appended_columns(arguments: Arguments, view: str) -> tuple[Column, ...]:
    if not arguments.has("aaf"):
        return ()
    from .print_format import appended_columns

    if view == "batch":
        raise UsageError(
            "Error: -aaf cannot be used with -batch mode output (the default), did you intend to use -af ?"
        )
    if view not in VIEWS and not arguments.has("print-format"):
        raise UsageError("Error: output formatting options conflict with -aaf options")
    # As in condor_q, the quotes around strings do not widen a heading.
    return tuple(column._replace(late=column.form == "%V") for column in appended_columns(arguments))


def _print_format(arguments: Arguments) -> Format | None:
    if not arguments.has("print-format"):
        return None
    from .print_format import print_format

    return print_format(arguments)


def _states(arguments: Arguments) -> list[str]:
    return [view for view, (options, _) in STATES.items() if arguments.has(*options)]


def _view(arguments: Arguments, states: list[str], is_batched: bool) -> str:
    if chosen_view := arguments.last_name("totals", "io"):
        return chosen_view
    if arguments.has(*ANALYSES, "reverse-analyze"):
        return "analysis"
    if arguments.has("hold-codes"):
        return "hold-codes"
    if arguments.has(*GROUPINGS):
        return "groups"
    if chosen_view := arguments.last_name(*EMPTY_TABLES):
        return chosen_view
    if "hold" in states:
        return "hold"
    if is_batched and not states and not arguments.has("unmatchable"):
        return "batch"
    if arguments.has("dag"):
        return "dag"
    return states[0] if states else "jobs"


def render(
    ads: Iterable[ClassAd],
    query: QueueQuery,
    display: CellContext,
    census: Census | None = None,
    judge: Judge | None = None,
    signing: Signing | None = None,
    slots: AnalyzedSlots | None = None,
    autocluster_of: AutoclusterOf | None = None,
) -> Iterator[str]:
    """Yield the command's output.

    :param ads: the jobs in the queue: all of them, unless a census is given
    :param census: the user's and all jobs by status, if known without the ads
    :param judge: for the view ``analysis``: returns the log's record of a job
    :param signing: for -autocluster: returns a job's significant attributes for the negotiator
    :param slots: for the view ``analysis``: the pool's slots; ``autocluster_of``: the jobs like a job
    """
    if query.view == "analysis":
        from .analyze import analysis_lines

        assert slots is not None and autocluster_of is not None
        yield from title(display, is_timed=False)
        jobs = _select(ads, query, display)
        yield from analysis_lines(jobs, query.analysis, slots, judge, autocluster_of, display)
        return
    if query.arguments.has(*EMPTY_TABLES):
        ads = ()
    if query.view in EMPTY_TABLES:
        yield from (*title(display), EMPTY_TABLES[query.view] + "\n")
        return
    if query.arguments.has(*GROUPINGS):
        from . import autocluster_table

        if query.view == "groups":
            yield from title(display)
        groups = autocluster_table.requested_groups(ads, query.arguments, query.selection, display, signing)
        yield from group_table(groups[: query.limit], query, "autocluster", display)
        return
    if census is None:
        ads = list(ads)
        own_ads = [ad for ad in ads if text(ad, "Owner") == display.owner]
        census = Census({}, count_statuses(own_ads), count_statuses(ads))
    jobs = _select(ads, query, display)
    census = census._replace(asked=count_statuses(jobs))
    if query.arguments.has("totals") and query.view != "totals":
        from ...domain.classad import ClassAd

        jobs = [ClassAd(totals_ad(census))]
    if query.view == "totals":
        yield from title(display)
        yield _footer(query, display, census)
    elif query.view == "custom":
        assert query.layout is not None
        if query.format is not None and query.format.titled:
            yield from title(display)
        yield from layout_lines(query.layout, _sorted_jobs(jobs, query, display), display)
        if query.format is not None and query.format.summed:
            yield "\n" + _footer(query, display, census)
    elif query.view in WHOLE_AD_FORMS:
        yield from group_table(jobs, query, "", display)
    elif query.view == "hold-codes":
        from .autocluster_table import hold_code_ads
        from .print_format import own_table

        yield from (*title(display), *layout_lines(own_table("q", "hold-codes").layout, hold_code_ads(jobs), display))
    elif query.view == "batch":
        yield from title(display)
        rows = cluster_rows(jobs, query.arguments.has("dag"))
        yield from batch_table(rows, with_width(COMMAND, query.arguments, display), partial=query.shows_part_of_cluster)
        yield "\n" + _footer(query, display, census)
    else:
        yield from title(display)
        yield from _job_table(jobs, query, with_width(COMMAND, query.arguments, display))
        if query.view not in WITHOUT_TOTALS:
            yield "\n" + _footer(query, display, census)


def group_table(ads: Sequence[ClassAd], query: QueueQuery, view: str, display: CellContext) -> Iterator[str]:
    """Print ads that may each represent several jobs, as the query requests: complete, with -af, or as a table."""
    if query.view in WHOLE_AD_FORMS:
        yield from whole_ads(query.view, ads, attribute_list(query.arguments), bare=bare_json(query.arguments))
    elif query.layout is not None:
        yield from layout_lines(query.layout, ads, display)
    else:
        from .print_format import own_table

        columns = with_appended(own_table("q", view).layout.columns, query.more)
        yield from layout_lines(Layout(columns, trimmed=True), ads, display)


def render_rows(rows: Iterable[BatchCluster], query: QueueQuery, display: CellContext) -> Iterator[str]:
    """Yield the command's output if ``query.aggregated``: the batch table or the totals, computed from counts.

    :param rows: all clusters in the queue
    """
    rows = list(rows)
    selected_rows = [row for row in rows if _is_selected(row, query, display)]
    census = Census(_sum(selected_rows), _sum([row for row in rows if row.owner == display.owner]), _sum(rows))
    yield from title(display)
    if query.view == "batch":
        yield from batch_table(selected_rows, with_width(COMMAND, query.arguments, display))
        yield "\n"
    yield _footer(query, display, census)


def _is_selected(row: BatchCluster, query: QueueQuery, display: CellContext) -> bool:
    is_shown = query.everyone or not display.owner or row.owner == display.owner
    return is_shown and query.selection.names(row.cluster, row.owner)


def _sum(rows: Iterable[BatchCluster]) -> Counter[int]:
    counts = Counter[int]()
    for row in rows:
        counts.update(row.counts)
    return counts


def _select(ads: Iterable[ClassAd], query: QueueQuery, display: CellContext) -> list[ClassAd]:
    jobs = chosen_jobs(query.selection, ads, display)
    if not query.everyone and display.owner:
        jobs = [ad for ad in jobs if text(ad, "Owner") == display.owner]
    if query.statuses is not None:
        jobs = [ad for ad in jobs if number(ad, "JobStatus") in query.statuses]
    if query.arguments.has("io"):
        jobs = [ad for ad in jobs if transfer_state(ad)]
    return jobs[: query.limit]


def _sorted_jobs(jobs: list[ClassAd], query: QueueQuery, display: CellContext) -> list[ClassAd]:
    if query.format is None or not query.format.order:
        return jobs
    order, context = query.format.order, display.context()
    return sorted(jobs, key=lambda ad: [value_text(evaluate(ad, source, context)) for source in order])


def title(display: CellContext, is_timed: bool = True) -> Iterator[str]:
    """Yield the line above a table: the name of the queue, and the time."""
    address, mark, _ = display.address.partition("?")
    queue, host = ("Submitter", f" : {display.schedd}") if display.submitter else ("Schedd", "")
    name = display.submitter or display.schedd
    source = display.source or f"{queue}: {name} : {address}{'?...' if mark else ''}{host}"
    at = datetime.fromtimestamp(display.now, display.timezone)
    when = f" @ {at:%m/%d/%y %H:%M:%S}" if is_timed else ""
    yield f"\n\n-- {source}{when}\n"


def _footer(query: QueueQuery, display: CellContext, census: Census) -> str:
    if query.everyone or not display.me:
        census = census._replace(mine=None)
    return totals_lines(census, display.me, alone=bool(display.source))


def _current_run_time(ad: ClassAd, display: CellContext) -> str | None:
    seconds = wall_time(ad, display, current=True)
    return None if seconds is None else duration(seconds)


_CURRENT = Column("    RUN_TIME", _current_run_time, 12, missing="??")
_CPU_TIME = Column("    CPU_TIME", "RemoteUserCpu", 12, "%T")


def _job_table(jobs: list[ClassAd], query: QueueQuery, display: CellContext) -> Iterator[str]:
    """Yield a table with one line per job. Widen ids, owners and sizes only if the default width is too small."""
    from .print_format import own_table

    columns = list(own_table("q", query.view).layout.columns)
    if query.view == "dag":
        jobs, columns[0] = job_selection.dag_tree(jobs, columns[0], display.width)
    most_cluster = max((int(number(ad, "ClusterId") or 0) for ad in jobs), default=0)
    most_proc = max((int(number(ad, "ProcId") or 0) for ad in jobs), default=0)
    names = [len(text(ad, "Owner") or "") for ad in jobs]
    cluster, proc = max(4, len(str(most_cluster))), max(3, len(str(most_proc)))
    if cluster > 4 or proc > 3 or max(names, default=0) > 14:
        sizes = [memory(ad) or 0.0 for ad in jobs]
        widest = len(f"{max(sizes):.1f}")
        columns = [column._replace(width=max(4, widest)) if column.heading == "SIZE" else column for column in columns]
        if display.width is not None:
            room_width = 14 + display.width - 80
            columns[0] = columns[0]._replace(width=-max(abs(columns[0].width or 0), min(max(names), room_width)))
    if query.arguments.has("cputime", "currentrun"):
        run_time_column = _CPU_TIME if query.arguments.has("cputime") else _CURRENT
        columns = [run_time_column if column.heading == _CURRENT.heading else column for column in columns]
    ids = (
        Column(" ID", "ClusterId", cluster + 1, form=f"%{cluster}d."),
        Column(" ", "ProcId", -proc, form=f"%-{proc}d", joined=True),
    )
    limit = None if query.view == "hold" or (query.more and not query.arguments.has("wide")) else display.longest
    table = with_appended((*ids, *columns), query.more)
    yield from layout_lines(Layout(table, trimmed=True, limit=limit), jobs, display)
