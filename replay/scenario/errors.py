"""How a scenario says no."""

from __future__ import annotations


class PlayError(Exception):
    """A scenario cannot be read or played: what is wrong, by which rule, and what to do.

    :ivar line: the number of the line at fault, from 1; 0 where no line is
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.message = message
        self.line = line
