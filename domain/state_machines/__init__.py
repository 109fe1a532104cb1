"""What may happen to a slot, a job, a claim, a match and a drain: everything that decides where each of them goes.

For the slot there are its rows (``slot_rows``, ``slot_rows_htcondor_25``), which of them a message fires
(``slot_triggers``) and which of them the owner's policy (``slot_rules``, asking a ``slot_policy``), and what the slot
does on the way (``slot_actions``). The others need rows alone: ``job``, ``claim``, ``match``, ``drain``. ``dialects``
has what differs between HTCondor's manual and its daemons, ``hold_codes`` the codes of holds and evictions, ``machine``
what enforces the rows.

Nothing outside of this folder names a row by its number, or asks which dialect a pool has. Nothing in this folder reads
an ad, a log or a clock: what a rule or an action needs of a slot, it asks through ``SlotPolicy`` and
``SlotTransitions``, which ``startd`` answers.
"""

if __name__ != "poolbook.domain.state_machines":
    raise ImportError(f"import this folder as poolbook.domain.state_machines, not as {__name__}")

from .claim import CLAIM, claim_state
from .dialects import (
    DEFAULT_DIALECT,
    DIALECTS,
    HTCONDOR_25,
    MANUAL,
    Dialect,
    UnknownDialectError,
    classify,
    dialect_named,
)
from .drain import DRAIN
from .hold_codes import HOLD_CODES, VACATE_CODES, Code, goes_on_hold
from .job import LEFT, UNSUBMITTED
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
from .rows import Row
from .slot_rows import BORN, LETTERED, STATES, SlotRow, activity, state
from .slot_rows_htcondor_25 import DELETED

__all__ = [
    "BORN",
    "CLAIM",
    "DEFAULT_DIALECT",
    "DELETED",
    "DIALECTS",
    "DRAIN",
    "HOLD_CODES",
    "HTCONDOR_25",
    "LEFT",
    "LETTERED",
    "MANUAL",
    "MATCH",
    "STATES",
    "UNSUBMITTED",
    "VACATE_CODES",
    "Code",
    "Dialect",
    "Machine",
    "NotAllowed",
    "Row",
    "SlotRow",
    "UnknownDialectError",
    "activity",
    "claim_machine",
    "claim_state",
    "classify",
    "dialect_named",
    "drain_machine",
    "goes_on_hold",
    "job_machine",
    "match_machine",
    "match_state",
    "slot_machine",
    "state",
    "void_row",
]
