"""Define the error of a scenario."""

from __future__ import annotations


class PlayError(Exception):
    """A scenario cannot be read or played; the text says why and what to do.

    :ivar line: the number of the line at fault, from 1; 0 if there is none
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.message = message
        self.line = line
