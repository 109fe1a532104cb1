"""``poolbook userprio``: submitters' priorities, limits and usage, as condor_userprio shows and sets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from .cells import Setting, date, length
from .formats import ads_form, attribute_list, bare_json, custom_layout, long_text, old_lines, parsed, whole_ads
from .job_selection import holds
from .layout import Layout, lines
from .options import Arguments, NotHere, UsageError, command_table, parse
from .userprio_edits import Request, submitter
from .userprio_edits import read as read_edit
from .userprio_records import Record, ad_of, rolled_up
from .userprio_table import DETAILS, MOST, Wanted, table

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression

_DAY = 86400

COMMAND = command_table("userprio")


class Query(NamedTuple):
    """A parsed command line."""

    arguments: Arguments
    edit: Request | None  #: the change that it asks for, if any
    holder: str  #: the submitter whose slots are to be listed; empty: none
    file: str  #: the file of the records; empty: the log
    constraints: tuple[Expression, ...]  #: the expressions that must be true for each record
    layout: Layout | None
    form: str | None  #: the form of whole records; None for a table

    @property
    def whole(self) -> bool:
        """Tell whether attributes are needed that no table shows."""
        return bool(self.constraints or self.layout or self.form)


def read(argv: Sequence[str]) -> Query:
    """Parse a command line. Raise `UsageError` if the options contradict each other or cannot be understood."""
    arguments = parse(COMMAND, argv)
    edit = read_edit(COMMAND, arguments)
    holder = arguments.last("getreslist")
    _date(arguments)
    return Query(
        arguments,
        edit,
        "" if holder is None else submitter(holder.spelled, holder.values[0]),
        arguments.value("inputfile"),
        tuple(parsed(given.spelled, given.values[0]) for given in arguments.every("constraint")),
        custom_layout(arguments),
        ads_form(arguments),
    )


def _date(arguments: Arguments) -> datetime | None:
    """Return the day after -activefrom, if that is what counts. Years of two digits less than 50 are those of this
    century, others of the last one."""
    given = arguments.last("activefrom", "allusers")
    if given is None or given.name != "activefrom":
        return None
    try:
        month, day, year = map(int, given.values)
        return datetime(year + (2000 if year < 50 else 1900 if year < 1900 else 0), month, day)
    except (ValueError, OverflowError):
        words = " ".join(given.values)
        raise UsageError(
            f"poolbook userprio: {given.spelled} {words}: there is no such day; -activefrom 11 20 2026 is one"
        ) from None


def _since(query: Query, setting: Setting) -> float | None:
    """Return since when a shown submitter must have used something; None: all are shown."""
    if query.arguments.words:
        return None
    given = query.arguments.last("activefrom", "allusers")
    if given is None:
        return setting.now - _DAY
    day = _date(query.arguments)
    return None if day is None else day.replace(tzinfo=setting.timezone).timestamp()


# -- printing ------------------------------------------------------------------------------------------------------


def render(records: Iterable[Record], query: Query, setting: Setting) -> Iterator[str]:
    """Yield the command's output. Raise `Refusal` if a user who was named has no record."""
    found = list(records)
    if query.arguments.has("grouprollup"):
        found = rolled_up(found)
    found = _asked(found, query, setting)
    if query.layout is not None:
        yield from lines(query.layout, map(ad_of, found), setting)
    elif query.form is not None:
        yield from _whole(query.form, [ad_of(record) for record in found], query.arguments)
    else:
        yield from table(found, _wanted(query, setting), setting.timezone)


def _whole(form: str, ads: list[ClassAd], arguments: Arguments) -> Iterator[str]:
    names = attribute_list(arguments)
    if form == "long" and arguments.has("modular"):
        written = old_lines()
        yield from ("\n" + long_text(ad, names, written).removesuffix("\n") for ad in ads)
    else:
        yield from whole_ads(form, ads, names, bare=bare_json(arguments), gap="\n")


def _wanted(query: Query, setting: Setting) -> Wanted:
    arguments = query.arguments
    details = frozenset[str]().union(*(DETAILS[given.name] for given in arguments.every(*DETAILS)))
    return Wanted(
        details or MOST,
        arguments.chosen("hierarchical", "flat", "grouporder"),
        arguments.has("quotas", "surplus"),
        arguments.has("quotas", "surplus", "hierarchical", "grouprollup"),
        _since(query, setting),
    )


def _asked(found: list[Record], query: Query, setting: Setting) -> list[Record]:
    words = query.arguments.words
    if words:
        named = [(str(record.get("Name", "")), record) for record in found]
        kept = [(name, record) for name, record in named if name in words or name.partition("@")[0] in words]
        there = {part for name, _ in kept for part in (name, name.partition("@")[0])}
        for word in words:
            if word not in there:
                raise NotHere(
                    f"poolbook userprio: there is no user {word} here. `poolbook userprio -allusers` lists them",
                    "Not all user(s) found in collector, querying negotiator...\n",
                    0,
                )
        found = [record for _, record in kept]
    if query.constraints:
        context = setting.context()
        found = [
            record
            for record in found
            if all(holds(constraint, ad_of(record), context) for constraint in query.constraints)
        ]
    return found


def slot_list(slots: Sequence[tuple[str, int]], setting: Setting) -> Iterator[str]:
    """Yield the output of -getreslist: a submitter's slots, each with the instant since when, in seconds."""

    def line(*texts: str) -> str:
        return "{:<30} {:>12} {:>12}\n".format(*texts)

    yield line("Resource Name", " Start Time", " Match Time")
    yield line("-------------", " ----------", " ----------")
    for name, since in slots:
        yield line(name, date(since, setting.timezone), length(max(0, setting.now - since)))
    yield line("-------------", " ------------", " ------------")
    yield f"Number of Resources Used: {len(slots)}\n"
