"""What may happen to a slot, a job, a claim, a match and a drain: tables that a person reads and a machine enforces.

Here stand the rows (``slot``, ``slot_htcondor``, ``job``, ``claim``, ``match``, ``drain``), the codes of holds and
evictions (``hold_codes``), what looks rows up (``tables``), enforces them (``machine``) and draws them (``diagrams``).
No policy lives here: which row is fired when is for what decides, and nothing here reads an ad, an expression, a log or
a clock.
"""

if __name__ != "poolbook.domain.state_machines":
    raise ImportError(f"import this folder as poolbook.domain.state_machines, not as {__name__}")

from .claim import CLAIM, claim_state
from .drain import DRAIN
from .hold_codes import HOLD_CODES, VACATE_CODES, Code, goes_on_hold
from .job import JOB_TABLES, LEFT, STATUS_NUMBERS, UNSUBMITTED
from .machine import (
    Machine,
    NotAllowed,
    claim_machine,
    drain_machine,
    job_machine,
    match_machine,
    slot_machine,
)
from .match import MATCH, match_state, void_row
from .rows import DIALECTS, HTCONDOR_25, MANUAL, Row, UnknownDialectError
from .slot_rows import BORN, LETTERED, STATES, activity, state
from .slot_rows_htcondor_25 import DELETED
from .slot_tables import SLOT_PAIRS, SLOT_TABLES, classify

__all__ = [
    "BORN",
    "CLAIM",
    "DELETED",
    "DIALECTS",
    "DRAIN",
    "HOLD_CODES",
    "HTCONDOR_25",
    "JOB_TABLES",
    "LEFT",
    "LETTERED",
    "MANUAL",
    "MATCH",
    "SLOT_PAIRS",
    "SLOT_TABLES",
    "STATES",
    "STATUS_NUMBERS",
    "UNSUBMITTED",
    "VACATE_CODES",
    "Code",
    "Machine",
    "NotAllowed",
    "Row",
    "UnknownDialectError",
    "activity",
    "claim_machine",
    "claim_state",
    "classify",
    "drain_machine",
    "goes_on_hold",
    "job_machine",
    "match_machine",
    "match_state",
    "slot_machine",
    "state",
    "void_row",
]
