"""Arrange values in columns, for the built-in tables, ``-af`` and ``-format``.

The rules are HTCondor's for print masks (manual: Print Formats):

* By default, a column is as wide as its heading, left-aligned, and grows with its data. A specified width (negative:
  left-aligned, 0: no padding) pads shorter data; longer data exceeds it.
* ``cut`` truncates longer data; ``grow`` lets a specified width grow with the data.
* If an ad has no value, ``missing_text`` is printed: once, or in brackets over the full width if it is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from .cells import Cell, CellContext, duration, evaluate, short_date, value_text
from .terminal import as_one_line

if TYPE_CHECKING:
    from ...domain.classad import ClassAd


class Column(NamedTuple):
    """One column. ``value`` is an attribute or expression, printed with ``form`` (a printf format), or a function. If
    ``form`` is "", strings are printed and other values left blank. ``joined``: no separator before the column."""

    heading: str
    value: str | Cell
    width: int | None = None
    form: str = "%v"
    missing: str = ""
    grow: bool = False
    cut: bool = False
    joined: bool = False
    late: bool = False  #: the column grows while its lines are printed, without widening the heading
    bare_after: bool = False  #: no separator after the column


class Layout(NamedTuple):
    columns: tuple[Column, ...]
    before_row: str = ""
    before: str = " "
    after: str = ""
    after_row: str = "\n"
    headed: bool = True
    streamed: bool = False  #: print the heading before reading the data; widths grow from line to line
    trimmed: bool = False  #: strip blanks at the end of a line
    limit: int | None = None  #: maximum length of a line, or None for no limit


Row = Sequence[str | None]
_UNMEASURED = frozenset({"undefined", "error", "true", "false"})
"""Values that widen their column while lines are printed, but not the heading."""


def layout_lines(layout: Layout, ads: Iterable[ClassAd], display: CellContext) -> Iterator[str]:
    """Yield the heading and then the text for each ad, usually one line."""
    context = display.context()

    def row(ad: ClassAd) -> Row:
        return [
            _escape_cell(column.value(ad, display))
            if callable(column.value)
            else conversion(column.form).text_of_attribute(ad, column.value, context)
            for column in layout.columns
        ]

    return _padded_lines(layout, map(row, ads))


def _escape_cell(text: str | None) -> str | None:
    """Escape control characters in a cell, so that it cannot add lines or shift columns."""
    return text if text is None or text.isprintable() else as_one_line(text)


def with_appended(columns: tuple[Column, ...], more_columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Append the columns of -aaf to a table's columns. An unpadded last column becomes as wide as its data."""
    if not more_columns:
        return columns
    *columns_before, last = columns
    return (*columns_before, last._replace(width=-3, grow=True) if last.width == 0 else last, *more_columns)


def lay_out(layout: Layout, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the heading and the lines for rows of texts, with control characters in the cells escaped."""
    return _padded_lines(layout, ([_escape_cell(text) for text in texts] for texts in rows))


def _padded_lines(layout: Layout, rows: Iterable[Row]) -> Iterator[str]:
    widths = [abs(len(column.heading) if column.width is None else column.width) for column in layout.columns]
    growing = [column.grow or column.width is None for column in layout.columns]
    if not layout.streamed:
        rows = list(rows)
        early = [is_growing and not column.late for is_growing, column in zip(growing, layout.columns, strict=True)]
        for texts in rows:
            _widen(widths, early, [None if text in _UNMEASURED else text for text in texts])
    if layout.headed:
        headings = [column.heading.ljust(width) for column, width in zip(layout.columns, widths, strict=True)]
        yield _join_row(layout, headings)
    for texts in rows:
        _widen(widths, growing, texts)
        line = _join_row(layout, map(_pad, layout.columns, widths, texts))
        yield line.rstrip() + layout.after_row if layout.trimmed else line


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Yield the lines of a table of texts: columns as wide as their texts, two blanks apart.

    :param right: the indexes of the right-aligned columns, including their headings
    """
    columns = tuple(Column("", "", 0 if at in right else None, grow=True) for at in range(len(headings)))
    return lay_out(Layout(columns, before="  ", after_row="", headed=False, trimmed=True), [headings, *rows])


def _widen(widths: list[int], growing: list[bool], texts: Row) -> None:
    for at, (is_growing, text) in enumerate(zip(growing, texts, strict=True)):
        if is_growing and text is not None and len(text) > widths[at]:
            widths[at] = len(text)


def _pad(column: Column, width: int, text: str | None) -> str:
    if text is None:
        text = missing_text(column.missing, width)
    if width and len(text) > width and column.cut:
        return text[:width]
    is_left_aligned = column.width is None or column.width < 0
    return text.ljust(width) if is_left_aligned else text.rjust(width)


def missing_text(sign: str, width: int) -> str:
    """Return the text for a missing value: the sign, or for a doubled sign the full width in brackets: ``[????]``."""
    if len(sign) < 2:
        return sign
    if not width:
        return ""
    return sign[0] if width < 3 else f"[{sign[0] * (width - 2)}]"


def _join_row(layout: Layout, texts: Iterable[str]) -> str:
    line = ""
    last = len(layout.columns) - 1
    for at, (column, text) in enumerate(zip(layout.columns, texts, strict=True)):
        after = layout.after if at < last and not column.bare_after else ""
        line += ("" if at == 0 or column.joined else layout.before) + text + after
    if layout.limit is not None:
        line = line[: layout.limit]
    return layout.before_row + line + layout.after_row


_CONVERSION = r"(?a)%(?:%|([-+ #0']*)(\d*)(?:\.(\d*))?[hlLqjzt]*([a-zA-Z]))"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = r"(?s)\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)"


def replace_escapes(form: str) -> str:
    """Replace C escapes such as ``\\n``, ``\\t``, ``\\x41`` and ``\\101`` in a text."""

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

    return re.sub(_ESCAPED, character, form)


_CONVERTERS = "diouxXceEfFgGaAsvVrTY"
_STRINGS_ONLY = "S"


class Conversion(NamedTuple):
    """A parsed printf format: the text before and after its conversion, and its flags, width, precision and letter.

    Letters: the integers ``diouxXc``, the reals ``eEfFgGaA``, ``s``; and HTCondor's extensions: ``v`` the value, ``V``
    the value with strings quoted, ``r`` the unevaluated expression, ``T`` a duration, ``Y`` a date (manual: condor_q,
    -format and -autoformat). A format without a conversion is printed unchanged.
    """

    before: str
    letter: str
    after: str = ""
    flags: str = ""
    width: int = 0
    precision: str | None = None

    def text_of_attribute(self, ad: ClassAd, source: str, context: Any) -> str | None:
        """Return the text for an ad's attribute or expression; None if its value's type does not match the letter."""
        if not self.letter:
            return self.before
        if self.letter == "r":
            return self.pad_text(_unevaluated_text(ad, source))
        value = evaluate(ad, source, context)
        if self.letter == "v":
            return self.pad_text(value_text(value))
        if self.letter == _STRINGS_ONLY:
            return value if isinstance(value, str) else ""
        if self.letter == "s" and not isinstance(value, str):
            return self.pad_text(_unevaluated_text(ad, source)) if source in ad else None
        text = self.convert_value(value, context)
        return None if text is None else self.before + text + self.after

    def pad_text(self, text: str) -> str:
        """Return the text that replaces the conversion, padded and truncated to its width and precision."""
        if self.precision is not None:
            text = text[: int(self.precision or 0)]
        text = text.ljust(self.width) if "-" in self.flags else text.rjust(self.width)
        return self.before + text + self.after

    def convert_value(self, value: Any, context: Any) -> str | None:
        """Convert a value of a matching type, without the surrounding text."""
        if self.letter in "sV":
            from ...domain.classad.unparse import unparse_old

            return self._replace(before="", after="").pad_text(value if self.letter == "s" else unparse_old(value))
        if not isinstance(value, int | float) or (self.letter in "diouxXcTY" and not isfinite(value)):
            return None
        if self.letter == "T":
            return duration(value).rjust(self.width)
        if self.letter == "Y":
            return short_date(value, context.timezone).rjust(self.width)
        if self.letter in "aA":
            text = float(value).hex()
            return (text.upper() if self.letter == "A" else text).rjust(self.width)
        conversion_text = "%" + self.flags.replace("'", "") + (str(self.width) if self.width else "")
        conversion_text += "" if self.precision is None else "." + self.precision
        letter = {"i": "d", "u": "d"}.get(self.letter, self.letter)
        if letter in "doxXc":
            value = int(value)
        if letter in "oxX" and value < 0:
            value += 1 << 64
        if letter == "c":
            value %= 256
        return str((conversion_text + letter) % value)


@cache
def conversion(form: str) -> Conversion:
    """Parse a printf format. Only its first conversion is used; a later ``%`` is literal text."""
    form = replace_escapes(form)
    if not form:
        return Conversion("", _STRINGS_ONLY)
    match = next((match for match in re.finditer(_CONVERSION, form) if match[4] is not None), None)
    if match is None or match[4] not in _CONVERTERS:
        return Conversion(form.replace("%%", "%"), "")
    flags, width, precision, letter = match.groups()
    after = form[match.end() :].replace("%%", "%")
    return Conversion(form[: match.start()].replace("%%", "%"), letter, after, flags, int(width or 0), precision)


def _unevaluated_text(ad: ClassAd, source: str) -> str:
    from ...domain.classad import parse
    from ...domain.classad.tree import Attribute
    from ...domain.classad.unparse import unparse_old

    if source in ad:
        return unparse_old(ad[source])
    expression = parse(source)
    return "undefined" if isinstance(expression, Attribute) else unparse_old(expression)
