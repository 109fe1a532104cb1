"""The causes that end a run before its job completes: one complete table, for a pool's events and HTCondor's records.

A cause is found from Poolbook's events (``own``, keys of ``events.CAUSES``), from HTCondor's vacate codes (``codes``:
entry 004, VacateReasonCode; codes below 1000 are hold codes), or from a startd's reason for a transition (``REASONS``).
A general cause (``is_weak``: the access point ended the run, the connection broke) is used only if no other record of
the same end has a more specific one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...domain.state_machines.hold_codes import FIRST_VACATE_CODE
from ..narration.sentence_tables import cause_words


class Cause(NamedTuple):
    """Why a run was ended: a name for programs, and a text for users."""

    name: str
    clause: str
    own: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    is_weak: bool = False
    of_job: bool = False  #: whether the job was held or removed, rather than only its run ended


# fmt: off
_TABLE: Final = (
    Cause("priority", "a user with a better priority was given the slot", codes=(1019,)),
    Cause("rank", "the machine's RANK preferred another job", codes=(1018,)),
    Cause("preempted", "another job was given the slot", ("better_match", "pslot_preemption")),
    Cause("preempt", "the machine's PREEMPT was true", ("preempt",), (1011,)),
    Cause("owner", "the machine's owner came back", ("is_owner",)),
    Cause("drained", "the machine was drained", ("drain_command", "defrag", "slots_changed", "draining"), (1014,)),
    Cause("shutdown", "the machine or its startd was shut down", ("shutdown", "machine_left"), (1013, 1016, 1037)),
    Cause("device", "a device of the slot failed", ("device_failed",)),
    Cause("vacated", "a user asked for the slot or job to be vacated", ("vacate_command", "user_vacate", "run_now"),
          (1004, 1010, 1015, 1022)),
    Cause("stopped", "the pool was stopped"),
    Cause("policy", "the periodic_vacate of the job or of its access point was true",
          ("periodic_vacate", "system_periodic_vacate"), (1000, 1001)),
    Cause("held", "the job was put on hold",
          ("user_hold", "held_by_machine", "limit_exceeded", "periodic_hold", "system_periodic_hold", "job_duration",
           "execute_duration", "timer_undefined"), of_job=True),
    Cause("transfer", "its files could not be transferred", ("transfer_failed",)),
    Cause("missed", "its deferral time had passed", ("deferral_missed",)),
    Cause("removed", "the job was removed",
          ("user_remove", "periodic_remove", "system_periodic_remove", "timer_remove"), (1023,), of_job=True),
    Cause("requeued", "the job ended, and on_exit_remove had it run again"),
    Cause("lease", "the claim's lease expired: its holder and the startd lost contact", ("lease_over",)),
    Cause("daemon", "a daemon died or failed", codes=(1002, 1007, 1012)),
    Cause("lost", "its process vanished, for example in a power failure", ("lost",)),
    Cause("not_started", "the job could not be started", ("execution_failed",),
          (1003, 1006, 1020, 1021, 1024, *range(1026, 1037))),
    Cause("disconnected", "the connection broke and could not be restored", codes=(1008,), is_weak=True),
    Cause("given_back", "the access point ended the run", ("released", "deactivated"), (1009, 1017, 1025),
          is_weak=True),
    Cause("unknown", "no record says why", codes=(1005,), is_weak=True),
)
# fmt: on
CAUSES: Final[dict[str, Cause]] = {cause.name: cause for cause in _TABLE}  #: every cause of an eviction, by its name
UNKNOWN: Final = CAUSES["unknown"]
TRANSFER_CODES: Final = frozenset({12, 13, 32, 33})  #: the hold codes of files that could not be transferred
_STOPPING: Final = "stop-"  #: the prefix of the stimuli with which a server stops
_OWN: Final = {word: cause for cause in _TABLE for word in cause.own}
_CODES: Final = {code: cause for cause in _TABLE for code in cause.codes}

# A startd's reasons for transitions; the first match is used: HTCondor's text, the cause in a pool's event, the cause
# of the eviction (if it is one), and the description if it differs from the first cause's (``narration/causes.txt``).
REASONS: Final = (
    ("retirement ended/expired reverting to", "claim_failed", "", "the startd rejected the new claim"),
    ("RELEASE_CLAIM command from preempting", "better_match_gone", "", ""),
    ("preempting claim based on user priority", "better_match", "priority",
     "the negotiator gave the slot to a user with a better priority"),
    ("preempting claim based on machine rank", "better_match", "rank", "the slot's RANK prefers another job"),
    ("unretiring", "better_match_gone", "", ""),
    ("No preempting claim", "claim_over", "", ""),
    ("preempting claim exists", "better_match_taken", "preempted", ""),
    ("preempting claim refused", "better_match_refused", "", ""),
    ("preempting claim", "better_match", "preempted", "another job was given the slot"),
    ("preempting idle claim", "better_match", "preempted", "another job was given the slot"),
    ("WANT_VACATE", "retirement_over", "preempt", "PREEMPT became true, and the job's retirement time is over"),
    ("KILL is TRUE", "kill", "", ""),
    ("PREEMPT is TRUE", "preempt", "preempt", ""),
    ("CONTINUE is TRUE", "continue", "", ""),
    ("SUSPEND is TRUE", "suspend", "", ""),
    ("IS_OWNER is TRUE", "is_owner", "owner", ""),
    ("no longer draining", "drain_over", "", ""),
    ("draining is complete", "drained", "drained", ""),
    ("draining", "draining", "drained", ""),
    ("entering Drained", "draining", "drained", ""),
    ("shutdown", "shutdown", "shutdown", ""),
    ("VACATE_CLAIM", "vacate_command", "vacated", "a user asked for the slot to be vacated"),
    ("VACATE_ALL", "vacate_command", "vacated", "a user asked for all slots to be vacated"),
    ("SUSPEND_CLAIM", "suspend_command", "", "a user asked for the job to be suspended"),
    ("CONTINUE_CLAIM", "continue_command", "", "a user asked for the job to continue"),
    ("lease expired", "lease_over", "lease", ""),
    ("deactivate_claim_job_done", "job_ended", "given_back", "the job was done"),
    ("RELEASE_CLAIM", "released", "given_back", ""),
    ("deactivate_claim", "deactivated", "given_back", ""),
    ("claim retirement ended", "retirement_over", "", ""),
    ("CLAIM_WORKLIFE", "worklife", "", ""),
    ("match timed out", "match_timeout", "", ""),
    ("claiming protocol failed", "claim_failed", "", ""),
    ("EVICT_BACKFILL", "evict_backfill", "", ""),
    ("starter exited", "job_ended", "", ""),
)  # fmt: skip


def _reason(text: str) -> tuple[str, str, str, str]:
    lower = text.lower()
    return next((reason for reason in REASONS if reason[0].lower() in lower), ("", "", "", ""))


def cause_of_move(reason: str) -> str:
    """Return the cause in a pool's event that matches a startd's reason for a transition; "" if the table has none."""
    return _reason(reason)[1]


def reason_meaning(reason: str) -> str:
    """Return a plain description of a startd's reason, or "" if the table has none."""
    _, code, _, text = _reason(reason)
    return text or (cause_words(code) if code else "")


def cause_of_reason(reason: str) -> Cause | None:
    """Return the cause of an eviction for a startd's reason, or None if there is none."""
    return CAUSES.get(_reason(reason)[2])


def cause_of_code(text: str, is_held: bool = True) -> Cause | None:
    """Return the cause for an HTCondor vacate or hold code, or None if the code has no cause or is not a number.
    `is_held` is False if a job with a hold code cools down or waits again instead of being held."""
    if not text.isdecimal() or not int(text):
        return None
    if int(text) >= FIRST_VACATE_CODE:
        return _CODES.get(int(text))
    return CAUSES["held"] if is_held else CAUSES["transfer"] if int(text) in TRANSFER_CODES else CAUSES["given_back"]


def own_cause(word: str, stimulus: str = "") -> Cause | None:
    """Return the cause of an eviction from the word in a pool's event, or from the cause's name in an import, or None
    if there is none. A server that stops vacates all slots and jobs."""
    cause = _OWN.get(word) or CAUSES.get(word)
    return CAUSES["stopped"] if cause is CAUSES["vacated"] and stimulus.startswith(_STOPPING) else cause


def best_cause(causes: Iterable[Cause | None]) -> Cause:
    """Return the most specific cause: the first one that is not weak, or else the first one; ``unknown`` if there are
    none. `causes` must be sorted by reliability."""
    known_causes = [cause for cause in causes if cause is not None]
    return next((cause for cause in known_causes if not cause.is_weak), known_causes[0] if known_causes else UNKNOWN)
