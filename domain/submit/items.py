"""List the items of a queue statement: in brackets, of a file, of a program, of standard input, or of paths that match.

Source: the manual's page "Submit Description File Commands" (queue, and submit_warn_empty_matches and its neighbours);
HTCondor 25.14 where it is silent. A blank line in a list is no item here, where HTCondor repeats the item before.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..late_attrs import frozen
from ..macros.lines import Lines
from .submit_context import Files, SubmitError

BETWEEN = re.compile(r"[, \t\r\n]+")


@frozen
class Matching:
    """What ``queue matching`` makes of patterns that match nothing, of paths that match twice, and of directories."""

    warn_empty: bool = True
    fail_empty: bool = False
    warn_duplicates: bool = True
    allow_duplicates: bool = False
    directories: bool | None = None  #: True: only directories; False: no directories; None: both


@frozen
class Sources:
    """Where a queue statement finds its items."""

    files: Files
    warn: Callable[[str], None]
    lines: Lines | None = None  #: where the lines of a list in brackets follow; None where none can
    is_input: bool = False  #: those lines are standard input
    matching: Callable[[], Matching] = Matching  #: called for ``queue matching``: without it these commands are unused


def listed(how: str, text: str, line: int | None, sources: Sources) -> list[str]:
    """Return the items as written, before any pattern is matched.

    :param how: in, from or matching; for ``from`` each item is a line
    :param text: what stands behind it, qualifiers left out
    """
    if text.startswith("("):
        if text.endswith(")") and how == "from":
            return [text[1:-1].strip(" \t\r")]  # one item, be it empty
        if text.endswith(")"):
            found = [text[1:-1]]
        elif sources.lines is None:
            raise SubmitError("this list has no closing bracket; write ( ) in one line here", line)
        else:
            found = [text[1:], *_bracketed(sources.lines, line)]
    elif how == "from":
        found = _text_of(text, line, sources).split("\n")
    else:
        found = [text]
    if how == "from":
        return [item.strip(" \t\r") for item in found if item.strip()]
    return [item for one in found for item in BETWEEN.split(one) if item]


def _bracketed(lines: Lines, line: int | None) -> list[str]:
    found: list[str] = []
    while (text := lines.physical()) is not None:
        if text.startswith(")"):
            return found
        if not text.startswith("#"):
            found.append(text)
    raise SubmitError("the list of this queue statement has no closing bracket on a line of its own", line)


def _text_of(name: str, line: int | None, sources: Sources) -> str:
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


def matching(patterns: list[str], which: bool | None, sources: Sources, line: int | None) -> list[str]:
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


def _matches(pattern: str, which: bool | None, files: Files, line: int | None) -> list[str]:
    try:
        return files.glob(pattern, which)
    except (OSError, ValueError) as problem:
        raise SubmitError(f"the pattern {pattern} cannot be matched: {problem}", line) from None
