"""Read the queue statement: how many jobs, and the values of its variables for each.

Source: the manual's pages "Submit Description File Commands" (queue) and "Submitting a Job"; HTCondor 25.14 where these
are silent, so ``queue 0`` gives one job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ..macros.functions import whole_number
from ..macros.macro_templates import closing
from ..macros.macros import VALID_NAME
from .items import BETWEEN, ItemSources, ItemTable, columns, listed, matching, split_header, table_of
from .submit_context import SubmitError

# A larger cluster is a typing error: each job that differs from the others costs additional memory.
MAX_JOBS = 5_000_000

_STATEMENT = re.compile(r"(?:queue(?=\s|$)|iter(?:a(?:te?)?)?(?=\s|$))\s*(.*)", re.IGNORECASE | re.DOTALL)
_KEYWORD = re.compile(r"(?<![^\s(])(in|from|matching)(?=[\s(])\s*", re.IGNORECASE)
_QUALIFIER = re.compile(r"(?:(files|dirs|any)(?=[\s(])\s*|(table)(?=[\s(]))", re.IGNORECASE)
_SLICE = re.compile(r"\[\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*)?)?\]\s*")
_VARIABLES_REVERSED = re.compile(r"(?:[0-9]++(?=[A-Za-z_])|[A-Za-z_.,\s])*+")

# The word after `matching`: which paths count (see Files.glob).
_MATCHES: dict[str, bool | None] = {"files": False, "dirs": True, "any": None}
_BELONGS = dict.fromkeys(_MATCHES, "'matching'") | {"table": "'from'"}


class Items(Struct, frozen=True):
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
    """Return the text after the word queue (or iterate) in a line; None if the line is not a queue statement."""
    match = _STATEMENT.fullmatch(line)
    return match[1] if match else None


def read_queue(text: str, line: int | None, sources: ItemSources) -> Items:
    """Read a queue statement.

    :param text: its arguments, macros expanded
    :raises SubmitError: for anything else than a queue statement
    """
    keyword = _KEYWORD.search(text)
    if keyword is None:
        return Items(_count(text, line), (), (), (0,))
    before, rest = text[: keyword.start()].rstrip(), text[keyword.end() :]
    length = _VARIABLES_REVERSED.match(before[::-1]).end()  # type: ignore[union-attr]
    names = [name for name in BETWEEN.split(before[len(before) - length :]) if name]
    count = _count(before[: len(before) - length], line)
    for name in names:
        if not VALID_NAME.fullmatch(name):
            raise SubmitError(f"'{name}' cannot name a variable; names have letters, digits and _ only", line)
    how = keyword[1].lower()
    qualifiers, rest = _qualifiers(how, rest, line)
    table = listed(how, rest.strip(), line, sources)
    if how == "matching":
        table = matching(table, qualifiers.which if qualifiers.named else sources.matching().directories, sources, line)
    elif qualifiers.table is not None:
        headings, table = split_header(qualifiers.table, table, line)
        names = headings or names
    names = names or ["Item"]
    indexes = range(len(table))[qualifiers.cut]
    if count * len(indexes) > MAX_JOBS:
        raise SubmitError(f"{count * len(indexes)} jobs are more than one submission may have ({MAX_JOBS})", line)
    chosen = table if qualifiers.cut == slice(None) else table[qualifiers.cut]
    return Items(count, tuple(names), columns(chosen, len(names), qualifiers.table), indexes)


def _count(text: str, line: int | None) -> int:
    if not text.strip():
        return 1
    count = whole_number(text)
    if count is None or not 0 <= count <= MAX_JOBS:
        way_out = f"'queue N', with N from 0 to {MAX_JOBS}, or 'queue [N] [variables] in|from|matching items'"
        raise SubmitError(f"'queue {text.strip()}': the count is no such number; write {way_out}", line)
    return count or 1


class _Qualifiers(Struct, frozen=True):
    """The text between ``in``, ``from`` or ``matching`` and the items."""

    which: bool | None = None  #: of the paths that match (``_MATCHES``), if that is ``named``
    named: bool = False
    table: ItemTable | None = None
    cut: slice = slice(None)


def _qualifiers(how: str, text: str, line: int | None) -> tuple[_Qualifiers, str]:
    """Return the qualifiers, and the text behind them."""
    qualified = _Qualifiers()
    while True:
        if (word := _QUALIFIER.match(text)) is not None:
            kind, text = word[0].strip().lower(), text[word.end() :]
            if how == "from" and kind == "table":
                options, text = _bracket(text, line)
                qualified = replace(qualified, table=table_of(options, line))
            elif how == "matching" and kind in _MATCHES:
                qualified = replace(qualified, which=_MATCHES[kind], named=True)
            else:
                raise SubmitError(f"'{kind}' has no meaning after '{how}'; it belongs after {_BELONGS[kind]}", line)
        elif text.startswith("["):
            piece = _SLICE.match(text)
            if piece is None:
                raise SubmitError("a slice is written [start:end:step], each part an integer or left out", line)
            start, end, step = (int(part) if part else None for part in piece.groups())
            if step is not None and step <= 0:
                raise SubmitError("a slice's step must be positive", line)
            qualified = replace(qualified, cut=slice(start, end, step))
            text = text[piece.end() :]
        else:
            return qualified, text


def _bracket(text: str, line: int | None) -> tuple[str, str]:
    """Return what is in the bracket right behind ``table``, if there is one, and the text behind that. With a blank
    before it, the bracket is the list of items."""
    if not text.startswith("("):
        return "", text.lstrip()
    end = closing(text, 0)
    if end is None:
        raise SubmitError("the bracket after 'table' has no end; write table(header=none)", line)
    return text[1:end], text[end + 1 :].lstrip()
