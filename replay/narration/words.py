"""The words of ``why``: for each kind of a sentence, named by its code, a template of its facts (``templates``).

They are in ``sentences.txt``, those of the rows of slots and drains in ``slot_sentences.txt``: to change a sentence of
``why``, change it there. The words for causes are in ``causes``.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Final

from ...domain.state_machines import activity
from .tables import tables

_TABLES: Final = tables(get_data(__package__, "sentences.txt"))
_SLOTS: Final = tables(get_data(__package__, "slot_sentences.txt"))
_MOVED: Final = "[ ({values})]<<[; {evidence}] ({source} -> {target} by {row})>>."
"""How every sentence on a transition of a slot ends."""
WORDS: Final[dict[str, str]] = {
    **{code: words for table in _TABLES.values() for code, words in table.items()},
    **{f"row {key}": f"{words}{_MOVED}" for key, words in _SLOTS["rows"].items()},
    **{f"drain {row}": f"{words}." for row, words in _SLOTS["drain"].items()},
}
"""Every code of a sentence with its words."""
ADVICE: Final = frozenset(_TABLES["advice"])  #: the codes of what the reader can do

EXPLAINS: Final = frozenset(" ".join(_SLOTS["explains"].values()).split())
"""The steps of a slot (``step_name``) that explain what came after them."""
UNDOES: Final = {step: frozenset(undone.split()) for step, undone in _SLOTS["undoes"].items()}
"""The steps that a later step undoes, by that."""


def row_code(row: str, target: str, cause: str, job: str) -> str:
    """Name the sentence of a slot's transition: the most specific one that the table has for the row, the activity to
    which it leads, its cause, and whether the slot has a job."""
    place = f"{row}/{activity(target)}"
    keys = (f"{place} {cause}", f"{row} {cause}", *([] if job else [f"{row} idle"]), place, row)
    return next((f"row {key}" for key in keys if f"row {key}" in WORDS), "slot_moved")


def step_name(code: str) -> str:
    """Return the row that a code of a sentence is about, such as "10" of "row 10/Killing", with its cause if only that
    undoes steps; any other code is returned as it is."""
    kind, _, key = code.partition(" ")
    if kind not in ("row", "drain"):
        return code
    return key if key in UNDOES else key.partition(" ")[0].partition("/")[0]
