"""Split and join arguments in HTCondor's new syntax: blanks separate, single quotes group, a doubled quote is one.

Source: the manual's page "Submit Description File Commands", arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PIECES = re.compile(r"[^' \t\n\r]+|'(?:[^']|'')*+'|[ \t\n\r]+")


class QuotingError(ValueError):
    """Quotes do not match; the message names the fix."""


def split(text: str) -> list[str]:
    """Return the arguments of a text, without its quotes; raise QuotingError where a single quote does not end."""
    arguments: list[str] = []
    current: list[str] = []
    at = 0
    for piece in _PIECES.finditer(text):
        if piece.start() != at:
            break
        at = piece.end()
        word = piece[0]
        if word[0] == "'":
            current.append(word[1:-1].replace("''", "'"))
        elif word[0] in " \t\n\r":
            if current:
                arguments.append("".join(current))
            current = []
        else:
            current.append(word)
    if at != len(text):
        raise QuotingError(f"the single quote that starts here has no end: {text[at : at + 40]}")
    return [*arguments, "".join(current)] if current else arguments


def old_entries(text: str, delimiter: str) -> list[str]:
    """Return the entries of an environment in the old syntax: each ends at the delimiter or a line feed."""
    entries = (entry.lstrip(" \t\r") for entry in re.split(f"[\n{re.escape(delimiter)}]", text))
    return [entry for entry in entries if entry]


def join(arguments: Iterable[str]) -> str:
    """Write arguments as an ad holds them. Like HTCondor, quote each special character on its own."""
    return " ".join(_quoted(argument) for argument in arguments)


def _quoted(argument: str) -> str:
    if not argument:
        return "''"
    return re.sub(r"[' \t\n\r]+", lambda run: "'" + run[0].replace("'", "''") + "'", argument)


# Read and write arguments and environments, in either syntax, for a description and for an ad.
#
# Source: the manual's page "Submit Description File Commands", arguments and environment. The new syntax is in double
# quotes: blanks separate, single quotes group, a doubled quote of either kind is one. The old one has none: blanks
# separate arguments, semicolons variables, a backslash precedes a double quote.


def in_new_syntax(value: str) -> bool:
    return value.lstrip().startswith('"')


def unquoted(value: str) -> str:
    """Return the text between the double quotes of the new syntax."""
    text = value.strip()
    body = text[1:-1].replace('""', "")
    if len(text) < 2 or text[-1] != '"' or '"' in body:
        raise QuotingError('the double quotes do not match: one at each end, and "" for one inside')
    return text[1:-1].replace('""', '"')


def old_arguments(value: str) -> str:
    """Return the text of Args for arguments in the old syntax."""
    if '"' in value:
        value = value.replace('\\"', "\0")
        if '"' in value:
            raise QuotingError(
                'a double quote stands alone; write \\" in the old syntax, or the whole in double quotes (the new one)'
            )
        value = value.replace("\0", '"')
    return " ".join(word for word in re.split(r"[ \t\n\r]+", value) if word)


def environment_of(value: str) -> dict[str, str | None]:
    """Return an environment's variables, in either syntax; an entry without ``=`` that holds a ``$$()`` has None."""
    if in_new_syntax(value):
        entries = split(unquoted(value))
    else:
        delimiter = value[0] if value[:1] in (";", "|") else ";"
        entries = old_entries(value, delimiter)
    variables: dict[str, str | None] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not entry:
            continue
        if not equals and "$$" in entry:
            variables[entry] = None
        elif not equals or not name:
            raise QuotingError(f"'{entry[:40]}' is no environment variable; write NAME=value")
        else:
            variables[name] = text
    return variables


def environment_text(variables: Mapping[str, str | None]) -> str:
    ordered = sorted(variables.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
    return join(name if text is None else f"{name}={text}" for name, text in ordered)


def old_environment_text(variables: Mapping[str, str | None]) -> str:
    """Return the text of Env, delimited by semicolons; raise QuotingError where the old syntax cannot hold a value."""
    entries = [name if text is None else f"{name}={text}" for name, text in sorted(variables.items())]
    for entry in entries:
        if ";" in entry or "\n" in entry:
            raise QuotingError(f"'{entry[:40]}' cannot be said in the old syntax; use environment = \"...\"")
    return ";".join(entries)


def imported(pattern_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user's environment that a list of patterns names; leave out those after !. As in
    HTCondor, case does not count, ``*`` stands for anything, and a value of several lines is left out."""
    patterns = [pattern for pattern in re.split(r"[,;\s]+", pattern_list) if pattern]
    refused = _any_of(pattern[1:] for pattern in patterns if pattern.startswith("!"))
    taken = _any_of(pattern for pattern in patterns if not pattern.startswith("!")) or re.compile("")
    return {
        name: value
        for name, value in environment.items()
        if "\n" not in value and taken.match(name) and not (refused and refused.match(name))
    }


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    texts = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    return re.compile(rf"(?:{'|'.join(texts)})\Z", re.IGNORECASE | re.DOTALL) if texts else None


_SECRET = re.compile("token|secret|passw|passphrase|credential|api_?key|private_?key|access_?key", re.IGNORECASE)


def unnamed_secrets(pattern_list: str, variables: Iterable[str]) -> list[str]:
    """Return which of the variables that were found have names of secrets, and are not named themselves in the list."""
    named = {word.lower() for word in re.split(r"[,;\s]+", pattern_list)}
    return sorted(name for name in variables if _SECRET.search(name) and name.lower() not in named)
