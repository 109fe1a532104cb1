"""Define a job whose ad is being built, and the sections that set its attributes.

A *section* computes attributes from commands. It lists the commands and attributes that it reads, so that ``build``
knows which sections differ between jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from ..classad import ClassAdSyntaxError
from ..classad.old_form import expression_text, quote_string
from ..macros.functions import evaluate_integer, evaluate_text
from ..macros.macros import Definition
from .submit_context import SubmitError, SubmitFacts, SubmitFiles


class SubmitJob(Struct):
    """A job whose ad is being built: the expanded values of its commands, and the attributes that are already set."""

    facts: SubmitFacts
    files: SubmitFiles
    definitions: Mapping[str, Definition]
    warn: Callable[[str], None]
    earlier: Mapping[str, str]  #: the attributes that earlier sections set
    used: set[str]  #: the commands that were looked up; all others are reported as unused
    values: dict[str, str] = field(default_factory=dict)  #: nonempty values by lower-case command
    result: dict[str, str] = field(default_factory=dict)  #: the attributes that the current section sets

    def value(self, *commands: str) -> str | None:
        """Return the value of the first of these commands that is present, without looking up the later ones."""
        return self.values.get(self.spelling(*commands))

    def spelling(self, *commands: str) -> str:
        """Return the first of these commands that is present, even if it is empty; the last one if none is present."""
        for command in commands:
            self.used.add(command)
            if command in self.values or command in self.definitions:
                return command
        return commands[-1]

    def attribute(self, name: str) -> str | None:
        return self.result.get(name) or self.earlier.get(name)

    def error(self, command: str, rule: str, tool: str = "") -> SubmitError:
        """Return a SubmitError for a command whose value violates a rule.

        :param tool: condor_submit's message, with ``{name}`` and ``{value}``, or empty if it is the same message
        """
        definition = self.definitions.get(command)
        value = self.values.get(command, "")
        excerpt = value if len(value) <= 80 else f"{value[:77]}..."
        name = command if definition is None else definition.name
        message = f"{name} = {excerpt}: {rule}"
        if definition is not None and definition.source:
            message = f"in {definition.source}, {message}"
        line = None if definition is None else definition.line
        return SubmitError(message, line, tool=tool.format(name=name, value=excerpt))

    def expression(self, command: str) -> str:
        try:
            return expression_text(self.values[command])
        except ClassAdSyntaxError as error:
            raise self.error(command, f"this must be an expression, but {_first_line(error)}") from None

    def default(self, setting: str) -> str:
        """Return the expression that a setting contains, which may be empty; raise SubmitError if it is invalid."""
        value = self.facts.setting(setting)
        try:
            return expression_text(value) if value else ""
        except ClassAdSyntaxError as error:
            raise SubmitError(f"the configuration's {setting} = {value}: {_first_line(error)}") from None

    def boolean(self, *commands: str) -> bool | None:
        command = self.spelling(*commands)
        value = self.values.get(command)
        truth = None if value is None else parse_boolean(value)
        if truth is None and value is not None:
            rule = "this must eval to a boolean: true, false, or an expression; yes and no are none"
            raise self.error(command, rule, "{name}={value} is invalid, must eval to a boolean.")
        return truth

    def integer(self, command: str, least: int | None = None) -> int:
        value = evaluate_integer(self.values[command])
        if value is None:
            raise self.error(
                command, "this must eval to an integer", "{name}={value} is invalid, must eval to an integer."
            )
        if least is not None and value < least:
            raise self.error(command, f"this must be an integer, {least} or more")
        return value

    def set_string(self, attribute: str, value: str) -> None:
        self.result[attribute] = quote_string(value)

    def kilobytes(self, path: str) -> int:
        """Return the size of a file in kilobytes, rounded up, or 0 for a URL or a missing file."""
        size = None if "://" in path else self.files.size(path)
        return 0 if size is None else (size + 1023) // 1024


def parse_boolean(value: str) -> bool | None:
    """Return a value as a boolean, or None if it is not one. ``yes`` and ``t`` are attribute names, not booleans."""
    result = evaluate_text(value)
    return result != 0 if isinstance(result, (bool, int, float)) else None


def leading_integer(value: str) -> int:
    """Return the integer at the beginning of a value, or 0, like C's atoi."""
    match = re.match(r"\s*[+-]?[0-9]{1,9}", value)
    return int(match[0]) if match else 0


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def strip_quotes(value: str) -> str:
    """Strip the blanks around a value, and then the double quotes around it."""
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def full_path(path: str, folder: str) -> str:
    """Return an absolute path without repeated slashes."""
    joined = path if path.startswith("/") else f"{folder}/{path}"
    while "//" in joined:
        joined = joined.replace("//", "/")
    return joined


Action: TypeAlias = Callable[[SubmitJob], None]


class VerbatimCommand(NamedTuple):
    """A command whose plain value, in quotes, is the section's only attribute. It takes precedence over ``others``."""

    command: str
    attribute: str
    others: tuple[str, ...]

    def decides(self, varying: Collection[str]) -> bool:
        """Check whether this command varies between jobs and takes precedence over all other varying commands."""
        return self.command in varying and all(name == self.command or name in self.others for name in varying)


class Section(Struct, frozen=True):
    """A function that sets attributes, and the commands and attributes that it reads and sets."""

    action: Action
    commands: tuple[str, ...]  #: the lower-case commands that it reads
    sets: tuple[str, ...]  #: the attributes that it may set
    reads: tuple[str, ...] = ()  #: the attributes of earlier sections that it reads; ``Request*`` is a prefix
    verbatim: VerbatimCommand | None = None

    def reads_any(self, attributes: set[str]) -> bool:
        return any(
            name in attributes
            or (name[-1] == "*" and any(attribute.lower().startswith(name[:-1].lower()) for attribute in attributes))
            for name in self.reads
        )
