"""Read the lines of files and templates into settings.

A line is a condition (see ``macros.conditions``), ``include``, ``use``, ``warning`` or ``error``, a heading in square
brackets, which is ignored, or a setting: ``name = value``, ``name += more``, ``name @=tag`` with lines up to ``@tag``.
Source: the manual's page "Introduction to Configuration"; HTCondor decides the order in which they are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from ..macros.conditions import Conditions
from ..macros.lines import IncludedFiles, Lines, included
from ..macros.macro_errors import MacroError
from ..macros.macro_templates import expanded, templates_used
from ..macros.macros import VALID_NAME
from ..suggestions import did_you_mean
from .config_errors import ConfigError, SettingSource
from .setting_values import Values
from .tables import Template, defaults, templates

MAX_DEPTH = 20

_NAME = re.compile(r"[^\s=:]*")
_OPERATOR = re.compile(r"([^=:@+]*)(=|:|@=|\+(?:([,;|&*])\3?)?=)")
_DIRECTIVES = ("include", "use", "error", "warning")


class ConfigFiles(IncludedFiles, Protocol):
    """The view of the disk, and of what commands print, that a configuration needs."""

    def listing(self, path: str) -> list[str]:
        """Return the paths of a directory's files, sorted; empty where it cannot be listed."""


class ConfigConditions(Conditions):
    """The ``if`` blocks around the present line, extended by ``if defined use CATEGORY:NAME``."""

    def _defined(self, name: str) -> bool | None:
        use = re.fullmatch(r"use\s+([^:\s]+)(?::(\S*))?", name, re.IGNORECASE)
        if use is None:
            return super()._defined(name)
        category, template = use[1].lower(), (use[2] or "").lower()
        return any(kind == category and template in ("", one) for kind, one in templates())


class ConfigReader:
    """Reads texts into values; ``warn`` is called with each warning."""

    def __init__(self, values: Values, files: ConfigFiles, warn: Callable[[str], None]) -> None:
        self.values = values
        self._files = files
        self._warn = warn
        self._version = defaults()["condor_version"].value

    def file(self, name: str, text: str, depth: int = 0) -> None:
        """Read a text that is named ``name``; raise ConfigError for its first error, with file and line."""
        try:
            lines = Lines(text, name)
        except MacroError as problem:
            raise ConfigError(problem.message, name, problem.line or 0) from None
        conditions = ConfigConditions(self.values, self._version)
        while (found := lines.logical()) is not None:
            line = found[1]
            if line.startswith(":") and (conditions.inside or re.match(r":if(?:\s|$)", line)):
                line = line[1:].lstrip()
            try:
                if not conditions.take(line, lines.number) and conditions.live:
                    self._statement(line, _InFile(lines), depth)
            except MacroError as problem:
                raise ConfigError(problem.message, name, lines.number) from None
            except ConfigError as problem:
                raise problem if problem.file else ConfigError(problem.message, name, lines.number) from None
        try:
            conditions.end()
        except MacroError as problem:
            raise ConfigError(problem.message, name, problem.line or 0) from None

    def template(self, template: Template, arguments: str, source: SettingSource, depth: int) -> None:
        """Read a template on behalf of the line ``source``."""
        if depth >= MAX_DEPTH:
            raise ConfigError(f"templates use each other more than {MAX_DEPTH} deep")
        place = _InTemplate(template, expanded_lines(template, arguments), source)
        conditions = ConfigConditions(self.values, self._version)
        while (line := place.next()) is not None:
            if not conditions.take(line, source.line) and conditions.live:
                self._statement(line, place, depth)

    # -- one statement -----------------------------------------------------------------------------------------------

    def _statement(self, line: str, place: _Place, depth: int) -> None:
        name, between, operator, value = _parts(line)
        directive = name.lower().removeprefix("@")
        if not operator:
            if name == line and line.startswith("["):
                return
            shown = line if len(line) <= 60 else f"{line[:57]}..."
            raise ConfigError(f"'{shown}' is no setting; write NAME = value")
        if operator != ":" or directive not in _DIRECTIVES:
            if operator == ":" and directive != "runbenchmarks":
                self._warned(place, f"obsolete use of ':' at {name} : {value}; write {name} = {value}")
            self._set(name, operator, value, place)
        elif directive == "use":
            for template, arguments in used_templates(between if place.literal else self.values.expand(between), value):
                self.template(template, arguments, place.source(), depth + 1)
        elif directive == "warning":
            self._warned(place, self.values.expand(value))
        elif directive == "error":
            raise ConfigError(f"error : {self.values.expand(value)}")
        elif place.literal:
            raise ConfigError("a template cannot include a file")
        else:
            self._include(between, self.values.expand(value), depth)

    def _warned(self, place: _Place, warning: str) -> None:
        source = place.source()
        self._warn(f"{source.file}:{source.line}: {warning}")

    def _set(self, name: str, operator: str, value: str, place: _Place) -> None:
        name = name if place.literal else self.values.expand(name)
        if not VALID_NAME.fullmatch(name):
            raise ConfigError(f"'{name}' cannot be a name; names have letters, digits, '_', '.' and '/' only")
        if operator == "@=":
            value = _until(value, place)
        elif operator.startswith("+"):
            value = self.values.appended(name, operator[1:-1], value)
        self.values.put(name, value, place.source())

    # -- include -----------------------------------------------------------------------------------------------------

    def _include(self, between: str, name: str, depth: int) -> None:
        if depth + 1 >= MAX_DEPTH:
            raise ConfigError(f"include : {name}: files include each other more than {MAX_DEPTH} deep")
        text = included(self._files, between, name, self.values.expand)
        if text is not None:
            self.file(*text, depth + 1)


def _parts(line: str) -> tuple[str, str, str, str]:
    """Return a statement's name, the text between it and its operator, the operator (or nothing), the value."""
    name = _NAME.match(line)[0]  # type: ignore[index]
    rest = line[len(name) :]
    if rest[:1] in ("=", ":"):
        return name, "", rest[0], rest[1:].lstrip()
    match = _OPERATOR.match(rest)
    if not rest or match is None:
        return name, "", "", ""
    return name, match[1].strip(), match[2], rest[match.end() :].lstrip()


def _until(tag: str, place: _Place) -> str:
    begun = place.source()
    body: list[str] = []
    while (line := place.next()) is not None:
        if line == f"@{tag}":
            return "\n".join(body)
        body.append(line)
    raise ConfigError(f"the lines that '@={tag}' begins have no '@{tag}' at their end", begun.file, begun.line)


class _InFile:
    """The place of a statement: ``next`` is the next line that is not a comment, ``source`` the current one."""

    literal = False

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def next(self) -> str | None:
        line = self._lines.logical()
        return None if line is None else line[1]

    def source(self) -> SettingSource:
        return SettingSource(self._lines.name, self._lines.number)


class _InTemplate:
    """The same in a template, where names are taken as they stand, macros and all."""

    literal = True

    def __init__(self, template: Template, lines: list[str], source: SettingSource) -> None:
        self._name = f"{template.category}:{template.name}"
        self._lines = lines
        self._at = -1
        self._source = source

    def next(self) -> str | None:
        while self._at + 1 < len(self._lines):
            self._at += 1
            line = self._lines[self._at].strip()
            if line and not line.startswith("#"):
                return line
        return None

    def source(self) -> SettingSource:
        used = self._source.used or self._name
        return SettingSource(self._source.file, self._source.line, "template", f"{self._name}+{self._at}", used)


_Place = _InFile | _InTemplate


# Find the templates that ``use CATEGORY : NAME, NAME(argument, ...)`` names, and put their arguments in
# (``macros.templates``).


def used_templates(category: str, text: str) -> Iterator[tuple[Template, str]]:
    """Yield the named templates with their arguments; raise ConfigError for an unknown one, with the near ones."""
    if not category:
        raise ConfigError(f"use : {text}: a category is wanted before the colon, as in use POLICY : Desktop")
    known = templates()
    mine = {name: template for (kind, name), template in known.items() if kind == category.lower()}
    if not mine:
        kinds = ", ".join(sorted({kind.upper() for kind, _ in known}))
        raise ConfigError(f"use {category} : {text}: there is no such category of templates; there are {kinds}")
    for name, arguments in templates_used(category, text):
        template = mine.get(name.lower())
        if template is None:
            listed = f"`poolbook config use {category}` lists them"
            hint = did_you_mean(name, (one.name for one in mine.values()), listed, likeness=0.5)
            raise ConfigError(f"use {category} : {name}: there is no such template; {hint}")
        yield template, arguments


def expanded_lines(template: Template, arguments: str) -> list[str]:
    return expanded(f"use {template.category} : {template.name}", "\n".join(template.lines), arguments)
