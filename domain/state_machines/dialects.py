"""The two behaviours of a pool: as HTCondor's manual says, or as HTCondor 25's daemons do.

All differences stand here: a table of each, and a named field where no table can say it. Code asks for a difference by
its name, never for the dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from ..errors import PoolbookError
from .job import JOB, JOB_HTCONDOR_25, JOB_STATUS_NUMBERS, JOB_STATUS_NUMBERS_HTCONDOR_25
from .rows import Row, states
from .slot_rows import NUMBERED, NUMBERED_HTCONDOR_25, STATE_ACTIVITIES
from .slot_rules import RULES, RULES_HTCONDOR_25, Rules
from .slot_triggers import TRIGGERS, TRIGGERS_HTCONDOR_25, Steps, Triggers


class Dialect(NamedTuple):
    name: str
    slot_rows: tuple[Row, ...]
    state_activities: tuple[str, ...]  #: every state/activity of a slot, the manual's first
    triggers: Triggers
    rules: Rules
    job_rows: tuple[Row, ...]
    job_status_numbers: Mapping[str, int]  #: status -> JobStatus

    informs_startd_of_matches: bool
    """The negotiator tells slots of their matches (NEGOTIATOR_INFORM_STARTD, off by default in the real pool)."""
    limits_matches_of_submitters: bool
    """A submitter gets at most MAX_CONCURRENT_UPLOADS_PER_USER matches in a spin
    (SCHEDD_ENABLE_PER_USER_MATCH_LIMITS)."""
    preempts_only_worse_priorities: bool
    """A slot is preempted only for a better priority. The real negotiator leaves that to PREEMPTION_REQUIREMENTS."""
    preempts_idle_claims: bool
    """Claims without a job count as slots that may be preempted, as for the real negotiator."""
    takes_job_rank_for_missing_rank: bool
    """A slot without a RANK takes the job's own Rank of the slot: the real startd looks up in the job what the slot's
    ad lacks (Resource::compute_rank). The manual: it values all jobs alike."""
    shares_load_by_cores: bool
    """A slot takes as much of the owner's load as it has cores, and the rest belongs to nobody (the real startd); else
    at most 1.0 in a turn (the manual, "Load Average for Multi-core Machines")."""
    hides_true_start: bool
    """A START that is locally true is left out of the public ad (the manual, "Machine States")."""
    drain_waits_for_longest_retirement: bool
    """In a graceful drain all jobs may stay until the one with the longest retirement time must go (the manual,
    "Drained State"). The real startd evicts a job earlier if its own retirement is over."""
    better_match_survives_shutdown: bool
    """A waiting better match takes its slot over although the machine is being shut down, as with the real startd."""
    ends_idle_startd_at_once: bool
    """A startd that is shut down while it runs no job ends at once, with its claims, as the real startd does."""

    def steps(self, trigger: str, state_activity: str) -> Steps:
        """Return the rows that the trigger fires from there; empty: nothing changes."""
        return self.triggers.get(trigger, {}).get(state_activity, ())


MANUAL: Final = Dialect(
    name="manual",
    slot_rows=NUMBERED,
    state_activities=STATE_ACTIVITIES,
    triggers=TRIGGERS,
    rules=RULES,
    job_rows=JOB,
    job_status_numbers=JOB_STATUS_NUMBERS,
    informs_startd_of_matches=True,
    limits_matches_of_submitters=False,
    preempts_only_worse_priorities=True,
    preempts_idle_claims=False,
    takes_job_rank_for_missing_rank=False,
    shares_load_by_cores=False,
    hides_true_start=True,
    drain_waits_for_longest_retirement=True,
    better_match_survives_shutdown=False,
    ends_idle_startd_at_once=False,
)
"""The manual's behaviour, and nothing else."""

HTCONDOR_25: Final = Dialect(
    name="htcondor-25",
    slot_rows=NUMBERED_HTCONDOR_25,
    state_activities=states(NUMBERED_HTCONDOR_25, *STATE_ACTIVITIES),
    triggers=TRIGGERS_HTCONDOR_25,
    rules=RULES_HTCONDOR_25,
    job_rows=JOB_HTCONDOR_25,
    job_status_numbers=JOB_STATUS_NUMBERS_HTCONDOR_25,
    informs_startd_of_matches=False,
    limits_matches_of_submitters=True,
    preempts_only_worse_priorities=False,
    preempts_idle_claims=True,
    takes_job_rank_for_missing_rank=True,
    shares_load_by_cores=True,
    hides_true_start=False,
    drain_waits_for_longest_retirement=False,
    better_match_survives_shutdown=True,
    ends_idle_startd_at_once=True,
)
"""The behaviour of HTCondor 25's daemons, also where they go beyond the manual."""

DIALECTS: Final[Mapping[str, Dialect]] = {one.name: one for one in (MANUAL, HTCONDOR_25)}
DEFAULT_DIALECT: Final = MANUAL.name


class UnknownDialectError(PoolbookError, ValueError):
    def __init__(self, dialect: str) -> None:
        super().__init__(f"there is no dialect {dialect!r}: choose one of {', '.join(DIALECTS)}")
        self.dialect = dialect


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name.

    :raises UnknownDialectError: there is none
    """
    if name not in DIALECTS:
        raise UnknownDialectError(name)
    return DIALECTS[name]


@cache
def _rows_by_step(name: str) -> dict[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in DIALECTS[name].slot_rows:
        for step in row.steps:
            found[step] = (*found.get(step, ()), row)
    return found


def classify(dialect: Dialect, source: str, target: str) -> tuple[Row, ...]:
    """Return the rows that lead from one state/activity to another: one, or none if the dialect forbids it."""
    return _rows_by_step(dialect.name).get((source, target), ())
