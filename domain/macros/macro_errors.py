"""Define the error of both languages."""

from __future__ import annotations

from ..errors import PoolbookError


class MacroError(PoolbookError):
    """A text is refused at ``line`` (from 1; None where no one line is at fault): the fault, the rule, what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line
