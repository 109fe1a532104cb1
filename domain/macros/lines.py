"""Cut a text into logical lines: trimmed, without comments, continuations joined.

Source: the manual's pages "Submit Description File Commands" and "Introduction to Configuration"; HTCondor's reader
where these are silent: a comment never continues, and one amid a continued line is left out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .macro_errors import MacroError

_BLANKS = " \t\r\n\v\f"


class Lines:
    """The lines of one text; ``name`` is its file's, empty for the description itself.

    :raises MacroError: where a line holds a NUL, which no ad, path or command line can carry
    """

    def __init__(self, text: str, name: str = "") -> None:
        self.name = name
        self.number = 0
        self._lines = text.split("\n")
        if "\0" in text:
            number = text.count("\n", 0, text.index("\0")) + 1
            raise MacroError(f"{name or 'the description'} holds a NUL character; it must be plain text", number)

    def physical(self) -> str | None:
        """Return the next line as it stands, blanks trimmed; None at the end."""
        if self.number == len(self._lines):
            return None
        self.number += 1
        return self._lines[self.number - 1].strip(_BLANKS)

    def logical(self) -> tuple[int, str] | None:
        """Return the next line that is neither blank nor a comment, with the number of its first physical line."""
        while (line := self.physical()) is not None:
            if line and not line.startswith("#"):
                return self.number, self._continued(line)
        return None

    def _continued(self, line: str) -> str:
        parts = [line]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            following = self.physical()
            if following is None:
                break
            if following.startswith("#"):
                following = "\\" if following.endswith("\\") else ""
            parts.append(following)
        return "".join(parts)


# Find the text of ``include : FILE``, ``include : PROGRAM |`` and ``include command into FILE : PROGRAM``.
#
# Source: the manual's page "Introduction to Configuration"; HTCondor's ``config.cpp`` for the order of the words, and
# for what a configuration and a submit description have in common.


class IncludedFiles(Protocol):
    """The view of the disk, and of what commands print, that an include needs."""

    def read(self, path: str) -> str:
        """Return a file's text; raise OSError where it cannot be read."""

    def run(self, command: str) -> str:
        """Return what a command prints; raise OSError where it cannot be run, or fails."""

    def write(self, path: str, text: str) -> None:
        """Keep a text, for ``include command into PATH``; raise OSError where it cannot be written."""


def included(files: IncludedFiles, between: str, name: str, expand: Callable[[str], str]) -> tuple[str, str] | None:
    """Return the name and the text of what is included; None where it is missing, and may be (``ifexist``).

    :param between: the words between ``include`` and the colon
    :param expand: replaces the macros in the name of the file that keeps a command's output
    :raises MacroError: where it cannot be read or run, or the words are no options of include
    """
    optional, command, into = _options(between)
    if command and "|" not in name:
        name += " |"
    if "|" in name and not name.endswith("|"):
        raise MacroError(f"include : {name}: a command has its | at the end, and no other")
    try:
        if into:
            return _kept(files, expand(into), name)
        return name, files.run(name.rstrip("| ")) if name.endswith("|") else files.read(name)
    except (OSError, ValueError) as problem:
        if optional:
            return None
        problem_text = getattr(problem, "strerror", None) or str(problem)
        raise MacroError(f"include : {name}: {problem_text}; 'include ifexist' does without it") from None


def _kept(files: IncludedFiles, into: str, name: str) -> tuple[str, str]:
    """Return the name and text of an earlier run's output; without one, run the command and keep its output."""
    if not into or into.endswith("|"):
        raise MacroError(f"include command into {into} : {name}: 'into' wants the name of a file")
    try:
        return into, files.read(into)
    except OSError:
        text = files.run(name.rstrip("| "))
        files.write(into, text)
        return name, text


def _options(between: str) -> tuple[bool, bool, str]:
    """Return the options behind ``include``: the file may be missing, it is a command, which file keeps its output."""
    options = between.split()
    optional = options[:1] in (["ifexist"], ["ifexists"])
    rest = options[1:] if optional else options
    command = rest[:1] in (["command"], ["output"])
    rest = rest[1:] if command else rest
    into = ""
    if command and rest[:1] == ["into"]:
        if len(rest) < 2:
            raise MacroError(f"include {between} : wants a file's name after 'into'")
        into, rest = rest[1], rest[2:]
    if rest and not command:
        expected = "'ifexist', 'command', and 'into FILE' behind 'command'"
        raise MacroError(f"include {between} : '{rest[0]}' is no word for include; there are {expected}")
    return optional, command, into
