"""Read a description: its lines become definitions and queue statements.

A line is a condition (see ``conditions``), ``include : FILE`` (see ``macros.lines``), ``use CATEGORY : NAME`` (see
``templates``), ``warning : ...``, ``error : ...``, a queue statement, or a definition: ``name = value``,
``name += more`` after a blank, ``name @=tag`` with lines up to ``@tag``, ``+Attribute = expression``. Source: as
``config.reader``'s, and the manual's page "Submitting a Job".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from ..macros.conditions import Conditions
from ..macros.lines import Lines, included
from ..macros.macro_errors import MacroError
from ..macros.macro_templates import expanded, templates_used
from ..macros.macros import VALID_NAME, Definition, Macros
from .items import ItemSources, Matching
from .job_sections import truth_of
from .queue_statements import Items, arguments_of, read_queue
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles, template_text, there_are

MAX_INCLUDES = 20

_NAME = re.compile(r"([^\s=:]+)(\s*)")
_OPERATOR = re.compile(r"=|:|@=|\+(?:([,;|&*])\1?)?=")
_DIRECTIVES = ("include", "use", "error", "warning")
_DIRECTORIES = {**dict.fromkeys(("yes", "true"), None), **dict.fromkeys(("never", "no", "false"), False), "only": True}


class SubmitReader(Struct):
    """Reads descriptions into macros."""

    macros: Macros
    facts: SubmitFacts
    files: SubmitFiles
    queued: Callable[[Items, int | None], None]  #: called at each queue statement, with what stood before it in macros
    append: Sequence[str]  #: lines to be read before each queue statement takes effect
    warn: Callable[[str], None]
    statements: int = 0

    def read(self, lines: Lines, depth: int = 0) -> None:
        conditions = Conditions(self.macros, self.facts.version)
        while (line := lines.logical()) is not None:
            number, text = line
            if self.statements and not depth and self.facts.setting("SUBMIT_PREVENT_MULTI_QUEUE").lower() == "true":
                raise SubmitError("Extra data found after queue statement; this pool takes one queue statement", number)
            if text.startswith(":") and (conditions.inside or text[1:3] == "if"):
                text = text[1:].lstrip()
            try:
                if not conditions.take(text, number) and conditions.live:
                    self._statement(text, number, lines, depth)
            except MacroError as problem:
                raise _placed(problem, number, lines.name) from None
        try:
            conditions.end()
        except MacroError as problem:
            raise _placed(problem, problem.line or 0, lines.name) from None

    def queue(self, arguments: str, number: int | None, lines: Lines | None) -> None:
        for text in self.append:
            self._appended(text)
        self.statements += 1
        is_input = self.facts.submit_file == STANDARD_INPUT
        sources = ItemSources(self.files, self.warn, lines, is_input, partial(self._matching, number))
        self.queued(read_queue(self.macros.expand(arguments), number, sources), number)

    def _matching(self, number: int | None) -> Matching:
        def truth(name: str, default: bool) -> bool:
            value = self.macros.value(f"submit_{name}") or self.macros.value(f"submit{name.replace('_', '')}")
            truth_value = truth_of(value) if value else default
            if truth_value is None:
                problem = f"submit_{name}={value} is invalid, must eval to a boolean."
                raise SubmitError(f"submit_{name} = {value}: this must eval to a boolean", number, tool=problem)
            return truth_value

        which = self.macros.value("submit_match_directories") or self.macros.value("submitmatchdirectories") or "yes"
        if which.lower() not in _DIRECTORIES:
            raise SubmitError(f"submit_match_directories = {which}: this must be yes, never or only", number)
        return Matching(
            warn_empty=truth("warn_empty_matches", True),
            fail_empty=truth("fail_empty_matches", False),
            warn_duplicates=truth("warn_duplicate_matches", True),
            allow_duplicates=truth("allow_duplicate_matches", False),
            directories=_DIRECTORIES[which.lower()],
        )

    def _appended(self, text: str) -> None:
        lines = Lines(text, "an appended line")
        while (line := lines.logical()) is not None:
            if arguments_of(line[1]) is not None:
                raise SubmitError("an appended line cannot be a queue statement; give it as the queue argument")
            self._statement(line[1], None, lines, MAX_INCLUDES)

    def _statement(self, text: str, number: int | None, lines: Lines, depth: int) -> None:
        name = _NAME.match(text)
        operator = _OPERATOR.match(text, name.end()) if name else None
        if name is not None and operator is not None and operator[0] == ":" and _directive(name[1]):
            self._direct(_directive(name[1]), "", text[operator.end() :].strip(), number, depth, lines)
        elif name is not None and operator is not None and operator[0] != ":" and name[1].lower() != "queue":
            self._define(name[1], operator[0], text[operator.end() :].strip(), number, lines)
        elif (keyword := re.match(r"@?(include|use|error|warning)\s+([^:=]*):", text, re.IGNORECASE)) is not None:
            self._direct(keyword[1].lower(), keyword[2].strip(), text[keyword.end() :].strip(), number, depth, lines)
        elif (arguments := arguments_of(text)) is None:
            shown = text if len(text) <= 60 else f"{text[:57]}..."
            raise SubmitError(f"'{shown}' is no command; write 'name = value', or a queue statement", number)
        elif depth:
            raise SubmitError("a queue statement cannot stand in an included file", number)
        else:
            self.queue(arguments, number, lines)

    def _direct(self, word: str, option: str, text: str, number: int | None, depth: int, lines: Lines) -> None:
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
            raise SubmitError(f"files include each other more than {MAX_INCLUDES} deep", number)
        text = included(self.files, option, name, self.macros.expand)
        if text is not None:
            self.read(Lines(text[1], text[0]), depth + 1)

    def _use(self, category: str, text: str, number: int | None, depth: int, lines: Lines) -> None:
        """Read the lines of templates, as if they stood here."""
        if depth + 1 >= MAX_INCLUDES:
            raise SubmitError(f"templates use each other more than {MAX_INCLUDES} deep", number)
        for name, arguments in templates_used(category, text):
            title = f"use {category} : {name}"
            template = template_text(self.facts, category, name)
            if template is None:
                raise SubmitError(f"{title}: there is no such template; {there_are(self.facts)}", number)
            inner = Lines("\n".join(expanded(title, template, arguments)), title)
            self.read(inner, depth + 1)

    def _define(self, written: str, operator: str, value: str, number: int | None, lines: Lines) -> None:
        name = self.macros.expand(written)
        if name[:1] in ("+", "-") and operator == "=":
            name, value = f"MY.{name[1:]}", value if name[0] == "+" else ""
        if not VALID_NAME.fullmatch(name):
            raise SubmitError(f"'{name}' cannot be a name; names have letters, digits, '_', '.' and '/' only", number)
        if operator == "@=":
            value = self._until(value, number, lines)
        elif operator.startswith("+"):
            value = self.macros.appended(name, operator[1:-1], value)
        self.macros.define(Definition(name, value, number, lines.name))

    def _until(self, tag: str, number: int | None, lines: Lines) -> str:
        body: list[str] = []
        while (line := lines.logical()) is not None:
            if line[1] == f"@{tag}":
                return "\n".join(body)
            body.append(line[1])
        raise SubmitError(f"the lines that this '@={tag}' begins have no '@{tag}' at their end", number)


def _directive(name: str) -> str:
    word = name.removeprefix("@").lower()
    return word if word in _DIRECTIVES else ""


def _placed(problem: MacroError, number: int, source: str) -> SubmitError:
    if source and not problem.message.startswith(("in ", "an appended")):
        return SubmitError(f"in {source}, {problem.message}", problem.line or number)
    line = number if problem.line is None else problem.line
    return SubmitError(problem.message, line, tool=problem.tool, code=problem.code)
