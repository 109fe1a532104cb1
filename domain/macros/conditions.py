"""Evaluate ``if``, ``elif``, ``else`` and ``endif``, which select lines.

Source: the manual's page "Submitting a Job", section "Using Conditionals in the Submit Description File". A condition
is a boolean, a number, ``defined NAME`` or ``version >= x.y.z``, each also after ``!``; conditions cannot be combined.
"""

from __future__ import annotations

import operator
import re

from .macro_errors import MacroError
from .macros import VALID_NAME, Macros

_KEYWORD = re.compile(r"(if|elif|else|endif)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_VERSION = r"(?i)version\s*(==|!=|>=|<=|=|>|<)\s*[vV]?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?"
_VERSION_NUMBERS = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")
_BOOLEANS = {"true": True, "yes": True, "t": True, "false": False, "no": False, "f": False}
_COMPARE = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
MAX_NESTING = 62


class _Block:
    """An open ``if``, its line, and whether its current branch or any branch is selected, and ``else`` was reached."""

    def __init__(self, selected: bool, line: int) -> None:
        self.selected = selected
        self.any_selected = selected
        self.is_else = False
        self.line = line


class Conditions:
    """The ``if`` blocks around the current line. ``version`` is the text of CondorVersion, for ``version >=``."""

    def __init__(self, macros: Macros, version: str) -> None:
        self._macros = macros
        self._version = _VERSION_NUMBERS.search(version)
        self._blocks: list[_Block] = []

    @property
    def selected(self) -> bool:
        return all(block.selected for block in self._blocks)

    @property
    def inside_if(self) -> bool:
        return bool(self._blocks)

    def process(self, text: str, line: int) -> bool:
        """Process a line that begins with a keyword, and return True; return False for any other line.

        :raises MacroError: if the line is invalid
        """
        match = _KEYWORD.fullmatch(text)
        if match is None:
            return False
        keyword, condition = match[1].lower(), (match[2] or "").strip()
        if keyword == "if":
            if len(self._blocks) == MAX_NESTING:
                raise MacroError(f"if blocks nest more than {MAX_NESTING} levels deep", line)
            self._blocks.append(_Block(self.selected and self._evaluate(condition, line), line))
        elif not self._blocks:
            raise MacroError(f"{keyword} without an if before it", line)
        elif keyword == "endif":
            self._blocks.pop()
        else:
            self._branch(keyword, condition, line)
        return True

    def _branch(self, keyword: str, condition: str, line: int) -> None:
        block = self._blocks[-1]
        if block.is_else:
            raise MacroError(f"{keyword} after else; else is the last branch of an if", line)
        reachable = all(outer.selected for outer in self._blocks[:-1])
        block.is_else = keyword == "else"
        block.selected = reachable and not block.any_selected and (block.is_else or self._evaluate(condition, line))
        block.any_selected |= block.selected

    def check_closed(self) -> None:
        """Raise MacroError if an ``if`` is still open at the end of the text."""
        if self._blocks:
            raise MacroError("this if has no endif", self._blocks[-1].line)

    def _evaluate(self, condition: str, line: int) -> bool:
        expanded = self._macros.expand(condition).strip()
        negated = expanded.startswith("!")
        text = expanded[1:].strip() if negated else expanded
        if not text and "$" in condition:
            return negated
        value = self._evaluate_simple(text)
        if value is None:
            allowed = "true, false, a number, 'defined NAME' or 'version >= x.y.z', each also after '!'"
            raise MacroError(f"'{condition}' is not a condition; use {allowed}", line)
        return value != negated

    def _evaluate_simple(self, text: str) -> bool | None:
        if re.fullmatch(_NUMBER, text):
            return float(text) != 0
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        if re.match(r"defined(?!\S)", text, re.IGNORECASE):
            return self._is_defined(text[len("defined") :].strip())
        version = re.fullmatch(_VERSION, text)
        if version is not None and self._version is not None:
            own = [int(part) for part in self._version.groups()]
            compared = [int(part or default) for part, default in zip(version.groups()[1:], own, strict=True)]
            return bool(_COMPARE[version[1]](own, compared))
        return None

    def _is_defined(self, name: str) -> bool | None:
        if not name:
            return False
        if re.fullmatch(_NUMBER, name) or name.lower() in ("true", "false"):
            return True
        return bool(self._macros.lookup(name)) if VALID_NAME.fullmatch(name) else None
