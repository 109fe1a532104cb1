"""Cut items into the values of the queue statement's variables, by ``queue from table (options)`` or as lines.

Source: HTCondor 25.14's ``SubmitTableOpts`` and ``SubmitForeachArgs`` (``submit_utils.cpp``). The row of headings
(``header``, from 0) is taken out, then ``header - 1 + skip`` rows before the others; this counts only behind a heading
that is not the first row. Unlike there, an option that there is none of and headings that are no names are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from ..late_attrs import frozen
from ..macros.macros import VALID_NAME
from .submit_context import SubmitError

_COLUMN = re.compile(r"[, \t][ \t]*")
_SEPARATED = re.compile(r"[ \t]*\x1f[ \t]*")
_WORDS = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


@frozen
class Table:
    """How the rows of ``from table`` are cut."""

    header: int | None = 0  #: the row of headings, which name the variables; None: there is none
    skip: int = 0  #: further rows to leave out
    trim: bool = True  #: whether blanks around a value are left out
    separator: str = ","  #: empty: the whole row is one value


def table_of(options: str, line: int | None) -> Table:
    """Return the table that the words in the brackets behind ``table`` describe."""
    found = Table()
    for option in filter(None, (part.strip() for part in options.split(","))):
        name, equals, text = (part.strip() for part in option.partition("="))
        key = name.lower()
        number = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
        truth = _WORDS.get(text.lower())
        if not equals and key in ("csv", "standard"):
            found = Table(header=None)
        elif key == "header" and (number is not None or text.lower() == "none"):
            found = evolve(found, header=number)
        elif key == "skip" and number is not None:
            found = evolve(found, skip=number)
        elif key == "trim" and truth is not None:
            found = evolve(found, trim=truth)
        elif key == "comma_sep" and truth is not None:
            found = evolve(found, separator="," if truth else "")
        elif key == "sep" and text:
            found = evolve(found, separator=text[0])
        else:
            known = "header=N, header=none, skip=N, trim=true, comma_sep=true, sep=C and csv"
            raise SubmitError(f"'{option}' is no option of a table; there are {known}", line)
    return found


def headed(table: Table, items: list[str], line: int | None) -> tuple[list[str] | None, list[str]]:
    """Return the headings of a table, None if it has none, and its other rows."""
    if table.header is None:
        return None, items
    if table.header >= len(items):
        raise SubmitError(f"heading row {table.header} is beyond the end of the table, which has {len(items)}", line)
    names = _cut(items[table.header], table, 0)
    wrong = [name for name in names if not VALID_NAME.fullmatch(name)]
    if wrong:
        raise SubmitError(f"columns have names that are not allowed: {', '.join(map(repr, wrong))}", line)
    rest = items[: table.header] + items[table.header + 1 :]
    return names, rest[table.header - 1 + table.skip :] if table.header else rest


def columns(items: list[str], count: int, table: Table | None) -> tuple[Sequence[str], ...]:
    """Cut items into their columns, the last one being the rest: at a comma or blank, or as the table says."""
    if count == 1:
        return (items,)
    if not items:
        return ([],) * count
    last = count - 1
    if table is not None:
        rows = [_cut(item, table, last) for item in items]
    else:
        split = _COLUMN.split
        rows = [(_SEPARATED.split(item, last) if "\x1f" in item else split(item, last)) for item in items]
    if set(map(len, rows)) != {count}:
        rows = [row + [""] * (count - len(row)) for row in rows]
    return tuple(zip(*rows, strict=True))


def _cut(row: str, table: Table, most: int) -> list[str]:
    """Cut a row at its first ``most`` separators; at all of them if that is 0."""
    cells = row.split(table.separator, most or -1) if table.separator else [row]
    return [cell.strip(" \t") for cell in cells] if table.trim else cells
