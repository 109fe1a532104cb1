"""List the items of a queue statement: from brackets, a file, a program, standard input, or matching paths.

Source: the manual's page "Submit Description File Commands" (queue, submit_warn_empty_matches ...), and HTCondor 25.14.
For a blank line in a list, HTCondor repeats the previous item; Poolbook ignores the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..macros.lines import Lines
from ..macros.macros import VALID_NAME
from .submit_context import SubmitError, SubmitFiles

# Split items into the values of the queue statement's variables, by ``queue from table (options)`` or as lines.
#
# Source: HTCondor 25.14's ``SubmitTableOpts`` and ``SubmitForeachArgs`` (``submit_utils.cpp``). The row of headings
# (``header``, from 0) is removed; if it is not the first row, ``header - 1 + skip`` other rows are also skipped.
# Unlike HTCondor, Poolbook rejects unknown options, and headings that are not valid names.

_COLUMN = re.compile(r"[, \t][ \t]*")
_UNIT_SEPARATOR = re.compile(r"[ \t]*\x1f[ \t]*")
_BOOLEANS = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


class ItemTable(Struct, frozen=True):
    """The options that say how ``queue from table`` splits its rows."""

    header: int | None = 0  #: the number of the row with the names of the variables, or None if there is no such row
    skip: int = 0  #: further rows to skip
    trim: bool = True  #: whether to strip blanks around values
    separator: str = ","  #: if empty, each row is one value


def parse_table(options: str, line: int | None) -> ItemTable:
    """Parse the options in the brackets after ``table``."""
    table = ItemTable()
    for option in filter(None, (part.strip() for part in options.split(","))):
        name, equals, text = (part.strip() for part in option.partition("="))
        key = name.lower()
        number = int(text) if re.fullmatch("[0-9]{1,9}", text) else None
        boolean = _BOOLEANS.get(text.lower())
        if not equals and key in ("csv", "standard"):
            table = ItemTable(header=None)
        elif key == "header" and (number is not None or text.lower() == "none"):
            table = replace(table, header=number)
        elif key == "skip" and number is not None:
            table = replace(table, skip=number)
        elif key == "trim" and boolean is not None:
            table = replace(table, trim=boolean)
        elif key == "comma_sep" and boolean is not None:
            table = replace(table, separator="," if boolean else "")
        elif key == "sep" and text:
            table = replace(table, separator=text[0])
        else:
            options_help = "header=N, header=none, skip=N, trim=true, comma_sep=true, sep=C and csv"
            raise SubmitError(f"'{option}' is not a valid table option; use {options_help}", line)
    return table


def split_header(table: ItemTable, items: list[str], line: int | None) -> tuple[list[str] | None, list[str]]:
    """Return the headings of a table (None if it has none) and its other rows."""
    if table.header is None:
        return None, items
    if table.header >= len(items):
        raise SubmitError(f"there is no heading row {table.header}; the table has {len(items)} rows", line)
    names = _split_row(items[table.header], table, 0)
    invalid_names = [name for name in names if not VALID_NAME.fullmatch(name)]
    if invalid_names:
        raise SubmitError(f"invalid column names: {', '.join(map(repr, invalid_names))}", line)
    other_rows = items[: table.header] + items[table.header + 1 :]
    return names, other_rows[table.header - 1 + table.skip :] if table.header else other_rows


def split_columns(items: list[str], count: int, table: ItemTable | None) -> tuple[Sequence[str], ...]:
    """Split items into ``count`` columns at commas and blanks, or by the table's options; the last has the rest."""
    if count == 1:
        return (items,)
    if not items:
        return ([],) * count
    last = count - 1
    if table is not None:
        rows = [_split_row(item, table, last) for item in items]
    else:
        split = _COLUMN.split
        rows = [(_UNIT_SEPARATOR.split(item, last) if "\x1f" in item else split(item, last)) for item in items]
    if set(map(len, rows)) != {count}:
        rows = [row + [""] * (count - len(row)) for row in rows]
    return tuple(zip(*rows, strict=True))


def _split_row(row: str, table: ItemTable, splits: int) -> list[str]:
    cells = row.split(table.separator, splits or -1) if table.separator else [row]
    return [cell.strip(" \t") for cell in cells] if table.trim else cells


SEPARATORS = re.compile(r"[, \t\r\n]+")


class MatchingOptions(Struct, frozen=True):
    """How ``queue matching`` treats patterns without a match, duplicate paths, and directories."""

    warn_empty: bool = True
    fail_empty: bool = False
    warn_duplicates: bool = True
    allow_duplicates: bool = False
    directories: bool | None = None  #: True: only directories; False: only files; None: both


class ItemSources(Struct, frozen=True):
    """The sources of a queue statement's items."""

    files: SubmitFiles
    warn: Callable[[str], None]
    lines: Lines | None = None  #: the lines after the statement, for a list in brackets, or None if no lines can follow
    is_input: bool = False  #: whether these lines come from standard input
    matching: Callable[[], MatchingOptions] = MatchingOptions  #: called only for ``queue matching``


def list_items(keyword: str, text: str, line: int | None, sources: ItemSources) -> list[str]:
    """Return the items, before patterns are matched.

    :param keyword: in, from or matching; for ``from`` each item is a line
    :param text: the text after the keyword, without qualifiers
    """
    if text.startswith("("):
        if text.endswith(")") and keyword == "from":
            return [text[1:-1].strip(" \t\r")]  # a single item, even if it is empty
        if text.endswith(")"):
            lines = [text[1:-1]]
        elif sources.lines is None:
            raise SubmitError("this list has no closing bracket; write ( ) in one line", line)
        else:
            lines = [text[1:], *_read_bracketed(sources.lines, line)]
    elif keyword == "from":
        lines = _read_text(text, line, sources).split("\n")
    else:
        lines = [text]
    if keyword == "from":
        return [item.strip(" \t\r") for item in lines if item.strip()]
    return [item for line_of_items in lines for item in SEPARATORS.split(line_of_items) if item]


def _read_bracketed(lines: Lines, line: int | None) -> list[str]:
    items: list[str] = []
    while (text := lines.next_physical()) is not None:
        if text.startswith(")"):
            return items
        if not text.startswith("#"):
            items.append(text)
    raise SubmitError("the list of this queue statement has no closing bracket on a separate line", line)


def _read_text(name: str, line: int | None, sources: ItemSources) -> str:
    if not name:
        raise SubmitError("'queue from' needs the name of a file, or items in brackets", line)
    try:
        if name.endswith("|"):
            text = sources.files.run(name.rstrip("| "))
        elif name != "-":
            text = sources.files.read(name)
        elif sources.is_input and sources.lines is not None:
            text = "\n".join(iter(sources.lines.next_physical, None))
        else:
            text = sources.files.standard_input()
    except (OSError, ValueError) as error:
        raise SubmitError(f"the items of 'queue from {name}' cannot be read: {error}", line) from None
    if "\0" in text:
        raise SubmitError(f"{name} contains a NUL character; a list of items must be plain text", line)
    return re.sub(r"\\\n[ \t]*", "", text) if "\\\n" in text else text


def matching_paths(patterns: list[str], path_kind: bool | None, sources: ItemSources, line: int | None) -> list[str]:
    """Return the paths that match, without duplicates unless the options allow them."""
    rules = sources.matching()
    matches: list[tuple[str, list[str]]] = []
    for pattern in patterns:
        try:
            matches.append((pattern, sources.files.glob(pattern, path_kind)))
        except (OSError, ValueError) as error:
            raise SubmitError(f"the pattern {pattern} cannot be matched: {error}", line) from None
    unmatched = [pattern for pattern, paths in matches if not paths]
    if unmatched and rules.fail_empty:
        raise SubmitError(f"no matches for pattern(s): {', '.join(unmatched)}; submit_fail_empty_matches is true", line)
    paths_found: list[str] = []
    index_of: dict[str, int] = {}
    for pattern, paths in matches:
        if not paths and rules.warn_empty:
            sources.warn(f"'{pattern}' does not match any files")
        for path in paths:
            if path not in index_of or rules.allow_duplicates:
                index_of.setdefault(path, len(paths_found))
                paths_found.append(path)
            elif rules.warn_duplicates:
                sources.warn(f"'{path}' matching pattern '{pattern}' is a duplicate of item {index_of[path]}, skipping")
    return paths_found
