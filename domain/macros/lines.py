"""Cut a text into logical lines: trimmed, without comments, continuations joined.

Source: the manual's pages "Submit Description File Commands" and "Introduction to Configuration"; HTCondor's reader
where these are silent: a comment never continues, and one amid a continued line is left out of it.
"""

from __future__ import annotations

from .errors import MacroError

_BLANKS = " \t\r\n\v\f"


class Lines:
    """The lines of one text; ``name`` is its file's, empty for the description itself.

    :raises MacroError: where a line holds a NUL, which no ad, path or command line can carry
    """

    def __init__(self, text: str, name: str = "") -> None:
        self.name = name
        self.number = 0
        self._lines = text.split("\n")
        if "\0" in text:
            number = text.count("\n", 0, text.index("\0")) + 1
            raise MacroError(f"{name or 'the description'} holds a NUL character; it must be plain text", number)

    def physical(self) -> str | None:
        """Return the next line as it stands, blanks trimmed; None at the end."""
        if self.number == len(self._lines):
            return None
        self.number += 1
        return self._lines[self.number - 1].strip(_BLANKS)

    def logical(self) -> tuple[int, str] | None:
        """Return the next line that is neither blank nor a comment, with the number of its first physical line."""
        while (line := self.physical()) is not None:
            if line and not line.startswith("#"):
                return self.number, self._continued(line)
        return None

    def _continued(self, line: str) -> str:
        parts = [line]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            following = self.physical()
            if following is None:
                break
            if following.startswith("#"):
                following = "\\" if following.endswith("\\") else ""
            parts.append(following)
        return "".join(parts)
