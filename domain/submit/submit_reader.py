"""Parse the lines of a submit description into definitions and queue statements.

A line is a condition (see ``conditions``), ``include : FILE`` (see ``macros.lines``), ``use CATEGORY : NAME`` (see
``macro_templates``), ``warning : ...``, ``error : ...``, a queue statement, or a definition: ``name = value``, ``name
+= more``, ``name @=tag`` with lines up to ``@tag``, or ``+Attribute = expression``. Source: the manual's pages
"Introduction to Configuration" and "Submitting a Job".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from ..macros.conditions import Conditions
from ..macros.lines import Lines, read_included
from ..macros.macro_errors import MacroError
from ..macros.macro_templates import insert_arguments, templates_used
from ..macros.macros import VALID_NAME, Definition, Macros
from .items import ItemSources, MatchingOptions
from .job_sections import parse_boolean
from .queue_statements import QueueItems, parse_queue, queue_arguments
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles, list_templates, template_text

MAX_INCLUDES = 20

_NAME = re.compile(r"([^\s=:]+)(\s*)")
_OPERATOR = re.compile(r"=|:|@=|\+(?:([,;|&*])\1?)?=")
_DIRECTIVES = ("include", "use", "error", "warning")
_DIRECTORIES = {**dict.fromkeys(("yes", "true"), None), **dict.fromkeys(("never", "no", "false"), False), "only": True}


class SubmitReader(Struct):
    """A parser that stores definitions in ``macros``, and passes each queue statement to ``queued``."""

    macros: Macros
    facts: SubmitFacts
    files: SubmitFiles
    queued: Callable[[QueueItems, int | None], None]  #: called with the items of a queue statement and its line
    append: Sequence[str]  #: lines to read before each queue statement
    warn: Callable[[str], None]
    statements: int = 0

    def parse_lines(self, lines: Lines, depth: int = 0) -> None:
        conditions = Conditions(self.macros, self.facts.version)
        while (line := lines.next_logical()) is not None:
            number, text = line
            if self.statements and not depth and self.facts.setting("SUBMIT_PREVENT_MULTI_QUEUE").lower() == "true":
                raise SubmitError(
                    "Extra data found after queue statement; this pool accepts only one queue statement", number
                )
            if text.startswith(":") and (conditions.inside_if or text[1:3] == "if"):
                text = text[1:].lstrip()
            try:
                if not conditions.process(text, number) and conditions.selected:
                    self._read_statement(text, number, lines, depth)
            except MacroError as error:
                raise _error_at(error, number, lines.name) from None
        try:
            conditions.check_closed()
        except MacroError as error:
            raise _error_at(error, error.line or 0, lines.name) from None

    def queue(self, arguments: str, number: int | None, lines: Lines | None) -> None:
        for text in self.append:
            appended = Lines(text, "an appended line")
            while (line := appended.next_logical()) is not None:
                if queue_arguments(line[1]) is not None:
                    raise SubmitError("an appended line cannot be a queue statement; pass it as the queue argument")
                self._read_statement(line[1], None, appended, MAX_INCLUDES)
        self.statements += 1
        is_input = self.facts.submit_file == STANDARD_INPUT
        sources = ItemSources(self.files, self.warn, lines, is_input, partial(self._matching_rules, number))
        self.queued(parse_queue(self.macros.expand(arguments), number, sources), number)

    def _matching_rules(self, number: int | None) -> MatchingOptions:
        def read_boolean(name: str, default: bool) -> bool:
            value = self.macros.value(f"submit_{name}") or self.macros.value(f"submit{name.replace('_', '')}")
            boolean = parse_boolean(value) if value else default
            if boolean is None:
                error = f"submit_{name}={value} is invalid, must eval to a boolean."
                raise SubmitError(f"submit_{name} = {value}: this must eval to a boolean", number, tool=error)
            return boolean

        directories = (
            self.macros.value("submit_match_directories") or self.macros.value("submitmatchdirectories") or "yes"
        )
        if directories.lower() not in _DIRECTORIES:
            raise SubmitError(f"submit_match_directories = {directories}: this must be yes, never or only", number)
        return MatchingOptions(
            warn_empty=read_boolean("warn_empty_matches", True),
            fail_empty=read_boolean("fail_empty_matches", False),
            warn_duplicates=read_boolean("warn_duplicate_matches", True),
            allow_duplicates=read_boolean("allow_duplicate_matches", False),
            directories=_DIRECTORIES[directories.lower()],
        )

    def _read_statement(self, text: str, number: int | None, lines: Lines, depth: int) -> None:
        name = _NAME.match(text)
        operator = _OPERATOR.match(text, name.end()) if name else None
        if name is not None and operator is not None and operator[0] == ":" and _directive_of(name[1]):
            self._run_directive(_directive_of(name[1]), "", text[operator.end() :].strip(), number, depth, lines)
        elif name is not None and operator is not None and operator[0] != ":" and name[1].lower() != "queue":
            self._define(name[1], operator[0], text[operator.end() :].strip(), number, lines)
        elif (match := re.match(r"@?(include|use|error|warning)\s+([^:=]*):", text, re.IGNORECASE)) is not None:
            self._run_directive(match[1].lower(), match[2].strip(), text[match.end() :].strip(), number, depth, lines)
        elif (arguments := queue_arguments(text)) is None:
            excerpt = text if len(text) <= 60 else f"{text[:57]}..."
            raise SubmitError(f"'{excerpt}' is not a command; write 'name = value', or a queue statement", number)
        elif depth:
            raise SubmitError("a queue statement is not allowed in an included file", number)
        else:
            self.queue(arguments, number, lines)

    def _run_directive(self, word: str, option: str, text: str, number: int | None, depth: int, lines: Lines) -> None:
        message = self.macros.expand(text)
        if word == "warning":
            self.warn(message)
        elif word == "error":
            raise SubmitError(message, number)
        elif word == "use":
            self._use(option, message, number, depth, lines)
        else:
            self._include(option, message, number, depth)

    def _include(self, option: str, name: str, number: int | None, depth: int) -> None:
        if depth + 1 >= MAX_INCLUDES:
            raise SubmitError(f"files include each other more than {MAX_INCLUDES} levels deep", number)
        text = read_included(self.files, option, name, self.macros.expand)
        if text is not None:
            self.parse_lines(Lines(text[1], text[0]), depth + 1)

    def _use(self, category: str, text: str, number: int | None, depth: int, lines: Lines) -> None:
        if depth + 1 >= MAX_INCLUDES:
            raise SubmitError(f"templates use each other more than {MAX_INCLUDES} levels deep", number)
        for name, arguments in templates_used(category, text):
            template_title = f"use {category} : {name}"
            template = template_text(self.facts, category, name)
            if template is None:
                raise SubmitError(f"{template_title}: unknown template; {list_templates(self.facts)}", number)
            template_lines = Lines("\n".join(insert_arguments(template_title, template, arguments)), template_title)
            self.parse_lines(template_lines, depth + 1)

    def _define(self, name_text: str, operator: str, value: str, number: int | None, lines: Lines) -> None:
        name = self.macros.expand(name_text)
        if name[:1] in ("+", "-") and operator == "=":
            name, value = f"MY.{name[1:]}", value if name[0] == "+" else ""
        if not VALID_NAME.fullmatch(name):
            raise SubmitError(f"'{name}' is not a valid name; use only letters, digits, '_', '.' and '/'", number)
        if operator == "@=":
            value = self._read_multiline(value, number, lines)
        elif operator.startswith("+"):
            value = self.macros.append_value(name, operator[1:-1], value)
        self.macros.define(Definition(name, value, number, lines.name))

    def _read_multiline(self, tag: str, number: int | None, lines: Lines) -> str:
        body: list[str] = []
        while (line := lines.next_logical()) is not None:
            if line[1] == f"@{tag}":
                return "\n".join(body)
            body.append(line[1])
        raise SubmitError(f"the block that begins with '@={tag}' must end with '@{tag}'", number)


def _directive_of(name: str) -> str:
    word = name.removeprefix("@").lower()
    return word if word in _DIRECTIVES else ""


def _error_at(error: MacroError, number: int, source: str) -> SubmitError:
    if source and not error.message.startswith(("in ", "an appended")):
        return SubmitError(f"in {source}, {error.message}", error.line or number)
    line = number if error.line is None else error.line
    return SubmitError(error.message, line, tool=error.tool, code=error.code)
