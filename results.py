"""The classes of the parts of results: what `Audit`, `Verification` and `ImportResult` contain, and what `open` of
`AsyncPool` and `AsyncLog` returns.

>>> problems: list[results.Problem] = log.verify().seal
"""

from .adapters.condor_files.importing.driver import SourceCounts
from .adapters.library.aio import Opening
from .adapters.stores.verification import Problem
from .replay.audit_result import (
    AuditFinding,
    Contradiction,
    MissingRecords,
    SourceValue,
    UnaccountedTime,
    UnreadRecord,
)
from .replay.moments.changes import Change
from .replay.recheck_cycles import RecheckDifference, RecheckedCycles
from .replay.validation import ValidationResult

__all__ = [
    "AuditFinding",
    "Change",
    "Contradiction",
    "MissingRecords",
    "Opening",
    "Problem",
    "RecheckDifference",
    "RecheckedCycles",
    "SourceCounts",
    "SourceValue",
    "UnaccountedTime",
    "UnreadRecord",
    "ValidationResult",
]
