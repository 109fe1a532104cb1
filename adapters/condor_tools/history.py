"""``poolbook history``: the jobs that have left the queue, in the table of condor_history. Also reads ads from files
that HTCondor's tools wrote, for -jobads, -ads and -file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..bounded_text import read_input, read_text
from .cells import CellContext
from .formats import ads_form, attribute_list, custom_layout, parse_expression, whole_ads
from .job_selection import JobSelector, read_job_id, satisfies, select
from .layout import Layout, layout_lines
from .options import Arguments, NotHere, ToolError, UsageError, command_table, last_number, parse, with_width
from .print_format import own_table, print_format

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression

COMMAND = command_table("history")


class HistoryQuery(NamedTuple):
    arguments: Arguments
    selection: JobSelector
    since: Expression | None  #: stop at the first job for which this is true
    limit: int | None  #: maximum number of jobs to print; ``scan``: to read
    scan: int | None
    layout: Layout | None
    form: str | None

    @property
    def source(self) -> str:
        """Return the option that names the source of the ads: schedd, startd or epochs."""
        return next(iter(_sources(self.arguments)), "schedd")

    @property
    def forwards(self) -> bool:
        return self.arguments.last_name("backwards", "forwards", "nobackwards") not in ("", "backwards")


def parse_arguments(argv: Sequence[str]) -> HistoryQuery:
    """Parse a command line. Raise `UsageError` if an option is invalid, or two options contradict each other."""
    arguments = parse(COMMAND, argv)
    sources = _sources(arguments)
    if len(sources) > 1:
        text = f"-{sources[0]} can not be used in association with -{sources[1]}."
        raise NotHere(f"poolbook history: {text}", f"Error: {text}\n")
    since = arguments.last("since")
    if since is not None and arguments.has("forwards", "nobackwards"):
        raise UsageError("poolbook history: -since stops a backwards scan: omit -forwards")
    limit = last_number(COMMAND, arguments, "limit", "match", least=1)
    scan = last_number(COMMAND, arguments, "scanlimit", least=1)
    form = print_format(arguments)
    selection = select(arguments.words, arguments.values("constraint"))
    if form is not None and form.where is not None:
        selection = selection._replace(constraints=(*selection.constraints, form.where))
    layout = custom_layout(arguments) if form is None else form.layout
    return HistoryQuery(arguments, selection, _stop_condition(arguments), limit, scan, layout, ads_form(arguments))


def _sources(arguments: Arguments) -> list[str]:
    names = (option.name for option in arguments.options)
    return list(dict.fromkeys(name for name in names if name in ("schedd", "startd", "epochs")))


def _stop_condition(arguments: Arguments) -> Expression | None:
    option = arguments.last("since", "completedsince")
    if option is None:
        return None
    (value,) = option.values
    if option.name == "completedsince":
        return parse_expression(option.spelling, f"CompletionDate <= ({value})")
    job = read_job_id(value) if value.replace(".", "", 1).isdigit() else None
    if job is None:
        return parse_expression(option.spelling, value)
    proc_condition = "" if job.proc is None else f" && ProcId == {job.proc}"
    return parse_expression(option.spelling, f"ClusterId == {job.cluster}{proc_condition}")


def render(ads: Iterable[ClassAd], query: HistoryQuery, display: CellContext) -> Iterator[str]:
    """Yield the command's output.

    :param ads: the jobs that have left the queue, the most recent first; with ``query.forwards``, the oldest first.
    Only as many as needed are read.
    """
    jobs = _selected_ads(ads, query, display)
    if query.form is not None:
        yield from whole_ads(query.form, jobs, attribute_list(query.arguments), bare=False, gap="\n", edge="\n")
    elif query.layout is not None:
        yield from layout_lines(query.layout._replace(streamed=True), jobs, display)
    else:
        limit = with_width(COMMAND, query.arguments, display).longest
        table = own_table("history", "jobs").layout._replace(streamed=True, limit=limit)
        yield from layout_lines(table, jobs, display)


def _selected_ads(ads: Iterable[ClassAd], query: HistoryQuery, display: CellContext) -> Iterator[ClassAd]:
    context = display.context()
    printed_count = 0
    for seen_count, ad in enumerate(ads):
        if seen_count == query.scan or (query.since is not None and satisfies(query.since, ad, context)):
            return
        if query.selection.has(ad, context):
            yield ad
            printed_count += 1
            if printed_count == query.limit:
                return


_BETWEEN_ADS = re.compile(r"^(?:\s*|(?:\*\*\*|\.\.\.).*)$\n?", re.MULTILINE)
_FORMS = ("auto", "long", "json", "xml", "new")


def ads_of_file(option: str, name: str, form: str | None, missing: str) -> list[ClassAd]:
    """Return the ads in a file; ``-`` is standard input.

    :param option: the option that names the file, for messages
    :param form: the file's format, given after the option's colon; None and auto: detect it
    :param missing: the message if the file cannot be read
    :raises ToolError: the file cannot be read
    :raises UsageError: the format is unknown, or the file has another format
    """
    form = form or "auto"
    if form not in _FORMS:
        raise UsageError(f"{option}: unknown format {form!r}; use {', '.join(_FORMS)}")
    try:
        text = read_input() if name == "-" else read_text(name)
    except OSError:
        raise ToolError(missing) from None
    from ...domain.classad import ClassAdSyntaxError

    try:
        return list(_ads(text, form_of(text) if form == "auto" else form))
    except (ClassAdSyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{option} {name}: {error}") from None


def form_of(text: str) -> str:
    begin = text.lstrip()[:200]
    if begin.startswith("<"):
        return "xml"
    if re.match(r"(?:\[\s*)?\{\s*(?:\"|\}|$)", begin) or begin.startswith("[]"):
        return "json"
    return "new" if begin.startswith(("[", "{")) else "long"


def _ads(text: str, form: str) -> Iterator[ClassAd]:
    from ...domain.classad import ClassAd

    if form == "long":
        yield from (ClassAd.from_old(block) for block in _BETWEEN_ADS.sub("\n", text).split("\n\n") if block.strip())
    else:
        from ..condor_files.ad_objects import FORMS

        for piece in FORMS[form](text):
            if piece.wrong:
                raise ValueError(piece.wrong)
            if piece.ad:
                yield ClassAd.from_old(piece.ad)
