"""Parse the lines of configuration files and templates into settings.

A line is a condition (see ``macros.conditions``), ``include``, ``use``, ``warning``, ``error``, a heading in square
brackets, which is ignored, or a setting: ``name = value``, ``name += more``, or ``name @=tag`` with lines up to
``@tag``. The reader tries these in HTCondor's order. Source: the manual's page "Introduction to Configuration".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from ..macros.conditions import Conditions
from ..macros.lines import IncludedFiles, Lines, read_included
from ..macros.macro_errors import MacroError
from ..macros.macro_templates import insert_arguments, templates_used
from ..macros.macros import VALID_NAME
from ..suggestions import did_you_mean
from .config_errors import ConfigError, SettingSource
from .setting_values import SettingValues
from .tables import Template, defaults, templates

MAX_DEPTH = 20

_NAME = re.compile(r"[^\s=:]*")
_OPERATOR = re.compile(r"([^=:@+]*)(=|:|@=|\+(?:([,;|&*])\3?)?=)")
_DIRECTIVES = ("include", "use", "error", "warning")


class ConfigFiles(IncludedFiles, Protocol):
    """The interface through which a configuration reads files and runs commands."""

    def listing(self, path: str) -> list[str]:
        """Return the sorted paths of a directory's files; empty if it cannot be listed."""


class ConfigConditions(Conditions):
    """The ``if`` blocks around the current line. A condition may also be ``defined use CATEGORY:NAME``."""

    def _is_defined(self, name: str) -> bool | None:
        use = re.fullmatch(r"use\s+([^:\s]+)(?::(\S*))?", name, re.IGNORECASE)
        if use is None:
            return super()._is_defined(name)
        category, template = use[1].lower(), (use[2] or "").lower()
        return any(group == category and template in ("", name) for group, name in templates())


class ConfigReader:
    """A parser that stores settings in ``values`` and passes each warning to ``warn``."""

    def __init__(self, values: SettingValues, files: ConfigFiles, warn: Callable[[str], None]) -> None:
        self.values = values
        self._files = files
        self._warn = warn
        self._version = defaults()["condor_version"].value

    def read_file(self, name: str, text: str, depth: int = 0) -> None:
        """Read the text of a file; raise ConfigError, with file and line, for the first error."""
        try:
            lines = Lines(text, name)
        except MacroError as error:
            raise ConfigError(error.message, name, error.line or 0) from None
        conditions = ConfigConditions(self.values, self._version)
        while (numbered_line := lines.next_logical()) is not None:
            line = numbered_line[1]
            if line.startswith(":") and (conditions.inside_if or re.match(r":if(?:\s|$)", line)):
                line = line[1:].lstrip()
            try:
                if not conditions.process(line, lines.number) and conditions.selected:
                    self._statement(line, _FilePosition(lines), depth)
            except MacroError as error:
                raise ConfigError(error.message, name, lines.number) from None
            except ConfigError as error:
                raise error if error.file else ConfigError(error.message, name, lines.number) from None
        try:
            conditions.check_closed()
        except MacroError as error:
            raise ConfigError(error.message, name, error.line or 0) from None

    def read_template(self, template: Template, arguments: str, source: SettingSource, depth: int) -> None:
        """Read the lines of a template.

        :param arguments: the text in brackets after the template's name
        :param source: where the template is used
        :param depth: how many includes and templates enclose this one
        """
        if depth >= MAX_DEPTH:
            raise ConfigError(f"templates use each other more than {MAX_DEPTH} levels deep")
        place = _TemplatePosition(template, template_lines(template, arguments), source)
        conditions = ConfigConditions(self.values, self._version)
        while (line := place.next()) is not None:
            if not conditions.process(line, source.line) and conditions.selected:
                self._statement(line, place, depth)

    def _statement(self, line: str, place: _Place, depth: int) -> None:
        name, options, operator, value = _split_statement(line)
        directive = name.lower().removeprefix("@")
        if not operator:
            if name == line and line.startswith("["):
                return
            excerpt = line if len(line) <= 60 else f"{line[:57]}..."
            raise ConfigError(f"'{excerpt}' is not a setting; write NAME = value")
        if operator != ":" or directive not in _DIRECTIVES:
            if operator == ":" and directive != "runbenchmarks":
                self._warn_at(place, f"obsolete use of ':' at {name} : {value}; write {name} = {value}")
            self._define(name, operator, value, place)
        elif directive == "use":
            for template, arguments in find_templates(options if place.literal else self.values.expand(options), value):
                self.read_template(template, arguments, place.source(), depth + 1)
        elif directive == "warning":
            self._warn_at(place, self.values.expand(value))
        elif directive == "error":
            raise ConfigError(f"error : {self.values.expand(value)}")
        elif place.literal:
            raise ConfigError("a template cannot include a file")
        else:
            self._include(options, self.values.expand(value), depth)

    def _warn_at(self, place: _Place, warning: str) -> None:
        source = place.source()
        self._warn(f"{source.file}:{source.line}: {warning}")

    def _define(self, name: str, operator: str, value: str, place: _Place) -> None:
        name = name if place.literal else self.values.expand(name)
        if not VALID_NAME.fullmatch(name):
            raise ConfigError(f"'{name}' is not a valid name; use only letters, digits, '_', '.' and '/'")
        if operator == "@=":
            value = _read_multiline(value, place)
        elif operator.startswith("+"):
            value = self.values.append_value(name, operator[1:-1], value)
        self.values.set_value(name, value, place.source())

    def _include(self, options: str, name: str, depth: int) -> None:
        if depth + 1 >= MAX_DEPTH:
            raise ConfigError(f"include : {name}: files include each other more than {MAX_DEPTH} levels deep")
        text = read_included(self._files, options, name, self.values.expand)
        if text is not None:
            self.read_file(*text, depth + 1)


def _split_statement(line: str) -> tuple[str, str, str, str]:
    name = _NAME.match(line)[0]  # type: ignore[index]
    remaining = line[len(name) :]
    if remaining[:1] in ("=", ":"):
        return name, "", remaining[0], remaining[1:].lstrip()
    match = _OPERATOR.match(remaining)
    if not remaining or match is None:
        return name, "", "", ""
    return name, match[1].strip(), match[2], remaining[match.end() :].lstrip()


def _read_multiline(tag: str, place: _Place) -> str:
    start = place.source()
    body: list[str] = []
    while (line := place.next()) is not None:
        if line == f"@{tag}":
            return "\n".join(body)
        body.append(line)
    raise ConfigError(f"the block that begins with '@={tag}' must end with '@{tag}'", start.file, start.line)


class _FilePosition:
    """A position in a file. ``next`` returns the next line that is not a comment; ``source``, its place."""

    literal = False

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def next(self) -> str | None:
        line = self._lines.next_logical()
        return None if line is None else line[1]

    def source(self) -> SettingSource:
        return SettingSource(self._lines.name, self._lines.number)


class _TemplatePosition:
    """A position in a template. The names of a template's settings are not expanded."""

    literal = True

    def __init__(self, template: Template, lines: list[str], source: SettingSource) -> None:
        self._name = f"{template.category}:{template.name}"
        self._lines = lines
        self._index = -1
        self._source = source

    def next(self) -> str | None:
        while self._index + 1 < len(self._lines):
            self._index += 1
            line = self._lines[self._index].strip()
            if line and not line.startswith("#"):
                return line
        return None

    def source(self) -> SettingSource:
        used = self._source.used or self._name
        return SettingSource(self._source.file, self._source.line, "template", f"{self._name}+{self._index}", used)


_Place = _FilePosition | _TemplatePosition


# Find the templates of ``use CATEGORY : NAME, NAME(argument, ...)``, and insert their arguments (``macro_templates``)


def find_templates(category: str, text: str) -> Iterator[tuple[Template, str]]:
    """Yield the templates that a ``use`` line names, with their arguments; raise ConfigError if one is unknown."""
    if not category:
        raise ConfigError(f"use : {text}: write a category before the colon, as in use POLICY : Desktop")
    all_templates = templates()
    category_templates = {
        name: template for (group, name), template in all_templates.items() if group == category.lower()
    }
    if not category_templates:
        kinds = ", ".join(sorted({group.upper() for group, _ in all_templates}))
        raise ConfigError(f"use {category} : {text}: unknown template category; use {kinds}")
    for name, arguments in templates_used(category, text):
        template = category_templates.get(name.lower())
        if template is None:
            listing_hint = f"`poolbook config use {category}` lists them"
            hint = did_you_mean(
                name, (each.name for each in category_templates.values()), listing_hint, min_similarity=0.5
            )
            raise ConfigError(f"use {category} : {name}: unknown template; {hint}")
        yield template, arguments


def template_lines(template: Template, arguments: str) -> list[str]:
    return insert_arguments(f"use {template.category} : {template.name}", "\n".join(template.lines), arguments)
