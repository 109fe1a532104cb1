"""Hold macros: the definitions of a description, and the expansion of ``$(name)``.

The rules are those of the manual's pages "Submitting a Job" (Variables in the Submit Description File; Function Macros)
and "Introduction to Configuration" (Macros That Will Be Expanded). A variable of the queue statement goes before a
definition, and that before an automatic variable. A value is expanded when it is used; only a reference to the name
being defined is replaced at once. ``$$(...)`` is kept: the machine of the job's match fills it in.

In a *template*, a value's text, the variables that differ from job to job are left open: 100,000 jobs then cost one
expansion and 100,000 formattings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .macro_errors import MacroError

if TYPE_CHECKING:
    from ..classad import ClassAd

# The start of a macro, and the body of one whose name may be followed by a default.
_START = re.compile(r"\$(\$?)([A-Za-z0-9_]*)(\(?)")
_NAME = re.compile(r"[A-Za-z0-9_./]*")
_DEFAULT = re.compile(r"[A-Za-z0-9_./$ ,\\:]*")
_DOLLARS = re.compile(r"(\$\$\w*)|\$\(dollar\)(?:\(dollar\))*(\$\w*)?", re.IGNORECASE | re.ASCII)
VALID_NAME = re.compile(r"[A-Za-z0-9_./]+")

# Beyond these a description is a mistake or an attack; both are far above what a program would generate.
MAX_DEPTH = 100
MAX_LENGTH = 64_000_000
MAX_SCANNED = 4_000_000  # characters of defaults scanned, some of them repeatedly

# Encloses the number of an open variable in a template. No description holds it: see lines.py.
OPEN = "\0"


class CircleError(MacroError):
    """A macro leads back to itself."""


class Open(Exception):
    """A text depends on a variable that differs from job to job in a way that a template cannot hold."""


class Definition(Struct, frozen=True):
    """One line ``name = value``; ``line`` is None where it came from elsewhere than the description."""

    name: str
    value: str
    line: int | None = None
    source: str = ""


class Macro(Struct, frozen=True):
    """A macro in a text, from ``start`` to ``end``; ``function`` is empty for ``$(name)``."""

    start: int
    end: int
    function: str
    body: str
    default: str | None


def macros_in(text: str, functions: frozenset[str]) -> Iterator[Macro]:
    """Yield the macros of a text from left to right, none nested; raise MacroError where scanning takes too long."""
    at, close, scanned = 0, -1, 0
    while (start := _START.search(text, at)) is not None:
        at = start.end()
        dollar, function, bracket = start.groups()
        if not bracket or dollar or (function and function not in functions and not _is_file_function(function)):
            continue
        if close < at:
            close = text.find(")", at)
        if close < 0:
            return
        if function and function != "ENV":
            yield Macro(start.start(), close + 1, function, text[at:close], None)
            at = close + 1
            continue
        end, default_at = _body_end(text, at, close)
        scanned += 0 if default_at is None else end - default_at
        if scanned > MAX_SCANNED:
            raise MacroError("the macro references of a value nest too deeply; write them in a simpler way")
        if end < len(text) and text[end] == ")":
            name_end = end if default_at is None else default_at - 1
            default = None if default_at is None else text[default_at:end]
            yield Macro(start.start(), end + 1, function, text[at:name_end], default)
            at = end + 1


def _is_file_function(function: str) -> bool:
    return function[0] == "F" and not function[1:].lower().strip("pnxdqabfwu")


def _body_end(text: str, at: int, close: int) -> tuple[int, int | None]:
    """Return where the body from ``at`` ends (on its bracket, if well formed), and where its default starts."""
    end = _NAME.match(text, at).end()  # type: ignore[union-attr]
    if text[end : end + 1] != ":":
        return end, None
    default_at = end + 1
    end = _DEFAULT.match(text, default_at).end()  # type: ignore[union-attr]
    while text[end : end + 1] == "(":
        bracket = close if close > end else text.find(")", end)
        if bracket < 0:
            break
        end = _DEFAULT.match(text, bracket + 1).end()  # type: ignore[union-attr]
    return end, default_at


Function = Callable[["Macros", str, str], str]


class Macros:
    """The definitions of a description, at one moment of reading it.

    :param automatic: the variables that every description has, by lower-case name
    :param functions: the functions ``$NAME(...)``: called with these macros, the name and the text in the brackets
    """

    def __init__(
        self, automatic: Mapping[str, str], functions: Mapping[str, Function], environment: Mapping[str, str]
    ) -> None:
        self.definitions: dict[str, Definition] = {}
        self.ad: ClassAd | None = None
        """The ad in which functions evaluate their arguments, if there is one."""
        self.used: set[str] = set()  # the names, in lower case, to which something refers
        self.environment = environment
        self._automatic = automatic
        self._functions = functions
        self._function_names = frozenset(functions) | {"ENV"}
        self._variables: Mapping[str, str] = {}
        self._expanding: list[str] = []
        self._known: dict[str, str] = {}
        self._drawn = 0
        self._templating = False

    # -- definitions -------------------------------------------------------------------------------------------------

    def define(self, definition: Definition) -> None:
        """Add a definition; replace its own name in it by the value so far."""
        key = definition.name.lower()
        value = definition.value
        if "$" in value:
            value = self._without_itself(value, key)
        self.definitions[key] = Definition(definition.name, value, definition.line, definition.source)
        self._known.clear()

    def appended(self, name: str, separator: str, value: str) -> str:
        """Return what ``name += value`` makes of a name's value so far; the separator stood between the signs."""
        before = self.lookup(name)
        if not before:
            return value
        return f"{before}{f' {separator} ' if len(separator) == 2 else separator or ' '}{value}"

    def _without_itself(self, value: str, key: str) -> str:
        out, at = [], 0
        for macro in macros_in(value, self._function_names):
            if not macro.function and macro.body.lower() == key:
                self.used.add(key)
                out += [value[at : macro.start], self._lookup(key) or macro.default or ""]
                at = macro.end
        return "".join([*out, value[at:]])

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set the variables of the queue statement for one job, by lower-case name."""
        self._variables = variables
        self._known.clear()

    def lookup(self, name: str) -> str | None:
        """Return a name's value, unexpanded; None where it is not defined."""
        key = name.lower()
        self.used.add(key)
        return self._lookup(key)

    def _lookup(self, key: str) -> str | None:
        value = self._variables.get(key)
        if value is not None:
            return value
        definition = self.definitions.get(key)
        return self._automatic.get(key) if definition is None else definition.value

    def value(self, name: str) -> str | None:
        """Return a name's value, expanded, or None; raise MacroError for a circular macro."""
        return None if self.lookup(name) is None else self._dollars(self._named(name))

    # -- expansion ---------------------------------------------------------------------------------------------------

    def expand(self, text: str) -> str:
        """Return a text with all macros replaced; raise MacroError for a circular macro or a wrong argument."""
        if "$" not in text:
            return text
        return self._dollars(self._expand_but_dollars(text))

    def _expand_but_dollars(self, text: str) -> str:
        """Expand a text, but leave ``$(DOLLAR)`` as it is."""
        if "$" not in text:
            return text
        if len(self._expanding) > MAX_DEPTH:
            raise MacroError(
                f"macros lead more than {MAX_DEPTH} deep into each other, beginning with $({self._expanding[0]})"
            )
        for _ in range(MAX_DEPTH):
            expanded = self._expanded_once(text)
            if expanded == text or "$" not in expanded:
                return expanded
            text = expanded  # a value may form a macro with the text around it: $($(name))
        raise MacroError(f"macros form others more than {MAX_DEPTH} times: {text[:100]}")

    def _expanded_once(self, text: str) -> str:
        out: list[str] = []
        at = length = 0
        for macro in macros_in(text, self._function_names):
            if not macro.function and macro.body.lower() == "dollar" and macro.default is None:
                continue
            if out and macro.start == at and self._is_kept(out[-1], text[macro.start : macro.end]):
                continue
            value = self._value_of(macro)
            out += [text[at : macro.start], value]
            at = macro.end
            length += len(value)
            if length > MAX_LENGTH:
                raise MacroError(f"a value grows beyond {MAX_LENGTH // 1_000_000} million characters when expanded")
        out.append(text[at:])
        return "".join(out)

    def _is_kept(self, before: str, macro: str) -> bool:
        """Return whether a value that ends in a dollar turns the macro right behind it into a ``$$`` one."""
        dollars = len(before) - len(before.rstrip("$"))
        first = next(iter(macros_in("$" * dollars + macro, self._function_names)), None)
        return dollars > 0 and (first is None or first.start != dollars)

    def _value_of(self, macro: Macro) -> str:
        if macro.function and macro.function != "ENV":
            function = self._functions["F" if macro.function not in self._functions else macro.function]
            value = function(self, macro.function, macro.body)
            if OPEN in value:
                raise Open
            return value
        if macro.function:
            default = "UNDEFINED" if macro.default is None else macro.default
            return self.environment.get(macro.body, default)
        value = self._named(macro.body)
        if not value and macro.default is not None:
            return self._nested(macro.default, f"{macro.body}:{macro.default}")
        if OPEN in value and macro.default is not None:
            raise Open  # whether the default is wanted depends on the job
        return value

    def _named(self, name: str) -> str:
        key = name.lower()
        self.used.add(key)
        known = self._known.get(key)
        if known is None:
            value, drawn = self._lookup(key), self._drawn
            known = self._nested(value, key) if value else ""
            if drawn == self._drawn:
                self._known[key] = known
        return known

    def draws(self) -> None:
        """Note that a function draws: its result is drawn again at the next use, and for each job."""
        self._drawn += 1
        if self._templating:
            raise Open

    def _nested(self, value: str, name: str) -> str:
        if "$" not in value:
            return value
        if name in self._expanding:
            circle = [*self._expanding[self._expanding.index(name) :], name]
            raise CircleError(f"macros lead back to themselves: {' -> '.join(f'$({macro})' for macro in circle)}")
        self._expanding.append(name)
        try:
            return self._expand_but_dollars(value)
        finally:
            self._expanding.pop()

    def _dollars(self, text: str) -> str:
        """Replace each ``$(DOLLAR)``, but not behind a dollar, be it a replaced one: ``$$(...)`` is the slot's."""
        return _DOLLARS.sub(lambda found: found[1] or f"${found[2] or ''}", text) if "$" in text else text

    # -- templates ---------------------------------------------------------------------------------------------------

    def template(self, text: str, open_variables: Sequence[str]) -> list[str | int] | None:
        """Return a text as literal pieces and, for each open variable in it, its index in ``open_variables``.

        :returns: None where the text depends on them in another way than by containing them
        """
        self.set_variables({name: f"{OPEN}{index}{OPEN}" for index, name in enumerate(open_variables)})
        self._templating = True
        try:
            expanded = self._expand_but_dollars(text)
        except Open:
            return None
        finally:
            self._templating = False
            self._expanding.clear()
            self.set_variables({})
        if OPEN not in expanded:
            return [self._dollars(expanded)]
        if "$" in expanded:
            return None  # a job's value might complete a macro
        pieces = expanded.split(OPEN)
        return [int(piece) if odd % 2 else piece for odd, piece in enumerate(pieces)]
