"""Store macro definitions and expand ``$(name)``.

The rules come from the manual's pages "Submitting a Job" (Variables in the Submit Description File; Function Macros)
and "Introduction to Configuration" (Macros That Will Be Expanded). A variable of the queue statement overrides a
definition, which overrides an automatic variable. A value is expanded when it is used, but a reference to the name
being defined is replaced in the definition. ``$$(...)`` is not expanded, because its value comes from the matched slot.

A *template* is an expanded value in which only the variables that differ between jobs are left. So 100,000 jobs need
only one expansion and 100,000 fast formattings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .macro_errors import MacroError

if TYPE_CHECKING:
    from ..classad import ClassAd

# The start of a macro, and its name and default.
_START = re.compile(r"\$(\$?)([A-Za-z0-9_]*)(\(?)")
_NAME = re.compile(r"[A-Za-z0-9_./]*")
_DEFAULT = re.compile(r"[A-Za-z0-9_./$ ,\\:]*")
_DOLLAR_MACROS = re.compile(r"(\$\$\w*)|\$\(dollar\)(?:\(dollar\))*(\$\w*)?", re.IGNORECASE | re.ASCII)
VALID_NAME = re.compile(r"[A-Za-z0-9_./]+")

# Only mistakes and attacks exceed these limits; generated descriptions stay far below them.
MAX_DEPTH = 100
MAX_LENGTH = 64_000_000
MAX_SCANNED = 4_000_000  # characters of defaults scanned, some of them repeatedly

# Encloses the number of an open variable in a template. No description contains this character: see lines.py.
OPEN_MARK = "\0"


class CircularMacroError(MacroError):
    """A macro refers to itself."""


class TemplateImpossible(Exception):
    """A text depends on a variable that differs between jobs in a way that a template cannot express."""


class Definition(Struct, frozen=True):
    """A definition ``name = value``. ``line`` is None if the definition is not in the description."""

    name: str
    value: str
    line: int | None = None
    source: str = ""


class Macro(Struct, frozen=True):
    """A macro in a text, from ``start`` to ``end``. ``function`` is empty for ``$(name)``."""

    start: int
    end: int
    function: str
    body: str
    default: str | None


def macros_in(text: str, functions: frozenset[str]) -> Iterator[Macro]:
    """Yield the outermost macros of a text, from left to right; raise MacroError if the text is too complex."""
    position, closing_bracket, scanned = 0, -1, 0
    while (start := _START.search(text, position)) is not None:
        position = start.end()
        dollar, function, bracket = start.groups()
        if not bracket or dollar or (function and function not in functions and not _is_file_function(function)):
            continue
        if closing_bracket < position:
            closing_bracket = text.find(")", position)
        if closing_bracket < 0:
            return
        if function and function != "ENV":
            yield Macro(start.start(), closing_bracket + 1, function, text[position:closing_bracket], None)
            position = closing_bracket + 1
            continue
        end, default_at = _find_body_end(text, position, closing_bracket)
        scanned += 0 if default_at is None else end - default_at
        if scanned > MAX_SCANNED:
            raise MacroError("the macro references of a value nest too deeply; simplify them")
        if end < len(text) and text[end] == ")":
            name_end = end if default_at is None else default_at - 1
            default = None if default_at is None else text[default_at:end]
            yield Macro(start.start(), end + 1, function, text[position:name_end], default)
            position = end + 1


def _is_file_function(function: str) -> bool:
    return function[0] == "F" and not function[1:].lower().strip("pnxdqabfwu")


def _find_body_end(text: str, position: int, closing_bracket: int) -> tuple[int, int | None]:
    end = _NAME.match(text, position).end()  # type: ignore[union-attr]
    if text[end : end + 1] != ":":
        return end, None
    default_at = end + 1
    end = _DEFAULT.match(text, default_at).end()  # type: ignore[union-attr]
    while text[end : end + 1] == "(":
        bracket = closing_bracket if closing_bracket > end else text.find(")", end)
        if bracket < 0:
            break
        end = _DEFAULT.match(text, bracket + 1).end()  # type: ignore[union-attr]
    return end, default_at


Function = Callable[["Macros", str, str], str]


class Macros:
    """The definitions of a description up to the current line.

    :param automatic: the variables that every description has, by lower-case name
    :param functions: the functions ``$NAME(...)``, called with these macros, the function's name and the bracketed text
    """

    def __init__(
        self, automatic: Mapping[str, str], functions: Mapping[str, Function], environment: Mapping[str, str]
    ) -> None:
        self.definitions: dict[str, Definition] = {}
        self.ad: ClassAd | None = None
        """The ad in which functions evaluate their arguments, if any."""
        self.names_used: set[str] = set()  # the lower-case names that were looked up
        self.environment = environment
        self._automatic = automatic
        self._functions = functions
        self._function_names = frozenset(functions) | {"ENV"}
        self._variables: Mapping[str, str] = {}
        self._expanding: list[str] = []
        self._expanded: dict[str, str] = {}
        self._draw_count = 0
        self._in_template = False

    def define(self, definition: Definition) -> None:
        """Add a definition; replace references to its own name with the current value."""
        key = definition.name.lower()
        value = definition.value
        if "$" in value:
            value = self._replace_own_name(value, key)
        self.definitions[key] = Definition(definition.name, value, definition.line, definition.source)
        self._expanded.clear()

    def append_value(self, name: str, separator: str, value: str) -> str:
        """Return the result of ``name += value``.

        :param separator: the text between ``+`` and ``=``
        """
        current = self.lookup(name)
        if not current:
            return value
        return f"{current}{f' {separator} ' if len(separator) == 2 else separator or ' '}{value}"

    def _replace_own_name(self, value: str, key: str) -> str:
        parts, position = [], 0
        for macro in macros_in(value, self._function_names):
            if not macro.function and macro.body.lower() == key:
                self.names_used.add(key)
                parts += [value[position : macro.start], self._lookup(key) or macro.default or ""]
                position = macro.end
        return "".join([*parts, value[position:]])

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set the queue statement's variables for one job, by lower-case name."""
        self._variables = variables
        self._expanded.clear()

    def lookup(self, name: str) -> str | None:
        """Return the unexpanded value of a name, or None if it is not defined."""
        key = name.lower()
        self.names_used.add(key)
        return self._lookup(key)

    def _lookup(self, key: str) -> str | None:
        value = self._variables.get(key)
        if value is not None:
            return value
        definition = self.definitions.get(key)
        return self._automatic.get(key) if definition is None else definition.value

    def value(self, name: str) -> str | None:
        """Return the expanded value of a name, or None if undefined; raise MacroError for a circular macro."""
        return None if self.lookup(name) is None else self._replace_dollar_macros(self._expand_name(name))

    def expand(self, text: str) -> str:
        """Return a text with all macros expanded; raise MacroError for a circular macro or an invalid argument."""
        if "$" not in text:
            return text
        return self._replace_dollar_macros(self._expand_except_dollar(text))

    def _expand_except_dollar(self, text: str) -> str:
        if "$" not in text:
            return text
        if len(self._expanding) > MAX_DEPTH:
            raise MacroError(
                f"macros refer to each other more than {MAX_DEPTH} levels deep, starting with $({self._expanding[0]})"
            )
        for _ in range(MAX_DEPTH):
            expanded = self._expand_once(text)
            if expanded == text or "$" not in expanded:
                return expanded
            text = expanded  # a value may complete an outer macro, as in $($(name))
        raise MacroError(f"expanding macros forms new ones more than {MAX_DEPTH} times: {text[:100]}")

    def _expand_once(self, text: str) -> str:
        parts: list[str] = []
        position = length = 0
        for macro in macros_in(text, self._function_names):
            if not macro.function and macro.body.lower() == "dollar" and macro.default is None:
                continue
            if (
                parts
                and macro.start == position
                and self._completes_dollar_macro(parts[-1], text[macro.start : macro.end])
            ):
                continue
            value = self._expand_macro(macro)
            parts += [text[position : macro.start], value]
            position = macro.end
            length += len(value)
            if length > MAX_LENGTH:
                raise MacroError(f"a value grows beyond {MAX_LENGTH // 1_000_000} million characters when expanded")
        parts.append(text[position:])
        return "".join(parts)

    def _completes_dollar_macro(self, preceding: str, macro: str) -> bool:
        """Check whether a value that ends in a dollar sign turns the macro directly after it into ``$$(...)``."""
        dollars = len(preceding) - len(preceding.rstrip("$"))
        first = next(iter(macros_in("$" * dollars + macro, self._function_names)), None)
        return dollars > 0 and (first is None or first.start != dollars)

    def _expand_macro(self, macro: Macro) -> str:
        if macro.function and macro.function != "ENV":
            function = self._functions["F" if macro.function not in self._functions else macro.function]
            value = function(self, macro.function, macro.body)
            if OPEN_MARK in value:
                raise TemplateImpossible
            return value
        if macro.function:
            default = "UNDEFINED" if macro.default is None else macro.default
            return self.environment.get(macro.body, default)
        value = self._expand_name(macro.body)
        if not value and macro.default is not None:
            return self._expand_value(macro.default, f"{macro.body}:{macro.default}")
        if OPEN_MARK in value and macro.default is not None:
            raise TemplateImpossible  # whether the default is used depends on the job
        return value

    def _expand_name(self, name: str) -> str:
        key = name.lower()
        self.names_used.add(key)
        expanded = self._expanded.get(key)
        if expanded is None:
            value, draw_count = self._lookup(key), self._draw_count
            expanded = self._expand_value(value, key) if value else ""
            if draw_count == self._draw_count:
                self._expanded[key] = expanded
        return expanded

    def record_draw(self) -> None:
        """Record that a function draws a random number, so that its result is neither cached nor used in a template."""
        self._draw_count += 1
        if self._in_template:
            raise TemplateImpossible

    def _expand_value(self, value: str, name: str) -> str:
        if "$" not in value:
            return value
        if name in self._expanding:
            circle = [*self._expanding[self._expanding.index(name) :], name]
            raise CircularMacroError(f"circular macros: {' -> '.join(f'$({macro})' for macro in circle)}")
        self._expanding.append(name)
        try:
            return self._expand_except_dollar(value)
        finally:
            self._expanding.pop()

    def _replace_dollar_macros(self, text: str) -> str:
        """Replace each ``$(DOLLAR)``, except after a dollar sign, because ``$$(...)`` is expanded later."""
        return _DOLLAR_MACROS.sub(lambda match: match[1] or f"${match[2] or ''}", text) if "$" in text else text

    def template(self, text: str, open_variables: Sequence[str]) -> list[str | int] | None:
        """Return an expanded text as literal pieces and indexes into ``open_variables``.

        :returns: None if the text uses these variables other than by simply inserting them
        """
        self.set_variables({name: f"{OPEN_MARK}{index}{OPEN_MARK}" for index, name in enumerate(open_variables)})
        self._in_template = True
        try:
            expanded = self._expand_except_dollar(text)
        except TemplateImpossible:
            return None
        finally:
            self._in_template = False
            self._expanding.clear()
            self.set_variables({})
        if OPEN_MARK not in expanded:
            return [self._replace_dollar_macros(expanded)]
        if "$" in expanded:
            return None  # a job's value might complete a macro
        pieces = expanded.split(OPEN_MARK)
        return [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
