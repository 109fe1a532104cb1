"""Read the queue statement: how many jobs, and the values of its variables for each.

Source: the manual's pages "Submit Description File Commands" (queue) and "Submitting a Job"; HTCondor 25.14 where these
are silent, so ``queue 0`` gives one job. A blank line in a list is no item here, where HTCondor repeats the item
before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain

from ..late_attrs import frozen
from ..macros.functions import whole_number
from ..macros.lines import Lines
from ..macros.macros import VALID_NAME
from .submit_context import Files, SubmitError

# A larger cluster is a typing error: each job that differs from the others costs memory of its own.
MAX_JOBS = 5_000_000

_STATEMENT = re.compile(r"(?:queue(?=\s|$)|iter(?:a(?:te?)?)?(?=\s|$))\s*(.*)", re.IGNORECASE | re.DOTALL)
_KEYWORD = re.compile(r"(?<![^\s(])(in|from|matching)(?=[\s(])\s*", re.IGNORECASE)
_QUALIFIER = re.compile(r"(files|dirs|any|table)(?=[\s(])\s*", re.IGNORECASE)
_SLICE = re.compile(r"\[\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*)?)?\]\s*")
_VARIABLES_REVERSED = re.compile(r"(?:[0-9]++(?=[A-Za-z_])|[A-Za-z_.,\s])*+")
_BETWEEN = re.compile(r"[, \t\r\n]+")
_COLUMN = re.compile(r"[, \t][ \t]*")
_SEPARATED = re.compile(r"[ \t]*\x1f[ \t]*")

# The word after `matching`: which paths count (see Files.glob).
_MATCHES: dict[str, bool | None] = {"files": False, "dirs": True, "any": None}


@frozen
class Items:
    """The jobs and items of a queue statement."""

    count: int  #: jobs for each item
    variables: tuple[str, ...]  #: their names as written
    rows: tuple[Sequence[str], ...]  #: for each variable, its value for each item
    indexes: Sequence[int]  #: the place of each item in the whole list

    @property
    def jobs(self) -> int:
        return self.count * len(self.indexes)

    def column(self, variable: int) -> Sequence[str]:
        """Return a variable's value for each job."""
        return self.spread(self.rows[variable])

    def spread(self, values: Sequence[str]) -> Sequence[str]:
        """Repeat one value per item for each of the item's jobs."""
        if self.count == 1:
            return values
        return list(chain.from_iterable([value] * self.count for value in values))


def arguments_of(line: str) -> str | None:
    """Return the text after the word queue (or iterate) in a line; None where the line is no queue statement."""
    found = _STATEMENT.fullmatch(line)
    return found[1] if found else None


def read_queue(text: str, line: int | None, lines: Lines | None, files: Files, warn: Callable[[str], None]) -> Items:
    """Read a queue statement.

    :param text: its arguments, macros expanded
    :param lines: where the lines of a list in brackets follow; None where none can
    :raises SubmitError: for anything else than a queue statement
    """
    keyword = _KEYWORD.search(text)
    if keyword is None:
        return Items(_count(text, line), (), (), (0,))
    before, rest = text[: keyword.start()].rstrip(), text[keyword.end() :]
    length = _VARIABLES_REVERSED.match(before[::-1]).end()  # type: ignore[union-attr]
    names = [name for name in _BETWEEN.split(before[len(before) - length :]) if name] or ["Item"]
    count = _count(before[: len(before) - length], line)
    for name in names:
        if not VALID_NAME.fullmatch(name):
            raise SubmitError(f"'{name}' cannot name a variable; names have letters, digits and _ only", line)
    how = keyword[1].lower()
    which, cut, rest = _qualifiers(how, rest, line)
    listed = _listed(how, rest.strip(), line, lines, files)
    if how == "matching":
        listed = _matching(listed, which, files, warn, line)
    indexes = range(len(listed))[cut]
    if count * len(indexes) > MAX_JOBS:
        raise SubmitError(f"{count * len(indexes)} jobs are more than one submission may have ({MAX_JOBS})", line)
    chosen = listed if cut == slice(None) else listed[cut]
    return Items(count, tuple(names), _columns(chosen, len(names)), indexes)


def _count(text: str, line: int | None) -> int:
    if not text.strip():
        return 1
    count = whole_number(text)
    if count is None or not 0 <= count <= MAX_JOBS:
        way_out = f"'queue N', with N from 0 to {MAX_JOBS}, or 'queue [N] [variables] in|from|matching items'"
        raise SubmitError(f"'queue {text.strip()}': the count is no such number; write {way_out}", line)
    return count or 1


def _qualifiers(how: str, text: str, line: int | None) -> tuple[bool | None, slice, str]:
    which: bool | None = None
    cut = slice(None)
    while True:
        if (word := _QUALIFIER.match(text)) is not None:
            if how == "from" and word[1].lower() == "table":
                raise SubmitError("'queue from table' is not supported yet; write 'queue a, b from FILE'", line)
            if how != "matching" or word[1].lower() not in _MATCHES:
                raise SubmitError(f"'{word[1]}' has no meaning after '{how}'; it belongs after 'matching'", line)
            which = _MATCHES[word[1].lower()]
            text = text[word.end() :]
        elif text.startswith("["):
            found = _SLICE.match(text)
            if found is None:
                raise SubmitError("a slice is written [start:end:step], each part an integer or left out", line)
            start, end, step = (int(part) if part else None for part in found.groups())
            if step is not None and step <= 0:
                raise SubmitError("a slice's step must be positive", line)
            cut = slice(start, end, step)
            text = text[found.end() :]
        else:
            return which, cut, text


def _listed(how: str, text: str, line: int | None, lines: Lines | None, files: Files) -> list[str]:
    """Return the items of the list as written; for `from` each is a line."""
    if text.startswith("("):
        if text.endswith(")"):
            found = [text[1:-1]]
        elif lines is None:
            raise SubmitError("this list has no closing bracket; write ( ) in one line here", line)
        else:
            found = [text[1:], *_bracketed(lines, line)]
    elif how != "from":
        found = [text]
    elif not text:
        raise SubmitError("'queue from' needs the name of a file, or items in brackets", line)
    elif text.endswith("|"):
        raise SubmitError(f"'from {text}' runs a program; run it yourself and queue from a file of its output", line)
    else:
        return _file_items(text, line, files)
    if how == "from":
        return [item.strip(" \t") for item in found if item.strip()]
    return [item for one in found for item in _BETWEEN.split(one) if item]


def _bracketed(lines: Lines, line: int | None) -> list[str]:
    found: list[str] = []
    while (text := lines.physical()) is not None:
        if text.startswith(")"):
            return found
        if not text.startswith("#"):
            found.append(text)
    raise SubmitError("the list of this queue statement has no closing bracket on a line of its own", line)


def _file_items(name: str, line: int | None, files: Files) -> list[str]:
    if name == "-":
        raise SubmitError("'queue from -' reads the terminal; queue from a file, or from items in brackets", line)
    try:
        text = files.read(name)
    except (OSError, ValueError) as problem:
        raise SubmitError(f"the items of 'queue from {name}' cannot be read: {problem}", line) from None
    if "\0" in text:
        raise SubmitError(f"{name} holds a NUL character; a list of items must be plain text", line)
    if "\\\n" in text:
        text = re.sub(r"\\\n[ \t]*", "", text)
    return [item for item in map(str.strip, text.split("\n")) if item]


def _matching(
    patterns: list[str], which: bool | None, files: Files, warn: Callable[[str], None], line: int | None
) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        try:
            paths = files.glob(pattern, which)
        except (OSError, ValueError) as problem:
            raise SubmitError(f"the pattern {pattern} cannot be matched: {problem}", line) from None
        if not paths:
            warn(f"'{pattern}' does not match any files")
        found.update(dict.fromkeys(paths))
    return list(found)


def _columns(items: list[str], count: int) -> tuple[Sequence[str], ...]:
    """Cut items into their columns: at a comma or blank, the last column being the rest."""
    if count == 1:
        return (items,)
    split, last = _COLUMN.split, count - 1
    if not items:
        return ([],) * count
    rows = [(_SEPARATED.split(item, last) if "\x1f" in item else split(item, last)) for item in items]
    if set(map(len, rows)) != {count}:
        rows = [row + [""] * (count - len(row)) for row in rows]
    return tuple(zip(*rows, strict=True))
