"""Parse the queue statement: the number of jobs, and the values of its variables for each job.

Source: the manual's pages "Submit Description File Commands" (queue) and "Submitting a Job", and HTCondor 25.14, in
which ``queue 0`` queues one job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ..macros.functions import evaluate_integer
from ..macros.macro_templates import find_closing
from ..macros.macros import VALID_NAME
from .items import (
    SEPARATORS,
    ItemSources,
    ItemTable,
    list_items,
    matching_paths,
    parse_table,
    split_columns,
    split_header,
)
from .submit_context import SubmitError

# A larger number is probably a typing error, and each job that differs from the others takes memory.
MAX_JOBS = 5_000_000

_STATEMENT = re.compile(r"(?:queue(?=\s|$)|iter(?:a(?:te?)?)?(?=\s|$))\s*(.*)", re.IGNORECASE | re.DOTALL)
_KEYWORD = re.compile(r"(?<![^\s(])(in|from|matching)(?=[\s(])\s*", re.IGNORECASE)
_QUALIFIER = r"(?i)(?:(files|dirs|any)(?=[\s(])\s*|(table)(?=[\s(]))"
_SLICE = r"\[\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*(?::\s*([+-]?[0-9]{1,9})?\s*)?)?\]\s*"
_VARIABLES_REVERSED = r"(?:[0-9]++(?=[A-Za-z_])|[A-Za-z_.,\s])*+"

# The words after `matching` that determine which paths match (see SubmitFiles.glob).
_PATH_KINDS: dict[str, bool | None] = {"files": False, "dirs": True, "any": None}
_ALLOWED_AFTER = dict.fromkeys(_PATH_KINDS, "'matching'") | {"table": "'from'"}


class QueueItems(Struct, frozen=True):
    """The jobs and the items of a queue statement."""

    count: int  #: the number of jobs per item
    variables: tuple[str, ...]  #: the names as the user wrote them
    rows: tuple[Sequence[str], ...]  #: for each variable, its value for each item
    indexes: Sequence[int]  #: the positions of the items in the complete list

    @property
    def jobs(self) -> int:
        return self.count * len(self.indexes)

    def column(self, variable: int) -> Sequence[str]:
        """Return the values of a variable for all jobs."""
        return self.spread(self.rows[variable])

    def spread(self, values: Sequence[str]) -> Sequence[str]:
        """Return one value per job: the value of each item, repeated for the item's jobs."""
        if self.count == 1:
            return values
        return list(chain.from_iterable([value] * self.count for value in values))


def queue_arguments(line: str) -> str | None:
    """Return the text after ``queue`` (or ``iterate``) in a line, or None if the line is not a queue statement."""
    match = _STATEMENT.fullmatch(line)
    return match[1] if match else None


def parse_queue(text: str, line: int | None, sources: ItemSources) -> QueueItems:
    """Parse a queue statement.

    :param text: the statement's arguments, with macros expanded
    :raises SubmitError: if the statement is invalid
    """
    keyword = _KEYWORD.search(text)
    if keyword is None:
        return QueueItems(_parse_count(text, line), (), (), (0,))
    prefix, remaining = text[: keyword.start()].rstrip(), text[keyword.end() :]
    length = re.match(_VARIABLES_REVERSED, prefix[::-1]).end()  # type: ignore[union-attr]
    names = [name for name in SEPARATORS.split(prefix[len(prefix) - length :]) if name]
    count = _parse_count(prefix[: len(prefix) - length], line)
    for name in names:
        if not VALID_NAME.fullmatch(name):
            raise SubmitError(f"'{name}' is not a valid variable name; use only letters, digits and _", line)
    how = keyword[1].lower()
    qualifiers, remaining = _parse_qualifiers(how, remaining, line)
    table = list_items(how, remaining.strip(), line, sources)
    if how == "matching":
        kind = qualifiers.path_kind if qualifiers.has_path_kind else sources.matching().directories
        table = matching_paths(table, kind, sources, line)
    elif qualifiers.table is not None:
        headings, table = split_header(qualifiers.table, table, line)
        names = headings or names
    names = names or ["Item"]
    indexes = range(len(table))[qualifiers.selection]
    if count * len(indexes) > MAX_JOBS:
        raise SubmitError(f"{count * len(indexes)} jobs exceed the limit of {MAX_JOBS} per submission", line)
    selected = table if qualifiers.selection == slice(None) else table[qualifiers.selection]
    return QueueItems(count, tuple(names), split_columns(selected, len(names), qualifiers.table), indexes)


def _parse_count(text: str, line: int | None) -> int:
    if not text.strip():
        return 1
    count = evaluate_integer(text)
    if count is None or not 0 <= count <= MAX_JOBS:
        usage = f"'queue N', with N from 0 to {MAX_JOBS}, or 'queue [N] [variables] in|from|matching items'"
        raise SubmitError(f"'queue {text.strip()}': the count is invalid; write {usage}", line)
    return count or 1


class _Qualifiers(Struct, frozen=True):
    path_kind: bool | None = None  #: which paths match (a value of ``_PATH_KINDS``), if ``has_path_kind``
    has_path_kind: bool = False
    table: ItemTable | None = None
    selection: slice = slice(None)


def _parse_qualifiers(how: str, text: str, line: int | None) -> tuple[_Qualifiers, str]:
    qualifiers = _Qualifiers()
    while True:
        if (word := re.match(_QUALIFIER, text)) is not None:
            qualifier, text = word[0].strip().lower(), text[word.end() :]
            if how == "from" and qualifier == "table":
                options, text = _split_bracket(text, line)
                qualifiers = replace(qualifiers, table=parse_table(options, line))
            elif how == "matching" and qualifier in _PATH_KINDS:
                qualifiers = replace(qualifiers, path_kind=_PATH_KINDS[qualifier], has_path_kind=True)
            else:
                raise SubmitError(
                    f"'{qualifier}' is not allowed after '{how}'; it belongs after {_ALLOWED_AFTER[qualifier]}", line
                )
        elif text.startswith("["):
            slice_match = re.match(_SLICE, text)
            if slice_match is None:
                raise SubmitError("invalid slice; write [start:end:step], where each part is an optional integer", line)
            start, end, step = (int(part) if part else None for part in slice_match.groups())
            if step is not None and step <= 0:
                raise SubmitError("a slice's step must be positive", line)
            qualifiers = replace(qualifiers, selection=slice(start, end, step))
            text = text[slice_match.end() :]
        else:
            return qualifiers, text


def _split_bracket(text: str, line: int | None) -> tuple[str, str]:
    """Return the text in brackets directly after ``table``, and the text after them."""
    if not text.startswith("("):
        return "", text.lstrip()
    end = find_closing(text, 0)
    if end is None:
        raise SubmitError("the bracket after 'table' is not closed; write table(header=none)", line)
    return text[1:end], text[end + 1 :].lstrip()
