"""The verbs after ``at TIME``. A row of ``verbs.txt`` determines how each is parsed, checked and documented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...domain.classad import ClassAdSyntaxError, parse
from ...domain.package_data import get_data
from ...domain.suggestions import did_you_mean
from ..narration.sentence_tables import tables
from .scenario_times import length


class Verb(NamedTuple):
    """A verb. ``thing`` is its object: slot, machine, job, user, several (``job or slot``) or none; an object in
    brackets may be omitted if there is one machine. ``flags`` and ``options`` (from ``OPTIONS``) may follow, and also
    attributes of the job's ad if ``attributes`` is set, or submit commands if ``commands`` is set."""

    thing: str
    description: str
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    attributes: bool = False
    commands: bool = False


def _check_text(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _check_whole(word: str) -> str:
    if not (word.isascii() and word.removeprefix("-").isdigit() and len(word) < 12):
        raise ValueError(f"{word!r} is not a whole number")
    return word


def _check_count(word: str) -> str:
    if not (word.isascii() and word.isdigit() and len(word) < 8 and 0 < int(word) <= 1_000_000):
        raise ValueError(f"{word!r} is not a number from 1 to 1,000,000")
    return word


def amount(word: str) -> int:
    """Parse an amount of a machine's resource. Raise ValueError if it is not a whole number from 1."""
    if not (word.isascii() and word.isdigit() and len(word) < 13 and int(word)):
        raise ValueError(f"{word!r} is not an amount: use a whole number from 1")
    return int(word)


def _check_number(word: str) -> str:
    if not word.isascii() or not word.replace(".", "", 1).isdigit() or len(word) > 12:
        raise ValueError(f"{word!r} is not a number: write 0.5 or 2")
    return word


def _check_time(word: str) -> str:
    length(word)
    return word


def _check_soft(word: str) -> str:
    if word not in ("ends", "ignores"):
        if not word.startswith("ends-after:"):
            hint = did_you_mean(word, ("ends", "ignores", "ends-after"), "write", most=1)
            raise ValueError(f"{word!r} is not a reaction; {hint} ends, ignores, or `ends-after 10`")
        length(word.removeprefix("ends-after:"))
    return word


def expression(word: str) -> str:
    """Check and return an expression, written as one word or in brackets. Raise ValueError if it is invalid."""
    try:
        parse(word)
    except ClassAdSyntaxError as error:
        raise ValueError(f"{word!r} is not an expression: {error}") from None
    return word


class VerbOption(NamedTuple):
    read: Callable[[str], str]
    default: str
    description: str


_READERS: Final = {
    read.__name__.removeprefix("_check_"): read
    for read in (_check_text, _check_whole, _check_count, _check_number, _check_time, _check_soft, expression)
}
_OF_JOBS: Final = ("run", "on-soft", "code", "signal", "load")  #: the options for a job's processes


def _table_columns(table: str) -> Iterator[tuple[str, list[str]]]:
    rows = tables(get_data(__package__, "verbs.txt"))[table]
    return ((name, [column.strip() for column in row.split("|")]) for name, row in rows.items())


def _verb(subject: str, flags: str, options: str, takes: str, text: str) -> Verb:
    options = options.replace("JOB", " ".join(_OF_JOBS))
    return Verb(subject, text, tuple(flags.split()), tuple(options.split()), "attributes" in takes, "commands" in takes)


VERBS: Final = {name: _verb(*row) for name, row in _table_columns("verbs")}
OPTIONS: Final = {name: VerbOption(_READERS[read], *row) for name, (read, *row) in _table_columns("options")}
JOIN = {"by": "by=", "from": "from=", "on-soft=ends-after": "on-soft=ends-after:"}
"""Words that are joined with the word after them."""
