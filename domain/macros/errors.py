"""Define the error of both languages."""

from __future__ import annotations

from ..errors import PoolbookError


class MacroError(PoolbookError):
    """A text is refused: the fault, the rule, and what to do.

    :ivar line: the number of the line at fault, from 1; None where no one line is
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line
