"""``poolbook userprio``: submitters' priorities, limits and usage, shown and set as by condor_userprio."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from json import dumps
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ...domain.units import DAY, SECOND
from ..bounded_text import read_text
from ..condor_tools.cells import CellContext, duration, short_date
from ..condor_tools.formats import (
    ads_form,
    attribute_list,
    bare_json,
    custom_layout,
    line_writer,
    long_text,
    parse_expression,
    whole_ads,
)
from ..condor_tools.job_selection import satisfies
from ..condor_tools.layout import Layout, layout_lines
from ..condor_tools.options import (
    Arguments,
    GivenOption,
    NotHere,
    ToolError,
    ToolSyntax,
    UsageError,
    command_table,
    parse,
    sections,
    whole_number,
)
from ..runtime.accounting_records import Record, record_ad, records_of_output, with_subgroups
from ..runtime.queries import AccountantRecords, NoNegotiator, NotRecorded, Queries
from ..stores.location import safe_url
from .common import display_context, selected_log
from .time_window import queries_at
from .userprio_table import DETAILS, MOST, UserprioLayout, table

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression
    from ..condor_tools.cells import CellContext


class _Edit(NamedTuple):
    """An option that changes something: a row of the section ``edits`` in the command's file."""

    kind: str  #: the class of its request
    name: str  #: the field of ``SetSubmitter`` to set
    least: str  #: the minimum of its whole number; ``any`` for any number, empty if the option has no number
    done: str  #: the answer, with the user and the value
    lent: str = ""  #: the answer for a value with a duration in seconds, or empty if no duration is allowed


def _edits() -> Iterator[tuple[str, _Edit]]:
    for row in sections("userprio")["edits:"]:
        name, request, *answers = row.split("  ")
        kind, field, least_text = (*request.split(" "), "", "")[:3]
        yield name, _Edit(kind, field, least_text, *answers)


EDITS = dict(_edits())
"""The options that change something, with their requests and answers."""


class UserprioChange(NamedTuple):
    """A change that a command line requests: the request without its id and user, and the answer."""

    body: dict[str, Any]
    done: str


def read_edit(command: ToolSyntax, arguments: Arguments) -> UserprioChange | None:
    """Return the requested change, or None. Raise `UsageError` if several changes or an unknown one are requested."""
    changes = list(arguments.all_given(*EDITS))
    if not changes:
        if arguments.has("duration"):
            raise UsageError(f"poolbook userprio: -duration is only for {_lease_text()}")
        return None
    if len(changes) > 1:
        alternatives = f"{changes[0].spelling} or {changes[1].spelling}"
        raise UsageError(f"poolbook userprio: change one thing at a time: {alternatives}")
    option = changes[0]
    if arguments.words:
        raise UsageError(f"poolbook userprio: {option.spelling} and {arguments.words[0]!r}: specify only one submitter")
    return _change_request(command, option, arguments.last("duration"))


def _lease_text() -> str:
    return ", ".join(f"-{name}" for name, edit in EDITS.items() if edit.lent)


def _change_request(command: ToolSyntax, given: GivenOption, option: GivenOption | None) -> UserprioChange:
    edit = EDITS[given.name]
    if option is not None and not edit.lent:
        raise UsageError(f"poolbook userprio: -duration is only for {_lease_text()}, not with {given.spelling}")
    user = given.values[0] if given.values else ""
    body: dict[str, Any] = {"kind": edit.kind}
    if given.values:
        submitter(given.spelling, user)
    if edit.kind == "ResetUsage":
        return UserprioChange({**body, "submitters": [user] if user else []}, edit.done.format(user=user))
    body["submitter"] = user
    if edit.kind == "DeleteSubmitter":
        return UserprioChange(body, edit.done.format(user=user))
    body["name"] = edit.name
    if len(given.values) == 1:
        return UserprioChange({**body, "cancel": True}, edit.done.format(user=user))
    value = _edit_value(command, given, edit)
    body["value"] = float(value)
    if option is None:
        return UserprioChange(body, edit.done.format(user=user, value=value))
    body["duration"] = seconds = whole_number(command, option, 1)
    return UserprioChange(body, edit.lent.format(user=user, value=value, seconds=seconds))


def submitter(option: str, name: str) -> str:
    """Check that a submitter's name is complete. Raise `UsageError` if it is not."""
    user, at, domain = name.rpartition("@")
    if not (user and at and domain):
        raise UsageError(
            f"poolbook userprio {option}: {name!r} is not a submitter: use the form user@domain; `poolbook userprio "
            "-allusers` lists the submitters"
        )
    return name


def _edit_value(command: ToolSyntax, option: GivenOption, edit: _Edit) -> int | float:
    if edit.least != "any":
        return whole_number(command, option._replace(values=option.values[1:]), int(edit.least))
    try:
        value = float(option.values[1])
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise UsageError(f"poolbook userprio: {option.spelling} takes a number, not {option.values[1]!r}")
    return value


COMMAND = command_table("userprio")


class UserprioQuery(NamedTuple):
    arguments: Arguments
    edit: UserprioChange | None  #: the requested change, if any
    holder: str  #: the submitter whose slots to list, or empty for no list
    file: str  #: the file that contains the records; empty: the log
    constraints: tuple[Expression, ...]  #: conditions that each record must satisfy
    layout: Layout | None
    form: str | None  #: the format for complete records; None for a table

    @property
    def needs_full_ads(self) -> bool:
        """Check whether attributes are needed that no table shows."""
        return bool(self.constraints or self.layout or self.form)


def parse_arguments(argv: Sequence[str]) -> UserprioQuery:
    """Parse a command line. Raise `UsageError` if options are invalid or contradict each other."""
    arguments = parse(COMMAND, argv)
    edit = read_edit(COMMAND, arguments)
    holder = arguments.last("getreslist")
    _active_from(arguments)
    return UserprioQuery(
        arguments,
        edit,
        "" if holder is None else submitter(holder.spelling, holder.values[0]),
        arguments.value("inputfile"),
        tuple(parse_expression(option.spelling, option.values[0]) for option in arguments.all_given("constraint")),
        custom_layout(arguments),
        ads_form(arguments),
    )


def _active_from(arguments: Arguments) -> datetime | None:
    """Return the date of -activefrom, if it has an effect. Two-digit years mean 1950 to 2049."""
    option = arguments.last("activefrom", "allusers")
    if option is None or option.name != "activefrom":
        return None
    try:
        month, day, year = map(int, option.values)
        return datetime(year + (2000 if year < 50 else 1900 if year < 1900 else 0), month, day)
    except (ValueError, OverflowError):
        text = " ".join(option.values)
        raise UsageError(
            f"poolbook userprio: {option.spelling} {text}: not a valid date; use for example -activefrom 11 20 2026"
        ) from None


def _shown_since(query: UserprioQuery, display: CellContext) -> float | None:
    """Return the time since which a submitter must have used resources to be shown; None: show all."""
    if query.arguments.words:
        return None
    option = query.arguments.last("activefrom", "allusers")
    if option is None:
        return display.now - DAY
    day = _active_from(query.arguments)
    return None if day is None else day.replace(tzinfo=display.timezone).timestamp()


def render(records: Iterable[Record], query: UserprioQuery, display: CellContext) -> Iterator[str]:
    """Yield the command's output. Raise `ToolError` if a named user has no record."""
    rows = list(records)
    if query.arguments.has("grouprollup"):
        rows = with_subgroups(rows)
    rows = _select_records(rows, query, display)
    if query.layout is not None:
        yield from layout_lines(query.layout, map(record_ad, rows), display)
    elif query.form is not None:
        yield from _long_form(query.form, [record_ad(record) for record in rows], query.arguments)
    else:
        yield from table(rows, _table_layout(query, display), display.timezone)


def _long_form(form: str, ads: list[ClassAd], arguments: Arguments) -> Iterator[str]:
    names = attribute_list(arguments)
    if form == "long" and arguments.has("modular"):
        written = line_writer()
        yield from ("\n" + long_text(ad, names, written).removesuffix("\n") for ad in ads)
    else:
        yield from whole_ads(form, ads, names, bare=bare_json(arguments), gap="\n")


def _table_layout(query: UserprioQuery, display: CellContext) -> UserprioLayout:
    arguments = query.arguments
    details = frozenset[str]().union(*(DETAILS[option.name] for option in arguments.all_given(*DETAILS)))
    return UserprioLayout(
        details or MOST,
        arguments.last_name("hierarchical", "flat", "grouporder"),
        arguments.has("quotas", "surplus"),
        arguments.has("quotas", "surplus", "hierarchical", "grouprollup"),
        _shown_since(query, display),
    )


def _select_records(records: list[Record], query: UserprioQuery, display: CellContext) -> list[Record]:
    if given_names := dict.fromkeys(query.arguments.words).keys():
        names = [(name := str(record.get("Name", "")), name.partition("@")[0]) for record in records]
        for word in given_names:
            if not any(word in pair for pair in names):
                raise NotHere(
                    f"poolbook userprio: unknown user {word}. `poolbook userprio -allusers` lists them",
                    "Not all user(s) found in collector, querying negotiator...\n",
                    0,
                )
        records = [record for record, pair in zip(records, names, strict=True) if not given_names.isdisjoint(pair)]
    for constraint in query.constraints:
        records = [record for record in records if satisfies(constraint, record_ad(record), display.context())]
    return records


def slot_list(slots: Sequence[tuple[str, int]], display: CellContext) -> Iterator[str]:
    """Yield the output of -getreslist: a submitter's slots, each with its start time in seconds."""

    line = "{:<30} {:>12} {:>12}\n".format
    yield line("Resource Name", " Start Time", " Match Time")
    yield line("-------------", " ----------", " ----------")
    for name, since in slots:
        yield line(name, short_date(since, display.timezone), duration(max(0, display.now - since)))
    yield line("-------------", " ------------", " ------------")
    yield f"Number of Resources Used: {len(slots)}\n"


def read_file(path: str) -> list[Record]:
    """Read the records in a file that condor_userprio -long or `poolbook userprio -long` wrote. Raise `UsageError` if
    the file cannot be read, or contains no such ads."""
    try:
        records = records_in_text(read_text(path))
    except OSError as error:
        raise UsageError(f"poolbook userprio -inputfile {path}: {error.strerror}") from None
    if not any("Name" in record for record in records):
        raise UsageError(
            f"poolbook userprio -inputfile {path}: no submitter ads in it; `poolbook userprio -long` prints them"
        )
    return records


def records_in_text(text: str) -> list[Record]:
    blocks = (block for block in re.split(r"\n\s*\n", text) if block.strip())
    matches = (map(_ATTRIBUTE.match, block.split("\n")) for block in blocks)
    return records_of_output({match[1]: match[2] for match in lines if match} for lines in matches)


_ATTRIBUTE = re.compile(r"\s*(\w+)\s*=\s*(.*?)\s*$", re.ASCII)


def userprio(argv: Sequence[str]) -> int:
    query = parse_arguments(argv)
    if query.edit is not None:
        return _edit(query, query.edit)
    display = display_context()
    for text in _output_lines(query, display):
        sys.stdout.write(text)
    return 0


def _edit(query: UserprioQuery, edit: UserprioChange) -> int:
    from ..runtime.pool_client import ask

    negotiator_name = {"negotiator": name} if (name := query.arguments.value("name").upper()) else {}
    answer = ask(selected_log(query.arguments, "pool"), {**edit.body, **negotiator_name})
    if query.arguments.has("json"):
        print(dumps(answer, indent=2))
    else:
        print(edit.done)
    return 0


def _output_lines(query: UserprioQuery, here: CellContext) -> Iterator[str]:
    if query.file:
        return render(read_file(query.file), query, here)
    with queries_at("userprio", query.arguments, selected_log(query.arguments, "pool")) as queries:
        display = here._replace(now=queries.now(here.now))
        try:
            return _answer(query, queries, display)
        except NoNegotiator as error:
            raise ToolError(f"poolbook userprio: {error}") from None
        except NotRecorded as error:
            raise ToolError(f"poolbook userprio -getreslist: {error}") from None


def _answer(query: UserprioQuery, queries: Queries, display: CellContext) -> Iterator[str]:
    negotiator_name = "" if queries.imported else queries.negotiator(query.arguments.value("name"))
    if query.holder:
        slots = [(name, since // SECOND) for name, since in queries.claims_of(query.holder)]
        return slot_list(slots, display)
    if queries.imported:
        past = _imported(queries, display)
    else:
        past = queries.accounting(display.now, detailed=query.needs_full_ads, negotiator=negotiator_name)
    return render(past.records, query, display if past.at is None else display._replace(now=past.at // SECOND))


def _imported(queries: Queries, display: CellContext) -> AccountantRecords:
    from ...replay.forensics.daemon_tables import NotKnown
    from ...replay.narration.formatting import instant

    try:
        return queries.accounting(display.now)
    except NotKnown as error:
        since_text = f"from {instant(error.since, display.timezone)} on" if error.since else "at no time"
        problem = f"the imported records of {safe_url(queries.url)} have priorities {since_text}"
        raise ToolError(f"poolbook userprio: {problem}; import an Accountantnew.log") from None
