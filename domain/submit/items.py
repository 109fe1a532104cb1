"""List the items of a queue statement: in brackets, of a file, of a program, of standard input, or of paths that match.

Source: the manual's page "Submit Description File Commands" (queue, and submit_warn_empty_matches and its neighbours);
HTCondor 25.14 where it is silent. A blank line in a list is not an item here, where HTCondor repeats the item before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..macros.lines import Lines
from ..macros.macros import VALID_NAME
from .submit_context import SubmitError, SubmitFiles

# Cut items into the values of the queue statement's variables, by ``queue from table (options)`` or as lines.
#
# Source: HTCondor 25.14's ``SubmitTableOpts`` and ``SubmitForeachArgs`` (``submit_utils.cpp``). The row of headings
# (``header``, from 0) is taken out, then ``header - 1 + skip`` rows before the others; this counts only behind a
# heading that is not the first row. Unlike there, an option that there is none of and headings that are no names are
# refused.

_COLUMN = re.compile(r"[, \t][ \t]*")
_SEPARATED = re.compile(r"[ \t]*\x1f[ \t]*")
_WORDS = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


class ItemTable(Struct, frozen=True):
    """How the rows of ``from table`` are cut."""

    header: int | None = 0  #: the row of headings, which name the variables; None: there is none
    skip: int = 0  #: further rows to leave out
    trim: bool = True  #: whether blanks around a value are left out
    separator: str = ","  #: empty: the whole row is one value


def table_of(options: str, line: int | None) -> ItemTable:
    """Return the table that the words in the brackets behind ``table`` describe."""
    table = ItemTable()
    for option in filter(None, (part.strip() for part in options.split(","))):
        name, equals, text = (part.strip() for part in option.partition("="))
        key = name.lower()
        number = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
        truth = _WORDS.get(text.lower())
        if not equals and key in ("csv", "standard"):
            table = ItemTable(header=None)
        elif key == "header" and (number is not None or text.lower() == "none"):
            table = replace(table, header=number)
        elif key == "skip" and number is not None:
            table = replace(table, skip=number)
        elif key == "trim" and truth is not None:
            table = replace(table, trim=truth)
        elif key == "comma_sep" and truth is not None:
            table = replace(table, separator="," if truth else "")
        elif key == "sep" and text:
            table = replace(table, separator=text[0])
        else:
            known = "header=N, header=none, skip=N, trim=true, comma_sep=true, sep=C and csv"
            raise SubmitError(f"'{option}' is no option of a table; there are {known}", line)
    return table


def split_header(table: ItemTable, items: list[str], line: int | None) -> tuple[list[str] | None, list[str]]:
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


def columns(items: list[str], count: int, table: ItemTable | None) -> tuple[Sequence[str], ...]:
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


def _cut(row: str, table: ItemTable, most: int) -> list[str]:
    """Cut a row at its first ``most`` separators; at all of them if that is 0."""
    cells = row.split(table.separator, most or -1) if table.separator else [row]
    return [cell.strip(" \t") for cell in cells] if table.trim else cells


BETWEEN = re.compile(r"[, \t\r\n]+")


class Matching(Struct, frozen=True):
    """What ``queue matching`` makes of patterns that match nothing, of paths that match twice, and of directories."""

    warn_empty: bool = True
    fail_empty: bool = False
    warn_duplicates: bool = True
    allow_duplicates: bool = False
    directories: bool | None = None  #: True: only directories; False: no directories; None: both


class ItemSources(Struct, frozen=True):
    """Where a queue statement finds its items."""

    files: SubmitFiles
    warn: Callable[[str], None]
    lines: Lines | None = None  #: where the lines of a list in brackets follow; None where none can
    is_input: bool = False  #: those lines are standard input
    matching: Callable[[], Matching] = Matching  #: called for ``queue matching``: without it these commands are unused


def listed(how: str, text: str, line: int | None, sources: ItemSources) -> list[str]:
    """Return the items as written, before any pattern is matched.

    :param how: in, from or matching; for ``from`` each item is a line
    :param text: the text after it, without qualifiers
    """
    if text.startswith("("):
        if text.endswith(")") and how == "from":
            return [text[1:-1].strip(" \t\r")]  # one item, be it empty
        if text.endswith(")"):
            lines = [text[1:-1]]
        elif sources.lines is None:
            raise SubmitError("this list has no closing bracket; write ( ) in one line here", line)
        else:
            lines = [text[1:], *_bracketed(sources.lines, line)]
    elif how == "from":
        lines = _text_of(text, line, sources).split("\n")
    else:
        lines = [text]
    if how == "from":
        return [item.strip(" \t\r") for item in lines if item.strip()]
    return [item for one in lines for item in BETWEEN.split(one) if item]


def _bracketed(lines: Lines, line: int | None) -> list[str]:
    items: list[str] = []
    while (text := lines.physical()) is not None:
        if text.startswith(")"):
            return items
        if not text.startswith("#"):
            items.append(text)
    raise SubmitError("the list of this queue statement has no closing bracket on a line of its own", line)


def _text_of(name: str, line: int | None, sources: ItemSources) -> str:
    """Return the text of a file, of what a program prints (``PROGRAM |``), or of standard input (``-``)."""
    if not name:
        raise SubmitError("'queue from' needs the name of a file, or items in brackets", line)
    try:
        if name.endswith("|"):
            text = sources.files.run(name.rstrip("| "))
        elif name != "-":
            text = sources.files.read(name)
        elif sources.is_input and sources.lines is not None:
            text = "\n".join(iter(sources.lines.physical, None))
        else:
            text = sources.files.standard_input()
    except (OSError, ValueError) as problem:
        raise SubmitError(f"the items of 'queue from {name}' cannot be read: {problem}", line) from None
    if "\0" in text:
        raise SubmitError(f"{name} holds a NUL character; a list of items must be plain text", line)
    return re.sub(r"\\\n[ \t]*", "", text) if "\\\n" in text else text


def matching(patterns: list[str], which: bool | None, sources: ItemSources, line: int | None) -> list[str]:
    """Return the paths that match, each once unless duplicates are allowed."""
    rules = sources.matching()
    matches = [(pattern, _matches(pattern, which, sources.files, line)) for pattern in patterns]
    nothing = [pattern for pattern, paths in matches if not paths]
    if nothing and rules.fail_empty:
        raise SubmitError(f"no matches for pattern(s): {', '.join(nothing)}; submit_fail_empty_matches is true", line)
    found: list[str] = []
    places: dict[str, int] = {}
    for pattern, paths in matches:
        if not paths and rules.warn_empty:
            sources.warn(f"'{pattern}' does not match any files")
        for path in paths:
            if path not in places or rules.allow_duplicates:
                places.setdefault(path, len(found))
                found.append(path)
            elif rules.warn_duplicates:
                sources.warn(f"'{path}' matching pattern '{pattern}' is a duplicate of item {places[path]}, skipping")
    return found


def _matches(pattern: str, which: bool | None, files: SubmitFiles, line: int | None) -> list[str]:
    try:
        return files.glob(pattern, which)
    except (OSError, ValueError) as problem:
        raise SubmitError(f"the pattern {pattern} cannot be matched: {problem}", line) from None
