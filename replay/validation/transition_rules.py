"""The rules for every log by name, and the tables that the checks use (``rules.txt``)."""

from __future__ import annotations

from functools import cache
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
"""The causes of events that only a request can cause, so the same stimulus must have a ``RequestAnswered``."""


_OWNERS: Final = _TABLES["owners"]
ALSO_WRITTEN: Final = {role: frozenset(kinds.split()) for role, kinds in _TABLES["also written"].items()}
"""The names of other roles' events that a role also writes without having read them."""


@cache
def owner_of(kind: type) -> str:
    """Return the role that decides a kind of event, or an empty string if each role does."""
    return next((_OWNERS[base.__name__] for base in kind.__mro__ if base.__name__ in _OWNERS), "")


class SlotNeeds(NamedTuple):
    """What a slot must have in a state and activity at the end of a stimulus. None means that both are allowed."""

    claim: bool
    job: bool | None
    match: bool | None


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
    rows: tuple[str, ...]  #: the rows that the job's transition may have
    signalled: bool | None  #: whether the processes had been signalled to end; None: either


def _outcome(row: str) -> Outcome:
    rows, _, is_signalled = row.partition(" | ")
    return Outcome(tuple(rows.split()), {"signalled": True, "not signalled": False}.get(is_signalled))


OUTCOMES: Final = {tuple(ends.split()): _outcome(row) for ends, row in _TABLES["outcomes"].items()}
"""What must agree with the outcome and the cause of a run's end, by that outcome and cause."""


# Requests to machines

ENDS: Final[dict[str, tuple[str, ...]]] = {"resume": ("resume", "reconfig"), "stop": ("exit", "restart")}
"""The completion actions that may have been requested, by the row that ends a complete drain."""
SHUTDOWNS: Final = ("Peaceful", "Graceful", "Fast")  #: shutdown modes, the gentlest first

Truth: TypeAlias = bool | None  #: None: neither true nor false, for example undefined


class DecidingExpressions(NamedTuple):
    """The expressions that may decide a transition, by lower-case name, and the truth values that lead to it."""

    names: tuple[str, ...]
    truths: tuple[Truth, ...]
    always: bool = True  #: whether evidence is required if the expression reads an attribute of every slot


def _deciding_expressions(row: str) -> DecidingExpressions:
    names, truth_texts, *options = row.split(" | ")
    return DecidingExpressions(tuple(names.split()), tuple(_TRUTHS[text] for text in truth_texts.split()), not options)


_TRUTHS: Final[dict[str, Truth]] = {"true": True, "false": False, "undefined": None}


DECIDED: Final = {cause: _deciding_expressions(row) for cause, row in _TABLES["decided"].items()}
"""The expressions that decide a slot transition, by the transition's cause."""
OWN_POLICY: Final = {
    row: {wanted.names[0]: wanted.truths}
    for row, words in _TABLES["own policy"].items()
    if (wanted := _deciding_expressions(words))
}
"""The job's policy expression that decides a job transition, and the truth values that lead to it, by row."""

WITHOUT: Final[dict[str, Truth]] = {"onexithold": False, "onexitremove": True, "leavejobinqueue": False}
"""The truth value of a policy expression that a job does not have."""

VARIANT: Final = "_vanilla"  #: the suffix of policy expressions for jobs of the vanilla universe

ALWAYS_READ: Final = frozenset(
    {"state", "activity", "enteredcurrentstate", "enteredcurrentactivity", "mycurrenttime", "keyboardidle",
     "consoleidle", "loadavg", "condorloadavg", "totalloadavg", "totalcondorloadavg", "clockmin", "clockday",
     "cpubusytime"}
)  # fmt: skip
"""Lower-case names of attributes of every slot. A decision by an expression that reads one must have evidence."""
