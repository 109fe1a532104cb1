"""Suggest names for a misspelled one: every "did you mean" comes from here.

``close_names`` serves someone who asked for a name that does not exist: it gives the likeliest names, however far.
``NearMisses`` serves names that may well be right: it finds only one letter too many, too few or wrong, or two swapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def close_names(word: str, known: Iterable[str], most: int = 3, likeness: float = 0.6) -> list[str]:
    """Return the known names that are spelled most like a word, the likest first; case does not count.

    :param likeness: the least likeness, from 0 to 1, as ``difflib`` measures it
    """
    from difflib import get_close_matches  # a command whose names all exist starts without it

    spelled = {name.lower(): name for name in known}
    return [spelled[name] for name in get_close_matches(word.lower(), spelled, most, likeness)]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", most: int = 3, likeness: float = 0.6) -> str:
    """Return "did you mean" with the known names spelled most like a word; without any, ``otherwise``."""
    close = close_names(word, known, most, likeness)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


class NearMisses:
    """Finds names by near misses of their ``names``: the spellings to compare, each with the name to suggest."""

    LEAST_LETTERS = 4

    def __init__(self, names: Mapping[str, str]) -> None:
        self._of_length: dict[int, list[tuple[str, str]]] = {}
        for key, name in names.items():
            self._of_length.setdefault(len(key), []).append((key, name))
        self._indexes: dict[int, dict[str, list[str]]] = {}

    def suggested(self, word: str) -> str | None:
        """Return the first name that a word is a near miss of; None if there is none."""
        if len(word) < self.LEAST_LETTERS - 1:  # KIL is KILL
            return None
        indexes = [self._index(length) for length in range(len(word) - 1, len(word) + 2)]
        return next((name for part in _shortened(word) for index in indexes for name in index.get(part, ())), None)

    def _index(self, length: int) -> dict[str, list[str]]:
        """Return the names of so many letters, by what is left of them without one, which takes long to make."""
        index = self._indexes.get(length)
        if index is None:
            index = self._indexes[length] = {}
            if length >= self.LEAST_LETTERS:
                for key, name in self._of_length.get(length, ()):
                    for part in _shortened(key):
                        index.setdefault(part, []).append(name)
        return index


def _shortened(word: str) -> Iterator[str]:
    """Yield the word, and the word without each of its letters in turn."""
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
