"""Parse and format arguments and environments, in both HTCondor syntaxes.

In the new syntax, blanks separate entries, single quotes enclose blanks, and a doubled quote is a literal quote. Submit
descriptions also enclose the new syntax in double quotes. In the old syntax, blanks separate arguments, semicolons
separate variables, and a backslash escapes a double quote. Source: the manual, "Submit Description File Commands".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_TOKENS = r"[^' \t\n\r]+|'(?:[^']|'')*+'|[ \t\n\r]+"


class QuotingError(ValueError):
    """An error in the quotes of arguments or an environment; the message names the fix."""


def split(text: str) -> list[str]:
    """Split text of the new syntax into arguments; raise QuotingError if a single quote is not closed."""
    arguments: list[str] = []
    current: list[str] = []
    end = 0
    for token in re.finditer(_TOKENS, text):
        if token.start() != end:
            break
        end = token.end()
        piece = token[0]
        if piece[0] == "'":
            current.append(piece[1:-1].replace("''", "'"))
        elif piece[0] in " \t\n\r":
            if current:
                arguments.append("".join(current))
            current = []
        else:
            current.append(piece)
    if end != len(text):
        raise QuotingError(f"the single quote that starts here is not closed: {text[end : end + 40]}")
    return [*arguments, "".join(current)] if current else arguments


def split_old_environment(text: str, delimiter: str) -> list[str]:
    """Split an environment in the old syntax at the delimiter and at line feeds."""
    entries = (entry.lstrip(" \t\r") for entry in re.split(f"[\n{re.escape(delimiter)}]", text))
    return [entry for entry in entries if entry]


def join(arguments: Iterable[str]) -> str:
    """Format arguments for an ad, in the new syntax. Like HTCondor, quote only arguments with special characters."""
    return " ".join(_quote(argument) for argument in arguments)


def _quote(argument: str) -> str:
    if not argument:
        return "''"
    return re.sub(r"[' \t\n\r]+", lambda run: "'" + run[0].replace("'", "''") + "'", argument)


def uses_new_syntax(value: str) -> bool:
    return value.lstrip().startswith('"')


def strip_double_quotes(value: str) -> str:
    """Return the text between the double quotes of the new syntax."""
    text = value.strip()
    body = text[1:-1].replace('""', "")
    if len(text) < 2 or text[-1] != '"' or '"' in body:
        raise QuotingError('the double quotes do not match; write one at each end, and "" for a double quote inside')
    return text[1:-1].replace('""', '"')


def args_from_old_syntax(value: str) -> str:
    """Convert arguments in the old syntax to the text of Args."""
    if '"' in value:
        value = value.replace('\\"', "\0")
        if '"' in value:
            raise QuotingError(
                'unescaped double quote; write \\" in the old syntax, or quote the whole value (new syntax)'
            )
        value = value.replace("\0", '"')
    return " ".join(word for word in re.split(r"[ \t\n\r]+", value) if word)


def parse_environment(value: str) -> dict[str, str | None]:
    """Parse an environment in either syntax. An entry ``$$(...)`` without ``=`` has the value None."""
    if uses_new_syntax(value):
        entries = split(strip_double_quotes(value))
    else:
        delimiter = value[0] if value[:1] in (";", "|") else ";"
        entries = split_old_environment(value, delimiter)
    variables: dict[str, str | None] = {}
    for entry in entries:
        name, equals_sign, variable_value = entry.partition("=")
        if not entry:
            continue
        if not equals_sign and "$$" in entry:
            variables[entry] = None
        elif not equals_sign or not name:
            raise QuotingError(f"'{entry[:40]}' is not an environment variable; write NAME=value")
        else:
            variables[name] = variable_value
    return variables


def format_environment(variables: Mapping[str, str | None]) -> str:
    ordered = sorted(variables.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
    return join(name if text is None else f"{name}={text}" for name, text in ordered)


def format_old_environment(variables: Mapping[str, str | None]) -> str:
    """Format variables as the text of Env; raise QuotingError if the old syntax cannot express a value."""
    entries = [name if text is None else f"{name}={text}" for name, text in sorted(variables.items())]
    for entry in entries:
        if ";" in entry or "\n" in entry:
            raise QuotingError(f"the old syntax cannot express '{entry[:40]}'; use environment = \"...\"")
    return ";".join(entries)


def select_variables(pattern_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names match a pattern in the list. Patterns after ``!`` exclude variables. As in
    HTCondor, case is ignored, ``*`` matches any text, and variables with multi-line values are omitted."""
    patterns = [pattern for pattern in re.split(r"[,;\s]+", pattern_list) if pattern]
    excluded = _compile_patterns(pattern[1:] for pattern in patterns if pattern.startswith("!"))
    included = _compile_patterns(pattern for pattern in patterns if not pattern.startswith("!")) or re.compile("")
    return {
        name: value
        for name, value in environment.items()
        if "\n" not in value and included.match(name) and not (excluded and excluded.match(name))
    }


def _compile_patterns(patterns: Iterable[str]) -> re.Pattern[str] | None:
    regexes = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    return re.compile(rf"(?:{'|'.join(regexes)})\Z", re.IGNORECASE | re.DOTALL) if regexes else None


_SECRET_NAME = "(?i)token|secret|passw|passphrase|credential|api_?key|private_?key|access_?key"


def unlisted_secrets(pattern_list: str, variables: Iterable[str]) -> list[str]:
    """Return the variables whose names suggest secrets, except for names that are in the list."""
    listed = {word.lower() for word in re.split(r"[,;\s]+", pattern_list)}
    return sorted(name for name in variables if re.search(_SECRET_NAME, name) and name.lower() not in listed)
