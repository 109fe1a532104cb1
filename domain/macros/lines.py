"""Split a text into logical lines: trimmed, without comments, and with continued lines joined.

Source: the manual's pages "Submit Description File Commands" and "Introduction to Configuration"; HTCondor's parser for
two rules: a comment cannot be continued, and a comment inside a continued line is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .macro_errors import MacroError

_BLANKS = " \t\r\n\v\f"


class Lines:
    """The lines of a text.

    :param name: the name of the text's file; empty for a submit description
    :raises MacroError: if the text contains a NUL character, which ads, paths and command lines cannot contain
    """

    def __init__(self, text: str, name: str = "") -> None:
        self.name = name
        self.number = 0
        self._lines = text.split("\n")
        if "\0" in text:
            number = text.count("\n", 0, text.index("\0")) + 1
            raise MacroError(f"{name or 'the description'} contains a NUL character; it must be plain text", number)

    def next_physical(self) -> str | None:
        """Return the next physical line, trimmed; None at the end."""
        if self.number == len(self._lines):
            return None
        self.number += 1
        return self._lines[self.number - 1].strip(_BLANKS)

    def next_logical(self) -> tuple[int, str] | None:
        """Return the next logical line and the number of its first physical line; None at the end."""
        while (line := self.next_physical()) is not None:
            if line and not line.startswith("#"):
                return self.number, self._join_continued(line)
        return None

    def _join_continued(self, line: str) -> str:
        parts = [line]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            next_line = self.next_physical()
            if next_line is None:
                break
            if next_line.startswith("#"):
                next_line = "\\" if next_line.endswith("\\") else ""
            parts.append(next_line)
        return "".join(parts)


# Find the text of ``include : FILE``, ``include : PROGRAM |`` and ``include command into FILE : PROGRAM``.
#
# Source: the manual's page "Introduction to Configuration", and HTCondor's ``config.cpp`` for the order of the options.


class IncludedFiles(Protocol):
    """The interface through which an include reads files and runs commands."""

    def read(self, path: str) -> str:
        """Return the text of a file; raise OSError if it cannot be read."""

    def run(self, command: str) -> str:
        """Return the output of a command; raise OSError if it cannot be run or fails."""

    def write(self, path: str, text: str) -> None:
        """Write a command's output, for ``include command into PATH``; raise OSError if that fails."""


def read_included(
    files: IncludedFiles, options: str, name: str, expand: Callable[[str], str]
) -> tuple[str, str] | None:
    """Return the name and text of an included file or command, or None if it is missing and optional (``ifexist``).

    :param options: the options between ``include`` and the colon
    :param expand: a function that expands macros in the name of the file that caches a command's output
    :raises MacroError: if the file cannot be read, the command cannot be run, or an option is invalid
    """
    is_optional, is_command, output_file = _parse_options(options)
    if is_command and "|" not in name:
        name += " |"
    if "|" in name and not name.endswith("|"):
        raise MacroError(f"include : {name}: write a single |, at the end of the command")
    try:
        if output_file:
            return _read_or_run(files, expand(output_file), name)
        return name, files.run(name.rstrip("| ")) if name.endswith("|") else files.read(name)
    except (OSError, ValueError) as error:
        if is_optional:
            return None
        reason = getattr(error, "strerror", None) or str(error)
        raise MacroError(f"include : {name}: {reason}; use 'include ifexist' to ignore this error") from None


def _read_or_run(files: IncludedFiles, output_file: str, name: str) -> tuple[str, str]:
    if not output_file or output_file.endswith("|"):
        raise MacroError(f"include command into {output_file} : {name}: 'into' needs the name of a file")
    try:
        return output_file, files.read(output_file)
    except OSError:
        text = files.run(name.rstrip("| "))
        files.write(output_file, text)
        return name, text


def _parse_options(options: str) -> tuple[bool, bool, str]:
    words = options.split()
    is_optional = words[:1] in (["ifexist"], ["ifexists"])
    remaining = words[1:] if is_optional else words
    is_command = remaining[:1] in (["command"], ["output"])
    remaining = remaining[1:] if is_command else remaining
    output_file = ""
    if is_command and remaining[:1] == ["into"]:
        if len(remaining) < 2:
            raise MacroError(f"include {options} : 'into' needs the name of a file")
        output_file, remaining = remaining[1], remaining[2:]
    if remaining and not is_command:
        expected = "'ifexist', 'command', and 'into FILE' after 'command'"
        raise MacroError(f"include {options} : unknown option '{remaining[0]}'; use {expected}")
    return is_optional, is_command, output_file
