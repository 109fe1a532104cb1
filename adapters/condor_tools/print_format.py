"""``-print-format FILE``: the columns of a table as HTCondor's print formats describe them.

    SELECT [BARE | NOTITLE | NOHEADER] [LABEL [SEPARATOR text]]
           [RECORDPREFIX | RECORDSUFFIX | FIELDPREFIX | FIELDSUFFIX text] ...
       expression [AS heading] [PRINTF form | PRINTAS function] [WIDTH n | AUTO] [OR sign] [LEFT | RIGHT | FIT | ...]
    [WHERE expression]
    [GROUP BY expression ...]
    [SUMMARY STANDARD | NONE]

Source: make_printmask.cpp of the reference, and captures of what its tools print. Keywords are in capitals; of a row,
what stands before the first one is the expression.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..bounded_text import read_input, read_text
from .cells import (
    ACTIVITY_CODES,
    STATE_CODES,
    UNIVERSES,
    Cell,
    CellContext,
    date,
    description,
    evaluate,
    flag,
    hold_reason,
    job_id,
    job_status,
    length,
    memory_usage,
    metric,
    number,
    short_platform,
    shown,
    text,
    wall_time,
)
from .formats import check_expression, parsed
from .layout import Column, Layout, unescaped
from .options import Arguments, ToolError, UsageError, data_text

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Expression

Written = Callable[[Any, "ClassAd", CellContext], str | None]


class Function(NamedTuple):
    """Returns the text of a column's value, of its ad; None if there is none."""

    written: Written
    late: bool = False  #: whether the column's heading is as wide as it is written alone, and not as its data


def cell_of(source: str, function: Function) -> Cell:
    """Return the column of an expression that a function writes."""
    return lambda ad, setting: function.written(evaluate(ad, source, setting.context()), ad, setting)


def _of_number(write: Callable[[float, CellContext], str]) -> Written:
    def written(value: Any, _: ClassAd, setting: CellContext) -> str | None:
        return write(value, setting) if isinstance(value, int | float) else None

    return written


def _of_ad(cell: Cell) -> Written:
    return lambda _, ad, setting: cell(ad, setting)


def _readable(unit: int) -> Written:
    return lambda value, *_: metric(value * unit) if isinstance(value, int | float) else " " * 8


def _run_time(_: Any, ad: ClassAd, setting: CellContext) -> str | None:
    seconds = wall_time(ad, setting)
    return None if seconds is None else length(seconds)


def _clock(ad: ClassAd, *names: str) -> float | None:
    """Return an ad's own time: the first of these attributes that it has."""
    return next((time for time in (number(ad, name) for name in names) if time is not None), None)


def _since(write: Callable[[float, float], float], *clocks: str) -> Written:
    """Write a length of time that ends at the ad's own clock."""

    def written(value: Any, ad: ClassAd, _: CellContext) -> str | None:
        now = _clock(ad, *clocks)
        return None if now is None else length(write(now, value if isinstance(value, int | float) else 0))

    return written


def _until_now(*clocks: str) -> Written:
    """Write the time from an instant to the ad's own clock, or to now if it has none."""

    def written(value: Any, ad: ClassAd, setting: CellContext) -> str | None:
        at = _clock(ad, *clocks)
        return length(max(0, (setting.now if at is None else at) - value)) if isinstance(value, int | float) else None

    return written


def _due(value: Any, ad: ClassAd, setting: CellContext) -> str | None:
    heard = number(ad, "LastHeardFrom")
    return None if heard is None else date(heard + (value if isinstance(value, int | float) else 0), setting.timezone)


def _items(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    if isinstance(value, bool | int | float) or not hasattr(value, "__len__"):
        return None
    return [shown(item) for item in value]


def _state_code(ad: ClassAd, _: CellContext) -> str | None:
    state, activity = STATE_CODES.get(text(ad, "State") or ""), ACTIVITY_CODES.get(text(ad, "Activity") or "")
    return None if state is None and activity is None else (state or " ") + (activity or " ")


def _of_items(write: Callable[[list[str]], str]) -> Written:
    def written(value: Any, *_: Any) -> str | None:
        items = _items(value)
        return None if items is None else write(items)

    return written


def _version(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    return words[1] if len(words) > 1 else None


def _package(value: Any, *_: Any) -> str | None:
    """Return the version with what follows its date: ``25.14.1.PackageID:``."""
    words = value.split() if isinstance(value, str) else []
    if len(words) < 2:
        return None
    dated = 3 if len(words) > 2 and words[2].count("-") == 2 else 5
    build = words[dated] if len(words) > dated else "$"
    return words[1] + ("." + build.partition("-")[0] if build != "$" else "")


def _activity(value: Any, ad: ClassAd, _: CellContext) -> str:
    if not isinstance(value, str):
        return "??"
    return "OCU" if value == "Idle" and number(ad, "OCU") else value


def transfer(ad: ClassAd, _: CellContext | None = None) -> str:
    """Return which files of a job move, as -io shows it; empty if none do."""
    parts = [("TransferringInput", "in"), ("TransferringOutput", "out"), ("TransferQueued", "queued")]
    going = [word for name, word in parts if flag(ad, name)]
    return " transfer=" + ",".join(going) if going else ""


def _condor_platform(value: Any, *_: Any) -> str | None:
    words = value.split() if isinstance(value, str) else []
    if len(words) < 2:
        return None
    name = re.split(r"[ .$]", words[1])[0].replace("-", "_")
    return "x" + name[1:] if name.startswith("X") else name


_RAW = {1: "Idle   ", 2: "Running", 3: "Removed", 4: "Complet", 5: "Held   ", 6: "XFerOut", 7: "Suspend",
        8: "Failed ", 9: "Blocked"}  # fmt: skip


def _command(_: Any, ad: ClassAd, setting: CellContext) -> str | None:
    return description(ad, setting)


_FACTORY_MODES = {-1: "Errs", 0: "Norm", 1: "Held", 2: "Done", 3: "Gone"}

_OWNER = Function(lambda _, ad, __: text(ad, "Owner"))
_DATE = _of_number(lambda seconds, setting: date(seconds, setting.timezone))
_TIME = _of_number(lambda seconds, _: length(seconds))

FUNCTIONS: dict[str, Function] = {
    "ACTIVITY_CODE": Function(_of_ad(_state_code)),
    "ACTIVITY_TIME": Function(_since(lambda now, value: max(0, now - value), "MyCurrentTime", "LastHeardFrom")),
    "CONDOR_PLATFORM": Function(_condor_platform),
    "CONDOR_VERSION": Function(_version),
    "CPU_TIME": Function(_run_time),
    "DAG_OWNER": _OWNER,
    "DATE": Function(_DATE, late=True),
    "DUE_DATE": Function(_due),
    "ELAPSED_TIME": Function(_since(lambda now, value: now - value, "LastHeardFrom")),
    "JOB_COMMAND": Function(_command),
    "JOB_DESCRIPTION": Function(_command),
    "JOB_FACTORY_MODE": Function(_of_number(lambda mode, _: _FACTORY_MODES.get(int(mode), "Unk"))),
    "JOB_ID": Function(_of_ad(job_id)),
    "JOB_STATUS": Function(_of_ad(job_status)),
    "JOB_STATUS_RAW": Function(_of_number(lambda status, _: _RAW.get(int(status), "Unk    ")), late=True),
    "JOB_UNIVERSE": Function(_of_number(lambda which, _: UNIVERSES.get(int(which), "Unknown")), late=True),
    "LOAD_AVG": Function(_of_number(lambda load, _: f"{load:.3f}"), late=True),
    "MEMBER_COUNT": Function(_of_items(lambda items: str(len(items)))),
    "MEMORY_USAGE": Function(_of_ad(memory_usage)),
    "OWNER": _OWNER,
    "PLATFORM": Function(_of_ad(short_platform)),
    "QDATE": Function(_DATE),
    "READABLE_BYTES": Function(_readable(1), late=True),
    "READABLE_KB": Function(_readable(1024), late=True),
    "READABLE_MB": Function(_readable(1024 * 1024), late=True),
    "REMOTE_HOST": Function(lambda _, ad, __: text(ad, "RemoteHost") or None),
    "RUNTIME": Function(_TIME, late=True),
    "STRINGS_FROM_LIST": Function(_of_items(", ".join)),
    "TIME": Function(_TIME, late=True),
    "UNIQUE": Function(_of_items(lambda items: ", ".join(sorted(set(items))))),
}

_OWN: dict[str, Function] = {
    "activity": Function(_activity),
    "bytes": Function(_readable(1)),
    "hold_reason": Function(_of_ad(hold_reason)),
    "megabytes": Function(_of_number(lambda size, _: metric(size * 1024 * 1024))),
    "since": Function(_until_now("LastHeardFrom")),
    "since_activity": Function(_until_now("MyCurrentTime", "LastHeardFrom")),
    "string": Function(lambda value, *_: value if isinstance(value, str) else None),
    "transfer": Function(_of_ad(transfer)),
    "version": Function(_package),
}
"""Functions of the tools' own tables, which no print format can name."""

NOT_FOLLOWED: dict[str, str] = {
    **dict.fromkeys(("GRID_JOB_ID", "GRID_RESOURCE", "GRID_STATUS"), "there are no grid jobs"),
    "ACTIVITY_OR_OCU": "ACTIVITY_CODE and the attribute Activity say what a slot does",
    "BATCH_NAME": "the attribute JobBatchName has the name",
    "BUFFER_IO_MISC": "-io shows transfers",
    "UNHEALTH": "health checks are not reported yet",
}
"""Functions of HTCondor's that are refused: why, or what to do instead."""


_TOKEN = re.compile(r"\"(?P<double>[^\"]*)\"?|'(?P<single>[^']*)'?|\S+")
_VALUES = frozenset({"AS", "PRINTF", "PRINTAS", "RENDERAS", "OR", "WIDTH"})
_FLAGS = frozenset({"AUTO", "NOPREFIX", "NOSUFFIX", "TRUNCATE", "LEFT", "RIGHT", "ALWAYS", "FIT"})
_SEPARATORS = {
    "RECORDPREFIX": "before_row",
    "RECORDSUFFIX": "after_row",
    "FIELDPREFIX": "before",
    "FIELDSUFFIX": "after",
}
_SIGNS = " ?*.-_#0"  #: what may stand for a missing value
_WIDEST = 10_000


class Format(NamedTuple):
    """What a print format asks for."""

    layout: Layout
    where: Expression | None
    order: tuple[str, ...]  #: the expressions by which rows are sorted
    titled: bool
    summed: bool
    complaints: tuple[str, ...]  #: what of it is not understood, in the words of HTCondor's tools


class Token(NamedTuple):
    """A word of a line, with its place; what is quoted is no keyword."""

    text: str
    at: int
    quoted: bool


def print_format(arguments: Arguments, *, cut: bool = True) -> Format | None:
    """Return the format that -print-format names; None without the option. Its complaints are told.

    :param cut: whether a column of a given width cuts what is wider, as in every tool but condor_status
    :raises ToolError: the file cannot be read
    :raises UsageError: it asks for what is not followed, or what is no expression
    """
    given = arguments.last("print-format")
    if given is None:
        return None
    if arguments.has("af", "autoformat", "format"):
        raise UsageError(f"{given.spelled} has columns of its own: leave it out, or -af and -format")
    (name,) = given.values
    try:
        text = read_input() if name == "-" else read_text(name)
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Can't open select file: {name}\nError: invalid select file {name}") from None
    found = read_format(text, name, cut=cut)
    for line in found.complaints:
        print(line, file=sys.stderr)
    return found


def read_format(text: str, name: str, *, cut: bool = True) -> Format:
    """Read the text of a print format; ``name`` is the file's, for messages."""
    return _PrintFormatReader(name, cut).read(text)


class OwnTable(NamedTuple):
    """A table of a tool's own: the MyType of its ads (empty for all), and its columns as a print format."""

    kind: str
    text: str


@cache
def own_tables(tool: str) -> dict[str, OwnTable]:
    """Return the tables that a tool prints by itself, by the names of their views."""
    blocks = (block.partition("\n") for block in data_text("tables", tool).strip().split("\n\n"))
    heads = ((head.partition(" "), text) for head, _, text in blocks)
    return {view: OwnTable(kind, text) for (view, _, kind), text in heads}


@cache
def own_table(tool: str, view: str) -> Format:
    """Return one of these tables."""
    return _PrintFormatReader(view, False, FUNCTIONS | _OWN).read(own_tables(tool)[view].text)


_FORMS = {"V": "%V", "r": "%r", "T": "%T", "Y": "%Y"}
"""How values are printed, by the letter after ``-aaf:``."""


def appended(arguments: Arguments) -> tuple[Column, ...]:
    """Return the columns that -aaf puts behind those of a table: each an attribute, or a row of a print format.

    :raises UsageError: its letter is none, or what it names is no expression
    """
    columns: list[Column] = []
    for given in arguments.every("aaf"):
        letter = given.qualifier or ""
        if letter and letter not in _FORMS:
            wrong = letter[1:] if letter[0] in _FORMS else letter
            raise UsageError(f"Error: {wrong} is invalid -aaf format qualifier. only one of V,r,T, or Y is permitted.")
        reader = _PrintFormatReader(given.spelled, False)
        for value in given.values:
            reader.append(value, _FORMS.get(letter, "%v"))
        columns += reader.columns
    return tuple(columns)


class _PrintFormatReader:
    def __init__(self, name: str, cut: bool, functions: Mapping[str, Function] = FUNCTIONS) -> None:
        self.name, self.cut, self.functions = name, cut, functions
        self.columns: list[Column] = []
        self.separators: dict[str, str] = {"before": " "}
        self.label: str | None = None
        self.head: set[str] = set()
        self.where: Expression | None = None
        self.order: list[str] = []
        self.summed = False
        self.complaints: list[str] = []

    def read(self, text: str) -> Format:
        section = "SELECT"
        for line in _joined(text):
            tokens = list(_tokens(line))
            if not tokens or tokens[0].text.startswith("#"):
                continue
            first = tokens[0].text
            if first in ("SELECT", "SUMMARY"):
                section = first
                (self._select if first == "SELECT" else self._summary)(tokens[1:])
                continue
            if first in ("JOIN", "AND"):
                raise self._wrong(f"{first} is not followed: a table has ads of one kind")
            if first in ("WHERE", "GROUP"):
                section = first
                tokens = tokens[2 if [token.text for token in tokens[:2]] == ["GROUP", "BY"] else 1 :]
            if tokens:
                self._row(section, line, tokens)
        headed = self.label is None and not {"BARE", "NOHEADER"} & self.head
        layout = Layout(tuple(self.columns), headed=headed)._replace(**self.separators)  # type: ignore[arg-type]
        titled = not {"BARE", "NOTITLE"} & self.head
        summed = self.summed and not {"BARE", "NOSUMMARY"} & self.head
        return Format(layout, self.where, tuple(self.order), titled, summed, tuple(self.complaints))

    def append(self, row: str, form: str) -> None:
        """Take in one row; ``form`` is how its values are printed unless it says so itself."""
        tokens = list(_tokens(row))
        source, values, flags = _taken_apart(row, tokens, _VALUES, _FLAGS) if tokens else ("", {}, set())
        if source:
            column = self._column(check_expression(self.name, source), values, flags)
            plain = "PRINTF" not in values and column.form == "%v"
            self.columns.append(column._replace(form=form) if plain else column)

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"{self.name}: {why}")

    def _select(self, tokens: list[Token]) -> None:
        rest = iter(tokens)
        for token in rest:
            word = token.text
            if word in ("UNIQUE", "FROM"):
                raise self._wrong(f"SELECT {word} is not followed: `-af ... | sort | uniq -c` counts")
            if word in _SEPARATORS:
                self.separators[_SEPARATORS[word]] = unescaped(_next(rest))
            elif word == "LABEL":
                self.label = " = "
            elif word == "SEPARATOR" and self.label is not None:
                self.label = unescaped(_next(rest))
            elif word in ("BARE", "NOTITLE", "NOHEADER", "NOSUMMARY"):
                self.head.add(word)
            else:
                self.complaints.append(f"Warning: Unknown header argument {word} for SELECT")

    def _summary(self, tokens: list[Token]) -> None:
        self.summed = "STANDARD" in [token.text for token in tokens]

    def _row(self, section: str, line: str, tokens: list[Token]) -> None:
        if section == "WHERE":
            self.where = parsed(self.name, line[tokens[0].at :].strip())
        elif section == "GROUP":
            source, _, _ = _taken_apart(line, tokens, frozenset({"AS"}), frozenset({"ASCENDING", "DESCENDING"}))
            self.order.append(check_expression(self.name, source))
        elif section == "SELECT":
            source, values, flags = _taken_apart(line, tokens, _VALUES, _FLAGS)
            if source:
                self.columns.append(self._column(check_expression(self.name, source), values, flags))
        else:
            raise self._wrong("columns under SUMMARY are not followed: STANDARD and NONE are")

    def _column(self, source: str, values: Mapping[str, str], flags: set[str]) -> Column:
        function = self._function(values.get("PRINTAS", values.get("RENDERAS", "")))
        heading = values.get("AS", source)
        form = values.get("PRINTF", "%v" if self.cut or "WIDTH" not in values or "PRINTF" in values else "")
        given = _width(values)
        width = None if given is None else (-abs(given) if "LEFT" in flags else given)
        label = heading + self.label if self.label is not None else ""
        if label and function is None:
            form, width = label.replace("%", "%%") + (form or "%v"), 0
        return Column(
            "" if label else heading,
            source if function is None else cell_of(source, function),
            0 if label else width,
            form,
            _sign(values.get("OR", ""), self.complaints),
            grow=given is not None and "AUTO" in flags,
            cut=(self.cut and given is not None and "FIT" not in flags) or "TRUNCATE" in flags,
            joined="NOPREFIX" in flags,
            late=function is not None and function.late,
            bare_after="NOSUFFIX" in flags,
        )

    def _function(self, name: str) -> Function | None:
        if name in NOT_FOLLOWED:
            raise self._wrong(f"PRINTAS {name} is not followed: {NOT_FOLLOWED[name]}")
        if name and name not in self.functions:
            self.complaints.append(f"Unknown argument {name} for PRINTAS")
        return self.functions.get(name)


def _joined(text: str) -> Iterator[str]:
    """Yield the lines, those that end in a backslash with the next one."""
    yield from re.sub(r"\\\n", "", text).splitlines()


def _tokens(line: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(line):
        quoted = found["double"] is not None or found["single"] is not None
        yield Token((found["double"] or found["single"] or "") if quoted else found[0], found.start(), quoted)


def _next(rest: Iterator[Token]) -> str:
    token = next(rest, None)
    return "" if token is None else token.text


def _taken_apart(
    line: str, tokens: list[Token], with_value: frozenset[str], flags: frozenset[str]
) -> tuple[str, dict[str, str], set[str]]:
    """Return the expression of a row, and what its keywords say."""
    values: dict[str, str] = {}
    said: set[str] = set()
    begins = len(line)
    rest = iter(tokens)
    for token in rest:
        if token.quoted or token.text not in with_value | flags:
            continue
        begins = min(begins, token.at)
        if token.text in with_value:
            value = next(rest, None)
            quoted = value is not None and value.quoted and token.text in ("AS", "PRINTF")
            values[token.text] = "" if value is None else (unescaped(value.text) if quoted else value.text)
            if value is not None and token.text == "WIDTH" and value.text == "AUTO":
                said.add("AUTO")
        else:
            said.add(token.text)
    return line[tokens[0].at : begins].strip(), values, said


def _width(values: Mapping[str, str]) -> int | None:
    found = re.match(r"[+-]?\d{1,5}", values.get("WIDTH", "AUTO"), re.ASCII)
    return None if found is None else max(-_WIDEST, min(_WIDEST, int(found[0])))


def _sign(word: str, complaints: list[str]) -> str:
    """Return what stands for a missing value: one sign, or two for the column's whole width."""
    if not word:
        return ""
    if word[0] not in _SIGNS:
        complaints.append(f"Unknown argument {word} for OR")
        return ""
    return word[:2] if word[0] == word[1:2] else word[0]
