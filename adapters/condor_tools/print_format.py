"""``-print-format FILE``: parse a table's columns in HTCondor's print format.

    SELECT [BARE | NOTITLE | NOHEADER] [LABEL [SEPARATOR text]]
           [RECORDPREFIX | RECORDSUFFIX | FIELDPREFIX | FIELDSUFFIX text] ...
       expression [AS heading] [PRINTF form | PRINTAS function] [WIDTH n | AUTO] [OR sign] [LEFT | RIGHT | FIT | ...]
    [WHERE expression]
    [GROUP BY expression ...]
    [SUMMARY STANDARD | NONE]

Source: HTCondor's make_printmask.cpp, and recorded output of its tools. Keywords are in capitals; the text of a row
before its first keyword is the expression.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ..bounded_text import read_input, read_text
from .cells import FUNCTIONS, OWN_FUNCTIONS, UNSUPPORTED, CellFunction, cell_of
from .formats import MAX_WIDTH, PRINTF_BY_LETTER, check_expression, parse_expression
from .layout import Column, Layout, replace_escapes
from .options import Arguments, ToolError, UsageError, data_text

if TYPE_CHECKING:
    from ...domain.classad import Expression

_TOKEN = re.compile(r"\"(?P<double>[^\"]*)\"?|'(?P<single>[^']*)'?|\S+")
_VALUE_KEYWORDS = frozenset({"AS", "PRINTF", "PRINTAS", "RENDERAS", "OR", "WIDTH"})
_FLAG_WORDS = frozenset({"AUTO", "NOPREFIX", "NOSUFFIX", "TRUNCATE", "LEFT", "RIGHT", "ALWAYS", "FIT"})
_SEPARATORS = {
    "RECORDPREFIX": "before_row", "RECORDSUFFIX": "after_row", "FIELDPREFIX": "before", "FIELDSUFFIX": "after",
}  # fmt: skip
_MISSING_SIGNS = " ?*.-_#0"  #: characters that can represent a missing value


class Format(NamedTuple):
    layout: Layout
    where: Expression | None
    order: tuple[str, ...]  #: the expressions by which the rows are sorted
    titled: bool
    summed: bool
    complaints: tuple[str, ...]  #: warnings about unknown elements, with the messages of HTCondor tools


class Token(NamedTuple):
    """A word of a line, with its position; a quoted word is not treated as a keyword."""

    text: str
    at: int
    quoted: bool


def print_format(arguments: Arguments, *, cut: bool = True) -> Format | None:
    """Return the format in the file named by -print-format, or None without the option. Print its warnings.

    :param cut: whether a column with a specified width truncates longer data, as in all tools except condor_status
    :raises ToolError: the file cannot be read
    :raises UsageError: the file has an unsupported keyword or an invalid expression
    """
    option = arguments.last("print-format")
    if option is None:
        return None
    if arguments.has("af", "autoformat", "format"):
        raise UsageError(f"{option.spelling} defines all columns: use either it, or -af and -format")
    (name,) = option.values
    try:
        text = read_input() if name == "-" else read_text(name)
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Can't open select file: {name}\nError: invalid select file {name}") from None
    format = read_format(text, name, cut=cut)
    for line in format.complaints:
        print(line, file=sys.stderr)
    return format


def read_format(text: str, name: str, *, cut: bool = True) -> Format:
    """Parse the text of a print format; ``name`` is the name of its file, for messages."""
    return _PrintFormatReader(name, cut).parse_format(text)


class OwnTable(NamedTuple):
    """A built-in table of a tool: the MyType of its ads (empty: any), and its columns in print format."""

    kind: str
    text: str


@cache
def own_tables(tool: str) -> dict[str, OwnTable]:
    """Return the built-in tables of a tool, by view name."""
    blocks = (block.partition("\n") for block in data_text("tables", tool).strip().split("\n\n"))
    head_text = ((head.partition(" "), text) for head, _, text in blocks)
    return {view: OwnTable(kind, text) for (view, _, kind), text in head_text}


@cache
def own_table(tool: str, view: str) -> Format:
    return _PrintFormatReader(view, False, FUNCTIONS | OWN_FUNCTIONS).parse_format(own_tables(tool)[view].text)


def appended_columns(arguments: Arguments) -> tuple[Column, ...]:
    """Return the columns that -aaf appends to a table: each is an attribute, or a row in print format.

    :raises UsageError: a letter is unknown, or an expression is invalid
    """
    columns: list[Column] = []
    for option in arguments.all_given("aaf"):
        letter = option.qualifier or ""
        if letter not in ("", *PRINTF_BY_LETTER):
            wrong = letter[1:] if letter[0] in PRINTF_BY_LETTER else letter
            raise UsageError(f"Error: {wrong} is invalid -aaf format qualifier. only one of V,r,T, or Y is permitted.")
        reader = _PrintFormatReader(option.spelling, False)
        for value in option.values:
            reader.append(value, PRINTF_BY_LETTER.get(letter, "%v"))
        columns += reader.columns
    return tuple(columns)


class _PrintFormatReader:
    def __init__(self, name: str, cut: bool, functions: Mapping[str, CellFunction] = FUNCTIONS) -> None:
        self.name, self.cut, self.functions = name, cut, functions
        self.columns: list[Column] = []
        self.separators: dict[str, str] = {"before": " "}
        self.label: str | None = None
        self.head: set[str] = set()
        self.where: Expression | None = None
        self.order: list[str] = []
        self.summed = False
        self.complaints: list[str] = []

    def parse_format(self, text: str) -> Format:
        section = "SELECT"
        for line in re.sub(r"\\\n", "", text).splitlines():
            tokens = list(_tokens_of_line(line))
            if not tokens or tokens[0].text.startswith("#"):
                continue
            first = tokens[0].text
            if first in ("SELECT", "SUMMARY"):
                section = first
                (self._select if first == "SELECT" else self._summary)(tokens[1:])
                continue
            if first in ("JOIN", "AND"):
                raise self._invalid_format(f"{first} is not supported: a table has ads of one kind")
            if first in ("WHERE", "GROUP"):
                section = first
                tokens = tokens[2 if [token.text for token in tokens[:2]] == ["GROUP", "BY"] else 1 :]
            if tokens:
                self._row(section, line, tokens)
        has_headings = self.label is None and not {"BARE", "NOHEADER"} & self.head
        layout = Layout(tuple(self.columns), headed=has_headings)._replace(**self.separators)  # type: ignore[arg-type]
        has_title = not {"BARE", "NOTITLE"} & self.head
        has_summary = self.summed and not {"BARE", "NOSUMMARY"} & self.head
        return Format(layout, self.where, tuple(self.order), has_title, has_summary, tuple(self.complaints))

    def append(self, row: str, form: str) -> None:
        """Parse one row; ``form`` is the default printf format for its values."""
        tokens = list(_tokens_of_line(row))
        source, values, flags = _split_row(row, tokens, _VALUE_KEYWORDS, _FLAG_WORDS) if tokens else ("", {}, set())
        if source:
            column = self._column(check_expression(self.name, source), values, flags)
            is_plain = "PRINTF" not in values and column.form == "%v"
            self.columns.append(column._replace(form=form) if is_plain else column)

    def _invalid_format(self, reason: str) -> UsageError:
        return UsageError(f"{self.name}: {reason}")

    def _select(self, tokens: list[Token]) -> None:
        remaining = iter(tokens)
        for token in remaining:
            word = token.text
            if word in ("UNIQUE", "FROM"):
                raise self._invalid_format(f"SELECT {word} is not supported: use `-af ... | sort | uniq -c`")
            if word in _SEPARATORS:
                self.separators[_SEPARATORS[word]] = replace_escapes(_next_word(remaining))
            elif word == "LABEL":
                self.label = " = "
            elif word == "SEPARATOR" and self.label is not None:
                self.label = replace_escapes(_next_word(remaining))
            elif word in ("BARE", "NOTITLE", "NOHEADER", "NOSUMMARY"):
                self.head.add(word)
            else:
                self.complaints.append(f"Warning: Unknown header argument {word} for SELECT")

    def _summary(self, tokens: list[Token]) -> None:
        self.summed = "STANDARD" in [token.text for token in tokens]

    def _row(self, section: str, line: str, tokens: list[Token]) -> None:
        if section == "WHERE":
            self.where = parse_expression(self.name, line[tokens[0].at :].strip())
        elif section == "GROUP":
            source, _, _ = _split_row(line, tokens, frozenset({"AS"}), frozenset({"ASCENDING", "DESCENDING"}))
            self.order.append(check_expression(self.name, source))
        elif section == "SELECT":
            source, values, flags = _split_row(line, tokens, _VALUE_KEYWORDS, _FLAG_WORDS)
            if source:
                self.columns.append(self._column(check_expression(self.name, source), values, flags))
        else:
            raise self._invalid_format("columns under SUMMARY are not supported: use STANDARD or NONE")

    def _column(self, source: str, values: Mapping[str, str], flags: set[str]) -> Column:
        function = self._function(values.get("PRINTAS", values.get("RENDERAS", "")))
        heading = values.get("AS", source)
        form = values.get("PRINTF", "%v" if self.cut or "WIDTH" not in values or "PRINTF" in values else "")
        match = re.match(r"[+-]?\d{1,5}", values.get("WIDTH", "AUTO"), re.ASCII)
        given_width = None if match is None else max(-MAX_WIDTH, min(MAX_WIDTH, int(match[0])))
        width = None if given_width is None else (-abs(given_width) if "LEFT" in flags else given_width)
        label = heading + self.label if self.label is not None else ""
        if label and function is None:
            form, width = label.replace("%", "%%") + (form or "%v"), 0
        return Column(
            "" if label else heading,
            source if function is None else cell_of(source, function),
            0 if label else width,
            form,
            _missing_value_sign(values.get("OR", ""), self.complaints),
            grow=given_width is not None and "AUTO" in flags,
            cut=(self.cut and given_width is not None and "FIT" not in flags) or "TRUNCATE" in flags,
            joined="NOPREFIX" in flags,
            late=function is not None and function.late,
            bare_after="NOSUFFIX" in flags,
        )

    def _function(self, name: str) -> CellFunction | None:
        if name in UNSUPPORTED:
            raise self._invalid_format(f"PRINTAS {name} is not supported: {UNSUPPORTED[name]}")
        if name and name not in self.functions:
            self.complaints.append(f"Unknown argument {name} for PRINTAS")
        return self.functions.get(name)


def _tokens_of_line(line: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(line):
        quoted = match["double"] is not None or match["single"] is not None
        yield Token((match["double"] or match["single"] or "") if quoted else match[0], match.start(), quoted)


def _next_word(remaining: Iterator[Token]) -> str:
    token = next(remaining, None)
    return "" if token is None else token.text


def _split_row(
    line: str, tokens: list[Token], with_value: frozenset[str], flags: frozenset[str]
) -> tuple[str, dict[str, str], set[str]]:
    values: dict[str, str] = {}
    flags_given: set[str] = set()
    begin_index = len(line)
    remaining = iter(tokens)
    for token in remaining:
        if token.quoted or token.text not in with_value | flags:
            continue
        begin_index = min(begin_index, token.at)
        if token.text in with_value:
            value = next(remaining, None)
            quoted = value is not None and value.quoted and token.text in ("AS", "PRINTF")
            values[token.text] = "" if value is None else (replace_escapes(value.text) if quoted else value.text)
            if value is not None and token.text == "WIDTH" and value.text == "AUTO":
                flags_given.add("AUTO")
        else:
            flags_given.add(token.text)
    return line[tokens[0].at : begin_index].strip(), values, flags_given


def _missing_value_sign(word: str, complaints: list[str]) -> str:
    """Return the sign for a missing value; doubled to fill the column's width."""
    if not word:
        return ""
    if word[0] not in _MISSING_SIGNS:
        complaints.append(f"Unknown argument {word} for OR")
        return ""
    return word[:2] if word[0] == word[1:2] else word[0]
