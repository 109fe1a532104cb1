"""Suggest corrections for misspelled names, for every "did you mean" message.

``close_names`` is for names that do not exist, so it returns the most similar names even if they differ a lot.
``NearMisses`` is for names that may be correct, so it finds only an added, missing or wrong letter, or two swapped
letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def close_names(word: str, known: Iterable[str], most: int = 3, min_similarity: float = 0.6) -> list[str]:
    """Return the known names that are most similar to a word, the most similar first; ignore case.

    :param min_similarity: the minimum similarity, from 0 to 1, as ``difflib`` measures it
    """
    from difflib import get_close_matches  # imported only for unknown names, to keep the start fast

    spelled = {name.lower(): name for name in known}
    return [spelled[name] for name in get_close_matches(word.lower(), spelled, most, min_similarity)]


def did_you_mean(
    word: str, known: Iterable[str], otherwise: str = "", most: int = 3, min_similarity: float = 0.6
) -> str:
    """Return "did you mean" with the known names most similar to a word; ``otherwise`` if no name is similar."""
    close = close_names(word, known, most, min_similarity)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


class NearMisses:
    """An index that finds misspelled names. ``names`` maps each spelling to the name to suggest for it."""

    MIN_LETTERS = 4

    def __init__(self, names: Mapping[str, str]) -> None:
        self._of_length: dict[int, list[tuple[str, str]]] = {}
        for key, name in names.items():
            self._of_length.setdefault(len(key), []).append((key, name))
        self._indexes: dict[int, dict[str, list[str]]] = {}

    def suggested(self, word: str) -> str | None:
        """Return the first name from which a word differs by one typing error, or None if there is none."""
        if len(word) < self.MIN_LETTERS - 1:  # KIL is still a misspelling of KILL
            return None
        indexes = [self._index(length) for length in range(len(word) - 1, len(word) + 2)]
        return next((name for part in _shortened(word) for index in indexes for name in index.get(part, ())), None)

    def _index(self, length: int) -> dict[str, list[str]]:
        """Return the names of a length, by spelling and by spelling minus one letter; slow, so built on demand."""
        index = self._indexes.get(length)
        if index is None:
            index = self._indexes[length] = {}
            if length >= self.MIN_LETTERS:
                for key, name in self._of_length.get(length, ()):
                    for part in _shortened(key):
                        index.setdefault(part, []).append(name)
        return index


def _shortened(word: str) -> Iterator[str]:
    """Yield the word, and the word without each of its letters in turn."""
    yield word
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
