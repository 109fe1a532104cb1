"""The error of both languages."""

from __future__ import annotations

from ..errors import PoolbookError


class MacroError(PoolbookError):
    """A text cannot be taken: what is wrong, by which rule, and what to do.

    :ivar line: the number of the text's line at fault, from 1; None where no one line is
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line
