"""Read the sentences of ``why`` from data files.

``sentences.txt`` has a template for each sentence code (``sentences.fill`` inserts the facts), ``slot_sentences.txt``
has the templates for transitions of slots and drains, ``causes.txt`` has a clause for each event cause and claim flag,
and ``rejections.txt`` has the reasons why a job gets no slot.
"""

from __future__ import annotations

from typing import Final

from ...domain.package_data import get_data, lines
from ...domain.state_machines import HOLD_CODES, activity
from ...domain.state_machines.hold_codes import VACATE_CODES


def tables(data: bytes) -> dict[str, dict[str, str]]:
    """Parse a data file. Return its tables by heading (a line ``[heading]``), each with its lines ``name: text`` as a
    dict. Lines that begin with ``#`` are comments."""
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
REPORTS: Final = _SLOTS["reports"]  #: the name of a daemon's report about a slot -> its template
_MOVED: Final = "[ ({values})]<<[; {evidence}] ({source} -> {target} by {row})>>."
"""The end of each sentence about a slot transition."""
WORDS: Final[dict[str, str]] = {
    **{code: words for table in _TABLES.values() for code, words in table.items()},
    **{f"row {key}": f"{words}{_MOVED}" for key, words in _SLOTS["rows"].items()},
    **{f"drain {row}": f"{words}." for row, words in _SLOTS["drain"].items()},
}
"""A sentence's code -> its template."""
ADVICE: Final = frozenset(_TABLES["advice"])  #: the codes of sentences that advise the user

EXPLAINS: Final = frozenset(" ".join(_SLOTS["explains"].values()).split())
"""The names (``step_name``) of a slot's steps that explain its later state."""
UNDOES: Final = {step: frozenset(undone.split()) for step, undone in _SLOTS["undoes"].items()}
"""A step -> the earlier steps that it undoes."""

_CAUSES: Final = tables(get_data(__package__, "causes.txt"))
UNNAMED: Final = {"by": "a user", "thing": "the slot or job"}
"""The user and the object of a request, if no record names them."""
CAUSES: Final[dict[str, str]] = {cause: words.format_map(UNNAMED) for cause, words in _CAUSES["causes"].items()}
"""A cause in ``events.CAUSE_CODES`` -> its clause."""
REJECTIONS: Final = tables(get_data(__package__, "rejections.txt"))
"""The reasons why a job gets no slot, and why a poll drains no machine."""
CLAIM_FLAGS: Final = _CAUSES["flags"]  #: a claim's flag -> its clause


def row_code(row: str, target: str, cause: str, job: str) -> str:
    """Return the code of the most specific sentence for a slot transition: by its row, target activity and cause, and
    by whether the slot has a job (`job` is empty if not)."""
    row_and_activity = f"{row}/{activity(target)}"
    keys = (f"{row_and_activity} {cause}", f"{row} {cause}", *([] if job else [f"{row} idle"]), row_and_activity, row)
    return next((f"row {key}" for key in keys if f"row {key}" in WORDS), "slot_moved")


def step_name(code: str) -> str:
    """Return the row in a sentence's code, such as "10" for "row 10/Killing". A row that undoes steps only with a
    certain cause keeps the cause. Other codes are returned unchanged."""
    kind, _, key = code.partition(" ")
    if kind not in ("row", "drain"):
        return code
    return key if key in UNDOES else key.partition(" ")[0].partition("/")[0]


def cause_words(cause: str, row: str = "", **placeholders: str) -> str:
    """Return the clause for the cause of an event, which may be a transition by a row; an unknown cause is returned
    unchanged. `placeholders` may give the user who made the request (``by``) and its object (``thing``)."""
    text = _CAUSES["rows"].get(f"{cause} {row}") or _CAUSES["causes"].get(cause)
    return cause if text is None else text.format_map({**UNNAMED, **placeholders})


def code_words(number: str) -> str:
    """Return a description of a hold or vacate code, or an empty string if the code is 0 or not a number."""
    if not number.isdecimal() or number == "0":
        return ""
    code = HOLD_CODES.get(int(number)) or VACATE_CODES.get(int(number))
    return f"code {number}, {code.name}: {code.meaning}" if code else f"code {number}"
