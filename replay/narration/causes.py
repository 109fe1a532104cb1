"""The words for each cause that an event may name, and for each flag of a claim: one table of each (``causes.txt``)."""

from __future__ import annotations

from pkgutil import get_data
from typing import Final

from .tables import tables

_TABLES: Final = tables(get_data(__package__, "causes.txt"))
_WORDS: Final = _TABLES["causes"]
NOBODY: Final = {"by": "somebody", "thing": "the slot or job"}
"""What stands in the words of a cause where nothing is known of who asked, and for what."""
CAUSES: Final[dict[str, str]] = {cause: words.format_map(NOBODY) for cause, words in _WORDS.items()}
"""Every cause of ``events.CAUSE_CODES`` with its words."""
CLAIM_FLAGS: Final = _TABLES["flags"]  #: every flag of a claim with its words


def cause_words(cause: str, **asked: str) -> str:
    """Put a cause into words; ``by`` and ``thing``: who asked for it, and of what. An unknown cause stays as it is."""
    words = _WORDS.get(cause)
    return cause if words is None else words.format_map({**NOBODY, **asked})
