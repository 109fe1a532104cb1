"""Define the error in a submit description or configuration."""

from __future__ import annotations

from ..errors import PoolbookError


class MacroError(PoolbookError):
    """An error in a text. The message contains the rule and the fix.

    :ivar line: the number of the invalid line, from 1, or None if no single line is invalid
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line
