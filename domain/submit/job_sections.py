"""Hold the job while its ad is built: its commands, and the attributes made so far.

A *section* makes some attributes out of some commands. It names the commands and the attributes that it reads, so that
``build`` can tell what differs from job to job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from ..classad import ClassAdSyntaxError
from ..classad.old_form import expression_text, string_text
from ..macros.functions import evaluated, whole_number
from ..macros.macros import Definition
from .submit_context import SubmitError, SubmitFacts, SubmitFiles


class Job(Struct):
    """One job: its commands' values, expanded, and the attributes made so far."""

    facts: SubmitFacts
    files: SubmitFiles
    definitions: Mapping[str, Definition]
    warn: Callable[[str], None]
    before: Mapping[str, str]  #: the attributes that sections before the present one made
    used: set[str]  #: the commands that were looked up: the other given commands are unused
    values: dict[str, str] = field(default_factory=dict)  #: command in lower case to value; none is empty
    made: dict[str, str] = field(default_factory=dict)  #: the attributes that the present section makes

    def value(self, *commands: str) -> str | None:
        """Return the value of the first of the commands that has one. Those after it are not asked for."""
        return self.values.get(self.given(*commands))

    def given(self, *commands: str) -> str:
        """Return the first of the commands that is given, be it empty; the last one if none is."""
        for command in commands:
            self.used.add(command)
            if command in self.values or command in self.definitions:
                return command
        return commands[-1]

    def attribute(self, name: str) -> str | None:
        return self.made.get(name) or self.before.get(name)

    def wrong(self, command: str, rule: str, tool: str = "") -> SubmitError:
        """Return the error that a command's value breaks a rule.

        :param tool: condor_submit's text for it, with ``{name}`` and ``{value}``; empty: the same
        """
        definition = self.definitions.get(command)
        value = self.values.get(command, "")
        shown = value if len(value) <= 80 else f"{value[:77]}..."
        name = command if definition is None else definition.name
        message = f"{name} = {shown}: {rule}"
        if definition is not None and definition.source:
            message = f"in {definition.source}, {message}"
        line = None if definition is None else definition.line
        return SubmitError(message, line, tool=tool.format(name=name, value=shown))

    # -- reading a command as what it is -----------------------------------------------------------------------------

    def expression(self, command: str) -> str:
        try:
            return expression_text(self.values[command])
        except ClassAdSyntaxError as problem:
            raise self.wrong(command, f"this must be an expression, but {_first_line(problem)}") from None

    def default(self, setting: str) -> str:
        """Return the expression that a setting has, empty if none; raise SubmitError if it is not a valid one."""
        value = self.facts.setting(setting)
        try:
            return expression_text(value) if value else ""
        except ClassAdSyntaxError as problem:
            raise SubmitError(f"the configuration's {setting} = {value}: {_first_line(problem)}") from None

    def boolean(self, *commands: str) -> bool | None:
        command = self.given(*commands)
        value = self.values.get(command)
        truth = None if value is None else truth_of(value)
        if truth is None and value is not None:
            rule = "this must eval to a boolean: true, false, or an expression; yes and no are none"
            raise self.wrong(command, rule, "{name}={value} is invalid, must eval to a boolean.")
        return truth

    def integer(self, command: str, least: int | None = None) -> int:
        value = whole_number(self.values[command])
        if value is None:
            raise self.wrong(
                command, "this must eval to an integer", "{name}={value} is invalid, must eval to an integer."
            )
        if least is not None and value < least:
            raise self.wrong(command, f"this must be an integer from {least}")
        return value

    def set_string(self, attribute: str, value: str) -> None:
        self.made[attribute] = string_text(value)

    def kilobytes(self, path: str) -> int:
        """Return a file's size in kilobytes, rounded up; 0 for a URL or a missing file."""
        size = None if "://" in path else self.files.size(path)
        return 0 if size is None else (size + 1023) // 1024


def truth_of(value: str) -> bool | None:
    """Return a value as a boolean, or None if it is an expression of no boolean value; yes and t are attributes."""
    result = evaluated(value)
    return result != 0 if isinstance(result, (bool, int, float)) else None


def leading_integer(value: str) -> int:
    """Return the integer with which a value begins, 0 where it begins with none, as C's atoi does."""
    match = re.match(r"\s*[+-]?[0-9]{1,9}", value)
    return int(match[0]) if match else 0


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n", 1)[0]


def stripped(value: str) -> str:
    """Strip the blanks around a value, and then its double quotes."""
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def full_path(path: str, folder: str) -> str:
    """Return an absolute path, with repeated slashes made one."""
    joined = path if path.startswith("/") else f"{folder}/{path}"
    while "//" in joined:
        joined = joined.replace("//", "/")
    return joined


Action: TypeAlias = Callable[[Job], None]


class Verbatim(NamedTuple):
    """The command whose plain value is a section's one attribute; ``others`` do not matter where it has a value."""

    command: str
    attribute: str
    others: tuple[str, ...]

    def decides(self, varying: Collection[str]) -> bool:
        """Return whether no other varying command matters."""
        return self.command in varying and all(name == self.command or name in self.others for name in varying)


class Section(Struct, frozen=True):
    """A function that makes some attributes, and what it reads."""

    action: Action
    commands: tuple[str, ...]  #: the commands that it reads, in lower case
    sets: tuple[str, ...]  #: the attributes that it may make
    reads: tuple[str, ...] = ()  #: the attributes made before that it reads; ``Request*``: all that begin so
    verbatim: Verbatim | None = None

    def reads_any(self, attributes: set[str]) -> bool:
        return any(
            name in attributes
            or (name[-1] == "*" and any(attribute.lower().startswith(name[:-1].lower()) for attribute in attributes))
            for name in self.reads
        )
