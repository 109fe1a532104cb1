"""The rules that hold in every log, by name, and the tables for single words."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from ...domain.package_data import get_data
from ...domain.state_machines import HTCONDOR_25
from ..narration.sentence_tables import tables

_TABLES: Final = tables(get_data(__package__, "rules.txt"))
RULES: Final = _TABLES["rules"]  #: every rule that a violation may name
REASONS: Final = ("rank", "priority")  #: why a claimed slot may be matched

ASKED: Final = frozenset(
    {"submitted", "user_hold", "user_release", "user_remove", "user_edit", "user_vacate", "vacate_command",
     "suspend_command", "continue_command", "drain_command", "granted", "run_now"}
)  # fmt: skip
"""The causes that are a request: its answer is in the log under the same stimulus."""


class SlotNeeds(NamedTuple):
    """The needs of a slot in a state and activity at the end of a stimulus."""

    claim: bool
    job: bool | None
    match: bool | None  #: None: either


def _slot_needs(pair: str) -> SlotNeeds:
    state, _, activity = pair.partition("/")
    claim = state in ("Claimed", "Preempting")
    job: bool | None = state == "Preempting" or (state == "Claimed" and activity in ("Busy", "Suspended", "Retiring"))
    if activity == "Cleaning":  # the job has ended, its starter has not
        job = None
    # A slot without a notification of its match can still be matched until it is claimed, or waited for.
    match_need = (
        claim
        or state == "Backfill"
        or pair in ("Owner/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Drained/Retiring")
    )
    return SlotNeeds(claim, job, True if state == "Matched" else None if match_need else False)


NEEDS: Final[dict[str, SlotNeeds]] = {pair: _slot_needs(pair) for pair in HTCONDOR_25.state_activities}


class Outcome(NamedTuple):
    rows: tuple[str, ...]  #: the rows that may follow while the job runs
    signalled: bool | None  #: the processes had been signalled to end; None: either


def _outcome(row: str) -> Outcome:
    rows, _, is_signalled = row.partition(" | ")
    return Outcome(tuple(rows.split()), {"signalled": True, "not signalled": False}.get(is_signalled))


OUTCOMES: Final = {tuple(ends.split()): _outcome(row) for ends, row in _TABLES["outcomes"].items()}
"""By outcome and cause of a run's end."""


# Requests to machines

ENDS: Final[dict[str, tuple[str, ...]]] = {"resume": ("resume", "reconfig"), "stop": ("exit", "restart")}
"""The rows by which a complete drain continues without a request, and the request for each."""
SHUTDOWNS: Final = ("Peaceful", "Graceful", "Fast")  #: how a startd may end, the gentlest first

# What expressions decide

Truth: TypeAlias = bool | None  #: None: neither true nor false, as of undefined


class DecidingExpressions(NamedTuple):
    """The expressions that may decide a transition, by their names in small letters, and the truths that do."""

    names: tuple[str, ...]
    truths: tuple[Truth, ...]
    always: bool = True  #: evidence is required where the expression reads what every slot has


def _deciding_expressions(row: str) -> DecidingExpressions:
    names, truth_texts, *options = row.split(" | ")
    return DecidingExpressions(tuple(names.split()), tuple(_TRUTHS[text] for text in truth_texts.split()), not options)


_TRUTHS: Final[dict[str, Truth]] = {"true": True, "false": False, "undefined": None}


DECIDED: Final = {cause: _deciding_expressions(row) for cause, row in _TABLES["decided"].items()}
"""The transitions that expressions decide, by cause."""
OWN_POLICY: Final = {
    row: {wanted.names[0]: wanted.truths}
    for row, words in _TABLES["own policy"].items()
    if (wanted := _deciding_expressions(words))
}
"""The truths by which the expression of a job's own policy decides a transition: at the end of a run, and behind it."""

WITHOUT: Final[dict[str, Truth]] = {"onexithold": False, "onexitremove": True, "leavejobinqueue": False}
"""The truth for a job without the expression."""

VARIANT: Final = "_vanilla"  #: the suffix of policy expressions for jobs of the vanilla universe

ALWAYS_READ: Final = frozenset(
    {"state", "activity", "enteredcurrentstate", "enteredcurrentactivity", "mycurrenttime", "keyboardidle",
     "consoleidle", "loadavg", "condorloadavg", "totalloadavg", "totalcondorloadavg", "clockmin", "clockday",
     "cpubusytime"}
)  # fmt: skip
"""Attributes that every slot always has, in small letters: an expression that reads one has evidence."""
