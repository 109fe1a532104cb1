"""The words of ``why``: for each kind of a sentence, named by its code, a template of its facts (``templates``).

They stand in ``sentences.txt``: to mend a sentence of ``why``, mend it there. The words for causes are in ``causes``.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Final

from .tables import tables

_TABLES: Final = tables(get_data(__package__, "sentences.txt"))
_MOVED: Final = "[ ({values})]<<[; {evidence}] ({source} -> {target} by {row})>>."
"""How every sentence on a transition of a slot ends."""
WORDS: Final[dict[str, str]] = {
    code: words + _MOVED if heading == "effects" else words
    for heading, table in _TABLES.items()
    for code, words in table.items()
}
"""Every code of a sentence with its words."""
ADVICE: Final = frozenset(_TABLES["advice"])  #: the codes of what the reader can do

TELLING: Final = frozenset(
    {"slot_suspends", "slot_retires", "slot_vacates", "slot_kills", "slot_job_killed", "slot_job_over", "slot_drains",
     "slot_matched_with", "slot_given_back", "claim_earmarked", "claim_waits", "drain_began", "drain_chosen",
     "drain_canceled", "machine_ends", "holder_silent", "slot_match_void", "log_slot_matched", "slot_backfills",
     "client_gone", "slot_backfill_ends"}
)  # fmt: skip
"""The codes of a slot's steps that explain what came after them."""
_EFFECTS: Final = {
    ("Claimed/Idle", "Claimed/Busy"): "slot_busy",
    ("Claimed/Suspended", "Claimed/Busy"): "slot_continues",
    ("Claimed/Retiring", "Claimed/Busy"): "slot_keeps",
    ("Claimed/Busy", "Claimed/Idle"): "slot_idles",
    ("Claimed/Cleaning", "Claimed/Idle"): "slot_idles",
    ("Claimed/Suspended", "Claimed/Idle"): "slot_idles",
    ("Claimed/Retiring", "Claimed/Idle"): "slot_idles",
    ("Preempting/Vacating", "Claimed/Idle"): "slot_passes",
    ("Preempting/Killing", "Claimed/Idle"): "slot_passes",
    ("Backfill/Busy", "Backfill/Idle"): "slot_backfill_waits",
    ("Backfill/Killing", "Backfill/Idle"): "slot_backfill_over",
}
_ARRIVALS: Final = {
    "Claimed/Suspended": "slot_suspends", "Claimed/Busy": "slot_busy", "Claimed/Retiring": "slot_retires",
    "Claimed/Idle": "slot_claimed", "Claimed/Cleaning": "slot_cleans",
    "Preempting/Vacating": "slot_vacates", "Preempting/Killing": "slot_kills",
    "Matched/Idle": "slot_matched",
    "Unclaimed/Idle": "slot_frees", "Unclaimed/Benchmarking": "slot_benchmarks",
    "Owner/Idle": "slot_owned", "Owner/Retiring": "slot_drains",
    "Drained/Retiring": "slot_drains", "Drained/Idle": "slot_drained",
    "Backfill/Idle": "slot_backfills", "Backfill/Busy": "slot_backfill_runs", "Backfill/Killing": "slot_backfill_ends",
}  # fmt: skip


_OF_JOBS: Final = frozenset({"slot_retires", "slot_vacates", "slot_kills"})  #: effects that there are on a job alone


def effect(source: str, target: str, job: str) -> str:
    """Name the sentence that tells what a transition of a slot does to the job that it has, if it has one."""
    code = _EFFECTS.get((source, target)) or _ARRIVALS.get(target, "slot_moved")
    return code if job or code not in _OF_JOBS else "slot_claim_ends"
