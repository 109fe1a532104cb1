"""The state machines of slots, jobs, claims, matches and drains.

Each has a table of rows (``rows.txt``), which ``machine`` enforces. A slot's rows are fired by messages
(``slot_triggers``) or by the owner's policy (``slot_rules``), and have entry and exit actions (``slot_actions``).
``dialects`` defines the differences between HTCondor's manual and its daemons; ``hold_codes`` defines the codes of
holds and evictions.

No code outside this package names a row by its number or checks a pool's dialect. No code in this package reads an ad,
a log or a clock: rules and actions use the protocols ``SlotPolicy`` and ``SlotTransitions``, which ``startd``
implements.
"""

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
from .hold_codes import HOLD_CODES, VACATE_CODES, ReasonCode, goes_on_hold
from .job_rows import LEFT, UNSUBMITTED
from .machine import (
    NotAllowed,
    StateMachine,
    claim_machine,
    drain_machine,
    job_machine,
    letter_machine,
    match_machine,
    slot_machine,
)
from .match import MATCH, match_state, void_row
from .rows import TransitionRow
from .slot_rows import DELETED, INITIAL_PAIR, LETTERED, STATES, SlotRow, activity, state

__all__ = [
    "CLAIM", "DEFAULT_DIALECT", "DELETED", "DIALECTS", "DRAIN", "HOLD_CODES", "HTCONDOR_25", "INITIAL_PAIR", "LEFT",
    "LETTERED", "MANUAL", "MATCH", "STATES", "UNSUBMITTED", "VACATE_CODES", "Dialect", "NotAllowed", "ReasonCode",
    "SlotRow", "StateMachine", "TransitionRow", "UnknownDialectError", "activity", "claim_machine", "claim_state",
    "classify", "dialect_named", "drain_machine", "goes_on_hold", "job_machine", "letter_machine", "match_machine",
    "match_state", "slot_machine", "state", "void_row",
]  # fmt: skip
