"""``poolbook q, status, history``: print jobs and slots in HTCondor's columns.

ClassAds are built only if counts or single columns are not sufficient.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from ..condor_tools import formats
from ..condor_tools import queue_table as queue_tool
from ..condor_tools.job_selection import JobSelector, id_of
from ..condor_tools.options import NotHere, ToolError, UsageError
from ..condor_tools.terminal import STATES, print_colored
from ..runtime.queries import NoNegotiator, NotRecorded, Queries
from ..stores.location import safe_url
from .common import NO_SCHEDD_RECORD, called_tool, check_collector, display_context, selected_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression
    from ..condor_tools.batches import Census
    from ..condor_tools.cells import CellContext
    from ..condor_tools.history import HistoryQuery as HistoryQuery
    from ..condor_tools.options import Arguments
    from ..condor_tools.status import StatusQuery as StatusQuery


def _write(chunks: Iterable[str]) -> int:
    write = sys.stdout.write
    for text in chunks:
        write(text)
    return 0


@contextmanager
def _queries_at(command: str, arguments: Arguments, url: str) -> Iterator[tuple[Queries, CellContext]]:
    """Query a log as of the time of -at, or now, and return the display with this time."""
    display = display_context()
    if not arguments.has("at"):
        with Queries(url) as queries:
            yield queries, display
        return
    from .time_window import queries_at

    with queries_at(command, arguments, url) as queries:
        yield queries, display._replace(now=queries.now(display.now))


def queue(argv: Sequence[str]) -> int:
    query = queue_tool.parse_arguments(argv)
    if query.arguments.has("jobads"):
        return _write(_jobs_in_file(query, display_context()))
    with _queries_at("q", query.arguments, selected_log(query.arguments, "name", "pool", "addr")) as (queries, display):
        if queries.imported:
            return _write(
                _imported_queue(query, queries, display._replace(source=f"Imported: {safe_url(queries.url)}"))
            )
        if query.arguments.has("submitter"):
            display = display._replace(submitter=_first_queued_submitter(query, queries))
        if query.view == "analysis":
            return _write(_analysis_lines(query, queries, display))
        if query.arguments.has("factory"):
            return _write(_job_factories(query, queries, display))
        if query.arguments.has("jobset"):
            return _write(_job_sets(query, queries, display))
        if query.arguments.has(*queue_tool.GROUPINGS):
            return _write(_autocluster_lines(query, queries, display))
        exit_code = _write(_queue(query, queries, display))
        if not called_tool():
            warn_of_unknown_attributes("q", query.selection.constraints, queries.queue(rejections=True).ads)
        return exit_code


def _first_queued_submitter(query: queue_tool.QueueQuery, queries: Queries) -> str:
    """Return the first submitter of -submitter that has jobs in the queue. Raise `NotHere` if none has."""
    from ...domain.state.pool_settings import UID_DOMAIN

    domain = queries.views.pool().settings.get(UID_DOMAIN, "")
    submitters = [name if "@" in name else f"{name}@{domain}" for name in query.arguments.values("submitter")]
    known_submitters = {submitter for submitter, *_ in queries.views.counts()}
    for name in submitters:
        if name in known_submitters:
            return name
    hint = "`poolbook status -submitters` lists them"
    raise NotHere(f"poolbook q: submitter {submitters[0]} has no jobs in the queue. {hint}", NO_SCHEDD_RECORD)


def _jobs_in_file(query: queue_tool.QueueQuery, display: CellContext) -> Iterator[str]:
    from ..condor_tools.history import ads_of_file

    if query.view == "analysis" or query.arguments.has("unmatchable"):
        option = "unmatchable" if query.arguments.has("unmatchable") else queue_tool.ANALYSES[0]
        raise ToolError(f"poolbook q: -{option} needs the log; omit -jobads")
    given = query.arguments.last("jobads")
    assert given is not None
    (name,) = given.values
    ads = ads_of_file(given.spelling, name, given.qualifier, f"Can't open file of ClassAds: {name}")
    return queue_tool.render(ads, query._replace(everyone=True), display._replace(source=f"Jobads: {name}"))


def _job_factories(query: queue_tool.QueueQuery, queries: Queries, here: CellContext) -> Iterator[str]:
    from ..condor_tools.autocluster_table import factory_ads

    is_own_only = not query.everyone and bool(here.owner)
    rows = [
        row
        for row in queries.views.factories()
        if (not is_own_only or row.owner == here.owner) and query.selection.names(row.cluster, row.owner)
    ]
    factories = [ad for ad in factory_ads(rows) if query.selection._replace(ids=(), owners=()).has(ad, here.context())]
    if query.view not in queue_tool.WHOLE_AD_FORMS and query.layout is None:
        yield from queue_tool.title(here)
    yield from queue_tool.group_table(factories[: query.limit], query, "factory", here)


def _job_sets(query: queue_tool.QueueQuery, queries: Queries, here: CellContext) -> Iterator[str]:
    from ..condor_tools.job_set_table import job_set_ads

    own = (here.owner,) if not query.everyone and here.owner else ()
    selection = query.selection._replace(constraints=(), owners=own or query.selection.owners)
    ads = job_set_ads(queries.queue(selection).ads, queries.views.job_set_attributes())
    sets = [ad for ad in ads if query.selection._replace(ids=(), owners=()).has(ad, here.context())]
    if query.view not in queue_tool.WHOLE_AD_FORMS and query.layout is None:
        yield from queue_tool.title(here)
    yield from queue_tool.group_table(sets[: query.limit], query, "jobset", here)


def _autocluster_lines(query: queue_tool.QueueQuery, queries: Queries, display: CellContext) -> Iterator[str]:
    """Yield groups of similar jobs, of all owners: similar for the negotiator, or in the printed attributes."""
    job_ads = queries.queue(query.selection._replace(constraints=())).ads
    if not query.arguments.has("autocluster"):
        return queue_tool.render(job_ads, query, display)
    significance = queries.views.autoclusters()
    return queue_tool.render(job_ads, query, display, signing=lambda texts: significance.signature_of(texts)[0])


def _imported_queue(query: queue_tool.QueueQuery, queries: Queries, display: CellContext) -> Iterator[str]:
    """Yield the queue of an imported log at a time, for all owners, since the caller is not a user of that pool."""
    from ...replay.forensics.daemon_tables import NotKnown
    from ...replay.narration.formatting import instant

    if query.view == "analysis" or query.arguments.has("unmatchable"):
        raise ToolError(f"poolbook q: {safe_url(queries.url)} was imported; use `poolbook why JOB` to explain its jobs")
    try:
        past = queries.queue()
    except NotKnown as error:
        known_text = f"before {instant(error.since, display.timezone)}" if error.since else "at any time"
        raise ToolError(
            f"poolbook q: the queue of {safe_url(queries.url)} is unknown {known_text}, because {error.reason}. "
            f"{queue_tool.UNAVAILABLE_IN_THE_PAST}"
        ) from None
    if past.note:
        print(f"poolbook q: {past.note}", file=sys.stderr)
    return queue_tool.render(past.ads, query._replace(everyone=True), display._replace(now=past.at // 1_000_000))


def _queue(query: queue_tool.QueueQuery, queries: Queries, display: CellContext) -> Iterator[str]:
    from ..condor_tools.batches import BatchCluster

    dags = (query.needs_only_counts or query.selection.nodes) and queries.views.has_dags()
    if query.needs_only_counts and not dags:
        return queue_tool.render_rows((BatchCluster(*row) for row in queries.views.batches()), query, display)
    plain_names = query.plain_attributes
    is_own_only = not query.everyone and bool(display.owner)
    selection = query.selection._replace(constraints=(), ids=() if dags else query.selection.ids)
    if is_own_only:
        selection = selection._replace(owners=(display.owner,))
    reads_rejections = plain_names is not None and any(name.lower().startswith("lastrejmatch") for name in plain_names)
    if plain_names is not None and query.view == "custom" and not reads_rejections:
        rows = queries.job_columns(plain_names, selection, display.context(), query.statuses)
        return formats.join_lines(query.arguments, islice(rows, query.limit))
    ads = queries.queue(selection, rejections=True).ads
    if query.arguments.has("unmatchable"):
        matchable = queries.matchable()
        ads = (ad for ad in ads if not matchable(ad))
    return queue_tool.render(ads, query, display, _count_jobs(queries, display))


def _analysis_lines(query: queue_tool.QueueQuery, queries: Queries, display: CellContext) -> Iterator[str]:
    """Yield the reasons why jobs do not run. A cluster is read when its first job is printed."""
    from ..condor_tools.analyze import analyzed_slots, autoclusters
    from ..condor_tools.history import ads_of_file

    arguments, significance = query.arguments, queries.views.autoclusters()
    ads: Iterable[ClassAd] = queries.slots(display.now, display.timezone)
    if (option := arguments.last("slotads")) is not None:
        (file,) = option.values
        ads = ads_of_file(option.spelling, file, option.qualifier, f"Can't open file of ClassAds: {file}")
    slots = analyzed_slots(ads, arguments, lambda texts: significance.signature_of(texts)[0], display.context())
    jobs = queries.queue(query.selection._replace(constraints=()), rejections=True).ads
    alike, rejections = autoclusters(lambda: queries.queue().ads, slots.signing), queries.job_rejections()
    return queue_tool.render(
        jobs, query, display, judge=lambda ad: rejections(*id_of(ad)), slots=slots, autocluster_of=alike
    )


def _count_jobs(queries: Queries, display: CellContext) -> Census:
    from ..condor_tools.batches import Census

    totals = queries.views.totals()
    counts_of_all: dict[int, int] = {}
    for counts in totals.values():
        for status, jobs in counts.items():
            counts_of_all[status] = counts_of_all.get(status, 0) + jobs
    return Census({}, totals.get(display.owner, {}) if display.owner else None, counts_of_all)


def status(argv: Sequence[str]) -> int:
    from ..condor_tools import status as status_tool

    query = status_tool.parse_arguments(argv)
    sys.stderr.write(query.warning)
    if option := query.arguments.last("ads"):
        from ..condor_tools.history import ads_of_file

        (file,) = option.values
        ads_of_option = ads_of_file(option.spelling, file, option.qualifier, f"Can't open file of ClassAds: {file}")
        return _print_slot_table(status_tool.render(ads_of_option, query, display_context()), query)
    if called_tool():
        check_collector(query.arguments.value("pool"))
    with _queries_at("status", query.arguments, selected_log(query.arguments, "pool", "direct")) as (queries, display):
        try:
            name = query.arguments.value("name")
            if query.view == "negotiator" and not queries.imported:
                name = queries.negotiator(name)
            elif name:
                raise UsageError("poolbook status: -name is only for -negotiator; name a slot or machine without it")
            ads = queries.ads(query.kind, display.now, display.timezone, with_absent=query.reads_absent)
            if query.view == "negotiator" and name:
                all_ads = list(ads)
                ads = iter([ad for ad in all_ads if len(all_ads) == 1 or ad.eval("Name") == name])
        except NoNegotiator as error:
            raise ToolError(f"poolbook status: {error}") from None
        except NotRecorded as error:
            raise ToolError(
                f"poolbook status: {error}, and contain no ads that -{query.view} shows; `poolbook q` and "
                "`poolbook userprio` show the queue and its users"
            ) from None
        return _print_slot_table(status_tool.render(ads, query, display), query)


def _print_slot_table(chunks: Iterable[str], query: StatusQuery) -> int:
    if query.layout is not None or query.form is not None:
        return _write(chunks)
    for text in chunks:
        print_colored(text, STATES if "@" in text else {}, end="")
    return 0


def _print_runs(query: HistoryQuery) -> int:
    """Print the runs of jobs, or a startd's history of them. For named clusters, only the events of these clusters are
    read."""
    from ..condor_tools import history as history_tool
    from ..condor_tools.cells import text

    of_startd, machine = query.source == "startd", query.arguments.value("name").lower()
    has_no_scan = query.since is None and query.scan is None and not query.selection.owners
    clusters = {id.cluster for id in query.selection.ids} if has_no_scan else set()
    names = ("pool",) if of_startd else ("name", "pool")
    with _queries_at("history", query.arguments, selected_log(query.arguments, *names)) as (queries, display):
        try:
            ads = queries.startd_history(query.forwards) if of_startd else queries.epochs(clusters, query.forwards)
        except NotRecorded as error:
            raise ToolError(f"poolbook history: {error}: `poolbook usage -by machine` shows runs") from None
        if of_startd and machine:
            if machine not in map(str.lower, queries.views.machines()):
                message = f"Unable to locate remote startd (name={machine}, pool={query.arguments.value('pool')}).\n"
                raise NotHere(f"poolbook history: there is no machine {machine}; `poolbook status` lists them", message)
            ads = (ad for ad in ads if (text(ad, "RemoteHost") or "").lower().rpartition("@")[2] == machine)
        return _write(history_tool.render(ads, query, display))


def history(argv: Sequence[str]) -> int:
    from ..condor_tools import history as history_tool

    query, here = history_tool.parse_arguments(argv), display_context()
    try:
        return _history(query, here)
    except ToolError:
        _write(history_tool.render((), query, here) if called_tool() else ())  # condor_history prints the heading first
        raise


def _history(query: HistoryQuery, display: CellContext) -> int:
    from ..condor_tools import history as history_tool
    from ..runtime.archived_ads import Sieve

    if query.arguments.has("file"):
        from ..condor_tools.history import ads_of_file

        file = query.arguments.value("file")
        ads = ads_of_file("-file", file, None, f"Error opening history file {file}: No such file or directory")
        return _write(history_tool.render(ads if query.forwards else reversed(ads), query, display))
    if query.source != "schedd":
        return _print_runs(query)
    # -since is evaluated for every job, so the search must not be narrowed.
    reads_all = query.since is not None or query.scan is not None
    selection = JobSelector() if reads_all else query.selection._replace(constraints=())
    sieve = Sieve(query.arguments.values("constraint"), query.selection.constraints, display.context())
    useful = None if reads_all or not sieve.useful else sieve
    # Like condor_history, ignore -pool without -name: the history is the local schedd's.
    pool_options = ("name", "pool") if query.arguments.has("name") or not called_tool() else ()
    with _queries_at("history", query.arguments, selected_log(query.arguments, *pool_options)) as (queries, display):
        return _write(history_tool.render(queries.history(selection, useful, query.forwards), query, display))


def warn_of_unknown_attributes(command: str, constraints: Iterable[Expression], ads: Iterable[ClassAd]) -> None:
    """Warn on standard error about attributes in the constraints that no job has, with similar names.

    :param ads: the jobs; read only until each attribute has been found
    """
    names = {name.lower(): name for constraint in constraints for name in _names_in_constraint(constraint)}
    if not names:
        return
    from ...domain.state.runtime_attributes import RUNTIME_ATTRIBUTES
    from ...domain.suggestions import did_you_mean

    missing = {lower: name for lower, name in names.items() if lower not in RUNTIME_ATTRIBUTES}
    names_by_key: dict[str, str] = {}
    for ad in ads:
        if not missing:
            return
        names_by_key |= {name.lower(): name for name in ad}
        missing = {lower: name for lower, name in missing.items() if lower not in names_by_key}
    for name in missing.values() if names_by_key else ():
        hint = did_you_mean(name, names_by_key.values(), most=1, min_similarity=0.8)
        message = "; ".join(filter(None, [f"no job has the attribute {name}", hint]))
        print(f"poolbook {command}: {message}", file=sys.stderr)


def _names_in_constraint(constraint: Expression) -> Iterable[str]:
    from ...domain.classad import ClassAd, EvaluationError

    try:
        names = constraint.references(ClassAd()).external
    except EvaluationError:
        return ()
    scoped_names = (name.rpartition(".") for name in names)
    return (name for scope, _, name in scoped_names if scope.lower() in ("", "my"))
