"""``poolbook status``: the pool's slots, machines, queues and users, in condor_status's tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .cells import CellContext, evaluate, text, value_text
from .formats import ads_form, attribute_list, bare_json, custom_layout, parse_expression, whole_ads
from .gpu_table import CONSTRAINT as GPU_CONSTRAINT
from .gpu_table import gpu_table
from .job_selection import satisfies
from .layout import Column, Layout, layout_lines, with_appended
from .options import Arguments, NotHere, UsageError, command_table, last_number, parse, with_width
from .print_format import own_table, own_tables, print_format
from .status_totals import COMPACT_CONSTRAINT, TOTALS, compact_table, compact_totals, totals_lines

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression

COMMAND = command_table("status")
VIEWS = own_tables("status")


class StatusQuery(NamedTuple):
    arguments: Arguments
    view: str  #: the name of a view in ``VIEWS``
    compact: bool  #: whether to print one line per machine
    constraints: tuple[Expression, ...]  #: conditions that each ad must satisfy
    order: tuple[str, ...] | None  #: expressions by which the ads are sorted; None: keep the order of the input
    limit: int | None
    layout: Layout | None
    form: str | None
    more: tuple[Column, ...] = ()  #: the columns that -aaf appends

    @property
    def kind(self) -> str:
        """Return the MyType of the required ads, or an empty string for all types."""
        return VIEWS[self.view].kind

    @property
    def reads_absent(self) -> bool:
        """Return True if a constraint refers to Absent: only such queries get absent ads, as from HTCondor's
        collector."""
        from ...domain.classad.value_evidence import names_in

        return any(name == "absent" for constraint in self.constraints for _, name in names_in(constraint))

    @property
    def warning(self) -> str:
        has_both = self.arguments.has("totals") and self.arguments.has("compact")
        return "Warning: ignoring -compact option because -total option is also set\n" if has_both else ""


def parse_arguments(argv: Sequence[str]) -> StatusQuery:
    """Parse a command line. Raise `UsageError` if options are invalid or contradict each other."""
    arguments = parse(COMMAND, argv)
    view = _selected_view(arguments)
    is_compact = arguments.last_name("compact", "nocompact", "slots") == "compact"
    if is_compact and VIEWS[view].kind != "Machine":
        raise UsageError(f"poolbook status: -compact shows slots and cannot be combined with -{view}")
    if is_compact and view not in ("slots", "avail", "gpus"):
        raise UsageError(f"poolbook status: -compact has no columns for -{view}: use one of them")
    constraints = arguments.values("constraint")
    # With -totals, count the slots that -compact would show, without combining them by machine.
    has_gpu_table = is_compact and view == "gpus"
    constraints += [GPU_CONSTRAINT if has_gpu_table else COMPACT_CONSTRAINT] if is_compact else []
    form = print_format(arguments, cut=False)
    tables = (None if has_gpu_table else own_table("status", view), form)
    where = [own.where for own in tables if own is not None and own.where is not None]
    layout = custom_layout(arguments) if form is None else form.layout
    more_columns = _appended_columns(arguments, is_compact)
    if more_columns and form is not None:
        layout = form.layout._replace(columns=with_appended(form.layout.columns, more_columns))
    return StatusQuery(
        arguments,
        view,
        is_compact,
        (*(parse_expression("-constraint", constraint) for constraint in constraints), *where),
        _sort_attributes(arguments),
        last_number(COMMAND, arguments, "limit", least=1),
        layout,
        ads_form(arguments),
        more_columns,
    )


def _appended_columns(arguments: Arguments, is_compact: bool) -> tuple[Column, ...]:
    if not arguments.has("aaf"):
        return ()
    from .print_format import appended_columns

    if arguments.has("af", "autoformat", "format", "totals") or ads_form(arguments) is not None:
        raise UsageError("Error: output formatting options conflict with -aaf options")
    if is_compact:
        raise UsageError("poolbook status: -aaf cannot be combined with -compact: use one of them")
    return appended_columns(arguments)


def _selected_view(arguments: Arguments) -> str:
    """Return the view. -run shows the jobs of the queue, unless -slots or -claimed is also given; -gpus with -startd
    shows the machines with GPUs."""
    view_names = [option.name for option in arguments.all_given(*VIEWS)]
    if "run" in view_names and ("slots" in view_names or "claimed" in view_names):
        view_names = ["claimed"]
    if "run" in view_names and "schedd" in view_names:
        view_names = ["run"]
    if {"gpus", "startd"} <= set(view_names):
        view_names = ["startd-gpus", *(name for name in view_names if name not in ("gpus", "startd"))]
    chosen_views = [name for at, name in enumerate(view_names) if name not in view_names[:at] and name != "slots"]
    if len(chosen_views) > 1:
        raise UsageError(f"poolbook status: -{chosen_views[0]} and -{chosen_views[1]} are different tables: choose one")
    return chosen_views[0] if chosen_views else "slots"


def _sort_attributes(arguments: Arguments) -> tuple[str, ...] | None:
    sort_names = arguments.values("sort")
    if any(value.lower() in ("no", "none", "false", "0") for value in sort_names):
        return None
    for value in sort_names:
        parse_expression("-sort", value)
    return tuple(sort_names) or ("Machine", "Name")


def render(ads: Iterable[ClassAd], query: StatusQuery, display: CellContext) -> Iterator[str]:
    """Yield the command's output.

    :param ads: the ads with the MyType ``query.kind``
    :raises Refusal: a named slot or machine does not exist
    """
    selected_ads = _select(ads, query, display)
    if query.arguments.has("totals"):
        if selected_ads:
            yield from _totals(selected_ads, query, is_compact=False)
    elif query.layout is not None:
        yield from layout_lines(query.layout, selected_ads, display)
    elif query.form is not None:
        is_bare = bare_json(query.arguments)
        yield from whole_ads(query.form, selected_ads, attribute_list(query.arguments), bare=is_bare, gap="\n")
    elif query.compact and query.view == "gpus":
        yield from gpu_table(selected_ads, with_width(COMMAND, query.arguments, display))
    elif query.compact:
        yield from compact_table(selected_ads, with_width(COMMAND, query.arguments, display))
        if selected_ads:
            yield from _totals(selected_ads, query, is_compact=True)
    elif selected_ads:
        yield from _table(selected_ads, query, with_width(COMMAND, query.arguments, display))


def _table(ads: list[ClassAd], query: StatusQuery, display: CellContext) -> Iterator[str]:
    columns = own_table("status", query.view).layout.columns
    wide_option = query.arguments.last("wide")
    if (wide_option is not None and wide_option.qualifier is None) or (display.width or 0) >= 100:
        *columns_before, last = columns
        if last.joined:  # the time in an activity has no separator before it
            columns = (*columns_before, last._replace(heading="ActivityTime", joined=False))
    table = Layout(with_appended(columns, query.more), limit=None if query.more else display.longest)
    heading, *rows = layout_lines(table, ads, display)
    yield heading + "\n"
    yield from rows
    yield from _totals(ads, query, is_compact=False)


def _totals(ads: list[ClassAd], query: StatusQuery, *, is_compact: bool) -> Iterator[str]:
    wide_option = query.arguments.last("wide")
    of_longest = query.more or query.view == "submitters" or (wide_option is not None and wide_option.qualifier is None)
    width = None if of_longest else 14
    if is_compact:
        yield from ("\n", *compact_totals(ads, width))
    elif (totals := TOTALS.get(query.view)) is not None:
        yield from ("\n", *totals_lines(totals, ((totals.key(ad), totals.sums(ad)) for ad in ads), width))


def _names(ad: ClassAd) -> set[str]:
    return {(text(ad, name) or "").lower() for name in ("Name", "Machine")}


def _select(ads: Iterable[ClassAd], query: StatusQuery, display: CellContext) -> list[ClassAd]:
    context = display.context()
    selected_ads = [ad for ad in ads if all(satisfies(constraint, ad, context) for constraint in query.constraints)]
    words = query.arguments.words
    if words:
        lower_words = {word.lower() for word in words}
        selected_ads = [ad for ad in selected_ads if lower_words & _names(ad)]
        known_names = set[str]().union(*map(_names, selected_ads))
        for word in words:
            if word.lower() not in known_names:
                raise NotHere(
                    f"poolbook status: the pool has no slot or machine {word}. `poolbook status -af Name Machine`"
                    " lists them",
                    *(("", 0) if "@" in word or "." in word else ("{tool}: unknown host " + f"{word}\n",)),
                )
    if query.order is not None:
        is_natural = query.arguments.last("natural")
        selected_ads.sort(key=_sort_key(query.order, display, is_natural is None or is_natural.qualifier != "off"))
    return selected_ads[: query.limit]


_DIGITS = re.compile(r"(\d+)")
_Key = tuple[tuple[tuple[int, int, str], ...], ...]


def _sort_key(order: Sequence[str], display: CellContext, is_natural: bool) -> Callable[[ClassAd], _Key]:
    """Return the sort key for ads: the texts of the values, with numbers in them compared by value."""
    context = display.context()

    def parts(value: str) -> tuple[tuple[int, int, str], ...]:
        pieces = _DIGITS.split(value) if is_natural else [value]
        return tuple((0, int(piece), "") if at % 2 else (1, 0, piece) for at, piece in enumerate(pieces))

    return lambda ad: tuple(parts(value_text(evaluate(ad, source, context))) for source in order)
