"""The sentences and phrases of ``why``, which are data files: to change one, change it there.

``sentences.txt`` has a template for each kind of sentence, by its code (``sentences.fill`` puts the facts in),
``slot_sentences.txt`` those for the rows of slots and drains, ``causes.txt`` a phrase for each cause that an event may
name and for each flag of a claim, ``rejections.txt`` the words for what keeps a job from a slot.
"""

from __future__ import annotations

from typing import Final

from ...domain.package_data import get_data, lines
from ...domain.state_machines import HOLD_CODES, activity
from ...domain.state_machines.hold_codes import VACATE_CODES


def tables(data: bytes) -> dict[str, dict[str, str]]:
    """Return the tables of a data file by their headings, ``[heading]``, each with its lines ``name: words``. A line
    that begins with ``#`` is a comment."""
    sections: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in lines(data):
        if line.startswith("["):
            table = sections[line[1:-1]] = {}
        elif line and not line.startswith("#"):
            name, _, text = line.partition(": ")
            table[name] = text
    return sections


_TABLES: Final = tables(get_data(__package__, "sentences.txt"))
_SLOTS: Final = tables(get_data(__package__, "slot_sentences.txt"))
REPORTS: Final = _SLOTS["reports"]  #: what a startd or schedd of a real pool reports of a slot, with its words
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
"""The steps of a slot (``step_name``) that explain the later ones."""
UNDOES: Final = {step: frozenset(undone.split()) for step, undone in _SLOTS["undoes"].items()}
"""The steps that a later step undoes, by that."""

_CAUSES: Final = tables(get_data(__package__, "causes.txt"))
UNNAMED: Final = {"by": "a user", "thing": "the slot or job"}
"""The words for who asked and for what, if no record names them."""
CAUSES: Final[dict[str, str]] = {cause: words.format_map(UNNAMED) for cause, words in _CAUSES["causes"].items()}
"""Every cause of ``events.CAUSE_CODES`` with its words."""
REJECTIONS: Final = tables(get_data(__package__, "rejections.txt"))
"""The words for what keeps a job from a slot, and a machine from a drain."""
CLAIM_FLAGS: Final = _CAUSES["flags"]  #: every flag of a claim with its words


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


def cause_words(cause: str, **placeholders: str) -> str:
    """Return a cause in words; ``by`` is the user who requested it, ``thing`` its object. An unknown cause is
    unchanged."""
    text = _CAUSES["causes"].get(cause)
    return cause if text is None else text.format_map({**UNNAMED, **placeholders})


def code_words(number: str) -> str:
    """Name a code of a hold or an eviction; empty for none."""
    if not number.isdecimal() or number == "0":
        return ""
    code = HOLD_CODES.get(int(number)) or VACATE_CODES.get(int(number))
    return f"code {number}, {code.name}: {code.meaning}" if code else f"code {number}"
