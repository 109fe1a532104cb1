"""Evaluate ``if``, ``elif``, ``else`` and ``endif``, which select the lines that count.

Source: the manual's page "Submitting a Job", section "Using Conditionals in the Submit Description File". A condition
is a boolean, a number, ``defined NAME``, ``version >= x.y.z``, or one of them after ``!``; nothing compound.
"""

from __future__ import annotations

import operator
import re

from .macro_errors import MacroError
from .macros import VALID_NAME, Macros

_KEYWORD = re.compile(r"(if|elif|else|endif)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_VERSION = re.compile(
    r"version\s*(==|!=|>=|<=|=|>|<)\s*[vV]?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?", re.IGNORECASE
)
_OWN_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")
_WORDS = {"true": True, "yes": True, "t": True, "false": False, "no": False, "f": False}
_COMPARE = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
MAX_NESTING = 62


class _Block:
    """One ``if``: whether its present branch counts, whether one did already, whether ``else`` was seen, its line."""

    def __init__(self, live: bool, line: int) -> None:
        self.live = live
        self.done = live
        self.otherwise = False
        self.line = line


class Conditions:
    """The ``if`` blocks around the present line; ``version`` is the text of CondorVersion."""

    def __init__(self, macros: Macros, version: str) -> None:
        self._macros = macros
        self._version = _OWN_VERSION.search(version)
        self._blocks: list[_Block] = []

    @property
    def live(self) -> bool:
        return all(block.live for block in self._blocks)

    @property
    def inside(self) -> bool:
        return bool(self._blocks)

    def take(self, text: str, line: int) -> bool:
        """Process a line with one of the four keywords, else return False; raise MacroError for an error in it."""
        match = _KEYWORD.fullmatch(text)
        if match is None:
            return False
        word, condition = match[1].lower(), (match[2] or "").strip()
        if word == "if":
            if len(self._blocks) == MAX_NESTING:
                raise MacroError(f"if blocks nest more than {MAX_NESTING} deep", line)
            self._blocks.append(_Block(self.live and self._holds(condition, line), line))
        elif not self._blocks:
            raise MacroError(f"{word} without an if before it", line)
        elif word == "endif":
            self._blocks.pop()
        else:
            self._branch(word, condition, line)
        return True

    def _branch(self, word: str, condition: str, line: int) -> None:
        block = self._blocks[-1]
        if block.otherwise:
            raise MacroError(f"{word} after else; else is the last branch of an if", line)
        around = all(outer.live for outer in self._blocks[:-1])
        block.otherwise = word == "else"
        block.live = around and not block.done and (block.otherwise or self._holds(condition, line))
        block.done |= block.live

    def end(self) -> None:
        """Check at the end of the text that no ``if`` is open; raise MacroError where one is."""
        if self._blocks:
            raise MacroError("this if has no endif", self._blocks[-1].line)

    def _holds(self, condition: str, line: int) -> bool:
        expanded = self._macros.expand(condition).strip()
        negated = expanded.startswith("!")
        text = expanded[1:].strip() if negated else expanded
        if not text and "$" in condition:
            return negated
        value = self._simple(text)
        if value is None:
            allowed = "true, false, a number, 'defined NAME' or 'version >= x.y.z', each also after '!'"
            raise MacroError(f"'{condition}' is no condition; it must be {allowed}", line)
        return value != negated

    def _simple(self, text: str) -> bool | None:
        if _NUMBER.fullmatch(text):
            return float(text) != 0
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if re.match(r"defined(?!\S)", text, re.IGNORECASE):
            return self._defined(text[len("defined") :].strip())
        version = _VERSION.fullmatch(text)
        if version is not None and self._version is not None:
            mine = [int(part) for part in self._version.groups()]
            theirs = [int(part) if part else own for part, own in zip(version.groups()[1:], mine, strict=True)]
            return bool(_COMPARE[version[1]](mine, theirs))
        return None

    def _defined(self, name: str) -> bool | None:
        if not name:
            return False
        if _NUMBER.fullmatch(name) or name.lower() in ("true", "false"):
            return True
        return bool(self._macros.lookup(name)) if VALID_NAME.fullmatch(name) else None
