"""The words for each cause that an event may name, and for each flag of a claim: one table of each.

A sentence has the effect first and its cause behind a colon, so the words of a cause are a clause of their own. Where
somebody asked for it, ``{by}`` is who, and ``{thing}`` what was to be vacated.
"""

from __future__ import annotations

from typing import Final

_WORDS: Final[dict[str, str]] = {
    # the pool and its machines
    "founded": "the log was begun",
    "writer": "another process took over the writing of the log",
    "configured": "the machine was configured so",
    "reconfigured": "the machine's configuration was read again",
    "evaluated": "an expression of the owner's policy was evaluated",
    "published": "the machine told the pool what had changed",
    "left": "the machine was taken out of the pool",
    "answered": "the request had been dealt with",
    # slots
    "not_owner": "IS_OWNER is not true, so the machine's owner lets jobs run",
    "is_owner": "IS_OWNER became true: the machine's owner needs it",
    "start_false": "START is false whatever the job",
    "run_benchmarks": "RUNBENCHMARKS became true",
    "first_benchmarks": "the machine has never run benchmarks, and RUNBENCHMARKS is not set to false",
    "benchmarks_done": "the benchmarks are done",
    "carved": "a match took a part of the partitionable slot",
    "merged": "its resources went back to the partitionable slot",
    "matched": "the negotiator found that slot and job accept each other",
    "claimed": "the access point claimed the slot that it had been given",
    "match_timeout": "nobody claimed the slot within MATCH_TIMEOUT",
    "match_void": "the job that the slot was matched with no longer waits",
    "activated": "the claim's holder started a job on it",
    "local": "the access point started it itself: it is of the local universe",
    "job_ended": "the job's processes are gone",
    "no_more_jobs": "no waiting job of the claim's holder fits the slot",
    "worklife": "the claim is older than CLAIM_WORKLIFE",
    "vacate_command": "{by} asked for {thing} to be vacated",
    "retirement_over": "the job's retirement time is over",
    "suspend": "SUSPEND became true",
    "continue": "CONTINUE became true",
    "preempt": "PREEMPT became true",
    "kill": "KILL became true",
    "better_match": "a better match waits for the slot",
    "retired_before": "the claim was already retiring irrevocably",
    "better_match_gone": "the better match or the drain for which the job retired is gone",
    "better_match_refused": "START is false for the job of the better match that waited",
    "better_match_taken": "the better match that waited takes over",
    "claim_failed": "the claiming failed",
    "released": "the claim's holder gave it up",
    "deactivated": "the claim's holder ended its job",
    "unheard": "the claim's holder is silent: its lease runs out",
    "heard": "the claim's holder was heard again",
    "lease_over": "the claim's holder has not been heard of for the length of the claim's lease",
    "drain_command": "{by} asked for the machine to be drained",
    "draining": "the machine drains",
    "drained": "every slot of the machine has been drained",
    "drain_over": "the machine no longer drains",
    "shutdown": "the execution point is shut down",
    "vacate_timeout": "the job did not end within MachineMaxVacateTime",
    "claim_over": "the claim ended and nobody was waiting to take it",
    "machine_left": "its machine was taken out of the pool",
    # jobs
    "submitted": "a user submitted it",
    "user_hold": "{by} asked for it to be held",
    "user_release": "{by} asked for it to be released",
    "user_remove": "{by} asked for it to be removed",
    "user_edit": "{by} changed its attributes",
    "user_vacate": "{by} asked for it to be vacated",
    "kill_timeout": "it did not end in the time that it was given",
    "evicted": "it was ended before it was done",
    "exited": "it ended by itself",
    "execution_failed": "it could not be started",
    "limit_exceeded": "it used more than it was given",
    "lost": "its process vanished without a record, as when the machine loses power",
    "held_by_machine": "WANT_HOLD is true: the machine's owner has such jobs held",
    "measured": "its use of resources was measured",
    "negotiated": "a negotiation cycle was held",
    "accounted": "the priorities were brought up to date",
    "granted": "an administrator set it",
    "suspend_command": "{by} asked for it to be suspended",
    "continue_command": "{by} asked for it to go on",
    "left_queue": "nothing of it ran any more, and its LeaveJobInQueue was not true",
    # what was read of a real pool
    "reported": "a record of HTCondor's own says so",
    "read": "the import read so far",
    "refused": "the import could not read it",
}
NOBODY: Final = {"by": "somebody", "thing": "the slot or job"}
"""What stands in the words of a cause where nothing is known of who asked, and for what."""
CAUSES: Final[dict[str, str]] = {cause: words.format_map(NOBODY) for cause, words in _WORDS.items()}
"""Every cause of ``events.CAUSE_CODES`` with its words."""
CLAIM_FLAGS: Final[dict[str, str]] = {
    "irrevocable": "the claim retires irrevocably",
    "preempted": "PREEMPT was true: WANT_VACATE and WANT_HOLD count when the job is to go",
    "peaceful": "its job may run to its end, whatever its retirement time",
    "closing": "the claim was to end while its job cleaned up: it does when the job is gone",
    "by_command": "suspended by request: only a request lets it go on",
    "resumed": "a request let it go on",
    "drained": "its job ends because of a drain, and what it used counts as the drain's badput",
    "late": "accepted while the machine drained: it has no retirement time",
}
"""Every flag of a claim with its words."""


def cause_words(cause: str, **asked: str) -> str:
    """Put a cause into words; ``by`` and ``thing``: who asked for it, and of what. An unknown cause stays as it is."""
    words = _WORDS.get(cause)
    return cause if words is None else words.format_map({**NOBODY, **asked})
